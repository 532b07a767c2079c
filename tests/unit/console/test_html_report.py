"""The HTML report: one file that needs nothing else, holds the whole document, and lets nothing in."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
import subprocess
import sys
from collections import Counter

import msgspec
import pytest

from fixtures import perf_documents
from fixtures import trace_documents as made
from fixtures.html_pages import Page
from winml.modelkit.console.html_report import render_html
from winml.modelkit.console.layout import one_line
from winml.modelkit.perf.document import PerfDocument

DOCUMENTS = {
    "plain": perf_documents.document,
    "few": lambda: perf_documents.document(n=5),
    "by shape": perf_documents.by_shape,
    "crashed": perf_documents.crashed,
    "refused": perf_documents.refused,
    "emulated": perf_documents.emulated,
    "one run": lambda: made.run_of([6.1]),
    "long run": lambda: made.random_run(100_000),
    "full": made.full,
    "failed trace": lambda: made.traced(made.failed_trace()),
    "cycles": lambda: made.traced(made.cycles_trace(scaled=False)),
    "hostile": made.hostile,
}


def page(document: PerfDocument) -> Page:
    return Page(render_html(document))


# --- one file, closed to the outside ------------------------------------------------------------------------


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_document_makes_a_page_that_holds_it(name: str) -> None:
    document = DOCUMENTS[name]()
    text = render_html(document)
    assert text.startswith("<!doctype html>\n")
    found = Page(text)
    assert msgspec.convert(found.document, PerfDocument) == document
    assert found.root.by_id("verdict").text == " ".join(one_line(document.summary).split())
    assert len(found.root.all("h1")) == 1
    assert all(len(section.all("h2")) == 1 for section in found.root.all("section"))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_is_fetched_and_nothing_runs_but_the_script_of_the_page(name: str) -> None:
    found = page(DOCUMENTS[name]())
    elements = found.root.everything()
    assert not [element for element in elements if element.tag in ("link", "img", "iframe", "object", "base", "form")]
    names = {attribute for element in elements for attribute in element.attributes}
    assert not names & {"src", "href", "srcset", "action"}
    assert not [attribute for attribute in names if attribute.startswith("on")]
    assert "url(" not in found.root.all("style")[0].text
    scripts = found.root.all("script")
    assert [script.attributes.get("type") for script in scripts] == ["application/json", None]
    digest = base64.b64encode(hashlib.sha256("".join(scripts[1].texts).encode()).digest()).decode()
    policy = next(e.attributes["content"] for e in elements if e.attributes.get("http-equiv"))
    assert policy == (f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'")


def test_names_of_a_hostile_model_stay_text() -> None:
    """The same elements as of a harmless document, whatever its texts are."""
    hostile = made.hostile()
    text = render_html(hostile)
    assert "<img" not in text
    assert text.count("<script") == 2
    assert text.count("</script") == 2
    assert "\u202e" not in text
    assert "\u2028" not in text
    found = Page(text)
    assert "</script><script>alert('x')</script>" in found.root.all("h1")[0].text
    harmless = msgspec.json.decode(
        msgspec.json.encode(hostile).replace(msgspec.json.encode(made.HOSTILE)[1:-1], b"harmless"), type=PerfDocument
    )
    tags = Counter(element.tag for element in found.root.everything())
    expected = Counter(element.tag for element in page(harmless).root.everything())
    del tags["wbr"], expected["wbr"]
    assert tags == expected


def test_a_name_that_is_no_text_is_spelt_out() -> None:
    document = made.traced(made.small_trace())
    assert document.effective is not None
    document.effective.model.name = "caf\udce9"
    text = render_html(document)
    text.encode("utf-8")
    assert Page(text).root.all("h1")[0].text == "caf\\udce9"


def test_numbers_that_are_none_become_null() -> None:
    document = made.run_of([6.1, 6.2, 6.3])
    assert document.result is not None
    document.result.samples_ms[1] = float("nan")
    document.result.latency_ms.stdev = float("inf")
    found = page(document)
    assert found.document["result"]["samples_ms"] == [6.1, None, 6.3]
    assert "nan" not in "".join(e.attributes.get("d") or "" for e in found.root.everything())


def test_the_page_is_small() -> None:
    samples = 400 * 20
    assert len(render_html(made.full())) < 300_000 + samples
    large = made.traced(made.large_trace(1000))
    without = render_html(large).replace(msgspec.json.encode(large.trace).decode(), "")
    assert len(without) < 100_000


def colours(css: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{3,6});", css))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[index : index + 2], 16) / 255 for index in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stand_out_from_their_background(theme: str) -> None:
    """Contrast of at least 4.5, which WCAG 2 asks of text at level AA."""
    css = page(perf_documents.refused()).root.all("style")[0].text
    light, dark = css.split("@media (prefers-color-scheme: dark)")[:2]
    found = colours(light) | (colours(dark.split("@media")[0]) if theme == "dark" else {})
    pairs = [(text, "paper") for text in ("ink", "soft", "a1", "good", "warn", "bad")]
    pairs += [("warn", "warn-wash"), ("bad", "bad-wash"), ("ink", "bad-wash"), ("soft", "bad-wash"), ("on-bad", "bad")]
    for text, ground in [*pairs, ("ink", "faint"), ("soft", "faint")]:
        bright, dim = sorted((luminance(found[text]), luminance(found[ground])), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, (text, ground)


# --- what it says -------------------------------------------------------------------------------------------


def test_the_figures_people_look_for_first() -> None:
    found = page(perf_documents.document())
    assert found.root.by_id("p50").text == "6.10"
    figures = found.root.all("dl", "figures")[0]
    assert [(dt.text, dd.text) for dt, dd in zip(figures.all("dt"), figures.all("dd"), strict=True)] == [
        ("p50", "6.10 ms"),
        ("p90", "6.60 ms"),
        ("p99", "7.70 ms"),
        ("throughput", "164 samples/s"),
        ("nodes on the target", "43/55"),
        ("peak memory", "170.0 MiB"),
    ]


def test_verdicts_are_badges() -> None:
    assert [li.text for li in page(perf_documents.document()).root.all("ul", "badges")[0].all("li")] == [
        "done", "noisy",
    ]  # fmt: skip
    failed = made.traced(made.failed_trace())
    assert [li.text for li in page(failed).root.all("ul", "badges")[0].all("li")][-1] == "no operator trace"


def test_a08_an_emulated_run_says_so_loudly() -> None:
    (alarm,) = page(perf_documents.emulated()).root.all("p", "alarm")
    assert alarm.text == (
        "EMULATED: no npu here; qnn's emulator ran on the cpu. Its timings say nothing about real hardware."
    )


def test_a_failure_says_reason_next_step_and_last_native_lines() -> None:
    box = page(perf_documents.crashed()).root.by_id("failure")
    assert "the worker process was ended by signal 6 (SIGABRT) during: first run" in box.text
    assert "Next step: its native output is in /logs/x.log" in box.text
    assert "".join(box.all("pre")[0].texts) == "terminate called\n  what(): bad"
    assert "code crashed · exit code 5 · log /logs/x.log" in box.text


def test_a_run_that_never_began_says_what_was_asked_for() -> None:
    found = page(perf_documents.refused())
    assert not found.has("latency")
    asked = found.section("run")
    assert asked.all("h2")[0].text == "What was asked for"
    assert [dd.text for dd in asked.all("dd")] == ["m.onnx", "qnn", "npu", "True"]


def test_warnings() -> None:
    assert page(perf_documents.document()).root.by_id("warnings").all("li")[0].text == "something to know"


def test_b04_what_came_out_otherwise_than_asked_is_shown() -> None:
    rows = page(perf_documents.document()).section("asked").all("table")[0].rows()
    assert rows == [["Option", "Asked", "Done"], ["--batch-size", "8", "1"]]
    document = perf_documents.document()
    document.requested.batch_size = 1
    assert not page(document).has("asked")


def test_percentiles_that_the_samples_cannot_carry_are_said() -> None:
    rows = page(made.run_of([6.0, 6.1, 6.3])).section("latency").all("table")[0].rows()
    assert rows[0] == ["n", "mean", "min", "p50", "p90", "p95", "p99", "max", "stdev"]
    assert rows[1] == [
        "3", "6.13", "6.00", "6.10", "–needs 10 samples", "–needs 20 samples", "–needs 100 samples", "6.30", "0.15",
    ]  # fmt: skip


def test_noise_is_judged_with_its_reasons() -> None:
    latency = page(perf_documents.document()).section("latency")
    assert "noisy: other processes used 0.9 CPUs" in latency.text
    assert "IQR over median 8.0%, drift -1.2%, CPUs used by others 0.91, steal n/a" in latency.text


def test_every_shape_has_its_row_and_its_plot() -> None:
    latency = page(perf_documents.by_shape()).section("latency")
    rows = latency.all("table")[0].rows()
    assert [row[0] for row in rows[1:]] == [
        "x 1x3x224x224164 inferences/s, 164 samples/s at batch size 1, first run 15 ms",
        "x 8x3x224x22420.5 inferences/s, 164 samples/s at batch size 8, first run 120 ms",
    ]
    assert [title.text for title in latency.all("h3")] == ["x 1x3x224x224", "x 8x3x224x224"]
    assert len(latency.all("div", "latency")) == 2


def test_phases_and_memory() -> None:
    found = page(perf_documents.document())
    keys = [(li.all("span")[0].text, li.all("b")[0].text) for li in found.section("phases").all("li")]
    assert keys[0] == ("import runtime", "310 ms")
    assert keys[-1] == ("measure", "640 ms")
    widths = [rect.attributes["width"] for rect in found.section("phases").all("svg", "stack")[0].all("rect")]
    assert widths[-1] == f"{100 * 640 / 1313.2:.3f}%"
    rows = found.section("memory").all("table")[0].rows()
    assert rows[2] == ["EP registered", "", "88.0 MiB", "+76.0 MiB"]
    assert rows[3] == ["session created", "", "n/a", "the system gave no figure"]
    assert len(found.section("memory").all("svg", "bar")) == 4
    document = perf_documents.document()
    assert document.result is not None
    document.result.memory = None
    assert "Not recorded: --no-memory." in page(document).section("memory").text


def test_placement_and_leftovers() -> None:
    placement = page(perf_documents.document()).section("placement")
    assert placement.all("table")[0].rows()[1:] == [["openvinotarget", "43", "78.2%", "2"], ["cpu", "12", "21.8%", "-"]]
    assert placement.all("table")[1].rows()[1] == ["Hardmax", "cpu", "/block_0/Hardmax"]
    document = perf_documents.document()
    assert document.placement is not None
    document.placement.leftovers = [{"name": f"n{n}", "op_type": "Add", "ep": "cpu"} for n in range(1000)]
    placement = page(document).section("placement")
    assert placement.all("summary")[0].text == "288 more"
    assert "700 more are in the JSON only." in placement.text


def test_inputs_settings_target_and_environment() -> None:
    found = page(perf_documents.document())
    run = found.section("run")
    assert run.all("table")[0].rows()[1] == ["x", "float32", "1x3x224x224", "generated, seed 0"]
    pairs = dict(zip([dt.text for dt in run.all("dt")], [dd.text for dd in run.all("dd")], strict=True))
    assert pairs["library"] == "onnxruntime-ep-openvino 1.8.1 from pypi"
    assert pairs["precision"] == "bf16 (bf16 90.0%, fp32 10.0%; kernel records)"
    assert pairs["sha256"] == "ab" * 32
    assert "winml 0.1.0 · onnxruntime 1.32.0 · Python 3.11.7" in found.section("environment").text


@pytest.mark.parametrize("arguments", [["winml", "perf", "my model.onnx"], ["winml", "a'b", "c\nd", "\u202e$HOME"]])
def test_the_command_line_is_exact(arguments: list[str]) -> None:
    document = made.run_of([1.0])
    document.command = arguments
    shown = "".join(page(document).root.by_id("command").texts)
    if all(argument.isprintable() for argument in arguments):
        assert shlex.split(shown) == arguments
    if sys.platform == "win32":
        return
    bash = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {shown}"], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert bash.stdout.decode().split("\0")[:-1] == arguments


def test_the_command_line_of_windows_is_quoted_for_windows() -> None:
    document = made.run_of([1.0])
    document.environment.os = "Windows 11 10.0.26100"
    document.command = ["winml", "perf", r"C:\my models\m.onnx"]
    assert page(document).root.by_id("command").text == r'winml perf "C:\my models\m.onnx"'


# --- traces and counters ------------------------------------------------------------------------------------


def test_operators_and_types() -> None:
    trace = page(made.traced(made.small_trace())).section("trace")
    operators, types = (table.rows() for table in trace.all("table"))
    assert operators == [
        ["Operator", "Type", "EP", "Samples", "Mean µs", "p50 µs", "", "Share"],
        ["conv", "Convolutionbrgconv_avx2_i8", "OpenVINO #0", "3", "500.0", "500.0", "", "62.5%"],
        ["gemm", "FullyConnected", "OpenVINO #0", "3", "200.0", "200.0", "", "25.0%"],
        ["move", "Reordermoves data", "OpenVINO #1", "3", "100.0", "100.0", "", "12.5%"],
    ]
    assert types[1] == ["Convolution", "OpenVINO", "1", "3", "500.0", "", "62.5%"]
    keys = [(li.all("span")[0].text, li.all("b")[0].text) for li in trace.all("ul", "key")[0].all("li")]
    assert keys == [
        ("operators", "0.8 ms (80.0%)"),
        ("rest of the EP", "50 µs (5.0%)"),
        ("outside the EP", "0.15 ms (15.0%)"),
    ]
    assert "not mapped to ONNX nodes: 1 of 3 operators (gemm)" in trace.text
    assert "files of the trace in /reports/r.trace: profile.json, schematic.bin" in trace.text


def test_times_that_exceed_the_run_are_said_and_not_drawn_as_parts_of_it() -> None:
    trace = made.trace_of([made.op("a", "Add", us=[70.0]), made.op("b", "Add", us=[60.0])], [100.0])
    section = page(made.traced(trace)).section("trace")
    assert not section.all("svg", "stack")
    assert "operators 0.13 ms (130.0%)" in section.text


def test_derived_times_are_marked_and_cycles_kept_apart() -> None:
    derived = page(made.traced(made.cycles_trace(scaled=True))).section("trace").all("table")[0].rows()
    assert derived[0][4:6] == ["Mean µs, derived", "p50 µs"]
    assert derived[1][4] == "20504100 cycles"
    only = page(made.traced(made.cycles_trace(scaled=False))).section("trace")
    rows = only.all("table")[0].rows()
    assert rows[0][4:6] == ["Mean cycles", "p50 cycles"]
    assert rows[1][4:] == ["4100", "4100", "", "74.5%"]
    assert "µs" not in only.text
    mixed = page(made.traced(made.mixed_trace())).section("trace")
    assert [table.rows()[1][0] for table in mixed.all("table")[:2]] == ["cpu_node", "npu"]
    assert [table.rows()[1][-1] for table in mixed.all("table")[:2]] == ["100%", "100%"]
    assert "cycles only, which do not add up" in mixed.text


def test_top_k() -> None:
    document = made.traced(made.large_trace(120))
    trace = Page(render_html(document, top_k=7)).section("trace")
    assert len(trace.all("table")[0].rows()) == 8
    assert "By time: the first 7 of 120" in trace.text
    assert document.trace is not None
    rest = sum(op.share or 0.0 for op in document.trace.ops[7:])
    assert f"113 more operators, {100 * rest:.1f}% in all, are in the JSON." in trace.text


def test_h02_a_failed_trace_says_cause_reason_hint_and_evidence() -> None:
    trace = page(made.traced(made.failed_trace())).section("trace")
    assert not trace.all("table")
    box = trace.all("div", "box")[0].text
    assert box.startswith("No operator traceQNN wrote no profiling file")
    assert "Next step: a library of the EP does not load: reinstall its package as a whole" in box
    assert "Unable to load backend, dlerror: libQnnHtp.so" in box
    assert "cause backend_load_failed · QNN" in box


def test_counters_that_exist_are_drawn_and_the_others_listed_with_their_reason() -> None:
    document = made.run_of([1.0])
    document.hardware = made.hardware()
    section = page(document).section("hardware")
    drawn = section.all("figure", "counter")
    assert [figure.all("h3")[0].text for figure in drawn] == [
        "process CPU of one CPU", "process memory", "CPU package power", "CPU package energy",
    ]  # fmt: skip
    assert "48 J in all" in drawn[3].text
    assert [li.text for li in section.all("ul", "notes")[0].all("li")] == [
        "device use, device memory: no NPU in this machine"
    ]
    assert [span.text for span in section.all("div", "axis")[0].all("span")] == ["measure", "load", "session", "trace"]


def lines_of(figure: object) -> list[str]:
    paths = [e.attributes["d"] or "" for e in figure.all("path", "line")]  # type: ignore[attr-defined]
    assert len(paths) == 1
    return re.findall(r"M[^M]*", paths[0])


def test_a_gap_breaks_the_line_and_rare_readings_do_not() -> None:
    document = made.run_of([1.0])
    document.hardware = made.hardware()
    figures = page(document).section("hardware").all("figure", "counter")
    assert len(lines_of(figures[0])) == 1  # every reading there
    assert len(lines_of(figures[1])) == 1  # read every fifth time
    assert len(lines_of(figures[2])) == 2  # failed for a while


def test_hardware_of_a_run_that_ended_at_once() -> None:
    document = made.run_of([1.0])
    document.hardware = made.hardware(seconds=0.0)
    assert len(page(document).section("hardware").all("figure", "counter")) == 4
    document.hardware.times_s.clear()
    for counter in document.hardware.counters.values():
        counter.values.clear()
        counter.mean = counter.peak = None
    section = page(document).section("hardware")
    assert not section.all("figure")
    assert "no reading succeeded" in section.text
