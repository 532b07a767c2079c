"""What a source of hardware counters is, and the counters there are.

A source reads some counters of this machine, of one process or of one device. What it cannot give here it names with
the reason; such a counter has no values and is never 0.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

COUNTERS: Mapping[str, str] = {
    "process_cpu": "% of one CPU",
    "system_cpu": "% of all CPUs",
    "process_rss": "bytes",
    "process_uss": "bytes",
    "system_memory": "bytes",
    "package_power": "W",
    "package_energy": "J",
    "device_utilisation": "%",
    "process_device_utilisation": "%",
    "device_memory": "bytes",
    "process_device_memory": "bytes",
    "device_frequency": "MHz",
    "device_power": "W",
    "device_energy": "J",
}
"""Every counter by name, with its unit.

``process_*`` is the watched process with all its threads, without processes it started; ``system_memory`` is all
that is not available to programs; ``package_*`` are the CPU packages of the machine, whoever uses them;
``device_*`` is the whole device and ``process_device_*`` the watched process's part of it. Utilisation is that of
the busiest engine. Energies are joules since the first reading.
"""

TOTALS = frozenset({"package_energy", "device_energy"})
"""Counters that only grow: their last value counts, and their mean says nothing."""

DEVICE_COUNTERS: tuple[str, ...] = tuple(name for name in COUNTERS if "device_" in name)

MIN_WINDOW_S = 0.05
"""Shortest time a rate is taken over: CPU time counts in ticks of 10 ms."""

Clock = Callable[[], float]


class Unavailable(Exception):
    """A source does not exist here; the text says why."""


class ProcessGone(Exception):
    """The watched process has ended."""


class Source(abc.ABC):
    """Reads some counters.

    Attributes:
        counters: everything such a source can give.
        every_s: it is read at most once in so many seconds, and where a phase begins.
        gives: counters it reads here, with where they come from.
        absent: counters it does not read, or could not at the last attempt, with the reason.

    Raises:
        Unavailable: from the constructor, where it can give nothing here.
    """

    counters: ClassVar[tuple[str, ...]]
    every_s: ClassVar[float] = 0.0

    def __init__(self) -> None:
        self.gives: dict[str, str] = {}
        self.absent: dict[str, str] = {}

    @abc.abstractmethod
    def read(self) -> dict[str, float]:
        """What can be read now, by counter, in the units of ``COUNTERS``. Raises whatever goes wrong.

        A rate covers the time since the reading before and is missing from the first one.
        """

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Give back what it holds."""


class Growth:
    """How much a counter has grown since its first reading.

    Args:
        wraps_at: the value after which it starts at 0 again; None if it does not.
    """

    def __init__(self, wraps_at: float | None = None) -> None:
        self._wraps_at = wraps_at
        self._last: float | None = None
        self._total = 0.0

    def total(self, value: float) -> float:
        """Growth up to this reading. A smaller value than before is a wrap-around, or else waited out."""
        last = self._last
        if last is not None and value < last:
            if self._wraps_at is None:
                return self._total
            self._total += self._wraps_at - last + value
        elif last is not None:
            self._total += value - last
        self._last = value
        return self._total


class Rate:
    """Growth per second between readings."""

    def __init__(self) -> None:
        self._total = 0.0
        self._at: float | None = None

    def of(self, total: float, now: float) -> float | None:
        """The rate since the last reading that counted; None for the first, and for one too soon after it."""
        at = self._at
        if at is not None and now - at < MIN_WINDOW_S:
            return None
        rate = None if at is None else (total - self._total) / (now - at)
        self._total, self._at = total, now
        return rate


def read_number(file: Path) -> float:
    """The number a file of sysfs holds. Raises OSError or ValueError."""
    return float(file.read_text(encoding="ascii"))


def why(error: Exception, file: Path | None = None) -> str:
    """A failed reading in words."""
    what = f"{file}: " if file is not None else ""
    if isinstance(error, PermissionError):
        return f"{what}this user may not read it"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{what}{text or type(error).__name__}"
