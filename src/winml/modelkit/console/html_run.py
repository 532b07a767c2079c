"""Sections of the HTML report about the run as a whole: phases, memory, placement, inputs."""

from __future__ import annotations

from winml.modelkit.console.html_charts import Segment, bar, stacked_bar
from winml.modelkit.console.html_parts import Html, breakable, h, section, table, td
from winml.modelkit.console.perf_words import memory_rows, phase_times, shape
from winml.modelkit.console.words import absent, percent
from winml.modelkit.perf.assemble import format_ms
from winml.modelkit.perf.document import FedInput, Memory, Phases, Placement

__all__ = ["inputs", "memory", "phases", "placement"]

_PHASE_TONES = {
    "import runtime": "n3",
    "register": "n2",
    "session": "n1",
    "first run": "a1",
    "warm-up": "a3",
    "measure": "a2",
}
_LEFTOVERS = 12
_MOST_LEFTOVERS = 300


def phases(found: Phases) -> Html:
    """Where the wall time went."""
    times = phase_times(found)
    total = sum(value for _, value in times)
    segments = [
        Segment(name, value / total if total > 0 else 0.0, format_ms(value), _PHASE_TONES[name])
        for name, value in times
    ]
    return section("phases", "Phases", f"{format_ms(total)} in all", [stacked_bar("Phases", segments)])


def memory(found: Memory | None) -> Html:
    """Resident memory of the worker, stage by stage."""
    if found is None:
        return section("memory", "Memory", "", [h("p", "Not recorded: --no-memory.")])
    rows = [*memory_rows(found)]
    most = max((value for _, value, _, _ in rows if value is not None), default=0)
    cells = []
    for index, (stage, value, text, change) in enumerate(rows):
        drawn = None
        if value is not None and most:
            drawn = bar(value / most, "a1" if index == len(rows) - 1 else "a2")
        cells.append([stage, h("td", drawn, cls="bars"), text, td(change, cls="n dim")])
    columns = [("Stage", False), ("", False), ("Resident", True), ("Change", True)]
    return section("memory", "Memory", "resident memory of the worker process", [table(columns, cells)])


def placement(found: Placement) -> Html:
    """Which EP has how many nodes, and which nodes are not on the target."""
    total = found.nodes_total
    segments = []
    others = iter(["n2", "n3", "n1"] * len(found.eps))
    for item in found.eps:
        share = item.nodes / total if total else 0.0
        tone = "a2" if item.ep == found.target_ep else next(others)
        segments.append(Segment(item.alias, share, f"{item.nodes} of {total}", tone))
    columns = [("EP", False), ("Nodes", True), ("Share", True), ("Partitions", True)]
    rows = [
        [
            h("td", item.alias, h("span", "target", cls="tag") if item.ep == found.target_ep else None),
            str(item.nodes),
            percent(item.share),
            absent(item.partitions),
        ]
        for item in found.eps
    ]
    parts = [stacked_bar("Nodes by EP", segments), table(columns, rows)]
    if found.leftovers:
        parts.append(h("h3", f"Nodes not on the target: {len(found.leftovers)}"))
        parts += _leftovers(found.leftovers)
    return section("placement", "Placement", found.evidence, parts)


def _leftovers(left: list[dict[str, str]]) -> list[Html]:
    columns = [("Operator", False), ("EP", False), ("Node", False)]

    def rows(part: list[dict[str, str]]) -> list[list[str]]:
        return [[absent(node.get("op_type")), absent(node.get("ep")), breakable(absent(node.get("name")))] for node in
                part]  # fmt: skip

    parts = [table(columns, rows(left[:_LEFTOVERS]))]
    rest = left[_LEFTOVERS:_MOST_LEFTOVERS]
    if rest:
        more = h("summary", f"{len(rest)} more")
        parts.append(h("details", more, table(columns, rows(rest))))
    if len(left) > _MOST_LEFTOVERS:
        parts.append(h("p", f"{len(left) - _MOST_LEFTOVERS} more are in the JSON only.", cls="note"))
    return parts


def inputs(found: dict[str, FedInput]) -> Html:
    """What was fed."""
    rows = [[breakable(name), item.dtype, shape(item), item.origin] for name, item in found.items()]
    return table([("Name", False), ("Type", False), ("Shape", False), ("Data", False)], rows)
