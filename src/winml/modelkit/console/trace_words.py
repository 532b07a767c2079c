"""An operator trace put into words, the same in the text report and in the HTML report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from statistics import fmean

from winml.modelkit.console.words import percent
from winml.modelkit.perf.assemble import format_ms
from winml.modelkit.perf.document import Trace, TraceOp, TraceType

__all__ = [
    "Coverage",
    "artefact_folder",
    "cost",
    "counted_in_us",
    "coverage",
    "coverage_words",
    "ep_name",
    "format_cycles",
    "format_us",
    "origin",
    "overhead_words",
    "per_inference",
    "place",
    "type_share",
    "unmapped_words",
]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Means over the traced inferences, in microseconds; None where not every inference has the figure.

    Attributes:
        inferences: how many there were.
        wall_us: a run as seen from outside.
        ep_us: what the EP says it was busy for.
        traced_us: the operators' sum.
        outside_us: time outside the EP, or outside the operators where the EP tells nothing.
    """

    inferences: int
    wall_us: float
    ep_us: float | None
    traced_us: float | None
    outside_us: float | None

    @property
    def share(self) -> float | None:
        """The operators' part of the run."""
        return self.traced_us / self.wall_us if self.traced_us is not None and self.wall_us > 0 else None


def coverage(trace: Trace) -> Coverage | None:
    """How much of the traced runs the operators account for; None where no inference was recorded."""
    times = trace.inferences
    if not times:
        return None
    return Coverage(
        len(times),
        fmean(time.wall_us for time in times),
        _mean(time.ep_us for time in times),
        _mean(time.traced_us for time in times),
        _mean(time.outside_us for time in times),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return fmean(known) if len(known) == len(found) else None


def coverage_words(found: Coverage) -> str:
    """The mean traced inference, split up."""
    wall = format_ms(found.wall_us / 1000)
    if found.traced_us is None:
        text = f"mean traced inference {wall}; the operators have no times, so their part of it is not known"
        return text if found.ep_us is None else f"{text}; the EP was busy for {format_ms(found.ep_us / 1000)}"
    parts = [f"operators {format_ms(found.traced_us / 1000)} ({percent(found.share)})"]
    where = "outside the operators"
    if found.ep_us is not None:
        where = "outside the EP"
    if found.ep_us is not None and found.ep_us != found.traced_us:
        parts.append(f"EP busy {format_ms(found.ep_us / 1000)} ({percent(_part(found.ep_us, found.wall_us))})")
    if found.outside_us is not None:
        rest = percent(_part(found.outside_us, found.wall_us))
        parts.append(f"{where} {format_ms(found.outside_us / 1000)} ({rest})")
    return f"mean traced inference {wall}: {', '.join(parts)}"


def _part(value: float, whole: float) -> float | None:
    return value / whole if whole > 0 else None


def overhead_words(trace: Trace) -> str | None:
    """What tracing cost, or None where that is not known."""
    if trace.overhead is None:
        return None
    cost = trace.overhead
    return (
        f"tracing: p50 {format_ms(cost.traced_p50_ms)} with it, {format_ms(cost.untraced_p50_ms)} without "
        f"({cost.ratio:.2f} times); latency figures are from untraced runs"
    )


def unmapped_words(trace: Trace) -> str | None:
    """How many operators stand for no known ONNX node, or None where all do."""
    if not trace.unmapped:
        return None
    return f"not mapped to ONNX nodes: {len(trace.unmapped)} of {len(trace.ops)} operators"


def origin(trace: Trace) -> str:
    """Who traced, at which level, and how many runs."""
    level = trace.level
    if trace.requested_level != trace.level:
        level += f" (asked for {trace.requested_level})"
    return f"{trace.monitor}, level {level}, {_runs(trace.iterations)} after {trace.warmup} for warm-up"


def _runs(count: int) -> str:
    return "1 traced inference" if count == 1 else f"{count} traced inferences"


def ep_name(name: str) -> str:
    """The EP without the words that all of them share.

    >>> ep_name("OpenVINOExecutionProvider")
    'OpenVINO'
    """
    return name.removesuffix("ExecutionProvider") or name


def place(op: TraceOp) -> str:
    """The EP, with the partition where there is one: ``OpenVINO #0``."""
    return ep_name(op.ep) + (f" #{op.partition}" if op.partition is not None else "")


def counted_in_us(ops: Iterable[TraceOp]) -> tuple[list[TraceOp], list[TraceOp]]:
    """Operators with microseconds, and those that have cycles only; the two can't be added up."""
    timed: list[TraceOp] = []
    counted: list[TraceOp] = []
    for op in ops:
        (counted if op.mean_us is None else timed).append(op)
    return timed, counted


def cost(op: TraceOp) -> float:
    """What the operator took in all: microseconds, or cycles where it has only those."""
    return (op.total_us if op.total_us is not None else op.total_cycles) or 0.0


def per_inference(total: float | None, trace: Trace) -> float | None:
    """A sum over the traced inferences as a mean."""
    return total / trace.iterations if total is not None and trace.iterations > 0 else None


def type_share(item: TraceType, trace: Trace) -> float | None:
    """The type's share of the traced time; of the cycles where no operator has a time."""
    in_us = any(other.total_us is not None for other in trace.types)
    return item.share if (item.total_us if in_us else item.total_cycles) is not None else None


def format_us(value: float | None) -> str:
    """Microseconds with one decimal below 1000.

    >>> format_us(12.34), format_us(4321.0), format_us(None)
    ('12.3', '4321', '-')
    """
    if value is None:
        return "-"
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def format_cycles(value: float | None) -> str:
    """Whole cycles."""
    return "-" if value is None else f"{value:.0f}"


def artefact_folder(trace: Trace) -> str | None:
    """The folder that holds every file of the trace, or None where there are none or they lie apart."""
    folders: Iterator[str] = (_parent(path) for path in trace.artefacts)
    found = set(folders)
    return found.pop() if len(found) == 1 else None


def _parent(path: str) -> str:
    """The document may have been written on another system."""
    return str((PureWindowsPath if "\\" in path else PurePosixPath)(path).parent)
