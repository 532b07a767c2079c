"""Counters in sysfs: energy of the CPU packages (RAPL), and what the drivers of NPUs and GPUs tell.

Formats: Documentation/power/powercap/powercap.rst and Documentation/gpu/amdgpu/thermal.rst of the kernel, its
drivers/accel/ivpu/ivpu_sysfs.c, and Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from winml.modelkit.session.monitor.hw_device import WatchedDevice, pci_address
from winml.modelkit.session.monitor.hw_source import (
    DEVICE_COUNTERS,
    Clock,
    Growth,
    Rate,
    Source,
    Unavailable,
    read_number,
    why,
)

# --- energy of the CPU packages -----------------------------------------------------------------------------


class RaplSource(Source):
    """Energy of all CPU packages: ``energy_uj`` of every zone ``intel-rapl:N`` named ``package-N`` (AMD too)."""

    counters: ClassVar[tuple[str, ...]] = ("package_power", "package_energy")

    def __init__(self, sys_root: Path, clock: Clock = time.monotonic) -> None:
        super().__init__()
        folder = sys_root / "class" / "powercap"
        # Not the sub-zones (intel-rapl:0:0), which are parts of these, nor psys, which contains them.
        zones = [zone for zone in sorted(folder.glob("intel-rapl:*")) if zone.name.count(":") == 1]
        zones = [zone for zone in zones if _text(zone / "name").startswith("package")]
        if not zones:
            raise Unavailable(f"{folder} has no RAPL package: a virtual machine, or no driver for this CPU")
        self._clock = clock
        self._zones = [(zone / "energy_uj", Growth(_number(zone / "max_energy_range_uj"))) for zone in zones]
        self._power = Rate()
        where = ", ".join(str(file) for file, _ in self._zones)
        self.gives = dict.fromkeys(self.counters, where)

    def read(self) -> dict[str, float]:
        joules = 0.0
        for file, energy in self._zones:
            try:
                joules += energy.total(read_number(file)) / 1e6
            except PermissionError as error:
                self.absent = dict.fromkeys(self.counters, f"{why(error, file)} (root only since kernel 5.10)")
                return {}
        watts = self._power.of(joules, self._clock())
        return {"package_energy": joules} | ({} if watts is None else {"package_power": watts})


# --- the device ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node:
    """A device in sysfs: its folder, PCI address, vendor and driver."""

    folder: Path
    pci_address: str | None
    vendor_id: int
    driver: str | None


_CLASSES = {"npu": ("accel", re.compile(r"accel(\d+)")), "gpu": ("drm", re.compile(r"card(\d+)"))}


def find_node(device: WatchedDevice, sys_root: Path) -> Node:
    """The device's own folder, by PCI address or card number, or because there is only one that can be meant.

    Raises:
        Unavailable: there is none, or nothing says which it is.
    """
    name, pattern = _CLASSES[device.kind]
    folder = sys_root / "class" / name
    found: list[tuple[int, Node]] = []
    for entry in sorted(folder.glob("*")):
        match = pattern.fullmatch(entry.name)
        if match is not None and (entry / "device").exists():
            found.append((int(match[1]), _node(entry / "device")))
    if device.pci_address is not None:
        found = [item for item in found if item[1].pci_address == device.pci_address]
    elif device.card_index is not None and device.kind == "gpu":
        found = [item for item in found if item[0] == device.card_index]
    if device.vendor_id:
        found = [item for item in found if item[1].vendor_id == device.vendor_id]
    if device.device_id and len(found) > 1:
        found = [item for item in found if _hex(item[1].folder / "device") == device.device_id]
    if not found:
        raise Unavailable(f"{folder} has no such {device.kind.upper()}")
    if len(found) > 1:
        raise Unavailable(f"{folder} has {len(found)} that it may be, and the EP does not tell which")
    return found[0][1]


def _node(folder: Path) -> Node:
    facts = dict(line.split("=", 1) for line in _text(folder / "uevent").splitlines() if "=" in line)
    return Node(
        folder=folder,
        pci_address=pci_address(facts.get("PCI_SLOT_NAME")),
        vendor_id=_hex(folder / "vendor"),
        driver=facts.get("DRIVER"),
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _hex(file: Path) -> int:
    try:
        return int(_text(file), 16)
    except ValueError:
        return 0


def _number(file: Path) -> float | None:
    try:
        return read_number(file)
    except (OSError, ValueError):
        return None


# --- what its driver tells ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attribute:
    """One counter in sysfs.

    Attributes:
        counter: its name.
        files: patterns of files below the device's folder; the values of all that are there are added.
        scale: what makes the counter's unit of the file's.
        kind: ``value``; ``busy`` for microseconds of work, of which the share of time is made; ``energy`` for
            microjoules, which give ``device_power`` and ``device_energy``.
        missing: why it is not there, where no file is.
    """

    counter: str
    files: tuple[str, ...]
    scale: float = 1.0
    kind: Literal["value", "busy", "energy"] = "value"
    missing: str = ""


_INTEL_NPU = (
    Attribute("device_utilisation", ("npu_busy_time_us",), kind="busy", missing="needs kernel 6.11 or later"),
    Attribute("device_memory", ("npu_memory_utilization",), missing="needs kernel 6.15 or later"),
    Attribute("device_frequency", ("npu_current_frequency_mhz",), missing="needs a later kernel"),
)
_AMDGPU = (
    Attribute("device_utilisation", ("gpu_busy_percent",), missing="the driver does not give it for this GPU"),
    Attribute("device_memory", ("mem_info_vram_used", "mem_info_gtt_used"), missing="needs kernel 4.20 or later"),
    Attribute("device_frequency", ("hwmon/hwmon*/freq1_input",), scale=1e-6),
    Attribute("device_power", ("hwmon/hwmon*/power1_average",), scale=1e-6),
    Attribute("device_power", ("hwmon/hwmon*/power1_input",), scale=1e-6),
)
_INTEL_GPU = (
    Attribute("device_frequency", ("drm/card*/gt_act_freq_mhz",)),  # i915
    Attribute("device_frequency", ("tile0/gt0/freq0/act_freq",)),  # xe
    # The card's own, not that of the package it may be part of.
    Attribute("device_energy", ("hwmon/hwmon*/energy1_input",), kind="energy", missing="discrete Intel GPUs only"),
)


class AttributeSource(Source):
    """Files of one device's folder.

    Args:
        node: the device.
        attributes: what to read; of several for one counter the first that is there.
        clock: for rates.
    """

    counters: ClassVar[tuple[str, ...]] = DEVICE_COUNTERS

    def __init__(self, node: Node, attributes: Sequence[Attribute], clock: Clock = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._found: list[tuple[Attribute, list[Path], Growth, Rate]] = []
        driver = node.driver or "this driver"
        for attribute in attributes:
            files = [file for pattern in attribute.files for file in sorted(node.folder.glob(pattern))[:1]]
            for name in _names(attribute):
                if not files and name not in self.gives:
                    reason = attribute.missing or f"{driver} does not give it for this device"
                    self.absent[name] = f"{node.folder / attribute.files[0]} is not there: {reason}"
                elif files and name not in self.gives:
                    self.gives[name] = " + ".join(map(str, files)) + self._paced()
                    self.absent.pop(name, None)
            if files and attribute.counter not in {item[0].counter for item in self._found}:
                self._found.append((attribute, files, Growth(), Rate()))
        for name in self.counters:
            if name not in self.gives:
                self.absent.setdefault(name, f"{driver} has no counter for it in sysfs")

    def _paced(self) -> str:
        return f", at most every {self.every_s:g} s" if self.every_s else ""

    def read(self) -> dict[str, float]:
        values: dict[str, float] = {}
        for attribute, files, growth, rate in self._found:
            file = files[0]
            try:
                number = 0.0
                for file in files:
                    number += read_number(file)
            except (OSError, ValueError) as error:
                self.absent.update(dict.fromkeys(_names(attribute), why(error, file)))
                continue
            if attribute.kind == "value":
                values[attribute.counter] = number * attribute.scale
                continue
            total = growth.total(number) / 1e6
            per_second = rate.of(total, self._clock())
            if attribute.kind == "energy":
                values["device_energy"] = total
                if per_second is not None:
                    values["device_power"] = per_second
            elif per_second is not None:
                # The two clocks are read one after the other, which may give a bit more than all of the time.
                values[attribute.counter] = min(100.0, 100 * per_second)
        return values


def _names(attribute: Attribute) -> tuple[str, ...]:
    return ("device_power", "device_energy") if attribute.kind == "energy" else (attribute.counter,)


class IntelNpuSource(AttributeSource):
    """Intel's NPU. Its driver asks not to be read more often than once a second: that would delay jobs."""

    every_s: ClassVar[float] = 1.0

    def __init__(self, node: Node, clock: Clock = time.monotonic) -> None:
        super().__init__(node, _INTEL_NPU, clock)


class AmdGpuSource(AttributeSource):
    """AMD's GPUs, through amdgpu."""

    def __init__(self, node: Node, clock: Clock = time.monotonic) -> None:
        super().__init__(node, _AMDGPU, clock)


class IntelGpuSource(AttributeSource):
    """Intel's GPUs, through i915 or xe, which tell utilisation per process only (``hw_drm``)."""

    def __init__(self, node: Node, clock: Clock = time.monotonic) -> None:
        super().__init__(node, _INTEL_GPU, clock)


def sysfs_source(node: Node, clock: Clock = time.monotonic) -> Source:
    """The source for a device's driver.

    Raises:
        Unavailable: its driver gives nothing in sysfs that is known here.
    """
    sources = {
        "intel_vpu": IntelNpuSource,
        "amdgpu": AmdGpuSource,
        "i915": IntelGpuSource,
        "xe": IntelGpuSource,
    }
    if node.driver not in sources:
        raise Unavailable(f"the driver {node.driver or 'of this device'} gives no counter for it in sysfs")
    return sources[node.driver](node, clock)
