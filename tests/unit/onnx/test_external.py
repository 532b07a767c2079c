from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from winml.modelkit.errors import ModelError
from winml.modelkit.onnx.external import ExternalFiles, context_files, external_files
from winml.modelkit.onnx.files import read_model
from winml.modelkit.onnx.hashing import hash_model

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")


def save(models: Any, name: str, *tensors: TensorProto) -> Path:
    path: Path = models.save(name, models.build([], [], [], tensors))
    return path


def found(models: Any, name: str, *tensors: TensorProto) -> ExternalFiles:
    return external_files(read_model(save(models, name, *tensors)))


def test_several_tensors_share_a_file(models: Any) -> None:
    (models.folder / "w.bin").write_bytes(bytes(48))
    tensor = models.external_tensor
    result = found(
        models,
        "m.onnx",
        tensor("a", "w.bin"),
        tensor("b", "w.bin", offset=16, length=32, dims=(2, 4)),
        tensor("c", "./w.bin"),
    )
    assert result.problems == []
    assert [(one.location, one.nbytes, one.users) for one in result.files] == [
        ("w.bin", 48, ("a", "b")),
        ("./w.bin", 48, ("c",)),
    ]
    assert result.files[0].path == models.folder / "w.bin"


def test_no_external_data(models: Any) -> None:
    result = found(models, "m.onnx")
    assert (result.files, result.problems, result.nbytes) == ([], [], 0)


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("../up.bin", "external_unsafe"),
        ("sub/../../up.bin", "external_unsafe"),
        ("/etc/hostname", "external_unsafe"),
        ("C:\\w.bin", "external_unsafe"),
        ("C:w.bin", "external_unsafe"),
        ("\\\\server\\share\\w.bin", "external_unsafe"),
        ("gone.bin", "external_missing"),
        ("sub", "external_not_regular"),
        ("", "external_malformed"),
        ("w\0.bin", "external_malformed"),
        (None, "external_malformed"),
    ],
)
def test_bad_locations_are_refused_with_tensor_and_path(models: Any, location: str | None, code: str) -> None:
    (models.folder / "up.bin").write_bytes(bytes(16))
    (models.folder / "deep" / "sub").mkdir(parents=True)
    result = found(models, "deep/m.onnx", models.external_tensor("weight", location))
    assert result.files == []
    assert [(one.code, one.user, one.location) for one in result.problems] == [(code, "weight", location or "")]
    assert "'weight'" in result.problems[0].reason
    if location and location.isprintable():
        assert location in result.problems[0].reason


@needs_links
@pytest.mark.parametrize("folder", [False, True])
def test_links_out_of_the_folder_are_refused(models: Any, folder: bool) -> None:
    outside = models.folder / "outside"
    outside.mkdir()
    (outside / "w.bin").write_bytes(bytes(16))
    (models.folder / "deep").mkdir()
    if folder:
        (models.folder / "deep" / "data").symlink_to(outside)
        location = "data/w.bin"
    else:
        (models.folder / "deep" / "w.bin").symlink_to("../outside/w.bin")
        location = "w.bin"
    result = found(models, "deep/m.onnx", models.external_tensor("weight", location))
    assert [one.code for one in result.problems] == ["external_unsafe"]
    assert "a link leads out of the model's folder" in result.problems[0].reason


@needs_links
def test_links_within_the_folder_are_followed(models: Any) -> None:
    (models.folder / "real.bin").write_bytes(bytes(16))
    (models.folder / "w.bin").symlink_to("real.bin")
    assert found(models, "m.onnx", models.external_tensor("w", "w.bin")).problems == []
    (models.folder / "sub").mkdir()
    assert found(models, "m.onnx", models.external_tensor("w", "sub/../w.bin")).problems == []


