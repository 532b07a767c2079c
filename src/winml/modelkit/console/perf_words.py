"""Facts of ``winml perf`` put into words, the same in the text report and in the HTML report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from winml.modelkit.console.layout import ABSENT
from winml.modelkit.console.words import absent, percent, rate, size
from winml.modelkit.perf.document import (
    FedInput,
    Memory,
    Noise,
    PerfDocument,
    PerfEffective,
    Phases,
    Target,
    Throughput,
)

__all__ = [
    "STATISTICS",
    "Unit",
    "differences",
    "emulation",
    "library_line",
    "memory_rows",
    "noise_facts",
    "passed_over",
    "phase_times",
    "settings",
    "shape",
    "shapes",
    "throughput_words",
]

STATISTICS = ("mean", "min", "p50", "p90", "p95", "p99", "max", "stdev")
"""Fields of ``Latency`` in the order they are shown."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit and one number of decimals for a whole table, so that its figures line up."""

    name: str
    per_ms: float
    decimals: int

    @classmethod
    def of(cls, p50_ms: float) -> Unit:
        """The unit that gives this median three significant digits."""
        name, per_ms = ("µs", 1000.0) if p50_ms < 0.1 else ("ms", 1.0) if p50_ms < 1000 else ("s", 0.001)
        digits = math.floor(math.log10(p50_ms * per_ms)) if p50_ms > 0 else 0
        return cls(name, per_ms, max(0, 2 - digits))

    def text(self, value_ms: float) -> str:
        """The value without its unit."""
        return f"{value_ms * self.per_ms:.{self.decimals}f}"


def emulation(target: Target) -> str:
    """What an emulated run is worth."""
    return (
        f"EMULATED: no {target.device} here; {target.alias}'s emulator ran on the {target.listed_device}. "
        "Its timings say nothing about real hardware."
    )


def library_line(target: Target) -> str:
    """``onnxruntime-ep-openvino 1.8.1 from pypi``."""
    library = target.library
    version = library.package_version or library.plugin_version or library.file_version
    of = f"{library.distribution or 'library'} {absent(version)}"
    return f"{of} from {library.source}" if library.path else f"{of}, bundled"


