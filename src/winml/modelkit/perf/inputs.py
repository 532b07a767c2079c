"""Data to feed a model with: made so that the model can use it, or read from an npz file and checked key by key.

Imports numpy; for the worker child only.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from winml.modelkit.errors import InputError, UsageError
from winml.modelkit.onnx.dtypes import DType, dtype
from winml.modelkit.onnx.facts import overridable_inputs, real_inputs
from winml.modelkit.onnx.files import shown
from winml.modelkit.onnx.uses import Use, input_uses
from winml.modelkit.perf.feedable import refuse_unfeedable
from winml.modelkit.perf.shapes import bind_shapes, meant, words

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from winml.modelkit.onnx.model import Model, ValueInfo

__all__ = ["GeneratedInputs", "load_inputs", "make_inputs"]

# Bit patterns of 1.0; those below it are the numbers from 0 up to it.
_FLOAT8_ONE = {17: 0x38, 18: 0x40, 19: 0x3C, 20: 0x40}


class GeneratedInputs:
    """What is fed.

    Attributes:
        arrays: array by input name, C-contiguous, in native byte order. Strings are arrays of ``object``; bfloat16
            and float8 are carried as uint16 and uint8 bits (see ``onnx_types``).
        descriptions: plain data by input name: ``dtype`` (of the model), ``shape``, ``origin`` (how it was made).
        onnx_types: for inputs whose array carries bits, the ONNX element type to give to
            ``OrtValue.ortvalue_from_numpy_with_onnx_type``; ONNX Runtime refuses the bare array.
        warnings: sentences about data that is fed as it is and may not be what the model wants.
    """

    __slots__ = ("arrays", "descriptions", "onnx_types", "warnings")

    def __init__(self) -> None:
        self.arrays: dict[str, Any] = {}
        self.descriptions: dict[str, dict[str, Any]] = {}
        self.onnx_types: dict[str, int] = {}
        self.warnings: list[str] = []

    def add(self, value: ValueInfo, array: Any, origin: str) -> None:
        """Take one input's data."""
        kind = dtype(value.dtype)
        self.arrays[value.name] = array
        self.descriptions[value.name] = {"dtype": kind.name, "shape": list(array.shape), "origin": origin}
        if kind.bit_carrier:
            self.onnx_types[value.name] = kind.code


def make_inputs(
    model: Model,
    shapes: Mapping[str, Sequence[int]],
    *,
    seed: int = 0,
    ranges: Mapping[str, tuple[float, float]] | None = None,
) -> GeneratedInputs:
    """Data for every real input of a model; the same seed gives the same data.

    Floats are uniform in [0, 1). Integers follow their use in the graph: inside the table they index, 1 for masks,
    a constant they are compared with, the whole length for lengths, 0, 1, 2, ... for positions; 8 and 16 bits wide
    ones otherwise take their whole range, wider ones 1 to 9. Bools are random, true for masks.

    Args:
        model: the model.
        shapes: shape by input name, for every tensor input.
        seed: seed of the generator.
        ranges: (lowest, highest) by input name, in place of these rules.

    Raises:
        InputError: code ``input_kind_unsupported``, ``input_dtype_unsupported`` or ``input_too_large``.
        UsageError: code ``unknown_input`` or ``bad_range``, for ``ranges``.
        ModelError: the model's graph is damaged.
    """
    inputs = real_inputs(model)
    ranges = ranges or {}
    for name in ranges:
        if name not in {value.name for value in inputs}:
            raise UsageError(f"a range is given for {name!r}, which is no input", code="unknown_input")
    for value in inputs:
        refuse_unfeedable(value)
    followed = [value.name for value in inputs if _is_followed(value) and value.name not in ranges]
    uses = input_uses(model, followed, shapes) if followed else {}
    maker = _Maker(inputs, shapes, seed)
    made = GeneratedInputs()
    for value in inputs:
        shape = tuple(shapes[value.name])
        kind = dtype(value.dtype)
        item = np.dtype(kind.bit_carrier or kind.numpy).itemsize
        try:
            # Python's product cannot overflow, NumPy's can.
            if _product(shape) * item > sys.maxsize:
                raise MemoryError
            if value.name in ranges:
                array, origin = maker.ranged(value, shape, ranges[value.name])
            else:
                array, origin = maker.make(value, shape, uses.get(value.name, []))
        except MemoryError:
            raise InputError(
                f"the input {value.name!r} of shape {list(shape)} takes {_product(shape) * item} bytes, "
                "more than there are",
                code="input_too_large",
                hint="give a smaller shape with --shape or --dim",
                details={"input": value.name, "shape": list(shape)},
            ) from None
        made.add(value, np.ascontiguousarray(array).reshape(shape), origin)
    return made


