"""The document of ``winml perf``: what was asked for, what was done, where, how fast, and what went wrong."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from winml.modelkit.documents import Document, ErrorInfo, Library, Machine, Notice

SCHEMA: Literal["winml.perf/1"] = "winml.perf/1"


class PerfRequested(Document, kw_only=True):
    """Every option as it was given; null where it was left out.

    ``dims`` and ``shapes`` hold every size and shape that was given for a name, in that order.
    """

    model: str
    ep: str | None = None
    device: str | None = None
    ep_path: list[str] = msgspec.field(default_factory=list)
    ep_options: dict[str, str] = msgspec.field(default_factory=dict)
    emulate: bool = False
    strict: bool = False
    min_placement: float | None = None
    iterations: int | None = None
    warmup: int | None = None
    duration_s: float | None = None
    dims: dict[str, list[int]] = msgspec.field(default_factory=dict)
    shapes: dict[str, list[list[int]]] = msgspec.field(default_factory=dict)
    batch_size: int | None = None
    input_data: str | None = None
    seed: int | None = None
    io_binding: bool | None = None
    threads: int | None = None
    memory: bool = True
    inference_precision: str | None = None
    custom_ops: list[str] = msgspec.field(default_factory=list)
    timeout_s: float | None = None
    op_tracing: str | None = None
    monitor: bool = False


class ModelFile(Document, kw_only=True):
    """The file that was run. ``sha256`` covers the .onnx file; its external data files are hashed one by one."""

    path: str
    name: str
    bytes: int
    sha256: str | None = None
    external_data: list[dict[str, Any]] = msgspec.field(default_factory=list)
    ir_version: int | None = None
    opsets: dict[str, int] = msgspec.field(default_factory=dict)
    producer: str | None = None


class Target(Document, kw_only=True):
    """The EP and device that ran. ``device`` is the class the run stands for; with ``emulated`` it ran elsewhere."""

    ep: str
    alias: str
    device: str
    device_name: str | None
    emulated: bool
    listed_device: str
    library: Library
    device_facts: dict[str, str | None] = msgspec.field(default_factory=dict)


class Precision(Document, kw_only=True):
    """In which precision kernels computed. ``effective`` is null where there is no evidence, with the reason.

    ``honoured`` says whether a precision that was asked for was kept to, null where nothing was asked or is known.
    """

    requested: str | None
    effective: str | None
    evidence: str
    shares: dict[str, float] | None = None
    honoured: bool | None = None


class FedInput(Document, kw_only=True):
    """One input as it was fed."""

    dtype: str
    shape: list[int]
    origin: str


class PerfEffective(Document, kw_only=True):
    """What was really done."""

    model: ModelFile
    target: Target | None = None
    rule: str | None = None
    passed_over: list[dict[str, str]] = msgspec.field(default_factory=list)
    ep_options: dict[str, str] = msgspec.field(default_factory=dict)
    iterations: int | None = None
    warmup: int | None = None
    duration_s: float | None = None
    inputs: dict[str, FedInput] = msgspec.field(default_factory=dict)
    dims: dict[str, int] = msgspec.field(default_factory=dict)
    dims_fixed_in_session: bool = False
    batch_size: int | None = None
    input_data: str | None = None
    seed: int | None = None
    threads: int | None = None
    threads_rule: str | None = None
    precision: Precision | None = None
    strict: bool = False
    io_binding: bool = False


class PlacedEP(Document, kw_only=True):
    """Nodes on one EP; ``partitions`` is null for the CPU EP, which takes nodes one by one."""

    ep: str
    alias: str
    nodes: int
    share: float | None
    partitions: int | None


class Placement(Document, kw_only=True):
    """ONNX Runtime's node assignment, summed up."""

    evidence: str
    nodes_total: int
    target_ep: str
    target_nodes: int
    target_share: float | None
    eps: list[PlacedEP]
    leftovers: list[dict[str, str]]


class Latency(Document, kw_only=True):
    """Milliseconds per inference over ``n`` samples; percentiles interpolate linearly between samples.

    A percentile that ``n`` samples cannot carry is null and listed in ``unsupported`` with the number it needs.
    """

    n: int
    mean: float
    min: float
    p50: float
    p90: float | None
    p95: float | None
    p99: float | None
    max: float
    stdev: float | None
    unsupported: dict[str, int] = msgspec.field(default_factory=dict)


class Throughput(Document, kw_only=True):
    """Inferences per second of summed latency, and samples per second where a batch dimension is known."""

    inferences_per_s: float
    samples_per_s: float | None
    batch_size: int | None


class Phases(Document, kw_only=True):
    """Milliseconds spent in each phase, apart from one another."""

    import_runtime: float
    register: float | None
    session: float
    first_run: float
    warmup: float
    measure: float


class MemoryStage(Document, kw_only=True):
    """Resident bytes of the worker process at one point."""

    stage: str
    rss_bytes: int | None


class Memory(Document, kw_only=True):
    """Resident memory of the worker process by stage; the peak is that of the measured runs."""

    stages: list[MemoryStage]
    peak_bytes: int | None
    peak_method: str