@needs_links
def test_a_download_cache_of_links_is_followed(models: Any) -> None:
    # The layout of the Hugging Face cache: snapshots/x/model.onnx -> ../../blobs/1, and the data beside it likewise.
    (models.folder / "blobs").mkdir()
    (models.folder / "blobs" / "2").write_bytes(bytes(16))
    save(models, "blobs/1", models.external_tensor("w", "w.bin"))
    snapshot = models.folder / "snapshots" / "x"
    snapshot.mkdir(parents=True)
    (snapshot / "model.onnx").symlink_to("../../blobs/1")
    (snapshot / "w.bin").symlink_to("../../blobs/2")
    result = external_files(read_model(snapshot / "model.onnx"))
    assert (result.problems, [one.nbytes for one in result.files]) == ([], [16])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_opened(models: Any) -> None:
    os.mkfifo(models.folder / "w.bin")
    result = found(models, "m.onnx", models.external_tensor("w", "w.bin"))
    assert [one.code for one in result.problems] == ["external_not_regular"]


@pytest.mark.parametrize(
    ("entries", "code", "words"),
    [
        ({"offset": 8}, "external_short", "the file has 16 bytes and 24 are needed"),
        ({"dims": (5,)}, "external_short", "the file has 16 bytes and 20 are needed"),
        ({"length": 8}, "external_malformed", "it says 8 bytes, and its shape and type need 16"),
        ({"offset": -4}, "external_malformed", "offset -4"),
        ({"offset": "abc"}, "external_malformed", "offset=abc"),
        ({"length": "9" * 40}, "external_malformed", "length=999"),
    ],
)
def test_offsets_and_lengths_must_fit(models: Any, entries: dict[str, Any], code: str, words: str) -> None:
    (models.folder / "w.bin").write_bytes(bytes(16))
    result = found(models, "m.onnx", models.external_tensor("w", "w.bin", **entries))
    assert [one.code for one in result.problems] == [code]
    assert words in result.problems[0].reason


def test_the_data_of_int4_takes_half_a_byte_each(models: Any) -> None:
    (models.folder / "w.bin").write_bytes(bytes(2))
    tensor = models.external_tensor("w", "w.bin", dims=(3,))
    tensor.data_type = TensorProto.INT4
    assert found(models, "m.onnx", tensor).problems == []
    tensor.dims[0] = 5
    assert [one.code for one in found(models, "m.onnx", tensor).problems] == ["external_short"]


def test_external_data_in_a_branch_is_seen(models: Any) -> None:
    inner = helper.make_graph(
        [helper.make_node("Constant", [], ["o"], value=models.external_tensor("deep", "gone.bin"))], "t", [], []
    )
    model = models.build([helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)])
    result = external_files(read_model(models.save("m.onnx", model)))
    assert [(one.code, one.user) for one in result.problems] == [("external_missing", "deep")] * 2


