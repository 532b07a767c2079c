"""DRM fdinfo: what one process uses of a device, read from trees like /proc."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.session.monitor.hw_drm import DrmClientSource, parse_fdinfo
from winml.modelkit.session.monitor.hw_source import Unavailable

PID = 4711
ADDRESS = "0000:03:00.0"
AMDGPU = """pos:\t0
flags:\t02400002
mnt_id:\t30
ino:\t730
drm-driver:\tamdgpu
drm-client-id:\t{client}
drm-pdev:\t{address}
pasid:\t32771
drm-memory-vram:\t{vram} KiB
drm-memory-gtt: \t16384 KiB
drm-engine-gfx:\t{gfx} ns
drm-engine-compute:\t{compute} ns
drm-engine-capacity-compute:\t4
"""
XE = """drm-driver:\txe
drm-client-id:\t42
drm-pdev:\t0000:03:00.0
drm-total-system:\t0
drm-total-vram0:\t12 MiB
drm-resident-vram0:\t8 MiB
drm-shared-vram0:\t4 MiB
drm-cycles-rcs:\t{busy}
drm-total-cycles-rcs:\t{every}
drm-cycles-ccs:\t0
drm-total-cycles-ccs:\t{every}
"""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Proc:
    """The part of /proc that is looked at."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / str(PID)
        for name in ("fd", "fdinfo"):
            (self.folder / name).mkdir(parents=True)

    def open(self, number: int, target: str, info: str = "pos:\t0\n") -> None:
        link = self.folder / "fd" / str(number)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        (self.folder / "fdinfo" / str(number)).write_text(info)

    def amdgpu(self, number: int, *, client: int = 7, **values: object) -> None:
        given = {"client": client, "address": ADDRESS, "vram": 1024, "gfx": 0, "compute": 0} | values
        self.open(number, "/dev/dri/renderD128", AMDGPU.format(**given))


linux = pytest.mark.skipif(sys.platform == "win32", reason="links like those of /proc cannot be made there")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path)
    made.open(0, "/dev/null")
    return made


def test_amdgpu_text_is_understood() -> None:
    client = parse_fdinfo(AMDGPU.format(client=7, address=ADDRESS, vram=1024, gfx=5, compute=9))
    assert client is not None
    assert (client.driver, client.client_id, client.pci_address) == ("amdgpu", "7", ADDRESS)
    assert client.busy_ns == {"gfx": 5, "compute": 9}
    assert client.capacity == {"compute": 4}
    assert client.bytes == (1024 + 16384) * 1024


def test_resident_memory_goes_before_what_is_only_reserved() -> None:
    client = parse_fdinfo(XE.format(busy=1, every=2))
    assert client is not None
    assert client.bytes == 8 << 20
    assert client.total_cycles == {"rcs": 2, "ccs": 2}


def test_other_files_are_no_drm_files() -> None:
    assert parse_fdinfo("pos:\t0\nflags:\t02\n") is None
    assert parse_fdinfo("") is None


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_no_text_makes_the_parser_fail(text: str) -> None:
    parse_fdinfo(text)
    parse_fdinfo("drm-driver: x\ndrm-engine-gfx: " + text + "\ndrm-" + text)


@linux
def test_utilisation_is_that_of_the_busiest_engine(proc: Proc, clock: Clock) -> None:
    proc.amdgpu(5, gfx=1_000_000_000, compute=2_000_000_000)
    source = DrmClientSource(PID, ADDRESS, proc.root, clock)
    memory = (1024 + 16384) * 1024
    assert source.read() == {"process_device_memory": memory}
    clock.now += 2
    # gfx: 0.5 s of 2 s. compute: 3.2 s over four engines, 0.8 s each.
    proc.amdgpu(5, gfx=1_500_000_000, compute=5_200_000_000)
    values = source.read()
    assert values["process_device_utilisation"] == pytest.approx(40.0)
    assert values["process_device_memory"] == memory