def _product(shape: Sequence[int]) -> int:
    count = 1
    for dim in shape:
        count *= dim
    return count


def _is_followed(value: ValueInfo) -> bool:
    kind = dtype(value.dtype)
    return kind.is_integer or kind.name == "bool"


class _Maker:
    """Makes the data of one model's inputs, one after the other, from one generator."""

    def __init__(self, inputs: Sequence[ValueInfo], shapes: Mapping[str, Sequence[int]], seed: int) -> None:
        self._inputs = inputs
        self._shapes = shapes
        self._random = np.random.default_rng(seed)

    def ranged(self, value: ValueInfo, shape: tuple[int, ...], bounds: tuple[float, float]) -> tuple[Any, str]:
        low, high = bounds
        kind = dtype(value.dtype)
        if not np.isfinite([low, high]).all() or low > high:
            raise _bad_range(value.name, low, high, kind)
        if kind.is_integer and kind.numpy:
            info = np.iinfo(kind.numpy)
            whole = low == int(low) and high == int(high)
            if not whole or not info.min <= low or not high <= info.max:
                raise _bad_range(value.name, low, high, kind)
            array = self._random.integers(int(low), int(high), shape, kind.numpy, endpoint=True)
            return array, f"integers {int(low)} to {int(high)}, as asked"
        if kind.name.startswith("float") and kind.numpy:
            return self._random.uniform(low, high, shape).astype(kind.numpy), f"uniform {low:g} to {high:g}, as asked"
        raise _bad_range(value.name, low, high, kind)

    def make(self, value: ValueInfo, shape: tuple[int, ...], uses: list[Use]) -> tuple[Any, str]:
        kind = dtype(value.dtype)
        if kind.name == "string":
            texts = [f"text {index}" for index in range(_product(shape))]
            return np.array(texts, dtype=object), "texts: 'text 0', 'text 1', ..."
        if kind.name == "bool":
            return self._bools(value, shape, uses)
        if kind.is_integer:
            return self._integers(value, shape, kind, uses)
        if kind.code in _FLOAT8_ONE:
            bits = self._random.integers(0, _FLOAT8_ONE[kind.code], shape, np.uint8)
            return bits, "random bit patterns of numbers in [0, 1)"
        if kind.name == "float64":
            return self._random.random(shape), "uniform [0, 1)"
        singles = self._random.random(shape, np.float32)
        if kind.name == "bfloat16":
            return _bfloat16_bits(singles), "uniform [0, 1), as bfloat16 bits"
        return singles.astype(kind.numpy or "float32", copy=False), "uniform [0, 1)"

    def _bools(self, value: ValueInfo, shape: tuple[int, ...], uses: list[Use]) -> tuple[Any, str]:
        named = words(value.name)
        if "mask" in named and "padding" in named:
            return np.zeros(shape, bool), "padding mask: all false"
        if "mask" in named or any(use.kind == "mask" for use in uses):
            return np.ones(shape, bool), "mask: all true"
        return self._random.integers(0, 2, shape).astype(bool), "random true and false"

    def _integers(self, value: ValueInfo, shape: tuple[int, ...], kind: DType, uses: list[Use]) -> tuple[Any, str]:
        numpy = kind.numpy or kind.name
        named = words(value.name)
        limit, why = _index_limit(uses)
        if "position" in named or "positions" in named:
            last = np.arange(shape[-1] if shape else 1) % (limit or sys.maxsize)
            array = np.broadcast_to(last.astype(numpy), shape) if shape else last.astype(numpy)
            return array, "positions: 0, 1, 2, ... along the last axis"
        if why:
            if limit is None:
                return np.zeros(shape, numpy), f"zeros: {why}"
            top = min(limit, int(np.iinfo(numpy).max) + 1)
            return self._random.integers(0, max(top, 1), shape, numpy), f"integers below {limit}: {why}"
        if "mask" in named or any(use.kind == "mask" for use in uses):
            return np.ones(shape, numpy), "mask: ones"
        if "segment" in named or {"token", "type"} <= set(named):
            return np.zeros(shape, numpy), "segment or token types: zeros"
        return self._arguments(value, shape, numpy, uses) or self._plain(shape, numpy, uses)

    def _arguments(
        self, value: ValueInfo, shape: tuple[int, ...], numpy: str, uses: list[Use]
    ) -> tuple[Any, str] | None:
        compared = next((use for use in uses if use.kind == "compared"), None)
        if compared is not None and _product(shape) == 1:
            number = compared.values[0]
            return np.full(shape, number, numpy), f"{number}: the model compares it with {number}"
        for use in uses:
            if use.kind in ("ones", "zeros"):
                number = 1 if use.kind == "ones" else 0
                return np.full(shape, number, numpy), f"{use.kind}: an argument of {use.operator}"
            if use.kind == "reshape":
                array = np.ones(shape, numpy)
                array.reshape(-1)[:1] = -1
                return array, "-1, then ones: the shape argument of Reshape"
        length = self._length(value, uses)
        if length is not None:
            number, why = length
            return np.full(shape, min(number, int(np.iinfo(numpy).max)), numpy), f"length {number}: {why}"
        if words(value.name) in (["sr"], ["sample", "rate"], ["sampling", "rate"]) and _product(shape) == 1:
            return np.full(shape, 16000, numpy), "16000: a sample rate by its name"
        return None

    def _length(self, value: ValueInfo, uses: list[Use]) -> tuple[int, str] | None:
        for use in uses:
            if use.kind == "length":
                return use.limit or 1, f"the whole axis in {use.operator}" if use.limit else "the least there is"
        if not any(word in ("len", "lens", "length", "lengths", "lod") for word in words(value.name)):
            return None
        for other in self._inputs:
            shape = self._shapes[other.name]
            if other.name != value.name and len(shape) >= 2:
                return shape[1], f"the whole of axis 1 of {other.name!r}"
        return None

    def _plain(self, shape: tuple[int, ...], numpy: str, uses: list[Use]) -> tuple[Any, str]:
        info = np.iinfo(numpy)
        if info.bits <= 16:
            array = self._random.integers(info.min, info.max, shape, numpy, endpoint=True)
            return array, f"integers {info.min} to {info.max}: the whole range of {numpy}"
        if any(use.kind == "quantized" for use in uses):
            return self._random.integers(0, 256, shape, numpy), "integers 0 to 255: quantized values"
        return self._random.integers(1, 10, shape, numpy), "integers 1 to 9: nothing in the graph bounds them"


