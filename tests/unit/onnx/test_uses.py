from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from winml.modelkit.onnx.files import parse_model
from winml.modelkit.onnx.uses import Use, input_uses

node = helper.make_node


def table(name: str, *dims: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.zeros(dims, np.float32), name)


def numbers(name: str, values: Any, dtype: str = "int64") -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype), name)


def uses(models: Any, nodes: list[onnx.NodeProto], *constants: onnx.TensorProto, **options: Any) -> list[Use]:
    """Uses of the input i; a second input t has the shape [7, 5]."""
    inputs = [models.value("i", TensorProto.INT64, [2, 3]), models.value("t", TensorProto.FLOAT, ["a", "b"])]
    model = parse_model(models.build(nodes, inputs, initializers=constants, **options).SerializeToString())
    return input_uses(model, ["i"], {"i": (2, 3), "t": (7, 5)})["i"]


@pytest.mark.parametrize(("axis", "limit"), [(0, 8), (1, 6), (-1, 6), (None, 8)])
def test_gather_tells_the_length_of_the_axis(models: Any, axis: int | None, limit: int) -> None:
    attributes = {} if axis is None else {"axis": axis}
    assert uses(models, [node("Gather", ["w", "i"], ["y"], **attributes)], table("w", 8, 6)) == [
        Use("index", "Gather", limit, "w")
    ]


def test_the_trail_goes_through_operators_that_pass_values_on(models: Any) -> None:
    nodes = [
        node("Cast", ["i"], ["a"], to=TensorProto.INT32),
        node("Unsqueeze", ["a", "ax"], ["b"]),
        node("Identity", ["b"], ["c"]),
        node("Reshape", ["c", "sh"], ["d"]),
        node("Concat", ["d", "d"], ["e"], axis=0),
        node("Slice", ["e", "ax", "ax"], ["f"]),
        node("Gather", ["w", "f"], ["y"]),
    ]
    assert uses(models, nodes, table("w", 8, 6), numbers("ax", [0]), numbers("sh", [6])) == [
        Use("index", "Gather", 8, "w")
    ]


def test_arithmetic_ends_the_trail(models: Any) -> None:
    assert (
        uses(
            models,
            [node("Add", ["i", "one"], ["a"]), node("Gather", ["w", "a"], ["y"])],
            table("w", 8, 6),
            numbers("one", 1),
        )
        == []
    )


def test_all_uses_are_found(models: Any) -> None:
    nodes = [node("Gather", ["w", "i"], ["y"]), node("Gather", ["v", "i"], ["z"]), node("Equal", ["i", "pad"], ["e"])]
    found = uses(models, nodes, table("w", 8, 6), table("v", 4, 6), numbers("pad", 0))
    assert found == [
        Use("index", "Gather", 8, "w"),
        Use("index", "Gather", 4, "v"),
        Use("compared", "Equal", values=(0,)),
    ]


def test_the_table_may_be_a_constant_node(models: Any) -> None:
    nodes = [node("Constant", [], ["w"], value=table("", 9, 2)), node("Gather", ["w", "i"], ["y"])]
    assert uses(models, nodes) == [Use("index", "Gather", 9, "w")]


def test_the_table_may_be_quantized_cast_or_transposed(models: Any) -> None:
    nodes = [
        node("DequantizeLinear", ["w", "s"], ["d"]),
        node("Transpose", ["d"], ["u"], perm=[1, 0]),
        node("Cast", ["u"], ["c"], to=TensorProto.FLOAT16),
        node("Gather", ["c", "i"], ["y"]),
    ]
    assert uses(models, nodes, numbers("w", np.zeros((3, 11)), "int8"), numbers("s", 1.0, "float32")) == [
        Use("index", "Gather", 11, "c")
    ]


def test_the_table_may_be_another_input(models: Any) -> None:
    assert uses(models, [node("Gather", ["t", "i"], ["y"], axis=1)]) == [Use("index", "Gather", 5, "t")]


def test_a_table_of_unknown_length_has_no_limit(models: Any) -> None:
    assert uses(models, [node("Relu", ["t"], ["r"]), node("Gather", ["r", "i"], ["y"])]) == [
        Use("index", "Gather", None, "r")
    ]


def test_the_table_may_be_known_by_its_type_only(models: Any) -> None:
    model = models.build(
        [node("Relu", ["t"], ["r"]), node("Gather", ["r", "i"], ["y"])], [models.value("i", TensorProto.INT64, [1])]
    )
    model.graph.value_info.append(models.value("r", shape=[13, 2]))
    found = input_uses(parse_model(model.SerializeToString()), ["i"], {"i": (1,)})
    assert found == {"i": [Use("index", "Gather", 13, "r")]}


@pytest.mark.parametrize("operator", ["GatherElements", "ScatterElements"])
def test_elements_are_indexed_along_the_axis(models: Any, operator: str) -> None:
    assert uses(models, [node(operator, ["t", "i", "t"], ["y"], axis=1)]) == [Use("index", operator, 5, "t")]


def test_gather_nd_indexes_several_axes(models: Any) -> None:
    # The last axis of i has 3 places, so three axes of the table are indexed: 8, 6 and 9.
    assert uses(models, [node("GatherND", ["w", "i"], ["y"])], table("w", 8, 6, 9, 2)) == [
        Use("index", "GatherND", 6, "w")
    ]


def test_embedding_layers_index_their_tables(models: Any) -> None:
    layer = ["i", "", "words", "positions", "", "gamma", "beta"]
    nodes = [node("EmbedLayerNormalization", layer, ["y", "m"], domain="com.microsoft")]
    found = uses(models, nodes, table("words", 30, 4), table("positions", 12, 4))
    assert found == [Use("index", "EmbedLayerNormalization", 30, "words")]


