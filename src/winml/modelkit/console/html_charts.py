"""Charts as inline SVG. Drawings stretch with the page; their texts are HTML beside them, so that they don't.

Coordinates are thousandths of the drawing, x from the left and y from the top. Dots are lines of no length with round
ends, which keeps thousands of them in one path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from winml.modelkit.console.html_parts import Html, h

__all__ = [
    "COLUMNS",
    "Scale",
    "Segment",
    "apart",
    "bar",
    "drawing_of",
    "histogram",
    "label",
    "plot",
    "range_bar",
    "rules",
    "series",
    "spread_over",
    "stacked_bar",
    "ticks",
    "uprights",
    "y_axis",
]

FULL = 1000.0
COLUMNS = 400
"""Columns of a drawing of more values than it has room for."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Values of an axis and where they stand."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Thousandths from the axis's start; values beyond the axis stand at its end."""
        span = self.high - self.low
        return min(FULL, max(0.0, (value - self.low) / span * FULL)) if span > 0 else FULL / 2

    def down(self, value: float) -> float:
        """Thousandths from the top."""
        return FULL - self.at(value)


def ticks(scale: Scale, about: int = 5) -> list[float]:
    """Round numbers within the scale: 1, 2, 2.5 or 5 times a power of ten apart.

    >>> ticks(Scale(0.0, 10.0), 5)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    span = scale.high - scale.low
    if span <= 0 or not math.isfinite(span):
        return [scale.low]
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if span / (power * factor) <= about)
    first, last = math.ceil(scale.low / step - 1e-9), math.floor(scale.high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _n(value: float) -> str:
    """One decimal: a tenth of a thousandth is less than any screen shows."""
    return f"{value:.1f}".removesuffix(".0")


# --- bars ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a stacked bar: its name, its share of the whole (0 to 1), how its size is said, and its tone."""

    name: str
    share: float
    text: str
    tone: str


def bar(share: float, tone: str = "a2") -> Html:
    """A bar of a table's row, in its cell's width."""
    width = f"{100 * min(1.0, max(0.0, share)):.2f}%"
    return h("svg", h("rect", width=width, height="100%", cls=tone), cls="bar", aria_hidden="true")


def stacked_bar(title: str, segments: Sequence[Segment]) -> Html:
    """Parts of one whole in a row, with a key that says every size."""
    rects, left = [], 0.0
    for part in segments:
        share = min(1.0 - left, max(0.0, part.share))
        rects.append(
            h(
                "rect",
                x=f"{100 * left:.3f}%",
                width=f"{100 * share:.3f}%",
                height="100%",
                cls=part.tone,
            )
        )
        left += share
    said = "; ".join(f"{part.name} {part.text}" for part in segments)
    drawing = h("svg", rects, cls="stack", role="img", aria_label=f"{title}: {said}")
    key = [
        h("li", h("svg", h("rect", width="100%", height="100%", cls=part.tone), cls="swatch", aria_hidden="true"),
          h("span", part.name), h("b", part.text))
        for part in segments
    ]  # fmt: skip
    return h("figure", drawing, h("ul", key, cls="key"), cls="stacked")


def range_bar(scale: Scale, low: float, middle: float, high: float, inner: float | None) -> Html:
    """From the least to the greatest value, thick from the least to ``inner``, with a dot at the median."""

    def place(value: float) -> str:
        return f"{scale.at(value) / 10:.2f}%"

    def line(to: float, cls: str) -> Html:
        return h("line", x1=place(low), x2=place(to), y1="50%", y2="50%", cls=cls)

    thick = line(inner, "thick") if inner is not None else None
    dot = h("circle", cx=place(middle), cy="50%", r=4.0)
    return h("svg", line(high, "thin"), thick, dot, cls="range", aria_hidden="true")


# --- series -------------------------------------------------------------------------------------------------


