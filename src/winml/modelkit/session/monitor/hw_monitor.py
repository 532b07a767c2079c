"""Hardware counters over time, sampled in a thread of the process that waits, never in the one that is measured.

The parent of a worker starts one of these with the worker's pid, tells it the device once that is known, notes the
phases of the run, and takes the series at the end. Nothing a counter does can end or hold up the run: a source that
fails gives nulls, one that is slow is read less often, and a worker that dies leaves what was seen until then.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from winml.modelkit.session.monitor.hw_device import WatchedDevice
from winml.modelkit.session.monitor.hw_source import (
    COUNTERS,
    DEVICE_COUNTERS,
    TOTALS,
    ProcessGone,
    Source,
    Unavailable,
    why,
)

__all__ = ["HardwareMonitor", "Reading", "System", "WatchedDevice"]

INTERVAL_S = 0.1
_RECENT = 64
_BUSY_SHARE = 0.01
"""Share of one CPU's time that reading one source may take; one that costs more is read less often."""
_HEAVY_S = 0.01
"""A source whose last reading took this much CPU time is not read once more because a phase begins."""
_STOP_S = 2.0
"""How long the end waits for a reading that hangs in a driver."""
_NO_TARGET = "the target was not reached, so there is no device to watch"
_NOTHING = "nothing could be read before the end"
_ON_CPU = "the model ran on the CPU: see process_cpu and system_cpu"


