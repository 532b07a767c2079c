"""What stands in an ONNX model, as light objects, without its weights.

Nodes, types of values between nodes, and attributes are decoded when they are first asked for; damage inside
them shows up then, as ``ModelError`` ``model_not_onnx``. Text that is not UTF-8 is given with ``\\xNN`` in
place of the bad bytes. ``files.read_model`` makes these.

Plain classes and named tuples rather than dataclasses: those cost several times as much at import, and this module
is on the way of every command's start.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from winml.modelkit.errors import ModelError
from winml.modelkit.onnx import wire
from winml.modelkit.onnx.dtypes import dtype, nbytes_of

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Attribute",
    "Dim",
    "ExternalData",
    "Function",
    "Graph",
    "Lazy",
    "Model",
    "Node",
    "Skipped",
    "SparseTensor",
    "Tensor",
    "ValueInfo",
    "ValueType",
]

T = TypeVar("T")

Dim = int | str | None
"""One dimension: a number, a symbolic name, or None for unknown."""

# struct codes of the types whose numbers can be read out of small constants.
_FORMATS = {
    1: "f",
    2: "B",
    3: "b",
    4: "H",
    5: "h",
    6: "i",
    7: "q",
    9: "?",
    10: "e",
    11: "d",
    12: "I",
    13: "Q",
}


class Lazy(Generic[T]):
    """A list whose items are decoded from their bytes when the list is first asked for.

    Args:
        decode: makes an item of its bytes.
        what: what an item is, for the error.
        file: where it stands, for the error.
    """

    __slots__ = ("_decode", "_file", "_items", "_raw", "_what")

    def __init__(self, decode: Callable[[bytes], T], what: str, file: str) -> None:
        self._items: list[T] = []
        self._raw: list[bytes | T] = []
        self._decode = decode
        self._what = what
        self._file = file

    def append(self, item: bytes | T) -> None:
        """Add an item, decoded or not."""
        self._raw.append(item)

    def get(self) -> list[T]:
        """All items, in order.

        Raises:
            ModelError: the bytes of one are damaged.
        """
        if self._raw:
            decode = self._decode
            try:
                fresh = [decode(item) if isinstance(item, bytes) else item for item in self._raw]
            except wire.WireError as error:
                named = f"{self._file}: " if self._file else ""
                raise ModelError(
                    f"{named}not a valid ONNX protobuf: {self._what} is damaged ({error})",
                    code="model_not_onnx",
                    hint="fetch or export the model again",
                    details={"path": self._file},
                ) from error
            self._items += fresh
            self._raw = []
        return self._items


class ExternalData:
    """Where a tensor's bytes stand outside the model file, as the file says it (unchecked).

    Attributes:
        location: path relative to the model's folder; None if the entry is missing.
        offset: first byte, in bytes; None if not given (then 0).
        length: bytes; None if not given (then what shape and type need).
        malformed: entries whose number could not be read, as ``key=text``.
    """

    __slots__ = ("length", "location", "malformed", "offset")

    def __init__(self) -> None:
        self.location: str | None = None
        self.offset: int | None = None
        self.length: int | None = None
        self.malformed: tuple[str, ...] = ()


class Tensor:
    """A constant tensor without its data.

    Attributes:
        name: its name; mostly empty in attributes.
        dtype: number of its element type (see ``dtypes``).
        dims: its shape.
        inline_bytes: bytes of data inside the model file.
        external: where the data stands outside, or None.
        small: the stored data fields (field number, bytes), kept only up to 1 KiB in total.
    """

    __slots__ = ("dims", "dtype", "external", "inline_bytes", "name", "small")

    def __init__(self, name: str = "", dtype: int = 0, dims: tuple[int, ...] = ()) -> None:
        self.name = name
        self.dtype = dtype
        self.dims = dims
        self.inline_bytes = 0
        self.external: ExternalData | None = None
        self.small: tuple[tuple[int, bytes], ...] = ()

    @property
    def elements(self) -> int:
        """The product of its dimensions (1 for a scalar); 0 where a dimension is negative."""
        count = 1
        for dim in self.dims:
            count *= max(dim, 0)
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of its data, packed, from shape and type (3 int4 elements: 2); for strings those stored."""
        computed = nbytes_of(self.dtype, self.elements)
        return self.inline_bytes if computed is None else computed

    def small_values(self) -> tuple[int | float, ...] | None:
        """The numbers, flattened, of a tensor of at most 1 KiB stored inline; None for any other."""
        code = _FORMATS.get(self.dtype)
        if code is None or not self.small:
            return None
        count = self.elements
        values: list[int | float] = []
        for number, raw in self.small:
            if number == 9:
                return struct.unpack(f"<{count}{code}", raw) if len(raw) == self.nbytes else None
            if number in (5, 7, 11) and code not in "fde":
                values += wire.packed_integers(raw)
            elif number == 4 and code == "f":
                values += wire.packed_floats(raw)
            elif number == 10 and code == "d":
                values += wire.packed_doubles(raw)
        return tuple(values) if len(values) == count else None


