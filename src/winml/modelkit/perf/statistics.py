"""Statistics of latency samples. Pure Python: the parent process that sums up has no need of numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

MIN_FOR_VERDICT = 10
NOISY_IQR = 0.10
DRIFT = 0.10
BUSY_CPUS = 0.25
STEAL = 0.02
TAIL = 1.25
MIN_WINDOW_S = 0.2


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Linear interpolation between closest ranks (the definition numpy calls ``linear``).

    Args:
        ordered: samples in ascending order, at least one.
        percent: 0 to 100.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50)
    2.5
    """
    position = (len(ordered) - 1) * percent / 100
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def samples_needed(percent: float) -> int:
    """How many samples a percentile needs so that at least one lies beyond it.

    >>> [samples_needed(p) for p in (50, 90, 95, 99)]
    [2, 10, 20, 100]
    """
    return math.ceil(round(100 / (100 - percent), 9))


def summarise(samples_ms: Sequence[float]) -> dict[str, Any]:
    """Mean, extremes, percentiles and sample standard deviation, as the fields of ``Latency``.

    Percentiles that ``n`` samples cannot carry are None and listed under ``unsupported``.
    """
    ordered = sorted(samples_ms)
    n = len(ordered)
    mean = math.fsum(ordered) / n
    stdev = math.sqrt(math.fsum((x - mean) ** 2 for x in ordered) / (n - 1)) if n > 1 else None
    result: dict[str, Any] = {"n": n, "mean": mean, "min": ordered[0], "max": ordered[-1], "stdev": stdev}
    unsupported: dict[str, int] = {}
    for percent in (50, 90, 95, 99):
        needed = samples_needed(percent)
        name = f"p{percent}"
        if percent == 50 or n >= needed:
            result[name] = percentile(ordered, percent)
        else:
            result[name] = None
            unsupported[name] = needed
    result["unsupported"] = unsupported
    return result


def spread(samples_ms: Sequence[float]) -> tuple[float | None, float | None]:
    """Interquartile range over the median, and the drift between the first and the last third.

    None where there are fewer than ten samples.
    """
    if len(samples_ms) < MIN_FOR_VERDICT:
        return None, None
    ordered = sorted(samples_ms)
    median = percentile(ordered, 50)
    if median <= 0:
        return None, None
    iqr = (percentile(ordered, 75) - percentile(ordered, 25)) / median
    third = len(samples_ms) // 3
    first = percentile(sorted(samples_ms[:third]), 50)
    last = percentile(sorted(samples_ms[-third:]), 50)
    return iqr, (last / first - 1 if first > 0 else None)


def judge_noise(samples_ms: Sequence[float], start: dict[str, Any], end: dict[str, Any]) -> dict[str, Any]:
    """The verdict on a run, as the fields of ``Noise``.

    Args:
        samples_ms: samples in the order they were taken.
        start: ``environment.load_sample()`` right before the loop, with ``monotonic_s`` added.
        end: the same right after it.
    """
    iqr, drift = spread(samples_ms)
    wall = end["monotonic_s"] - start["monotonic_s"]
    own = end["own_cpu_s"] - start["own_cpu_s"]
    # Over a short window the clock tick of the CPU counters (10 ms) says nothing.
    other = None if wall < MIN_WINDOW_S else _per_second(start["system_busy_s"], end["system_busy_s"], wall, own)
    steal = None if wall < MIN_WINDOW_S else _per_second(start["steal_s"], end["steal_s"], wall, 0.0)
    reasons: list[str] = []
    verdict: str | None = "stable"
    if iqr is None:
        verdict = None
        reasons.append(f"{len(samples_ms)} samples are too few to judge; {MIN_FOR_VERDICT} are needed")
    else:
        if iqr > NOISY_IQR:
            verdict = "noisy"
            reasons.append(f"the middle half of the samples spreads over {iqr:.0%} of the median")
        mean, median = math.fsum(samples_ms) / len(samples_ms), percentile(sorted(samples_ms), 50)
        if mean > TAIL * median:
            verdict = "noisy"
            reasons.append(f"some runs took far longer: the mean is {mean / median:.1f} times the median")
        # Scattered samples differ between thirds by chance; a trend shows beyond their scatter.
        if drift is not None and abs(drift) > max(DRIFT, iqr):
            verdict = "drifting"
            reasons.append(f"the last third is {abs(drift):.0%} {'slower' if drift > 0 else 'faster'} than the first")
    if other is not None and other > BUSY_CPUS:
        reasons.append(f"other processes used {other:.1f} CPUs meanwhile")
        verdict = "noisy" if verdict == "stable" else verdict
    if steal is not None and steal > STEAL:
        reasons.append(f"the hypervisor took {steal:.1%} of a CPU meanwhile")
        verdict = "noisy" if verdict == "stable" else verdict
    return {
        "verdict": verdict,
        "reasons": reasons,
        "iqr_over_median": iqr,
        "drift": drift,
        "other_cpus": other,
        "steal": steal,
        "start": start,
        "end": end,
    }


def _per_second(start: float | None, end: float | None, wall: float, own: float) -> float | None:
    if start is None or end is None or wall <= 0:
        return None
    return max(0.0, end - start - own) / wall


def throughput(samples_ms: Sequence[float], batch_size: int | None) -> dict[str, Any]:
    """Inferences per second of summed latency, and samples per second where the batch is known."""
    per_second = 1000 * len(samples_ms) / math.fsum(samples_ms)
    return {
        "inferences_per_s": per_second,
        "samples_per_s": per_second * batch_size if batch_size else None,
        "batch_size": batch_size,
    }
