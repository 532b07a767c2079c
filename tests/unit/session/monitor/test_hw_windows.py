# ruff: noqa: N802 - names of the module that is stood in for
"""PDH, answered by a stand-in with instances as Windows names them (not seen on hardware)."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from winml.modelkit.session.monitor.hw_device import WatchedDevice
from winml.modelkit.session.monitor.hw_source import Unavailable
from winml.modelkit.session.monitor.hw_windows import PdhSource

PID = 11564
NPU = WatchedDevice("npu", vendor_id=0x8086, luid=0x105A4)
GPU_LUID = "luid_0x00000000_0x0000E6B1_phys_0"
NPU_LUID = "luid_0x00000000_0x000105A4_phys_0"
ENGINES = r"\GPU Engine(*)\Utilization Percentage"
RECORDED: dict[str, dict[str, float]] = {
    ENGINES: {
        f"pid_{PID}_{NPU_LUID}_eng_0_engtype_Compute": 41.5,
        f"pid_{PID}_{NPU_LUID}_eng_1_engtype_Neural": 70.0,
        f"pid_900_{NPU_LUID}_eng_1_engtype_Neural": 12.25,
        f"pid_900_{GPU_LUID}_eng_0_engtype_3D": 99.0,
        f"pid_{PID}_{GPU_LUID}_eng_0_engtype_3D": 3.0,
        f"pid_{PID}_{GPU_LUID}_eng_6_engtype_High Priority Compute": 0.0,
    },
    r"\GPU Adapter Memory(*)\Dedicated Usage": {NPU_LUID: 0.0, GPU_LUID: 900.0},
    r"\GPU Adapter Memory(*)\Shared Usage": {NPU_LUID: 52428800.0, GPU_LUID: 100.0},
    r"\GPU Process Memory(*)\Dedicated Usage": {f"pid_{PID}_{NPU_LUID}": 0.0},
    r"\GPU Process Memory(*)\Shared Usage": {f"pid_{PID}_{NPU_LUID}": 41943040.0, f"pid_900_{NPU_LUID}": 10.0},
}


class PdhError(Exception):
    pass


class Pdh:
    """The functions of win32pdh that are used."""

    PDH_FMT_DOUBLE, PDH_FMT_LARGE = 0x200, 0x400

    def __init__(self, recorded: dict[str, dict[str, float]] | None = None) -> None:
        self.recorded = RECORDED if recorded is None else recorded
        self.collected = 0
        self.closed = False

    def OpenQuery(self) -> str:
        return "query"

    def AddEnglishCounter(self, query: str, path: str) -> str:
        if path not in self.recorded:
            raise PdhError("The specified object was not found on the computer.")
        return path

    def CollectQueryData(self, query: str) -> None:
        self.collected += 1

    def GetFormattedCounterArray(self, handle: str, form: int) -> dict[str, float]:
        return dict(self.recorded[handle])

    def CloseQuery(self, query: str) -> None:
        self.closed = True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def made(recorded: dict[str, dict[str, float]] | None = None, device: WatchedDevice = NPU) -> tuple[Any, Pdh, Clock]:
    pdh, clock = Pdh(recorded), Clock()
    return PdhSource(PID, device, pdh, clock), pdh, clock


def test_an_npu_is_told_from_the_gpu_by_its_luid() -> None:
    source, pdh, clock = made()
    clock.now += 0.1
    assert source.read() == {
        "device_utilisation": 82.25,  # the neural engine, of both processes
        "process_device_utilisation": 70.0,
        "device_memory": 52428800.0,
        "process_device_memory": 41943040.0,
    }
    source.close()
    assert pdh.closed


def test_no_rate_right_after_the_first_collection() -> None:
    source, pdh, clock = made()
    assert pdh.collected == 1
    clock.now += 0.01
    assert source.read() == {}
    assert pdh.collected == 1


def test_b08_a_process_that_is_not_on_the_adapter_yet_is_not_at_0() -> None:
    recorded = {
        path: {name: value for name, value in values.items() if not name.startswith(f"pid_{PID}_")}
        for path, values in RECORDED.items()
    }
    source, _, clock = made(recorded)
    clock.now += 0.1
    assert source.read() == {"device_utilisation": 12.25, "device_memory": 52428800.0}
    expected = "Windows has no counter of this process on the adapter luid 0x00000000 0x000105a4"
    assert source.absent["process_device_utilisation"] == expected
    assert source.absent["process_device_memory"] == expected


def test_b08_counters_that_this_windows_lacks_have_a_reason() -> None:
    source, _, clock = made({ENGINES: RECORDED[ENGINES]})
    clock.now += 0.1
    assert set(source.read()) == {"device_utilisation", "process_device_utilisation"}
    assert "was not found" in source.absent["device_memory"]
    assert source.absent["device_power"] == "Windows has no such counter for GPUs and NPUs"


def test_b08_a_windows_without_any_of_them() -> None:
    pdh = Pdh({})
    with pytest.raises(Unavailable, match="was not found"):
        PdhSource(PID, NPU, pdh, Clock())
    assert pdh.closed


def test_b08_without_luid_nothing_is_guessed() -> None:
    with pytest.raises(Unavailable, match="LUID"):
        PdhSource(PID, WatchedDevice("npu"), Pdh(), Clock())


@pytest.mark.skipif(importlib.util.find_spec("win32pdh") is not None, reason="pywin32 is installed")
def test_b08_without_its_package_the_reason_says_what_to_install() -> None:
    with pytest.raises(Unavailable, match="pip install pywin32"):
        PdhSource(PID, NPU)
