"""Which nodes run where: ONNX Runtime's node assignment, summed up. The only evidence of placement there is.

Source: ``InferenceSession.get_provider_graph_assignment_info()`` with the session config entry
``session.record_ep_graph_assignment_info``. A list of providers is no evidence: it keeps naming EPs on which no node
runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CPU_EP = "CPUExecutionProvider"

RECORD_ASSIGNMENT = ("session.record_ep_graph_assignment_info", "1")


def read_assignment(session: Any) -> list[dict[str, Any]]:
    """The assigned subgraphs as plain data: ``[{"ep": name, "nodes": [{"name", "op_type", "domain"}]}]``."""
    return [
        {
            "ep": group.ep_name,
            "nodes": [
                {"name": node.name, "op_type": node.op_type, "domain": node.domain} for node in group.get_nodes()
            ],
        }
        for group in session.get_provider_graph_assignment_info()
    ]


def summarise(groups: list[dict[str, Any]], target_ep: str, *, aliases: Callable[[str], str] = str) -> dict[str, Any]:
    """Sum up the assigned subgraphs.

    Args:
        groups: what ``read_assignment`` gives.
        target_ep: canonical name of the EP that was meant to run the model.
        aliases: short name of an EP name.

    Returns:
        ``nodes_total``; ``eps``: per EP nodes, share of all nodes (0 to 1) and partitions (None for the CPU EP, which
        takes nodes one by one); ``target_nodes`` and ``target_share``; ``leftovers``: nodes on another EP than the
        target, with name, op type, domain and EP. A node that ONNX Runtime made itself carries the name it gave it.
    """
    counts: dict[str, int] = {}
    partitions: dict[str, int] = {}
    leftovers: list[dict[str, Any]] = []
    for group in groups:
        ep = group["ep"]
        counts[ep] = counts.get(ep, 0) + len(group["nodes"])
        partitions[ep] = partitions.get(ep, 0) + 1
        if not _serves(ep, target_ep):
            leftovers.extend({**node, "ep": ep} for node in group["nodes"])
    total = sum(counts.values())
    target = sum(count for ep, count in counts.items() if _serves(ep, target_ep))
    return {
        "evidence": "onnxruntime node assignment",
        "nodes_total": total,
        "target_ep": target_ep,
        "target_nodes": target,
        "target_share": target / total if total else None,
        "eps": [
            {
                "ep": ep,
                "alias": aliases(ep),
                "nodes": counts[ep],
                "share": counts[ep] / total if total else None,
                "partitions": None if ep == CPU_EP else partitions[ep],
            }
            for ep in sorted(counts, key=lambda name: -counts[name])
        ],
        "leftovers": leftovers,
    }


def _serves(ep: str, target_ep: str) -> bool:
    """``X`` and its meta name ``X.AUTO`` are one EP."""
    return ep == target_ep or ep.startswith(target_ep + ".")
