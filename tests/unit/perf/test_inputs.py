from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from winml.modelkit.errors import InputError, UsageError
from winml.modelkit.onnx.facts import real_inputs
from winml.modelkit.onnx.files import parse_model
from winml.modelkit.onnx.model import Model
from winml.modelkit.perf.inputs import GeneratedInputs, load_inputs, make_inputs
from winml.modelkit.perf.shapes import resolve_shapes

node = helper.make_node
INT64 = TensorProto.INT64


def value(name: str, kind: int = TensorProto.FLOAT, shape: Sequence[Any] | None = (2, 3)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def table(name: str, *dims: int) -> TensorProto:
    return numpy_helper.from_array(np.zeros(dims, np.float32), name)


def proto(
    inputs: Sequence[onnx.ValueInfoProto],
    nodes: Sequence[onnx.NodeProto] = (),
    constants: Sequence[TensorProto] = (),
    *,
    outputs: Sequence[str] = (),
    ir: int = 10,
    opset: int = 20,
) -> onnx.ModelProto:
    typed = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), typed, list(constants))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, ir_version=ir, opset_imports=imports)


def model(*args: Any, **options: Any) -> Model:
    return parse_model(proto(*args, **options).SerializeToString(), "m.onnx")


def made(parsed: Model, **options: Any) -> GeneratedInputs:
    return make_inputs(parsed, resolve_shapes(real_inputs(parsed)).shapes, **options)


def only(*args: Any, seed: int = 0, **options: Any) -> tuple[Any, str]:
    """Array and origin of the first input."""
    found = made(model(*args, **options), seed=seed)
    name = next(iter(found.arrays))
    return found.arrays[name], found.descriptions[name]["origin"]


# --- making ---


def test_floats_are_uniform_and_repeatable() -> None:
    parsed = model([value("x", shape=(1000,)), value("y", shape=(1000,))])
    first, again, other = made(parsed), made(parsed), made(parsed, seed=1)
    assert np.array_equal(first.arrays["x"], again.arrays["x"])
    assert not np.array_equal(first.arrays["x"], other.arrays["x"])
    assert not np.array_equal(first.arrays["x"], first.arrays["y"])
    x = first.arrays["x"]
    assert (x.dtype, x.min() >= 0, x.max() < 1, abs(x.mean() - 0.5) < 0.05) == (np.float32, True, True, True)
    assert first.descriptions["x"] == {"dtype": "float32", "shape": [1000], "origin": "uniform [0, 1)"}
    # The stated generator, so that anybody can make the same data.
    assert np.array_equal(x, np.random.default_rng(0).random(1000, np.float32))


@pytest.mark.parametrize(("kind", "dtype"), [(TensorProto.DOUBLE, np.float64), (TensorProto.FLOAT16, np.float16)])
def test_other_floats(kind: int, dtype: Any) -> None:
    array, _ = only([value("x", kind)])
    assert (array.dtype, array.shape) == (dtype, (2, 3))


def test_bfloat16_is_carried_as_bits() -> None:
    found = made(model([value("x", TensorProto.BFLOAT16, [500])]))
    assert found.onnx_types == {"x": TensorProto.BFLOAT16}
    singles = np.random.default_rng(0).random(500, np.float32)
    # ml_dtypes rounds independently.
    assert np.array_equal(found.arrays["x"], singles.astype(ml_dtypes.bfloat16).view(np.uint16))
    assert found.descriptions["x"]["dtype"] == "bfloat16"


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_float8_is_carried_as_bits_of_numbers_below_one(name: str) -> None:
    kind = getattr(TensorProto, name.upper().replace("_", ""))
    found = made(model([value("x", kind, [2000])]))
    numbers = found.arrays["x"].view(getattr(ml_dtypes, name)).astype(np.float32)
    assert found.onnx_types == {"x": kind}
    assert (numbers.min() >= 0, numbers.max() < 1, numbers.max() > 0.8) == (True, True, True)


def test_indices_stay_inside_the_table() -> None:
    ids = value("input_ids", INT64, [4, 64])
    array, origin = only([ids], [node("Gather", ["embeddings", "input_ids"], ["y"])], [table("embeddings", 8, 2)])
    assert (array.dtype, array.min(), array.max()) == (np.int64, 0, 7)
    assert origin == "integers below 8: they index 'embeddings' (Gather)"


def test_the_smallest_table_wins() -> None:
    nodes = [node("Gather", ["a", "i"], ["y"]), node("Gather", ["b", "i"], ["z"])]
    array, _ = only([value("i", INT64, [500])], nodes, [table("a", 100, 2), table("b", 3, 2)])
    assert array.max() == 2


