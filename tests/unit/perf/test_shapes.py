from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.errors import InputError, UsageError, WinMLError
from winml.modelkit.onnx.model import ValueInfo, ValueType
from winml.modelkit.perf.shapes import bind_shapes, parse_dim, parse_shape, resolve_shapes, words

FLOAT, INT64 = 1, 7


def tensor(name: str, *dims: Any, dtype: int = FLOAT) -> ValueInfo:
    return ValueInfo(name, ValueType("tensor", dtype, tuple(dims)))


def refused(error: type[WinMLError], inputs: list[ValueInfo], **options: Any) -> WinMLError:
    with pytest.raises(error) as caught:
        resolve_shapes(inputs, **options)
    return caught.value


IMAGE = [tensor("x", "N", 3, "H", "W")]
TEXT = [tensor("ids", "batch", "seq", dtype=INT64), tensor("mask", "batch", "seq", dtype=INT64)]


# --- what the user writes ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch=4", ("batch", 4)),
        ("a=b=2", ("a=b", 2)),
        ("x:0=1", ("x:0", 1)),
        (" n = 7 ", ("n", 7)),
        ("past=0", ("past", 0)),
    ],
)
def test_dims_are_parsed(text: str, expected: tuple[str, int]) -> None:
    assert parse_dim(text) == expected


@pytest.mark.parametrize(
    "text", ["", "batch", "batch=", "=4", "batch=-1", "batch=1.5", "batch=x", "n=1_0", "n=٣", "n=99999999999"]
)
def test_bad_dims_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_dim(text)
    assert caught.value.code == "bad_dim"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=1,3,224,224", ("x", (1, 3, 224, 224))),
        ("input:0=1,2", ("input:0", (1, 2))),
        ("a=b=5", ("a=b", (5,))),
        ("x=[1, 2]", ("x", (1, 2))),
        ("x=()", ("x", ())),
        ("past=1,0,64", ("past", (1, 0, 64))),
    ],
)
def test_shapes_are_parsed(text: str, expected: tuple[str, tuple[int, ...]]) -> None:
    assert parse_shape(text) == expected


@pytest.mark.parametrize("text", ["", "x", "x=", "=1,2", "x=1,,2", "x=1,-2", "x=1x3", "x=1,2,", "x=(1,2", "x=?,3"])
def test_bad_shapes_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shape(text)
    assert caught.value.code == "bad_shape"


@given(st.text())
def test_junk_is_parsed_or_refused(text: str) -> None:
    for parse in (parse_dim, parse_shape):
        with contextlib.suppress(UsageError):
            parse(text)


@given(
    st.text(min_size=1).filter(lambda name: name == name.strip() != ""), st.lists(st.integers(0, 2**31 - 1), min_size=1)
)
def test_what_is_written_is_read_back(name: str, numbers: list[int]) -> None:
    assert parse_shape(f"{name}={','.join(map(str, numbers))}") == (name, tuple(numbers))
    assert parse_dim(f"{name}={numbers[0]}") == (name, numbers[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("attention_mask", ["attention", "mask"]),
        ("attentionMask", ["attention", "mask"]),
        ("DynamicDimension.0", ["dynamic", "dimension"]),
        ("ONNXInput", ["onnx", "input"]),
        ("N", ["n"]),
        ("s10", ["s"]),
    ],
)
def test_words_of_a_name(name: str, expected: list[str]) -> None:
    assert words(name) == expected


# --- one value per name ---


def test_one_value_per_name_over_all_inputs() -> None:
    found = resolve_shapes(TEXT, dims={"batch": 4})
    assert found.shapes == {"ids": (4, 128), "mask": (4, 128)}
    assert found.dims == {"batch": 4, "seq": 128}
    assert found.given_dims == {"batch": 4}
    assert (found.batch_size, found.batch_axis) == (4, "axis 0 of 'ids'")


