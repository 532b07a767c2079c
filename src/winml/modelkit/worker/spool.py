"""Files that catch what native code prints. A file, not a pipe: a library that writes megabytes must not block."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from winml.modelkit.worker import start

_KEEP = 200


def log_folder() -> Path:
    """The per-user folder of native logs, made on first use; one in the temporary folder where it can't be written."""
    folder = Path(start.log_folder())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        writable = os.access(folder, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        import tempfile

        folder = Path(tempfile.gettempdir()) / f"winml-logs-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def new_log(name: str) -> Path:
    """A new, empty log file; the oldest logs beyond a fixed number are removed."""
    folder = log_folder()
    _prune(folder)
    path = Path(start.log_path(str(folder), name))
    path.touch()
    return path


def _prune(folder: Path) -> None:
    logs = sorted(folder.glob("*.log"))
    for old in logs[: max(0, len(logs) - _KEEP)]:
        with contextlib.suppress(OSError):
            old.unlink()


def tail(path: Path, lines: int, *, limit: int = 16384) -> list[str]:
    """The last lines of a log without terminal colour codes, reading at most ``limit`` bytes from its end."""
    import re

    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - limit))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)
    return [line for line in plain.splitlines() if line.strip()][-lines:]
