"""From what the worker sent to the figures of the document, and the judgement of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from winml.modelkit.documents import ErrorInfo, Notice
from winml.modelkit.errors import EvidenceShortfall, Interrupted, WinMLError
from winml.modelkit.perf import statistics
from winml.modelkit.perf.document import (
    FedInput,
    Latency,
    Noise,
    PerfDocument,
    PerfResult,
    Placement,
    Precision,
    ShapeRun,
    Target,
    Throughput,
)


def build_result(answer: dict[str, Any], batches: list[int | None], sampled_peak: int | None) -> PerfResult:
    """The figures of one job.

    Args:
        answer: what ``perf.job.run`` returned.
        batches: batch size by set of shapes, None where no batch dimension is known.
        sampled_peak: peak resident bytes seen from outside, where the worker could not tell its own.
    """
    runs = answer["runs"]
    first = runs[0]
    memory = answer["memory"]
    if memory is not None and memory["peak_bytes"] is None and sampled_peak is not None:
        memory = {**memory, "peak_bytes": sampled_peak, "peak_method": "sampled from outside every 20 ms"}
    by_shape = None
    if len(runs) > 1:
        by_shape = [_shape_run(run, batch) for run, batch in zip(runs, batches, strict=True)]
    return msgspec.convert(
        {
            "latency_ms": statistics.summarise(first["samples_ms"]),
            "throughput": statistics.throughput(first["samples_ms"], batches[0]),
            "phases_ms": answer["phases_ms"],
            "memory": memory,
            "noise": statistics.judge_noise(first["samples_ms"], first["load_start"], first["load_end"]),
            "samples_ms": first["samples_ms"],
            "by_shape": by_shape,
        },
        PerfResult,
        from_attributes=True,
    )


def _shape_run(run: dict[str, Any], batch: int | None) -> ShapeRun:
    return ShapeRun(
        inputs=msgspec.convert(run["inputs"], dict[str, FedInput]),
        dims=run["dims"],
        batch_size=batch,
        first_run_ms=run["first_run_ms"],
        latency_ms=msgspec.convert(statistics.summarise(run["samples_ms"]), Latency),
        throughput=msgspec.convert(statistics.throughput(run["samples_ms"], batch), Throughput),
        noise=msgspec.convert(statistics.judge_noise(run["samples_ms"], run["load_start"], run["load_end"]), Noise),
        samples_ms=run["samples_ms"],
    )


def target_name(target: Target) -> str:
    """``OpenVINO (CPU)``, ``QNN (NPU, EMULATED)``, ``CPU``."""
    name = target.ep.removesuffix("ExecutionProvider")
    if name.casefold() == target.device:
        return name
    return f"{name} ({target.device.upper()}{', EMULATED' if target.emulated else ''})"


def summarise(document: PerfDocument) -> str:
    """What happened, in one line."""
    target = document.effective.target if document.effective else None
    parts: list[str] = []
    if document.placement is not None:
        parts.append(f"{document.placement.target_nodes}/{document.placement.nodes_total} nodes")
    if document.result is not None:
        parts.append(f"p50 {format_ms(document.result.latency_ms.p50)}")
        throughput = document.result.throughput
        if throughput.samples_per_s is not None:
            parts.append(f"{_rate(throughput.samples_per_s)} samples/s")
        else:
            parts.append(f"{_rate(throughput.inferences_per_s)} inferences/s")
        if document.result.noise.verdict in ("noisy", "drifting"):
            parts.append(str(document.result.noise.verdict))
    if document.error is not None:
        parts.append(f"failed: {document.error.code}")
    return (f"{target_name(target)}: " if target else "") + " · ".join(parts)


def format_ms(value: float) -> str:
    """Three significant digits with a unit: ``6.12 ms``, ``20.1 µs``, ``1.50 s``."""
    if value < 0.1:
        return f"{value * 1000:.3g} µs"
    if value < 1000:
        return f"{value:.3g} ms" if value < 100 else f"{value:.0f} ms"
    return f"{value / 1000:.3g} s" if value < 100_000 else f"{value / 1000:.0f} s"


def _rate(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def note_failure(document: PerfDocument, error: WinMLError) -> None:
    """Put a failure into the document, beside what is there already; an earlier failure keeps its place."""
    if document.error is not None:
        document.warnings.append(Notice(code=error.code, message=error.reason))
        return
    fields = {key: value for key, value in error.to_dict().items() if key != "kind"}
    document.error = msgspec.convert(fields, ErrorInfo)
    document.status = "interrupted" if isinstance(error, Interrupted) else "failed"
    document.summary = summarise(document)


def shortfall(
    placement: Placement,
    precision: Precision | None,
    *,
    explicit: bool,
    min_placement: float | None,
    open_dims: Mapping[str, int] | None = None,
) -> WinMLError | None:
    """What the run promised and did not prove, or None.

    Args:
        placement: where the nodes stand.
        precision: in which precision kernels computed.
        explicit: the EP or the device was named, so that a run on another EP is no success.
        min_placement: percentage of nodes demanded on the target.
        open_dims: symbolic dimensions that were not fixed in the session, with the sizes that were fed.
    """
    name = placement.target_ep.removesuffix("ExecutionProvider")
    details = {"target_nodes": placement.target_nodes, "nodes_total": placement.nodes_total}
    if explicit and placement.target_nodes == 0 and placement.nodes_total > 0:
        hint = "a fixed shape, a quantised model or another opset may help; the native log may have the EP's reasons"
        if open_dims:
            sizes = " ".join(f"--dim {dim}={size}" for dim, size in open_dims.items())
            hint = f"the model's shape is open, and plugins want it fixed: {sizes}; else {hint}"
        return EvidenceShortfall(
            f"no node runs on {name}: all {placement.nodes_total} were left to the CPU EP",
            code="nothing_placed",
            hint=hint,
            details={**details, "open_dims": dict(open_dims or {})},
        )
    percent = 100.0 * (placement.target_share or 0.0) if placement.nodes_total else 100.0
    if min_placement is not None and percent < min_placement:
        left = placement.leftovers
        shown = ", ".join(f"{node['op_type']} ({node['name'] or 'unnamed'})" for node in left[:8])
        return EvidenceShortfall(
            f"{percent:.1f}% of the nodes run on {name}, less than the {min_placement:g}% demanded; "
            f"elsewhere: {shown}{' ...' if len(left) > 8 else ''}",
            code="placement_below_minimum",
            hint="placement.leftovers in the report lists every node",
            details=details,
        )
    if precision is None or precision.requested is None:
        return None
    if precision.honoured is None:
        return EvidenceShortfall(
            f"asked to compute in {precision.requested}, and nothing proves that {name} did ({precision.evidence})",
            code="precision_not_proven",
            hint="leave --inference-precision out to accept what it does",
            details={"requested": precision.requested, "evidence": precision.evidence},
        )
    if precision.honoured is False:
        shares = ", ".join(f"{share:.0%} {kind}" for kind, share in (precision.shares or {}).items())
        return EvidenceShortfall(
            f"asked to compute in {precision.requested}, {name} computed in {precision.effective} (by time: {shares})",
            code="precision_not_honoured",
            hint="this device may not have that type; leave --inference-precision out to accept what it does",
            details={"requested": precision.requested, "effective": precision.effective, "shares": precision.shares},
        )
    return None
