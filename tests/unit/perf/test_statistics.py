"""Figures against numpy and against numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.perf import statistics

samples = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=300)


@given(samples, st.floats(0, 100))
def test_percentile_is_numpy_linear(values: list[float], percent: float) -> None:
    ours = statistics.percentile(sorted(values), percent)
    assert ours == pytest.approx(float(np.percentile(values, percent, method="linear")), rel=1e-9)


@given(samples)
def test_summary_is_numpy(values: list[float]) -> None:
    summary = statistics.summarise(values)
    assert summary["n"] == len(values)
    assert summary["mean"] == pytest.approx(np.mean(values))
    assert summary["min"] == min(values)
    assert summary["max"] == max(values)
    if len(values) > 1:
        assert summary["stdev"] == pytest.approx(np.std(values, ddof=1), rel=1e-6, abs=1e-9)
    else:
        assert summary["stdev"] is None


def test_b10_five_samples_carry_no_tail_percentiles() -> None:
    summary = statistics.summarise([1.0, 2.0, 3.0, 4.0, 5.0])
    assert summary["n"] == 5
    assert summary["p50"] == 3.0
    assert summary["p90"] is summary["p95"] is summary["p99"] is None
    assert summary["unsupported"] == {"p90": 10, "p95": 20, "p99": 100}


def test_b10_a_hundred_samples_carry_them_all() -> None:
    summary = statistics.summarise([float(value) for value in range(1, 101)])
    assert summary["unsupported"] == {}
    assert summary["p50"] == 50.5
    assert summary["p99"] == pytest.approx(99.01)


def _load(monotonic: float, busy: float | None, own: float, steal: float | None = 0.0) -> dict[str, object]:
    return {"monotonic_s": monotonic, "system_busy_s": busy, "own_cpu_s": own, "steal_s": steal}


CALM = (_load(0, 100.0, 1.0), _load(10, 110.0, 11.0))


def test_even_samples_are_stable() -> None:
    noise = statistics.judge_noise([10.0, 10.1] * 20, *CALM)
    assert (noise["verdict"], noise["reasons"]) == ("stable", [])
    assert noise["other_cpus"] == 0.0


def test_wide_samples_are_noisy() -> None:
    # Quartiles 10 and 20 around a median of 15: spread 10/15.
    noise = statistics.judge_noise([10.0, 15.0, 20.0] * 14, *CALM)
    assert noise["verdict"] == "noisy"
    assert noise["iqr_over_median"] == pytest.approx(10 / 15)


def test_growing_samples_are_drifting() -> None:
    values = [10.0] * 10 + [10.5] * 10 + [12.0] * 10
    noise = statistics.judge_noise(values, *CALM)
    assert noise["verdict"] == "drifting"
    assert noise["drift"] == pytest.approx(0.2)
    assert "slower" in noise["reasons"][-1]


def test_a_busy_machine_makes_even_samples_noisy() -> None:
    noise = statistics.judge_noise([10.0] * 40, _load(0, 100.0, 1.0), _load(10, 125.0, 11.0))
    assert noise["verdict"] == "noisy"
    assert noise["other_cpus"] == pytest.approx(1.5)


def test_a_hypervisor_that_takes_time_makes_even_samples_noisy() -> None:
    noise = statistics.judge_noise([10.0] * 40, _load(0, 100, 1, 5.0), _load(10, 110, 11, 6.0))
    assert noise["verdict"] == "noisy"
    assert noise["steal"] == pytest.approx(0.1)


def test_too_few_samples_get_no_verdict() -> None:
    noise = statistics.judge_noise([10.0] * 9, *CALM)
    assert noise["verdict"] is None
    assert "9 samples are too few" in noise["reasons"][0]


def test_b08_counters_that_do_not_exist_stay_null() -> None:
    noise = statistics.judge_noise([10.0] * 40, _load(0, None, 1, None), _load(10, None, 2, None))
    assert noise["other_cpus"] is None
    assert noise["steal"] is None


def test_throughput_counts_the_batch_that_ran() -> None:
    # Four runs of 250 ms are one second.
    assert statistics.throughput([250.0] * 4, None) == {
        "inferences_per_s": 4.0,
        "samples_per_s": None,
        "batch_size": None,
    }
    assert statistics.throughput([250.0] * 4, 8)["samples_per_s"] == 32.0