class SparseTensor:
    """A sparse constant: the values that are not zero, where they stand, and the dense shape."""

    __slots__ = ("dims", "indices", "values")

    def __init__(self) -> None:
        self.values = Tensor()
        self.indices = Tensor()
        self.dims: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of the tensor, which is that of its values."""
        return self.values.name


class ValueType(NamedTuple):
    """The type of a value.

    Attributes:
        kind: ``tensor``, ``sparse_tensor``, ``sequence``, ``optional``, ``map``, ``opaque`` or ``unknown``.
        dtype: number of the element type (of a map: of its keys); 0 if there is none.
        shape: the dimensions; None if the rank is unknown or the kind has no shape.
        element: the type inside a sequence, an optional, or of a map's values.
    """

    kind: str = "unknown"
    dtype: int = 0
    shape: tuple[Dim, ...] | None = None
    element: ValueType | None = None

    def __str__(self) -> str:
        if self.kind == "tensor":
            return dtype(self.dtype).name
        if self.kind == "map":
            return f"map({dtype(self.dtype).name}, {self.element or 'unknown'})"
        if self.kind == "sparse_tensor":
            return f"sparse_tensor({dtype(self.dtype).name})"
        return f"{self.kind}({self.element})" if self.element else self.kind


class ValueInfo(NamedTuple):
    """A named value: an input, an output, or a value between nodes."""

    name: str = ""
    type: ValueType = ValueType()

    @property
    def kind(self) -> str:
        """``tensor``, ``sequence``, ...: see ``ValueType.kind``."""
        return self.type.kind

    @property
    def dtype(self) -> int:
        """Number of the element type, 0 if there is none."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """Dimensions, or None for an unknown rank."""
        return self.type.shape


class Skipped(NamedTuple):
    """An attribute value too large to keep (over 64 KiB: an embedded EP context): only its size in bytes."""

    nbytes: int


class Attribute:
    """One attribute of a node.

    Attributes:
        name: its name.
        kind: ``int``, ``floats``, ``tensor``, ``graph``, ...; ``undefined`` for a reference of unknown kind.
        value: int, float, bytes, ``Tensor``, ``Graph``, ``SparseTensor``, ``ValueType``, a tuple of these,
            ``Skipped``, or None where the file gives no value.
        reference: the parameter of the enclosing function that it takes its value from, or an empty string.
    """

    __slots__ = ("kind", "name", "reference", "value")

    def __init__(self, name: str, kind: str, value: Any, reference: str = "") -> None:
        self.name = name
        self.kind = kind
        self.value = value
        self.reference = reference


class Node:
    """One operation."""

    __slots__ = ("_attributes", "_raw", "domain", "inputs", "name", "op_type", "outputs", "overload")

    def __init__(self, attributes: Lazy[Attribute]) -> None:
        self.name = ""
        self.op_type = ""
        self.domain = ""
        self.overload = ""
        self.inputs: tuple[str, ...] = ()
        self.outputs: tuple[str, ...] = ()
        self._raw = attributes
        self._attributes: dict[str, Attribute] | None = None

    @property
    def attributes(self) -> dict[str, Attribute]:
        """Attributes by name.

        Raises:
            ModelError: the bytes of one are damaged.
        """
        if self._attributes is None:
            self._attributes = {attribute.name: attribute for attribute in self._raw.get()}
        return self._attributes

    def value(self, name: str, default: Any = None) -> Any:
        """The value of one attribute, or ``default``."""
        found = self.attributes.get(name)
        return default if found is None else found.value

    def string(self, name: str, default: str = "") -> str:
        """The value of a string attribute as text, or ``default`` (also where it is too large to be kept)."""
        found = self.value(name)
        return found.decode("utf-8", "backslashreplace") if isinstance(found, bytes) else default

    @property
    def label(self) -> str:
        """What to call it: its name, else its first output, else its operator. Stable under reordering."""
        return self.name or next((output for output in self.outputs if output), "") or self.op_type

    @property
    def operator(self) -> str:
        """Its operator, with a domain other than ONNX's own in front: ``com.microsoft::Attention``."""
        return self.op_type if self.domain in ("", "ai.onnx") else f"{self.domain}::{self.op_type}"

    @property
    def graphs(self) -> list[Graph]:
        """The graphs in its attributes (branches and bodies of If, Loop, Scan)."""
        found: list[Graph] = []
        for attribute in self.attributes.values():
            if attribute.kind == "graph" and attribute.value is not None:
                found.append(attribute.value)
            elif attribute.kind == "graphs":
                found += attribute.value
        return found