def test_a_table_of_unknown_length_takes_zeros() -> None:
    nodes = [node("Relu", ["t"], ["r"]), node("Gather", ["r", "i"], ["y"])]
    parsed = model([value("i", INT64), value("t", shape=["a", "b"])], nodes)
    found = made(parsed)
    assert not found.arrays["i"].any()
    assert "whose length is not known" in found.descriptions["i"]["origin"]


def test_an_index_type_narrower_than_the_table() -> None:
    array, _ = only([value("i", TensorProto.INT32, [9])], [node("Gather", ["w", "i"], ["y"])], [table("w", 70_000, 1)])
    assert array.dtype == np.int32


@pytest.mark.parametrize("name", ["attention_mask", "mask", "input_mask", "attentionMask:0"])
@pytest.mark.parametrize("kind", [INT64, TensorProto.INT32, TensorProto.BOOL])
def test_masks_by_name_are_ones(name: str, kind: int) -> None:
    array, origin = only([value(name, kind)])
    assert array.all() and origin.startswith("mask: ")


def test_a_padding_mask_of_bools_masks_nothing() -> None:
    array, origin = only([value("key_padding_mask", TensorProto.BOOL)])
    assert not array.any() and origin == "padding mask: all false"


def test_masks_by_use_are_ones() -> None:
    one = numpy_helper.from_array(np.array(1.0, np.float32), "one")
    nodes = [node("Cast", ["keep"], ["f"], to=TensorProto.FLOAT), node("Sub", ["one", "f"], ["y"])]
    array, origin = only([value("keep", INT64)], nodes, [one])
    assert (array == 1).all() and origin == "mask: ones"


def test_token_types_stay_inside_their_table_or_are_zero() -> None:
    inputs = [value("token_type_ids", INT64, [2, 50])]
    array, _ = only(inputs, [node("Gather", ["types", "token_type_ids"], ["y"])], [table("types", 2, 4)])
    assert set(np.unique(array)) == {0, 1}
    assert not only(inputs)[0].any()
    assert not only([value("segment_ids", INT64)])[0].any()


def test_positions_count_up_inside_their_table() -> None:
    inputs = [value("position_ids", INT64, [2, 5])]
    assert only(inputs)[0].tolist() == [[0, 1, 2, 3, 4]] * 2
    nodes = [node("Gather", ["w", "position_ids"], ["y"])]
    assert only(inputs, nodes, [table("w", 3, 2)])[0].tolist() == [[0, 1, 2, 0, 1]] * 2


def test_a_scalar_takes_a_constant_it_is_compared_with() -> None:
    rate = numpy_helper.from_array(np.array(16000, np.int64), "rate")
    array, origin = only([value("sr", INT64, [])], [node("Equal", ["sr", "rate"], ["y"])], [rate])
    assert (array.shape, int(array), origin) == ((), 16000, "16000: the model compares it with 16000")
    # Many numbers are not settled by one comparison: a padding token, say.
    assert len(np.unique(only([value("ids", INT64, [90])], [node("Equal", ["ids", "rate"], ["y"])], [rate])[0])) == 9


def test_a_sample_rate_by_its_name() -> None:
    assert int(only([value("sr", INT64, [])])[0]) == 16000


def test_lengths_are_the_whole_length() -> None:
    parsed = model([value("tokens", INT64, [2, 40]), value("input_lengths", INT64, [2])])
    found = made(parsed)
    assert found.arrays["input_lengths"].tolist() == [40, 40]
    assert found.descriptions["input_lengths"]["origin"] == "length 40: the whole of axis 1 of 'tokens'"


def test_images_of_bytes_take_the_whole_range() -> None:
    array, origin = only([value("image", TensorProto.UINT8, [1, 3, 64, 64])])
    assert (array.min(), array.max()) == (0, 255)
    assert origin == "integers 0 to 255: the whole range of uint8"


def test_wide_integers_without_a_bound_are_small_and_never_zero() -> None:
    array, origin = only([value("n", TensorProto.INT32, [500])])
    assert (array.min(), array.max()) == (1, 9)
    assert "nothing in the graph bounds them" in origin


def test_bools_are_both() -> None:
    assert set(np.unique(only([value("b", TensorProto.BOOL, [100])])[0])) == {False, True}


