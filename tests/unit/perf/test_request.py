"""Requests that make sense, and those that don't."""

from __future__ import annotations

import math
from typing import Any

import pytest

from winml.modelkit.errors import UsageError
from winml.modelkit.perf.loop import MAX_SAMPLES
from winml.modelkit.perf.request import MAX_THREADS, PerfRequest


def test_defaults_are_told_apart_from_what_was_given() -> None:
    request = PerfRequest("m")
    assert (request.iterations, request.warmup) == (None, None)
    assert (request.effective_iterations, request.effective_warmup) == (100, 10)
    assert PerfRequest("m", warmup=0).effective_warmup == 0


def test_a_duration_alone_sets_no_number_of_runs() -> None:
    assert PerfRequest("m", duration_s=2.0).effective_iterations is None
    assert PerfRequest("m", duration_s=2.0, iterations=5).effective_iterations == 5


@pytest.mark.parametrize(
    "given",
    [
        {"iterations": 1},
        {"iterations": MAX_SAMPLES},
        {"warmup": 0},
        {"duration_s": 0.001},
        {"threads": 1},
        {"threads": MAX_THREADS},
        {"batch_size": 1},
        {"timeout_s": 0.01},
        {"min_placement": 0},
        {"min_placement": 100.0},
        {"seed": 0},
        {"seed": 2**100},
        {"iterations": 1, "warmup": 1000},
    ],
    ids=str,
)
def test_h01_the_ends_of_every_range_are_taken(given: dict[str, Any]) -> None:
    PerfRequest("m", **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"iterations": 0}, "--iterations must be from 1"),
        ({"iterations": -1}, "--iterations"),
        ({"iterations": MAX_SAMPLES + 1}, "--iterations"),
        ({"warmup": -1}, "--warmup"),
        ({"warmup": MAX_SAMPLES + 1}, "--warmup"),
        ({"duration_s": 0.0}, "--duration"),
        ({"duration_s": -1.0}, "--duration"),
        ({"duration_s": math.nan}, "--duration"),
        ({"duration_s": math.inf}, "--duration"),
        ({"threads": 0}, "--threads"),
        ({"threads": MAX_THREADS + 1}, "--threads"),
        ({"batch_size": 0}, "--batch-size"),
        ({"timeout_s": 0.0}, "--timeout"),
        ({"timeout_s": math.nan}, "--timeout"),
        ({"min_placement": -0.1}, "--min-placement"),
        ({"min_placement": 100.1}, "--min-placement"),
        ({"min_placement": math.nan}, "--min-placement"),
        ({"seed": -1}, "--seed"),
        ({"input_data": ""}, "--input-data"),
    ],
    ids=str,
)
def test_h01_a_number_that_makes_no_sense_is_refused_by_its_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        PerfRequest("m", **given)
    assert (caught.value.code, caught.value.exit_code) == ("bad_option", 2)


@pytest.mark.parametrize(
    "given", [{"dims": {"n": (1,)}}, {"shapes": {"x": ((1,),)}}, {"batch_size": 1}, {"seed": 0}], ids=str
)
def test_data_and_sizes_contradict_each_other(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        PerfRequest("m", input_data="d.npz", **given)
    assert caught.value.code == "contradicting_options"
