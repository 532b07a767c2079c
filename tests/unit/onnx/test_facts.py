from __future__ import annotations

import random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from winml.modelkit.onnx import facts
from winml.modelkit.onnx.facts import CustomOp
from winml.modelkit.onnx.files import parse_model
from winml.modelkit.onnx.model import Model

node = helper.make_node


def parse(model: onnx.ModelProto) -> Model:
    return parse_model(model.SerializeToString(), "m.onnx")


def names(values: list[Any]) -> list[str]:
    return [one.name for one in values]


def with_weight(models: Any, ir: int) -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.eye(2, dtype=np.float32), "w")
    inputs = [models.value("x", shape=[2, 2]), models.value("w", shape=[2, 2])]
    return models.build([node("MatMul", ["x", "w"], ["y"])], inputs, [models.value("y")], [weight], ir=ir)


@pytest.mark.parametrize(("ir", "overridable"), [(3, []), (9, ["w"])])
def test_initializers_that_are_inputs_are_never_asked_for(models: Any, ir: int, overridable: list[str]) -> None:
    model = parse(with_weight(models, ir))
    assert names(facts.real_inputs(model)) == ["x"]
    assert names(facts.overridable_inputs(model)) == overridable
    assert names(facts.real_outputs(model)) == ["y"]


def branch(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), name, [], [helper.make_tensor_value_info(f"{name}_out", 1, None)])


def nested(models: Any) -> onnx.ModelProto:
    """If(c){ Relu; MyOp } else { If(c){ Abs } else { Abs } }, and a function F = MyOp of its own, used once."""
    inner = node(
        "If",
        ["c"],
        ["else_out"],
        then_branch=branch("a", node("Abs", ["x"], ["a_out"])),
        else_branch=branch("b", node("Abs", ["x"], ["b_out"])),
    )
    then = branch("then", node("Relu", ["x"], ["t"]), node("MyOp", ["t"], ["then_out"], domain="acme"))
    function = helper.make_function(
        "local", "F", ["p"], ["q"], [node("MyOp", ["p"], ["q"], domain="acme")], [helper.make_opsetid("acme", 1)]
    )
    return models.build(
        [
            node("If", ["c"], ["i"], then_branch=then, else_branch=branch("else", inner)),
            node("F", ["i"], ["y"], domain="local"),
        ],
        [models.value("c", TensorProto.BOOL, []), models.value("x")],
        [models.value("y")],
        opsets=[("", 17), ("acme", 1), ("local", 1)],
        functions=[function],
    )


def test_nodes_of_nested_graphs_and_functions_count(models: Any) -> None:
    model = parse(nested(models))
    # Counted by hand: If, F; Relu, MyOp; If; Abs; Abs; and MyOp in F.
    assert facts.node_count(model) == 8
    assert facts.op_histogram(model) == {"Abs": 2, "If": 2, "acme::MyOp": 2, "Relu": 1, "local::F": 1}
    assert list(facts.op_histogram(model)) == ["Abs", "If", "acme::MyOp", "Relu", "local::F"]


def test_custom_operators_are_those_that_nobody_defines(models: Any) -> None:
    assert facts.custom_ops(parse(nested(models))) == [CustomOp("acme", "MyOp", 2)]


