# ruff: noqa: N802 - names of the module that is stood in for
"""NVML, answered by a stand-in that tells what one GPU told (no NVIDIA hardware here)."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from winml.modelkit.session.monitor.hw_device import WatchedDevice
from winml.modelkit.session.monitor.hw_nvml import NvmlSource
from winml.modelkit.session.monitor.hw_source import Unavailable

PID = 4711
GPU = WatchedDevice("gpu", vendor_id=0x10DE, pci_address="0000:01:00.0")


class NVMLError(Exception):
    pass


class Nvml:
    """The functions of pynvml that are used, with their units: percent, bytes, MHz, mW, mJ."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1

    def __init__(self, *, gpus: int = 1) -> None:
        self.gpus = gpus
        self.energy = 1_000_000
        self.open = 0
        self.asked: list[object] = []
        self.running = [SimpleNamespace(pid=1, usedGpuMemory=5), SimpleNamespace(pid=PID, usedGpuMemory=7 << 20)]

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetHandleByPciBusId(self, address: bytes) -> str:
        self.asked.append(address)
        if address != b"0000:01:00.0":
            raise NVMLError("Not Found")
        return "handle"

    def nvmlDeviceGetCount(self) -> int:
        return self.gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        self.asked.append(index)
        return "handle"

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return SimpleNamespace(gpu=63, memory=20)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return SimpleNamespace(total=8 << 30, free=7 << 30, used=1 << 30)

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> int:
        assert kind == self.NVML_CLOCK_SM
        return 1815

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return 61_500

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return self.energy

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        return self.running


def test_what_nvml_tells_comes_in_our_units() -> None:
    nvml = Nvml()
    source = NvmlSource(PID, GPU, nvml)
    assert source.read() == {
        "device_utilisation": 63.0,
        "device_memory": 1 << 30,
        "process_device_memory": 7 << 20,
        "device_frequency": 1815.0,
        "device_power": 61.5,
        "device_energy": 0.0,
    }
    nvml.energy += 2_500
    assert source.read()["device_energy"] == 2.5
    assert nvml.asked == [b"0000:01:00.0"]
    source.close()
    assert nvml.open == 0


def test_b08_what_this_gpu_does_not_support_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Nvml, handle: str) -> int:
        raise NVMLError("Not Supported")

    monkeypatch.setattr(Nvml, "nvmlDeviceGetPowerUsage", refuse)
    monkeypatch.setattr(Nvml, "nvmlDeviceGetTotalEnergyConsumption", refuse)
    source = NvmlSource(PID, GPU, Nvml())
    assert set(source.read()) == {
        "device_utilisation",
        "device_memory",
        "process_device_memory",
        "device_frequency",
    }
    assert source.absent == dict.fromkeys(("device_power", "device_energy"), "NVML: Not Supported")


@pytest.mark.parametrize("running", [[], [SimpleNamespace(pid=PID, usedGpuMemory=None)]])
def test_b08_memory_of_a_process_that_nvml_does_not_tell(running: list[Any]) -> None:
    nvml = Nvml()
    nvml.running = running
    source = NvmlSource(PID, GPU, nvml)
    assert "process_device_memory" not in source.read()
    assert "does not tell" in source.absent["process_device_memory"]


def test_a_single_gpu_needs_no_address() -> None:
    nvml = Nvml()
    NvmlSource(PID, WatchedDevice("gpu", vendor_id=0x10DE), nvml)
    assert nvml.asked == [0]


def test_b08_one_of_two_gpus_is_not_guessed() -> None:
    nvml = Nvml(gpus=2)
    with pytest.raises(Unavailable, match="lists 2 GPUs"):
        NvmlSource(PID, WatchedDevice("gpu", vendor_id=0x10DE), nvml)
    assert nvml.open == 0


def test_a_gpu_that_nvml_does_not_know() -> None:
    nvml = Nvml()
    with pytest.raises(Unavailable, match="Not Found"):
        NvmlSource(PID, WatchedDevice("gpu", vendor_id=0x10DE, pci_address="0000:02:00.0"), nvml)
    assert nvml.open == 0


@pytest.mark.skipif(importlib.util.find_spec("pynvml") is not None, reason="nvidia-ml-py is installed")
def test_b08_without_its_package_the_reason_says_what_to_install() -> None:
    with pytest.raises(Unavailable, match="pip install nvidia-ml-py"):
        NvmlSource(PID, GPU)
