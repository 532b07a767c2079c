"""Operators of any EP through ONNX Runtime's own profile: one record per node of the optimised graph."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from winml.modelkit.session.monitor import ep_monitor, op_metrics
from winml.modelkit.session.monitor.ep_monitor import EPMonitor, TraceContext, TraceFailure
from winml.modelkit.session.monitor.op_metrics import OpKey, OpRecord
from winml.modelkit.session.monitor.ort_profile import Event, Profile, ProfileError, read_profile
from winml.modelkit.session.monitor.source_names import SourceNames


class OrtProfileMonitor(EPMonitor):
    """Node events of ONNX Runtime's profile, mapped to the source graph."""

    name = "onnxruntime profile"
    levels = ("basic",)

    def profile_prefix(self) -> str | None:
        """In the trace folder."""
        return str(self.folder / "onnxruntime")

    def result(self, context: TraceContext) -> dict[str, Any] | TraceFailure:
        """Operators from the profile that the ended session left in the trace folder."""
        file = next(iter(sorted(self.folder.glob("onnxruntime*.json"))), None)
        if file is None:
            return TraceFailure(ep_monitor.NO_FILE, "ONNX Runtime left no profile", [str(self.folder)])
        try:
            profile = read_profile(file, context.warmup)
        except ProfileError as error:
            return TraceFailure(ep_monitor.PARSE, f"ONNX Runtime's profile cannot be read: {error}", [str(file)])
        records, notes = self.records(profile, context)
        if not records:
            return self._why_nothing(profile, file)
        return finish(profile, records, notes, context, ep_busy(profile, self.ep_name), [str(file)])

    def records(self, profile: Profile, context: TraceContext) -> tuple[list[OpRecord], list[str]]:
        """One record per node of the optimised graph; a monitor of an EP's own kernels looks further."""
        return node_records(profile.nodes, self.sources), []

    def _why_nothing(self, profile: Profile, file: Path) -> TraceFailure:
        if not profile.walls_us:
            return TraceFailure(ep_monitor.NO_ROWS, "the profile has no inference after warm-up", [str(file)])
        return TraceFailure(ep_monitor.NO_ROWS, "the profile has inferences without operators", [str(file)])


def node_records(nodes: Iterable[Event], sources: SourceNames) -> list[OpRecord]:
    """One record per node of the optimised graph; an operator's time is its own, nested graphs are counted there."""
    found: dict[OpKey, OpRecord] = {}
    for event in nodes:
        key = OpKey(event.name, str(event.args.get("provider", "")))
        record = found.get(key)
        if record is None:
            kind = event.args.get("op_name")
            shapes = event.args.get("input_type_shape")
            record = found[key] = OpRecord(
                key,
                op_type=kind,
                sources=sources.find(event.name),
                shapes=_shapes(shapes) if shapes else None,
            )
        record.add(event.inference, us=event.self_us)
    return list(found.values())


def _shapes(listed: Any) -> str:
    """``float[1,3,8,8] float[4,3,3,3]``."""
    parts = []
    for item in listed if isinstance(listed, list) else []:
        for kind, shape in item.items() if isinstance(item, Mapping) else ():
            parts.append(f"{kind}{json.dumps(shape, separators=(',', ':'))}")
    return " ".join(parts)


def ep_busy(profile: Profile, ep_name: str) -> dict[int, float]:
    """Microseconds per inference that nodes of one EP took, by their outermost events."""
    busy: dict[int, float] = {}
    for event in profile.nodes:
        if str(event.args.get("provider", "")).startswith(ep_name):
            busy[event.inference] = busy.get(event.inference, 0.0) + event.self_us
    return busy


def finish(
    profile: Profile,
    records: list[OpRecord],
    notes: list[str],
    context: TraceContext,
    busy: dict[int, float],
    artefacts: list[str],
) -> dict[str, Any]:
    """The plain result of a trace that is read from a profile."""
    rows = op_metrics.operator_rows(records)
    times = op_metrics.inference_times(records, profile.walls_us, busy)
    if len(profile.walls_us) != context.iterations:
        notes.append(f"the profile has {len(profile.walls_us)} inferences where {context.iterations} were run")
    notes += op_metrics.check_sums(rows, times, len(profile.walls_us))
    unmapped = [row["name"] for row in rows if not row["sources"] and not row["io"]]
    return {
        "ops": rows,
        "types": op_metrics.type_rows(rows),
        "inferences": [asdict(time) for time in times],
        "partitions": sorted({str(row["partition"]) for row in rows if row["partition"] is not None}),
        "unmapped": unmapped,
        "notes": notes,
        "artefacts": artefacts,
    }
