"""The hardware section of the HTML report, filled by ``--monitor``: counters over one time axis."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from winml.modelkit.console.html_charts import Scale, label, plot, rules, series, ticks, uprights
from winml.modelkit.console.html_parts import Html, h, section
from winml.modelkit.console.live_chart import LABELS
from winml.modelkit.console.words import absent, size
from winml.modelkit.perf.document import Counter, Hardware
from winml.modelkit.perf.phases import MEASURE_PHASE

__all__ = ["hardware", "quantity"]

_LETTER = 13.0
"""Thousandths of the axis that a letter of a label takes."""


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
        parts.append(h("ul", [h("li", line) for line in _missing(missing)], cls="notes"))
    if not found.counters:
        parts.append(h("p", "No counters."))
    count = len(found.times_s)
    note = f"{count} sample{'s' if count != 1 else ''}, one every {found.interval_s:g} s, taken outside the worker"
    return section("hardware", "Hardware", note, parts)


def _missing(counters: Mapping[str, Counter]) -> list[str]:
    """Counters that share a reason, and the reason."""
    grouped: dict[str, list[str]] = {}
    for name, item in counters.items():
        grouped.setdefault(item.reason or "no reading succeeded", []).append(_label(name))
    return [f"{', '.join(names)}: {reason}" for reason, names in grouped.items()]


def _label(name: str) -> str:
    return LABELS.get(name, name)


def _readings(item: Counter) -> list[float]:
    return [value for value in item.values if value is not None and math.isfinite(value)]


def _counter(name: str, item: Counter, found: Hardware, time: Scale) -> Html:
    count = min(len(item.values), len(found.times_s))
    values = [value if value is None or math.isfinite(value) else None for value in item.values[:count]]
    readings = _readings(item)
    top = max(100.0 if item.unit.startswith("%") else 0.0, max(readings))
    y = Scale(min(0.0, min(readings)), top * 1.05 if top > 0 else 1.0)
    xs = [time.at(value) for value in found.times_s[:count]]
    begins = [time.at(second) for _, second in found.phases]
    drawing = [rules([y.down(0.0)], "grid"), rules([y.down(top)], "grid")]
    drawing += [uprights(begins, "phase"), *series(values, y, xs, dots=False)]
    said = [f"mean {quantity(item.mean, item.unit)}", f"peak {quantity(item.peak, item.unit)}"]
    if item.unit == "J":
        said = [f"{quantity(item.peak, item.unit)} in all"]
    of = item.unit[1:].strip() if item.unit.startswith("% ") else ""
    source = {"values": ["hardware", "counters", name, "values"], "times": ["hardware", "times_s"], **_shown(item)}
    made = plot(
        "counter-plot",
        drawing,
        described=f"{_label(name)} over time: {', '.join(said)}",
        y_labels=[label(quantity(top, item.unit), top=y.down(top)), label("0", top=y.down(0.0))],
        x_labels=(),
        source=json.dumps(source),
    )
    where = h("p", item.source) if item.source else None
    name_of = h("h3", _label(name), h("small", f" {of}") if of else None)
    return h("figure", h("div", name_of, h("p", " · ".join(said)), where), made, cls="counter")


def quantity(value: float | None, unit: str) -> str:
    """A reading with its unit.

    >>> quantity(3 * 1024.0**2, "bytes"), quantity(41.53, "%"), quantity(12.34, "W"), quantity(None, "W")
    ('3.0 MiB', '41.5%', '12.3 W', '-')
    """
    if value is None:
        return absent(None)
    if unit == "bytes":
        return size(round(value))
    text = f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{text}%" if unit.startswith("%") else f"{text} {unit}".strip()


def _shown(item: Counter) -> dict[str, str | float | int]:
    """How the page's script writes a reading."""
    if item.unit == "bytes":
        return {"factor": 1 / (1 << 20), "decimals": 1, "unit": "MiB"}
    return {"factor": 1, "decimals": 1, "unit": "%" if item.unit.startswith("%") else item.unit}


def _phase_names(found: Hardware, time: Scale) -> Html | None:
    """Names of the phases where they begin, the timed runs first, as far as there is room."""
    taken: list[tuple[float, float]] = []
    names = []
    for name, second in sorted(found.phases, key=lambda phase: phase[0] != MEASURE_PHASE):
        begin = time.at(second)
        end = begin + _LETTER * len(name)
        if end <= 1000 + _LETTER and all(end <= left or right <= begin for left, right in taken):
            taken.append((begin, end))
            names.append(label(name, left=begin, cls="start"))
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
