"""The one operator-trace schema, whatever EP the records come from.

Times are microseconds. A trace covers the traced inferences after warm-up. An operator's time is its own: what nested
graphs inside it (If, Loop, Scan) took is counted there. Accelerators that count cycles give those too; microseconds
made from cycles are marked as derived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class OpKey:
    """What makes two records one operator: its name within one partition of one EP."""

    name: str
    ep: str
    partition: str | None = None


@dataclass(slots=True)
class OpRecord:
    """All that was recorded of one operator.

    Attributes:
        key: which operator.
        op_type: its type in the EP's own words, or None.
        kernel: the kernel that computed it, in the EP's own words, or None.
        sources: names of the ONNX nodes it stands for; empty where they are not known.
        io: it moves inputs or outputs of the partition and computes nothing.
        shapes: input types and shapes, where the EP tells them.
        us: microseconds by inference (sum over its calls in that inference).
        cycles: cycles by inference, where the EP counts them.
        calls: how often it ran in all.
        derived: the microseconds were made from cycles.
        coarse: single values are too uncertain for a median; totals and means are not.
    """

    key: OpKey
    op_type: str | None = None
    kernel: str | None = None
    sources: tuple[str, ...] = ()
    io: bool = False
    shapes: str | None = None
    us: dict[int, float] = field(default_factory=dict)
    cycles: dict[int, float] = field(default_factory=dict)
    calls: int = 0
    derived: bool = False
    coarse: bool = False

    def add(self, inference: int, *, us: float | None = None, cycles: float | None = None) -> None:
        """Add one call in one inference."""
        self.calls += 1
        if us is not None:
            self.us[inference] = self.us.get(inference, 0.0) + us
        if cycles is not None:
            self.cycles[inference] = self.cycles.get(inference, 0.0) + cycles


@dataclass(frozen=True, slots=True)
class InferenceTime:
    """One traced inference.

    Attributes:
        wall_us: the run as seen from outside.
        ep_us: what the EP says it was busy for, over all partitions; None where it does not say.
        traced_us: sum of the operators' times; None where operators have no microseconds.
        outside_us: ``wall_us`` less ``ep_us`` (less ``traced_us`` where the EP does not say), never negative.
    """

    wall_us: float
    ep_us: float | None
    traced_us: float | None
    outside_us: float | None


def _percentile(values: Sequence[float], percent: float) -> float:
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def operator_rows(records: Iterable[OpRecord]) -> list[dict[str, Any]]:
    """Plain rows, the most expensive operator first.

    Each has ``name, op_type, kernel, ep, partition, sources, io, shapes, samples, calls, total_us, mean_us, p50_us,
    share, total_cycles, mean_cycles, p50_cycles, derived``. ``samples`` is the number of inferences in which it ran;
    ``share`` is of the traced time over all operators (of cycles where there are no microseconds).
    """
    records = [record for record in records if record.us or record.cycles]
    in_us = any(record.us for record in records)
    total = sum(sum((record.us if in_us else record.cycles).values()) for record in records)
    rows = []
    for record in records:
        us, cycles = list(record.us.values()), list(record.cycles.values())
        own = sum(us if in_us else cycles)
        rows.append(
            {
                **asdict(record.key),
                "op_type": record.op_type,
                "kernel": record.kernel,
                "sources": list(record.sources),
                "io": record.io,
                "shapes": record.shapes,
                "samples": max(len(us), len(cycles)),
                "calls": record.calls,
                "total_us": sum(us) if us else None,
                "mean_us": sum(us) / len(us) if us else None,
                "p50_us": _percentile(us, 50) if us and not record.coarse else None,
                "share": own / total if total else None,
                "total_cycles": sum(cycles) if cycles else None,
                "mean_cycles": sum(cycles) / len(cycles) if cycles else None,
                "p50_cycles": _percentile(cycles, 50) if cycles else None,
                "derived": record.derived,
            }
        )
    return sorted(rows, key=lambda row: -(row["share"] or 0.0))


def type_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Operator rows summed up by EP and type: ``ep, op_type, operators, calls, total_us, total_cycles, share``."""
    sums: dict[tuple[str, str | None], dict[str, Any]] = {}
    for row in rows:
        entry = sums.setdefault(
            (row["ep"], row["op_type"]),
            {
                "ep": row["ep"],
                "op_type": row["op_type"],
                "operators": 0,
                "calls": 0,
                "total_us": None,
                "total_cycles": None,
                "share": None,
            },
        )
        entry["operators"] += 1
        entry["calls"] += row["calls"]
        for name in ("total_us", "total_cycles", "share"):
            if row[name] is not None:
                entry[name] = (entry[name] or 0.0) + row[name]
    return sorted(sums.values(), key=lambda entry: -(entry["share"] or 0.0))


def inference_times(
    records: Iterable[OpRecord], walls_us: Sequence[float], ep_us: Mapping[int, float]
) -> list[InferenceTime]:
    """One entry per traced inference.

    Args:
        records: the operators.
        walls_us: wall time of each inference, in order.
        ep_us: what the EP says it was busy for, by inference; empty where it does not say.
    """
    traced: dict[int, float] = {}
    for record in records:
        for inference, us in record.us.items():
            traced[inference] = traced.get(inference, 0.0) + us
    times = []
    for index, wall in enumerate(walls_us):
        inside = ep_us.get(index, traced.get(index))
        outside = None if inside is None else max(0.0, wall - inside)
        times.append(InferenceTime(wall, ep_us.get(index), traced.get(index), outside))
    return times


def check_sums(rows: Sequence[Mapping[str, Any]], times: Sequence[InferenceTime], iterations: int) -> list[str]:
    """Why the counts do not add up, in words; empty where they do.

    They do when every operator ran in every inference, and the operators' times are within the run's.
    """
    notes = []
    partial = [row for row in rows if row["samples"] != iterations]
    if partial:
        names = ", ".join(str(row["name"]) for row in partial[:5])
        more = f" and {len(partial) - 5} more" if len(partial) > 5 else ""
        notes.append(
            f"not run in every one of the {iterations} inferences (a branch not taken, or no record): {names}{more}"
        )
    over = [index for index, time in enumerate(times) if time.traced_us is not None and time.traced_us > time.wall_us]
    if over:
        notes.append(
            f"in {len(over)} of {iterations} inferences the operators' times add up to more than the run: "
            "operators ran side by side, or the EP's clock is not the wall clock"
        )
    return notes
