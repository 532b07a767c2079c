"""Why ONNX Runtime refused a model: its message, read together with the file.

The message decides which cause is meant, the file fills in what the user needs (names, counts, types, paths).
Wordings were seen with onnxruntime 1.32 and the plugins QNN 2.7 and OpenVINO 1.8.1.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from winml.modelkit.errors import ModelError
from winml.modelkit.onnx.dtypes import DTYPES, dtype
from winml.modelkit.onnx.external import context_files, external_files
from winml.modelkit.onnx.facts import (
    KNOWN_DOMAINS,
    custom_ops,
    duplicate_node_names,
    ep_contexts,
    walk_graphs,
)
from winml.modelkit.onnx.files import PROTOBUF_LIMIT, read_model, touch
from winml.modelkit.onnx.model import Graph

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from winml.modelkit.onnx.external import ExternalProblem
    from winml.modelkit.onnx.model import Model, Node

__all__ = ["explain_load_failure"]

_LISTED = 8


def explain_load_failure(
    path: str | os.PathLike[str], ort_message: str, runtime: Mapping[str, Any] | None = None
) -> ModelError | None:
    """The fault in the model for which ONNX Runtime refused it, or None if no such fault is known.

    Args:
        path: the model file.
        ort_message: the text of ONNX Runtime's exception.
        runtime: what is known of the runtime: ``version``, ``max_ir``, ``max_opset``; limits that the message
            tells itself win.

    Returns:
        A ``ModelError`` to raise; ONNX Runtime's text is in its details as ``original``.
    """
    runtime = runtime or {}
    try:
        model = read_model(path)
        found = _explain(model, ort_message, runtime)
        if found is None and re.search("Protobuf parsing failed|No graph was found", ort_message):
            touch(model)
            found = _unparsed(model)
    except ModelError as error:
        found = error
    if found is not None:
        found.details.setdefault("original", ort_message)
    return found


def _explain(model: Model, message: str, runtime: Mapping[str, Any]) -> ModelError | None:
    return (
        _too_new(model, message, runtime)
        or _names(model, message)
        or _unknown_operator(model, message, runtime)
        or _compiled(model, message)
        or _external(model, message)
        or _types(model, message)
    )


def _unparsed(model: Model) -> ModelError:
    if model.nbytes > PROTOBUF_LIMIT:
        return _error(
            model,
            f"the file has {model.nbytes} bytes, and protobuf ends at {PROTOBUF_LIMIT} (2 GiB)",
            "model_too_large",
            "save the model with its weights as external data",
        )
    return _error(model, "ONNX Runtime cannot parse it", "model_not_onnx", "fetch or export the model again")


def _error(model: Model, why: str, code: str, hint: str | None, **details: Any) -> ModelError:
    return ModelError(f"{model.file}: {why}", code=code, hint=hint, details={"path": model.file, **details})


def _runtime_name(runtime: Mapping[str, Any]) -> str:
    version = runtime.get("version")
    return f"this onnxruntime ({version})" if version else "this onnxruntime"


def _too_new(model: Model, message: str, runtime: Mapping[str, Any]) -> ModelError | None:
    found = re.search(r"Unsupported model IR version: (\d+)(?:, max supported IR version: (\d+))?", message)
    if found:
        limit = found[2] or runtime.get("max_ir")
        upto = f"supports up to {limit}" if limit else "supports less"
        return _error(
            model,
            f"it has IR version {found[1]}, and {_runtime_name(runtime)} {upto}",
            "ir_too_new",
            "upgrade onnxruntime, or export the model again with an older onnx package",
            ir_version=int(found[1]),
            max_ir=int(limit) if limit else None,
        )
    found = re.search(r"Opset (\d+) is under development", message)
    if found:
        told = re.search(r"support for domain (\S+) is till opset (\d+)", message)
        domain = told[1] if told else "ai.onnx"
        limit = told[2] if told else runtime.get("max_opset")
        upto = f"supports up to {limit}" if limit else "supports less"
        return _error(
            model,
            f"it imports opset {found[1]} of {domain}, and {_runtime_name(runtime)} {upto}",
            "opset_too_new",
            "upgrade onnxruntime, or export the model again with a lower opset",
            domain=domain,
            opset=int(found[1]),
            max_opset=int(limit) if limit else None,
        )
    return None


def _names(model: Model, message: str) -> ModelError | None:
    if "two nodes with same node name" in message:
        names = duplicate_node_names(model)
        listed = _list([f"{name!r} ({count} nodes)" for name, count in names.items()])
        return _error(
            model,
            f"nodes share a name, which ONNX Runtime refuses: {listed}",
            "duplicate_node_names",
            "give every node a name of its own, or none",
            names=names,
        )
    found = re.search(r"Duplicate definition of name \((.*?)\)\.", message)
    if found:
        why, code = f"more than one node makes the value {found[1]!r}", "duplicate_value"
    elif "the graph is not acyclic" in message:
        why, code = "its nodes feed each other in a circle", "cyclic_graph"
    elif found := re.search(r"Node input '(.*?)' is not a graph input, initializer, or output", message):
        why, code = f"a node takes the value {found[1]!r}, which nothing makes", "dangling_input"
    else:
        return None
    return _error(model, why, code, "the tool that wrote the model made a mistake: export it again")


def _unknown_operator(model: Model, message: str, runtime: Mapping[str, Any]) -> ModelError | None:
    if found := re.search(r"([^\s:]*):([^\s:(]+)\(-?\d+\) is not a registered function/op", message):
        domain, operator = found[1], found[2]
    elif found := re.search(r"No Op registered for (\S+) with domain_version of", message):
        operator = found[1]
        domain = next((n.domain for g in walk_graphs(model) for n in g.nodes if n.op_type == operator), "")
    elif "No opset import for domain" in message:
        # ONNX Runtime brings its own domains into scope by itself.
        return _custom_operator(model)
    else:
        return None
    if domain not in KNOWN_DOMAINS:
        return _custom_operator(model)
    version = model.opset(domain)
    count = sum(n.op_type == operator and n.domain == domain for g in walk_graphs(model) for n in g.nodes)
    opset = f"opset {version} of {domain or 'ai.onnx'}" if version else f"the domain {domain}"
    return _error(
        model,
        f"it uses the operator {operator} ({_times(count)}), which {opset} in {_runtime_name(runtime)} does not have",
        "unknown_operator",
        "upgrade onnxruntime, or export the model again with the opset that has the operator",
        domain=domain,
        operator=operator,
        count=count,
    )


def _custom_operator(model: Model) -> ModelError | None:
    custom = custom_ops(model)
    if not custom:
        return None
    listed = _list([f"{op.domain}::{op.op_type} ({_times(op.times)})" for op in custom])
    return _error(
        model,
        f"it uses custom operators that no loaded library defines: {listed}",
        "custom_ops_missing",
        "give the library that defines them with --custom-ops LIBRARY",
        operators=[{"domain": op.domain, "op_type": op.op_type, "count": op.times} for op in custom],
    )


def _compiled(model: Model, message: str) -> ModelError | None:
    contexts = ep_contexts(model)
    if not contexts:
        return None
    sources = sorted({context.source or "an unnamed EP" for context in contexts})
    versions = sorted({context.sdk_version for context in contexts if context.sdk_version})
    sdk = f" (SDK {', '.join(versions)})" if versions else ""
    if "EPContext node generated by" in message and "not compatible with any execution provider" in message:
        told = re.search(r"Available session execution providers: \[(.*?)\]", message)
        has = f"; the session has {told[1]}" if told else ""
        return _error(
            model,
            f"it is compiled for {', '.join(sources)}{sdk} and runs on nothing else{has}",
            "compiled_for_other_ep",
            f"run it with --ep {sources[0]}, or give the model it was compiled from",
            sources=sources,
            sdk_versions=versions,
        )
    problems = context_files(model).problems
    if problems:
        return _files_error(model, problems, "keep the file of the compiled part beside the model, or compile again")
    if re.search(r"context binary|EpContext model|ep_cache_context|deserialize binary", message):
        files = _list([f"{file.location} ({file.nbytes} bytes)" for file in context_files(model).files])
        where = f" in {files}" if files else " inside it"
        return _error(
            model,
            f"the EP cannot read the compiled part{where}, made by {', '.join(sources)}{sdk}",
            "ep_context_damaged",
            "it is damaged or made by another version: compile the model again",
            sources=sources,
            sdk_versions=versions,
        )
    return None


def _external(model: Model, message: str) -> ModelError | None:
    if not re.search(r"xternal|Initializer|Random-access|'location'|ParseString|OpenRandomAccessFile", message):
        return None
    problems = external_files(model).problems
    if not problems:
        return None
    return _files_error(model, problems, "keep the model's data files beside it, as they were written")


def _files_error(model: Model, problems: list[ExternalProblem], hint: str) -> ModelError:
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    listed = [
        {"code": problem.code, "user": problem.user, "location": problem.location, "reason": problem.reason}
        for problem in problems[:_LISTED]
    ]
    return _error(model, f"{first.reason}{more}", first.code, hint, problems=listed, count=len(problems))


def _types(model: Model, message: str) -> ModelError | None:
    if found := re.search(r"MLDataType for: tensor\((\S+?)\) is not currently registered", message):
        name = _our_name(found[1])
        users = [value.name for value in model.graph.inputs + model.graph.outputs if dtype(value.dtype).name == name]
        of = f" ({_list([repr(user) for user in dict.fromkeys(users)])})" if users else ""
        return _error(
            model,
            f"ONNX Runtime cannot hold values of type {name}{of}",
            "dtype_unsupported",
            "convert the model to a type that ONNX Runtime has",
            dtype=name,
        )
    if found := re.search(
        r"Type '(?:tensor\()?([^')]+)\)?' of input parameter \((.*?)\) of operator \((\S+?)\)", message
    ):
        name = _our_name(found[1])
        return _error(
            model,
            f"the operator {found[3]} does not take {name} (its input {found[2]!r})",
            "dtype_not_allowed",
            "insert a Cast in front of it, or convert the model to another type",
            dtype=name,
            operator=found[3],
        )
    if found := re.search(r"Could not find an implementation for (\S+?)\((\d+)\) node with name '(.*?)'", message):
        return _no_kernel(model, found[1], int(found[2]), found[3])
    return None


def _our_name(ort: str) -> str:
    return next((row.name for row in DTYPES.values() if row.ort == ort.casefold()), ort)


def _no_kernel(model: Model, operator: str, version: int, name: str) -> ModelError:
    known: dict[str, int] = {}
    nodes: list[Node] = []
    for graph in walk_graphs(model):
        if isinstance(graph, Graph):
            known.update({value.name: value.dtype for value in (*graph.value_infos, *graph.inputs, *graph.outputs)})
            known.update({tensor.name: tensor.dtype for tensor in graph.initializers})
        nodes += [node for node in graph.nodes if node.op_type == operator and node.name == name]
    counts = Counter(dtype(known[value]).name for node in nodes for value in node.inputs if known.get(value))
    types = list(counts)
    on = f" for {', '.join(types)}" if types else ""
    label = repr(nodes[0].label) if nodes else repr(name)
    return _error(
        model,
        f"ONNX Runtime has no kernel for {operator} (version {version}){on}, used by node {label}",
        "no_kernel",
        "convert the model to a type that the operator has kernels for (float32, float16)",
        operator=operator,
        version=version,
        dtypes=types,
        node=nodes[0].label if nodes else name,
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _list(items: list[str]) -> str:
    shown = ", ".join(items[:_LISTED])
    return f"{shown} and {len(items) - _LISTED} more" if len(items) > _LISTED else shown