@dataclass(frozen=True, slots=True)
class System:
    """Where counters are read; tests give folders and modules of their own.

    Attributes:
        platform: as ``sys.platform``.
        proc, sysfs: roots of the two file systems on Linux.
        nvml, pdh: the modules ``pynvml`` and ``win32pdh``; imported if None.
    """

    platform: str = sys.platform
    proc: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    nvml: Any = None
    pdh: Any = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One counter as a display needs it.

    Attributes:
        unit: one of those in ``COUNTERS``.
        recent: the last times it was due, oldest first; None where the reading failed.
        mean, peak: over everything read so far; the mean is None for a counter that only grows.
    """

    unit: str
    recent: list[float | None]
    mean: float | None
    peak: float


@dataclass(slots=True)
class _Series:
    """One counter that has a source."""

    source: Source
    values: list[float | None]
    recent: deque[float | None] = field(default_factory=lambda: deque(maxlen=_RECENT))
    count: int = 0
    total: float = 0.0
    peak: float = float("-inf")

    def add(self, value: float | None, *, due: bool) -> None:
        self.values.append(None if value is None else round(value, 3))
        if due:
            self.recent.append(value)
        if value is not None:
            self.count += 1
            self.total += value
            self.peak = max(self.peak, value)


@dataclass(slots=True)
class _Paced:
    """A source, and when it may be read next (``time.monotonic``)."""

    source: Source
    due: float = 0.0
    cost_s: float = 0.0

    def note(self, started: float, cost_s: float) -> None:
        # The smaller of two: the first reading imports, and some clocks of CPU time tick in steps of 16 ms.
        pause = max(self.source.every_s, min(self.cost_s, cost_s) / _BUSY_SHARE)
        self.due, self.cost_s = started + pause, cost_s


class HardwareMonitor:
    """Samples the counters of a process, the machine and a device until it is stopped or the process ends.

    Args:
        pid: the process to watch, as it names itself.
        device: the device that runs the model; ``watch`` tells it later where it is not known yet.
        interval_s: seconds between samples.
        system: where to read.
        sources: what to read instead of what this machine has.
    """

    def __init__(
        self,
        pid: int,
        device: WatchedDevice | None = None,
        interval_s: float = INTERVAL_S,
        *,
        system: System | None = None,
        sources: Sequence[Source] | None = None,
    ) -> None:
        self._pid = pid
        self._interval_s = interval_s
        self._system = system or System()
        self._given = sources
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._over = False
        self._device = device
        self._new_device = device is not None
        self._read_all = False
        self._origin: float | None = None
        self._times: list[float] = []
        self._marks: list[tuple[str, float]] = []
        self._paced: list[_Paced] = []
        self._series: dict[str, _Series] = {}
        self._reasons: dict[str, list[str]] = {}
        self._thread = threading.Thread(target=self._run, name="hardware-monitor", daemon=True)

    # --- the caller's side --------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Begin to sample."""
        self._thread.start()
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def watch(self, device: WatchedDevice) -> None:
        """From now on read this device's counters too; before, they are null. Only the first call counts."""
        if self._device is None:
            self._device, self._new_device = device, True
            self._wake.set()

    def mark(self, phase: str) -> None:
        """A phase of the run begins. Everything is read now, so that rates of the phases before and after are apart.

        Ignored once the process has ended: what comes then is not of this run.
        """
        with self._lock:
            if self._over:
                return
            self._marks.append((phase, time.monotonic()))
        self._read_all = True
        self._wake.set()

    def latest(self) -> dict[str, Reading]:
        """The counters that have been read by now."""
        with self._lock:
            return {
                name: Reading(COUNTERS[name], list(series.recent), _mean(name, series), series.peak)
                for name in COUNTERS
                if (series := self._series.get(name)) is not None and series.count
            }

    def stop(self) -> dict[str, Any]:
        """End, and give what was seen; may be called again.

        Returns:
            Plain data: ``interval_s``; ``times_s``, seconds since the first sample; ``counters`` by name, each with
            ``unit``, ``source``, ``values`` beside the times (None where it was not due or could not be read),
            ``mean``, ``peak`` (the total for an energy) and ``reason`` (why it does not exist; it then has no
            values); ``phases`` as pairs of name and second.
        """
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)
        with self._lock:
            origin = self._origin
            return {
                "interval_s": self._interval_s,
                "times_s": list(self._times),
                "counters": {name: self._counter(name) for name in COUNTERS},
                "phases": [
                    (name, 0.0 if origin is None else round(max(0.0, at - origin), 4)) for name, at in self._marks
                ],
            }

    def _counter(self, name: str) -> dict[str, Any]:
        series = self._series.get(name)
        absent: dict[str, Any] = {"unit": COUNTERS[name], "source": None, "values": [], "mean": None, "peak": None}
        if series is None:
            no_target = name in DEVICE_COUNTERS and self._device is None
            reasons = self._reasons.get(name) or [_NO_TARGET if no_target else _NOTHING]
            return {**absent, "reason": "; ".join(dict.fromkeys(reasons))}
        if series.count == 0:
            return {**absent, "reason": series.source.absent.get(name, _NOTHING)}
        mean = _mean(name, series)
        return {
            "unit": COUNTERS[name],
            "source": series.source.gives[name],
            "values": list(series.values),
            "mean": None if mean is None else round(mean, 3),
            "peak": round(series.peak, 3),
            "reason": None,
        }

    # --- the thread ---------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the run or print into its output
            with self._lock:
                _note(self._reasons, tuple(COUNTERS), f"the monitor failed: {why(error)}")
        finally:
            with self._lock:
                self._over = True
            for paced in self._paced:
                _quietly(paced.source.close)

    def _loop(self) -> None:
        self._add(system_sources(self._pid, self._system, self._reasons) if self._given is None else self._given)
        while True:
            self._wake.clear()
            if self._new_device and self._device is not None:
                self._new_device = False
                self._add(device_sources(self._pid, self._device, self._system, self._reasons))
            read_all, self._read_all = self._read_all, False
            started = time.monotonic()
            if not self._sample(started, read_all=read_all) or self._stopping:
                return
            self._wake.wait(max(0.0, started + self._interval_s - time.monotonic()))
            if self._stopping:
                return

    def _add(self, sources: Sequence[Source]) -> None:
        """Take what no source before gives."""
        with self._lock:
            for source in sources:
                self._paced.append(_Paced(source))
                for name in source.gives:
                    if name not in self._series:
                        self._series[name] = _Series(source, [None] * len(self._times))
                for name, reason in source.absent.items():
                    self._reasons.setdefault(name, []).append(reason)

    def _sample(self, started: float, *, read_all: bool) -> bool:
        """One sample of all that is due; False if the process has ended, and then nothing is noted."""
        read: dict[int, dict[str, float]] = {}
        for paced in self._paced:
            source = paced.source
            if started < paced.due and not (read_all and paced.cost_s < _HEAVY_S):
                continue
            begin = time.thread_time()
            try:
                read[id(source)] = source.read()
            except ProcessGone:
                return False
            except Exception as error:  # noqa: BLE001 - drivers fail in any way; a null and its reason is all it may cost
                read[id(source)] = {}
                source.absent.update(dict.fromkeys(source.gives, why(error)))
            paced.note(started, time.thread_time() - begin)
        with self._lock:
            if self._origin is None:
                self._origin = started
            self._times.append(round(started - self._origin, 4))
            for name, series in self._series.items():
                values = read.get(id(series.source))
                series.add(None if values is None else values.get(name), due=values is not None)
        return True


