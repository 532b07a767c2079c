"""Reports on disk: a copy of every report in a per-user folder, and the one the user asked for."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from winml.modelkit.console.json_out import to_json
from winml.modelkit.errors import UsageError, WinMLError

if TYPE_CHECKING:
    from winml.modelkit.documents import Document

__all__ = ["check", "reports_folder", "save"]


def reports_folder() -> Path:
    """The per-user folder of reports."""
    return Path(platformdirs.user_data_dir("winml", appauthor=False)) / "reports"


def trace_folder(output: str | None, name: str) -> Path:
    """Where the artefacts of a trace go: beside the report the user asked for, else among the user's reports."""
    if output is not None:
        return Path(output).absolute().with_suffix(".trace")
    return reports_folder() / f"{_stem('perf', name)}.trace"


@functools.cache
def _stem(kind: str, name: str) -> str:
    """One name per command and model, so that a report and the files beside it can be paired."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:60] or "model"
    return f"{kind}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{plain}"


def check(output: str, *, overwrite: bool) -> None:
    """Refuse an output that cannot be written, before any work is done.

    Raises:
        UsageError: it exists and ``overwrite`` is off, it is a folder, or its folder cannot be made or written.
    """
    path = Path(output)
    try:
        if path.is_dir():
            raise UsageError(f"{output} is a folder", code="output_is_folder", hint="give a file name with -o")
        if path.exists() and not path.is_file():
            raise UsageError(f"{output} is not a regular file", code="output_not_regular", hint="give another name")
        if path.exists() and not overwrite:
            raise UsageError(
                f"{output} exists already", code="output_exists", hint="--overwrite replaces it; nothing was changed"
            )
        folder = path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise UsageError(f"{output}: {folder} is not a writable folder", code="output_not_writable")
    except (OSError, ValueError) as error:
        raise UsageError(f"{output} cannot be written: {error}", code="output_not_writable") from error


def save(document: Document, *, kind: str, name: str, output: str | None = None) -> Path | None:
    """Write the report to the per-user folder and, where asked for, to ``output``.

    Args:
        document: the report.
        kind: which command made it.
        name: what it is about, for the file name.
        output: further path, replaced as a whole; its folder is made.

    Returns:
        The path in the per-user folder, or None where that folder cannot be written (said on stderr).

    Raises:
        WinMLError: ``output`` could not be written; whatever stood there before is untouched.
    """
    text = to_json(document, ascii_only=False)
    if output is not None:
        write_text(output, text)
    folder = reports_folder()
    path = folder / f"{_stem(kind, name)}.json"
    try:
        _write(path, text)
    except OSError as error:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.write(f"no copy of the report was kept in {folder}: {error.strerror or error}\n")
        return None
    return path


def write_text(output: str, text: str) -> None:
    """Write a file the user named, as a whole; its folder is made.

    Raises:
        WinMLError: it could not be written; whatever stood there before is untouched.
    """
    try:
        _write(Path(output), text)
    except OSError as error:
        raise WinMLError(
            f"{output} was not written: {error.strerror or error}",
            code="output_failed",
            hint="the file that stood there before, if any, is as it was",
        ) from error


def _write(path: Path, text: str) -> None:
    """A temporary name in the same folder, then a rename: a reader sees the whole file or the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
