"""Hardware counters to look at: lines that move while a model runs, and a table of what was seen.

A counter that does not exist is named with its reason and drawn nowhere; a reading that failed is a gap. What is
drawn as nothing but a base line was measured to be 0. The lines are sparklines of our own, not plotext's plots: at 80
columns every counter keeps one line, and nothing more needs to be installed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from winml.modelkit.console.layout import ABSENT, Block, Cell, Column, Lines, Row, Table
from winml.modelkit.console.words import size
from winml.modelkit.perf.phases import MEASURE_PHASE
from winml.modelkit.session.monitor.hw_source import DEVICE_COUNTERS

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from winml.modelkit.perf.document import Counter, Hardware
    from winml.modelkit.session.monitor.hw_monitor import Reading

__all__ = ["HardwareChart", "hardware_blocks", "spark"]

LABELS = {
    "process_cpu": "process CPU",
    "system_cpu": "system CPU",
    "process_rss": "process memory",
    "process_uss": "unique process memory",
    "system_memory": "system memory",
    "package_power": "CPU package power",
    "package_energy": "CPU package energy",
    "device_utilisation": "device use",
    "process_device_utilisation": "device use by process",
    "device_memory": "device memory",
    "process_device_memory": "device memory of process",
    "device_frequency": "device clock",
    "device_power": "device power",
    "device_energy": "device energy",
}
"""What counters are called; those that are missing here go by their name."""

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"
_LABEL = max(map(len, LABELS.values()))
_VALUE = 10
_MIN_SPARK, _MAX_SPARK = 8, 60
_COLUMNS: tuple[tuple[str, ...], ...] = (("now", "mean", "peak"), ("now", "peak"), ("now",))


def spark(values: Sequence[float | None], width: int, top: float, *, unicode: bool = True) -> str:
    """The last ``width`` values as one line of characters from 0 to ``top``; None is a gap.

    >>> spark([0.0, 50.0, None, 100.0], 8, 100.0, unicode=False)
    '_= #'
    """
    levels = _BLOCKS if unicode else _ASCII
    top = top or 1.0
    return "".join(
        " " if value is None else levels[min(len(levels) - 1, int(min(1.0, value / top) * len(levels)))]
        for value in values[-width:]
    )


class HardwareChart:
    """What a live display shows below its progress line: one line per counter that has been read.

    Args:
        latest: gives the counters now, as ``HardwareMonitor.latest`` does.
        unicode: the terminal has block characters.
    """

    def __init__(self, latest: Callable[[], Mapping[str, Reading]], *, unicode: bool = True) -> None:
        self._latest = latest
        self._unicode = unicode

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        readings = self._latest()
        if not readings:
            return
        # One cell stays free at the edge: some terminals wrap when it is written to.
        room = options.max_width - 1 - _LABEL - 3
        columns = next((names for names in _COLUMNS if room - _cells(names) >= _MIN_SPARK), ())
        width = min(max(_MIN_SPARK, room - _cells(columns)), _MAX_SPARK)
        head = Text(" " * (_LABEL + width + 3), style="dim", no_wrap=True, overflow="crop")
        head.append("".join(f" {name:>{_VALUE}}" for name in columns))
        yield head
        for name, reading in readings.items():
            line = Text(no_wrap=True, overflow="crop")
            line.append(f"{LABELS.get(name, name):{_LABEL}}  ", style="dim")
            drawn = spark(reading.recent, width, _top(reading), unicode=self._unicode)
            line.append(f"{drawn:>{width}} ", style="cyan")
            now = next((value for value in reversed(reading.recent) if value is not None), None)
            values = {"now": now, "mean": reading.mean, "peak": reading.peak}
            line.append("".join(f" {_value(values[column], reading.unit):>{_VALUE}}" for column in columns))
            yield line


def _cells(columns: Sequence[str]) -> int:
    return len(columns) * (_VALUE + 1)


def _top(reading: Reading) -> float:
    """What the highest level stands for: all of it for a share, else the highest value so far."""
    return max(100.0, reading.peak) if reading.unit.startswith("%") else reading.peak


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return ABSENT
    if unit == "bytes":
        return size(round(value))
    if unit.startswith("%"):
        return f"{value:.0f}%" if value >= 10 else f"{value:.1f}%"
    return f"{value:.0f} {unit}" if unit == "MHz" or value >= 1000 else f"{value:.1f} {unit}"


# --- afterwards ---------------------------------------------------------------------------------------------


def hardware_blocks(hardware: Hardware) -> Iterator[Block]:
    """What was seen: a table of the counters that exist, and why the others do not."""
    windows = [*_measured(hardware)]
    spent = hardware.times_s[-1] if hardware.times_s else 0.0
    table = Table(
        f"Hardware, sampled every {hardware.interval_s * 1000:.0f} ms over {spent:.1f} s, from outside the worker",
        [
            Column("Counter"),
            Column("n", right=True),
            Column("Mean", right=True),
            Column("Peak", right=True),
            Column("While measuring", right=True),
        ],
        empty="nothing was sampled",
    )
    missing: dict[str, list[str]] = {}
    for name, counter in hardware.counters.items():
        label = LABELS.get(name, name)
        if counter.reason is not None:
            missing.setdefault(counter.reason, []).append(label)
            continue
        total = counter.unit == "J"
        during = _during(counter, windows)
        cells = [
            Cell(f"{label} ({counter.unit.removeprefix('% ')})" if counter.unit.startswith("% ") else label),
            Cell(str(sum(value is not None for value in counter.values))),
            Cell(_value(counter.mean, counter.unit)),
            Cell(f"{_value(counter.peak, counter.unit)}{' in all' if total else ''}"),
            Cell(_value(during, counter.unit), "strong" if during is not None else "dim"),
        ]
        table.rows.append(Row(cells))
    yield table
    if missing:
        lines = [Cell(f"{_joined(labels)}: {reason}", "dim") for reason, labels in missing.items()]
        yield Lines("Not available", lines)


def _joined(labels: Sequence[str]) -> str:
    everything = set(labels) == {LABELS[name] for name in DEVICE_COUNTERS}
    return "the device's own counters" if everything else ", ".join(labels)


def _measured(hardware: Hardware) -> Iterator[slice]:
    """The samples of every phase of timed runs.

    A phase begins with a sample, whose rates are those of the time before it, and ends with the sample that begins
    the next.
    """
    phases, times_s = hardware.phases, hardware.times_s
    for index, (name, begin) in enumerate(phases):
        if name == MEASURE_PHASE:
            end = bisect_left(times_s, phases[index + 1][1]) if index + 1 < len(phases) else len(times_s)
            yield slice(bisect_left(times_s, begin) + 1, end + 1)


def _during(counter: Counter, windows: Sequence[slice]) -> float | None:
    """Mean of the values within the windows; for an energy, how much it grew in them. None if there are too few."""
    within = [[value for value in counter.values[window] if value is not None] for window in windows]
    if counter.unit == "J":
        grown = []
        for window, values in zip(windows, within, strict=True):
            base = counter.values[window.start - 1 : window.start]
            if values and base and base[0] is not None:
                grown.append(values[-1] - base[0])
        return sum(grown) if grown else None
    flat = [value for values in within for value in values]
    return sum(flat) / len(flat) if flat else None
