"""Sections of the HTML report that ``--op-tracing`` and ``--monitor`` fill: operators, and hardware counters."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

from winml.modelkit.console.html_charts import (
    Scale,
    Segment,
    bar,
    label,
    plot,
    rules,
    series,
    stacked_bar,
    ticks,
    uprights,
)
from winml.modelkit.console.html_parts import Html, breakable, h, pairs, section, table, td, verbatim
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
from winml.modelkit.console.words import absent, percent, size
from winml.modelkit.perf.assemble import format_ms
from winml.modelkit.perf.document import Counter, Hardware, Trace, TraceOp

__all__ = ["TOP_K", "hardware", "trace"]

TOP_K = 25
"""Operators and operator types that are shown if nothing else was asked for."""

_NAMES = 12


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
    cycles = any(op.mean_cycles is not None for op in shown)
    columns = [("Operator", False), ("Type", False), ("EP", False), ("Samples", True)]
    columns += [("Mean µs", True), ("p50 µs", True)] if in_us else []
    columns += [("Mean cycles", True), ("p50 cycles", True)] if cycles else []
    columns += [("", False), ("Share", True)]
    rows: list[list[str]] = []
    for op in shown:
        cells: list[str] = [_op_name(op), _op_type(op), h("td", place(op), cls="ep"), _samples(op)]
        if in_us:
            derived = h("span", "derived", cls="tag") if op.derived else None
            mean = h("td", format_us(op.mean_us), derived, cls="n", data_v=op.mean_us)
            cells += [mean, td(format_us(op.p50_us), op.p50_us, "n")]
        if cycles:
            cells.append(td(format_cycles(op.mean_cycles), op.mean_cycles, "n"))
            cells.append(td(format_cycles(op.p50_cycles), op.p50_cycles, "n"))
        share = cost(op) / total if total else None
        drawn = bar(cost(op) / most if most else 0.0, "n2" if op.io else "a2")
        rows.append([*cells, h("td", drawn, cls="bars"), td(percent(share), share, "n")])
    made = table(columns, rows, sortable=True)
    if not rest:
        return made
    left = percent(sum(map(cost, rest)) / total if total else None)
    return h("div", made, h("p", f"{len(rest)} more operators, {left} in all, are in the JSON.", cls="note"))


def _op_name(op: TraceOp) -> Html:
    sources = ", ".join(op.sources)
    below = h("small", sources) if sources and sources != op.name else None
    return h("td", breakable(op.name), below, cls="name")


def _op_type(op: TraceOp) -> Html:
    moves = h("span", "moves data", cls="tag") if op.io else None
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
    columns += [("µs per inference", True)] if in_us else []
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
            tag = h("span", "derived", cls="tag") if (item.ep, item.op_type) in derived else None
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


# --- hardware -----------------------------------------------------------------------------------------------


def hardware(found: Hardware) -> Html:
    """One drawing per counter over one time axis; counters that there are none of are listed with their reason."""
    drawn = {name: item for name, item in found.counters.items() if _readings(item)}
    missing = {name: item for name, item in found.counters.items() if name not in drawn}
    last = max(found.times_s, default=0.0)
    time = Scale(0.0, last)
    parts: list[Html] = []
    if drawn:
        names = _phase_names(found, time)
        parts += [names] if names is not None else []
        parts += [_counter(name, item, found, time) for name, item in drawn.items()]
        parts += _time_axis(found, time)
    if missing:
        parts.append(h("h3", "Not available here"))
        parts.append(pairs((name, item.reason or "no reading succeeded") for name, item in missing.items()))
    if not found.counters:
        parts.append(h("p", "No counters."))
    count = len(found.times_s)
    note = f"{count} sample{'s' if count != 1 else ''}, one every {found.interval_s:g} s, taken outside the worker"
    return section("hardware", "Hardware", note, parts)


def _readings(item: Counter) -> list[float]:
    return [value for value in item.values if value is not None and math.isfinite(value)]


def _counter(name: str, item: Counter, found: Hardware, time: Scale) -> Html:
    count = min(len(item.values), len(found.times_s))
    values = [value if value is None or math.isfinite(value) else None for value in item.values[:count]]
    readings = _readings(item)
    top = max(100.0 if item.unit == "%" else 0.0, max(readings))
    y = Scale(min(0.0, min(readings)), top * 1.05 if top > 0 else 1.0)
    xs = [time.at(value) for value in found.times_s[:count]]
    begins = [time.at(second) for _, second in found.phases]
    drawing = [rules([y.down(0.0)], "grid"), rules([y.down(top)], "grid")]
    drawing += [uprights(begins, "phase"), *series(values, y, xs, dots=False)]
    said = [f"mean {quantity(item.mean, item.unit)}", f"peak {quantity(item.peak, item.unit)}"]
    source = {"values": ["hardware", "counters", name, "values"], "times": ["hardware", "times_s"], **_shown(item)}
    made = plot(
        "counter-plot",
        drawing,
        described=f"{name} over time: {', '.join(said)}",
        y_labels=[label(quantity(top, item.unit), top=y.down(top)), label("0", top=y.down(0.0))],
        x_labels=(),
        source=json.dumps(source),
    )
    where = h("p", item.source) if item.source else None
    return h("figure", h("div", h("h3", name), h("p", " · ".join(said)), where), made, cls="counter")


def quantity(value: float | None, unit: str) -> str:
    """A reading with its unit.

    >>> quantity(3 * 1024.0**2, "bytes"), quantity(41.53, "%"), quantity(12.34, "W"), quantity(None, "W")
    ('3.0 MiB', '41.5%', '12.3 W', '-')
    """
    if value is None:
        return absent(None)
    if unit in ("bytes", "B"):
        return size(round(value))
    text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{text}%" if unit == "%" else f"{text} {unit}".strip()


def _shown(item: Counter) -> dict[str, str | float | int]:
    """How the page's script writes a reading."""
    if item.unit in ("bytes", "B"):
        return {"factor": 1 / (1 << 20), "decimals": 1, "unit": "MiB"}
    return {"factor": 1, "decimals": 1, "unit": item.unit}


def _phase_names(found: Hardware, time: Scale) -> Html | None:
    """Names of the phases where they begin, as far as there is room."""
    names, free = [], 0.0
    for name, second in found.phases:
        at = time.at(second)
        if free <= at <= 960:
            names.append(label(name, left=at, cls="start"))
            free = at + 12.0 * len(name) + 10
    return _axis("Phase", names) if names else None


def _time_axis(found: Hardware, time: Scale) -> list[Html]:
    seconds = [
        label(f"{tick:g} s", left=time.at(tick), cls="start" if not tick else "end" if time.at(tick) > 980 else None)
        for tick in ticks(time, 8)
    ]
    made = [_axis("Time", seconds)]
    if found.phases:
        phases = ", ".join(f"{name} from {second:.2f} s" for name, second in found.phases)
        made.append(h("p", f"Dotted lines: {phases}.", cls="note"))
    return made


def _axis(title: str, labels: list[Html]) -> Html:
    row = h("div", h("div", labels, cls="x"), cls="plot", aria_hidden="true")
    return h("div", h("p", title), row, cls="counter axis")
