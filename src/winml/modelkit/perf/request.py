"""What ``winml perf`` was asked to do, as plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from winml.modelkit.errors import UsageError
from winml.modelkit.perf.loop import MAX_SAMPLES

DEFAULT_ITERATIONS = 100
DEFAULT_WARMUP = 10
MAX_THREADS = max(256, os.cpu_count() or 1)
"""Threads spin while they wait: far more than there are CPUs look like a hang."""

INFERENCE_PRECISIONS = ("auto", "fp32", "bf16", "fp16")


@dataclass(frozen=True, slots=True)
class PerfRequest:
    """One ``perf`` request. None means "not given"; the document reports it so.

    Attributes:
        model: as the user wrote it: path, folder or bundled sample.
        ep, device: names in any form, or None.
        dims: sizes by symbolic dimension; several sizes make several runs in one session.
        shapes: shapes by input name; several shapes make several runs in one session.
        min_placement: percentage of nodes (0 to 100) that must stand on the target.
        duration_s, timeout_s: seconds.

    Raises:
        UsageError: a number that makes no sense.
    """

    model: str
    ep: str | None = None
    device: str | None = None
    ep_path: tuple[str, ...] = ()
    ep_options: Mapping[str, str] = field(default_factory=dict)
    emulate: bool = False
    strict: bool = False
    min_placement: float | None = None
    iterations: int | None = None
    warmup: int | None = None
    duration_s: float | None = None
    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[tuple[int, ...], ...]] = field(default_factory=dict)
    batch_size: int | None = None
    input_data: str | None = None
    seed: int | None = None
    io_binding: bool | None = None
    threads: int | None = None
    memory: bool = True
    inference_precision: str | None = None
    custom_ops: tuple[str, ...] = ()
    timeout_s: float | None = None
    op_tracing: str | None = None
    monitor: bool = False

    def __post_init__(self) -> None:
        checks = (
            (
                self.iterations is not None and not 1 <= self.iterations <= MAX_SAMPLES,
                f"--iterations must be from 1 to {MAX_SAMPLES}",
            ),
            (
                self.warmup is not None and not 0 <= self.warmup <= MAX_SAMPLES,
                f"--warmup must be from 0 to {MAX_SAMPLES}",
            ),
            (self.duration_s is not None and not 0 < self.duration_s < 1e7, "--duration must be more than 0 seconds"),
            (
                self.threads is not None and not 1 <= self.threads <= MAX_THREADS,
                f"--threads must be from 1 to {MAX_THREADS}",
            ),
            (self.batch_size is not None and self.batch_size < 1, "--batch-size must be at least 1"),
            (self.timeout_s is not None and not 0 < self.timeout_s < 1e7, "--timeout must be more than 0 seconds"),
            (
                self.min_placement is not None and not 0 <= self.min_placement <= 100,
                "--min-placement is a percentage from 0 to 100",
            ),
            (self.seed is not None and self.seed < 0, "--seed must not be negative"),
            (self.input_data == "", "--input-data names no file"),
        )
        for wrong, reason in checks:
            if wrong:
                raise UsageError(reason, code="bad_option", hint="winml perf --help shows every option")
        others = (self.dims, self.shapes, self.batch_size, self.seed is not None)
        if self.input_data is not None and any(others):
            raise UsageError(
                "--input-data gives shapes and data; --dim, --shape, --batch-size and --seed would contradict it",
                code="contradicting_options",
                hint="leave either out",
            )

    @property
    def effective_warmup(self) -> int:
        """Warm-up runs after the first run."""
        return DEFAULT_WARMUP if self.warmup is None else self.warmup

    @property
    def effective_iterations(self) -> int | None:
        """Measured runs; None where only the duration limits them."""
        if self.iterations is None and self.duration_s is None:
            return DEFAULT_ITERATIONS
        return self.iterations