def passed_over(items: Sequence[dict[str, str]]) -> list[str]:
    """``OpenVINO on npu, gpu: why not``: one line per EP and reason."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for item in items:
        key = (item["ep"].removesuffix("ExecutionProvider"), item["reason"])
        grouped.setdefault(key, []).append(item["device"])
    return [f"{name} on {', '.join(devices)}: {reason}" for (name, reason), devices in grouped.items()]


def differences(document: PerfDocument) -> Iterator[tuple[str, str, str]]:
    """Options that were given and came out otherwise: name, what was asked, what was done."""
    effective = document.effective
    if effective is None:
        return
    asked = document.requested
    target = effective.target
    pairs: list[tuple[str, Any, Any]] = [
        ("--iterations", asked.iterations, effective.iterations),
        ("--warmup", asked.warmup, effective.warmup),
        ("--batch-size", asked.batch_size, effective.batch_size),
        ("--threads", asked.threads, effective.threads),
        ("--seed", asked.seed, effective.seed),
        ("--io-binding", asked.io_binding, effective.io_binding),
        ("--strict", asked.strict or None, effective.strict),
        ("--input-data", asked.input_data, effective.input_data),
    ]
    if target is not None and asked.device not in (None, "auto"):
        pairs.append(("--device", str(asked.device).casefold(), target.listed_device))
    precision = effective.precision
    if precision is not None and precision.requested not in (None, "auto"):
        pairs.append(("--inference-precision", precision.requested, precision.effective))
    for key, value in asked.ep_options.items():
        pairs.append((f"--ep-options {key}", value, effective.ep_options.get(key)))
    if document.result is None:  # not all of it came to be done
        pairs = [pair for pair in pairs if pair[0] == "--device"]
    for name, wanted, done in pairs:
        if wanted is not None and wanted != done:
            yield name, str(wanted), "not known" if done is None else str(done)


def shape(item: FedInput) -> str:
    """``1x3x224x224``."""
    return "x".join(map(str, item.shape)) if item.shape else "scalar"


def shapes(inputs: dict[str, FedInput]) -> str:
    """``image 1x3x224x224, mask 1x16``."""
    return ", ".join(f"{name} {shape(item)}" for name, item in inputs.items())


def throughput_words(throughput: Throughput) -> str:
    """Inferences per second, and samples per second where a batch is known."""
    text = f"{rate(throughput.inferences_per_s)} inferences/s"
    if throughput.samples_per_s is not None and throughput.batch_size is not None:
        text += f", {rate(throughput.samples_per_s)} samples/s at batch size {throughput.batch_size}"
    return text


def phase_times(phases: Phases) -> list[tuple[str, float]]:
    """Name and milliseconds of every phase that there was, in order."""
    named = [
        ("import runtime", phases.import_runtime),
        ("register", phases.register),
        ("session", phases.session),
        ("first run", phases.first_run),
        ("warm-up", phases.warmup),
        ("measure", phases.measure),
    ]
    return [(name, value) for name, value in named if value is not None]


def memory_rows(memory: Memory) -> Iterator[tuple[str, int | None, str, str]]:
    """Stage, resident bytes, the same in words, and the change to the stage before; the peak comes last."""
    before: int | None = None
    for stage in memory.stages:
        yield _memory_row(stage.stage, stage.rss_bytes, before, "the system gave no figure")
        before = stage.rss_bytes
    yield _memory_row(f"peak while running ({memory.peak_method})", memory.peak_bytes, before, "")


def _memory_row(stage: str, value: int | None, before: int | None, why: str) -> tuple[str, int | None, str, str]:
    if value is None:
        return stage, None, "n/a", why or ABSENT
    change = ABSENT if before is None else f"{'+' if value >= before else '-'}{size(abs(value - before))}"
    return stage, value, size(value), change


def settings(effective: PerfEffective) -> Iterator[tuple[str, str]]:
    """Name and value of every setting the run had; the name is empty where the value is a sentence."""
    precision = effective.precision
    if precision is None:
        yield "precision", "not known"
    else:
        asked = f", asked for {precision.requested}" if precision.requested else ""
        shares = precision.shares or {}
        mix = ", ".join(f"{name} {percent(share)}" for name, share in shares.items()) if len(shares) > 1 else ""
        why = "; ".join(filter(None, (mix, precision.evidence)))
        yield "precision", f"{precision.effective or 'not known'}{asked} ({why})"
    rule = f" ({effective.threads_rule})" if effective.threads_rule else ""
    yield "threads", f"{absent(effective.threads)}{rule}"
    yield "runs", f"{absent(effective.iterations)} measured after {absent(effective.warmup)} for warm-up"
    if effective.ep_options:
        yield "EP options", ", ".join(f"{key}={value}" for key, value in effective.ep_options.items())
    if effective.dims:
        fixed = ", fixed in the session" if effective.dims_fixed_in_session else ""
        yield "dimensions", f"{', '.join(f'{key}={value}' for key, value in effective.dims.items())}{fixed}"
    if effective.batch_size is not None:
        yield "batch size", str(effective.batch_size)
    if effective.io_binding:
        yield "", "inputs and outputs are bound once (--io-binding)"
    if effective.strict:
        yield "", "strict: no node may fall back to the CPU; not comparable with a run that allows it"


def noise_facts(noise: Noise) -> list[tuple[str, str]]:
    """What the verdict on noise stands on, ``n/a`` where it is not known."""
    facts = [
        ("IQR over median", percent(noise.iqr_over_median), noise.iqr_over_median),
        ("drift", percent(noise.drift, signed=True), noise.drift),
        ("CPUs used by others", f"{noise.other_cpus or 0:.2f}", noise.other_cpus),
        ("steal", percent(noise.steal), noise.steal),
    ]
    return [(name, "n/a" if raw is None else text) for name, text, raw in facts]
