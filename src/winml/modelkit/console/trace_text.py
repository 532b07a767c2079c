"""An operator trace as blocks of the text report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from winml.modelkit.console.layout import Block, Cell, Column, Lines, Row, Table
from winml.modelkit.console.trace_words import (
    artefact_folder,
    cost,
    counted_in_us,
    coverage,
    coverage_words,
    ep_name,
    format_cycles,
    format_us,
    origin,
    overhead_words,
    per_inference,
    place,
    type_share,
    unmapped_words,
)
from winml.modelkit.console.words import absent, percent
from winml.modelkit.perf.document import Trace, TraceOp, TraceType

__all__ = ["TOP_K", "trace_lines"]

TOP_K = 15
"""Operators and operator types that are shown if nothing else was asked for."""

_DERIVED = "~"
_NAMES = 10


def trace_lines(trace: Trace, *, top_k: int = TOP_K, verbose: bool = False) -> list[Block]:
    """What the trace found: the most expensive operators and types, and how far they explain the run.

    Operators that have cycles only stand in a table of their own: cycles and microseconds don't add up.

    Args:
        trace: what to show; of a failed one, why it failed.
        top_k: at most so many operators and types.
        verbose: every operator that is not mapped, and every file of the trace.
    """
    if trace.status == "failed":
        return [_failed(trace, verbose)]
    blocks: list[Block] = []
    timed, counted = counted_in_us(trace.ops)
    if timed or not counted:
        blocks.append(_operators(trace, timed, top_k, in_us=True))
    if counted:
        blocks.append(_operators(trace, counted, top_k, in_us=False))
    if trace.types:
        blocks.append(_types(trace, top_k))
    blocks.append(Lines("Operator trace", [*_facts(trace, verbose)]))
    return blocks


def _emulated(trace: Trace) -> Iterator[Cell]:
    if trace.emulated:
        yield Cell("EMULATED: these times and cycles say nothing about real hardware", "alarm")


def _failed(trace: Trace, verbose: bool) -> Lines:
    lines = [*_emulated(trace), Cell(f"{absent(trace.cause)}: {absent(trace.reason)}", "bad")]
    if trace.hint:
        lines.append(Cell(f"hint: {trace.hint}"))
    lines += [Cell(f"| {line}", "dim") for line in trace.evidence]
    lines.append(Cell(origin(trace), "dim"))
    lines += _files(trace, verbose)
    return Lines(f"Operator trace of {ep_name(trace.ep)}: failed", lines)


# --- tables -------------------------------------------------------------------------------------------------


def _operators(trace: Trace, ops: Sequence[TraceOp], top_k: int, *, in_us: bool) -> Table:
    shown = sorted(ops, key=cost, reverse=True)[:top_k]
    kernels = any(op.kernel for op in shown)
    columns = [Column("Operator"), Column("Type"), *([Column("Kernel")] if kernels else []), Column("EP")]
    columns.append(Column("Samples", right=True))
    if in_us:
        columns += [Column("Mean µs", right=True), Column("p50 µs", right=True)]
    if cycles := any(op.mean_cycles is not None for op in shown):
        columns += [Column("Mean cycles", right=True), Column("p50 cycles", right=True)]
    columns.append(Column("Share", right=True))
    total = sum(map(cost, ops))
    rows = []
    for op in shown:
        cells = [Cell(op.name), Cell(absent(op.op_type), "dim" if op.io else "")]
        if kernels:
            cells.append(Cell(absent(op.kernel)))
        cells += [Cell(place(op)), Cell(_samples(op))]
        if in_us:
            mark = _DERIVED if op.derived else ""
            cells += [Cell(mark + format_us(op.mean_us), "strong"), Cell(mark + format_us(op.p50_us))]
        if cycles:
            cells += [Cell(format_cycles(op.mean_cycles)), Cell(format_cycles(op.p50_cycles))]
        share = op.share if in_us else (cost(op) / total if total else None)
        rows.append(Row([*cells, Cell(percent(share))]))
    unit = "time" if in_us else "cycles"
    count = f"{len(shown)} of {len(ops)}" if len(shown) < len(ops) else str(len(ops))
    return Table(f"Operators by {unit} ({count}, {_where(trace)})", columns, rows)


def _where(trace: Trace) -> str:
    return f"traced on {ep_name(trace.ep)}{', EMULATED' if trace.emulated else ''}"


def _samples(op: TraceOp) -> str:
    """Inferences it ran in, with the calls where they differ."""
    return str(op.samples) if op.calls == op.samples else f"{op.samples} ({op.calls} calls)"


def _types(trace: Trace, top_k: int) -> Table:
    shown = trace.types[:top_k]
    in_us = any(item.total_us is not None for item in shown)
    cycles = any(item.total_cycles is not None for item in shown)
    columns = [Column("Type"), Column("EP"), Column("Operators", right=True), Column("Calls", right=True)]
    columns += [Column("µs per inference", right=True)] if in_us else []
    columns += [Column("Cycles per inference", right=True)] if cycles else []
    columns.append(Column("Share", right=True))
    derived = {(op.ep, op.op_type) for op in trace.ops if op.derived}
    rows = [Row(_type_cells(item, trace, in_us, cycles, (item.ep, item.op_type) in derived)) for item in shown]
    count = f"{len(shown)} of {len(trace.types)}" if len(shown) < len(trace.types) else str(len(trace.types))
    return Table(f"Operator types ({count})", columns, rows)


def _type_cells(item: TraceType, trace: Trace, in_us: bool, cycles: bool, derived: bool) -> list[Cell]:
    cells = [Cell(absent(item.op_type)), Cell(ep_name(item.ep)), Cell(str(item.operators)), Cell(str(item.calls))]
    if in_us:
        mark = _DERIVED if derived else ""
        cells.append(Cell(mark + format_us(per_inference(item.total_us, trace))))
    if cycles:
        cells.append(Cell(format_cycles(per_inference(item.total_cycles, trace))))
    return [*cells, Cell(percent(type_share(item, trace)))]


# --- lines --------------------------------------------------------------------------------------------------


def _facts(trace: Trace, verbose: bool) -> Iterator[Cell]:
    yield from _emulated(trace)
    yield Cell(origin(trace))
    if (found := coverage(trace)) is not None:
        yield Cell(coverage_words(found))
    if (overhead := overhead_words(trace)) is not None:
        yield Cell(overhead)
    if len(trace.partitions) > 1:
        yield Cell(f"{len(trace.partitions)} partitions: {', '.join(trace.partitions)}")
    if (unmapped := unmapped_words(trace)) is not None:
        names = trace.unmapped if verbose else trace.unmapped[:_NAMES]
        more = f", and {len(trace.unmapped) - len(names)} more" if len(names) < len(trace.unmapped) else ""
        yield Cell(f"{unmapped} ({', '.join(names)}{more})")
    if any(op.derived for op in trace.ops):
        yield Cell(f"{_DERIVED} microseconds made from the accelerator's cycles")
    for note in trace.notes:
        yield Cell(note)
    yield from _files(trace, verbose)


def _files(trace: Trace, verbose: bool) -> Iterator[Cell]:
    folder = artefact_folder(trace)
    if folder is not None and not verbose:
        count = len(trace.artefacts)
        yield Cell(f"{count} {'file' if count == 1 else 'files'} in {folder}", "dim")
        return
    for path in trace.artefacts:
        yield Cell(path, "dim")