@pytest.mark.parametrize("domain", ["", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"])
def test_operators_of_onnx_and_onnxruntime_are_not_custom(models: Any, domain: str) -> None:
    assert facts.custom_ops(parse(models.build([node("X", [], ["y"], domain=domain)]))) == []


def test_onnxruntime_extensions_are_custom(models: Any) -> None:
    found = facts.custom_ops(parse(models.build([node("BertTokenizer", [], ["y"], domain="ai.onnx.contrib")])))
    assert found == [CustomOp("ai.onnx.contrib", "BertTokenizer", 1)]


def context(name: str, **attributes: Any) -> onnx.NodeProto:
    return node("EPContext", ["x"], ["y"], name=name, domain="com.microsoft", **attributes)


def test_compiled_parts(models: Any) -> None:
    model = parse(
        models.build(
            [
                context(
                    "first",
                    source="QNNExecutionProvider",
                    ep_sdk_version="2.51",
                    partition_name="p0",
                    embed_mode=0,
                    ep_cache_context="m_qnn.bin",
                ),
                context("second", source="QNNExecutionProvider", main_context=0, embed_mode=0),
                context("third", source="OpenVINOExecutionProvider", ep_cache_context=bytes(70_000)),
                node("EPContext", ["x"], ["z"], domain="acme"),
            ]
        )
    )
    first, second, third = facts.ep_contexts(model)
    assert (first.source, first.sdk_version, first.partition, first.main) == (
        "QNNExecutionProvider",
        "2.51",
        "p0",
        True,
    )
    assert (first.embedded, first.cache_file, first.embedded_bytes) == (False, "m_qnn.bin", None)
    assert (second.main, second.cache_file) == (False, None)
    assert (third.embedded, third.embedded_bytes) == (True, 70_000)
    assert facts.ep_context_sources(model) == ["QNNExecutionProvider", "OpenVINOExecutionProvider"]


def test_the_floating_types_a_model_declares(models: Any) -> None:
    half = numpy_helper.from_array(np.zeros(2, np.float16), "h")
    model = models.build([node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)], [models.value("x")], [], [half])
    assert facts.float_types(parse(model)) == ["fp32", "bf16", "fp16"]
    assert facts.float_types(parse(models.build([], [models.value("i", TensorProto.INT64)]))) == []


def test_duplicate_node_names_are_those_within_one_graph(models: Any) -> None:
    twice = [
        node("Relu", ["x"], ["a"], name="n"),
        node("Relu", ["a"], ["b"], name="n"),
        node("Abs", ["b"], ["c"]),
        node("Abs", ["c"], ["d"]),
    ]
    assert facts.duplicate_node_names(parse(models.build(twice))) == {"n": 2}
    inner = branch("t", node("Relu", ["x"], ["t_out"], name="n"))
    apart = [node("Relu", ["x"], ["a"], name="n"), node("If", ["c"], ["b"], then_branch=inner, else_branch=inner)]
    assert facts.duplicate_node_names(parse(models.build(apart))) == {}


def test_topological_order(models: Any) -> None:
    chain = [node("Relu", [f"v{i}"], [f"v{i + 1}"]) for i in range(10)]
    inputs = [models.value("v0")]
    assert facts.is_topologically_sorted(parse(models.build(chain, inputs)))
    shuffled = chain[:]
    random.Random(1).shuffle(shuffled)
    assert shuffled != chain
    assert not facts.is_topologically_sorted(parse(models.build(shuffled, inputs)))


def test_a_capture_that_comes_too_late_is_out_of_order(models: Any) -> None:
    inner = branch("t", node("Relu", ["late"], ["t_out"]))
    early = node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    late = node("Abs", ["x"], ["late"])
    inputs = [models.value("c", TensorProto.BOOL, []), models.value("x")]
    assert facts.is_topologically_sorted(parse(models.build([late, early], inputs)))
    assert not facts.is_topologically_sorted(parse(models.build([early, late], inputs)))


def test_order_within_a_branch_counts(models: Any) -> None:
    inner = branch("t", node("Abs", ["u"], ["t_out"]), node("Relu", ["x"], ["u"]))
    outer = node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    assert not facts.is_topologically_sorted(parse(models.build([outer], [models.value("x")])))


def test_degenerate_graphs_have_facts(models: Any) -> None:
    weight = numpy_helper.from_array(np.zeros(2, np.float32), "w")
    no_nodes = parse(models.build([], [models.value("x")], [models.value("x")]))
    no_inputs = parse(models.build([node("Relu", ["w"], ["y"])], [], [models.value("y")], [weight]))
    no_outputs = parse(models.build([node("Relu", ["x"], ["y"])], [models.value("x")], []))
    same_twice = parse(models.build([node("Relu", ["x"], ["y"])], [models.value("x")], [models.value("y")] * 2))
    weight_out = parse(models.build([], [], [models.value("w")], [weight]))
    for model, inputs, outputs, nodes in (
        (no_nodes, ["x"], ["x"], 0),
        (no_inputs, [], ["y"], 1),
        (no_outputs, ["x"], [], 1),
        (same_twice, ["x"], ["y", "y"], 1),
        (weight_out, [], ["w"], 0),
    ):
        assert names(facts.real_inputs(model)) == inputs
        assert names(facts.real_outputs(model)) == outputs
        assert facts.node_count(model) == nodes
        assert facts.is_topologically_sorted(model)


def test_constants_are_found_at_any_depth(models: Any) -> None:
    inner = branch(
        "t", node("Constant", [], ["t_out"], name="deep", value=numpy_helper.from_array(np.zeros(3, np.int8)))
    )
    sparse = onnx.SparseTensorProto(
        values=TensorProto(name="s", data_type=1, dims=[1], raw_data=bytes(4)),
        indices=TensorProto(data_type=7, dims=[1], raw_data=bytes(8)),
        dims=[9],
    )
    model = models.build(
        [
            node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
            node("Other", [], ["z"], name="o", data=numpy_helper.from_array(np.zeros(2, np.float64))),
        ],
        initializers=[numpy_helper.from_array(np.zeros(4, np.float32), "w")],
    )
    model.graph.sparse_initializer.append(sparse)
    found = {name: tensor.nbytes for name, tensor in facts.tensors(parse(model))}
    assert found == {"w": 16, "s": 4, "s (indices)": 8, "deep": 3, "o.data": 16}
