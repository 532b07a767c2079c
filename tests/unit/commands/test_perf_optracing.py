"""``winml perf --op-tracing``: dispatch by target, refusal before anything runs, and the true cause of missing data."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from winml.modelkit.commands.perf import _resolve_ep_monitor
from winml.modelkit.errors import UnknownEP, UsageError
from winml.modelkit.session.monitor.openvino_monitor import OpenVINOMonitor
from winml.modelkit.session.monitor.ort_profile_monitor import OrtProfileMonitor
from winml.modelkit.session.monitor.qnn_monitor import QNNMonitor

Perf = Callable[..., Any]


@pytest.mark.parametrize(
    ("ep", "device", "level", "monitor"),
    [
        (None, "npu", "basic", QNNMonitor),
        (None, "npu", "detail", QNNMonitor),
        (None, None, "basic", QNNMonitor),
        ("auto", "auto", "basic", QNNMonitor),
        (None, "gpu", "basic", OpenVINOMonitor),
        (None, "cpu", "basic", OrtProfileMonitor),
        ("qnn", None, "detail", QNNMonitor),
        ("QNNExecutionProvider", "npu", "basic", QNNMonitor),
        ("openvino", "npu", "basic", OpenVINOMonitor),
        ("openvino@pypi", None, "basic", OpenVINOMonitor),
        ("cpu", "cpu", "basic", OrtProfileMonitor),
        ("vitisai", "npu", "basic", OrtProfileMonitor),
        ("dml", "gpu", "basic", OrtProfileMonitor),
    ],
)
def test_monitor_by_target(ep: str | None, device: str | None, level: str, monitor: type) -> None:
    assert _resolve_ep_monitor(ep, device, level) is monitor


@pytest.mark.parametrize("ep", ["openvino", "cpu", "dml", "OpenVINOExecutionProvider"])
def test_h02_detail_is_refused_where_there_is_none_and_the_levels_are_named(ep: str) -> None:
    with pytest.raises(UsageError, match="it has: basic") as caught:
        _resolve_ep_monitor(ep, None, "detail")
    assert "qnn" in str(caught.value.hint)


def test_detail_for_a_device_that_no_ep_can_trace_so_is_refused() -> None:
    with pytest.raises(UsageError):
        _resolve_ep_monitor(None, "cpu", "detail")


def test_unknown_ep_is_unknown_here_too() -> None:
    with pytest.raises(UnknownEP):
        _resolve_ep_monitor("openvno", None, "basic")


def test_help_names_no_vendor_beside_the_option(winml: Callable[..., Any]) -> None:
    text = " ".join(winml("perf", "--help").out.split())
    assert "Auto-selects the monitor for the chosen EP." in text
    part = text.partition("--op-tracing")[2][:160].casefold()
    assert not any(vendor in part for vendor in ("qnn", "qualcomm", "openvino", "intel", "nvidia", "amd"))


def test_h02_refusal_comes_before_anything_runs(perf: Perf, zoo: Any) -> None:
    done = perf(zoo("relu"), "--ep", "cpu", "--op-tracing", "detail")
    assert done.code == 2
    assert done.error["code"] == "trace_level_refused"
    assert done.document.get("result") is None


def test_options_that_the_monitor_sets_are_refused(perf: Perf, zoo: Any) -> None:
    done = perf(
        zoo("relu"), "--ep", "qnn", "--emulate", "--op-tracing", "basic", "--ep-options", "profiling_level=basic"
    )
    assert done.code == 2
    assert "profiling_level" in done.error["reason"]


def test_c07_unnamed_nodes_are_traced_under_their_outputs_names(perf: Perf, zoo: Any) -> None:
    done = perf(zoo("unnamed"), "--ep", "cpu", "--op-tracing", "basic", "--iterations", "3")
    assert done.code == 0
    trace = done.document["trace"]
    outputs = {node.output[0] for node in zoo.proto("unnamed").graph.node}
    assert {row["name"] for row in trace["ops"]} <= outputs
    assert all(row["samples"] == 3 for row in trace["ops"])
    assert trace["status"] == "ok"
    assert trace["overhead"]["ratio"] > 0


def test_latency_comes_from_untraced_runs(perf: Perf, zoo: Any) -> None:
    done = perf(zoo("relu"), "--ep", "cpu", "--op-tracing", "basic", "--iterations", "5")
    document = done.document
    assert document["trace"]["overhead"]["untraced_p50_ms"] == pytest.approx(
        document["result"]["latency_ms"]["p50"], rel=1e-9
    )
    assert len(document["trace"]["inferences"]) == 5


def test_h03_qnn_samples_are_the_iterations(perf: Perf, zoo: Any, qnn_library: str, tmp_path: Path) -> None:
    report = tmp_path / "o.json"
    done = perf(
        zoo("qdq"), "--ep", "qnn", "-d", "npu", "--emulate", "--op-tracing", "basic", "--iterations", "3",
        "--warmup", "1", "-o", report,
    )  # fmt: skip
    assert done.code == 0
    trace = done.document["trace"]
    assert trace["emulated"] is True
    operators = [row for row in trace["ops"] if not row["io"]]
    assert operators
    assert all(row["samples"] == 3 and row["total_cycles"] is not None for row in operators)
    assert not any("_token_" in row["name"] for row in trace["ops"])
    assert (tmp_path / "o.trace" / "qnn_profile.csv").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.json", "o.trace"]


@pytest.mark.parametrize("compiled", [False, True])
def test_qnn_detail_on_a_raw_and_on_a_compiled_model(
    perf: Perf, zoo: Any, qnn_context: Path, tmp_path: Path, compiled: bool
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    model = qnn_context if compiled else zoo("qdq")
    done = perf(
        model, "--ep", "qnn", "--emulate", "--op-tracing", "detail", "--iterations", "2", "-o", tmp_path / "o.json",
        cwd=folder,
    )  # fmt: skip
    assert done.code == 0, done.err
    trace = done.document["trace"]
    assert trace["level"] == "detail"
    assert all(row["samples"] == 2 for row in trace["ops"])
    names = {Path(artefact).name for artefact in trace["artefacts"]}
    assert {"qnn_profile.csv"} <= names
    assert list(folder.iterdir()) == []
    if not compiled:
        assert any(name.endswith("_schematic.bin") for name in names)
        assert "compiled.onnx" in names


@pytest.mark.parametrize("model", ["only_det", "batched"])
def test_field_report_no_csv_because_no_node_runs_on_the_ep(perf: Perf, zoo: Any, qnn_library: str, model: str) -> None:
    """Nothing that QNN takes, or a dynamic dimension: no operators, and the cause is said."""
    done = perf(zoo(model), "--ep", "qnn", "--emulate", "--op-tracing", "basic")
    assert done.code == 4
    trace = done.document["trace"]
    assert (trace["status"], trace["cause"]) == ("failed", "no_node_on_ep")
    assert trace["evidence"]
    assert trace["hint"]
    assert done.document["result"] is not None


def test_field_report_no_csv_because_the_backend_library_is_missing(
    perf: Perf, zoo: Any, qnn_library: str, tmp_path: Path
) -> None:
    """The plugin alone registers, lists a device and makes a session."""
    shutil.copy(qnn_library, tmp_path)
    done = perf(zoo("qdq"), "--ep", "qnn", "--emulate", "--ep-path", tmp_path, "--op-tracing", "basic")
    assert done.code == 4
    trace = done.document["trace"]
    assert trace["cause"] == "backend_load_failed"
    assert any("libQnnHtp.so" in line for line in trace["evidence"])


def test_a_foreign_folder_is_not_emptied(perf: Perf, zoo: Any, tmp_path: Path) -> None:
    folder = tmp_path / "o.trace"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    done = perf(zoo("relu"), "--ep", "cpu", "--op-tracing", "basic", "-o", tmp_path / "o.json")
    assert done.code == 2
    assert (folder / "mine.txt").read_text() == "mine"


def test_openvino_kernels_add_up(perf: Perf, openvino_ep_path: str | None) -> None:
    where = ["--ep-path", openvino_ep_path] if openvino_ep_path else []
    done = perf("digits", "--ep", "openvino", "-d", "cpu", "--op-tracing", "basic", "--iterations", "30", *where)
    assert done.code == 0
    trace = done.document["trace"]
    assert trace["monitor"] == "OpenVINO kernel records"
    wall = sum(item["wall_us"] for item in trace["inferences"])
    traced = sum(item["traced_us"] for item in trace["inferences"])
    assert 0 < traced <= wall
    assert any(row["kernel"] for row in trace["ops"])
