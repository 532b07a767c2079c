"""``winml perf`` and the data it feeds: generated so that the model can use it, or given and checked key by key."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.cli import PerfCommand, write
from fixtures.zoo import Zoo

F = np.float32


def npz(folder: Path, **arrays: Any) -> Path:
    """An npz file with these arrays."""
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return path


# --- generated ------------------------------------------------------------------------------------------------


def test_c13_ids_stay_inside_the_table(perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]) -> None:
    # The CPU EP refuses an index out of bounds, so 0 is proof.
    fed = perf.ok(zoo("gather"), "--ep", "cpu", "--dim", "batch=16")["effective"]["inputs"]["ids"]
    assert (fed["dtype"], fed["shape"]) == ("int64", [16, 128])
    assert fed["origin"].startswith("integers below 8")
    fed = perf.ok(zoo("gather"), "--ep", "openvino", "--device", "cpu", env=openvino)["effective"]["inputs"]["ids"]
    assert fed["origin"].startswith("integers below 8")


def test_c13_masks_are_ones(perf: PerfCommand, zoo: Zoo) -> None:
    inputs = perf.ok(zoo("masked"), "--ep", "cpu")["effective"]["inputs"]
    assert inputs["attention_mask"]["origin"] == "mask: ones"
    assert inputs["input_ids"]["origin"].startswith("integers below 50")


def test_c13_data_out_of_range_is_called_that(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    data = npz(tmp_path, ids=np.array([[9]], np.int64))
    error = perf.refused("input_out_of_range", 1, zoo("gather"), "--ep", "cpu", "--input-data", data).error
    assert "idx=9" in error["reason"]


def test_c13_data_out_of_range_on_an_ep_that_does_not_mind_is_warned_of(
    perf: PerfCommand, zoo: Zoo, tmp_path: Path, openvino: dict[str, str]
) -> None:
    data = npz(tmp_path, ids=np.array([[9]], np.int64))
    document = perf.ok(zoo("gather"), "--ep", "openvino", "--device", "cpu", "--input-data", data, env=openvino)
    assert any("'ids' holds 9 to 9" in notice["message"] for notice in document["warnings"])


def test_c15_one_value_for_a_symbol_on_two_inputs(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("shared_symbol"), "--ep", "cpu", "--dim", "batch=4", "--dim", "seq=6")
    shapes = {name: item["shape"] for name, item in document["effective"]["inputs"].items()}
    assert shapes == {"a": [4, 8], "b": [4, 8], "c": [4, 6]}
    assert document["effective"]["dims"] == {"batch": 4, "seq": 6}
    assert document["requested"]["dims"] == {"batch": [4], "seq": [6]}
    assert document["effective"]["batch_size"] == 4


def test_c15_a_shape_of_one_input_sets_the_symbol_of_the_others(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("shared_symbol"), "--ep", "cpu", "--shape", "c=3,5")
    assert document["effective"]["dims"] == {"batch": 3, "seq": 5}
    assert document["requested"]["shapes"] == {"c": [[3, 5]]}
    assert document["effective"]["inputs"]["a"]["shape"] == [3, 8]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["--dim", "batc=4"], "unknown_dim", "Did you mean 'batch'?"),
        (["--dim", "zzz=4"], "unknown_dim", "'zzz'"),
        (["--shape", "aa=2,8"], "unknown_input", "Did you mean 'a'?"),
        (["--shape", "a=2"], "shape_conflict", "has 1 dimensions"),
        (["--shape", "a=2,9"], "shape_conflict", "fixes axis 1 of 'a' at 8"),
        (["--shape", "a=2,8", "--dim", "batch=4"], "shape_conflict", "either 2 or 4"),
        (["--batch-size", "8", "--dim", "batch=4"], "shape_conflict", "either 8 or 4"),
    ],
)
def test_c15_sizes_that_do_not_fit_are_refused_by_name(
    perf: PerfCommand, zoo: Zoo, args: list[str], code: str, words: str
) -> None:
    outcome = perf.refused(code, 2, zoo("shared_symbol"), *args)
    assert words in outcome.error["reason"]


def test_an_input_beyond_all_memory_is_refused(perf: PerfCommand, zoo: Zoo) -> None:
    error = perf.refused("input_too_large", 1, zoo("batched"), "--ep", "cpu", "--shape", "x=2000000000,8").error
    assert "64000000000 bytes" in error["reason"]


def test_the_same_seed_is_recorded_and_a_seed_may_be_large(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("relu"), "--ep", "cpu", "--seed", str(2**70))
    assert document["effective"]["seed"] == document["requested"]["seed"] == 2**70


# --- given ----------------------------------------------------------------------------------------------------


def test_h06_data_that_fits_is_fed_and_named(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    data = npz(tmp_path, x=np.ones((4, 8), F))
    document = perf.ok(zoo("batched"), "--ep", "cpu", "--input-data", data)
    fed = document["effective"]["inputs"]["x"]
    assert (fed["dtype"], fed["shape"]) == ("float32", [4, 8])
    assert "data.npz" in fed["origin"]
    assert document["effective"]["batch_size"] == 4
    assert document["effective"]["dims"] == {"batch": 4}
    assert document["effective"]["input_data"] == str(data)
    assert document["effective"]["seed"] is None  # nothing was drawn
    throughput = document["result"]["throughput"]
    assert throughput["samples_per_s"] == pytest.approx(4 * throughput["inferences_per_s"])


@pytest.mark.parametrize(
    ("arrays", "code", "words"),
    [
        ({"a": (4, 8), "b": (4, 8)}, "input_missing", ["no array for the input 'c'"]),
        ({"a": (4, 8), "b": (4, 8), "c": (4, 2), "d": (1,)}, "input_unknown", ["'d' is no input of the model"]),
        (
            {"A": (4, 8), "b": (4, 8), "c": (4, 2)},
            "input_missing",
            ["input 'a'", "'A' is no input", "did you mean 'a'?"],
        ),
        ({"a": (4, 8, 1), "b": (4, 8), "c": (4, 2)}, "shape_conflict", ["3 dimensions"]),
        ({"a": (4, 9), "b": (4, 8), "c": (4, 2)}, "shape_conflict", ["axis 1 of 'a' at 8"]),
        ({"a": (4, 8), "b": (3, 8), "c": (4, 2)}, "shape_conflict", ["'batch' is either 3 or 4"]),
    ],
    ids=["missing", "extra", "misspelt", "rank", "fixed axis", "symbol"],
)
def test_h06_every_key_that_does_not_fit_is_named_before_a_session_is_made(
    perf: PerfCommand, zoo: Zoo, tmp_path: Path, arrays: dict[str, tuple[int, ...]], code: str, words: list[str]
) -> None:
    data = npz(tmp_path, **{name: np.ones(shape, F) for name, shape in arrays.items()})
    outcome = perf.refused(code, 1, zoo("shared_symbol"), "--ep", "cpu", "--input-data", data)
    assert all(word in outcome.error["reason"] for word in words), outcome.error["reason"]
    assert outcome.document["placement"] is None


def test_h06_a_wrong_type_is_never_converted(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    data = npz(tmp_path, x=np.ones((4, 8), np.float64))
    error = perf.refused("input_dtype", 1, zoo("batched"), "--ep", "cpu", "--input-data", data).error
    assert "'x' is float64, and the model wants float32" in error["reason"]


def test_h06_a_constant_is_no_input(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    data = npz(tmp_path, x=np.ones((4, 8), F), w=np.ones((8, 4), F))
    error = perf.refused("input_unknown", 1, zoo("batched"), "--ep", "cpu", "--input-data", data).error
    assert "'w' is a constant of the model" in error["reason"]


def test_c14_an_initializer_that_is_an_input_may_be_fed_on_request(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    data = npz(tmp_path, x=np.ones((2, 4), F), w=np.ones((4, 3), F))
    document = perf.ok(zoo("initializer_input_ir9"), "--ep", "cpu", "--input-data", data)
    assert list(document["effective"]["inputs"]) == ["x", "w"]
    # IR 3 has no such inputs.
    perf.refused("input_unknown", 1, zoo("initializer_input_ir3"), "--ep", "cpu", "--input-data", data)


@pytest.mark.parametrize(
    "kind", ["npy", "pb", "objects", "cut", "bytes", "empty", "folder", "absent", "fifo", "device"]
)
def test_h06_a_file_that_is_no_npz_is_told_and_never_waited_for(
    perf: PerfCommand, zoo: Zoo, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"data.{kind}"
    good = npz(tmp_path, x=np.ones((4, 8), F)).read_bytes()
    if kind == "npy":
        np.save(tmp_path / "data", np.ones((4, 8), F))
    elif kind == "pb":
        path.write_bytes(b"\x08\x04\x08\x08\x10\x01\x42\x01xJ\x80\x01" + b"\0" * 128)  # a TensorProto of test data
    elif kind == "objects":
        np.savez(path.with_suffix(".npz"), x=np.array([{}], object))
        path = path.with_suffix(".npz")
    elif kind == "cut":
        path.write_bytes(good[:-40])
    elif kind == "bytes":
        path.write_bytes(bytes(byte ^ 0xFF if 30 < index < 60 else byte for index, byte in enumerate(good)))
    elif kind == "empty":
        path.touch()
    elif kind == "folder":
        path.mkdir()
    elif kind in ("fifo", "device"):
        if sys.platform == "win32":
            pytest.skip("no such files here")
        path = Path("/dev/zero") if kind == "device" else path
        if kind == "fifo":
            os.mkfifo(path)
    outcome = perf(zoo("batched"), "--ep", "cpu", "--input-data", path, timeout=30)
    code = "input_file_not_found" if kind == "absent" else "input_file_invalid"
    assert (outcome.code, outcome.error["code"]) == (1, code), outcome.error
    assert path.name in outcome.error["reason"]
    assert outcome.document["result"] is None


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--input-data", ""], "bad_option"),
        (["--input-data", "d.npz", "--dim", "batch=2"], "contradicting_options"),
        (["--input-data", "d.npz", "--shape", "x=2,8"], "contradicting_options"),
        (["--input-data", "d.npz", "--batch-size", "2"], "contradicting_options"),
        (["--input-data", "d.npz", "--seed", "2"], "contradicting_options"),
    ],
)
def test_data_and_sizes_contradict_each_other(perf: PerfCommand, zoo: Zoo, args: list[str], code: str) -> None:
    perf.refused(code, 2, zoo("batched"), *args)


def test_c11_texts_may_be_given(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    model = zoo("string_identity")
    perf.ok(model, "--ep", "cpu", "--input-data", npz(tmp_path, x=np.array(["a", "ü"])))
    data = npz(tmp_path, x=np.array([b"a", b"b"]))
    assert "text" in perf.refused("input_dtype", 1, model, "--ep", "cpu", "--input-data", data).error["reason"]


def test_c12_bits_of_types_that_numpy_lacks_may_be_given(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    data = npz(tmp_path, x=np.full((2, 3), 0x3F80, np.uint16))
    document = perf.ok(zoo("identity_bf16"), "--ep", "cpu", "--input-data", data)
    assert document["effective"]["inputs"]["x"]["dtype"] == "bfloat16"
    wrong = write(tmp_path / "f.npz", b"")
    np.savez(wrong, x=np.ones((2, 3), F))
    error = perf.refused("input_dtype", 1, zoo("identity_bf16"), "--ep", "cpu", "--input-data", wrong).error
    assert "bfloat16, as uint16 bits" in error["reason"]
