"""``winml perf`` as text: what a person needs, and nothing that is not in the document."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures import perf_documents as made
from winml.modelkit.console.perf_text import format_failure, format_perf, render_perf
from winml.modelkit.console.streams import ERRORS, Look, prepare
from winml.modelkit.perf.document import PerfDocument


@pytest.fixture(scope="module", autouse=True)
def _streams() -> None:
    prepare()


PIPE = Look(terminal=False, color=False, unicode=True, width=None)
TERMINAL_80 = Look(terminal=True, color=True, unicode=True, width=80)
ASCII_80 = Look(terminal=True, color=False, unicode=False, width=80)


def lines(document: PerfDocument, look: Look = PIPE, *, verbose: bool = False) -> list[str]:
    return format_perf(document, look, verbose=verbose).splitlines()


def squeezed(line: str) -> str:
    """The line with single spaces."""
    return " ".join(line.split())


def test_summary_is_the_first_line_and_the_last() -> None:
    for look in (PIPE, TERMINAL_80):
        text = format_perf(made.document(), look).splitlines()
        assert made.SUMMARY in text[0]
        assert made.SUMMARY in text[-1]


def test_b04_what_came_out_otherwise_than_asked_is_shown() -> None:
    text = lines(made.document())
    start = text.index("Asked for and done")
    assert text[start + 1].split() == ["Option", "Asked", "Done"]
    assert text[start + 2].split() == ["--batch-size", "8", "1"]
    assert text[start + 3] == ""


def test_b04_nothing_is_shown_where_all_came_out_as_asked() -> None:
    document = made.document()
    document.requested.batch_size = 1
    assert "Asked for and done" not in lines(document)


def test_a08_an_emulated_run_says_so_loudly() -> None:
    text = format_perf(made.emulated(), PIPE)
    assert "EMULATED: no npu here; qnn's emulator ran on the cpu. Its timings say nothing about real hardware." in text
    assert "--device  npu" in text
    assert "qnn on cpu: Some CPU" in text


def test_target_names_library_source_and_versions() -> None:
    text = lines(made.document())
    assert "  openvino on cpu: Some CPU · x86_64" in text
    assert "  onnxruntime-ep-openvino 1.8.1 from pypi" in text
    assert "  versions: package 1.8.1, EP 1.8.1+95d534b" in text
    assert "  chosen: openvino was named" in text
    assert made.PLUGIN not in "\n".join(text)
    assert f"  {made.PLUGIN}" in lines(made.document(), verbose=True)


def test_placement_and_leftovers() -> None:
    text = lines(made.document())
    assert "  openvino     43  78.2%           2" in text
    assert "  cpu          12  21.8%           -" in text
    assert "Nodes not on the target: 12" in text
    assert sum("Hardmax" in line for line in text) == 10
    assert "... and 2 more, all of them with -v" in text
    assert sum("Hardmax" in line for line in lines(made.document(), verbose=True)) == 12


def test_no_leftovers_no_table() -> None:
    document = made.document()
    assert document.placement is not None
    document.placement.leftovers = []
    assert "Nodes not on the target" not in format_perf(document, PIPE)


def test_latency_table() -> None:
    text = lines(made.document())
    row = text[text.index("Latency in ms") + 2]
    assert squeezed(row) == "100 6.31 5.90 6.10 6.60 6.90 7.70 8.05 0.31"


@pytest.mark.parametrize(
    ("scale", "title", "p50", "largest"),
    [
        (0.001, "Latency in µs", "6.10", "8.05"),
        (0.02, "Latency in ms", "0.122", "0.161"),
        (20, "Latency in ms", "122", "161"),
        (1000, "Latency in s", "6.10", "8.05"),
    ],
)
def test_latency_table_has_one_unit_that_suits_the_median(scale: float, title: str, p50: str, largest: str) -> None:
    document = made.document()
    assert document.result is not None
    for name in ("mean", "min", "p50", "p90", "p95", "p99", "max", "stdev"):
        figure = document.result.latency_ms
        setattr(figure, name, getattr(figure, name) * scale)
    text = lines(document)
    row = text[text.index(title) + 2].split()
    assert (row[3], row[7]) == (p50, largest)


def test_passed_over_eps_are_one_line_per_reason() -> None:
    document = made.document()
    assert document.effective is not None
    document.effective.passed_over = [
        {"ep": "OpenVINOExecutionProvider", "device": "npu", "reason": "no device"},
        {"ep": "QNNExecutionProvider", "device": "npu", "reason": "only an emulator here"},
        {"ep": "OpenVINOExecutionProvider", "device": "gpu", "reason": "no device"},
    ]
    assert [line for line in lines(document) if "passed over" in line] == [
        "  passed over: OpenVINO on npu, gpu: no device",
        "  passed over: QNN on npu: only an emulator here",
    ]


def test_b10_percentiles_that_the_samples_cannot_carry_are_marked() -> None:
    text = lines(made.document(n=5))
    row = text[text.index("Latency in ms") + 2]
    assert "- (needs 10 samples)  - (needs 20 samples)  - (needs 100 samples)" in row


def test_b08_memory_that_is_not_known_is_n_a_with_the_reason() -> None:
    document = made.document()
    text = lines(document)
    assert "session created n/a the system gave no figure" in map(squeezed, text)
    assert "EP registered 88.0 MiB +76.0 MiB" in map(squeezed, text)
    assert "peak while running (VmHWM) 170.0 MiB +10.0 MiB" in map(squeezed, text)
    assert " 0 B" not in "\n".join(text)
    assert document.result is not None
    document.result.memory = None
    assert "  n/a (not recorded: --no-memory)" in lines(document)


def test_b08_noise_figures_that_are_not_known_are_n_a() -> None:
    text = lines(made.document())
    assert "  noisy: other processes used 0.9 CPUs" in text
    assert "  IQR over median 8.0%, drift -1.2%, CPUs used by others 0.91, steal n/a" in text


def test_j04_precision_with_its_evidence() -> None:
    document = made.document()
    assert "  precision: bf16 (bf16 90.0%, fp32 10.0%; kernel records)" in lines(document)
    assert document.effective is not None
    assert document.effective.precision is not None
    document.effective.precision.requested = "fp32"
    assert "  precision: bf16, asked for fp32 (bf16 90.0%, fp32 10.0%; kernel records)" in lines(document)
    assert any(line.split() == ["--inference-precision", "fp32", "bf16"] for line in lines(document))
    document.effective.precision.effective = None
    assert any(line.split() == ["--inference-precision", "fp32", "not", "known"] for line in lines(document))


def test_h07_phases_apart() -> None:
    assert (
        "phases import runtime 310 ms, register 44 ms, session 245 ms, first run 11.2 ms, warm-up 63 ms, measure 640 ms"
    ) in lines(made.document())


def test_h07_several_shapes() -> None:
    text = lines(made.by_shape())
    rows = text[text.index("Latency in ms by shape, in one session") + 2 :][:2]
    assert "x 1x3x224x224; 164 inferences/s, 164 samples/s at batch size 1, first run 15 ms" in rows[0]
    assert "x 8x3x224x224; 20.5 inferences/s, 164 samples/s at batch size 8, first run 120 ms" in rows[1]


def test_inputs_threads_warnings_and_the_report() -> None:
    text = format_perf(made.document(), PIPE, report=Path("/reports/r.json")).splitlines()
    assert "x float32 1x3x224x224 generated, seed 0" in map(squeezed, text)
    assert "  threads: 2 (CPUs of this process)" in text
    assert "  something to know" in text
    assert "report: /reports/r.json" in text


@pytest.mark.parametrize("make", [made.document, made.emulated, made.by_shape, made.crashed])
def test_i02_every_report_fits_an_80_column_ascii_terminal(make: object) -> None:
    assert callable(make)
    text = format_perf(make(), ASCII_80, verbose=True)
    text.encode("ascii", ERRORS)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_a_crash_shows_what_is_known_and_the_last_native_lines(capsys: pytest.CaptureFixture[str]) -> None:
    render_perf(made.crashed())
    out, err = capsys.readouterr()
    assert out.startswith("OpenVINO (CPU): 43/55 nodes · failed: crashed\n")
    assert "Placement" in out
    assert "Latency" not in out
    assert err.splitlines() == [
        "error: the worker process was ended by signal 6 (SIGABRT) during: first run",
        "hint: its native output is in /logs/x.log",
        "last native output:",
        "  | terminate called",
        "  |   what(): bad",
    ]


def test_a_refusal_leaves_stdout_empty(capsys: pytest.CaptureFixture[str]) -> None:
    render_perf(made.refused())
    assert capsys.readouterr() == ("", "error: qnn offers no npu\nhint: use --emulate\n")


def test_original_text_of_a_failure_only_with_v() -> None:
    document = made.refused()
    assert document.error is not None
    document.error.details = {"original": "[ONNXRuntimeError] : 1\nmore", "log": "/logs/1.log"}
    assert "ONNXRuntimeError" not in format_failure(document)
    assert format_failure(document, verbose=True).splitlines()[2:] == [
        "original text:",
        "  | [ONNXRuntimeError] : 1",
        "  | more",
        "log: /logs/1.log",
    ]