def columns_of(values: Sequence[float | None], columns: int = COLUMNS) -> Iterator[list[float]]:
    """The values in so many columns of neighbours, without those that are missing."""
    count = len(values)
    for column in range(columns):
        part = values[column * count // columns : (column + 1) * count // columns]
        yield [value for value in part if value is not None]


def series(values: Sequence[float | None], y: Scale, xs: Sequence[float], *, dots: bool) -> list[Html]:
    """A series as dots or as a line; more than 800 values as the band from least to greatest and the median's line.

    Args:
        values: None where there is none.
        y: their scale.
        xs: where each stands, in thousandths, ascending.
        dots: separate dots instead of a line, where there are few enough.
    """
    if len(values) > 2 * COLUMNS:
        return _band(values, y, xs)
    points = [(x, y.down(value)) for x, value in zip(xs, values, strict=True) if value is not None]
    if dots:
        return [h("path", d="".join(f"M{_n(x)} {_n(at)}h0" for x, at in points), cls="dots")]
    return [h("path", d=_line(points), cls="line")] if points else []


def _line(points: Sequence[tuple[float, float]]) -> str:
    """A line through the points that stops where one is missing.

    A gap is more than twice as wide as is usual between points: some counters are read less often than others, which
    is no gap.
    """
    usual = median(after[0] - before[0] for before, after in pairwise(points)) if len(points) > 1 else 0.0
    pieces: list[list[tuple[float, float]]] = []
    for point in points:
        if not pieces or point[0] - pieces[-1][-1][0] > 2.2 * usual:
            pieces.append([])
        pieces[-1].append(point)
    drawn = ("L".join(f"{_n(x)} {_n(at)}" for x, at in piece) + "h0" * (len(piece) == 1) for piece in pieces)
    return "".join(f"M{piece}" for piece in drawn)


def _band(values: Sequence[float | None], y: Scale, xs: Sequence[float]) -> list[Html]:
    count = len(values)
    upper, lower, middle = [], [], []
    for column, part in enumerate(columns_of(values)):
        if not part:
            continue
        x = _n(xs[min(count - 1, (2 * column + 1) * count // (2 * COLUMNS))])
        upper.append(f"{x} {_n(y.down(max(part)))}")
        lower.append(f"{x} {_n(y.down(min(part)))}")
        middle.append(f"{x} {_n(y.down(sorted(part)[len(part) // 2]))}")
    if not upper:
        return []
    outline = "M" + "L".join([*upper, *reversed(lower)]) + "Z"
    return [h("path", d=outline, cls="band"), h("path", d="M" + "L".join(middle), cls="line")]


# --- a plot with axes ---------------------------------------------------------------------------------------


def label(text: str, *, top: float | None = None, left: float | None = None, cls: str | None = None) -> Html:
    """A text at so many thousandths of its box."""
    place = f"top:{top / 10:.2f}%" if top is not None else f"left:{(left or 0.0) / 10:.2f}%"
    return h("span", text, style=place, cls=cls)


def apart(places: Iterable[float], least: float = 75.0) -> list[float]:
    """The same places, in order, moved up or down so that labels at them don't touch.

    >>> apart([500.0, 510.0], 80.0)
    [465.0, 545.0]
    """
    found = list(places)
    order = sorted(range(len(found)), key=found.__getitem__)
    for before, after in pairwise(order):
        lack = least - (found[after] - found[before])
        if lack > 0:
            found[before] -= lack / 2
            found[after] += lack / 2
    return found


def plot(
    name: str,
    drawing: Iterable[Html],
    *,
    described: str,
    y_labels: Iterable[Html],
    x_labels: Iterable[Html],
    beside: Html | None = None,
    marks: Iterable[Html] = (),
    source: str | None = None,
) -> Html:
    """A drawing between its axes.

    Args:
        name: class of the plot.
        drawing: what is in it.
        described: the same in words, for those who can't see it.
        y_labels: labels left of it.
        x_labels: labels below it.
        beside: a second drawing that shares the y axis.
        marks: labels right of it.
        source: JSON that tells the page's script where the values are, for its tooltip.
    """
    shared = {"viewBox": "0 0 1000 1000", "preserveAspectRatio": "none"}
    area = h("svg", drawing, role="img", aria_label=described, **shared)
    return h(
        "div",
        h("div", y_labels, cls="y", aria_hidden="true"),
        h("div", area, cls="area", data_source=source),
        h("div", beside, cls="beside", aria_hidden="true") if beside is not None else None,
        h("div", marks, cls="marks", aria_hidden="true"),
        h("div", x_labels, cls="x", aria_hidden="true"),
        cls=f"plot {name}" if beside is not None else f"plot {name} alone",
    )


def drawing_of(parts: Iterable[Html]) -> Html:
    """A drawing of its own, without a description."""
    return h("svg", parts, viewBox="0 0 1000 1000", preserveAspectRatio="none")


def rules(places: Iterable[float], cls: str) -> Html:
    """Horizontal lines over the whole width."""
    return h("path", d="".join(f"M0 {_n(place)}H1000" for place in places), cls=cls)


def uprights(places: Iterable[float], cls: str) -> Html:
    """Vertical lines over the whole height."""
    return h("path", d="".join(f"M{_n(place)} 0V1000" for place in places), cls=cls)


def histogram(values: Sequence[float], y: Scale, bins: int, cls: str = "a2") -> list[Html]:
    """How many values stand where on the scale: bars from the left, the fullest over the whole width."""
    counts = [0] * bins
    for value in values:
        if value <= y.high:
            counts[min(bins - 1, int((FULL - y.down(value)) * bins / FULL))] += 1
    most = max(counts)
    thick = FULL / bins
    return [
        h("rect", x=0.0, y=_n(FULL - (index + 1) * thick + 0.08 * thick), width=_n(FULL * count / most),
          height=_n(0.84 * thick), cls=cls)
        for index, count in enumerate(counts)
        if count
    ]  # fmt: skip


def spread_over(count: int) -> list[float]:
    """Where so many values stand that are equally far apart."""
    return [FULL / 2] if count == 1 else [FULL * index / (count - 1) for index in range(count)]


def y_axis(scale: Scale, about: int = 5) -> tuple[list[Html], Html]:
    """Labels and lines of a y axis; its numbers have as many decimals as the longest needs."""
    places = ticks(scale, about)
    decimals = max(len(f"{tick:.10g}".partition(".")[2]) for tick in places)
    return [label(f"{tick:.{decimals}f}", top=scale.down(tick)) for tick in places], rules(
        map(scale.down, places), "grid"
    )
