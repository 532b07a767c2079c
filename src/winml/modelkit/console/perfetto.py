"""A run as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format is the Trace Event Format in its JSON object form: ``X`` are complete events (``ts`` and ``dur`` in
microseconds), ``C`` counters, ``M`` names of processes and threads. Events of one thread nest or stand apart, never
overlap otherwise, so times are laid out in whole nanoseconds.

What was measured are durations. Where things began is known of the phases and counters that the hardware monitor saw;
everything else is laid out end to end, and says so in its ``args`` and in ``otherData``. Of operators only means over
the traced inferences are known, so that they are drawn once, inside one mean inference, and not as if every inference
had been seen inside.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from winml.modelkit.console.perf_words import phase_times, shapes
from winml.modelkit.console.trace_words import coverage, place
from winml.modelkit.perf.assemble import target_name
from winml.modelkit.perf.document import Hardware, PerfDocument, PerfResult, Trace, TraceOp
from winml.modelkit.perf.phases import MEASURE_PHASE

__all__ = ["perfetto_json", "to_perfetto"]

Event = dict[str, Any]

_TIMED, _TRACED, _MEAN = 1, 2, 3
"""Processes of the trace: the timed runs and the machine meanwhile, the traced runs, the mean traced inference."""

_END_TO_END = "laid out end to end; the duration is measured, the start is not"
_NOTES = {
    "timed runs": "durations as measured without tracing, " + _END_TO_END,
    "traced runs": "durations as measured under the trace, " + _END_TO_END,
    "mean traced inference": "mean duration of every operator over the traced inferences, laid out one after another "
    "per EP and partition, the most expensive first; order and starts are not measured",
}


def perfetto_json(document: PerfDocument) -> str:
    """``to_perfetto`` as text."""
    text = json.dumps(to_perfetto(document), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A file name that is not valid text, as Linux allows, is shown with its odd bytes spelt out.
    return re.sub("[\ud800-\udfff]", lambda found: rf"\\u{ord(found[0]):04x}", text) + "\n"


def to_perfetto(document: PerfDocument) -> dict[str, Any]:
    """The trace as plain data: ``traceEvents``, ``displayTimeUnit`` and ``otherData``.

    Holds whatever the document has of phases, timed runs, hardware counters, traced inferences and operators; without
    any of them there are no events but names.
    """
    events: list[Event] = []
    end = _timed(document, events)
    if document.trace is not None:
        _traced(document.trace, events, end)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": _about(document)}


def _about(document: PerfDocument) -> dict[str, str]:
    target = document.effective.target if document.effective else None
    about = {
        "producer": f"winml {document.environment.winml}",
        "document": document.schema,
        "model": document.effective.model.name if document.effective else document.requested.model,
        "target": target_name(target) if target else "not known",
        "emulated": "yes: times say nothing about real hardware" if target and target.emulated else "no",
        "summary": document.summary,
        "started": document.started,
        "command": json.dumps(document.command, ensure_ascii=False),
        **{f"times of the {name}": note for name, note in _NOTES.items()},
    }
    trace = document.trace
    if trace is not None and trace.status == "failed":
        about["no operators"] = f"{trace.cause}: {trace.reason}"
    return about


# --- events -------------------------------------------------------------------------------------------------


def _ns(value_us: float) -> int:
    """Whole nanoseconds; what is no number takes none."""
    return max(0, round(value_us * 1000)) if math.isfinite(value_us) else 0


def _slice(name: str, pid: int, tid: int, start: int, length: int, args: Event, category: str) -> Event:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": start / 1000,
        "dur": length / 1000,
        "args": args,
    }


def _name(pid: int, name: str, tid: int | None = None) -> Iterator[Event]:
    """Name a process, or a thread of it, and keep it where it is by its number."""
    kind = "process" if tid is None else "thread"
    base = {"ph": "M", "pid": pid, "tid": pid if tid is None else tid, "ts": 0}
    yield {**base, "name": f"{kind}_name", "args": {"name": name}}
    yield {**base, "name": f"{kind}_sort_index", "args": {"sort_index": base["tid"]}}


def _tid(pid: int, index: int) -> int:
    """Threads are told apart over all processes."""
    return pid * 100 + index


def _row(
    pid: int, tid: int, start: int, category: str, items: Iterable[tuple[str, float, Event]]
) -> tuple[list[Event], int]:
    """Events one after another, and where they end. Items are name, microseconds, arguments."""
    made = []
    for name, us, args in items:
        length = _ns(us)
        made.append(_slice(name, pid, tid, start, length, args, category))
        start += length
    return made, start


# --- timed runs and counters --------------------------------------------------------------------------------


def _timed(document: PerfDocument, events: list[Event]) -> int:
    """Phases, timed runs and counters; returns where all of them have ended."""
    result, found = document.result, document.hardware
    if result is None and found is None:
        return 0
    phases_at, runs_at = _tid(_TIMED, 1), _tid(_TIMED, 2)
    events += [*_name(_TIMED, "timed runs"), *_name(_TIMED, "phases", phases_at)]
    if found is not None:
        spans = _seen_phases(found)
    else:
        assert result is not None
        spans = _laid_phases(document)
    events += [_slice(name, _TIMED, phases_at, start, length, args, "phase") for name, start, length, args in spans]
    end = max((start + length for _, start, length, _ in spans), default=0)
    if result is not None:
        events += _name(_TIMED, "inferences", runs_at)
        begin = next((start for name, start, _, _ in spans if name.startswith(MEASURE_PHASE)), 0)
        made, stop = _row(_TIMED, runs_at, begin, "inference", _runs(result))
        events += made
        end = max(end, stop)
    if found is not None:
        events += _counters(found)
        end = max(end, _ns(1e6 * max(found.times_s, default=0.0)))
    return end


def _runs(result: PerfResult) -> Iterator[tuple[str, float, Event]]:
    """Every timed run, with its shapes where there are several sets of them."""
    if not result.by_shape:
        yield from ((f"run {number}", 1000 * ms, {}) for number, ms in enumerate(result.samples_ms, 1))
    for item in result.by_shape or ():
        fed = {"inputs": shapes(item.inputs)}
        yield from ((f"run {number}", 1000 * ms, fed) for number, ms in enumerate(item.samples_ms, 1))


def _laid_phases(document: PerfDocument) -> list[tuple[str, int, int, Event]]:
    """Phases by their durations alone."""
    assert document.result is not None
    spans, start = [], 0
    for name, ms in phase_times(document.result.phases_ms):
        spans.append((name, start, _ns(1000 * ms), {"start": _END_TO_END}))
        start += _ns(1000 * ms)
    return spans


def _seen_phases(found: Hardware) -> list[tuple[str, int, int, Event]]:
    """Phases as the monitor saw them begin; the last one ends with the samples."""
    ordered = sorted(found.phases, key=lambda phase: phase[1])
    begins = [_ns(1e6 * second) for _, second in ordered]
    ends = [*begins[1:], max([*begins[-1:], _ns(1e6 * max(found.times_s, default=0.0))], default=0)]
    return [
        (name, start, end - start, {"start": "seen by the monitor"})
        for (name, _), start, end in zip(ordered, begins, ends, strict=True)
    ]


def _counters(found: Hardware) -> Iterator[Event]:
    """Readings of the counters that exist; where a reading failed there is none, which is not 0."""
    for name, counter in found.counters.items():
        for second, value in zip(found.times_s, counter.values, strict=False):
            if value is not None and math.isfinite(value):
                yield {
                    "name": f"{name} ({counter.unit})" if counter.unit else name,
                    "cat": "hardware",
                    "ph": "C",
                    "pid": _TIMED,
                    "ts": _ns(1e6 * second) / 1000,
                    "args": {"value": value},
                }


# --- traced runs --------------------------------------------------------------------------------------------


def _traced(trace: Trace, events: list[Event], start: int) -> None:
    split = coverage(trace)
    if split is not None:
        walls_at = _tid(_TRACED, 1)
        events += [*_name(_TRACED, "traced runs"), *_name(_TRACED, "inferences", walls_at)]
        runs = (
            (
                f"traced run {number}",
                time.wall_us,
                _known(ep_us=time.ep_us, operators_us=time.traced_us, outside_us=time.outside_us),
            )
            for number, time in enumerate(trace.inferences, 1)
        )
        made, _ = _row(_TRACED, walls_at, start, "inference", runs)
        events += made
    rows = _rows(trace.ops)
    if not rows:
        return
    events += _name(_MEAN, f"mean traced inference (of {trace.iterations})")
    if split is not None:
        mean_at = _tid(_MEAN, 1)
        args = _known(ep_us=split.ep_us, operators_us=split.traced_us, outside_us=split.outside_us)
        events += _name(_MEAN, "inference", mean_at)
        events.append(_slice("mean traced run", _MEAN, mean_at, start, _ns(split.wall_us), args, "inference"))
    for index, (name, ops) in enumerate(rows.items(), 2):
        tid = _tid(_MEAN, index)
        events += _name(_MEAN, name, tid)
        made, _ = _row(_MEAN, tid, start, "operator", ((op.name, _mean(op, trace), _op_args(op)) for op in ops))
        events += made


def _rows(ops: Iterable[TraceOp]) -> dict[str, list[TraceOp]]:
    """Operators with a time by EP and partition. Cycles without a time have no length to be drawn with."""
    rows: dict[str, list[TraceOp]] = {}
    for op in ops:
        if op.total_us is not None:
            rows.setdefault(place(op), []).append(op)
    return rows


def _mean(op: TraceOp, trace: Trace) -> float:
    """Over all traced inferences, also those it did not run in, so that the means add up."""
    return (op.total_us or 0.0) / (trace.iterations or op.samples or 1)


def _op_args(op: TraceOp) -> Event:
    return _known(
        type=op.op_type,
        kernel=op.kernel,
        sources=", ".join(op.sources) or None,
        shapes=op.shapes,
        moves_data=op.io or None,
        inferences=op.samples,
        calls=op.calls,
        p50_us=op.p50_us,
        share=op.share,
        mean_cycles=op.mean_cycles,
        derived_from_cycles=op.derived or None,
        start="not measured: laid out one after another",
    )


def _known(**args: Any) -> Event:
    return {name: value for name, value in args.items() if value is not None}
