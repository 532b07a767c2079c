"""Several sizes of a dimension or several shapes of an input, as the sets of shapes that one session is measured at."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from winml.modelkit.errors import UsageError
from winml.modelkit.onnx.facts import real_inputs
from winml.modelkit.perf.shapes import ResolvedShapes, bind_shapes, parse_dim, parse_shape, resolve_shapes

if TYPE_CHECKING:
    from winml.modelkit.onnx.model import Model

MOST_SETS = 64


def parse_dims(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """``NAME=N[,N...]`` as sizes by name.

    Raises:
        UsageError: not of that form, or a name given twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        head, sign, sizes = text.rpartition("=")
        parsed = [parse_dim(f"{head}{sign}{size}") for size in sizes.split(",")]
        name = parsed[0][0]
        if name in found:
            raise UsageError(f"--dim {name} is given twice", code="bad_dim", hint=f"several sizes: --dim {name}=1,8")
        found[name] = tuple(dict.fromkeys(size for _, size in parsed))
    return found


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[tuple[int, ...], ...]]:
    """``INPUT=1,3,224,224`` as shapes by input, several where an input is given several times.

    Raises:
        UsageError: not of that form.
    """
    found: dict[str, tuple[tuple[int, ...], ...]] = {}
    for text in texts:
        name, shape = parse_shape(text)
        if shape not in found.get(name, ()):
            found[name] = (*found.get(name, ()), shape)
    return found


def resolve_shape_sets(
    model: Model,
    *,
    dims: Mapping[str, Sequence[int]],
    shapes: Mapping[str, Sequence[Sequence[int]]],
    batch_size: int | None,
) -> list[ResolvedShapes]:
    """Every combination of the sizes and shapes given, each with a number for every dimension of every input.

    Raises:
        UsageError: too many combinations, or one that does not fit the model.
        InputError: an input does not tell how many dimensions it has.
    """
    combinations = [
        (dict(zip(dims, sizes, strict=True)), dict(zip(shapes, given, strict=True)))
        for sizes in itertools.product(*dims.values())
        for given in itertools.product(*shapes.values())
    ]
    if len(combinations) > MOST_SETS:
        raise UsageError(
            f"the sizes and shapes given make {len(combinations)} combinations; {MOST_SETS} are the most",
            code="too_many_shapes",
            hint="give fewer at a time",
        )
    real = real_inputs(model)
    return [resolve_shapes(real, dims=sizes, shapes=given, batch_size=batch_size) for sizes, given in combinations]


def shapes_of_fed(model: Model, fed: Mapping[str, Sequence[int]]) -> ResolvedShapes:
    """What the shapes of given data say about dimensions and batch."""
    inputs = [value for value in real_inputs(model) if value.name in fed]
    return bind_shapes(inputs, {value.name: fed[value.name] for value in inputs}, "the input data")
