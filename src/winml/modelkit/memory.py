"""Resident memory of this process, read without importing anything on Linux.

All figures are bytes. A figure that the platform does not give is None, never 0.
"""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


def rss_bytes() -> int | None:
    """Resident set size now: VmRSS of proc(5) on Linux, psutil elsewhere."""
    if sys.platform == "linux":
        return _status_kib("VmRSS")
    import psutil

    return int(psutil.Process().memory_info().rss)


def reset_peak() -> bool:
    """Start a new peak (writing 5 to /proc/self/clear_refs resets VmHWM, proc(5)); False where that can't be done."""
    if sys.platform != "linux":
        return False
    try:
        _CLEAR_REFS.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """Highest resident set size since ``reset_peak``: VmHWM; None where ``reset_peak`` does not work."""
    return _status_kib("VmHWM") if sys.platform == "linux" else None


def _status_kib(field: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None
