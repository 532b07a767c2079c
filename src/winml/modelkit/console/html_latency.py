"""The latency section of the HTML report: every run, their distribution, statistics, and how far to trust them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from winml.modelkit.console.html_charts import (
    COLUMNS,
    Scale,
    apart,
    drawing_of,
    histogram,
    label,
    plot,
    range_bar,
    rules,
    series,
    spread_over,
    ticks,
    y_axis,
)
from winml.modelkit.console.html_parts import Html, h, section, table, td
from winml.modelkit.console.perf_words import STATISTICS, Unit, noise_facts, shapes, throughput_words
from winml.modelkit.perf.assemble import format_ms
from winml.modelkit.perf.document import Latency, Noise, PerfResult, ShapeRun
from winml.modelkit.perf.statistics import percentile

__all__ = ["latency", "noise_tone"]

_BINS = 40
_FEW = 5
"""Fewer samples have no distribution worth drawing."""


def noise_tone(noise: Noise) -> str:
    """How the verdict is coloured."""
    return {"stable": "good", "noisy": "warn", "drifting": "warn"}.get(noise.verdict or "", "")


def latency(result: PerfResult) -> Html:
    """The section: one plot, or one for each set of shapes."""
    found = result.latency_ms
    unit = Unit.of(found.p50)
    runs = f"{found.n} run{'s' if found.n != 1 else ''}, warm-up not included"
    note = f"{runs}; {throughput_words(result.throughput)}"
    if not result.by_shape:
        parts = _samples(result.samples_ms, found, unit, ["result", "samples_ms"])
        parts += [h("h3", f"Statistics in {unit.name}"), _statistics(found, unit), *_noise(result.noise)]
        return section("latency", "Latency", note, parts)
    parts = [_by_shape(result.by_shape)]
    for index, run in enumerate(result.by_shape):
        path: list[str | int] = ["result", "by_shape", index, "samples_ms"]
        parts.append(h("h3", shapes(run.inputs)))
        parts += _samples(run.samples_ms, run.latency_ms, Unit.of(run.latency_ms.p50), path)
        parts.append(_verdict(run.noise))
    note = f"{len(result.by_shape)} sets of shapes in one session, warm-up not included"
    return section("latency", "Latency", note, parts)


# --- the plot -----------------------------------------------------------------------------------------------


def y_range(ordered: Sequence[float], p50: float) -> Scale:
    """From the least to the greatest sample, unless a few would squeeze all others into a corner.

    The axis covers at least a tenth of the median, so that a steady run looks steady.

    Args:
        ordered: samples in ascending order.
        p50: their median.
    """
    low, high = ordered[0], ordered[-1]
    if len(ordered) >= 20:
        body = percentile(ordered, 95) - low
        if body > 0 and high - low > 4 * body:
            high = low + 2.5 * body
    lack = 0.1 * p50 - (high - low)
    if lack > 0:
        low, high = low - lack / 2, high + lack / 2
    margin = 0.05 * (high - low)
    return Scale(max(0.0, low - margin), high + margin)


def _samples(given: Sequence[float], found: Latency, unit: Unit, path: Sequence[str | int]) -> list[Html]:
    samples = [value for value in given if math.isfinite(value)]
    if not samples:
        return []
    ordered = sorted(samples)
    scaled = [value * unit.per_ms for value in samples]
    y = y_range([value * unit.per_ms for value in ordered], found.p50 * unit.per_ms)
    xs = spread_over(len(scaled))
    beyond = [index for index, value in enumerate(scaled) if value > y.high]
    labels, grid = y_axis(y, about=6)
    lines = {"p50": found.p50, "p90": found.p90}
    known = {
        name: y.down(value * unit.per_ms)
        for name, value in lines.items()
        if value is not None and y.low <= value * unit.per_ms <= y.high
    }
    drawing = [grid, *series(scaled, y, xs, dots=True)]
    if beyond:
        places = dict.fromkeys(round(xs[index]) for index in beyond)
        drawing.append(h("path", d="".join(f"M{x} 0h0" for x in places), cls="over"))
    drawing += [rules([place], name) for name, place in known.items()]
    marks = [
        label(f"{name} {unit.text(lines[name] or 0.0)} {unit.name}", top=top, cls="main" if name == "p50" else None)
        for name, top in zip(known, apart(known.values()), strict=True)
    ]
    beside = None
    if len(samples) >= _FEW:
        hist = histogram(scaled, y, min(_BINS, max(8, round(2 * math.sqrt(len(samples))))))
        beside = drawing_of([*hist, *(rules([place], name) for name, place in known.items())])
    source = {
        "values": path,
        "factor": unit.per_ms,
        "decimals": unit.decimals,
        "unit": unit.name,
    }
    described = f"Latency of {found.n} runs between {format_ms(found.min)} and {format_ms(found.max)}; " + ", ".join(
        f"{name} {format_ms(value)}" for name, value in lines.items() if value is not None
    )
    made = plot(
        "latency",
        drawing,
        described=described,
        y_labels=labels,
        x_labels=_runs(len(samples)),
        beside=beside,
        marks=marks,
        source=json.dumps(source),
    )
    return [h("figure", made), h("p", _caption(samples, beyond, unit), cls="note")]


def _runs(count: int) -> list[Html]:
    if count == 1:
        return [label("run 1", left=500.0)]
    scale = Scale(1.0, float(count))
    inner = [tick for tick in ticks(scale, 8) if tick > 1 and scale.at(tick) < 930 and tick == int(tick)]
    return [
        label("run 1", left=0.0, cls="start"),
        *(label(f"{tick:.0f}", left=scale.at(tick)) for tick in inner if scale.at(tick) > 60),
        label(str(count), left=1000.0, cls="end"),
    ]


def _caption(samples: Sequence[float], beyond: Sequence[int], unit: Unit) -> str:
    text = f"{unit.name} per inference over the runs"
    if len(samples) >= _FEW:
        text += "; on the right, how many took how long"
    if len(samples) > 2 * COLUMNS:
        each = len(samples) / COLUMNS
        text += f". Each column stands for about {each:.0f} runs: the band from the least to the greatest, the line"
        text += " at their median"
    if beyond:
        worst = format_ms(max(samples[index] for index in beyond))
        count = "1 run" if len(beyond) == 1 else f"{len(beyond)} runs"
        text += f". Marks at the upper edge: {count} beyond the axis, up to {worst}"
    return text + "."


# --- tables -------------------------------------------------------------------------------------------------


def _statistic(found: Latency, name: str, unit: Unit) -> Html:
    value: float | None = getattr(found, name)
    if value is not None:
        return td(unit.text(value), value, "n main" if name == "p50" else "n")
    needs = found.unsupported.get(name)
    return h("td", "–", h("small", f"needs {needs} samples") if needs else None, cls="n dim")


def _statistics(found: Latency, unit: Unit) -> Html:
    cells = [td(str(found.n), found.n, "n"), *(_statistic(found, name, unit) for name in STATISTICS)]
    return table([("n", True), *((name, True) for name in STATISTICS)], [cells])


def _by_shape(runs: Sequence[ShapeRun]) -> Html:
    scale = Scale(0.0, max(run.latency_ms.max for run in runs))
    unit = Unit.of(min(run.latency_ms.p50 for run in runs))
    names = ("min", "p50", "p90", "p99", "max")
    rows = []
    for run in runs:
        found = run.latency_ms
        drawn = range_bar(scale, found.min, found.p50, found.max, found.p90)
        rows.append(
            [
                h("td", shapes(run.inputs), h("small", f"{throughput_words(run.throughput)}, first run "
                  f"{format_ms(run.first_run_ms)}"), cls="name"),
                td(str(found.n), found.n, "n"),
                *(_statistic(found, name, unit) for name in names),
                h("td", drawn, cls="bars"),
            ]
        )  # fmt: skip
    columns = [("Shapes", False), ("n", True), *((f"{name} {unit.name}", True) for name in names)]
    return table([*columns, (f"0 to {format_ms(scale.high)}", False)], rows, sortable=True)


def _noise(noise: Noise) -> list[Html]:
    facts = ", ".join(f"{name} {text}" for name, text in noise_facts(noise))
    return [h("h3", "Can the samples be trusted?"), _verdict(noise), h("p", facts, cls="note")]


def _verdict(noise: Noise) -> Html:
    why = f": {'; '.join(noise.reasons)}" if noise.reasons else ""
    return h("p", h("b", noise.verdict or "not judged", cls=noise_tone(noise)), why, cls="say")
