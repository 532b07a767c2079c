"""Several sizes and shapes as sets for one session, and what is refused before any session."""

from __future__ import annotations

import pytest

from fixtures.zoo import BUILDERS
from winml.modelkit.errors import InputError, ModelError, UsageError
from winml.modelkit.onnx.files import parse_model
from winml.modelkit.onnx.model import Model
from winml.modelkit.perf.feedable import check_runnable
from winml.modelkit.perf.shape_sets import MOST_SETS, parse_dims, parse_shapes, resolve_shape_sets, shapes_of_fed


def model(name: str) -> Model:
    return parse_model(BUILDERS[name]().SerializeToString(), name)


def test_sizes_in_the_order_they_were_given_each_once() -> None:
    assert parse_dims(["batch=8,1,8", "a=b=2"]) == {"batch": (8, 1), "a=b": (2,)}
    assert parse_shapes(["x=1,3", "y=()", "x=2,3", "x=1,3"]) == {"x": ((1, 3), (2, 3)), "y": ((),)}


@pytest.mark.parametrize("texts", [["batch"], ["batch="], ["batch=1,"], ["batch=1", "batch=2"], ["batch=-1"]])
def test_sizes_of_another_form_are_refused(texts: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        parse_dims(texts)
    assert caught.value.code == "bad_dim"


def test_every_combination_is_one_set() -> None:
    sets = resolve_shape_sets(model("shared_symbol"), dims={"batch": (1, 2), "seq": (3, 4)}, shapes={}, batch_size=None)
    assert [found.shapes["c"] for found in sets] == [(1, 3), (1, 4), (2, 3), (2, 4)]
    assert all(found.shapes["a"] == found.shapes["b"] for found in sets)
    assert [found.batch_size for found in sets] == [1, 1, 2, 2]


def test_nothing_given_is_one_set_of_defaults() -> None:
    (found,) = resolve_shape_sets(model("batched"), dims={}, shapes={}, batch_size=None)
    assert found.shapes == {"x": (1, 8)}
    assert found.given_dims == {}


def test_too_many_combinations_are_refused() -> None:
    sizes = tuple(range(1, MOST_SETS + 2))
    with pytest.raises(UsageError) as caught:
        resolve_shape_sets(model("batched"), dims={"batch": sizes}, shapes={}, batch_size=None)
    assert caught.value.code == "too_many_shapes"


def test_fed_data_tells_dimensions_and_batch() -> None:
    found = shapes_of_fed(model("batched"), {"x": [5, 8]})
    assert (found.dims, found.batch_size) == ({"batch": 5}, 5)


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("sequence_input", InputError, "input_kind_unsupported"),
        ("optional_input", InputError, "input_kind_unsupported"),
        ("identity_int4", InputError, "input_dtype_unsupported"),
        ("identity_fp4", InputError, "input_dtype_unsupported"),
        ("identity_complex64", InputError, "input_dtype_unsupported"),
        ("no_outputs", ModelError, "no_outputs"),
    ],
)
def test_c11_c12_what_no_run_can_be_made_of_is_refused_by_name(name: str, kind: type[Exception], code: str) -> None:
    with pytest.raises(kind) as caught:
        check_runnable(model(name))
    assert caught.value.code == code  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["relu", "string_identity", "identity_bf16", "identity_fp8", "no_inputs", "no_nodes"])
def test_c11_c12_what_can_be_fed_passes(name: str) -> None:
    check_runnable(model(name))