def test_a_shape_of_one_input_settles_the_names_of_all() -> None:
    found = resolve_shapes(TEXT, shapes={"mask": [2, 7]})
    assert found.shapes == {"ids": (2, 7), "mask": (2, 7)}
    # Given with the shape, so they may be fixed in the session.
    assert (found.given_dims, found.defaults) == ({"batch": 2, "seq": 7}, [])


def test_shapes_that_share_a_name_must_agree() -> None:
    error = refused(UsageError, TEXT, shapes={"ids": [2, 7], "mask": [2, 8]})
    assert error.code == "shape_conflict"
    assert "--shape mask=2,8 contradicts --shape ids=2,7" in error.reason
    assert "'seq' is either 8 or 7" in error.reason


def test_a_dim_and_a_shape_must_agree() -> None:
    error = refused(UsageError, TEXT, dims={"seq": 9}, shapes={"ids": [2, 7]})
    assert "--shape ids=2,7 contradicts --dim seq=9" in error.reason
    assert resolve_shapes(TEXT, dims={"seq": 7}, shapes={"ids": [2, 7]}).dims == {"batch": 2, "seq": 7}


def test_a_fixed_dimension_stays() -> None:
    error = refused(UsageError, IMAGE, shapes={"x": [1, 4, 8, 8]})
    assert error.code == "shape_conflict"
    assert "the model fixes axis 1 of 'x' at 3" in error.reason
    assert error.hint == "the model's inputs: x=[N, 3, H, W]"


def test_the_rank_stays() -> None:
    error = refused(UsageError, IMAGE, shapes={"x": [1, 3, 8]})
    assert "has 3 dimensions, and the model's 'x' has 4" in error.reason


def test_a_misspelled_dim_is_never_ignored() -> None:
    error = refused(UsageError, TEXT, dims={"bacth": 4})
    assert error.code == "unknown_dim"
    assert "Did you mean 'batch'?" in error.reason
    assert error.details["known"] == ["batch", "seq"]


def test_a_misspelled_input_is_never_ignored() -> None:
    error = refused(UsageError, TEXT, shapes={"idss": [1, 2]})
    assert error.code == "unknown_input"
    assert "Did you mean 'ids'?" in error.reason


@pytest.mark.parametrize("dim", [None, "?", "-1", ""])
def test_unnamed_dimensions_belong_to_their_input(dim: str | None) -> None:
    inputs = [tensor("a", dim, 8), tensor("b", dim, 8)]
    found = resolve_shapes(inputs, shapes={"a": [5, 8]})
    assert found.shapes == {"a": (5, 8), "b": (1, 8)}
    assert found.dims == {}
    assert refused(UsageError, inputs, dims={"?": 3}).code == "unknown_dim"


def test_sums_and_products_follow_their_parts() -> None:
    inputs = [
        tensor("ids", "batch", "sequence_length", dtype=INT64),
        tensor("mask", "batch", "past_sequence_length + sequence_length", dtype=INT64),
        tensor("key", "batch", 4, "past_sequence_length", 16),
        tensor("wide", "batch", "2*sequence_length"),
    ]
    found = resolve_shapes(inputs, dims={"past_sequence_length": 5})
    assert found.shapes == {"ids": (1, 128), "mask": (1, 133), "key": (1, 4, 5, 16), "wide": (1, 256)}
    assert resolve_shapes(inputs).shapes["mask"] == (1, 128)
    assert resolve_shapes(inputs, dims={"sequence_length": 1}).shapes["wide"] == (1, 2)


def test_a_part_that_stands_nowhere_else_can_be_given() -> None:
    inputs = [tensor("x", 1, "2*s0")]
    assert resolve_shapes(inputs, dims={"s0": 3}).shapes == {"x": (1, 6)}


def test_empty_dimensions_are_allowed() -> None:
    assert resolve_shapes([tensor("past", 1, "past", 4)], dims={"past": 0}).shapes == {"past": (1, 0, 4)}


def test_an_unknown_rank_needs_a_shape() -> None:
    inputs = [ValueInfo("x", ValueType("tensor", FLOAT, None))]
    error = refused(InputError, inputs)
    assert (error.code, error.hint) == ("rank_unknown", "give its shape: --shape x=N,N,...")
    assert resolve_shapes(inputs, shapes={"x": [2, 3]}).shapes == {"x": (2, 3)}
    assert resolve_shapes(inputs, shapes={"x": []}).shapes == {"x": ()}


