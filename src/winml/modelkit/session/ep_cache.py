"""What the last look at each EP library found, so that automatic choice need not load them all every time.

An answer holds as long as the library's file, ONNX Runtime, the library search path, the devices in the system and the
boot are the same; a good answer for a day, a failure for five minutes. ``winml sys`` never reads it, and a run proves
its target again in any case: the cache can delay a better choice, never fake one.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import platformdirs

from winml.modelkit._version import __version__
from winml.modelkit.environment import RUNTIME_DISTRIBUTIONS
from winml.modelkit.session.ep_entry import EPEntry
from winml.modelkit.session.ep_isolation import EMULATOR, NO_DEVICE, USABLE, EPProbe

_GOOD_S = 24 * 3600.0
_FAILED_S = 300.0


def _file() -> Path:
    return Path(platformdirs.user_cache_dir("winml", appauthor=False)) / "ep-inventory.json"


def _machine() -> str:
    """A fingerprint of all that an answer depends on besides the library itself."""
    parts = [__version__, sys.version, os.environ.get("LD_LIBRARY_PATH", ""), os.environ.get("PATH", "")]
    for name in RUNTIME_DISTRIBUTIONS:
        try:
            parts.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    for folder in ("/sys/class/accel", "/sys/class/drm", "/dev/accel", "/dev/dri"):
        try:
            parts.append(f"{folder}: {' '.join(sorted(os.listdir(folder)))}")  # noqa: PTH208 - names are enough
        except OSError:
            continue
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
    except OSError:
        parts.append(str(int(time.time() - time.monotonic()) // 600))
    return "\n".join(parts)


def _key(entry: EPEntry, machine: str) -> str | None:
    size, mtime = 0, 0
    if entry.path is not None:
        try:
            stat = os.stat(entry.path)  # noqa: PTH116 - follows links on purpose, one call
        except OSError:
            return None
        size, mtime = stat.st_size, stat.st_mtime_ns
    text = f"{machine}\n{entry.ep_name}\n{entry.path}\n{size}\n{mtime}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def condense(probe: EPProbe) -> dict[str, Any]:
    """The part of a probe that choosing needs."""
    reason = probe.failure.reason if probe.failure is not None else None
    if probe.status == EMULATOR:
        reason = "only an emulator here"
    return {
        "status": probe.status,
        "devices": [d.device for d in probe.devices if d.usable and d.emulates is None],
        "reason": reason,
    }


def load(entries: Sequence[EPEntry]) -> dict[str, dict[str, Any]]:
    """Answers that still hold, by library path (or EP name for a bundled one)."""
    try:
        stored = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    machine = _machine()
    found = {}
    for entry in entries:
        key = _key(entry, machine)
        row = stored.get(key) if isinstance(stored, dict) and key else None
        if not isinstance(row, dict) or not {"status", "devices", "reason", "time"} <= row.keys():
            continue
        good = row["status"] in (USABLE, EMULATOR, NO_DEVICE)
        age = time.time() - float(row["time"])
        if 0 <= age <= (_GOOD_S if good else _FAILED_S):
            found[entry.path or entry.ep_name] = {key: row[key] for key in ("status", "devices", "reason")}
    return found


def store(probes: Sequence[EPProbe]) -> None:
    """Keep what was found; a cache that can't be written is no failure."""
    from filelock import FileLock, Timeout

    file = _file()
    machine = _machine()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock", timeout=2):
            try:
                stored = json.loads(file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                stored = {}
            now = time.time()
            kept = {k: r for k, r in stored.items() if isinstance(r, dict) and now - float(r.get("time", 0)) < _GOOD_S}
            for probe in probes:
                if (key := _key(probe.entry, machine)) is not None:
                    kept[key] = {**condense(probe), "time": now}
            temporary = file.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(json.dumps(kept), encoding="utf-8")
            temporary.replace(file)
    except (OSError, Timeout):
        return
