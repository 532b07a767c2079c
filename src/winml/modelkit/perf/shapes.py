"""Numbers for the dimensions of a model's inputs: what the user gave, and documented defaults for the rest.

One value per symbolic name over all inputs. A name that is a sum or product of others (``past + seq``,
``2*s0``) is computed from them. Unnamed dimensions (none, ``?``, ``-1``) belong to their input alone.

Defaults, by the words in the name: batch (also ``N``, ``B``) 1; past, cache 0; sample, audio, wave 16000;
sequence, length, token, context, text, time, frame 128; height, width, image (``H``, ``W``) 224; channel
(``C``) 3. Names that say nothing, and unnamed dimensions, by their place: the batch axis 1; in inputs of
rank 4 the channels 3 and the two others 224; in rank 5 and above 16; else 128. Where 128 would be the length of
float inputs of rank 2 only, they are signals rather than tokens: 512 (32 ms of sound at 16 kHz).

The batch axis of an input is the one with a batch name; else axis 0, if it is dynamic or 1; else, in rank 3,
a dynamic axis 1 between fixed ones (the state of a recurrent net). A fixed axis 0 above 1 counts as the batch
in rank 4 and above, or where all inputs agree on it, or where ``--batch-size`` says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from winml.modelkit.errors import InputError, UsageError, WinMLError
from winml.modelkit.onnx.dtypes import dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from winml.modelkit.onnx.model import Dim, ValueInfo

__all__ = [
    "DefaultedDim",
    "ResolvedShapes",
    "bind_shapes",
    "meant",
    "parse_dim",
    "parse_shape",
    "resolve_shapes",
    "words",
]

_BATCH = 1
_LENGTH = 128
_SIGNAL = (512, "samples of a signal")

_RULES: tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...] = (
    # number, beginnings of words, whole names
    (0, ("past", "cache"), ()),
    (_BATCH, ("batch",), ("b", "n", "bs")),
    (16000, ("sample", "audio", "wave"), ()),
    (_LENGTH, ("seq", "len", "token", "context", "text", "time", "frame"), ()),
    (224, ("height", "width", "image", "img"), ("h", "w")),
    (3, ("channel",), ("c",)),
)
_UNNAMED = ("", "?", "-1", "*", "None")
_LARGEST = 2**31 - 1


class DefaultedDim(NamedTuple):
    """A dimension nobody gave a number for.

    Attributes:
        input: the (first) input it belongs to.
        axis: its place in that input's shape.
        name: its symbolic name, or None.
        value: the number chosen.
        rule: why this number, in a few words.
    """

    input: str
    axis: int
    name: str | None
    value: int
    rule: str


@dataclass(slots=True)
class ResolvedShapes:
    """The shape every tensor input gets.

    Attributes:
        shapes: shape by input name.
        dims: number by symbolic name.
        given_dims: those of ``dims`` that were given (``--dim``, ``--batch-size``, ``--shape``), not read off data.
        defaults: the numbers nobody gave.
        batch_size: samples in one run, read off ``shapes``; None where no axis is known to be the batch.
        batch_axis: where it was read, such as ``axis 0 of 'x'``; None with it.
    """

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)
    given_dims: dict[str, int] = field(default_factory=dict)
    defaults: list[DefaultedDim] = field(default_factory=list)
    batch_size: int | None = None
    batch_axis: str | None = None


def parse_dim(text: str) -> tuple[str, int]:
    """``NAME=N`` as (name, number). The last ``=`` separates, as names may hold one; 0 is an empty axis.

    Raises:
        UsageError: code ``bad_dim``.
    """
    name, sign, number = text.rpartition("=")
    if not sign or not name.strip() or not _is_number(number.strip()):
        raise UsageError(
            f"--dim {text!r} is not of the form NAME=N, with N from 0 to {_LARGEST}",
            code="bad_dim",
            hint="such as --dim batch=4",
        )
    return name.strip(), int(number)


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """``INPUT=1,3,224,224`` as (input, shape).

    The last ``=`` separates, as names may hold one; ``INPUT=()`` is a scalar, 0 an empty axis.

    Raises:
        UsageError: code ``bad_shape``.
    """
    name, sign, numbers = text.rpartition("=")
    listed = numbers.strip()
    enclosed = listed[:1] + listed[-1:] in ("()", "[]")
    parts = [part.strip() for part in (listed[1:-1] if enclosed else listed).split(",")]
    scalar = enclosed and parts == [""]
    if not sign or not name.strip() or not (scalar or all(map(_is_number, parts))):
        raise UsageError(
            f"--shape {text!r} is not of the form INPUT=N,N,..., with numbers from 0 to {_LARGEST}",
            code="bad_shape",
            hint="such as --shape x=1,3,224,224",
        )
    return name.strip(), () if scalar else tuple(int(part) for part in parts)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _LARGEST


def resolve_shapes(
    inputs: Sequence[ValueInfo],
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch_size: int | None = None,
) -> ResolvedShapes:
    """A number for every dimension of a model's inputs.

    Args:
        inputs: the real inputs; those that are not tensors have no shape and are passed over.
        dims: number by symbolic name (``--dim``).
        shapes: shape by input name (``--shape``).
        batch_size: number for the batch axes (``--batch-size``).

    Raises:
        UsageError: code ``unknown_input``, ``unknown_dim``, ``shape_conflict``, ``batch_fixed`` or
            ``no_batch``.
        InputError: code ``rank_unknown``: an input does not tell how many dimensions it has.
    """
    resolver = _Resolver(inputs, UsageError, "--shape")
    for name, number in (dims or {}).items():
        resolver.give_dim(name, number)
    for name, shape in (shapes or {}).items():
        resolver.give_shape(name, shape)
    if batch_size is not None:
        resolver.give_batch(batch_size)
    return resolver.resolve()


def bind_shapes(inputs: Sequence[ValueInfo], fed: Mapping[str, Sequence[int]], source: str) -> ResolvedShapes:
    """The shapes of data at hand, checked against a model's inputs: fixed dimensions, and one value per name.

    Args:
        inputs: the inputs that are fed.
        fed: shape of the data, for every one of them.
        source: where the data comes from, for errors.

    Raises:
        InputError: code ``shape_conflict``.
    """
    resolver = _Resolver(inputs, InputError, source)
    for name, shape in fed.items():
        resolver.give_shape(name, shape, given=False)
    return resolver.resolve()


def words(name: str) -> list[str]:
    """The words in a name, in lower case: ``attention_mask`` and ``attentionMask`` are attention, mask."""
    return [word.casefold() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _rule_by_name(name: str | None) -> tuple[int, str] | None:
    """(number, the word that tells it) for a dimension's name, or None if it tells nothing."""
    found = words(name or "")
    for number, beginnings, whole in _RULES:
        for word in found:
            if word.startswith(beginnings) or (word in whole and len(found) == 1):
                return number, word
    return None


