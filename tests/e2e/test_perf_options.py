"""``winml perf`` and its numbers: what was asked for is what was done, or it is refused before anything runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fixtures.cli import PerfCommand
from fixtures.zoo import Zoo

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")


@pytest.mark.parametrize(
    "args",
    [
        ["--iterations", "0"],
        ["--iterations", "-1"],
        ["--iterations", "99999999999"],
        ["--warmup", "-1"],
        ["--duration", "0"],
        ["--duration", "-1"],
        ["--duration", "nan"],
        ["--duration", "inf"],
        ["--threads", "0"],
        ["--threads", "100000"],
        ["--seed", "-1"],
        ["--batch-size", "0"],
        ["--min-placement", "101"],
        ["--min-placement", "nan"],
        ["--dim", "batch"],
        ["--dim", "batch=-4"],
        ["--dim", "batch=x"],
        ["--dim", "batch=1,"],
        ["--dim", "batch=1", "--dim", "batch=2"],
        ["--shape", "x=1,x"],
        ["--timeout", "0"],
        ["--timeout", "nan"],
        ["--iterations", "1e3"],
        ["--iterations", "1.5"],
        ["--inference-precision", "fp8"],
        ["--format", "yaml"],
        ["--no-such-option"],
    ],
    ids=" ".join,
)
def test_h01_a_number_that_makes_no_sense_is_refused_at_once(perf: PerfCommand, zoo: Zoo, args: list[str]) -> None:
    outcome = perf(zoo("batched"), *args, quick=False, json_format="--format" not in args)
    assert outcome.code == 2
    assert outcome.err
    assert outcome.seconds < 20
    if "--format" not in args:
        assert outcome.error["reason"]


def test_h01_more_warm_up_than_runs_is_well_defined(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("relu"), "--ep", "cpu", "--iterations", "2", "--warmup", "7")
    assert (document["effective"]["iterations"], document["effective"]["warmup"]) == (2, 7)
    assert document["result"]["latency_ms"]["n"] == 2
    assert document["result"]["phases_ms"]["warmup"] > 0


def test_h01_one_run_without_warm_up(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("relu"), "--ep", "cpu", "--iterations", "1", "--warmup", "0")
    latency = document["result"]["latency_ms"]
    (sample,) = document["result"]["samples_ms"]
    assert (latency["n"], latency["stdev"]) == (1, None)
    assert latency["min"] == latency["max"] == latency["mean"] == latency["p50"] == sample
    assert latency["unsupported"] == {"p90": 10, "p95": 20, "p99": 100}


def test_h01_a_duration_is_kept(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("slow"), "--ep", "cpu", "--duration", "0.5")
    samples = document["result"]["samples_ms"]
    assert document["requested"]["iterations"] is None
    assert document["effective"]["iterations"] == len(samples)
    # The run in which the time passes is the last one; its own length is all that may be over.
    assert sum(samples[:-1]) < 500
    assert document["requested"]["duration_s"] == 0.5
    wall = document["result"]["noise"]["end"]["monotonic_s"] - document["result"]["noise"]["start"]["monotonic_s"]
    assert 0.5 <= wall < 5


def test_h01_the_smaller_of_duration_and_iterations_ends_it(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("relu"), "--ep", "cpu", "--duration", "20", "--iterations", "3")
    assert document["result"]["latency_ms"]["n"] == 3


def test_defaults_are_a_hundred_runs_after_ten(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("relu"), "--ep", "cpu", quick=False)
    assert (document["effective"]["iterations"], document["effective"]["warmup"]) == (100, 10)
    assert (document["requested"]["iterations"], document["requested"]["warmup"]) == (None, None)
    assert document["result"]["latency_ms"]["p99"] is not None
    assert document["result"]["latency_ms"]["unsupported"] == {}
    assert document["result"]["noise"]["verdict"] in ("stable", "noisy", "drifting")


# --- batches --------------------------------------------------------------------------------------------------


def test_b06_batch_size_on_a_static_batch_is_refused(perf: PerfCommand, zoo: Zoo) -> None:
    error = perf.refused("batch_fixed", 2, zoo("fixed_batch"), "--batch-size", "8").error
    assert error["reason"] == "--batch-size 8: the model's batch is fixed at 1"


def test_b06_throughput_counts_the_batch_that_ran(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("batched"), "--ep", "cpu", "--batch-size", "8")
    assert document["effective"]["inputs"]["x"]["shape"] == [8, 8]
    throughput, samples = document["result"]["throughput"], document["result"]["samples_ms"]
    assert throughput["batch_size"] == document["effective"]["batch_size"] == 8
    assert throughput["inferences_per_s"] == pytest.approx(1000 * len(samples) / sum(samples))
    assert throughput["samples_per_s"] == pytest.approx(8 * throughput["inferences_per_s"])


def test_b06_without_a_batch_there_are_no_samples_per_second(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("det"), "--ep", "cpu")
    assert document["result"]["throughput"]["samples_per_s"] is None
    assert document["effective"]["batch_size"] is None
    assert "inferences/s" in document["summary"]


@pytest.mark.parametrize("ep", ["cpu", "openvino"])
def test_h07_several_sizes_are_measured_in_one_session(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], ep: str
) -> None:
    document = perf.ok(zoo("batched"), "--ep", ep, "--device", "cpu", "--dim", "batch=1,8", env=openvino)
    rows = document["result"]["by_shape"]
    assert [row["batch_size"] for row in rows] == [1, 8]
    assert [row["inputs"]["x"]["shape"] for row in rows] == [[1, 8], [8, 8]]
    assert [row["dims"] for row in rows] == [{"batch": 1}, {"batch": 8}]
    assert all(row["first_run_ms"] > 0 and row["latency_ms"]["n"] == 2 for row in rows)
    # A dimension with several sizes is not fixed in the one session they share.
    assert document["effective"]["dims_fixed_in_session"] is False
    assert document["placement"]["target_nodes"] == 2


def test_h07_session_first_run_and_steady_state_stand_apart(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]
) -> None:
    document = perf.ok(
        zoo("two_convs"), "--ep", "openvino", "--device", "cpu", "--iterations", "3", "--warmup", "2", env=openvino
    )
    phases = document["result"]["phases_ms"]
    assert all(phases[name] > 0 for name in ("import_runtime", "register", "session", "first_run", "warmup", "measure"))
    assert phases["measure"] == pytest.approx(sum(document["result"]["samples_ms"]))
    # OpenVINO compiles in the session: that is not in any latency.
    assert phases["session"] > document["result"]["latency_ms"]["min"]


# --- memory and counters --------------------------------------------------------------------------------------

STAGES = ["process start", "EP registered", "session created", "after warm-up", "after the runs"]


@pytest.mark.parametrize("ep", ["cpu", "openvino"])
def test_b09_memory_begins_before_the_ep_and_shows_the_weights_in_the_session(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str], ep: str
) -> None:
    document = perf.ok(zoo("big_weights"), "--ep", ep, "--device", "cpu", env=openvino, timeout=55)
    memory = document["result"]["memory"]
    assert [stage["stage"] for stage in memory["stages"]] == STAGES
    resident = {stage["stage"]: stage["rss_bytes"] for stage in memory["stages"]}
    assert all(value > 0 for value in resident.values())
    # The interpreter alone, before ONNX Runtime or any EP.
    assert resident["process start"] < 40 * 2**20 < resident["EP registered"]
    assert resident["session created"] - resident["EP registered"] > 150 * 2**20
    assert memory["peak_bytes"] >= resident["after the runs"] * 0.9
    assert memory["peak_method"]


def test_b08_what_was_not_recorded_is_null(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("relu"), "--ep", "cpu", "--no-memory", "--iterations", "5")
    assert document["result"]["memory"] is None
    assert document["result"]["phases_ms"]["register"] is None  # nothing was registered
    assert [row["partitions"] for row in document["placement"]["eps"]] == [None]
    noise = document["result"]["noise"]
    assert (noise["verdict"], noise["iqr_over_median"], noise["drift"]) == (None, None, None)
    assert "5 samples are too few to judge; 10 are needed" in noise["reasons"]


def test_b10_five_samples_carry_no_p99(perf: PerfCommand, zoo: Zoo) -> None:
    document = perf.ok(zoo("relu"), "--ep", "cpu", "--iterations", "5")
    latency = document["result"]["latency_ms"]
    assert (latency["n"], latency["p90"], latency["p95"], latency["p99"]) == (5, None, None, None)
    assert latency["unsupported"] == {"p90": 10, "p95": 20, "p99": 100}
    assert len(document["result"]["samples_ms"]) == 5
    assert latency["p50"] == sorted(document["result"]["samples_ms"])[2]
    text = perf(zoo("relu"), "--ep", "cpu", "--iterations", "5", json_format=False).out
    assert "needs 100" in text


# --- how it runs ----------------------------------------------------------------------------------------------


def test_io_binding_is_what_ran(perf: PerfCommand, zoo: Zoo) -> None:
    assert perf.ok(zoo("relu"), "--ep", "cpu", "--io-binding")["effective"]["io_binding"] is True
    document = perf.ok(zoo("relu"), "--ep", "cpu")
    assert (document["requested"]["io_binding"], document["effective"]["io_binding"]) == (None, False)


def test_threads_are_honoured_on_openvino_through_its_own_property(
    perf: PerfCommand, zoo: Zoo, openvino: dict[str, str]
) -> None:
    effective = perf.ok(zoo("two_convs"), "--ep", "openvino", "--device", "cpu", "--threads", "1", env=openvino)[
        "effective"
    ]
    assert effective["threads"] == 1
    assert '"INFERENCE_NUM_THREADS": "1"' in effective["ep_options"]["load_config"]
    effective = perf.ok(zoo("two_convs"), "--ep", "openvino", "--device", "cpu", env=openvino)["effective"]
    # How many OpenVINO takes by itself is not known, and a guess is no figure.
    assert (effective["threads"], effective["threads_rule"]) == (None, "OpenVINO's default")


@linux
def test_h05_with_one_cpu_there_is_one_thread_and_no_noise(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    one = {min(os.sched_getaffinity(0))}
    document = perf.ok(
        zoo("slow"),
        "--ep",
        "cpu",
        env={"XDG_STATE_HOME": str(tmp_path)},
        preexec_fn=lambda: os.sched_setaffinity(0, one),
    )
    assert document["effective"]["threads"] == 1
    assert document["environment"]["cpus_available"] == 1
    assert document["result"]["noise"]["start"]["affinity"] == sorted(one)
    logs = [path.read_text(errors="replace") for path in tmp_path.rglob("*perf*.log")]
    assert len(logs) == 1
    assert "setaffinity" not in logs[0]


def test_i05_the_model_may_stand_alone_or_with_m_and_short_letters_mean_the_same(
    perf: PerfCommand, zoo: Zoo, tmp_path: Path
) -> None:
    model, report = zoo("relu"), tmp_path / "r.json"
    long = perf.ok("--model", model, "--ep", "cpu", "--device", "cpu", "--quiet", "--output", report)
    short = perf.ok(model, "-d", "cpu", "--ep", "cpu", "-q", "-o", report, "--overwrite", "-v")
    assert {**long["requested"]} == {**short["requested"]}
    assert perf(model, "-m", model).code == 2
    assert perf().code == 2