def test_strings_are_short_texts() -> None:
    array, _ = only([value("s", TensorProto.STRING, [2, 2])])
    assert array.dtype == object
    assert array.tolist() == [["text 0", "text 1"], ["text 2", "text 3"]]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (helper.make_tensor_sequence_value_info("s", 1, [2]), "'s' is a sequence"),
        (
            helper.make_value_info("s", helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2]))),
            "'s' is an optional",
        ),
        (
            helper.make_value_info("s", helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, [2]))),
            "'s' is a map",
        ),
    ],
)
def test_other_kinds_of_inputs_are_refused_by_name(typed: onnx.ValueInfoProto, words: str) -> None:
    for use in (lambda parsed: made(parsed), lambda parsed: load_inputs("x.npz", parsed)):
        with pytest.raises(InputError) as caught:
            use(model([typed]))
        assert caught.value.code == "input_kind_unsupported"
        assert words in caught.value.reason


@pytest.mark.parametrize(
    "name", ["INT4", "UINT4", "INT2", "FLOAT4E2M1", "FLOAT8E8M0", "COMPLEX64", "COMPLEX128", "UNDEFINED"]
)
def test_types_that_cannot_be_fed_are_refused_by_name(name: str) -> None:
    with pytest.raises(InputError) as caught:
        made(model([value("odd", getattr(TensorProto, name))]))
    assert caught.value.code == "input_dtype_unsupported"
    assert f"ONNX Runtime cannot be fed the input 'odd' of type {name.lower()}" in caught.value.reason


def test_initializers_are_never_fed() -> None:
    for ir in (3, 9):
        parsed = model([value("x"), value("w")], [node("Add", ["x", "w"], ["y"])], [table("w", 2, 3)], ir=ir)
        assert list(made(parsed).arrays) == ["x"]


def test_empty_and_scalar_shapes() -> None:
    assert only([value("x", shape=[0, 3])])[0].shape == (0, 3)
    assert only([value("x", TensorProto.BFLOAT16, [])])[0].shape == ()
    assert only([value("position_ids", INT64, [])])[0].shape == ()


def test_too_large_an_input_is_refused() -> None:
    parsed = model([value("x", shape=["a", "b"])])
    for dim in (2**40, 2**31 - 1):
        with pytest.raises(InputError) as caught:
            make_inputs(parsed, {"x": (dim, 2**31 - 1)})
        assert caught.value.code == "input_too_large"


def test_ranges_override_the_rules() -> None:
    parsed = model(
        [value("i", INT64, [500]), value("f", shape=[500])], [node("Gather", ["w", "i"], ["y"])], [table("w", 8, 2)]
    )
    found = made(parsed, ranges={"i": (-2, 3), "f": (-1, 1)})
    assert (found.arrays["i"].min(), found.arrays["i"].max()) == (-2, 3)
    assert (found.arrays["f"].dtype, found.arrays["f"].min() < -0.9, found.arrays["f"].max() > 0.9) == (
        np.float32,
        True,
        True,
    )
    assert found.descriptions["i"]["origin"] == "integers -2 to 3, as asked"


@pytest.mark.parametrize("bounds", [(0.5, 3), (3, 1), (0, 2**63), (float("nan"), 1)])
def test_ranges_must_fit(bounds: tuple[float, float]) -> None:
    with pytest.raises(UsageError) as caught:
        made(model([value("i", INT64)]), ranges={"i": bounds})
    assert caught.value.code == "bad_range"
    with pytest.raises(UsageError, match="'j', which is no input"):
        made(model([value("i", INT64)]), ranges={"j": (0, 1)})


def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), name, [], [value(f"{name}_out", shape=None)])


