"""What a model is made of: real inputs, operators, compiled parts, order and names of its nodes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from winml.modelkit.onnx.model import Function, Graph, Model, Node, Skipped, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from winml.modelkit.onnx.model import ValueInfo

__all__ = [
    "KNOWN_DOMAINS",
    "CustomOp",
    "EPContext",
    "custom_ops",
    "duplicate_node_names",
    "ep_context_sources",
    "ep_contexts",
    "float_types",
    "is_topologically_sorted",
    "node_count",
    "op_histogram",
    "overridable_inputs",
    "real_inputs",
    "real_outputs",
    "tensors",
    "walk_graphs",
    "walk_nodes",
]

KNOWN_DOMAINS = frozenset(
    {
        "",
        "ai.onnx",
        "ai.onnx.ml",
        "ai.onnx.training",
        "ai.onnx.preview.training",
        "com.microsoft",
        "com.microsoft.dml",
        "com.microsoft.experimental",
        "com.microsoft.nchwc",
        "com.ms.internal.nhwc",
        "org.pytorch.aten",
    }
)
"""Operator domains that ONNX or ONNX Runtime brings; any other needs a library or local functions."""

_FLOATS = {11: "fp64", 1: "fp32", 16: "bf16", 10: "fp16"}


class CustomOp(NamedTuple):
    """An operator that neither ONNX, ONNX Runtime nor the model itself defines, and how often it is used."""

    domain: str
    op_type: str
    times: int


class EPContext(NamedTuple):
    """A node that holds a part compiled by an EP (``com.microsoft::EPContext``).

    Attributes:
        node: what to call the node.
        source: the EP that made it, as the node says it; empty if it does not.
        sdk_version: that EP's SDK; empty if not told.
        partition: name of the compiled partition.
        embedded: whether the compiled bytes stand in the model (embed_mode 1).
        main: whether this node carries them (main_context 1); others share those of a main one.
        cache_file: path of the file beside the model that holds them, as the node says it; None if
            embedded, or if a node that is not main names none.
        embedded_bytes: size of the embedded context; None if it is not embedded.
    """

    node: str
    source: str
    sdk_version: str
    partition: str
    embedded: bool
    main: bool
    cache_file: str | None
    embedded_bytes: int | None


def real_inputs(model: Model) -> list[ValueInfo]:
    """The inputs a run must feed: graph inputs that are not initializers."""
    constant = _initializer_names(model.graph)
    return [value for value in model.graph.inputs if value.name not in constant]


def overridable_inputs(model: Model) -> list[ValueInfo]:
    """Inputs a run may feed in place of an initializer's value.

    From IR version 4 on; before it initializers had to be listed as inputs, and ONNX Runtime takes none.
    """
    if (model.ir_version or 0) < 4:
        return []
    constant = _initializer_names(model.graph)
    return [value for value in model.graph.inputs if value.name in constant]


def real_outputs(model: Model) -> list[ValueInfo]:
    """The graph's outputs, in the file's order."""
    return list(model.graph.outputs)


def _initializer_names(graph: Graph) -> set[str]:
    names = {tensor.name for tensor in graph.initializers}
    names.update(sparse.name for sparse in graph.sparse_initializers)
    return names


def walk_graphs(model: Model) -> Iterator[Graph | Function]:
    """The main graph, the local functions, and every graph nested in the nodes of these."""
    pending: list[Graph | Function] = [*reversed(model.functions), model.graph]
    while pending:
        graph = pending.pop()
        yield graph
        for node in graph.nodes:
            pending += node.graphs


def walk_nodes(model: Model) -> Iterator[Node]:
    """Every node: of the main graph, of nested graphs and of local functions (each function once)."""
    for graph in walk_graphs(model):
        yield from graph.nodes


def node_count(model: Model) -> int:
    """Nodes in the main graph, in nested graphs and in local functions."""
    return sum(len(graph.nodes) for graph in walk_graphs(model))


def op_histogram(model: Model) -> dict[str, int]:
    """Uses of every operator (``Conv``, ``com.microsoft::Attention``), the most frequent first."""
    counts = Counter(node.operator for node in walk_nodes(model))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def custom_ops(model: Model) -> list[CustomOp]:
    """Operators that need a library: of no known domain and no local function; the most frequent first."""
    local = {(function.domain, function.name) for function in model.functions}
    counts = Counter(
        (node.domain, node.op_type)
        for node in walk_nodes(model)
        if node.domain not in KNOWN_DOMAINS and (node.domain, node.op_type) not in local
    )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [CustomOp(domain, op_type, count) for (domain, op_type), count in ordered]


def ep_contexts(model: Model) -> list[EPContext]:
    """The compiled parts in the model, in the order of the nodes."""
    return [
        _ep_context(node)
        for node in walk_nodes(model)
        if node.op_type == "EPContext" and node.domain == "com.microsoft"
    ]


def _ep_context(node: Node) -> EPContext:
    cache: Any = node.value("ep_cache_context")
    # Defaults: com.microsoft operator schema.
    embedded = node.value("embed_mode", 1) != 0
    main = node.value("main_context", 1) != 0
    size: int | None = None
    if embedded and cache is not None:
        size = cache.nbytes if isinstance(cache, Skipped) else len(cache)
    return EPContext(
        node=node.label,
        source=node.string("source"),
        sdk_version=node.string("ep_sdk_version"),
        partition=node.string("partition_name"),
        embedded=embedded,
        main=main,
        cache_file=None if embedded else node.string("ep_cache_context") or None,
        embedded_bytes=size,
    )


def ep_context_sources(model: Model) -> list[str]:
    """The EPs that compiled parts of the model, as its nodes name them, by first use.

    Looks at the main graph only, where EPs put such nodes.
    """
    nodes = (node for node in model.graph.nodes if node.op_type == "EPContext" and node.domain == "com.microsoft")
    return list(dict.fromkeys(source for node in nodes if (source := node.string("source"))))


def float_types(model: Model) -> list[str]:
    """The floating-point types the model declares (``fp32``, ``fp16``, ``bf16``, ``fp64``), the widest first.

    Those of inputs, outputs, values between nodes, constants, and the targets of Casts, at any depth.
    """
    found: set[int] = {tensor.dtype for _, tensor in tensors(model)}
    for graph in walk_graphs(model):
        if isinstance(graph, Graph):
            found.update(value.dtype for value in (*graph.inputs, *graph.outputs, *graph.value_infos))
        found.update(node.value("to", 0) for node in graph.nodes if node.op_type == "Cast")
    return [name for code, name in _FLOATS.items() if code in found]


def duplicate_node_names(model: Model) -> dict[str, int]:
    """Names that several nodes of one graph share, which ONNX Runtime refuses, and how many nodes do."""
    found: dict[str, int] = {}
    for graph in walk_graphs(model):
        counts = Counter(node.name for node in graph.nodes if node.name)
        found.update({name: count for name, count in counts.items() if count > 1})
    return found


def is_topologically_sorted(model: Model) -> bool:
    """Whether every node stands after the nodes that make its inputs.

    The ONNX format demands it, ONNX Runtime does not: a model where this is false may well run.
    """
    if not _sorted(model.graph.nodes, _outer_names(model.graph)):
        return False
    return all(_sorted(function.nodes, set(function.inputs)) for function in model.functions)


def _outer_names(graph: Graph) -> set[str]:
    return {value.name for value in graph.inputs} | _initializer_names(graph)


def _sorted(nodes: Sequence[Node], known: set[str]) -> bool:
    # Only names that some node of this graph makes can come too late; any other is a dangling name.
    made = {output for node in nodes for output in node.outputs if output}
    known = known | {""}
    for node in nodes:
        for name in node.inputs:
            if name not in known and name in made:
                return False
        for graph in node.graphs:
            inner = _outer_names(graph)
            captured = _captures(graph)
            if any(name in made and name not in known for name in captured):
                return False
            if not _sorted(graph.nodes, known | inner):
                return False
        known.update(node.outputs)
    return True


def _captures(graph: Graph) -> set[str]:
    """Names that a nested graph takes from outside."""
    own = _outer_names(graph) | {output for node in graph.nodes for output in node.outputs}
    used: set[str] = {value.name for value in graph.outputs}
    for node in graph.nodes:
        used.update(node.inputs)
        for inner in node.graphs:
            used |= _captures(inner)
    return used - own - {""}


def tensors(model: Model) -> Iterator[tuple[str, Tensor]]:
    """Every constant with what to call it: initializers and the tensors in attributes, at any depth."""
    for graph in walk_graphs(model):
        if isinstance(graph, Graph):
            for tensor in graph.initializers:
                yield tensor.name, tensor
            for sparse in graph.sparse_initializers:
                yield sparse.name, sparse.values
                yield f"{sparse.name} (indices)", sparse.indices
        for node in graph.nodes:
            yield from _attribute_tensors(node)


def _attribute_tensors(node: Node) -> Iterator[tuple[str, Tensor]]:
    for attribute in node.attributes.values():
        label = node.label if node.op_type == "Constant" else f"{node.label}.{attribute.name}"
        if attribute.kind == "tensor" and attribute.value is not None:
            yield attribute.value.name or label, attribute.value
        elif attribute.kind == "tensors":
            for tensor in attribute.value:
                yield tensor.name or label, tensor
        elif attribute.kind == "sparse_tensor" and attribute.value is not None:
            yield label, attribute.value.values
            yield f"{label} (indices)", attribute.value.indices
