"""Profiles of ONNX Runtime: windows, warm-up, nested graphs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from winml.modelkit.session.monitor.ep_monitor import NO_ROWS, PARSE, TraceContext, TraceFailure
from winml.modelkit.session.monitor.ort_profile import ProfileError, read_profile
from winml.modelkit.session.monitor.ort_profile_monitor import OrtProfileMonitor
from winml.modelkit.session.monitor.source_names import SourceNames

CPU = "CPUExecutionProvider"


def run(start: int, duration: int) -> dict[str, Any]:
    return {"cat": "Session", "name": "model_run", "ts": start, "dur": duration, "args": {}}


def node(name: str, start: int, duration: int, op: str = "Op") -> dict[str, Any]:
    args = {"provider": CPU, "op_name": op, "input_type_shape": [{"float": [1, 3]}]}
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": start, "dur": duration, "args": args}


def write(folder: Path, *events: dict[str, Any]) -> Path:
    path = folder / "onnxruntime_1.json"
    path.write_text(json.dumps(events))
    return path


def test_events_belong_to_the_inference_they_started_in(tmp_path: Path) -> None:
    path = write(tmp_path, node("a", 5, 10), run(0, 20), node("a", 105, 12), run(100, 20), node("b", 50, 1))
    profile = read_profile(path, warmup=1)
    assert profile.walls_us == [20]
    assert [(event.name, event.inference, event.self_us) for event in profile.nodes] == [("a", 0, 12)]


def test_time_of_nested_graphs_is_counted_once(tmp_path: Path) -> None:
    # An If of 50 holds two nodes of 10 and 15, the second of which holds one of 5.
    path = write(
        tmp_path,
        node("in_second", 40, 5),
        node("second", 35, 15),
        node("first", 15, 10),
        node("if", 10, 50, "If"),
        node("after", 70, 7),
        run(0, 100),
    )
    times = {event.name: event.self_us for event in read_profile(path, 0).nodes}
    assert times == {"if": 25, "first": 10, "second": 10, "in_second": 5, "after": 7}
    assert sum(times.values()) == 57


def test_a_branch_not_taken_is_said(tmp_path: Path) -> None:
    write(tmp_path, node("a", 1, 2), node("then", 4, 2), run(0, 10), node("a", 101, 2), run(100, 10))
    found = OrtProfileMonitor(tmp_path, "basic", CPU).result(TraceContext(warmup=0, iterations=2))
    assert isinstance(found, dict)
    assert {row["name"]: row["samples"] for row in found["ops"]} == {"a": 2, "then": 1}
    assert any("then" in note and "branch" in note for note in found["notes"])


def test_rows_are_summed_by_type_and_the_most_expensive_comes_first(tmp_path: Path) -> None:
    write(tmp_path, node("x", 1, 10, "Conv"), node("y", 12, 30, "Relu"), node("z", 43, 30, "Conv"), run(0, 80))
    found = OrtProfileMonitor(tmp_path, "basic", CPU).result(TraceContext(warmup=0, iterations=1))
    assert isinstance(found, dict)
    assert [row["name"] for row in found["ops"]][-1] == "x"
    types = {row["op_type"]: (row["operators"], row["total_us"]) for row in found["types"]}
    assert types == {"Conv": (2, 40), "Relu": (1, 30)}
    assert sum(row["share"] for row in found["ops"]) == pytest.approx(1)
    assert found["ops"][0]["shapes"] == "float[1,3]"


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"cat":"Node"'])
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "onnxruntime_1.json"
    path.write_text(text)
    with pytest.raises(ProfileError):
        read_profile(path, 0)
    found = OrtProfileMonitor(tmp_path, "basic", CPU).result(TraceContext())
    assert isinstance(found, TraceFailure)
    assert found.cause == PARSE


def test_a_profile_without_operators_says_so(tmp_path: Path) -> None:
    write(tmp_path, run(0, 10))
    found = OrtProfileMonitor(tmp_path, "basic", CPU).result(TraceContext(warmup=0, iterations=1))
    assert isinstance(found, TraceFailure)
    assert found.cause == NO_ROWS


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("conv", "conv"),
        ("out_nchwc", "conv"),
        ("conv_token_12", "conv"),
        ("conv:OpId_23", "conv"),
        ("conv/WithoutBiases", "conv"),
        ("OV::conv", "conv"),
        ("mm/MatMulAddFusion", "mm"),
        ("If_0_then_branch__Inline_0__conv", "conv"),
        ("only_output", "only_output"),
        ("relu_9118", None),
    ],
)
def test_source_names(name: str, source: str | None) -> None:
    names = SourceNames([("conv", ["out"]), ("mm", ["m"]), ("", ["only_output"])])
    assert names.find(name) == ((source,) if source else ())