class Graph:
    """A graph: the model's own, or one in an attribute."""

    __slots__ = (
        "initializers",
        "inputs",
        "lazy_nodes",
        "lazy_value_infos",
        "name",
        "outputs",
        "sparse_initializers",
    )

    def __init__(self, nodes: Lazy[Node], value_infos: Lazy[ValueInfo]) -> None:
        self.name = ""
        self.inputs: list[ValueInfo] = []
        self.outputs: list[ValueInfo] = []
        self.initializers: list[Tensor] = []
        self.sparse_initializers: list[SparseTensor] = []
        self.lazy_nodes = nodes
        self.lazy_value_infos = value_infos

    @property
    def nodes(self) -> list[Node]:
        """Its nodes, in the order of the file.

        Raises:
            ModelError: the bytes of one are damaged.
        """
        return self.lazy_nodes.get()

    @property
    def value_infos(self) -> list[ValueInfo]:
        """Types of values between nodes, as far as the file tells them.

        Raises:
            ModelError: the bytes of one are damaged.
        """
        return self.lazy_value_infos.get()


class Function:
    """A function local to the model: nodes that stand for one operator (domain, name, overload)."""

    __slots__ = ("domain", "inputs", "lazy_nodes", "name", "opset_imports", "outputs", "overload")

    def __init__(self, nodes: Lazy[Node]) -> None:
        self.name = ""
        self.domain = ""
        self.overload = ""
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.opset_imports: list[tuple[str, int]] = []
        self.lazy_nodes = nodes

    @property
    def nodes(self) -> list[Node]:
        """Its nodes, in the order of the file.

        Raises:
            ModelError: the bytes of one are damaged.
        """
        return self.lazy_nodes.get()


class Model:
    """A model without its weights.

    Attributes:
        path: the file it was read from; ``Path()`` if it was read from bytes.
        file: that path for messages, printable.
        nbytes: size of that file in bytes.
        graph: the main graph (an empty one if the file has none: see ``has_graph``).
        has_graph: whether the file holds a graph.
        ir_version: IR version; None if the file has none.
        producer_name: name of the tool that wrote it; empty if not told.
        producer_version: that tool's version.
        domain: the model's own domain.
        model_version: the model's own version.
        opset_imports: (domain, version) as the file lists them.
        metadata: ``metadata_props``; a repeated key keeps its last value.
        functions: local functions.
        has_training_info: whether it carries training graphs (they are not read).
    """

    __slots__ = (
        "domain",
        "file",
        "functions",
        "graph",
        "has_graph",
        "has_training_info",
        "ir_version",
        "metadata",
        "model_version",
        "nbytes",
        "opset_imports",
        "path",
        "producer_name",
        "producer_version",
    )

    def __init__(self, file: str, nbytes: int, graph: Graph) -> None:
        self.path = Path()
        self.file = file
        self.nbytes = nbytes
        self.graph = graph
        self.has_graph = False
        self.ir_version: int | None = None
        self.producer_name = ""
        self.producer_version = ""
        self.domain = ""
        self.model_version = 0
        self.opset_imports: list[tuple[str, int]] = []
        self.metadata: dict[str, str] = {}
        self.functions: list[Function] = []
        self.has_training_info = False

    def opset(self, domain: str = "") -> int | None:
        """The version of the operator set of that domain (the highest, if imported twice), or None."""
        alike = ("", "ai.onnx") if domain in ("", "ai.onnx") else (domain,)
        return max((version for name, version in self.opset_imports if name in alike), default=None)
