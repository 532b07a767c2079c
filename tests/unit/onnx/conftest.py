"""Small models made with the onnx package, the independent implementation these tests lean on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper


def value(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[Any] | None = (2,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def build(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto] = (),
    outputs: Sequence[onnx.ValueInfoProto] = (),
    initializers: Sequence[onnx.TensorProto] = (),
    *,
    ir: int = 8,
    opsets: Sequence[tuple[str, int]] = (("", 17),),
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    return helper.make_model(graph, ir_version=ir, opset_imports=imports, functions=list(functions))


def external_tensor(
    name: str,
    location: str | None,
    dims: Sequence[int] = (4,),
    *,
    offset: int | str | None = None,
    length: int | str | None = None,
) -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, text in (("location", location), ("offset", offset), ("length", length)):
        if text is not None:
            tensor.external_data.add(key=key, value=str(text))
    return tensor


class Models:
    """What the tests build models with."""

    value = staticmethod(value)
    build = staticmethod(build)
    external_tensor = staticmethod(external_tensor)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, name: str, model: onnx.ModelProto | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return path


@pytest.fixture
def models(tmp_path: Path) -> Models:
    return Models(tmp_path)


@pytest.fixture(scope="session")
def models_in() -> Callable[[Path], Models]:
    return Models
