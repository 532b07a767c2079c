"""``ModelProto`` and what stands in it, decoded from the wire format. Weights are passed over, never copied.

Field numbers: onnx.proto of onnx 1.23 (IR version 14). A field with another wire type than its own is unknown
to protobuf and passed over, and so it is here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from winml.modelkit.onnx import wire
from winml.modelkit.onnx.model import (
    Attribute,
    Dim,
    ExternalData,
    Function,
    Graph,
    Lazy,
    Model,
    Node,
    Skipped,
    SparseTensor,
    Tensor,
    ValueInfo,
    ValueType,
)
from winml.modelkit.onnx.wire import BYTES, VARINT, Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["decode_model"]

_SMALL = 1 << 10  # data of constants up to this size is kept
_LARGE = 1 << 16  # attribute values over this size are not
_LAZY = 1 << 12  # messages up to this size wait undecoded
_MAX_DEPTH = 32  # graphs in graphs; protobuf itself stops at 100 messages, which is 33 graphs

_KINDS = {
    1: "float",
    2: "int",
    3: "string",
    4: "tensor",
    5: "graph",
    6: "floats",
    7: "ints",
    8: "strings",
    9: "tensors",
    10: "graphs",
    11: "sparse_tensor",
    12: "sparse_tensors",
    13: "type",
    14: "types",
}
"""``AttributeProto.AttributeType``."""

_VALUE_FIELDS = {
    2: "float",
    3: "int",
    4: "string",
    5: "tensor",
    6: "graph",
    7: "floats",
    8: "ints",
    9: "strings",
    10: "tensors",
    11: "graphs",
    14: "type",
    15: "types",
    22: "sparse_tensor",
    23: "sparse_tensors",
}
"""The field of ``AttributeProto`` that carries each kind of value."""

_TYPE_FIELDS = {1: "tensor", 4: "sequence", 5: "map", 7: "opaque", 8: "sparse_tensor", 9: "optional"}
_DATA_FIELDS = (4, 5, 6, 7, 9, 10, 11)


def decode_model(buffer: Buffer, size: int, file: str = "") -> Model:
    """The model in ``buffer``.

    Args:
        buffer: a serialized ``ModelProto``.
        size: its length in bytes.
        file: what to call it in errors.

    Raises:
        WireError: not the protobuf wire format; ``CutOff`` where it ends inside a field.
    """
    model = Model(file, size, _empty_graph(file, 0))
    for number, kind, a, b in wire.fields(buffer, 0, size):
        if kind == VARINT:
            if number == 1:
                model.ir_version = wire.signed(a)
            elif number == 5:
                model.model_version = wire.signed(a)
        elif kind != BYTES:
            continue
        elif number == 7:
            model.has_graph = True
            _fill_graph(model.graph, buffer, a, b, file, 0)
        elif number == 8:
            model.opset_imports.append(_opset(buffer, a, b))
        elif number == 2:
            model.producer_name = wire.text(buffer, a, b)
        elif number == 3:
            model.producer_version = wire.text(buffer, a, b)
        elif number == 4:
            model.domain = wire.text(buffer, a, b)
        elif number == 14:
            key, value = _string_pair(buffer, a, b)
            model.metadata[key] = value
        elif number == 20:
            model.has_training_info = True
        elif number == 25:
            model.functions.append(_function(buffer, a, b, file))
    return model


def _opset(buffer: Buffer, start: int, stop: int) -> tuple[str, int]:
    domain, version = "", 0
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if number == 1 and kind == BYTES:
            domain = wire.text(buffer, a, b)
        elif number == 2 and kind == VARINT:
            version = wire.signed(a)
    return domain, version


def _string_pair(buffer: Buffer, start: int, stop: int) -> tuple[str, str]:
    key = value = ""
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if kind == BYTES and number == 1:
            key = wire.text(buffer, a, b)
        elif kind == BYTES and number == 2:
            value = wire.text(buffer, a, b)
    return key, value


def _empty_graph(file: str, depth: int) -> Graph:
    return Graph(
        Lazy(partial(_node_of, file, depth), "a node", file),
        Lazy(_value_info_of, "a value's type", file),
    )


def _fill_graph(graph: Graph, buffer: Buffer, start: int, stop: int, file: str, depth: int) -> None:
    # Fills a graph rather than making one: a message that is given twice is merged.
    if depth > _MAX_DEPTH:
        raise wire.WireError(f"graphs nested more than {_MAX_DEPTH} deep")
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if kind != BYTES:
            continue
        if number == 1:
            small = b - a <= _LAZY
            graph.lazy_nodes.append(wire.part(buffer, a, b) if small else _node(buffer, a, b, file, depth))
        elif number == 5:
            graph.initializers.append(_tensor(*wire.local(buffer, a, b)))
        elif number == 13:
            small = b - a <= _LAZY
            graph.lazy_value_infos.append(wire.part(buffer, a, b) if small else _value_info(buffer, a, b))
        elif number == 11:
            graph.inputs.append(_value_info(*wire.local(buffer, a, b)))
        elif number == 12:
            graph.outputs.append(_value_info(*wire.local(buffer, a, b)))
        elif number == 15:
            graph.sparse_initializers.append(_sparse_tensor(buffer, a, b))
        elif number == 2:
            graph.name = wire.text(buffer, a, b)


def _function(buffer: Buffer, start: int, stop: int, file: str) -> Function:
    function = Function(Lazy(partial(_node_of, file, 0), "a node", file))
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if kind != BYTES:
            continue
        if number == 1:
            function.name = wire.text(buffer, a, b)
        elif number == 4:
            function.inputs.append(wire.text(buffer, a, b))
        elif number == 5:
            function.outputs.append(wire.text(buffer, a, b))
        elif number == 7:
            small = b - a <= _LAZY
            function.lazy_nodes.append(wire.part(buffer, a, b) if small else _node(buffer, a, b, file, 0))
        elif number == 9:
            function.opset_imports.append(_opset(buffer, a, b))
        elif number == 10:
            function.domain = wire.text(buffer, a, b)
        elif number == 13:
            function.overload = wire.text(buffer, a, b)
    return function


def _node_of(file: str, depth: int, raw: bytes) -> Node:
    return _node(raw, 0, len(raw), file, depth)


def _node(buffer: Buffer, start: int, stop: int, file: str, depth: int) -> Node:
    attributes: Lazy[Attribute] = Lazy(partial(_attribute_of, file, depth), "an attribute", file)
    node = Node(attributes)
    inputs: list[str] = []
    outputs: list[str] = []
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if kind != BYTES:
            continue
        if number == 1:
            inputs.append(wire.text(buffer, a, b))
        elif number == 2:
            outputs.append(wire.text(buffer, a, b))
        elif number == 5:
            small = b - a <= _LAZY
            attributes.append(wire.part(buffer, a, b) if small else _attribute(buffer, a, b, file, depth))
        elif number == 3:
            node.name = wire.text(buffer, a, b)
        elif number == 4:
            node.op_type = wire.text(buffer, a, b)
        elif number == 7:
            node.domain = wire.text(buffer, a, b)
        elif number == 8:
            node.overload = wire.text(buffer, a, b)
    node.inputs = tuple(inputs)
    node.outputs = tuple(outputs)
    return node


def _attribute_of(file: str, depth: int, raw: bytes) -> Attribute:
    return _attribute(raw, 0, len(raw), file, depth)


def _attribute(buffer: Buffer, start: int, stop: int, file: str, depth: int) -> Attribute:
    name = reference = ""
    declared = 0
    values: dict[str, list[Any]] = {}
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if number == 1 and kind == BYTES:
            name = wire.text(buffer, a, b)
        elif number == 20 and kind == VARINT:
            declared = a
        elif number == 21 and kind == BYTES:
            reference = wire.text(buffer, a, b)
        elif number in _VALUE_FIELDS:
            what = _VALUE_FIELDS[number]
            values.setdefault(what, []).extend(_values(what, buffer, kind, a, b, file, depth))
    # IR version 1 had no type field: there the value that is present tells the kind.
    what = _KINDS.get(declared) or next(iter(values), "undefined")
    found = values.get(what, [])
    if what.endswith("s"):
        skipped = sum(item.nbytes for item in found if isinstance(item, Skipped))
        return Attribute(name, what, Skipped(skipped) if skipped else tuple(found), reference)
    # proto3 writers leave out values that are zero or empty.
    missing: Any = None if reference else {"int": 0, "float": 0.0, "string": b""}.get(what)
    return Attribute(name, what, found[-1] if found else missing, reference)


def _values(what: str, buffer: Buffer, kind: int, a: int, b: int, file: str, depth: int) -> Sequence[Any]:
    single = what.removesuffix("s")
    if kind == BYTES and b - a > _LARGE and single in ("int", "float", "string"):
        return [Skipped(b - a)]
    if single == "int":
        return wire.integers(buffer, kind, a, b)
    if single == "float":
        return wire.floats(buffer, kind, a, b)
    if kind != BYTES:
        return []
    if single == "string":
        return [wire.part(buffer, a, b)]
    if single == "tensor":
        return [_tensor(buffer, a, b)]
    if single == "sparse_tensor":
        return [_sparse_tensor(buffer, a, b)]
    if single == "graph":
        graph = _empty_graph(file, depth + 1)
        _fill_graph(graph, buffer, a, b, file, depth + 1)
        return [graph]
    return [_value_type(buffer, a, b, 0)]


def _tensor(buffer: Buffer, start: int, stop: int) -> Tensor:
    tensor = Tensor()
    dims: list[int] = []
    external: list[tuple[str, str]] = []
    is_external = False
    stored: list[tuple[int, int, int, int]] = []
    entries = 0
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if number == 1:
            dims += wire.integers(buffer, kind, a, b)
        elif number == 2 and kind == VARINT:
            tensor.dtype = wire.signed(a)
        elif number == 8 and kind == BYTES:
            tensor.name = wire.text(buffer, a, b)
        elif number in _DATA_FIELDS:
            entries += 1
            tensor.inline_bytes += 1 if kind == VARINT else b - a
            if entries <= _SMALL:
                stored.append((number, kind, a, b))
        elif number == 13 and kind == BYTES:
            external.append(_string_pair(buffer, a, b))
        elif number == 14 and kind == VARINT:
            is_external = a == 1
    tensor.dims = tuple(dims)
    if is_external:
        tensor.external = _external(external)
    elif tensor.inline_bytes <= _SMALL and entries <= _SMALL:
        tensor.small = tuple((number, wire.packed(buffer, kind, a, b)) for number, kind, a, b in stored)
    return tensor


def _external(entries: list[tuple[str, str]]) -> ExternalData:
    found = ExternalData()
    malformed = []
    for key, value in entries:
        if key == "location":
            found.location = value
        elif key in ("offset", "length"):
            if value.isascii() and value.removeprefix("-").isdigit() and len(value) < 20:
                setattr(found, key, int(value))
            else:
                malformed.append(f"{key}={value}")
    found.malformed = tuple(malformed)
    return found


def _sparse_tensor(buffer: Buffer, start: int, stop: int) -> SparseTensor:
    sparse = SparseTensor()
    dims: list[int] = []
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if number == 1 and kind == BYTES:
            sparse.values = _tensor(buffer, a, b)
        elif number == 2 and kind == BYTES:
            sparse.indices = _tensor(buffer, a, b)
        elif number == 3:
            dims += wire.integers(buffer, kind, a, b)
    sparse.dims = tuple(dims)
    return sparse


def _value_info_of(raw: bytes) -> ValueInfo:
    return _value_info(raw, 0, len(raw))


def _value_info(buffer: Buffer, start: int, stop: int) -> ValueInfo:
    name, kind_of = "", ValueType()
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if number == 1 and kind == BYTES:
            name = wire.text(buffer, a, b)
        elif number == 2 and kind == BYTES:
            kind_of = _value_type(buffer, a, b, 0)
    return ValueInfo(name, kind_of)


def _value_type(buffer: Buffer, start: int, stop: int, depth: int) -> ValueType:
    if depth > _MAX_DEPTH:
        raise wire.WireError(f"types nested more than {_MAX_DEPTH} deep")
    found = ValueType()
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if kind == BYTES and number in _TYPE_FIELDS:
            found = _one_type(_TYPE_FIELDS[number], buffer, a, b, depth)
    return found


def _one_type(name: str, buffer: Buffer, start: int, stop: int, depth: int) -> ValueType:
    dtype = 0
    shape: tuple[Dim, ...] | None = None
    element: ValueType | None = None
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if name in ("tensor", "sparse_tensor"):
            if number == 1 and kind == VARINT:
                dtype = wire.signed(a)
            elif number == 2 and kind == BYTES:
                shape = _shape(buffer, a, b)
        elif name == "map" and number == 1 and kind == VARINT:
            dtype = wire.signed(a)
        elif kind == BYTES and number == (2 if name == "map" else 1) and name != "opaque":
            element = _value_type(buffer, a, b, depth + 1)
    return ValueType(name, dtype, shape, element)


def _shape(buffer: Buffer, start: int, stop: int) -> tuple[Dim, ...]:
    dims: list[Dim] = []
    for number, kind, a, b in wire.fields(buffer, start, stop):
        if number != 1 or kind != BYTES:
            continue
        dim: Dim = None
        for inner, inner_kind, low, high in wire.fields(buffer, a, b):
            if inner == 1 and inner_kind == VARINT:
                # To ONNX Runtime, and to the tools that write it, a negative dimension is an unknown one.
                dim = wire.signed(low) if wire.signed(low) >= 0 else None
            elif inner == 2 and inner_kind == BYTES:
                dim = wire.text(buffer, low, high) or None
        dims.append(dim)
    return tuple(dims)
