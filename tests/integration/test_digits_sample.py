"""The bundled sample ``digits`` on the CPU EP, against its labels and an independent evaluator."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

from winml.modelkit.catalog import find_sample
from winml.modelkit.loader import resolve_model

if TYPE_CHECKING:
    from pathlib import Path

Float = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return onnx.load(resolve_model("digits").path)


@pytest.fixture(scope="module")
def held_out() -> tuple[Float, npt.NDArray[np.int64]]:
    """Images float32 [360,1,8,8], scaled as the model wants them, and labels int64 [360]."""
    sample = find_sample("digits")
    assert sample is not None
    with np.load(sample.data_path) as data:
        return data["images"].astype(np.float32) / 16, data["labels"]


def session(path: Path) -> Any:
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_held_out_accuracy(held_out: tuple[Float, npt.NDArray[np.int64]]) -> None:
    images, labels = held_out
    (logits,) = session(resolve_model("digits").path).run(None, {"image": images})
    assert (logits.shape, logits.dtype) == ((360, 10), np.float32)
    accuracy = float((logits.argmax(axis=1) == labels).mean())
    assert accuracy >= 0.98


def test_any_batch_size_gives_the_same_logits(held_out: tuple[Float, npt.NDArray[np.int64]]) -> None:
    images = held_out[0][:7]
    run = session(resolve_model("digits").path)
    (together,) = run.run(None, {"image": images})
    singly = np.concatenate([run.run(None, {"image": image[None]})[0] for image in images])
    np.testing.assert_allclose(singly, together, atol=1e-4)


def test_logits_agree_with_the_reference_evaluator(
    model: onnx.ModelProto, held_out: tuple[Float, npt.NDArray[np.int64]]
) -> None:
    images = held_out[0][:20]
    (actual,) = session(resolve_model("digits").path).run(None, {"image": images})
    (expected,) = ReferenceEvaluator(model).run(None, {"image": images})
    np.testing.assert_allclose(actual, np.asarray(expected), atol=1e-4)


def test_signature_and_metadata(model: onnx.ModelProto) -> None:
    (image,) = model.graph.input
    (logits,) = model.graph.output
    shapes = {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (image, logits)
    }
    assert shapes == {"image": ["batch", 1, 8, 8], "logits": ["batch", 10]}
    assert image.type.tensor_type.elem_type == logits.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert sorted(metadata) == ["data", "input_scaling", "labels", "source", "task"]
    assert metadata["task"] == "image-classification"
    assert json.loads(metadata["labels"]) == list("0123456789")
    assert json.loads(metadata["input_scaling"]) == {"image": 1 / 16}
    assert "CC BY 4.0" in metadata["data"]


def test_graph_is_plain(model: onnx.ModelProto) -> None:
    """Standard operators only, normalisation folded, weights inside: what every EP takes."""
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} == {"Conv", "Relu", "Add", "ReduceMean", "Gemm"}
    assert {node.domain for node in model.graph.node} == {""}
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)
    assert all(tensor.data_location == onnx.TensorProto.DEFAULT for tensor in model.graph.initializer)
    # 6 convolutions and the head with their biases, and the two axes of the mean
    assert sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer) == 74_746 + 2


def test_no_path_of_the_building_machine_inside(model: onnx.ModelProto) -> None:
    """torch's exporter notes stack traces with absolute paths; none may reach the file."""
    data = resolve_model("digits").path.read_bytes()
    for mark in ("site-packages", "/usr/", "/root", "/home", "/work", "/tmp", "Traceback", "pkg.torch"):
        assert mark.encode() not in data
    # Everything but the weights, as text: no word in it starts like an absolute path.
    words = onnx.ModelProto()
    words.CopyFrom(model)
    for tensor in words.graph.initializer:
        tensor.ClearField("raw_data")
    assert re.findall(r"""(?:^|[\s"'(])(?:/|[A-Za-z]:[\\/])\w\S*""", str(words)) == []


@pytest.mark.parametrize("name", ["two words.onnx", "it's.onnx", "模型.onnx", "new\nline.onnx", "model", "m.txt"])
def test_onnxruntime_opens_every_name_the_loader_accepts(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    try:
        path.write_bytes(resolve_model("digits").path.read_bytes())
    except OSError:
        pytest.skip("the file system refuses this name")
    assert [value.name for value in session(resolve_model(str(path)).path).get_inputs()] == ["image"]
