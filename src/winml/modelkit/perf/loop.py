"""The timing loop and nothing but the loop: between two clock readings there is the run itself.

Times are nanoseconds of ``time.perf_counter_ns``.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

MAX_SAMPLES = 5_000_000


def time_runs(
    run: Callable[..., Any], args: tuple[Any, ...], iterations: int | None, duration_s: float | None
) -> list[int]:
    """Run again and again and time each run.

    Args:
        run: the call to time.
        args: its arguments.
        iterations: how many runs; with ``duration_s`` the upper limit, or None for no limit but the time.
        duration_s: stop after the run during which this time has passed.

    Returns:
        Nanoseconds per run, in order, at least one.
    """
    # A collection in the middle of a run would be counted as the EP's time (as timeit does it).
    enabled = gc.isenabled()
    gc.disable()
    try:
        if duration_s is None:
            return _count(run, args, iterations or 1)
        return _until(run, args, iterations or MAX_SAMPLES, int(duration_s * 1e9))
    finally:
        if enabled:
            gc.enable()


def _count(run: Callable[..., Any], args: tuple[Any, ...], iterations: int) -> list[int]:
    clock = time.perf_counter_ns
    samples = [0] * iterations
    for index in range(iterations):
        start = clock()
        run(*args)
        samples[index] = clock() - start
    return samples


def _until(run: Callable[..., Any], args: tuple[Any, ...], limit: int, duration_ns: int) -> list[int]:
    clock = time.perf_counter_ns
    samples: list[int] = []
    add = samples.append
    end = clock() + duration_ns
    for _ in range(limit):
        start = clock()
        run(*args)
        now = clock()
        add(now - start)
        if now >= end:
            break
    return samples
