"""An operator trace as text: what took how long, how far that explains the run, and why there is nothing."""

from __future__ import annotations

import pytest

from fixtures import trace_documents as made
from winml.modelkit.console import trace_words
from winml.modelkit.console.layout import Lines, Table, draw
from winml.modelkit.console.streams import Look
from winml.modelkit.console.trace_text import trace_lines
from winml.modelkit.perf.document import Trace, TraceInference

PIPE = Look(terminal=False, color=False, unicode=True, width=None)


def text(trace: Trace, **how: int | bool) -> list[str]:
    return draw(trace_lines(trace, **how), PIPE).splitlines()  # type: ignore[arg-type]


def cells(line: str) -> list[str]:
    """Cells of a plain row: at least two spaces part them."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_operators_the_most_expensive_first() -> None:
    lines = text(made.small_trace())
    assert lines[0] == "Operators by time (3, traced on OpenVINO)"
    assert cells(lines[1]) == ["Operator", "Type", "Kernel", "EP", "Samples", "Mean µs", "p50 µs", "Share"]
    assert cells(lines[2]) == [
        "conv", "Convolution", "brgconv_avx2_i8", "OpenVINO #0", "3", "500.0", "500.0", "62.5%",
    ]  # fmt: skip
    assert cells(lines[3]) == ["gemm", "FullyConnected", "-", "OpenVINO #0", "3", "200.0", "200.0", "25.0%"]
    assert cells(lines[4]) == ["move", "Reorder", "-", "OpenVINO #1", "3", "100.0", "100.0", "12.5%"]


def test_types_per_inference() -> None:
    lines = text(made.small_trace())
    start = lines.index("Operator types (3)")
    assert cells(lines[start + 1]) == ["Type", "EP", "Operators", "Calls", "µs per inference", "Share"]
    assert cells(lines[start + 2]) == ["Convolution", "OpenVINO", "1", "3", "500.0", "62.5%"]


def test_h03_what_the_operators_explain_and_what_tracing_costs() -> None:
    lines = [line.strip() for line in text(made.small_trace())]
    assert "OpenVINO kernel records, level basic, 3 traced inferences after 4 for warm-up" in lines
    # Walls 1000, 1100 and 900 µs; operators 800, 900 and 700; EP busy 850, 950 and 750.
    assert (
        "mean traced inference 1 ms: operators 0.8 ms (80.0%), EP busy 0.85 ms (85.0%), outside the EP 0.15 ms (15.0%)"
    ) in lines
    assert ("tracing: p50 6.3 ms with it, 6.1 ms without (1.03 times); latency figures are from untraced runs") in lines
    assert "2 partitions: 0, 1" in lines
    assert "not mapped to ONNX nodes: 1 of 3 operators (gemm)" in lines
    assert "2 files in /reports/r.trace" in lines


def test_files_are_named_with_verbose() -> None:
    lines = [line.strip() for line in text(made.small_trace(), verbose=True)]
    assert "/reports/r.trace/profile.json" in lines
    assert "/reports/r.trace/schematic.bin" in lines


def test_top_k() -> None:
    lines = text(made.small_trace(), top_k=2)
    assert lines[0] == "Operators by time (2 of 3, traced on OpenVINO)"
    assert "Operator types (2 of 3)" in lines
    assert not any(line.strip().startswith("move") for line in lines)


def test_many_unmapped_names_are_cut_unless_verbose() -> None:
    trace = made.large_trace(120)
    short = next(line for line in text(trace) if "not mapped" in line)
    assert short.endswith("_81, and 4 more)")
    whole = next(line for line in text(trace, verbose=True) if "not mapped" in line)
    assert whole.count("/model/") == len(trace.unmapped) == 14


def test_derived_times_are_marked_beside_their_cycles() -> None:
    lines = text(made.cycles_trace(scaled=True))
    assert lines[0] == "Operators by time (3, traced on QNN, EMULATED)"
    assert cells(lines[2]) == [
        "/net/conv1", "Conv2d", "QNN #0", "2", "~2050", "~2050", "4100", "4100", "74.5%",
    ]  # fmt: skip
    assert "  ~ microseconds made from the accelerator's cycles" in lines
    assert "  EMULATED: these times and cycles say nothing about real hardware" in lines


def test_cycles_without_times_are_called_cycles() -> None:
    lines = text(made.cycles_trace(scaled=False))
    assert lines[0] == "Operators by cycles (3, traced on QNN, EMULATED)"
    assert cells(lines[1]) == ["Operator", "Type", "EP", "Samples", "Mean cycles", "p50 cycles", "Share"]
    assert cells(lines[2])[-3:] == ["4100", "4100", "74.5%"]
    assert not any("µs" in line or "~" in line for line in lines)
    assert any("the operators have no times" in line and "the EP was busy for 2.8 ms" in line for line in lines)


def test_cycles_and_times_never_share_a_table() -> None:
    lines = text(made.mixed_trace())
    times = lines.index("Operators by time (1, traced on QNN)")
    cycles = lines.index("Operators by cycles (1, traced on QNN)")
    assert cells(lines[times + 2]) == ["cpu_node", "Softmax", "CPU", "2", "50.0", "50.0", "100%"]
    assert cells(lines[cycles + 2]) == ["npu", "Conv2d", "QNN #0", "2", "10", "10", "100%"]
    types = lines.index("Operator types (2)")
    assert cells(lines[types + 2]) == ["Softmax", "CPU", "1", "2", "50.0", "-", "100%"]
    assert cells(lines[types + 3]) == ["Conv2d", "QNN", "1", "2", "-", "10", "-"]


def test_h02_a_failed_trace_says_cause_reason_hint_and_evidence() -> None:
    blocks = trace_lines(made.failed_trace())
    assert [type(block) for block in blocks] == [Lines]
    assert text(made.failed_trace()) == [
        "Operator trace of QNN: failed",
        "  backend_load_failed: QNN wrote no profiling file when the session was made: its backend library does not "
        "load",
        "  hint: a library of the EP does not load: reinstall its package as a whole",
        "  | Unable to load backend, dlerror: libQnnHtp.so: cannot open shared object file",
        "  QNN profiling, level basic, 3 traced inferences after 1 for warm-up",
        "  1 file in /reports/r.trace",
    ]


def test_an_operator_called_several_times_per_inference_says_so() -> None:
    record = made.op("loop_body", "Add", us=[4.0, 6.0])
    record.add(1, us=1.0)
    lines = text(made.trace_of([record], [20.0, 20.0]))
    assert "2 (3 calls)" in cells(lines[2])


def test_no_operators_is_said() -> None:
    trace = made.trace_of([], [10.0])
    assert text(trace)[0] == "Operators by time (0, traced on OpenVINO): none"
    assert all(isinstance(block, Table | Lines) for block in trace_lines(trace))


def test_hostile_names_stay_on_their_line() -> None:
    trace = made.small_trace()
    trace.ops[0].name = "a\nb\x1b[31m\u202e"
    assert cells(text(trace)[2])[0] == "a; b [31m"


# --- words --------------------------------------------------------------------------------------------------


def test_coverage_of_no_inference_is_none() -> None:
    assert trace_words.coverage(made.failed_trace()) is None


def test_coverage_needs_the_figure_of_every_inference() -> None:
    trace = made.small_trace()
    trace.inferences[1] = TraceInference(wall_us=1100.0, ep_us=None, traced_us=900.0, outside_us=None)
    found = trace_words.coverage(trace)
    assert found is not None
    assert (found.wall_us, found.ep_us, found.traced_us, found.outside_us) == (1000.0, None, 800.0, None)
    assert found.share == pytest.approx(0.8)
    assert trace_words.coverage_words(found) == "mean traced inference 1 ms: operators 0.8 ms (80.0%)"


@pytest.mark.parametrize(
    ("paths", "folder"),
    [
        (["/r/t/a.json", "/r/t/b.bin"], "/r/t"),
        ([r"C:\r\t\a.json"], r"C:\r\t"),
        (["/r/t/a.json", "/r/u/b.bin"], None),
        ([], None),
    ],
)
def test_artefact_folder(paths: list[str], folder: str | None) -> None:
    trace = made.small_trace()
    trace.artefacts = paths
    assert trace_words.artefact_folder(trace) == folder


def test_a_level_other_than_asked_for_is_said() -> None:
    trace = made.small_trace()
    trace.requested_level, trace.iterations = "detail", 1
    words = "OpenVINO kernel records, level basic (asked for detail), 1 traced inference after 4 for warm-up"
    assert trace_words.origin(trace) == words
