"""Facts about the machine: what it is, and how busy it was. Absent facts are None, never 0.

Linux is read from /proc and /sys directly (proc(5)), which costs no import; other systems through psutil.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

from winml.modelkit._version import __version__

RUNTIME_DISTRIBUTIONS = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-windowsml",
    "onnxruntime-migraphx",
    "onnxruntime-openvino",
)
"""Distributions that all install the import name ``onnxruntime``; two at once overwrite each other's files."""


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def available_cpus() -> int:
    """Logical CPUs this process may use: the affinity mask, cut down by a cgroup v2 or v1 quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_cpus()
    return max(1, min(allowed, int(quota))) if quota is not None else allowed


def _cgroup_cpus() -> float | None:
    """CPU quota of the cgroup in CPUs, or None where there is none (cgroups(7): cpu.max, cpu.cfs_quota_us)."""
    text = _read("/sys/fs/cgroup/cpu.max")
    if text is not None:
        quota, _, period = text.strip().partition(" ")
        return None if quota == "max" else float(quota) / float(period or 100000)
    quota_us, period_us = _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota_us is None or period_us is None or int(quota_us) <= 0:
        return None
    return int(quota_us) / int(period_us)


def physical_cores() -> int | None:
    """Physical cores of the machine (distinct ``physical id``/``core id`` pairs of /proc/cpuinfo), or None."""
    if sys.platform == "linux":
        text = _read("/proc/cpuinfo") or ""
        cores = set()
        package = "0"
        for line in text.splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "physical id":
                package = value.strip()
            elif key.strip() == "core id":
                cores.add((package, value.strip()))
        if cores:
            return len(cores)
    import psutil

    count = psutil.cpu_count(logical=False)
    return None if count is None else int(count)


def cpu_name() -> str | None:
    """The CPU's marketing name."""
    if sys.platform == "linux":
        for line in (_read("/proc/cpuinfo") or "").splitlines():
            if line.startswith(("model name", "Model Name")):
                return line.partition(":")[2].strip()
    if sys.platform == "win32":
        import winreg

        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
                return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
        except OSError:
            return None
    return platform.processor() or None


def memory_bytes() -> tuple[int | None, int | None]:
    """Total and available memory in bytes."""
    if sys.platform == "linux":
        found: dict[str, int] = {}
        for line in (_read("/proc/meminfo") or "").splitlines():
            key, _, rest = line.partition(":")
            if key in ("MemTotal", "MemAvailable"):
                found[key] = int(rest.split()[0]) * 1024
        return found.get("MemTotal"), found.get("MemAvailable")
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


def _os_name() -> str:
    if sys.platform == "linux":
        try:
            return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
        except OSError:
            return "Linux"
    if sys.platform == "win32":
        return f"Windows {platform.release()} {platform.version()}"
    return platform.system()


def package_version(name: str) -> str | None:
    """Version of an installed distribution, or None."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def runtime_distributions() -> dict[str, str]:
    """The installed distributions that provide ``onnxruntime``, with versions."""
    return {name: found for name in RUNTIME_DISTRIBUTIONS if (found := package_version(name)) is not None}


def machine_facts() -> dict[str, Any]:
    """What this machine and this Python are."""
    total, available = memory_bytes()
    return {
        "winml": __version__,
        "python": platform.python_version(),
        "os": _os_name(),
        "kernel": platform.release() or None,
        "machine": platform.machine() or None,
        "cpu": cpu_name(),
        "cpus_logical": os.cpu_count(),
        "cpus_physical": physical_cores(),
        "cpus_available": available_cpus(),
        "memory_bytes": total,
        "memory_available_bytes": available,
        "onnxruntime": runtime_distributions(),
    }


def load_sample() -> dict[str, Any]:
    """How busy the machine and this process are now; two samples give what happened in between.

    ``system_busy_s`` and ``steal_s`` are CPU seconds since boot over all CPUs, ``own_cpu_s`` this process's,
    ``frequency_mhz`` the mean over CPUs.
    """
    sample: dict[str, Any] = {
        "load_average": None,
        "system_busy_s": None,
        "steal_s": None,
        "own_cpu_s": sum(os.times()[:4]),
        "frequency_mhz": None,
        "affinity": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
    }
    if hasattr(os, "getloadavg"):
        sample["load_average"] = [round(value, 2) for value in os.getloadavg()]
    if sys.platform == "linux":
        _linux_load(sample)
    else:
        import psutil

        times = psutil.cpu_times()
        sample["system_busy_s"] = times.user + times.system
        frequency = psutil.cpu_freq()
        sample["frequency_mhz"] = frequency.current if frequency else None
    return sample


def _linux_load(sample: dict[str, Any]) -> None:
    fields = (_read("/proc/stat") or "").partition("\n")[0].split()[1:]
    if len(fields) >= 8:
        tick = os.sysconf("SC_CLK_TCK")
        user, nice, system, _idle, _iowait, irq, softirq, steal = (int(value) / tick for value in fields[:8])
        sample["system_busy_s"] = user + nice + system + irq + softirq
        sample["steal_s"] = steal
    speeds = [
        float(line.partition(":")[2])
        for line in (_read("/proc/cpuinfo") or "").splitlines()
        if line.startswith("cpu MHz")
    ]
    if speeds:
        sample["frequency_mhz"] = round(sum(speeds) / len(speeds), 1)