def runnable() -> dict[str, onnx.ModelProto]:
    """Models that fail or give no numbers if their inputs are made without a look at their use."""
    axis = numpy_helper.from_array(np.array([0], np.int64), "axis")
    one = numpy_helper.from_array(np.array(1.0, np.float32), "one")
    inner = branch("t", node("Gather", ["w", "i"], ["t_out"]))
    other = branch("e", node("Identity", ["w"], ["e_out"]))
    return {
        "gather": proto(
            [value("i", INT64, ["n", 5])], [node("Gather", ["w", "i"], ["y"])], [table("w", 8, 8)], outputs=["y"]
        ),
        "through_casts": proto(
            [value("i", TensorProto.INT32, [4])],
            [
                node("Cast", ["i"], ["a"], to=INT64),
                node("Unsqueeze", ["a", "axis"], ["b"]),
                node("Gather", ["w", "b"], ["y"]),
            ],
            [table("w", 3, 2), axis],
            outputs=["y"],
        ),
        "captured": proto(
            [value("i", INT64, [4]), value("use_cache", TensorProto.BOOL, [])],
            [node("If", ["use_cache"], ["y"], then_branch=inner, else_branch=other)],
            [table("w", 3, 2)],
            outputs=["y"],
        ),
        "gather_nd": proto(
            [value("i", INT64, [4, 2])], [node("GatherND", ["w", "i"], ["y"])], [table("w", 5, 3, 2)], outputs=["y"]
        ),
        "elements": proto(
            [value("x", shape=[2, 3]), value("i", INT64, [2, 2])],
            [node("GatherElements", ["x", "i"], ["y"], axis=1)],
            outputs=["y"],
        ),
        "mask": proto(
            [value("keep", INT64, [2, 3])],
            [node("Cast", ["keep"], ["f"], to=1), node("Sub", ["one", "f"], ["s"]), node("Div", ["one", "f"], ["y"])],
            [one],
            outputs=["s", "y"],
        ),
        "division": proto([value("a", INT64), value("b", INT64)], [node("Div", ["a", "b"], ["y"])], outputs=["y"]),
        "top_k": proto(
            [value("x"), value("k", INT64, [1])], [node("TopK", ["x", "k"], ["y", "z"])], outputs=["y", "z"]
        ),
        "reshape": proto([value("x"), value("s", INT64, [3])], [node("Reshape", ["x", "s"], ["y"])], outputs=["y"]),
        "slice": proto(
            [value("x"), value("b", INT64, [1]), value("e", INT64, [1])],
            [node("Slice", ["x", "b", "e"], ["y"])],
            outputs=["y"],
        ),
        "range": proto(
            [value("a", INT64, []), value("b", INT64, []), value("c", INT64, [])],
            [node("Range", ["a", "b", "c"], ["y"])],
            outputs=["y"],
        ),
        "lengths": proto(
            [value("x", shape=[6, 2, 3]), value("lens", TensorProto.INT32, [2])],
            [node("LSTM", ["x", "w", "r", "", "lens"], ["y"], hidden_size=4)],
            [table("w", 1, 16, 3), table("r", 1, 16, 4)],
            outputs=["y"],
        ),
        "bfloat16": proto([value("x", TensorProto.BFLOAT16)], [node("Cast", ["x"], ["y"], to=1)], outputs=["y"]),
        "float8": proto([value("x", TensorProto.FLOAT8E5M2)], [node("Cast", ["x"], ["y"], to=1)], outputs=["y"]),
        "strings": proto([value("x", TensorProto.STRING)], [node("Identity", ["x"], ["y"])], outputs=["y"]),
        "no_inputs": proto([], [node("Identity", ["w"], ["y"])], [table("w", 2)], outputs=["y"]),
        "old_ir": proto(
            [value("x"), value("w")], [node("Add", ["x", "w"], ["y"])], [table("w", 2, 3)], outputs=["y"], ir=3
        ),
    }


CHILD = """
    import json, sys
    import numpy as np
    import onnxruntime as ort
    from winml.modelkit.onnx.facts import real_inputs
    from winml.modelkit.onnx.files import read_model
    from winml.modelkit.perf.inputs import make_inputs
    from winml.modelkit.perf.shapes import resolve_shapes

    answer = {}
    for path in json.load(sys.stdin):
        try:
            model = read_model(path)
            made = make_inputs(model, resolve_shapes(real_inputs(model)).shapes)
            session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
            if made.onnx_types:
                wrap = ort.OrtValue.ortvalue_from_numpy_with_onnx_type
                feeds = {name: wrap(array, made.onnx_types[name]) for name, array in made.arrays.items()}
                outputs = [value.numpy() for value in session.run_with_ort_values(None, feeds)]
            else:
                outputs = session.run(None, made.arrays)
            finite = all(np.isfinite(out).all() for out in outputs if out.dtype.kind == "f")
            answer[path] = "ok" if finite else "not finite"
        except Exception as error:
            answer[path] = str(error)
    json.dump(answer, sys.stdout)
"""


def test_onnxruntime_runs_what_is_made(tmp_path: Path) -> None:
    paths = {}
    for name, one in runnable().items():
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(one.SerializeToString())
        paths[str(path)] = name
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD)],
        input=json.dumps(list(paths)),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert {paths[path]: said for path, said in json.loads(done.stdout).items()} == dict.fromkeys(paths.values(), "ok")


# --- reading ---