class Noise(Document, kw_only=True):
    """Whether the samples can be trusted.

    ``iqr_over_median`` is the interquartile range over the median, ``drift`` the median of the last third over that
    of the first third minus 1, ``other_cpus`` how many CPUs other processes used meanwhile on average, ``steal`` the
    share of CPU time the hypervisor took. ``verdict`` is null where there are too few samples to judge.
    """

    verdict: Literal["stable", "noisy", "drifting"] | None
    reasons: list[str]
    iqr_over_median: float | None
    drift: float | None
    other_cpus: float | None
    steal: float | None
    start: dict[str, Any]
    end: dict[str, Any]


class ShapeRun(Document, kw_only=True):
    """Steady state and first run at one set of shapes, within the same session."""

    inputs: dict[str, FedInput]
    dims: dict[str, int]
    batch_size: int | None
    first_run_ms: float
    latency_ms: Latency
    throughput: Throughput
    noise: Noise
    samples_ms: list[float]


class PerfResult(Document, kw_only=True):
    """The figures of the measured runs."""

    latency_ms: Latency
    throughput: Throughput
    phases_ms: Phases
    memory: Memory | None
    noise: Noise
    samples_ms: list[float]
    by_shape: list[ShapeRun] | None = None


class TraceOp(Document, kw_only=True):
    """One operator of a trace.

    ``sources`` are ONNX node names, empty where they are not known; ``samples`` is the number of traced inferences it
    ran in, ``calls`` how often in all; ``share`` is of the traced time. Cycles are given where the accelerator counts
    them; ``derived`` says that the microseconds were made from them. ``io`` rows move data and compute nothing.
    """

    name: str
    op_type: str | None
    kernel: str | None
    ep: str
    partition: str | None
    sources: list[str]
    io: bool
    shapes: str | None
    samples: int
    calls: int
    total_us: float | None
    mean_us: float | None
    p50_us: float | None
    share: float | None
    total_cycles: float | None
    mean_cycles: float | None
    p50_cycles: float | None
    derived: bool


class TraceType(Document, kw_only=True):
    """Operators of one type on one EP, summed up."""

    ep: str
    op_type: str | None
    operators: int
    calls: int
    total_us: float | None
    total_cycles: float | None
    share: float | None


class TraceInference(Document, kw_only=True):
    """One traced inference, in microseconds: from outside, what the EP says, the operators' sum, and the rest."""

    wall_us: float
    ep_us: float | None
    traced_us: float | None
    outside_us: float | None


class TraceOverhead(Document, kw_only=True):
    """What tracing costs: medians of the same model without and with it, in milliseconds, and their ratio."""

    untraced_p50_ms: float
    traced_p50_ms: float
    ratio: float


class Trace(Document, kw_only=True):
    """Where the time goes, operator by operator.

    The latency figures of the report come from untraced runs. With ``status`` failed there is no operator data, and
    ``cause`` (a stable code), ``reason``, ``hint`` and ``evidence`` say why.
    """

    status: Literal["ok", "failed"]
    requested_level: str
    level: str
    monitor: str
    ep: str
    emulated: bool = False
    iterations: int = 0
    warmup: int = 0
    ops: list[TraceOp] = msgspec.field(default_factory=list)
    types: list[TraceType] = msgspec.field(default_factory=list)
    inferences: list[TraceInference] = msgspec.field(default_factory=list)
    partitions: list[str] = msgspec.field(default_factory=list)
    unmapped: list[str] = msgspec.field(default_factory=list)
    notes: list[str] = msgspec.field(default_factory=list)
    artefacts: list[str] = msgspec.field(default_factory=list)
    overhead: TraceOverhead | None = None
    cause: str | None = None
    reason: str | None = None
    hint: str | None = None
    evidence: list[str] = msgspec.field(default_factory=list)


class Counter(Document, kw_only=True):
    """One hardware counter over time; ``values`` stand beside the series' ``times_s``, null where a reading failed.

    ``reason`` says why the counter does not exist here; it then has no values and is never 0.
    """

    unit: str
    source: str | None
    values: list[float | None] = msgspec.field(default_factory=list)
    mean: float | None = None
    peak: float | None = None
    reason: str | None = None


class Hardware(Document, kw_only=True):
    """Hardware counters sampled from outside the worker, by name; times in seconds since the first sample.

    ``phases`` are the phases of the run: (name, second at which it began).
    """

    interval_s: float
    times_s: list[float]
    counters: dict[str, Counter]
    phases: list[tuple[str, float]] = msgspec.field(default_factory=list)


class PerfDocument(Document, kw_only=True):
    """``winml perf --format json``."""

    schema: Literal["winml.perf/1"] = SCHEMA
    status: Literal["ok", "failed", "interrupted"] = "ok"
    summary: str = ""
    command: list[str] = msgspec.field(default_factory=list)
    started: str = ""
    requested: PerfRequested
    effective: PerfEffective | None = None
    placement: Placement | None = None
    environment: Machine
    result: PerfResult | None = None
    trace: Trace | None = None
    hardware: Hardware | None = None
    warnings: list[Notice] = msgspec.field(default_factory=list)
    error: ErrorInfo | None = None
