"""OpenVINO's kernels out of a recorded profile; every number can be worked out from the file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.session.monitor.ep_monitor import NO_NODE, NO_ROWS, TraceContext, TraceFailure
from winml.modelkit.session.monitor.openvino_monitor import OpenVINOMonitor, work_back
from winml.modelkit.session.monitor.source_names import SourceNames

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded" / "openvino_two_partitions.json"
OPENVINO = "OpenVINOExecutionProvider"
SOURCES = SourceNames([("mm1", ["m1"]), ("relu", ["r"]), ("det", ["d"]), ("mul", ["mu"]), ("relu2", ["y"])])


def result(folder: Path, *, warmup: int, device: str = "cpu", profile: Path = RECORDED) -> Any:
    shutil.copy(profile, folder / "onnxruntime_1.json")
    monitor = OpenVINOMonitor(folder, "basic", OPENVINO, SOURCES)
    return monitor.result(TraceContext(device=device, warmup=warmup, iterations=5 - warmup))


def row(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(item for item in found["ops"] if item["name"] == name)


def test_kernels_replace_their_fused_node_and_cpu_nodes_stand_beside_them(tmp_path: Path) -> None:
    found = result(tmp_path, warmup=2)
    assert {(item["name"], item["ep"], item["partition"]) for item in found["ops"]} == {
        ("mm1", OPENVINO, "0"),
        ("Relu_9118", OPENVINO, "1"),
        ("det", "CPUExecutionProvider", None),
    }
    assert found["partitions"] == ["0", "1"]


def test_h03_warm_up_is_cut_off_and_samples_are_the_iterations(tmp_path: Path) -> None:
    found = result(tmp_path, warmup=2)
    assert len(found["inferences"]) == 3
    assert [item["wall_us"] for item in found["inferences"]] == [238, 230, 188]
    assert all(item["samples"] == 3 for item in found["ops"])


def test_running_averages_are_worked_back(tmp_path: Path) -> None:
    # mm1 shows 353 188 130 100 83: five executions of 353, 23, 14, 10 and 15 microseconds.
    found = row(result(tmp_path, warmup=2), "mm1")
    assert found["total_us"] == 14 + 10 + 15
    assert found["mean_us"] == 13
    # An average over five, in whole microseconds, leaves 2.5 in a single one: too coarse for a median of 13.
    assert found["p50_us"] is None
    assert found["op_type"] == "FullyConnected"
    assert found["kernel"] == "brgemm_avx2_f32"
    assert found["sources"] == ["mm1"]


def test_other_devices_give_single_values(tmp_path: Path) -> None:
    found = row(result(tmp_path, warmup=2, device="gpu"), "mm1")
    assert found["total_us"] == 130 + 100 + 83
    assert found["p50_us"] == 100


def test_cpu_nodes_are_timed_by_onnxruntime(tmp_path: Path) -> None:
    found = row(result(tmp_path, warmup=2), "det")
    assert (found["total_us"], found["p50_us"], found["sources"]) == (45, 15, ["det"])


def test_sums_stay_within_the_run_and_time_outside_is_the_rest(tmp_path: Path) -> None:
    found = result(tmp_path, warmup=2)
    # Third inference: OpenVINO's nodes took 103 and 73 of 238.
    first = found["inferences"][0]
    assert first["ep_us"] == 103 + 73
    assert first["outside_us"] == 238 - 176
    for item in found["inferences"]:
        assert item["traced_us"] <= item["wall_us"]
    assert not [note for note in found["notes"] if "add up to more" in note]


def test_unmapped_kernels_are_said(tmp_path: Path) -> None:
    found = result(tmp_path, warmup=2)
    assert found["unmapped"] == ["Relu_9118"]
    assert any("not mapped" in note for note in found["notes"])


def test_no_node_on_openvino_is_the_cause_where_there_are_no_kernels(tmp_path: Path) -> None:
    events = [event for event in json.loads(RECORDED.read_text()) if "OpenVINO" not in json.dumps(event)]
    profile = tmp_path / "cpu_only.json"
    profile.write_text(json.dumps(events))
    folder = tmp_path / "trace"
    folder.mkdir()
    found = result(folder, warmup=2, profile=profile)
    assert isinstance(found, TraceFailure)
    assert found.cause == NO_NODE


def test_fused_nodes_without_kernels_are_a_matter_of_versions(tmp_path: Path) -> None:
    events = [event for event in json.loads(RECORDED.read_text()) if event["cat"] != "Kernel"]
    profile = tmp_path / "old.json"
    profile.write_text(json.dumps(events))
    folder = tmp_path / "trace"
    folder.mkdir()
    found = result(folder, warmup=2, profile=profile)
    assert isinstance(found, TraceFailure)
    assert found.cause == NO_ROWS
    assert "onnxruntime 1.25" in found.reason


@given(st.lists(st.floats(0.5, 1e5), min_size=1, max_size=60))
def test_work_back_undoes_averaging(single: list[float]) -> None:
    averages = [sum(single[: count + 1]) / (count + 1) for count in range(len(single))]
    assert work_back(averages) == pytest.approx(single, rel=1e-6, abs=1e-6)
