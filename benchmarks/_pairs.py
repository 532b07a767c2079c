"""Time commands side by side: interleaved runs, medians, and the ratio pair by pair."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def script(name: str) -> str:
    """The path of a console script of this environment."""
    folder = Path(sys.executable).parent
    for candidate in (folder / name, folder / f"{name}.exe"):
        if candidate.exists():
            return str(candidate)
    raise SystemExit(f"{name} is not installed in this environment: pip install -e '.[dev]'")


def run_once(command: Sequence[str]) -> float:
    """Wall seconds of one whole process; a command that fails ends the benchmark with its output."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds


def compare(name_a: str, a: Sequence[str], name_b: str, b: Sequence[str], *, runs: int, goal: float) -> float:
    """Run A and B in turn and print medians and the median of the ratios A/B.

    Returns:
        The median ratio.
    """
    run_once(a)
    run_once(b)
    times_a, times_b = [], []
    for _ in range(runs):
        times_a.append(run_once(a))
        times_b.append(run_once(b))
    ratios = [x / y for x, y in zip(times_a, times_b, strict=True)]
    for name, times in ((name_a, times_a), (name_b, times_b)):
        print(f"{name:40} median {statistics.median(times) * 1000:7.1f} ms  min {min(times) * 1000:7.1f} ms")
    ratio = statistics.median(times_a) / statistics.median(times_b)
    spread = f"pair by pair {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}"
    print(f"ratio of medians {ratio:.2f} ({spread}); goal {goal:.2f} or less: {'met' if ratio <= goal else 'MISSED'}")
    return ratio
