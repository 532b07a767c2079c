"""The operators section of the HTML report, filled by ``--op-tracing``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from winml.modelkit.console.html_charts import (
    Segment,
    bar,
    stacked_bar,
)
from winml.modelkit.console.html_parts import Html, breakable, h, section, table, td, verbatim
from winml.modelkit.console.trace_words import (
    Coverage,
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
from winml.modelkit.perf.assemble import format_ms
from winml.modelkit.perf.document import Trace, TraceOp

__all__ = ["TOP_K", "trace"]

TOP_K = 25
"""Operators and operator types that are shown if nothing else was asked for."""

_NAMES = 12
_SOURCES = 3


def trace(found: Trace, top_k: int) -> Html:
    """Operators by what they took, or why there are none."""
    if found.status == "failed":
        return section("trace", "Operators", origin(found), _failed(found))
    parts: list[Html] = []
    if found.emulated:
        parts.append(_emulated())
    split = coverage(found)
    if split is not None:
        parts.append(_coverage(split))
    timed, counted = counted_in_us(found.ops)
    if timed:
        parts += [h("h3", _heading("By time", timed, top_k)), _operators(timed, top_k, in_us=True)]
    if counted:
        parts += [h("h3", _heading("By cycles", counted, top_k)), _operators(counted, top_k, in_us=False)]
        if timed:
            parts.append(h("p", "These have cycles only, which do not add up with the times above.", cls="note"))
    if found.types:
        parts += [h("h3", "By operator type"), _types(found, top_k)]
    if notes := [*_notes(found)]:
        parts += [h("h3", "About the trace"), h("ul", [h("li", note) for note in notes], cls="notes")]
    return section("trace", "Operators", origin(found), parts)


def _emulated() -> Html:
    return h("p", h("b", "EMULATED:"), " these times and cycles say nothing about real hardware.", cls="alarm")


def _failed(found: Trace) -> list[Html]:
    parts = [h("h3", "No operator trace"), h("p", absent(found.reason), cls="say")]
    if found.hint:
        parts.append(h("p", h("b", "Next step: "), found.hint, cls="say"))
    if found.evidence:
        parts.append(h("pre", verbatim(found.evidence)))
    parts.append(h("p", f"cause {absent(found.cause)} · {ep_name(found.ep)}", cls="note"))
    made = [h("div", parts, cls="box bad")]
    if found.emulated:
        made.insert(0, _emulated())
    if found.artefacts:
        made.append(h("p", _files(found), cls="note"))
    return made


def _coverage(split: Coverage) -> Html:
    """The mean traced inference as a bar, where its parts are known and add up; in words otherwise."""
    traced, outside = split.traced_us, split.outside_us
    if traced is None or outside is None or split.wall_us <= 0 or traced > split.wall_us:
        words = coverage_words(split)
        return h("p", f"{words[:1].upper()}{words[1:]}.", cls="say")
    shares = [("operators", traced, "a2")]
    rest = split.wall_us - traced - outside
    if split.ep_us is not None and rest > 0.005 * split.wall_us:
        shares.append(("rest of the EP", rest, "a3"))
    shares.append(("outside the EP" if split.ep_us is not None else "outside the operators", outside, "n3"))
    segments = [
        Segment(name, us / split.wall_us, f"{format_ms(us / 1000)} ({percent(us / split.wall_us)})", tone)
        for name, us, tone in shares
    ]
    of = f"Of a traced inference, which took {format_ms(split.wall_us / 1000)} on average."
    return h("div", stacked_bar("Mean traced inference", segments), h("p", of, cls="note"))


# --- operators ----------------------------------------------------------------------------------------------


def _heading(by: str, ops: Sequence[TraceOp], top_k: int) -> str:
    return f"{by}: the first {top_k} of {len(ops)}" if len(ops) > top_k else by


def _operators(ops: Sequence[TraceOp], top_k: int, *, in_us: bool) -> Html:
    ordered = sorted(ops, key=cost, reverse=True)
    shown, rest = ordered[:top_k], ordered[top_k:]
    total = sum(map(cost, ops))
    most = cost(shown[0]) if shown else 0.0
    unit = "µs" if in_us else "cycles"
    columns = [("Operator", False), ("Type", False), ("EP", False), ("Samples", True)]
    every = in_us and all(op.derived for op in shown)
    columns += [(f"Mean {unit}{', derived' * every}", True), (f"p50 {unit}", True), ("", False), ("Share", True)]
    rows: list[list[str]] = []
    for op in shown:
        share = cost(op) / total if total else None
        drawn = bar(cost(op) / most if most else 0.0, "n2" if op.io else "a2")
        rows.append(
            [
                _op_name(op),
                _op_type(op),
                h("td", place(op), cls="ep"),
                _samples(op),
                *(_times(op, mark=op.derived and not every) if in_us else _cycles(op)),
                h("td", drawn, cls="bars"),
                td(percent(share), share, "n"),
            ]
        )
    made = table(columns, rows, sortable=True)
    if not rest:
        return made
    left = percent(sum(map(cost, rest)) / total if total else None)
    return h("div", made, h("p", f"{len(rest)} more operators, {left} in all, are in the JSON.", cls="note"))


def _times(op: TraceOp, *, mark: bool) -> list[Html]:
    """Mean and median with their cycles below them; ``mark`` says that the times were made from these."""

    def cell(us: float | None, cycles: float | None) -> Html:
        made = h("small", "derived from") if mark else None
        counted = h("small", f"{format_cycles(cycles)} cycles") if cycles is not None else None
        return h("td", format_us(us), made, counted, cls="n", data_v=us)

    return [cell(op.mean_us, op.mean_cycles), cell(op.p50_us, op.p50_cycles)]


def _cycles(op: TraceOp) -> list[Html]:
    return [td(format_cycles(value), value, "n") for value in (op.mean_cycles, op.p50_cycles)]


def _op_name(op: TraceOp) -> Html:
    sources = ", ".join(op.sources[:_SOURCES])
    if len(op.sources) > _SOURCES:
        sources += f" and {len(op.sources) - _SOURCES} more"
    below = h("small", sources) if sources and sources != op.name else None
    return h("td", breakable(op.name), below, cls="name")


def _op_type(op: TraceOp) -> Html:
    moves = h("small", "moves data") if op.io else None
    return h("td", absent(op.op_type), moves, h("small", op.kernel) if op.kernel else None)


def _samples(op: TraceOp) -> Html:
    calls = h("small", f"{op.calls} calls") if op.calls != op.samples else None
    return h("td", str(op.samples), calls, cls="n", data_v=op.samples)


def _types(found: Trace, top_k: int) -> Html:
    shown = found.types[:top_k]
    in_us = any(item.total_us is not None for item in shown)
    cycles = any(item.total_cycles is not None for item in shown)
    derived = {(op.ep, op.op_type) for op in found.ops if op.derived}
    columns = [("Type", False), ("EP", False), ("Operators", True), ("Calls", True)]
    every = all((item.ep, item.op_type) in derived for item in shown)
    columns += [(f"µs per inference{', derived' * every}", True)] if in_us else []
    columns += [("Cycles per inference", True)] if cycles else []
    columns += [("", False), ("Share", True)]
    most = max((type_share(item, found) or 0.0 for item in shown), default=0.0)
    rows: list[list[str]] = []
    for item in shown:
        share = type_share(item, found)
        cells: list[str] = [
            h("td", absent(item.op_type)),
            ep_name(item.ep),
            str(item.operators),
            str(item.calls),
        ]
        if in_us:
            each = per_inference(item.total_us, found)
            mark = (item.ep, item.op_type) in derived and not every
            tag = h("span", "derived", cls="tag") if mark else None
            cells.append(h("td", format_us(each), tag, cls="n", data_v=each))
        if cycles:
            counted = per_inference(item.total_cycles, found)
            cells.append(td(format_cycles(counted), counted, "n"))
        drawn = bar(share / most) if share is not None and most else None
        rows.append([*cells, h("td", drawn, cls="bars"), td(percent(share), share, "n")])
    made = table(columns, rows, sortable=True)
    if len(shown) == len(found.types):
        return made
    return h("div", made, h("p", f"{len(found.types) - len(shown)} more types are in the JSON.", cls="note"))


def _notes(found: Trace) -> Iterator[str]:
    if (overhead := overhead_words(found)) is not None:
        yield overhead
    if len(found.partitions) > 1:
        yield f"{len(found.partitions)} partitions: {', '.join(found.partitions)}"
    if (unmapped := unmapped_words(found)) is not None:
        names = found.unmapped[:_NAMES]
        more = f", and {len(found.unmapped) - len(names)} more" if len(names) < len(found.unmapped) else ""
        yield f"{unmapped} ({', '.join(names)}{more})"
    yield from found.notes
    if found.artefacts:
        yield _files(found)


def _files(found: Trace) -> str:
    folder = artefact_folder(found)
    if folder is None:
        return f"files of the trace: {', '.join(found.artefacts)}"
    return f"files of the trace in {folder}: {', '.join(path[len(folder) + 1 :] for path in found.artefacts)}"
