"""OpenVINO's kernels, from the ``Kernel`` events the plugin adds to ONNX Runtime's profile.

Each is a child of a fused node (``args.parent_ort_event_name``) and carries ``ov_node_type`` and ``ov_exec_type``. The
kernels replace their fused node; nodes left to the CPU EP are operators beside them. Needs onnxruntime 1.25 and
plugin 1.8; ``PERF_COUNT`` in ``load_config`` makes no difference.

On the CPU device a kernel's ``dur`` is the running average over all its executions since the model was compiled, in
whole microseconds (seen with plugin 1.8.1: the sums follow the fused node's duration only when worked back). With v the
value of the n-th execution, that execution took ``n v(n) - (n - 1) v(n - 1)``. Rounding makes that as uncertain as n/2
microseconds, which cancels out in totals and means, and not in single executions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from winml.modelkit.session.monitor import ep_monitor
from winml.modelkit.session.monitor.ep_monitor import TraceContext, TraceFailure
from winml.modelkit.session.monitor.op_metrics import OpKey, OpRecord
from winml.modelkit.session.monitor.ort_profile import Event, Profile
from winml.modelkit.session.monitor.ort_profile_monitor import OrtProfileMonitor, node_records

_FINE = 0.1
"""How much of a kernel's mean its resolution may be, so that a median still means something."""

_PARTITION = re.compile(r"_(\d+)_\d+_kernel_time$")
# OpenVINO's own moves between layouts and at the edges of the graph; they stand for no ONNX node.
_MOVES = {"Reorder", "Input", "Output", "Parameter", "Result", "Convert"}


class OpenVINOMonitor(OrtProfileMonitor):
    """Kernels inside OpenVINO's fused nodes, and what was left to the CPU EP beside them."""

    name = "OpenVINO kernel records"
    levels = ("basic",)

    def records(self, profile: Profile, context: TraceContext) -> tuple[list[OpRecord], list[str]]:
        """Kernels by partition, and the nodes of other EPs."""
        ours = [
            event
            for event in sorted((*profile.warm_kernels, *profile.kernels), key=lambda item: item.inference)
            if str(event.args.get("ep", "")).startswith(self.ep_name)
        ]
        # Some events name the executor as their parent; the other events of that kernel know the partition.
        known: dict[str, set[str]] = {}
        for event in ours:
            if (number := partition_of(event)) is not None:
                known.setdefault(event.name, set()).add(number)
        by_key: dict[OpKey, list[Event]] = {}
        for event in ours:
            candidates = known.get(event.name, set())
            partition = partition_of(event) or (next(iter(candidates)) if len(candidates) == 1 else None)
            by_key.setdefault(OpKey(event.name.removeprefix("OV::"), self.ep_name, partition), []).append(event)
        averaged = context.device == "cpu"
        runs = (profile.warmup, profile.warmup + len(profile.walls_us))
        found = [
            record for key, events in by_key.items() if (record := self._record(key, events, averaged, runs)).calls
        ]
        if not found:
            return [], []
        others = [event for event in profile.nodes if not self._is_ours(event)]
        notes = []
        if averaged:
            notes.append(
                "OpenVINO gives running averages of its CPU kernels in whole microseconds; times are worked back from "
                f"them, so a median is given only for kernels that take much longer than {runs[1] / 2:.0f} µs"
            )
        unmapped = [record.key.name for record in found if not record.sources and not record.io]
        if unmapped:
            notes.append(
                f"{len(unmapped)} of {len(found)} kernels stand for nodes that OpenVINO fused or made under names of "
                "its own; they are not mapped to ONNX nodes"
            )
        return [*found, *node_records(others, self.sources)], notes

    def _record(self, key: OpKey, events: list[Event], averaged: bool, runs: tuple[int, int]) -> OpRecord:
        warmup, total = runs
        kind = events[0].args.get("ov_node_type")
        record = OpRecord(
            key,
            op_type=kind,
            kernel=events[0].args.get("ov_exec_type"),
            sources=self.sources.find(key.name),
            io=kind in _MOVES,
        )
        if averaged:
            # A kernel whose average rounds to 0 has no event in that inference.
            seen = {event.inference + warmup: event.end - event.start for event in events}
            single = work_back([seen.get(index, 0.0) for index in range(total)])[warmup:]
            if sum(single) < 0:
                single = [0.0] * len(single)
            kept = list(enumerate(single))
        else:
            kept = [(event.inference, event.end - event.start) for event in events if event.inference >= 0]
        for inference, us in kept:
            record.add(inference, us=us)
        # The rounding of an average over n executions is worth n/2 microseconds in a single one.
        record.coarse = averaged and total / 2 * len(kept) > _FINE * sum(us for _, us in kept)
        return record

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


def work_back(averages: Sequence[float]) -> list[float]:
    """Single values behind running averages.

    >>> work_back([10.0, 15.0, 12.0])
    [10.0, 20.0, 6.0]
    """
    single = []
    before = 0.0
    for count, average in enumerate(averages, 1):
        total = average * count
        single.append(total - before)
        before = total
    return single


def partition_of(event: Event) -> str | None:
    """The partition's number, from the fused node's name ``..._<hash>_<partition>_<index>_kernel_time``."""
    found = _PARTITION.search(str(event.args.get("parent_ort_event_name", "")))
    return found.group(1) if found else None
