"""Threads and precision reach the EP through its own options, or are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from winml.modelkit.errors import UsageError
from winml.modelkit.session.ep_device import find_spec
from winml.modelkit.session.ep_registry import WinMLDevice
from winml.modelkit.session.ep_spec import EPDeviceSpec
from winml.modelkit.session.ep_translate import Wishes, translate
from winml.modelkit.session.session import merge_load_config


def device(kind: str = "cpu", **metadata: str) -> WinMLDevice:
    return WinMLDevice("X", kind, "Maker", 1, 0, metadata, {}, False)


def test_openvino_takes_both_as_properties_of_the_device() -> None:
    wishes = Wishes(3, "fp32", ("fp32",))
    done = translate(find_spec("openvino"), {"layout": "x[N,C]"}, device(ov_device="CPU"), wishes)
    assert done.options["layout"] == "x[N,C]"
    assert json.loads(done.options["load_config"]) == {
        "CPU": {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": "3"}
    }


def test_openvino_gpu_has_no_threads() -> None:
    done = translate(find_spec("openvino"), {}, device("gpu", ov_device="GPU.1"), Wishes(3, "fp16", ()))
    assert json.loads(done.options["load_config"]) == {"GPU": {"INFERENCE_PRECISION_HINT": "f16"}}
    assert "CPU EP" in done.threads_rule


def test_without_wishes_nothing_is_added() -> None:
    for alias in ("openvino", "qnn", "cpu"):
        assert translate(find_spec(alias), {}, device(ov_device="CPU"), Wishes(None, None, ())).options == {}


def test_threads_are_a_number_only_where_it_is_known_whose_they_are() -> None:
    open_wish = Wishes(None, None, (), 8, "ONNX Runtime's default: physical cores")
    on_cpu = translate(find_spec("cpu"), {}, device(), open_wish)
    assert (on_cpu.threads, on_cpu.threads_rule) == (8, "ONNX Runtime's default: physical cores")
    on_openvino = translate(find_spec("openvino"), {}, device(ov_device="CPU"), open_wish)
    assert (on_openvino.threads, on_openvino.threads_rule) == (None, "OpenVINO's default")
    asked = translate(find_spec("openvino"), {}, device(ov_device="CPU"), Wishes(3, None, (), 3, "as asked"))
    assert asked.threads == 3


@pytest.mark.parametrize(("asked", "switch"), [("fp16", "enable_htp_fp16_precision"), ("bf16", "htp_bf16_enable")])
def test_qnn_takes_half_precisions_for_a_chip_that_is_named(asked: str, switch: str) -> None:
    wishes = Wishes(None, asked, ())
    done = translate(find_spec("qnn"), {"soc_model": "60"}, device(), wishes)
    assert done.options == {"soc_model": "60", switch: "1"}
    with pytest.raises(UsageError, match="soc_model") as caught:
        translate(find_spec("qnn"), {}, device(), wishes)
    assert caught.value.code == "precision_refused"


def test_qnn_refuses_fp32_which_the_htp_does_not_have() -> None:
    with pytest.raises(UsageError, match="fp16") as caught:
        translate(find_spec("qnn"), {}, device(), Wishes(None, "fp32", ()))
    assert caught.value.code == "precision_refused"


def test_qnn_option_that_contradicts_is_refused() -> None:
    with pytest.raises(UsageError, match="contradict"):
        translate(find_spec("qnn"), {"enable_htp_fp16_precision": "0"}, device(), Wishes(None, "fp16", ()))


def test_cpu_computes_in_the_types_of_the_model() -> None:
    assert translate(find_spec("cpu"), {}, device(), Wishes(None, "fp32", ("fp32",))).options == {}
    with pytest.raises(UsageError, match="types of the model, fp32"):
        translate(find_spec("cpu"), {}, device(), Wishes(None, "bf16", ("fp32",)))


def test_an_ep_without_a_translation_refuses_a_precision_and_says_whose_threads_they_are() -> None:
    row = EPDeviceSpec(name="AcmeExecutionProvider", alias="acme", vendor="Acme", devices=("npu",))
    with pytest.raises(UsageError, match="acme"):
        translate(row, {}, device("npu"), Wishes(None, "fp32", ()))
    assert "acme schedules its own work" in translate(row, {}, device("npu"), Wishes(2, None, ())).threads_rule


def test_load_config_of_the_user_is_kept_as_text_and_as_file(tmp_path: Path) -> None:
    text = '{"CPU": {"PERFORMANCE_HINT": "LATENCY"}, "GPU": {"X": "1"}}'
    merged = {"CPU": {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}, "GPU": {"X": "1"}}
    assert json.loads(merge_load_config(text, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})) == merged
    file = tmp_path / "ov.json"
    file.write_text(text)
    assert json.loads(merge_load_config(str(file), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})) == merged


@pytest.mark.parametrize(
    ("option", "value", "instead"),
    [
        ("cache_dir", "c", "CACHE_DIR"),
        ("num_of_threads", "4", "--threads"),
        ("num_streams", "1", "NUM_STREAMS"),
        ("precision", "FP32", "--inference-precision"),
        ("model_priority", "HIGH", "MODEL_PRIORITY"),
        ("enable_qdq_optimizer", "True", "NPU_QDQ_OPTIMIZATION"),
    ],
)
def test_b16_an_option_that_openvino_ignores_is_refused_with_what_it_reads(
    option: str, value: str, instead: str
) -> None:
    with pytest.raises(UsageError, match=option) as caught:
        translate(find_spec("openvino"), {option: value}, device(ov_device="CPU"), Wishes(None, None, ()))
    assert caught.value.code == "ep_option_ignored"
    assert instead in str(caught.value.hint)


def test_threads_in_load_config_are_the_threads_reported() -> None:
    text = '{"CPU": {"INFERENCE_NUM_THREADS": "3"}}'
    done = translate(find_spec("openvino"), {"load_config": text}, device(ov_device="CPU"), Wishes(None, None, ()))
    assert (done.threads, done.threads_rule) == (3, "INFERENCE_NUM_THREADS in load_config")


def test_load_config_without_the_device_that_runs_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no properties for the device CPU.* names GPU") as caught:
        merge_load_config('{"GPU": {"X": "1"}}', "CPU", {})
    assert caught.value.code == "bad_load_config"


@pytest.mark.parametrize("text", ["not json", "{", "[1]", '{"CPU": 3}'])
def test_load_config_that_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        merge_load_config(text, "CPU", {"A": "b"})


def test_load_config_that_contradicts_an_option_is_refused() -> None:
    with pytest.raises(UsageError, match="INFERENCE_PRECISION_HINT"):
        merge_load_config('{"CPU": {"INFERENCE_PRECISION_HINT": "bf16"}}', "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
