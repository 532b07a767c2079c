"""The loop runs what it is told, as often as it is told, and times nothing else."""

from __future__ import annotations

import gc
import time

import pytest

from winml.modelkit.perf.loop import time_runs


def test_counts_exactly_and_passes_the_arguments() -> None:
    calls: list[tuple[int, str]] = []
    samples = time_runs(lambda a, b: calls.append((a, b)), (1, "x"), 7, None)
    assert calls == [(1, "x")] * 7
    assert len(samples) == 7
    assert all(isinstance(sample, int) and sample >= 0 for sample in samples)


def test_times_the_call() -> None:
    samples = time_runs(time.sleep, (0.01,), 5, None)
    assert all(10e6 <= sample < 200e6 for sample in samples)


def test_duration_ends_with_the_run_during_which_it_passed() -> None:
    samples = time_runs(time.sleep, (0.02,), None, 0.1)
    assert 3 <= len(samples) <= 5


def test_duration_shorter_than_one_run_still_gives_one_sample() -> None:
    assert len(time_runs(time.sleep, (0.02,), None, 0.001)) == 1


def test_iterations_limit_a_duration() -> None:
    assert len(time_runs(lambda: None, (), 3, 60.0)) == 3


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_left_as_it_was_also_after_a_failure(enabled: bool) -> None:
    def fail() -> None:
        assert not gc.isenabled()
        raise ValueError

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ValueError, match=r"^$"):
            time_runs(fail, (), 3, None)
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()
