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


class PerfResult(Document, kw_only=True):
    """The figures of the measured runs."""

    latency_ms: Latency
    throughput: Throughput
    phases_ms: Phases
    memory: Memory | None
    noise: Noise
    samples_ms: list[float]
    by_shape: list[ShapeRun] | None = None


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
    warnings: list[Notice] = msgspec.field(default_factory=list)
    error: ErrorInfo | None = None