@linux
def test_one_client_behind_two_descriptors_counts_once(proc: Proc, clock: Clock) -> None:
    for number in (5, 6):
        proc.amdgpu(number)
    source = DrmClientSource(PID, ADDRESS, proc.root, clock)
    assert source.read() == {"process_device_memory": (1024 + 16384) * 1024}
    clock.now += 1
    for number in (5, 6):
        proc.amdgpu(number, gfx=300_000_000)
    assert source.read()["process_device_utilisation"] == pytest.approx(30.0)


@linux
def test_a_client_that_came_in_between_counts_from_its_beginning(proc: Proc, clock: Clock) -> None:
    source = DrmClientSource(PID, ADDRESS, proc.root, clock)
    assert source.read() == {}
    assert source.absent["process_device_memory"] == "the process has no DRM file of this device open"
    clock.now += 1
    proc.amdgpu(5, gfx=250_000_000)
    assert source.read()["process_device_utilisation"] == pytest.approx(25.0)


@linux
def test_clients_of_other_devices_are_left_out(proc: Proc, clock: Clock) -> None:
    proc.amdgpu(5, client=1, address="0000:09:00.0")
    source = DrmClientSource(PID, ADDRESS, proc.root, clock)
    assert source.read() == {}


@linux
def test_cycles_are_shares_of_all_cycles(proc: Proc, clock: Clock) -> None:
    proc.open(5, "/dev/dri/renderD128", XE.format(busy=100, every=1000))
    source = DrmClientSource(PID, ADDRESS, proc.root, clock)
    source.read()
    clock.now += 1
    proc.open(5, "/dev/dri/renderD128", XE.format(busy=400, every=2000))
    assert source.read() == {"process_device_utilisation": 30.0, "process_device_memory": 8 << 20}


@linux
def test_a_count_that_lags_behind_is_nothing_yet(proc: Proc, clock: Clock) -> None:
    proc.amdgpu(5, gfx=500)
    source = DrmClientSource(PID, ADDRESS, proc.root, clock)
    source.read()
    clock.now += 1
    proc.amdgpu(5, gfx=400)
    assert source.read()["process_device_utilisation"] == 0.0


@linux
def test_b08_work_through_rocm_is_not_shown_as_none(proc: Proc, clock: Clock) -> None:
    proc.amdgpu(5)
    proc.open(6, "/dev/kfd")
    source = DrmClientSource(PID, ADDRESS, proc.root, clock)
    source.read()
    clock.now += 1
    assert set(source.read()) == {"process_device_memory"}
    assert "/dev/kfd" in source.absent["process_device_utilisation"]


@linux
def test_b08_a_driver_that_tells_only_memory_has_no_utilisation_of_0(proc: Proc, clock: Clock) -> None:
    text = f"drm-driver:\tamdxdna\ndrm-client-id:\t3\ndrm-pdev:\t{ADDRESS}\ndrm-total-memory:\t2 MiB\n"
    proc.open(5, "/dev/accel/accel0", text)
    source = DrmClientSource(PID, ADDRESS, proc.root, clock)
    source.read()
    clock.now += 1
    assert source.read() == {"process_device_memory": 2 << 20}
    assert source.absent["process_device_utilisation"] == "amdxdna does not tell engine time in fdinfo"


@linux
def test_b08_a_driver_that_tells_only_time_has_no_memory_of_0(proc: Proc, clock: Clock) -> None:
    proc.open(5, "/dev/accel/accel0", f"drm-driver:\tsome\ndrm-pdev:\t{ADDRESS}\ndrm-engine-npu:\t1 ns\n")
    source = DrmClientSource(PID, ADDRESS, proc.root, clock)
    assert source.read() == {}
    assert source.absent["process_device_memory"] == "some does not tell memory in fdinfo"


def test_a_device_without_address_cannot_be_told_apart(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no PCI address"):
        DrmClientSource(PID, None, tmp_path)


@linux
def test_a_process_that_is_gone_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DrmClientSource(PID, ADDRESS, tmp_path).read()