def _bad_range(name: str, low: float, high: float, kind: DType) -> UsageError:
    return UsageError(
        f"the range {low:g} to {high:g} does not fit the input {name!r} of type {kind.name}", code="bad_range"
    )


def _index_limit(uses: Sequence[Use]) -> tuple[int | None, str]:
    """(the smallest axis that is indexed, which it is); no text if nothing is indexed."""
    indexes = [use for use in uses if use.kind == "index"]
    known = [use for use in indexes if use.limit is not None]
    if known:
        use = min(known, key=lambda one: one.limit or 0)
        return use.limit, f"they index {use.table!r} ({use.operator})"
    if indexes:
        return None, f"they index {indexes[0].table!r} ({indexes[0].operator}), whose length is not known"
    return None, ""


def _bfloat16_bits(singles: Any) -> Any:
    """float32 numbers as the bits of the nearest bfloat16, ties to even."""
    bits = np.atleast_1d(singles).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype(np.uint16).reshape(np.shape(singles))


def load_inputs(path: str | os.PathLike[str], model: Model) -> GeneratedInputs:
    """The data of an npz file, one array per input name, checked against the model.

    A leading axis of samples has no meaning here: the file holds one set of inputs. Integers outside the table they
    index are fed as they are, with a warning. Inputs that override an initializer (IR version 4 and above) may be
    given too.

    Args:
        path: the file. bfloat16 and float8 inputs are given as uint16 and uint8 bits.
        model: the model.

    Raises:
        InputError: code ``input_file_not_found``, ``input_file_invalid``, ``input_missing``, ``input_unknown``,
            ``input_dtype``, ``shape_conflict``, ``input_kind_unsupported`` or ``input_dtype_unsupported``.
        ModelError: the model's graph is damaged.
    """
    name = shown(path)
    wanted = {value.name: value for value in real_inputs(model)}
    optional = {value.name: value for value in overridable_inputs(model)}
    for value in wanted.values():
        refuse_unfeedable(value)
    arrays = _read_npz(Path(path), name)
    _check_keys(name, list(arrays), wanted, optional, model)
    given = {**wanted, **{key: value for key, value in optional.items() if key in arrays}}
    for value in given.values():
        refuse_unfeedable(value)
    made = GeneratedInputs()
    wrong: list[str] = []
    for key, value in given.items():
        try:
            made.add(value, _fitting(arrays[key], value), f"{name}, {key!r}")
        except _WrongType as error:
            wrong.append(f"{key!r} is {error.has}, and the model wants {error.wants}")
    if wrong:
        raise InputError(
            f"{name}: {'; '.join(wrong)}",
            code="input_dtype",
            hint="save it with the wanted type: array.astype(...)",
            details={"file": name},
        )
    shapes = {key: tuple(array.shape) for key, array in made.arrays.items()}
    bind_shapes(list(given.values()), shapes, name)
    _warn_of_indexes(made, model, [value for value in given.values() if dtype(value.dtype).is_integer], shapes)
    return made


