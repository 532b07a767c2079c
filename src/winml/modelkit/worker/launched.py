"""A worker process that was started before the command was known. Imports next to nothing."""

from __future__ import annotations

import subprocess

_kept: list[tuple[subprocess.Popen[bytes], str]] = []


def keep(process: subprocess.Popen[bytes], log: str) -> None:
    """Leave a process and its log for ``take``; whoever started it ends it."""
    _kept.append((process, log))


def take() -> tuple[subprocess.Popen[bytes], str] | None:
    """The process that was left and its log, once."""
    return _kept.pop() if _kept else None
