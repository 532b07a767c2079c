"""QNN's profiling CSV: parsing, merging of partitions, and the cause of missing data, on recorded files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.session.monitor import ep_monitor
from winml.modelkit.session.monitor.ep_monitor import TraceContext, TraceFailure
from winml.modelkit.session.monitor.qnn_csv import QnnCsvError, parse_qnn_csv, read_qnn_csv
from winml.modelkit.session.monitor.qnn_monitor import CSV_NAME, QNNMonitor, find_markers, strip_token
from winml.modelkit.session.monitor.source_names import SourceNames

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded"
TWO = RECORDED / "qnn_two_partitions.csv"
OPTRACE = RECORDED / "qnn_optrace_w8a16.csv"
QNN = "QNNExecutionProvider"


def context(*, partitions: int, warmup: int, iterations: int, log: Path | None = None, nodes: int = 5) -> TraceContext:
    placement = {
        "target_nodes": nodes,
        "nodes_total": 7,
        "eps": [{"ep": QNN, "partitions": partitions}] if nodes else [],
    }
    walls = [1e6] * iterations
    return TraceContext(None, placement, "cpu", log, warmup, iterations, walls)


def traced(folder: Path, recorded: Path, found: TraceContext, level: str = "basic") -> Any:
    shutil.copy(recorded, folder / CSV_NAME)
    names = ("mm1", "relu", "rs", "rs2", "mul", "relu2", "/net/conv1/Conv", "/net/conv2/Conv")
    return QNNMonitor(folder, level, QNN, SourceNames([(name, []) for name in names])).result(found)


def row(found: dict[str, Any], name: str, partition: str = "0") -> dict[str, Any]:
    return next(item for item in found["ops"] if (item["name"], item["partition"]) == (name, partition))


def test_blocks_of_a_recorded_file() -> None:
    # Three runs of two partitions; the finalize rows of the first partition stand twice.
    profile = read_qnn_csv(TWO)
    assert len(profile.blocks) == 6
    assert [len(block.rows) for block in profile.blocks] == [5, 5] * 3
    first = profile.blocks[0]
    assert [item.name for item in first.rows] == ["Input", "mm1", "relu", "rs", "Output"]
    assert (first.execute_us, first.accelerator_us, first.accelerator_cycles) == (23270, 23093, 7443)
    assert not profile.unfinished


def test_h03_partitions_of_one_inference_are_merged_and_warm_up_is_cut_off(tmp_path: Path) -> None:
    found = traced(tmp_path, TWO, context(partitions=2, warmup=1, iterations=2))
    assert len(found["inferences"]) == 2
    assert all(item["samples"] == 2 for item in found["ops"])
    assert found["partitions"] == ["0", "1"]
    assert {item["name"] for item in found["ops"] if item["partition"] == "1"} == {
        "Input",
        "rs2",
        "mul",
        "relu2",
        "Output",
    }
    # Second run: 39669 and 27924 microseconds of QNN execute time.
    assert found["inferences"][0]["ep_us"] == 39669 + 27924


def test_cycles_are_kept_and_microseconds_derived_from_the_accelerators_own_time(tmp_path: Path) -> None:
    found = traced(tmp_path, TWO, context(partitions=2, warmup=0, iterations=1 * 3))
    mm1 = row(found, "mm1")
    assert mm1["derived"] is True
    assert mm1["total_cycles"] == pytest.approx(sum(_cycles("mm1")))
    # First run: 2443 cycles of 7443 that took 23093 microseconds.
    assert mm1["total_us"] > 2443 * 23093 / 7443
    assert any("derived" in note for note in found["notes"])


def _cycles(name: str) -> list[float]:
    return [item.cycles for block in read_qnn_csv(TWO).blocks for item in block.rows if item.name == name]


def test_tokens_are_stripped_and_sources_are_those_of_the_source_graph(tmp_path: Path) -> None:
    found = traced(tmp_path, OPTRACE, context(partitions=1, warmup=1, iterations=2), level="detail")
    conv = row(found, "/net/conv1/Conv")
    # The file names DequantizeLinear_token_28 and others too, which ONNX Runtime made and the graph here does not have.
    assert conv["sources"] == ["/net/conv1/Conv"]
    # Two operators of ONNX Runtime's own, which would be one without their tokens.
    assert {"Transpose_token_16", "Transpose_token_26"} <= set(found["unmapped"])
    assert all(item["calls"] == item["samples"] == 2 for item in found["ops"])
    assert not row(found, "Input")["sources"]
    assert row(found, "Input")["io"] is True


@pytest.mark.parametrize(
    ("name", "stripped"),
    [
        ("/net/conv1/Conv_token_1", "/net/conv1/Conv"),
        ("DequantizeLinear_token_28", "DequantizeLinear"),
        ("_token_5", ""),
        ("my_token_x", "my_token_x"),
        ("plain", "plain"),
    ],
)
def test_strip_token(name: str, stripped: str) -> None:
    assert strip_token(name) == stripped


def test_executions_that_do_not_fit_the_runs_are_a_parse_error_and_not_a_wrong_average(tmp_path: Path) -> None:
    found = traced(tmp_path, TWO, context(partitions=2, warmup=0, iterations=4))
    assert isinstance(found, TraceFailure)
    assert found.cause == ep_monitor.PARSE
    assert "6 executions" in found.reason


def test_a_file_without_a_header_is_read(tmp_path: Path) -> None:
    """A file that existed before and was empty gets none."""
    bare = tmp_path / "bare.csv"
    bare.write_text("\n".join(TWO.read_text().splitlines()[1:]) + "\n")
    assert len(read_qnn_csv(bare).blocks) == 6


def test_a_file_that_was_appended_to_keeps_both_headers_out_of_the_data(tmp_path: Path) -> None:
    twice = tmp_path / "twice.csv"
    twice.write_text(TWO.read_text() + TWO.read_text())
    assert len(read_qnn_csv(twice).blocks) == 12


def test_a_file_cut_off_in_a_block_says_so(tmp_path: Path) -> None:
    lines = TWO.read_text().splitlines()
    last = max(index for index, line in enumerate(lines) if ",EXECUTE," in line)
    cut = tmp_path / "cut.csv"
    cut.write_text("\n".join(lines[:last]) + "\n")
    profile = read_qnn_csv(cut)
    assert len(profile.blocks) == 5
    assert profile.unfinished


@pytest.mark.parametrize("line", ["0,NODE,12", "0,NODE,many,CYCLES,BACKEND,SUB-EVENT,x:OpId_1 (cycles)"])
def test_a_line_that_is_not_of_the_form_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / CSV_NAME).write_text(f"Msg Timestamp,Message,Time\n{line}\n")
    found = QNNMonitor(tmp_path, "basic", QNN).result(context(partitions=1, warmup=0, iterations=1))
    assert isinstance(found, TraceFailure)
    assert found.cause == ep_monitor.PARSE
    assert "line 2" in found.reason


@given(st.lists(st.lists(st.text(max_size=20), max_size=9), max_size=40))
def test_any_table_parses_or_is_refused_with_a_line(lines: list[list[str]]) -> None:
    try:
        profile = parse_qnn_csv(lines)
    except QnnCsvError as error:
        assert "line " in str(error)
    else:
        assert profile.rows <= len(lines)


def test_qnns_own_basic_level_has_no_operators(tmp_path: Path) -> None:
    lines = [line for line in TWO.read_text().splitlines() if ",NODE," not in line]
    (tmp_path / CSV_NAME).write_text("\n".join(lines) + "\n")
    found = QNNMonitor(tmp_path, "basic", QNN).result(context(partitions=2, warmup=1, iterations=2))
    assert isinstance(found, TraceFailure)
    assert found.cause == ep_monitor.NO_ROWS


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (
            "2026-01-01 10:00:00.0 [E:onnxruntime:Default, qnn_backend_manager.cc:1] ETW enabled previously, but "
            "disabled now. Can't do the switch! Won't output any profiling.",
            ep_monitor.ETW,
        ),
        ("[E:onnxruntime:, x.cc:1] QNN SetupBackend failed Unable to load backend, error: x.so", ep_monitor.BACKEND),
        ("[W:onnxruntime:, x.cc:1] Profiling level not valid.", ep_monitor.BAD_LEVEL),
        ("[E:onnxruntime:, x.cc:1] Failed to open profiling file: /nowhere/p.csv", ep_monitor.CANNOT_OPEN),
    ],
)
def test_missing_file_is_explained_by_the_native_log(tmp_path: Path, line: str, cause: str) -> None:
    """The first line was recorded from public sources for Windows; not seen on hardware."""
    log = tmp_path / "native.log"
    log.write_text(f"noise\n{line}\nnoise\n")
    assert find_markers(log) == [(cause, line)]
    found = QNNMonitor(tmp_path, "basic", QNN).result(context(partitions=0, warmup=0, iterations=1, log=log))
    assert isinstance(found, TraceFailure)
    assert found.cause == cause
    assert found.evidence == [line]
    assert found.hint


def test_missing_file_with_nothing_placed_says_that_nothing_runs_on_qnn(tmp_path: Path) -> None:
    found = QNNMonitor(tmp_path, "basic", QNN).result(context(partitions=0, warmup=0, iterations=1, nodes=0))
    assert isinstance(found, TraceFailure)
    assert found.cause == ep_monitor.NO_NODE


def test_missing_file_without_any_sign_is_only_that(tmp_path: Path) -> None:
    found = QNNMonitor(tmp_path, "basic", QNN).result(context(partitions=1, warmup=0, iterations=1))
    assert isinstance(found, TraceFailure)
    assert found.cause == ep_monitor.NO_FILE


def test_options_ask_for_operators() -> None:
    for level, wanted in (("basic", "detailed"), ("detail", "optrace")):
        options = QNNMonitor(Path("/trace"), level, QNN).provider_options()
        assert options["profiling_level"] == wanted
        assert Path(options["profiling_file_path"]).parent == Path("/trace")


def test_working_directory_is_put_back_also_after_an_exception(tmp_path: Path) -> None:
    before = Path.cwd()
    with pytest.raises(RuntimeError), QNNMonitor(tmp_path, "detail", QNN):
        assert Path.cwd() == tmp_path
        raise RuntimeError
    assert Path.cwd() == before


def test_records_of_an_earlier_run_are_not_counted_again(tmp_path: Path) -> None:
    stale = tmp_path / CSV_NAME
    stale.write_text("old\n")
    with QNNMonitor(tmp_path, "basic", QNN):
        assert not stale.exists()