def _invalid(name: str, why: str, hint: str = "write one with numpy.savez(FILE, INPUT=array, ...)") -> InputError:
    return InputError(f"{name}: {why}", code="input_file_invalid", hint=hint, details={"file": name})


def _read_npz(path: Path, name: str) -> dict[str, Any]:
    import struct
    import zipfile
    import zlib

    # What zipfile, zlib and NumPy raise for damaged archives and array headers.
    unreadable = (
        *(OSError, EOFError, KeyError, NotImplementedError, RuntimeError, ValueError, SyntaxError),
        *(struct.error, zipfile.BadZipFile, zlib.error),
    )
    try:
        # A pipe would be waited for, a device read for ever.
        if path.exists() and not path.is_file() and not path.is_dir():
            raise _invalid(name, "it is not a regular file")
        # Opened here, for NumPy leaves its own file open where it fails.
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise _invalid(name, "it is a single array (.npy), which does not say which input it is for")
            doubled = sorted({key for key in loaded.files if loaded.files.count(key) > 1})
            if doubled:
                raise _invalid(name, f"it holds more than one array for {', '.join(map(repr, doubled))}")
            arrays: dict[str, Any] = {}
            for key in loaded.files:
                try:
                    arrays[key] = loaded[key]
                except ValueError as error:
                    if "allow_pickle" not in str(error):
                        raise
                    why = f"{key!r} is an array of Python objects, which is not read"
                    raise _invalid(name, why, "save it with a number type, or texts as numpy.str_") from None
                if not isinstance(arrays[key], np.ndarray):
                    raise _invalid(name, f"{key!r} is not an array")
            return arrays
    except FileNotFoundError:
        raise InputError(
            f"{name}: there is no such file", code="input_file_not_found", hint="check the path of --input-data"
        ) from None
    except MemoryError:
        raise _invalid(name, "its arrays take more memory than there is") from None
    except IsADirectoryError:
        raise _invalid(name, "it is a folder") from None
    except unreadable as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it is not an npz file"
        raise _invalid(name, why) from error


def _check_keys(
    name: str,
    keys: list[str],
    wanted: Mapping[str, ValueInfo],
    optional: Mapping[str, ValueInfo],
    model: Model,
) -> None:
    missing = [key for key in wanted if key not in keys]
    unknown = [key for key in keys if key not in wanted and key not in optional]
    if not missing and not unknown:
        return
    constant = {tensor.name for tensor in model.graph.initializers}
    reasons = [f"it has no array for the input {key!r}" for key in missing]
    for key in unknown:
        what = "a constant of the model, not an input" if key in constant else "no input of the model"
        near = meant(key, missing or wanted).strip().replace("Did", "did", 1)
        reasons.append(f"{key!r} is {what}{f' ({near})' if near else ''}")
    raise InputError(
        f"{name}: {'; '.join(reasons)}",
        code="input_missing" if missing else "input_unknown",
        hint=f"inputs: {', '.join(wanted) or 'none'}",
        details={"file": name, "missing": missing, "unknown": unknown},
    )


class _WrongType(Exception):
    def __init__(self, has: str, wants: str) -> None:
        super().__init__(has, wants)
        self.has = has
        self.wants = wants


def _fitting(array: Any, value: ValueInfo) -> Any:
    """The array as ONNX Runtime takes it, or ``_WrongType``; values are never converted."""
    kind = dtype(value.dtype)
    if kind.name == "string":
        if array.dtype.kind != "U":
            raise _WrongType(str(array.dtype), "text (numpy.str_)")
        return array.astype(object)
    carrier = np.dtype(kind.bit_carrier or kind.numpy)
    if kind.bit_carrier and array.dtype.kind == "V" and array.dtype.itemsize == carrier.itemsize:
        # What numpy.savez makes of the bfloat16 and float8 of ml_dtypes.
        return np.ascontiguousarray(array).view(carrier).reshape(array.shape)
    if array.dtype.newbyteorder("=") != carrier:
        wants = f"{kind.name}, as {carrier} bits" if kind.bit_carrier else kind.name
        raise _WrongType(str(array.dtype), wants)
    return np.ascontiguousarray(array, carrier).reshape(array.shape)


def _warn_of_indexes(
    made: GeneratedInputs, model: Model, inputs: list[ValueInfo], shapes: Mapping[str, Sequence[int]]
) -> None:
    if not inputs:
        return
    for key, uses in input_uses(model, [value.name for value in inputs], shapes).items():
        array = made.arrays[key]
        limit, _ = _index_limit(uses)
        if limit is None or not array.size:
            continue
        low, high = int(array.min()), int(array.max())
        if low < -limit or high >= limit:
            table = next(use for use in uses if use.kind == "index" and use.limit == limit)
            made.warnings.append(
                f"{key!r} holds {low} to {high} and indexes {table.table!r} ({table.operator}) of {limit} places"
            )
