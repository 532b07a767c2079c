"""What a model does with an input's numbers: index a table, mask, compare, take them for a length.

Followed from the input through operators that pass values on (Cast, Reshape, Unsqueeze, Slice, ...), into
branches and bodies (also by capture of outer names) and into local functions. Arithmetic ends the trail: behind
it the numbers are others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from winml.modelkit.onnx.model import Graph, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from winml.modelkit.onnx.model import Dim, Function, Model, Node

__all__ = ["Use", "input_uses"]

_MAX_DEPTH = 24
_MAX_BODIES = 500  # of functions called along one trail; a model may call them in a circle

# Operators whose output holds the values of these inputs; None: of all.
_PASSES: dict[str, tuple[int, ...] | None] = {
    "Cast": (0,),
    "CastLike": (0,),
    "Concat": None,
    "Dropout": (0,),
    "Expand": (0,),
    "Flatten": (0,),
    "Gather": (0,),
    "GatherElements": (0,),
    "GatherND": (0,),
    "Identity": (0,),
    "Pad": (0,),
    "Reshape": (0,),
    "ReverseSequence": (0,),
    "Slice": (0,),
    "Split": (0,),
    "Squeeze": (0,),
    "Tile": (0,),
    "Transpose": (0,),
    "Unsqueeze": (0,),
    "Where": (1, 2),
}

# (operator, input) that index an axis of another input: that input, and the attribute that names the axis.
_INDEXES = {
    ("Gather", 1): (0, "axis"),
    ("GatherElements", 1): (0, "axis"),
    ("ScatterElements", 1): (0, "axis"),
    ("Scatter", 1): (0, "axis"),
    ("GatherBlockQuantized", 1): (0, "gather_axis"),
    ("EmbedLayerNormalization", 0): (2, ""),
    ("EmbedLayerNormalization", 1): (4, ""),
    ("EmbedLayerNormalization", 8): (3, ""),
    ("QEmbedLayerNormalization", 0): (2, ""),
    ("QEmbedLayerNormalization", 1): (4, ""),
}

_MASKS = {
    ("Attention", 3),
    ("QAttention", 5),
    ("EmbedLayerNormalization", 7),
    ("MultiHeadAttention", 4),
    ("QEmbedLayerNormalization", 7),
    ("Where", 0),
}

# Arguments that no random number fits: what always works.
_ARGUMENTS = {
    ("ConstantOfShape", 0): "ones",
    ("Expand", 1): "ones",
    ("Loop", 0): "ones",
    ("Pad", 1): "zeros",
    ("Range", 0): "zeros",
    ("Range", 1): "ones",
    ("Range", 2): "ones",
    ("Reshape", 1): "reshape",
    ("Slice", 1): "zeros",
    ("Slice", 2): "ones",
    ("Slice", 3): "zeros",
    ("Slice", 4): "ones",
    ("Squeeze", 1): "zeros",
    ("Tile", 1): "ones",
    ("TopK", 1): "ones",
    ("Unsqueeze", 1): "zeros",
}


class Use(NamedTuple):
    """One use of an input's numbers.

    Attributes:
        kind: ``index`` (a place on an axis of ``limit`` places), ``length`` (up to ``limit``), ``mask``,
            ``compared`` (with ``values``), ``quantized`` (any value has a meaning), or the argument of an
            operator for which ``ones``, ``zeros`` or ``reshape`` (-1, then ones) always works.
        operator: the operator that uses them.
        limit: see above; None if it is not known.
        table: name of the value that is indexed.
        values: the constants they are compared with.
    """

    kind: str
    operator: str
    limit: int | None = None
    table: str = ""
    values: tuple[int, ...] = ()


def input_uses(model: Model, names: Iterable[str], shapes: Mapping[str, Sequence[int]]) -> dict[str, list[Use]]:
    """The uses of some inputs' numbers, in the order they are found.

    Args:
        model: the model.
        names: the inputs to follow.
        shapes: shape of every input, for tables that are inputs themselves.

    Raises:
        ModelError: the model's bytes are damaged.
    """
    functions = {(function.domain, function.name): function for function in model.functions}
    top = _Scope(model.graph, None)
    top.shapes.update({name: tuple(shape) for name, shape in shapes.items()})
    found: dict[str, list[Use]] = {}
    for name in names:
        trail = _Trail(functions)
        trail.follow(top, name, 0)
        found[name] = list(dict.fromkeys(trail.uses))
    return found


class _Scope:
    """One graph or function body, with what its names stand for."""

    def __init__(self, graph: Graph | Function, parent: _Scope | None) -> None:
        self.parent = parent
        self.bound: dict[str, tuple[_Scope, str]] = {}
        self.constants: dict[str, Tensor] = {}
        self.shapes: dict[str, tuple[Dim, ...]] = {}
        self.makers: dict[str, Node] = {}
        self.users: dict[str, list[tuple[Node, int]]] = {}
        self.own: set[str] = set()
        self._nested: dict[int, list[_Scope]] = {}
        self.with_graphs: list[Node] = []
        if isinstance(graph, Graph):
            self.own.update(value.name for value in graph.inputs)
            self.constants.update({tensor.name: tensor for tensor in graph.initializers})
            for value in (*graph.value_infos, *graph.inputs):
                if value.shape is not None:
                    self.shapes[value.name] = value.shape
        else:
            self.own.update(graph.inputs)
        for node in graph.nodes:
            for position, name in enumerate(node.inputs):
                self.users.setdefault(name, []).append((node, position))
            for name in node.outputs:
                self.makers[name] = node
            if node.op_type == "Constant" and node.outputs:
                value = node.value("value")
                if isinstance(value, Tensor):
                    self.constants[node.outputs[0]] = value
            if node.op_type in ("If", "Loop", "Scan", "SequenceMap"):
                self.with_graphs.append(node)
        self.own.update(self.makers, self.constants)

    def nested(self, node: Node) -> list[_Scope]:
        """The scopes of a node's graphs, with the names that a loop's body takes from its inputs."""
        if id(node) not in self._nested:
            scopes = [_Scope(graph, self) for graph in node.graphs]
            if node.op_type in ("Loop", "Scan"):
                first = 2 if node.op_type == "Loop" else 0
                for scope, graph in zip(scopes, node.graphs, strict=True):
                    for inner, outer in zip(graph.inputs[first:], node.inputs[first:], strict=False):
                        scope.bound[inner.name] = self, outer
            self._nested[id(node)] = scopes
        return self._nested[id(node)]

    def home(self, name: str) -> tuple[_Scope, str] | None:
        """The scope that really defines a name, and its name there."""
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.bound:
                scope, name = scope.bound[name]
            elif name in scope.own:
                return scope, name
            else:
                scope = scope.parent
        return None

    def constant(self, name: str) -> Tensor | None:
        """The constant a name stands for, or None."""
        found = self.home(name)
        return found[0].constants.get(found[1]) if found else None

    def shape(self, name: str, depth: int = 0) -> tuple[Dim, ...] | None:
        """The shape of a value as far as it is written down, or None."""
        found = self.home(name)
        if found is None or depth > _MAX_DEPTH:
            return None
        scope, name = found
        if name in scope.constants:
            return scope.constants[name].dims
        if name in scope.shapes:
            return scope.shapes[name]
        maker = scope.makers.get(name)
        if maker is None or not maker.inputs:
            return None
        if maker.op_type in ("Cast", "DequantizeLinear", "Identity", "QuantizeLinear"):
            return scope.shape(maker.inputs[0], depth + 1)
        if maker.op_type == "Transpose":
            source = scope.shape(maker.inputs[0], depth + 1)
            if source is None:
                return None
            order = maker.value("perm") or tuple(reversed(range(len(source))))
            return tuple(source[axis] for axis in order) if sorted(order) == list(range(len(source))) else None
        return None


class _Trail:
    """Follows one input's values."""

    def __init__(self, functions: Mapping[tuple[str, str], Function]) -> None:
        self.uses: list[Use] = []
        self._functions = functions
        self._seen: set[tuple[int, str]] = set()
        self._alive: list[_Scope] = []
        self._bodies = 0

    def follow(self, scope: _Scope, name: str, depth: int) -> None:
        if not name or depth > _MAX_DEPTH or (id(scope), name) in self._seen:
            return
        self._seen.add((id(scope), name))
        # ids are told apart only while their objects live.
        self._alive.append(scope)
        for node, position in scope.users.get(name, ()):
            self._use(scope, node, position)
            function = self._functions.get((node.domain, node.op_type))
            if function is not None and position < len(function.inputs) and self._bodies < _MAX_BODIES:
                self._bodies += 1
                body = _Scope(function, None)
                body.bound = {
                    inner: (scope, outer) for inner, outer in zip(function.inputs, node.inputs, strict=False) if outer
                }
                self.follow(body, function.inputs[position], depth + 1)
            passes = _PASSES.get(node.op_type, ())
            if passes is None or position in passes:
                for output in node.outputs:
                    self.follow(scope, output, depth)
        for node in scope.with_graphs:
            for inner in scope.nested(node):
                if name not in inner.own:
                    self.follow(inner, name, depth + 1)
                for own, (source, outer) in inner.bound.items():
                    if source is scope and outer == name:
                        self.follow(inner, own, depth + 1)

    def _use(self, scope: _Scope, node: Node, position: int) -> None:
        here = node.op_type, position
        if here in _INDEXES:
            source, attribute = _INDEXES[here]
            axis = node.value(attribute, 0) if attribute else 0
            self._index(scope, node, source, [axis])
        elif here in (("GatherND", 1), ("ScatterND", 1)):
            self._index_nd(scope, node)
        elif here in _MASKS:
            self.uses.append(Use("mask", node.op_type))
        elif here in _ARGUMENTS:
            self.uses.append(Use(_ARGUMENTS[here], node.op_type))
        elif here == ("OneHot", 0):
            depth = self._integers(scope, node.inputs[1]) if len(node.inputs) > 1 else ()
            self.uses.append(Use("index", "OneHot", depth[0] if depth else None, "its depth"))
        elif here == ("Sub", 1) and self._integers(scope, node.inputs[0]) == (1,):
            self.uses.append(Use("mask", "Sub"))
        elif node.op_type == "Equal":
            values = self._integers(scope, node.inputs[1 - position]) if len(node.inputs) == 2 else ()
            if values:
                self.uses.append(Use("compared", "Equal", values=values))
        elif node.op_type in ("LSTM", "GRU", "RNN") and position == 4:
            time = 1 if node.value("layout", 0) else 0
            self._length(scope, node, time)
        elif here == ("ReverseSequence", 1):
            self._length(scope, node, node.value("time_axis", 0))
        elif here == ("DequantizeLinear", 0):
            self.uses.append(Use("quantized", node.op_type))

    def _integers(self, scope: _Scope, name: str) -> tuple[int, ...]:
        """The numbers of a small constant, if all are whole."""
        constant = scope.constant(name)
        values = constant.small_values() if constant is not None else None
        if not values or any(value != value or value in (float("inf"), float("-inf")) for value in values):
            return ()
        return tuple(int(value) for value in values) if all(value == int(value) for value in values) else ()

    def _index(self, scope: _Scope, node: Node, source: int, axes: list[int]) -> None:
        if source >= len(node.inputs):
            return
        table = node.inputs[source]
        shape = scope.shape(table)
        limit: int | None = None
        if shape is not None:
            places = [shape[axis] for axis in axes if -len(shape) <= axis < len(shape)]
            numbers = [place for place in places if isinstance(place, int)]
            limit = min(numbers) if numbers and len(numbers) == len(axes) else None
        self.uses.append(Use("index", node.op_type, limit, table))

    def _index_nd(self, scope: _Scope, node: Node) -> None:
        data = scope.shape(node.inputs[0])
        indices = scope.shape(node.inputs[1])
        first = node.value("batch_dims", 0)
        last = indices[-1] if indices else None
        if data is not None and isinstance(last, int):
            axes = list(range(first, min(first + last, len(data))))
        else:
            # How many axes are indexed is not known: stay inside the shortest.
            axes = list(range(first, len(data))) if data is not None else []
        self._index(scope, node, 0, axes or [0])

    def _length(self, scope: _Scope, node: Node, axis: int) -> None:
        shape = scope.shape(node.inputs[0])
        limit = shape[axis] if shape is not None and axis < len(shape) else None
        self.uses.append(Use("length", node.op_type, limit if isinstance(limit, int) else None, node.inputs[0]))