def test_paths_start_at_the_model_from_any_working_directory(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    save(models, "deep/m.onnx", models.external_tensor("w", "w.bin"))
    (models.folder / "deep" / "w.bin").write_bytes(bytes(16))
    monkeypatch.chdir(models.folder)
    assert external_files(read_model("deep/m.onnx")).problems == []
    monkeypatch.chdir("deep")
    assert external_files(read_model("m.onnx")).problems == []


def test_external_data_of_2_gb_costs_nothing(models: Any) -> None:
    if sys.platform == "win32":
        pytest.skip("a sparse file takes its whole size here")
    rows = 2_100_000_000 // 4096
    with (models.folder / "w.bin").open("wb") as file:
        file.truncate(rows * 4096)
    begin = time.perf_counter()
    result = found(models, "m.onnx", models.external_tensor("w", "w.bin", dims=(rows, 1024)))
    assert time.perf_counter() - begin < 1.0
    assert (result.problems, result.nbytes) == ([], rows * 4096)


def compiled(models: Any, name: str, **attributes: Any) -> ExternalFiles:
    node = helper.make_node("EPContext", ["x"], ["y"], name="c", domain="com.microsoft", source="QNN", **attributes)
    return context_files(read_model(models.save(name, models.build([node]))))


def test_files_of_compiled_parts(models: Any) -> None:
    (models.folder / "m_qnn.bin").write_bytes(bytes(9))
    result = compiled(models, "m.onnx", embed_mode=0, ep_cache_context="m_qnn.bin")
    assert (result.problems, [(one.location, one.nbytes, one.users) for one in result.files]) == (
        [],
        [("m_qnn.bin", 9, ("c",))],
    )


def test_a_missing_file_of_a_compiled_part_is_named(models: Any) -> None:
    result = compiled(models, "m.onnx", embed_mode=0, ep_cache_context="gone.bin")
    assert [(one.code, one.user) for one in result.problems] == [("external_missing", "c")]
    assert "the compiled part of node 'c' in 'gone.bin': there is no such file" in result.problems[0].reason
    assert [one.code for one in compiled(models, "m.onnx", embed_mode=0).problems] == ["external_malformed"]


def test_secondary_and_embedded_parts_need_no_file(models: Any) -> None:
    assert compiled(models, "m.onnx", embed_mode=0, main_context=0).problems == []
    assert compiled(models, "m.onnx", embed_mode=1, ep_cache_context=b"x").problems == []


# --- hashes ---


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_hash_covers_the_model_and_its_files(models: Any) -> None:
    (models.folder / "w.bin").write_bytes(b"0123456789abcdef")
    path = save(models, "m.onnx", models.external_tensor("w", "w.bin"))
    result = hash_model(path)
    assert (result.sha256, result.reason) == (digest(path), None)
    assert result.external_data == [
        # sha256sum of the 16 bytes 0123456789abcdef
        {"name": "w.bin", "bytes": 16, "sha256": "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f"}
    ]


def test_the_hash_covers_files_of_compiled_parts(models: Any) -> None:
    (models.folder / "m_qnn.bin").write_bytes(b"x")
    node = helper.make_node(
        "EPContext", ["x"], ["y"], domain="com.microsoft", embed_mode=0, ep_cache_context="m_qnn.bin"
    )
    result = hash_model(models.save("m.onnx", models.build([node])))
    assert [one.name for one in result.files] == ["m.onnx", "m_qnn.bin"]


def test_over_the_limit_nothing_is_hashed_and_the_reason_is_told(models: Any) -> None:
    (models.folder / "w.bin").write_bytes(bytes(16))
    path = save(models, "m.onnx", models.external_tensor("w", "w.bin"))
    total = path.stat().st_size + 16
    assert hash_model(path, limit=total).sha256 == digest(path)
    result = hash_model(path, limit=total - 1)
    assert (result.sha256, result.external_data[0]["sha256"]) == (None, None)
    assert result.reason == f"not hashed: {total} bytes in all, over the limit of {total - 1}"


def test_unsafe_and_missing_files_are_left_out_with_the_reason(models: Any) -> None:
    result = hash_model(save(models, "m.onnx", models.external_tensor("w", "../w.bin")))
    assert len(result.files) == 1
    assert result.reason is not None and "'w' in '../w.bin'" in result.reason


def test_hashing_what_cannot_be_read(models: Any) -> None:
    with pytest.raises(ModelError) as caught:
        hash_model(models.folder / "none.onnx")
    assert caught.value.code == "model_not_found"
    path = save(models, "m.onnx")
    model = read_model(path)
    path.unlink()
    with pytest.raises(ModelError) as caught:
        hash_model(path, model)
    assert caught.value.code == "model_unreadable"


def test_a_moved_model_takes_its_data_along(models: Any) -> None:
    (models.folder / "a").mkdir()
    (models.folder / "a" / "w.bin").write_bytes(bytes(16))
    save(models, "a/m.onnx", models.external_tensor("w", "w.bin"))
    before = [one.sha256 for one in hash_model(models.folder / "a" / "m.onnx").files]
    shutil.move(models.folder / "a", models.folder / "b")
    assert [one.sha256 for one in hash_model(models.folder / "b" / "m.onnx").files] == before