TEXT = [value("ids", INT64, ["batch", "seq"]), value("scale", TensorProto.FLOAT, ["batch", 2])]


def text_model(**options: Any) -> Model:
    return model(TEXT, [node("Gather", ["w", "ids"], ["y"])], [table("w", 8, 4)], **options)


def good() -> dict[str, Any]:
    return {"ids": np.full((3, 5), 7), "scale": np.ones((3, 2), np.float32)}


def saved(folder: Path, arrays: dict[str, Any]) -> Path:
    path = folder / "data.npz"
    np.savez(path, **arrays)
    return path


def refused(folder: Path, arrays: dict[str, Any], parsed: Model | None = None) -> InputError:
    with pytest.raises(InputError) as caught:
        load_inputs(saved(folder, arrays), parsed or text_model())
    assert "data.npz" in caught.value.reason
    return caught.value


def test_a_good_file_is_fed_as_it_is(tmp_path: Path) -> None:
    found = load_inputs(saved(tmp_path, good()), text_model())
    assert {name: array.tolist() for name, array in found.arrays.items()} == {
        name: array.tolist() for name, array in good().items()
    }
    assert found.descriptions["ids"]["shape"] == [3, 5]
    assert found.descriptions["ids"]["dtype"] == "int64"
    assert found.descriptions["ids"]["origin"].endswith("data.npz, 'ids'")
    assert found.warnings == []


def test_a_missing_input_is_named(tmp_path: Path) -> None:
    error = refused(tmp_path, {"ids": good()["ids"]})
    assert (error.code, error.details["missing"]) == ("input_missing", ["scale"])
    assert "no array for the input 'scale'" in error.reason


def test_a_misspelled_input_is_named_with_what_was_meant(tmp_path: Path) -> None:
    error = refused(tmp_path, {"ids": good()["ids"], "scael": good()["scale"]})
    assert (error.code, error.details["unknown"]) == ("input_missing", ["scael"])
    assert "'scael' is no input of the model (did you mean 'scale'?)" in error.reason


def test_an_extra_array_is_never_ignored(tmp_path: Path) -> None:
    error = refused(tmp_path, {**good(), "labels": np.zeros(3)})
    assert error.code == "input_unknown"
    assert "'labels' is no input of the model" in error.reason


def test_a_weight_is_not_an_input(tmp_path: Path) -> None:
    error = refused(tmp_path, {**good(), "w": np.zeros((8, 4), np.float32)})
    assert "'w' is a constant of the model, not an input" in error.reason


def test_an_overridable_input_may_be_given(tmp_path: Path) -> None:
    inputs = [value("x"), value("w")]
    nodes = [node("Add", ["x", "w"], ["y"])]
    both = {"x": np.ones((2, 3), np.float32), "w": np.ones((2, 3), np.float32)}
    parsed = model(inputs, nodes, [table("w", 2, 3)], ir=9)
    assert list(load_inputs(saved(tmp_path, both), parsed).arrays) == ["x", "w"]
    assert list(load_inputs(saved(tmp_path, {"x": both["x"]}), parsed).arrays) == ["x"]
    assert refused(tmp_path, both, model(inputs, nodes, [table("w", 2, 3)], ir=3)).code == "input_unknown"


def test_types_are_never_converted(tmp_path: Path) -> None:
    error = refused(tmp_path, {"ids": np.ones((3, 5), np.int32), "scale": np.ones((3, 2))})
    assert error.code == "input_dtype"
    assert "'ids' is int32, and the model wants int64" in error.reason
    assert "'scale' is float64, and the model wants float32" in error.reason


def test_ranks_and_fixed_dimensions_are_checked(tmp_path: Path) -> None:
    assert refused(tmp_path, {**good(), "ids": np.ones(5, np.int64)}).code == "shape_conflict"
    error = refused(tmp_path, {**good(), "scale": np.ones((3, 4), np.float32)})
    assert "the model fixes axis 1 of 'scale' at 2" in error.reason


def test_one_value_per_name(tmp_path: Path) -> None:
    error = refused(tmp_path, {**good(), "scale": np.ones((4, 2), np.float32)})
    assert error.code == "shape_conflict"
    assert "'batch' is either 4 or 3" in error.reason


def test_an_axis_of_samples_in_front_is_a_wrong_rank(tmp_path: Path) -> None:
    stacked = {name: np.stack([array] * 10) for name, array in good().items()}
    assert "has 3 dimensions, and the model's 'ids' has 2" in refused(tmp_path, stacked).reason