def _symbol(dim: Dim) -> str | None:
    return dim if isinstance(dim, str) and dim.strip() not in _UNNAMED else None


def _names_batch(dim: Dim) -> bool:
    rule = _rule_by_name(_symbol(dim))
    return rule is not None and rule[0] == _BATCH


def _batch_axis(shape: Sequence[Dim]) -> int | None:
    """The batch axis by the rule in the module's docstring; a fixed axis 0 above 1 is left to the caller."""
    named = next((axis for axis, dim in enumerate(shape) if _names_batch(dim)), None)
    if named is not None or not shape:
        return named
    first = shape[0]
    if not isinstance(first, int):
        return None if _rule_by_name(_symbol(first)) else 0
    if first == 1:
        return 0 if len(shape) > 1 else None
    fixed = [isinstance(dim, int) for dim in shape]
    if fixed == [True, False, True] and not _rule_by_name(_symbol(shape[1])):
        return 1
    return 0 if len(shape) >= 4 else None


class _Resolver:
    """Collects what is given, refuses contradictions, fills in the rest."""

    def __init__(self, inputs: Sequence[ValueInfo], error: type[WinMLError], source: str) -> None:
        self._all = [value.name for value in inputs]
        self._inputs = {value.name: value for value in inputs if value.kind == "tensor"}
        self._error = error
        self._source = source
        self._named: dict[str, tuple[int, str]] = {}
        self._given: dict[str, int] = {}
        self._at: dict[tuple[str, int], int] = {}
        self._whole: dict[str, tuple[int, ...]] = {}
        self._batch_size: int | None = None
        self._places: dict[str, list[tuple[str, int]]] = {}
        for value in self._inputs.values():
            for axis, dim in enumerate(value.shape or ()):
                if symbol := _symbol(dim):
                    self._places.setdefault(symbol, []).append((value.name, axis))

    def give_dim(self, name: str, number: int) -> None:
        if name not in self._places and not any(name in _terms(symbol) for symbol in self._places):
            known = ", ".join(self._places) or "none"
            raise UsageError(
                f"no input has a dimension named {name!r}.{meant(name, self._places)}",
                code="unknown_dim",
                hint=f"named dimensions: {known}; give others with --shape INPUT=N,N,...",
                details={"dim": name, "known": list(self._places)},
            )
        self._set(name, number, f"--dim {name}={number}")
        self._given[name] = number

    def give_shape(self, name: str, shape: Sequence[int], *, given: bool = True) -> None:
        """Take the shape of one input; ``given`` is false for that of data."""
        value = self._inputs.get(name)
        if value is None:
            listed = name in self._all
            raise self._error(
                f"{self._source}: the input {name!r} is no tensor and has no shape"
                if listed
                else f"{self._source}: the model has no input {name!r}.{meant(name, self._all)}",
                code="unknown_input",
                hint=f"inputs: {', '.join(self._all) or 'none'}",
                details={"input": name},
            )
        text = ",".join(map(str, shape))
        origin = f"{self._source} {name}={text}"
        if value.shape is None:
            self._whole[name] = tuple(shape)
            return
        if len(shape) != len(value.shape):
            raise self._conflict(
                f"{origin} has {len(shape)} dimensions, and the model's {name!r} has {len(value.shape)}",
                name,
            )
        for axis, (dim, number) in enumerate(zip(value.shape, shape, strict=True)):
            symbol = _symbol(dim)
            if symbol is not None:
                self._set(symbol, number, origin)
                if given:
                    self._given[symbol] = number
            elif isinstance(dim, int):
                if dim != number:
                    raise self._conflict(f"{origin}: the model fixes axis {axis} of {name!r} at {dim}", name)
            else:
                self._at[name, axis] = number

    def give_batch(self, number: int) -> None:
        origin = f"--batch-size {number}"
        fixed: dict[str, int] = {}
        dynamic = False
        for name, value in self._inputs.items():
            shape = self._whole.get(name) or value.shape or ()
            axis = _batch_axis(shape)
            if axis is None:
                if shape and isinstance(shape[0], int):
                    fixed[name] = shape[0]
                continue
            dim = shape[axis]
            if isinstance(dim, int):
                fixed[name] = dim
                continue
            dynamic = True
            if symbol := _symbol(dim):
                self._set(symbol, number, origin)
                self._given[symbol] = number
            elif self._at.setdefault((name, axis), number) != number:
                raise self._conflict(
                    f"{origin} contradicts {self._source} {name}=..., which gives axis {axis} {self._at[name, axis]}",
                    name,
                )
        if not dynamic and not fixed:
            raise UsageError(
                f"{origin}: no input has a batch dimension", code="no_batch", hint="leave --batch-size out"
            )
        if not dynamic and number not in fixed.values():
            raise self._batch_fixed(number, next(iter(fixed.values())))
        self._batch_size = number

    def _batch_fixed(self, number: int, held: int | None) -> UsageError:
        return UsageError(
            f"--batch-size {number}: the model's batch is fixed at {held}",
            code="batch_fixed",
            hint="leave --batch-size out, or export the model with a dynamic batch",
            details={"batch_size": number, "fixed": held},
        )

    def resolve(self) -> ResolvedShapes:
        found = ResolvedShapes(given_dims=dict(self._given))
        for name, value in self._inputs.items():
            if value.shape is None and name not in self._whole:
                raise InputError(
                    f"the input {name!r} does not tell how many dimensions it has",
                    code="rank_unknown",
                    hint=f"give its shape: --shape {name}=N,N,...",
                    details={"input": name},
                )
            found.shapes[name] = self._whole.get(name) or tuple(
                self._number(found, value, axis) for axis in range(len(value.shape or ()))
            )
        found.dims = {symbol: number for symbol, (number, _) in self._named.items()}
        self._find_batch(found)
        if self._batch_size is not None and found.batch_size != self._batch_size:
            raise self._batch_fixed(self._batch_size, found.batch_size)
        return found

    def _number(self, found: ResolvedShapes, value: ValueInfo, axis: int) -> int:
        assert value.shape is not None
        dim = value.shape[axis]
        if isinstance(dim, int):
            return dim
        symbol = _symbol(dim)
        if symbol is None:
            if (value.name, axis) not in self._at:
                number, rule = _by_place(value, axis)
                found.defaults.append(DefaultedDim(value.name, axis, None, number, rule))
                self._at[value.name, axis] = number
            return self._at[value.name, axis]
        if symbol not in self._named:
            number, rule = self._default(symbol)
            found.defaults.append(DefaultedDim(value.name, axis, symbol, number, rule))
            self._named[symbol] = number, "default"
        return self._named[symbol][0]

    def _default(self, symbol: str) -> tuple[int, str]:
        """A number for a name that has none yet, and why."""
        if len(_terms(symbol)) > 1:
            return self._computed(symbol), f"computed from {symbol!r}"
        by_name = _rule_by_name(symbol)
        places = [(self._inputs[name], axis) for name, axis in self._places.get(symbol, [])]
        if by_name is None:
            if not places:
                return _BATCH, "part of another dimension only"
            at_batch = (place for place in places if _batch_axis(place[0].shape or ()) == place[1])
            by_name = _by_place(*next(at_batch, places[0]))
        else:
            by_name = by_name[0], f"the name says {by_name[1]!r}"
        if by_name[0] == _LENGTH and places and all(_is_signal(value, axis) for value, axis in places):
            return _SIGNAL
        return by_name

    def _computed(self, symbol: str) -> int:
        total = 0
        for term in symbol.split("+"):
            product = 1
            for factor in (part.strip() for part in term.split("*")):
                if factor.isdecimal():
                    product *= int(factor)
                    continue
                if factor not in self._named:
                    self._named[factor] = self._default(factor)[0], "default"
                product *= self._named[factor][0]
            total += product
        return total

    def _find_batch(self, found: ResolvedShapes) -> None:
        """Named batch axes first, then dynamic ones, then fixed ones, each in the order of the inputs."""
        candidates: list[tuple[int, str, int]] = []
        heads: list[tuple[str, int]] = []
        for name, shape in found.shapes.items():
            declared = self._inputs[name].shape
            axis = _batch_axis(declared if declared is not None else shape)
            if axis is not None:
                dim = (declared or shape)[axis]
                candidates.append((0 if _names_batch(dim) else 2 if isinstance(dim, int) else 1, name, axis))
            elif len(shape) >= 2 and isinstance((declared or shape)[0], int):
                heads.append((name, shape[0]))
        if not candidates and heads:
            agreed = len({number for _, number in heads}) == 1 and len(heads) > 1
            if agreed or self._batch_size in [number for _, number in heads]:
                wanted = heads[0][1] if agreed else self._batch_size
                candidates = [(2, name, 0) for name, number in heads if number == wanted]
        if candidates:
            _, name, axis = min(candidates, key=lambda candidate: candidate[0])
            found.batch_size = found.shapes[name][axis]
            found.batch_axis = f"axis {axis} of {name!r}"

    def _set(self, symbol: str, number: int, origin: str) -> None:
        held = self._named.setdefault(symbol, (number, origin))
        if held[0] != number:
            raise self._conflict(
                f"{origin} contradicts {held[1]}: the dimension {symbol!r} is either {number} or {held[0]}",
                symbol,
            )

    def _conflict(self, reason: str, about: str) -> WinMLError:
        shape = [
            f"{name}=[{', '.join('?' if dim is None else str(dim) for dim in value.shape)}]"
            for name, value in self._inputs.items()
            if value.shape is not None
        ]
        return self._error(
            reason,
            code="shape_conflict",
            hint=f"the model's inputs: {'; '.join(shape)}",
            details={"about": about},
        )


