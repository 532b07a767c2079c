from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from winml.modelkit.errors import ModelError
from winml.modelkit.onnx import wire
from winml.modelkit.onnx.files import parse_model, read_model, recognise, shown, touch


def failure(path: str | Path, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read_model(path, **options)
    assert caught.value.exit_code == 1
    assert "\n" not in caught.value.reason
    return caught.value


@pytest.fixture
def relu(models: Any) -> Any:
    return models.build([helper.make_node("Relu", ["x"], ["y"])], [models.value("x")], [models.value("y")])


def test_a_good_model(models: Any, relu: onnx.ModelProto) -> None:
    path = models.save("m.onnx", relu)
    model = read_model(path)
    assert (model.path, model.file, model.nbytes) == (path, str(path), path.stat().st_size)
    assert (model.ir_version, model.opset_imports, model.opset(), model.opset("ai.onnx")) == (8, [("", 17)], 17, 17)
    assert model.opset("acme") is None
    assert read_model(str(path)).file == str(path)


def test_an_empty_file_is_called_empty(models: Any) -> None:
    error = failure(models.save("m.onnx", b""))
    assert error.code == "model_empty"
    assert "the file is empty" in error.reason


def test_a_git_lfs_pointer_says_git_lfs_pull(models: Any) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    error = failure(models.save("m.onnx", pointer))
    assert (error.code, error.hint) == ("git_lfs_pointer", "run git lfs pull")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"<!DOCTYPE html><html><body>404</body></html>", "an HTML page"),
        (b"\n  <html lang='en'>", "an HTML page"),
        (b'{"error": "not found"}', "a JSON file"),
        (b"<?xml version='1.0'?><net name='m'>", "an XML file"),
        ("Zugriff verweigert: kein Schlüssel\n".encode() * 40, "a text file"),
        (b"\x1f\x8b\x08\x00" + bytes(20), "a gzip file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(20), "an HDF5 file"),
        (b"\x18\x00\x00\x00ORTM" + bytes(40), "a model in ORT format"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(40), "a TensorFlow Lite model"),
        (b'\x0b\x00\x00\x00\x00\x00\x00\x00{"a":[1,2]}' + bytes(8), "a safetensors file"),
        (b"\x93NUMPY\x01\x00" + bytes(40), "a NumPy array"),
        (b"\x7fELF\x02\x01\x01" + bytes(40), "an ELF library or program"),
        (b"\x80\x02}q\x00", "a Python pickle"),
    ],
)
def test_other_files_named_onnx_are_recognised(models: Any, data: bytes, what: str) -> None:
    error = failure(models.save("m.onnx", data))
    assert error.code == "model_not_onnx"
    assert f"not a valid ONNX protobuf ({len(data)} bytes): it is {what}" in error.reason
    assert error.hint


def test_a_zip_archive_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", b"x")
    assert "a zip archive" in failure(path).reason


def test_an_onnx_model_is_not_taken_for_something_else(relu: onnx.ModelProto) -> None:
    relu.producer_name = "ORTMODEL tool"
    data = relu.SerializeToString()
    assert recognise(data[:512], len(data)) == ("", "")


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("elements", [1000, 400_000])
def test_a_truncated_model_is_called_cut_off(models: Any, share: float, elements: int) -> None:
    weight = numpy_helper.from_array(np.zeros(elements, np.float32), "w")
    whole = models.build([], [], [models.value("w", shape=[elements])], [weight]).SerializeToString()
    error = failure(models.save("m.onnx", whole[: int(len(whole) * share)]))
    assert error.code == "model_truncated"
    assert "cut off inside the graph" in error.reason
    # The graph is followed by the opset list: 2 bytes of tag and length, 2 of version.
    assert error.details["needed"] in range(len(whole) - 8, len(whole) + 1)


def test_every_truncation_is_some_model_error(models: Any, relu: onnx.ModelProto) -> None:
    whole = relu.SerializeToString()
    codes = {failure(models.save("m.onnx", whole[:size])).code for size in range(len(whole))}
    # One byte is not enough to see a model in it; between two fields it looks complete but for what is missing.
    assert codes == {"model_empty", "model_not_onnx", "model_truncated", "no_graph", "no_opset"}


def test_random_bytes_are_not_a_model(models: Any) -> None:
    error = failure(models.save("m.onnx", b"\xff\xfe\x00\x91" * 250))
    assert error.code == "model_not_onnx"
    assert "(1000 bytes)" in error.reason


@pytest.mark.parametrize(
    ("field", "code"), [("opset_import", "no_opset"), ("ir_version", "no_ir_version"), ("graph", "no_graph")]
)
def test_what_no_model_can_lack_is_named(models: Any, relu: onnx.ModelProto, field: str, code: str) -> None:
    relu.ClearField(field)
    path = models.save("m.onnx", relu)
    assert failure(path).code == code
    # Inspection goes on nevertheless.
    assert read_model(path, complete=False).nbytes == path.stat().st_size


def test_a_tensor_file_is_recognised(models: Any) -> None:
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "t").SerializeToString()
    error = failure(models.save("input_0.pb", tensor))
    assert error.code == "model_not_onnx"
    assert "a single tensor" in error.reason