def test_objects_are_not_read(tmp_path: Path) -> None:
    error = refused(tmp_path, {**good(), "ids": np.array([{"a": 1}], dtype=object)})
    assert error.code == "input_file_invalid"
    assert "'ids' is an array of Python objects" in error.reason


def test_indices_out_of_the_table_are_a_warning(tmp_path: Path) -> None:
    found = load_inputs(saved(tmp_path, {**good(), "ids": np.array([[-9, 8]] * 3)}), text_model())
    assert found.warnings == ["'ids' holds -9 to 8 and indexes 'w' (Gather) of 8 places"]
    assert load_inputs(saved(tmp_path, {**good(), "ids": np.array([[-8, 7]] * 3)}), text_model()).warnings == []


def test_byte_order_and_memory_order_are_made_native(tmp_path: Path) -> None:
    arrays = {
        "ids": good()["ids"].astype(">i8"),
        "scale": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(3, 2)),
    }
    found = load_inputs(saved(tmp_path, arrays), text_model())
    assert found.arrays["ids"].dtype == np.dtype("=i8")
    assert found.arrays["ids"].tolist() == good()["ids"].tolist()
    assert found.arrays["scale"].flags.c_contiguous
    assert found.arrays["scale"].tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("as_bits", [False, True])
def test_bfloat16_data(tmp_path: Path, as_bits: bool) -> None:
    numbers = np.array([1.0, -2.5], ml_dtypes.bfloat16)
    parsed = model([value("x", TensorProto.BFLOAT16, [2])])
    found = load_inputs(saved(tmp_path, {"x": numbers.view(np.uint16) if as_bits else numbers}), parsed)
    assert found.arrays["x"].tolist() == [0x3F80, 0xC020]
    assert found.onnx_types == {"x": TensorProto.BFLOAT16}
    error = refused(tmp_path, {"x": numbers.astype(np.float32)}, parsed)
    assert "'x' is float32, and the model wants bfloat16, as uint16 bits" in error.reason


def test_texts(tmp_path: Path) -> None:
    parsed = model([value("s", TensorProto.STRING, [2])])
    found = load_inputs(saved(tmp_path, {"s": np.array(["a", "bü"])}), parsed)
    assert (found.arrays["s"].dtype, found.arrays["s"].tolist()) == (object, ["a", "bü"])
    assert refused(tmp_path, {"s": np.array([b"a", b"b"])}, parsed).code == "input_dtype"


@pytest.mark.parametrize("name", ["x:0", "a/b", "a=b", "data.npy", "日本"])
def test_awkward_input_names(tmp_path: Path, name: str) -> None:
    found = load_inputs(saved(tmp_path, {name: np.ones(2, np.float32)}), model([value(name, shape=[2])]))
    assert list(found.arrays) == [name]


def invalid(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        load_inputs(path, text_model())
    return caught.value


def test_a_single_array_is_not_an_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))
    error = invalid(tmp_path / "x.npy")
    assert error.code == "input_file_invalid"
    assert "a single array (.npy)" in error.reason


def test_other_files_are_not_an_npz(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.zeros(3, np.float32), "ids").SerializeToString()
    for data in (tensor, b"", b"PK\x03\x04junk", b"\x80\x04N.", b"\x93NUMPY\x01\x00"):
        (tmp_path / "input_0.pb").write_bytes(data)
        error = invalid(tmp_path / "input_0.pb")
        assert (error.code, error.details["file"]) == ("input_file_invalid", str(tmp_path / "input_0.pb"))


def test_a_zip_of_other_things_is_not_an_npz(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("ids", b"not an array")
    assert "'ids' is not an array" in invalid(tmp_path / "x.npz").reason


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_an_array_given_twice_is_refused(tmp_path: Path) -> None:
    single = saved(tmp_path, good())
    with zipfile.ZipFile(single) as archive:
        data = archive.read("ids.npy")
    with zipfile.ZipFile(single, "a") as archive:
        archive.writestr("ids.npy", data)
    assert "more than one array for 'ids'" in invalid(single).reason


def test_missing_files_and_folders(tmp_path: Path) -> None:
    assert invalid(tmp_path / "none.npz").code == "input_file_not_found"
    assert invalid(tmp_path).code == "input_file_invalid"


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_damaged_files_are_input_errors(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / "damaged"
    folder.mkdir(exist_ok=True)
    raw = bytearray(saved(folder, good()).read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = folder / "damaged.npz"
    path.write_bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        load_inputs(path, text_model())
    except InputError as error:
        assert "\n" not in error.reason