def test_inputs_that_are_no_tensors_have_no_shape() -> None:
    inputs = [ValueInfo("s", ValueType("sequence", 0, None, ValueType("tensor", FLOAT, (2,)))), tensor("x", 2)]
    assert resolve_shapes(inputs).shapes == {"x": (2,)}
    assert "'s' is no tensor" in refused(UsageError, inputs, shapes={"s": [1]}).reason


def test_no_inputs_at_all() -> None:
    found = resolve_shapes([])
    assert (found.shapes, found.batch_size) == ({}, None)
    assert refused(UsageError, [], dims={"n": 1}).code == "unknown_dim"
    assert refused(UsageError, [], batch_size=2).code == "no_batch"


# --- defaults ---


@pytest.mark.parametrize(
    ("inputs", "shape"),
    [
        (IMAGE, (1, 3, 224, 224)),
        ([tensor("x", None, None, None, 3)], (1, 224, 224, 3)),
        ([tensor("x", None, None, None, None)], (1, 3, 224, 224)),
        ([tensor("x", 1, 3, "?", "?")], (1, 3, 224, 224)),
        ([tensor("x", "unk__1", 2048, dtype=INT64)], (1, 2048)),
        ([tensor("x", None, None, dtype=INT64)], (1, 128)),
        ([tensor("x", None, None)], (1, 512)),
        ([tensor("x", "batch", "sequence")], (1, 512)),
        ([tensor("x", "batch", "audio_samples")], (1, 16000)),
        ([tensor("x", 2, None, 64)], (2, 1, 64)),
        ([tensor("x", "frames", "batch", 80)], (128, 1, 80)),
        ([tensor("x", None, 3, None, None, None)], (1, 3, 16, 16, 16)),
        ([tensor("x", "batch", 12, "past_seq", 64)], (1, 12, 0, 64)),
        ([tensor("x")], ()),
    ],
)
def test_defaults_by_name_and_place(inputs: list[ValueInfo], shape: tuple[int, ...]) -> None:
    assert resolve_shapes(inputs).shapes == {"x": shape}


def test_every_default_is_recorded_once() -> None:
    found = resolve_shapes([*TEXT, tensor("x", None, 4)], dims={"seq": 3})
    assert [(one.input, one.axis, one.name, one.value) for one in found.defaults] == [
        ("ids", 0, "batch", 1),
        ("x", 0, None, 1),
    ]
    assert [one.rule for one in found.defaults] == ["the name says 'batch'", "it stands where the batch does"]
    assert resolve_shapes([tensor("x", 2, 3)]).defaults == []


def test_a_name_without_meaning_is_the_batch_if_it_stands_there_once() -> None:
    inputs = [tensor("a", 4, "s0", "s1"), tensor("b", "s0", "s1", dtype=INT64)]
    assert resolve_shapes(inputs).dims == {"s0": 1, "s1": 128}


# --- the batch ---


def test_the_batch_size_reaches_every_batch_axis() -> None:
    inputs = [tensor("input", None, None), tensor("state", 2, None, 128), tensor("sr", dtype=INT64)]
    found = resolve_shapes(inputs, batch_size=8)
    assert found.shapes == {"input": (8, 512), "state": (2, 8, 128), "sr": ()}
    assert (found.batch_size, found.batch_axis) == (8, "axis 0 of 'input'")


def test_the_batch_size_gives_a_name_its_value() -> None:
    found = resolve_shapes(TEXT, batch_size=8)
    assert (found.dims["batch"], found.given_dims, found.batch_size) == (8, {"batch": 8}, 8)


def test_a_fixed_batch_is_refused_and_not_multiplied() -> None:
    static = [tensor("x", 1, 3, 8, 8)]
    error = refused(UsageError, static, batch_size=8)
    assert error.code == "batch_fixed"
    assert "the model's batch is fixed at 1" in error.reason
    assert resolve_shapes(static, batch_size=1).batch_size == 1
    assert resolve_shapes(static).batch_size == 1


