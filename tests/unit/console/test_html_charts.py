"""Charts: round numbers on axes, everything inside the drawing, and no value lost."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures import trace_documents as made
from fixtures.html_pages import Page
from winml.modelkit.console import html_charts as charts
from winml.modelkit.console.html_charts import Scale
from winml.modelkit.console.html_hardware import quantity
from winml.modelkit.console.html_latency import y_range
from winml.modelkit.console.html_report import render_html

finite = st.floats(-1e9, 1e9)


@given(finite, st.floats(1e-6, 1e9), st.integers(2, 10))
def test_ticks_are_round_few_and_inside(low: float, span: float, about: int) -> None:
    scale = Scale(low, low + span)
    if scale.high - scale.low < 1e-9 * max(1.0, abs(low)):
        return  # floats have no round numbers in between
    found = charts.ticks(scale, about)
    assert len(found) <= about + 1
    assert all(scale.low - 1e-6 * span <= tick <= scale.high + 1e-6 * span for tick in found)
    steps = {round((b - a) / span, 6) for a, b in pairwise(found)}
    assert len(steps) <= 1


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (5.9, 8.05, [6.0, 6.5, 7.0, 7.5, 8.0]),
        (1.0, 100.0, [20.0, 40.0, 60.0, 80.0, 100.0]),
        (3.0, 3.0, [3.0]),
    ],
)
def test_ticks(low: float, high: float, found: list[float]) -> None:
    assert charts.ticks(Scale(low, high)) == pytest.approx(found)


@given(finite, finite, finite)
def test_a_scale_never_leaves_its_drawing(low: float, high: float, value: float) -> None:
    assert 0.0 <= Scale(min(low, high), max(low, high)).at(value) <= 1000.0


def test_scale_runs_upwards() -> None:
    scale = Scale(10.0, 20.0)
    assert (scale.at(10.0), scale.at(15.0), scale.down(20.0), scale.down(10.0)) == (0.0, 500.0, 0.0, 1000.0)


@given(st.lists(st.floats(0, 1000), max_size=6))
def test_labels_keep_their_order_and_two_never_touch(places: list[float]) -> None:
    found = charts.apart(places, 75.0)
    assert len(found) == len(places)
    if len(places) == 2:
        assert abs(found[0] - found[1]) >= 75.0 - 1e-9
        assert (found[0] <= found[1]) == (places[0] <= places[1])


@given(st.lists(finite | st.none(), min_size=1, max_size=3000))
def test_columns_hold_every_value(values: list[float | None]) -> None:
    columns = list(charts.columns_of(values, 400))
    assert [value for column in columns for value in column] == [value for value in values if value is not None]


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=300))
def test_the_axis_of_latency_holds_nearly_all_samples(samples: list[float]) -> None:
    ordered = sorted(samples)
    scale = y_range(ordered, ordered[len(ordered) // 2])
    assert 0.0 <= scale.low <= ordered[0]
    inside = sum(value <= scale.high for value in ordered)
    assert inside >= (0.94 * len(ordered) if len(ordered) >= 20 else len(ordered))


def test_a_steady_run_looks_steady() -> None:
    scale = y_range([10.0, 10.001, 10.002], 10.001)
    assert scale.high - scale.low >= 1.0


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)]


def test_every_run_is_a_dot_where_there_is_room() -> None:
    page = Page(render_html(made.run_of([1.0, 2.0, 3.0, 4.0, 5.0])))
    (dots,) = page.section("latency").all("path", "dots")
    found = points(dots.attributes["d"] or "")
    assert [x for x, _ in found] == [0.0, 250.0, 500.0, 750.0, 1000.0]
    # The axis goes from 0.8 to 5.2 ms, so that 1 ms stands at 4.2 of 4.4 parts from the top.
    assert [y for _, y in found] == pytest.approx([1000 * part / 4.4 for part in (4.2, 3.2, 2.2, 1.2, 0.2)], abs=0.06)


def test_one_run_stands_in_the_middle() -> None:
    (dots,) = Page(render_html(made.run_of([6.1]))).section("latency").all("path", "dots")
    assert points(dots.attributes["d"] or "") == [(500.0, 500.0)]


def test_a_long_run_is_drawn_as_a_band_that_keeps_its_extremes() -> None:
    samples = [10.0 + 0.5 * math.sin(index) for index in range(100_000)]
    samples[61_803] = 10.9
    samples[31_415] = 9.1
    page = Page(render_html(made.run_of(samples)))
    latency = page.section("latency")
    assert not latency.all("path", "dots")
    (band,) = latency.all("path", "band")
    found = points((band.attributes["d"] or "").replace("Z", ""))
    assert len(found) == 800
    scale = y_range(sorted(samples), 10.0)
    top, bottom = scale.down(10.9), scale.down(9.1)
    assert min(found, key=lambda at: at[1]) == pytest.approx((618.0, top), abs=2.0)
    assert max(found, key=lambda at: at[1]) == pytest.approx((314.0, bottom), abs=2.0)
    assert "about 250 runs" in latency.text


def test_runs_beyond_the_axis_are_marked_and_counted() -> None:
    samples = [10.0 + 0.01 * (index % 7) for index in range(200)]
    samples[50] = samples[150] = 90.0
    latency = Page(render_html(made.run_of(samples))).section("latency")
    (marks,) = latency.all("path", "over")
    assert (marks.attributes["d"] or "").count("h0") == 2
    assert "Marks at the upper edge: 2 runs beyond the axis, up to 90 ms." in latency.text


def test_the_histogram_counts_every_run_on_the_axis() -> None:
    bars = charts.histogram([1.0, 1.0, 2.0, 9.0], Scale(0.0, 10.0), 10)
    widths = [re.search(r'width="([\d.]+)"', bar) for bar in bars]
    assert [float(found[1]) for found in widths if found] == [1000.0, 500.0, 500.0]
    assert len(charts.histogram([1.0, 99.0], Scale(0.0, 10.0), 10)) == 1


def test_a_stacked_bar_is_never_longer_than_its_whole() -> None:
    made_bar = charts.stacked_bar("x", [charts.Segment("a", 0.7, "7", "a1"), charts.Segment("b", 0.6, "6", "a2")])
    assert re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%"', made_bar) == [("0.000", "70.000"), ("70.000", "30.000")]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3 * 1024.0**2, "bytes", "3.0 MiB"),
        (187.4, "% of one CPU", "187%"),
        (0.0, "%", "0%"),
        (12.345, "W", "12.3 W"),
        (2400.0, "MHz", "2400 MHz"),
        (None, "W", "-"),
    ],
)
def test_quantity(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text