def _terms(symbol: str) -> list[str]:
    """The names and numbers in a sum or product; the name itself if it is none."""
    parts = [part.strip() for part in re.split(r"[+*]", symbol)]
    return parts if all(re.fullmatch(r"[\w.]+", part) for part in parts) else [symbol]


def _is_signal(value: ValueInfo, axis: int) -> bool:
    return axis == 1 and len(value.shape or ()) == 2 and dtype(value.dtype).name.startswith("float")


def _by_place(value: ValueInfo, axis: int) -> tuple[int, str]:
    shape = value.shape or ()
    rank = len(shape)
    if _batch_axis(shape) == axis:
        return _BATCH, "it stands where the batch does"
    if rank == 4:
        last = shape[3]
        channels = 3 if isinstance(last, int) and last <= 4 and not isinstance(shape[1], int) else 1
        return (3, "channels of an image") if axis == channels else (224, "height or width of an image")
    if rank >= 5:
        return 16, f"one of {rank} dimensions"
    return _SIGNAL if _is_signal(value, axis) else (_LENGTH, "neither its name nor its place says more")


def meant(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` with the nearest known name, whatever its case; empty if none is near."""
    import difflib

    folded: dict[str, str] = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    return f" Did you mean {folded[close[0]]!r}?" if close else ""
