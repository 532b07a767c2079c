"""Energy of the CPU packages and the drivers' own counters, read from trees like those under /sys."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from winml.modelkit.session.monitor.hw_device import WatchedDevice
from winml.modelkit.session.monitor.hw_linux import (
    AmdGpuSource,
    IntelGpuSource,
    IntelNpuSource,
    RaplSource,
    find_node,
    sysfs_source,
)
from winml.modelkit.session.monitor.hw_source import Source, Unavailable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no file name may have a colon there")

INTEL, AMD = 0x8086, 0x1002


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def write(folder: Path, **files: object) -> Path:
    """Files with these values; ``__`` in a name stands for a slash."""
    for name, value in files.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
    return folder


def device(root: Path, entry: str, driver: str, address: str, vendor: int, number: int = 1, **files: object) -> Path:
    """A PCI device as sysfs shows it under ``class/accel`` or ``class/drm``."""
    folder = root / "class" / ("accel" if entry.startswith("accel") else "drm") / entry / "device"
    write(folder, vendor=f"0x{vendor:04x}", device=f"0x{number:04x}", **files)
    (folder / "uevent").write_text(f"DRIVER={driver}\nPCI_ID=8086:7D1D\nPCI_SLOT_NAME={address}\n")
    return folder


# --- RAPL ---------------------------------------------------------------------------------------------------


def zone(root: Path, name: str, called: str, energy: int, most: int = 262143328850) -> Path:
    folder = root / "class" / "powercap" / name
    return write(folder, name=called, energy_uj=energy, max_energy_range_uj=most)


def test_package_energy_is_the_sum_of_all_packages(tmp_path: Path, clock: Clock) -> None:
    first = zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    second = zone(tmp_path, "intel-rapl:1", "package-1", 5_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 99_000_000)  # a part of the first
    psys = zone(tmp_path, "intel-rapl:2", "psys", 77_000_000)  # contains both
    source = RaplSource(tmp_path, clock)
    assert source.read() == {"package_energy": 0.0}  # no power out of one reading
    clock.now += 2
    write(first, energy_uj=11_000_000)
    write(second, energy_uj=25_000_000)
    write(psys, energy_uj=99_000_000)
    assert source.read() == {"package_energy": 30.0, "package_power": 15.0}  # 10 J and 20 J in 2 s


def test_package_energy_goes_on_over_its_wrap_around(tmp_path: Path, clock: Clock) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", 8_000_000, most=10_000_000)
    source = RaplSource(tmp_path, clock)
    source.read()
    clock.now += 1
    write(folder, energy_uj=1_000_000)
    assert source.read() == {"package_energy": 3.0, "package_power": 3.0}


def test_b08_without_rapl_there_is_a_reason(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no RAPL package"):
        RaplSource(tmp_path)
    zone(tmp_path, "intel-rapl:0", "psys", 1)
    with pytest.raises(Unavailable, match="no RAPL package"):
        RaplSource(tmp_path)


def test_b08_energy_that_only_root_may_read_is_no_number(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = zone(tmp_path, "intel-rapl:0", "package-0", 1)

    def refuse(file: Path, *args: object, **kwargs: object) -> str:
        raise PermissionError(13, "Permission denied", str(file))

    source = RaplSource(tmp_path, clock)
    monkeypatch.setattr(Path, "read_text", refuse)  # root, who may run this, can read everything
    assert source.read() == {}
    assert source.absent == dict.fromkeys(
        ("package_power", "package_energy"),
        f"{folder / 'energy_uj'}: this user may not read it (root only since kernel 5.10)",
    )


# --- finding the device -------------------------------------------------------------------------------------


def test_the_only_device_of_its_vendor_is_the_one(tmp_path: Path) -> None:
    folder = device(tmp_path, "accel0", "intel_vpu", "0000:00:0b.0", INTEL)
    device(tmp_path, "accel1", "amdxdna", "0000:c6:00.1", 0x1022)
    node = find_node(WatchedDevice("npu", vendor_id=INTEL), tmp_path)
    assert (node.folder, node.pci_address, node.driver) == (folder, "0000:00:0b.0", "intel_vpu")


def test_one_of_two_cards_is_found_by_address_or_number(tmp_path: Path) -> None:
    device(tmp_path, "card0", "amdgpu", "0000:03:00.0", AMD)
    second = device(tmp_path, "card1", "amdgpu", "0000:04:00.0", AMD)
    device(tmp_path, "renderD128", "amdgpu", "0000:03:00.0", AMD)  # the first once more
    for known in ({"pci_address": "0000:04:00.0"}, {"card_index": 1}):
        assert find_node(WatchedDevice("gpu", vendor_id=AMD, **known), tmp_path).folder == second  # type: ignore[arg-type]


def test_two_kinds_of_cards_are_told_apart_by_their_device_id(tmp_path: Path) -> None:
    device(tmp_path, "card0", "xe", "0000:00:02.0", INTEL, number=0x7D55)
    second = device(tmp_path, "card1", "xe", "0000:03:00.0", INTEL, number=0xE20B)
    found = find_node(WatchedDevice("gpu", vendor_id=INTEL, device_id=0xE20B), tmp_path)
    assert found.folder == second


def test_b08_two_that_it_may_be_are_none(tmp_path: Path) -> None:
    device(tmp_path, "card0", "amdgpu", "0000:03:00.0", AMD)
    device(tmp_path, "card1", "amdgpu", "0000:04:00.0", AMD)
    with pytest.raises(Unavailable, match="has 2 that it may be"):
        find_node(WatchedDevice("gpu", vendor_id=AMD), tmp_path)


def test_b08_no_device_is_none(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="has no such NPU"):
        find_node(WatchedDevice("npu", vendor_id=INTEL), tmp_path)


# --- drivers ------------------------------------------------------------------------------------------------


def source_of(root: Path, kind: str, clock: Clock) -> Source:
    return sysfs_source(find_node(WatchedDevice(kind), root), clock)


def test_intel_npu(tmp_path: Path, clock: Clock) -> None:
    folder = device(
        tmp_path,
        "accel0",
        "intel_vpu",
        "0000:00:0b.0",
        INTEL,
        npu_busy_time_us=7_000_000,
        npu_memory_utilization=3 << 20,
        npu_current_frequency_mhz=1400,
    )
    source = source_of(tmp_path, "npu", clock)
    assert isinstance(source, IntelNpuSource)
    assert source.every_s == 1.0  # its driver says that reading it more often delays jobs
    assert source.read() == {"device_memory": 3 << 20, "device_frequency": 1400.0}
    clock.now += 2
    write(folder, npu_busy_time_us=7_500_000, npu_current_frequency_mhz=0)
    # Half a second of work in 2 s, and a clock that is off now: a 0 that was read.
    assert source.read() == {"device_utilisation": 25.0, "device_memory": 3 << 20, "device_frequency": 0.0}
    assert source.gives["device_utilisation"] == f"{folder / 'npu_busy_time_us'}, at most every 1 s"
    assert source.absent["device_power"] == "intel_vpu has no counter for it in sysfs"


def test_b08_intel_npu_of_an_older_kernel_has_reasons_and_no_numbers(tmp_path: Path, clock: Clock) -> None:
    device(tmp_path, "accel0", "intel_vpu", "0000:00:0b.0", INTEL, npu_busy_time_us=0)
    source = source_of(tmp_path, "npu", clock)
    source.read()
    clock.now += 1
    assert source.read() == {"device_utilisation": 0.0}
    assert "kernel 6.15" in source.absent["device_memory"]


def test_busy_is_never_more_than_all_of_the_time(tmp_path: Path, clock: Clock) -> None:
    folder = device(tmp_path, "accel0", "intel_vpu", "0000:00:0b.0", INTEL, npu_busy_time_us=0)
    source = source_of(tmp_path, "npu", clock)
    source.read()
    clock.now += 1
    write(folder, npu_busy_time_us=1_000_900)
    assert source.read() == {"device_utilisation": 100.0}


def test_amdgpu(tmp_path: Path, clock: Clock) -> None:
    folder = device(
        tmp_path,
        "card1",
        "amdgpu",
        "0000:03:00.0",
        AMD,
        gpu_busy_percent=37,
        mem_info_vram_used=1 << 30,
        mem_info_gtt_used=1 << 20,
        hwmon__hwmon5__power1_input=42_000_000,
        hwmon__hwmon5__freq1_input=2_400_000_000,
    )
    source = source_of(tmp_path, "gpu", clock)
    assert isinstance(source, AmdGpuSource)
    assert source.read() == {
        "device_utilisation": 37.0,
        "device_memory": (1 << 30) + (1 << 20),
        "device_frequency": 2400.0,
        "device_power": 42.0,
    }
    assert "device_power" not in source.absent
    # power1_average comes first where a GPU has both
    write(folder, hwmon__hwmon5__power1_average=40_000_000)
    assert source_of(tmp_path, "gpu", clock).read()["device_power"] == 40.0


def test_b08_a_reading_that_fails_is_left_out_with_its_reason(tmp_path: Path, clock: Clock) -> None:
    folder = device(tmp_path, "card0", "amdgpu", "0000:03:00.0", AMD, gpu_busy_percent=5, mem_info_vram_used=10)
    source = source_of(tmp_path, "gpu", clock)
    assert source.read() == {"device_utilisation": 5.0, "device_memory": 10.0}
    write(folder, gpu_busy_percent="")  # asleep
    assert source.read() == {"device_memory": 10.0}
    assert str(folder / "gpu_busy_percent") in source.absent["device_utilisation"]
    write(folder, gpu_busy_percent=6)
    assert source.read()["device_utilisation"] == 6.0


@pytest.mark.parametrize("clock_file", ["drm__card0__gt_act_freq_mhz", "tile0__gt0__freq0__act_freq"])
def test_intel_gpu(tmp_path: Path, clock: Clock, clock_file: str) -> None:
    files = {clock_file: 1950, "hwmon__hwmon2__energy1_input": 5_000_000}
    folder = device(tmp_path, "card0", "xe", "0000:03:00.0", INTEL, **files)
    source = source_of(tmp_path, "gpu", clock)
    assert isinstance(source, IntelGpuSource)
    assert source.read() == {"device_frequency": 1950.0, "device_energy": 0.0}
    clock.now += 0.5
    write(folder, hwmon__hwmon2__energy1_input=11_000_000)
    assert source.read() == {"device_frequency": 1950.0, "device_energy": 6.0, "device_power": 12.0}
    assert source.absent["device_utilisation"] == "xe has no counter for it in sysfs"


def test_a_gpu_within_the_package_has_no_energy_of_its_own(tmp_path: Path, clock: Clock) -> None:
    device(tmp_path, "card0", "i915", "0000:00:02.0", INTEL, drm__card0__gt_act_freq_mhz=300)
    source = source_of(tmp_path, "gpu", clock)
    assert set(source.gives) == {"device_frequency"}
    for name in ("device_power", "device_energy"):
        assert "discrete Intel GPUs only" in source.absent[name]


def test_b08_a_driver_that_tells_nothing_is_named(tmp_path: Path, clock: Clock) -> None:
    device(tmp_path, "accel0", "amdxdna", "0000:c6:00.1", 0x1022)
    with pytest.raises(Unavailable, match="amdxdna"):
        source_of(tmp_path, "npu", clock)
