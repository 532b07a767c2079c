"""A model compiled by the real QNN plugin, broken in every way a moved or damaged artefact is, then explained."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from winml.modelkit.errors import ModelError
from winml.modelkit.onnx.external import context_files
from winml.modelkit.onnx.facts import ep_contexts
from winml.modelkit.onnx.files import read_model
from winml.modelkit.onnx.load_failure import explain_load_failure

CHILD = """
    import json, pathlib, sys
    import onnxruntime as ort

    library, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    name = "QNNExecutionProvider"
    ort.register_execution_provider_library(name, library)
    devices = [device for device in ort.get_ep_devices() if device.ep_name == name][:1]

    def options(qnn):
        made = ort.SessionOptions()
        made.log_severity_level = 4
        if qnn:
            made.add_provider_for_devices(devices, {"backend_type": "htp"})
        return made

    def load(qnn=True):
        try:
            ort.InferenceSession(str(folder / "m_ctx.onnx"), options(qnn))
        except Exception as error:
            return str(error)

    compiler = ort.ModelCompiler(options(True), str(folder / "m.onnx"), embed_compiled_data_into_model=False)
    compiler.compile_to_file(str(folder / "m_ctx.onnx"))
    beside = folder / "m_ctx_qnn.bin"
    whole = beside.read_bytes()
    said = {"good": load(), "cpu": load(qnn=False)}
    beside.write_bytes(whole[: len(whole) // 2])
    said["damaged"] = load()
    beside.unlink()
    said["missing"] = load()
    beside.write_bytes(whole)
    (folder / "said.json").write_text(json.dumps(said))
"""


class Compiled:
    def __init__(self, folder: Path, said: dict[str, str | None]) -> None:
        self.path = folder / "m_ctx.onnx"
        self.beside = folder / "m_ctx_qnn.bin"
        self.said = said

    def explain(self, case: str) -> ModelError:
        message = self.said[case]
        assert message is not None
        error = explain_load_failure(self.path, message)
        assert error is not None, message
        return error


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    try:
        files = metadata.files("onnxruntime-qnn") or []
    except metadata.PackageNotFoundError:
        pytest.skip("onnxruntime-qnn is not installed")
    libraries = [file.locate() for file in files if "onnxruntime_providers_qnn." in file.name]
    folder = tmp_path_factory.mktemp("compiled")
    weight = numpy_helper.from_array(np.eye(8, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
        [weight],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), str(libraries[0]), str(folder)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return Compiled(folder, json.loads((folder / "said.json").read_text()))


def test_what_a_compiled_model_says_of_itself(compiled: Compiled) -> None:
    assert compiled.said["good"] is None
    model = read_model(compiled.path)
    (part,) = ep_contexts(model)
    assert (part.source, part.embedded, part.main, part.cache_file) == (
        "QNNExecutionProvider",
        False,
        True,
        "m_ctx_qnn.bin",
    )
    assert part.sdk_version and part.partition
    assert [(file.path, file.nbytes) for file in context_files(model).files] == [
        (compiled.beside, compiled.beside.stat().st_size)
    ]


def test_on_another_ep_the_one_that_compiled_it_is_named(compiled: Compiled) -> None:
    error = compiled.explain("cpu")
    assert error.code == "compiled_for_other_ep"
    assert "QNNExecutionProvider" in error.reason


def test_a_damaged_part_is_named(compiled: Compiled) -> None:
    error = compiled.explain("damaged")
    assert error.code == "ep_context_damaged"
    assert "m_ctx_qnn.bin" in error.reason


def test_a_missing_part_is_named(compiled: Compiled) -> None:
    whole = compiled.beside.read_bytes()
    compiled.beside.unlink()
    try:
        error = compiled.explain("missing")
    finally:
        compiled.beside.write_bytes(whole)
    assert error.code == "external_missing"
    assert "m_ctx_qnn.bin" in error.reason
