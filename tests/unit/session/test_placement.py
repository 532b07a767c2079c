"""Sums of node assignments that can be counted by hand."""

from __future__ import annotations

from typing import Any

from winml.modelkit.session.placement import summarise


def node(name: str, op: str) -> dict[str, str]:
    return {"name": name, "op_type": op, "domain": ""}


def group(ep: str, *names: str) -> dict[str, Any]:
    return {"ep": ep, "nodes": [node(name, "Op") for name in names]}


QNN = "QNNExecutionProvider"
CPU = "CPUExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"


def test_b02_partial_placement_counts_nodes_partitions_and_names_what_is_left() -> None:
    groups = [
        group(QNN, "matmul1", "reshape"),
        {"ep": CPU, "nodes": [node("det", "Det")]},
        group(QNN, "mul", "matmul2"),
    ]
    summary = summarise(groups, QNN, aliases=lambda name: name.removesuffix("ExecutionProvider").lower())
    assert (summary["target_nodes"], summary["nodes_total"], summary["target_share"]) == (4, 5, 0.8)
    assert summary["eps"] == [
        {"ep": QNN, "alias": "qnn", "nodes": 4, "share": 0.8, "partitions": 2},
        {"ep": CPU, "alias": "cpu", "nodes": 1, "share": 0.2, "partitions": None},
    ]
    assert summary["leftovers"] == [{"name": "det", "op_type": "Det", "domain": "", "ep": CPU}]


def test_an_ep_that_is_listed_and_takes_no_node_has_none() -> None:
    summary = summarise([group(CPU, "a"), group(CPU, "b")], QNN)
    assert summary["target_nodes"] == 0
    assert summary["target_share"] == 0.0
    assert len(summary["leftovers"]) == 2


def test_a01_meta_name_is_the_same_ep() -> None:
    summary = summarise([group(f"{OPENVINO}.AUTO", "a")], OPENVINO)
    assert summary["target_nodes"] == 1
    assert summary["leftovers"] == []


def test_c08_a_graph_without_nodes_has_no_share() -> None:
    summary = summarise([], CPU)
    assert summary["nodes_total"] == 0
    assert summary["target_share"] is None