def test_a_second_input_does_not_lend_its_batch() -> None:
    inputs = [tensor("x", 1, 3, 8, 8), tensor("table", 8, 5)]
    assert refused(UsageError, inputs, batch_size=8).code == "batch_fixed"


@pytest.mark.parametrize("options", [{"dims": {"batch": 4}}, {"shapes": {"ids": [4, 3]}}])
def test_the_batch_size_must_agree_with_the_rest(options: dict[str, Any]) -> None:
    error = refused(UsageError, TEXT, batch_size=8, **options)
    assert error.code == "shape_conflict"
    assert "--batch-size 8 contradicts --" in error.reason
    assert resolve_shapes(TEXT, batch_size=4, **options).batch_size == 4


def test_the_batch_size_must_agree_with_an_unnamed_dimension() -> None:
    error = refused(UsageError, [tensor("x", None, 4)], batch_size=8, shapes={"x": [2, 4]})
    assert "--batch-size 8 contradicts --shape x=..., which gives axis 0 2" in error.reason


@pytest.mark.parametrize(
    ("inputs", "batch"),
    [
        ([tensor("x", 8, 3, 4, 4)], 8),
        ([tensor("ids", 8, 16, dtype=INT64), tensor("mask", 8, 16, dtype=INT64)], 8),
        # 77 positions of one text, or 77 samples: nothing tells.
        ([tensor("x", 77, 768)], None),
        ([tensor("wave", 16000)], None),
        ([tensor("sr", dtype=INT64)], None),
        ([tensor("x", "frames", "batch", 80)], 1),
    ],
)
def test_the_batch_is_read_off_the_shapes_or_not_known(inputs: list[ValueInfo], batch: int | None) -> None:
    assert resolve_shapes(inputs).batch_size == batch


def test_the_user_may_say_that_a_fixed_axis_is_the_batch() -> None:
    assert resolve_shapes([tensor("x", 8, 16)], batch_size=8).batch_size == 8
    assert refused(UsageError, [tensor("x", 8, 16)], batch_size=4).code == "batch_fixed"


# --- data at hand ---


def test_data_tells_its_shapes() -> None:
    found = bind_shapes(TEXT, {"ids": (3, 9), "mask": (3, 9)}, "data.npz")
    assert (found.dims, found.batch_size, found.defaults, found.given_dims) == ({"batch": 3, "seq": 9}, 3, [], {})


def test_data_is_checked_against_names_and_fixed_dimensions() -> None:
    with pytest.raises(InputError, match=r"data\.npz mask=3,8 contradicts data\.npz ids=3,9: .*'seq'") as caught:
        bind_shapes(TEXT, {"ids": (3, 9), "mask": (3, 8)}, "data.npz")
    assert caught.value.code == "shape_conflict"
    with pytest.raises(InputError, match="fixes axis 1 of 'x' at 3"):
        bind_shapes(IMAGE, {"x": (1, 1, 8, 8)}, "data.npz")


dims = st.one_of(
    st.integers(0, 9),
    st.sampled_from(["N", "batch", "seq", "s0", "2*s0", "past + seq", "?", "", "+", "a*b+c"]),
    st.none(),
)


@given(st.lists(st.lists(dims, max_size=6), max_size=4), st.integers(1, 9) | st.none())
def test_every_shape_fits_its_declaration(shapes: list[list[Any]], batch_size: int | None) -> None:
    inputs = [tensor(f"x{index}", *shape) for index, shape in enumerate(shapes)]
    try:
        found = resolve_shapes(inputs, batch_size=batch_size)
    except UsageError:
        return
    assert list(found.shapes) == [one.name for one in inputs]
    # What is resolved can be fed: the checker of data at hand agrees.
    assert bind_shapes(inputs, found.shapes, "check").shapes == found.shapes
    if batch_size is not None:
        assert found.batch_size == batch_size
