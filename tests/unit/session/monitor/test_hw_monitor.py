"""The monitor: a series out of many sources, whatever each of them does."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from winml.modelkit.perf.document import Hardware
from winml.modelkit.session.monitor.hw_monitor import HardwareMonitor, System, WatchedDevice
from winml.modelkit.session.monitor.hw_source import COUNTERS, DEVICE_COUNTERS, ProcessGone, Source

MIB = 2**20


class Scripted(Source):
    """Gives one counter the values of a function of the reading's number, from 0 on."""

    counters: ClassVar[tuple[str, ...]] = ("device_utilisation",)

    def __init__(self, value: Callable[[int], float | None], name: str = "device_utilisation") -> None:
        super().__init__()
        self.gives = {name: "a test"}
        self.name = name
        self.value = value
        self.reads: list[float] = []
        self.closed = False

    def read(self) -> dict[str, float]:
        self.reads.append(time.monotonic())
        value = self.value(len(self.reads) - 1)
        return {} if value is None else {self.name: value}

    def close(self) -> None:
        self.closed = True


class Slow(Scripted):
    every_s: ClassVar[float] = 10.0


def run(source: Source, *, samples: int = 6, interval_s: float = 0.01) -> dict[str, Any]:
    """Sample until there were so many."""
    monitor = HardwareMonitor(0, interval_s=interval_s, sources=[source]).start()
    wait_for(lambda: len(monitor._times) >= samples or not monitor._thread.is_alive())
    return monitor.stop()