def branch(*nodes: onnx.NodeProto, inputs: Any = (), initializers: Any = ()) -> onnx.GraphProto:
    return helper.make_graph(
        list(nodes), "b", list(inputs), [helper.make_tensor_value_info("out", 1, None)], list(initializers)
    )


def test_captures_of_outer_names_are_uses(models: Any) -> None:
    # The branch captures the input and the table; the inner branch has a table of its own under the same name.
    deeper = branch(node("Gather", ["w", "i"], ["out"]), initializers=[table("w", 3, 2)])
    then = branch(node("Gather", ["w", "i"], ["g"]), node("If", ["c"], ["out"], then_branch=deeper, else_branch=deeper))
    otherwise = branch(node("Identity", ["w"], ["out"]))
    found = uses(models, [node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)], table("w", 8, 2))
    assert set(found) == {Use("index", "Gather", 8, "w"), Use("index", "Gather", 3, "w")}


def test_a_name_that_the_branch_makes_itself_is_another(models: Any) -> None:
    inner = branch(node("Abs", ["t"], ["i"]), node("Gather", ["w", "i"], ["out"]))
    assert uses(models, [node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)], table("w", 8, 2)) == []


def test_a_loop_hands_its_inputs_to_its_body(models: Any) -> None:
    state = [helper.make_tensor_value_info(name, TensorProto.INT64, None) for name in ("n", "c", "state")]
    body = branch(node("Gather", ["w", "state"], ["out"]), inputs=state)
    found = uses(models, [node("Loop", ["", "", "i"], ["y"], body=body)], table("w", 8, 2))
    assert found == [Use("index", "Gather", 8, "w")]


def test_functions_hand_their_arguments_on(models: Any) -> None:
    inner = helper.make_function(
        "local", "G", ["p", "q"], ["r"], [node("Gather", ["q", "p"], ["r"])], [helper.make_opsetid("", 17)]
    )
    outer = helper.make_function(
        "local",
        "F",
        ["a", "b"],
        ["c"],
        [node("G", ["b", "a"], ["c"], domain="local")],
        [helper.make_opsetid("local", 1)],
    )
    found = uses(models, [node("F", ["w", "i"], ["y"], domain="local")], table("w", 8, 2), functions=[inner, outer])
    assert found == [Use("index", "Gather", 8, "q")]


def test_functions_that_call_each_other_in_a_circle_end(models: Any) -> None:
    call = [node("F", ["a"], ["b"], domain="local"), node("F", ["a"], ["c"], domain="local")]
    circle = helper.make_function("local", "F", ["a"], ["b"], call, [helper.make_opsetid("local", 1)])
    assert uses(models, [node("F", ["i"], ["y"], domain="local")], functions=[circle]) == []


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Cast", ["i"], ["f"], to=1), node("Sub", ["one", "f"], ["y"])],
        [node("Cast", ["i"], ["f"], to=TensorProto.BOOL), node("Where", ["f", "t", "t"], ["y"])],
        [node("Attention", ["t", "t", "t", "i"], ["y"], domain="com.microsoft", num_heads=1)],
        [node("MultiHeadAttention", ["t", "t", "t", "", "i"], ["y"], domain="com.microsoft", num_heads=1)],
    ],
)
def test_masks_are_recognised_by_their_use(models: Any, nodes: list[onnx.NodeProto]) -> None:
    assert [use.kind for use in uses(models, nodes, numbers("one", 1.0, "float32"))] == ["mask"]


def test_constants_that_are_compared_with(models: Any) -> None:
    nodes = [node("Equal", ["i", "a"], ["x"]), node("Equal", ["b", "i"], ["y"]), node("Equal", ["i", "t"], ["z"])]
    found = uses(models, nodes, numbers("a", 16000), numbers("b", [8000]))
    assert [use.values for use in found] == [(16000,), (8000,)]


def test_the_depth_of_one_hot_bounds_its_indices(models: Any) -> None:
    nodes = [node("OneHot", ["i", "depth", "values"], ["y"])]
    assert uses(models, nodes, numbers("depth", [257]), numbers("values", [0, 1])) == [
        Use("index", "OneHot", 257, "its depth")
    ]


def test_sequence_lengths_end_at_the_axis_of_time(models: Any) -> None:
    nodes = [
        node("LSTM", ["t", "w", "r", "", "i"], ["y"], hidden_size=1),
        node("ReverseSequence", ["t", "i"], ["z"], time_axis=1),
    ]
    assert [(use.kind, use.limit) for use in uses(models, nodes)] == [("length", 7), ("length", 5)]


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (node("TopK", ["t", "i"], ["y", "z"]), "ones"),
        (node("Reshape", ["t", "i"], ["y"]), "reshape"),
        (node("Slice", ["t", "i", "k"], ["y"]), "zeros"),
        (node("DequantizeLinear", ["i", "s"], ["y"]), "quantized"),
    ],
)
def test_arguments_of_operators(models: Any, made: onnx.NodeProto, kind: str) -> None:
    assert [use.kind for use in uses(models, [made])] == [kind]


def test_nodes_with_missing_inputs_are_survived(models: Any) -> None:
    nodes = [
        node("OneHot", ["i"], ["a"]),
        node("Gather", ["i"], ["b"]),
        node("Equal", ["i"], ["c"]),
        node("GatherND", ["", "i"], ["d"]),
    ]
    assert {use.limit for use in uses(models, nodes)} == {None}