def test_a_missing_file(tmp_path: Path) -> None:
    error = failure(tmp_path / "none.onnx")
    assert (error.code, error.details["path"]) == ("model_not_found", str(tmp_path / "none.onnx"))


def test_a_file_below_a_file_is_missing(models: Any) -> None:
    assert failure(models.save("m", b"x") / "m.onnx").code == "model_not_found"


def test_a_folder(tmp_path: Path) -> None:
    assert failure(tmp_path).code == "model_is_directory"


def test_a_path_with_a_nul_character() -> None:
    error = failure("a\0b.onnx")
    assert (error.code, "\0" in error.reason) == ("model_not_found", False)


@pytest.mark.skipif(sys.platform == "win32", reason="a device of POSIX systems")
def test_a_device_is_not_a_regular_file() -> None:
    assert failure("/dev/null").code == "model_not_regular"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    assert failure(tmp_path / "m.onnx").code == "model_not_regular"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
def test_a_dangling_link_names_its_goal(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").symlink_to("gone.onnx")
    error = failure(tmp_path / "m.onnx")
    assert error.code == "model_not_found"
    assert "a link to gone.onnx, which does not exist" in error.reason


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="no POSIX rights here")
def test_a_file_without_read_permission(models: Any, relu: onnx.ModelProto) -> None:
    path = models.save("m.onnx", relu)
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        for folder in (path.parent, *path.parent.parents[:2]):
            folder.chmod(0o755)
        os.seteuid(65534)
    try:
        error = failure(path)
    finally:
        if root:
            os.seteuid(0)
    assert error.code == "model_unreadable"
    assert "no permission" in error.reason


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
def test_a_path_that_is_not_utf8_is_a_clear_error(tmp_path: Path, relu: onnx.ModelProto) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xff.onnx"))
    path.write_bytes(relu.SerializeToString())
    error = failure(path)
    assert error.code == "model_path_not_utf8"
    assert error.reason.encode()  # printable everywhere
    assert "m\\xff.onnx" in error.reason


@pytest.mark.parametrize("name", ["with space", "quo'te", "zeilen\numbruch", "日本語", "a=b:0"])
def test_awkward_names_are_fine(models: Any, relu: onnx.ModelProto, name: str) -> None:
    if sys.platform == "win32" and any(char in name for char in ":\n"):
        pytest.skip("Windows has no such names")
    path = models.save(f"{name}/{name}.onnx", relu)
    model = read_model(path)
    assert model.path == path
    assert "\n" not in model.file


def test_paths_are_shown_on_one_line() -> None:
    assert shown("a b/ü.onnx") == "a b/ü.onnx"
    assert shown("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert shown("m\udcff.onnx") == "m\\xff.onnx"


def test_a_relative_path_from_another_folder(
    models: Any, relu: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.save("deep/m.onnx", relu)
    (models.folder / "other").mkdir()
    monkeypatch.chdir(models.folder / "other")
    assert read_model("../deep/../deep/m.onnx").opset() == 17


def sparse_file(path: Path, head: bytes, zeros: int) -> Path:
    if sys.platform == "win32":
        pytest.skip("a sparse file takes its whole size here")
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + zeros)
    return path


def test_weights_of_1_9_gb_inside_the_file_are_passed_over(tmp_path: Path) -> None:
    rows = 1_900_000_000 // 4096

    def tag(number: int, kind: int) -> bytes:
        return wire.packed(b"", wire.VARINT, number << 3 | kind, 0)

    def number(value: int) -> bytes:
        return wire.packed(b"", wire.VARINT, value, 0)

    graph = helper.make_graph(
        [helper.make_node("Gather", ["w", "i"], ["y"])],
        "g",
        [helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    ).SerializeToString()
    tensor = tag(1, 0) + number(rows) + tag(1, 0) + number(1024) + tag(2, 0) + number(1) + tag(8, 2) + number(1) + b"w"
    tensor += tag(9, 2) + number(rows * 4096)
    tensor = tag(5, 2) + number(len(tensor) + rows * 4096) + tensor
    opset = tag(8, 2) + number(2) + tag(2, 0) + number(17)
    head = tag(1, 0) + number(8) + opset + tag(7, 2) + number(len(graph) + len(tensor) + rows * 4096) + graph + tensor
    path = sparse_file(tmp_path / "m.onnx", head, rows * 4096)
    begin = time.perf_counter()
    model = read_model(path)
    touch(model)
    assert time.perf_counter() - begin < 1.0
    assert [(one.name, one.dims, one.nbytes) for one in model.graph.initializers] == [("w", (rows, 1024), rows * 4096)]


def test_reading_models_loads_no_heavy_package() -> None:
    code = """
        import sys
        import winml.modelkit.onnx.files, winml.modelkit.onnx.facts, winml.modelkit.onnx.external
        import winml.modelkit.onnx.hashing, winml.modelkit.onnx.load_failure, winml.modelkit.onnx.uses
        import winml.modelkit.perf.shapes
        heavy = {"onnx", "onnx_ir", "onnxruntime", "numpy", "google", "torch", "msgspec", "rich", "click"}
        print(sorted(heavy & set(sys.modules)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_parsing_bytes_needs_no_file(relu: onnx.ModelProto) -> None:
    assert parse_model(relu.SerializeToString(), "somewhere").file == "somewhere"