def _mean(name: str, series: _Series) -> float | None:
    return None if name in TOTALS else series.total / series.count


def _quietly(action: Callable[[], None]) -> None:
    try:
        action()
    except Exception:  # noqa: BLE001 - giving back a driver's handle may fail in any way, and nothing follows from it
        return


# --- what there is to read ----------------------------------------------------------------------------------


def system_sources(pid: int, system: System, reasons: dict[str, list[str]]) -> list[Source]:
    """The sources of the process and the machine. Why there is none goes into ``reasons``, by counter."""
    from winml.modelkit.session.monitor.hw_linux import RaplSource
    from winml.modelkit.session.monitor.hw_process import (
        ProcessSource,
        SystemSource,
        UniqueMemorySource,
        find_process,
    )

    found: list[Source] = []
    _try(found, reasons, ProcessSource, lambda: ProcessSource(find_process(pid)))
    _try(found, reasons, UniqueMemorySource, lambda: UniqueMemorySource(find_process(pid)))
    _try(found, reasons, SystemSource, SystemSource)
    if system.platform == "linux":
        _try(found, reasons, RaplSource, lambda: RaplSource(system.sysfs))
    else:
        _note(reasons, RaplSource.counters, "energy of the CPU is read on Linux only")
    return found


def device_sources(pid: int, device: WatchedDevice, system: System, reasons: dict[str, list[str]]) -> list[Source]:
    """The sources of one device. Why there is none goes into ``reasons``, by counter."""
    from winml.modelkit.session.monitor.hw_nvml import NVIDIA, NvmlSource

    found: list[Source] = []
    if device.kind == "cpu":
        _note(reasons, DEVICE_COUNTERS, _ON_CPU)
        return found
    if device.vendor_id == NVIDIA:
        _try(found, reasons, NvmlSource, lambda: NvmlSource(pid, device, system.nvml))
    if system.platform == "win32":
        from winml.modelkit.session.monitor.hw_windows import PdhSource

        _try(found, reasons, PdhSource, lambda: PdhSource(pid, device, system.pdh))
    elif system.platform == "linux":
        _linux(pid, device, system, reasons, found)
    else:
        _note(reasons, DEVICE_COUNTERS, f"no counters of devices are known on {system.platform}")
    return found


def _linux(pid: int, device: WatchedDevice, system: System, reasons: dict[str, list[str]], found: list[Source]) -> None:
    from winml.modelkit.session.monitor.hw_drm import DrmClientSource
    from winml.modelkit.session.monitor.hw_linux import AttributeSource, find_node, sysfs_source

    try:
        node = find_node(device, system.sysfs)
    except (Unavailable, OSError) as error:
        _note(reasons, DEVICE_COUNTERS, why(error))
        return
    _try(found, reasons, AttributeSource, lambda: sysfs_source(node))
    _try(found, reasons, DrmClientSource, lambda: DrmClientSource(pid, node.pci_address, system.proc))


def _try(found: list[Source], reasons: dict[str, list[str]], kind: type[Source], make: Callable[[], Source]) -> None:
    try:
        found.append(make())
    except Unavailable as error:
        _note(reasons, kind.counters, str(error))
    except Exception as error:  # noqa: BLE001 - a driver that fails in any way costs its counters, not the run
        _note(reasons, kind.counters, why(error))


def _note(reasons: dict[str, list[str]], counters: Sequence[str], reason: str) -> None:
    for name in counters:
        reasons.setdefault(name, []).append(reason)
