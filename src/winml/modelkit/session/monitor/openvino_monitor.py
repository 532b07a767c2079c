"""OpenVINO's kernels, from the ``Kernel`` events the plugin adds to ONNX Runtime's profile.

Each is a child of a fused node (``args.parent_ort_event_name``) and carries ``ov_node_type`` and ``ov_exec_type``. The
kernels replace their fused node; nodes left to the CPU EP are operators beside them. Needs onnxruntime 1.25 and
plugin 1.8; ``PERF_COUNT`` in ``load_config`` makes no difference.
"""

from __future__ import annotations

import re

from winml.modelkit.session.monitor import ep_monitor
from winml.modelkit.session.monitor.ep_monitor import TraceFailure
from winml.modelkit.session.monitor.op_metrics import OpKey, OpRecord
from winml.modelkit.session.monitor.ort_profile import Event, Profile
from winml.modelkit.session.monitor.ort_profile_monitor import OrtProfileMonitor, node_records

_PARTITION = re.compile(r"_(\d+)_\d+_kernel_time$")
# OpenVINO's own moves between layouts and at the edges of the graph; they stand for no ONNX node.
_MOVES = {"Reorder", "Input", "Output", "Parameter", "Result", "Convert"}


class OpenVINOMonitor(OrtProfileMonitor):
    """Kernels inside OpenVINO's fused nodes, and what was left to the CPU EP beside them."""

    name = "OpenVINO kernel records"
    levels = ("basic",)

    def records(self, profile: Profile) -> tuple[list[OpRecord], list[str]]:
        """Kernels by partition, and the nodes of other EPs."""
        found: dict[OpKey, OpRecord] = {}
        for event in profile.kernels:
            if not str(event.args.get("ep", "")).startswith(self.ep_name):
                continue
            key = OpKey(event.name.removeprefix("OV::"), self.ep_name, partition_of(event))
            record = found.get(key)
            if record is None:
                kind = event.args.get("ov_node_type")
                record = found[key] = OpRecord(
                    key,
                    op_type=kind,
                    kernel=event.args.get("ov_exec_type"),
                    sources=self.sources.find(event.name),
                    io=kind in _MOVES,
                )
            record.add(event.inference, us=event.end - event.start)
        if not found:
            return [], []
        others = [event for event in profile.nodes if not self._is_ours(event)]
        notes = []
        unmapped = [record.key.name for record in found.values() if not record.sources and not record.io]
        if unmapped:
            notes.append(
                f"{len(unmapped)} of {len(found)} kernels stand for nodes that OpenVINO fused or made under names of "
                "its own; they are not mapped to ONNX nodes"
            )
        return [*found.values(), *node_records(others, self.sources)], notes

    def _is_ours(self, event: Event) -> bool:
        return str(event.args.get("provider", "")).startswith(self.ep_name)

    def _why_nothing(self, profile: Profile, file: object) -> TraceFailure:
        ours = [event for event in profile.nodes if self._is_ours(event)]
        if not ours:
            return TraceFailure(
                ep_monitor.NO_NODE, "no node runs on OpenVINO, so there are no kernels to time", [str(file)]
            )
        return TraceFailure(
            ep_monitor.NO_ROWS,
            "the profile has OpenVINO's fused nodes and no kernel records below them; "
            "they need onnxruntime 1.25 and onnxruntime-ep-openvino 1.8",
            [str(file), *sorted({event.name for event in ours})[:5]],
        )


def partition_of(event: Event) -> str | None:
    """The partition's number, from the fused node's name ``..._<hash>_<partition>_<index>_kernel_time``."""
    found = _PARTITION.search(str(event.args.get("parent_ort_event_name", "")))
    return found.group(1) if found else None