def wait_for(met: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


# --- readings -----------------------------------------------------------------------------------------------


def test_series_mean_and_peak_can_be_worked_out_by_hand() -> None:
    found = run(Scripted(lambda number: [10.0, 20.0, 60.0][number % 3]), samples=6)
    counter = found["counters"]["device_utilisation"]
    values = counter["values"]
    assert len(values) == len(found["times_s"]) >= 6
    assert values[:6] == [10.0, 20.0, 60.0, 10.0, 20.0, 60.0]
    assert counter["mean"] == pytest.approx(sum(values) / len(values), abs=0.001)
    assert counter["peak"] == 60.0
    assert (counter["unit"], counter["source"], counter["reason"]) == ("%", "a test", None)
    assert found["times_s"][0] == 0.0
    assert found["times_s"] == sorted(found["times_s"])


def test_b08_a_failed_reading_is_null_for_that_sample_and_not_0() -> None:
    def value(number: int) -> float | None:
        if number == 1:
            raise OSError(5, "Input/output error")
        return None if number == 3 else 50.0

    counter = run(Scripted(value))["counters"]["device_utilisation"]
    assert counter["values"][:5] == [50.0, None, 50.0, None, 50.0]
    assert (counter["mean"], counter["peak"], counter["reason"]) == (50.0, 50.0, None)


@pytest.mark.parametrize("error", [ValueError("no number"), RuntimeError("driver"), OSError(19, "No such device")])
def test_b08_a_counter_that_never_gave_a_value_is_absent_with_the_last_reason(error: Exception) -> None:
    def value(number: int) -> float:
        raise error

    counter = run(Scripted(value))["counters"]["device_utilisation"]
    assert (counter["values"], counter["mean"], counter["peak"], counter["source"]) == ([], None, None, None)
    assert counter["reason"] in ("no number", "driver", "No such device")


def test_a_measured_0_is_a_value() -> None:
    counter = run(Scripted(lambda number: 0.0))["counters"]["device_utilisation"]
    assert counter["values"][:3] == [0.0, 0.0, 0.0]
    assert (counter["mean"], counter["peak"], counter["reason"]) == (0.0, 0.0, None)


def test_an_energy_has_a_total_and_no_mean() -> None:
    counter = run(Scripted(lambda number: 2.5 * number, "device_energy"))["counters"]["device_energy"]
    assert counter["mean"] is None
    assert counter["peak"] == counter["values"][-1] == 2.5 * (len(counter["values"]) - 1)


def test_every_counter_is_listed_and_fits_the_document() -> None:
    found = msgspec.convert(run(Scripted(lambda number: 1.0)), Hardware)
    assert list(found.counters) == list(COUNTERS)
    for name, counter in found.counters.items():
        assert counter.unit == COUNTERS[name]
        assert (counter.reason is None) == (name == "device_utilisation")
        assert bool(counter.values) == (counter.reason is None)
    assert found.interval_s == 0.01


# --- time ---------------------------------------------------------------------------------------------------


def works(seconds: float) -> float:
    """Uses CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return 1.0


def test_a_source_is_read_as_seldom_as_it_asks_and_when_a_phase_begins() -> None:
    slow, heavy = Slow(lambda number: 1.0), Slow(lambda number: works(0.02), "process_uss")
    fast = Scripted(lambda number: 1.0, "process_rss")
    monitor = HardwareMonitor(0, interval_s=0.01, sources=[slow, heavy, fast]).start()
    wait_for(lambda: len(fast.reads) >= 5)
    assert (len(slow.reads), len(heavy.reads)) == (1, 1)
    monitor.mark("measure")
    wait_for(lambda: len(slow.reads) == 2)
    found = monitor.stop()
    assert len(heavy.reads) == 1  # that would take from what is measured
    values = found["counters"]["device_utilisation"]["values"]
    assert values.count(None) == len(values) - 2  # not read is null
    begins = dict(found["phases"])["measure"]
    second = [at for at, value in zip(found["times_s"], values, strict=True) if value is not None][1]
    assert begins <= second < begins + 1


def test_a_source_that_takes_much_cpu_time_is_read_less_often() -> None:
    heavy, light = Scripted(lambda number: works(0.02)), Scripted(lambda number: 1.0, "process_rss")
    monitor = HardwareMonitor(0, interval_s=0.01, sources=[heavy, light]).start()
    wait_for(lambda: len(light.reads) >= 20)
    monitor.stop()
    # 20 ms of work allow for one reading in 2 s, from the second one on.
    assert len(heavy.reads) <= 3


def test_phases_are_told_in_seconds_since_the_first_sample() -> None:
    source = Scripted(lambda number: 1.0)
    monitor = HardwareMonitor(0, interval_s=0.01, sources=[source])
    monitor.mark("load")  # before anything was sampled
    monitor.start()
    wait_for(lambda: len(source.reads) >= 1)
    time.sleep(0.1)
    monitor.mark("measure")
    (first, at_first), (second, at_second) = monitor.stop()["phases"]
    assert (first, at_first, second) == ("load", 0.0, "measure")
    assert at_second >= 0.1


def test_latest_is_there_while_it_runs() -> None:
    source = Scripted(lambda number: None if number == 2 else float(number))
    silent = Scripted(lambda number: None, "process_uss")
    monitor = HardwareMonitor(0, interval_s=0.01, sources=[source, silent])
    assert monitor.latest() == {}
    with monitor:
        wait_for(lambda: len(monitor._times) >= 4)
        readings = monitor.latest()
    assert set(readings) == {"device_utilisation"}  # what gave nothing yet is not shown
    reading = readings["device_utilisation"]
    assert reading.recent[:4] == [0.0, 1.0, None, 3.0]
    assert reading.unit == "%"
    assert reading.peak == max(value for value in reading.recent if value is not None)


def test_latest_leaves_out_the_times_a_source_was_not_due() -> None:
    fast, slow = Scripted(lambda number: 1.0, "process_rss"), Slow(lambda number: 5.0)
    with HardwareMonitor(0, interval_s=0.01, sources=[fast, slow]) as monitor:
        wait_for(lambda: len(fast.reads) >= 5)
        assert monitor.latest()["device_utilisation"].recent == [5.0]


# --- ends ---------------------------------------------------------------------------------------------------


def test_stop_gives_sources_back_and_may_be_called_again() -> None:
    source = Scripted(lambda number: 1.0)
    monitor = HardwareMonitor(0, interval_s=0.01, sources=[source]).start()
    wait_for(lambda: bool(source.reads))
    found = monitor.stop()
    assert source.closed
    assert monitor.stop() == found
    assert not any(thread.name == "hardware-monitor" for thread in threading.enumerate())


def test_the_end_does_not_wait_for_a_reading_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("winml.modelkit.session.monitor.hw_monitor._STOP_S", 0.1)
    free = threading.Event()

    def value(number: int) -> float:
        if number == 1:
            free.wait(20)
        return 1.0

    source = Scripted(value)
    monitor = HardwareMonitor(0, interval_s=0.01, sources=[source]).start()
    wait_for(lambda: len(source.reads) == 2)
    begin = time.monotonic()
    found = monitor.stop()
    assert time.monotonic() - begin < 5
    assert found["counters"]["device_utilisation"]["values"] == [1.0]
    free.set()
    monitor._thread.join()


def test_it_keeps_what_it_had_when_the_process_ends() -> None:
    def value(number: int) -> float:
        if number == 3:
            raise ProcessGone
        return float(number)

    source, other = Scripted(value), Scripted(lambda number: 7.0, "process_rss")
    monitor = HardwareMonitor(0, interval_s=0.01, sources=[other, source]).start()
    monitor._thread.join(20)
    monitor.mark("another process")
    found = monitor.stop()
    assert found["phases"] == []
    assert len(found["times_s"]) == 3
    assert found["counters"]["device_utilisation"]["values"] == [0.0, 1.0, 2.0]
    assert found["counters"]["process_rss"]["values"] == [7.0, 7.0, 7.0]
    assert source.closed


def test_nothing_escapes_from_the_thread(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise LookupError("a fault of ours")

    monkeypatch.setattr("winml.modelkit.session.monitor.hw_monitor.system_sources", broken)
    monitor = HardwareMonitor(0).start()
    monitor._thread.join(20)
    found = monitor.stop()
    assert {counter["reason"] for counter in found["counters"].values()} == {"the monitor failed: a fault of ours"}
    assert capsys.readouterr().err == ""


# --- a real process -----------------------------------------------------------------------------------------

WORKS = """
import sys, time
sys.stdin.readline()
block = bytearray(80 * 2**20)
block[::4096] = b"x" * len(block[::4096])
print("taken", flush=True)
while True: pass
"""


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", WORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_a_process_that_dies_in_mid_run_leaves_its_series(busy: subprocess.Popen[str]) -> None:
    assert busy.stdin is not None
    assert busy.stdout is not None
    monitor = HardwareMonitor(busy.pid, WatchedDevice("cpu"), 0.05).start()
    wait_for(lambda: "process_rss" in monitor.latest())
    busy.stdin.write("\n")
    busy.stdin.flush()
    busy.stdout.readline()
    monitor.mark("measure")

    def seen() -> bool:
        now = monitor.latest()
        # One loop on one CPU: near 100 where nothing else runs, and in some window anywhere.
        return now["process_rss"].peak > 80 * MIB and "process_cpu" in now and now["process_cpu"].peak > 50

    wait_for(seen)
    busy.kill()  # and is not waited for yet: a zombie
    monitor._thread.join(20)
    assert not monitor._thread.is_alive()
    found = msgspec.convert(monitor.stop(), Hardware)
    resident = found.counters["process_rss"]
    read = [value for value in resident.values if value is not None]
    assert 79 * MIB < read[-1] - read[0] < 100 * MIB
    assert 0 not in resident.values
    assert [name for name, _ in found.phases] == ["measure"]


def test_b08_on_the_cpu_device_counters_are_null_with_the_reason(busy: subprocess.Popen[str]) -> None:
    with HardwareMonitor(busy.pid, WatchedDevice("cpu"), 0.02) as monitor:
        wait_for(lambda: bool(monitor.latest()))
    counters = monitor.stop()["counters"]
    for name in DEVICE_COUNTERS:
        assert counters[name] == {
            "unit": COUNTERS[name],
            "source": None,
            "values": [],
            "mean": None,
            "peak": None,
            "reason": "the model ran on the CPU: see process_cpu and system_cpu",
        }


def test_b08_a_run_that_reached_no_target_says_so(busy: subprocess.Popen[str]) -> None:
    with HardwareMonitor(busy.pid, interval_s=0.02) as monitor:
        wait_for(lambda: bool(monitor.latest()))
    reasons = {monitor.stop()["counters"][name]["reason"] for name in DEVICE_COUNTERS}
    assert reasons == {"the target was not reached, so there is no device to watch"}


@pytest.mark.parametrize("device", [WatchedDevice("npu", vendor_id=0x8086), WatchedDevice("gpu", vendor_id=0x1002)])
def test_b08_an_absent_device_has_reasons_and_no_numbers(
    busy: subprocess.Popen[str], tmp_path: Path, device: WatchedDevice
) -> None:
    system = System(platform="linux", sysfs=tmp_path)
    with HardwareMonitor(busy.pid, device, 0.02, system=system) as monitor:
        wait_for(lambda: bool(monitor.latest()))
    counters = monitor.stop()["counters"]
    for name in (*DEVICE_COUNTERS, "package_power", "package_energy"):
        assert counters[name]["values"] == []
        assert counters[name]["mean"] is None
        assert counters[name]["reason"]
        assert str(tmp_path) in counters[name]["reason"]


@pytest.mark.parametrize(
    ("platform", "device", "expected"),
    [
        ("win32", WatchedDevice("npu"), "LUID"),
        ("darwin", WatchedDevice("gpu"), "no counters of devices are known on darwin"),
        pytest.param(
            "linux",
            WatchedDevice("gpu", vendor_id=0x10DE),
            "nvidia-ml-py",
            marks=pytest.mark.skipif(importlib.util.find_spec("pynvml") is not None, reason="it is installed"),
        ),
    ],
)
def test_b08_every_system_gives_its_reason(
    busy: subprocess.Popen[str], tmp_path: Path, platform: str, device: WatchedDevice, expected: str
) -> None:
    system = System(platform=platform, sysfs=tmp_path)
    with HardwareMonitor(busy.pid, device, 0.02, system=system) as monitor:
        wait_for(lambda: bool(monitor.latest()))
    assert expected in monitor.stop()["counters"]["device_memory"]["reason"]


@pytest.mark.skipif(sys.platform == "win32", reason="a tree like /sys")
def test_a_device_that_is_known_later_has_nulls_before(busy: subprocess.Popen[str], tmp_path: Path) -> None:
    folder = tmp_path / "class" / "accel" / "accel0" / "device"
    folder.mkdir(parents=True)
    facts = {
        "vendor": "0x8086",
        "uevent": "DRIVER=intel_vpu\nPCI_SLOT_NAME=0000:00:0b.0",
        "npu_busy_time_us": "5",
        "npu_memory_utilization": "4096",
    }
    for name, text in facts.items():
        (folder / name).write_text(text + "\n")
    system = System(platform="linux", sysfs=tmp_path)
    monitor = HardwareMonitor(busy.pid, interval_s=0.02, system=system).start()
    wait_for(lambda: len(monitor._times) >= 3)
    monitor.watch(WatchedDevice("npu", vendor_id=0x8086))
    wait_for(lambda: "device_memory" in monitor.latest())
    monitor.watch(WatchedDevice("cpu"))  # only the first call counts
    time.sleep(0.2)
    (folder / "npu_busy_time_us").write_text("100005\n")
    monitor.mark("measure")
    wait_for(lambda: "device_utilisation" in monitor.latest())
    found = monitor.stop()
    memory, use = found["counters"]["device_memory"], found["counters"]["device_utilisation"]
    assert memory["values"][:3] == [None, None, None]
    assert memory["peak"] == 4096.0
    assert len(memory["values"]) == len(found["times_s"])
    # 0.1 s of work in the 0.2 s and a bit between the two readings
    assert 1 < use["peak"] <= 50
    assert "process has no DRM file" in found["counters"]["process_device_memory"]["reason"]
