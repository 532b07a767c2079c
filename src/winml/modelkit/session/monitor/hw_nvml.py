"""NVIDIA GPUs through NVML, if nvidia-ml-py is installed (not seen on hardware)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, ClassVar

from winml.modelkit.session.monitor.hw_device import WatchedDevice
from winml.modelkit.session.monitor.hw_source import Growth, Source, Unavailable

NVIDIA = 0x10DE


class NvmlSource(Source):
    """Utilisation (the driver's mean over its own last sixth to whole second), memory, clock, power, energy.

    Args:
        pid: the process whose memory is told apart.
        device: the GPU.
        nvml: the module ``pynvml``; imported if None.
    """

    counters: ClassVar[tuple[str, ...]] = (
        "device_utilisation",
        "device_memory",
        "process_device_memory",
        "device_frequency",
        "device_power",
        "device_energy",
    )

    def __init__(self, pid: int, device: WatchedDevice, nvml: Any = None) -> None:
        super().__init__()
        if nvml is None:
            try:
                nvml = importlib.import_module("pynvml")
            except ImportError as error:
                raise Unavailable("nvidia-ml-py is not installed (pip install nvidia-ml-py)") from error
        self._nvml = nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise Unavailable(f"NVML: {error}") from error
        try:
            self._handle = self._find(device)
        except nvml.NVMLError as error:
            self.close()
            raise Unavailable(f"NVML: {error}") from error
        except Unavailable:
            self.close()
            raise
        self._pid = pid
        self._energy = Growth()
        self.gives = dict.fromkeys(self.counters, "NVML")

    def _find(self, device: WatchedDevice) -> Any:
        if device.pci_address is not None:
            return self._nvml.nvmlDeviceGetHandleByPciBusId(device.pci_address.encode())
        count = self._nvml.nvmlDeviceGetCount()
        if count != 1:
            raise Unavailable(f"NVML lists {count} GPUs, and the EP does not tell which it is")
        return self._nvml.nvmlDeviceGetHandleByIndex(0)

    def read(self) -> dict[str, float]:
        nvml, handle = self._nvml, self._handle
        ways: dict[str, Callable[[], float | None]] = {
            "device_utilisation": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "device_memory": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "process_device_memory": self._process_memory,
            "device_frequency": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
            "device_power": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "device_energy": lambda: self._energy.total(nvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3,
        }
        values: dict[str, float] = {}
        for name, way in ways.items():
            try:
                value = way()
            except nvml.NVMLError as error:
                self.absent[name] = f"NVML: {error}"
                continue
            if value is not None:
                values[name] = float(value)
        return values

    def _process_memory(self) -> float | None:
        """Bytes of this process; None while it has no context there, and where Windows' driver model hides them."""
        running = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        taken = [item.usedGpuMemory for item in running if item.pid == self._pid]
        if not taken or None in taken:
            self.absent["process_device_memory"] = "NVML does not tell the memory of this process"
            return None
        return float(sum(taken))

    def close(self) -> None:
        self._nvml.nvmlShutdown()
