"""The sampler sees the memory that another process takes."""

from __future__ import annotations

import subprocess
import sys
import time

from winml.modelkit.perf.peak import PeakSampler

MIB = 2**20
TAKES_MEMORY = "import sys, time; block = bytearray(80 * 2**20); print('taken', flush=True); time.sleep(60)"


def test_peak_of_another_process_is_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", TAKES_MEMORY], stdout=subprocess.PIPE, text=True) as process:
        sampler = PeakSampler(process.pid)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        peak = sampler.stop()
        process.kill()
    assert peak is not None
    assert 80 * MIB < peak < 200 * MIB


def test_a_process_that_is_gone_has_no_peak() -> None:
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    process.wait()
    assert PeakSampler(process.pid).stop() is None
