"""CPU and memory of a process and of the machine, held against what the process says of itself."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from winml.modelkit.session.monitor.hw_process import (
    ProcessSource,
    SystemSource,
    UniqueMemorySource,
    find_process,
)
from winml.modelkit.session.monitor.hw_source import ProcessGone, Unavailable

MIB = 2**20
# Spins and tells, at every line it is sent, how much CPU time it has had.
SPINS = """
import sys, threading, time
def spin():
    while True: pass
threading.Thread(target=spin, daemon=True).start()
for line in sys.stdin:
    print(time.process_time(), flush=True)
"""
GROWS = """
import sys
print("ready", flush=True)
sys.stdin.readline()
block = bytearray(80 * 2**20)
block[::4096] = b"x" * len(block[::4096])
print("taken", flush=True)
sys.stdin.readline()
"""


@contextmanager
def child(code: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _ask(process: subprocess.Popen[str]) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()


def test_cpu_of_a_busy_process_is_what_it_says_itself() -> None:
    with child(SPINS) as process:
        _ask(process)
        source = ProcessSource(find_process(process.pid))
        first = source.read()
        own, since = float(_ask(process)), time.monotonic()
        time.sleep(1.0)
        percent = source.read()["process_cpu"]
        said = 100 * (float(_ask(process)) - own) / (time.monotonic() - since)
    assert "process_cpu" not in first  # there is no rate of one reading
    assert percent == pytest.approx(said, abs=12)
    assert percent > min(50.0, said / 2)  # near 100 where nothing else runs


def test_cpu_of_an_idle_process_is_nearly_nothing() -> None:
    with child("import sys; print('ready', flush=True); sys.stdin.readline()") as process:
        assert process.stdout is not None
        process.stdout.readline()
        source = ProcessSource(find_process(process.pid))
        source.read()
        time.sleep(0.3)
        assert source.read()["process_cpu"] < 10


def test_memory_that_a_process_takes_shows() -> None:
    with child(GROWS) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = find_process(process.pid)
        resident, unique = ProcessSource(found), UniqueMemorySource(found)
        before = {**resident.read(), **unique.read()}
        assert _ask(process) == "taken\n"
        after = {**resident.read(), **unique.read()}
    for name in ("process_rss", "process_uss"):
        assert 79 * MIB < after[name] - before[name] < 90 * MIB
    assert after["process_uss"] <= after["process_rss"]


def test_b08_a_process_that_ended_has_no_memory_of_0() -> None:
    with child("pass") as process:
        found = find_process(process.pid)
        resident, unique = ProcessSource(found), UniqueMemorySource(found)
        deadline = time.monotonic() + 10
        while found.is_running() and found.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
            time.sleep(0.01)
        # It has not been waited for: Linux still lists it, with a memory of 0.
        with pytest.raises(ProcessGone):
            resident.read()
        with pytest.raises(ProcessGone):
            unique.read()
        process.wait()
        with pytest.raises(ProcessGone):
            resident.read()
        with pytest.raises(ProcessGone):
            unique.read()
        with pytest.raises(Unavailable, match=f"no process {process.pid}"):
            find_process(process.pid)


def test_system_is_what_psutil_tells() -> None:
    source = SystemSource()
    first = source.read()
    before = psutil.cpu_times()
    time.sleep(0.5)
    values = source.read()
    after = psutil.cpu_times()
    assert "system_cpu" not in first
    idle = after.idle - before.idle + getattr(after, "iowait", 0.0) - getattr(before, "iowait", 0.0)
    share = 100 * (1 - idle / (psutil.cpu_count() or 1) / 0.5)
    assert values["system_cpu"] == pytest.approx(share, abs=25)
    assert 0 <= values["system_cpu"] <= 100
    memory = psutil.virtual_memory()
    assert values["system_memory"] == pytest.approx(memory.total - memory.available, rel=0.3)
