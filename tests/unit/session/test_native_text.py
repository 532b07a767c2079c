"""Native error texts as onnxruntime 1.32, OpenVINO 1.8.1 and QNN 2.7 wrote them, and the one sentence in each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.session.native_text import plain_reason

RUN = "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running "
PROVIDER = (
    "/onnxruntime_src/onnxruntime/core/session/plugin_ep/ep_plugin_provider_interfaces.cc:393 "
    "virtual std::unique_ptr<onnxruntime::IExecutionProvider> onnxruntime::PluginExecutionProviderFactory::"
    "CreateProvider(const OrtSessionOptions&, const OrtLogger&) "
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            RUN + "Reshape node. Name:'reshape' Status Message: "
            "/onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:84 "
            "onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, "
            "onnxruntime::TensorShapeVector&, bool) size != 0 && (input_shape_size % size) == 0 was false. "
            "The input tensor cannot be reshaped to the requested shape. Input shape:{1,3}, requested shape:{7,-1}\n",
            "Reshape node 'reshape': The input tensor cannot be reshaped to the requested shape. "
            "Input shape:{1,3}, requested shape:{7,-1}",
        ),
        (
            RUN + "Concat node. Name:'' Status Message: concatbase.h:135 PrepareForComputeImpl Non concat axis "
            "dimensions must match: Axis 2 has mismatched dimensions of 1 and 4",
            "Concat node: Non concat axis dimensions must match: Axis 2 has mismatched dimensions of 1 and 4",
        ),
        (
            RUN + "Gather node. Name:'g' Status Message: indices element out of data bounds, idx=9 must be within "
            "the inclusive range [-8,7]",
            "Gather node 'g': indices element out of data bounds, idx=9 must be within the inclusive range [-8,7]",
        ),
        (
            RUN + "OpenVINOExecutionProvider_12304663007274204276_0 node. "
            "Name:'OpenVINOExecutionProvider_OpenVINOExecutionProvider_12304663007274204276_0_0' Status Message: "
            "Exception from src/inference/src/cpp/infer_request.cpp:224:\n"
            "Exception from src/plugins/intel_cpu/src/node.cpp:794:\n"
            "[CPU] Reshape node with name 'y' Check 'a == b' failed at src/shape_inference/custom/reshape.cpp:77:\n"
            "[cpu]reshape: the shape of input data (1.3) conflicts with the reshape pattern (7.-1)\n\n\n",
            "a part compiled by the EP: [CPU] Reshape node with name 'y': "
            "[cpu]reshape: the shape of input data (1.3) conflicts with the reshape pattern (7.-1)",
        ),
        (
            "[ONNXRuntimeError] : 11 : EP_FAIL : Exception from src/inference/src/cpp/core.cpp:117:\n"
            "Exception from src/inference/src/dev/plugin.cpp:54:\n"
            "Exception from src/plugins/intel_cpu/src/config.cpp:266:\n"
            "Wrong value banana for property key INFERENCE_PRECISION_HINT. Supported values: bf16, f16\n\n",
            "Wrong value banana for property key INFERENCE_PRECISION_HINT. Supported values: bf16, f16",
        ),
        (
            "[ONNXRuntimeError] : 11 : EP_FAIL : [OpenVINO-EP] /opt/src/plugin/ov_compute.h:376 - "
            "Input names mismatch between OpenVINO and ONNX.",
            "[OpenVINO-EP] Input names mismatch between OpenVINO and ONNX.",
        ),
        (
            f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : {PROVIDER}"
            "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : reshape_input parameter: Invalid input shape: zzz\n",
            "reshape_input parameter: Invalid input shape: zzz",
        ),
        (f"[ONNXRuntimeError] : 1 : FAIL : {PROVIDER}no such device", "no such device"),
        (
            "No corresponding Numpy type for Tensor Type. bfloat16",
            "No corresponding Numpy type for Tensor Type. bfloat16",
        ),
        ("", "no reason was given"),
        ("\n \n", "no reason was given"),
        ("[ONNXRuntimeError] : 1 : FAIL : ", "[ONNXRuntimeError] : 1 : FAIL :"),
    ],
)
def test_the_sentence_in_a_native_text(text: str, reason: str) -> None:
    assert plain_reason(text) == reason


def test_a_very_long_text_is_cut() -> None:
    assert plain_reason("x" * 5000) == "x" * 400 + " ..."


@given(st.text())
def test_any_text_gives_one_line_that_says_something(text: str) -> None:
    reason = plain_reason(text)
    assert reason.strip()
    assert len(reason.splitlines()) == 1
