"""Growth, rates and addresses: the arithmetic below every hardware counter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.session.ep_registry import WinMLDevice
from winml.modelkit.session.monitor.hw_device import WatchedDevice, pci_address, watched_device
from winml.modelkit.session.monitor.hw_source import COUNTERS, DEVICE_COUNTERS, Growth, Rate, read_number, why


def test_growth_counts_from_the_first_reading() -> None:
    growth = Growth()
    assert [growth.total(value) for value in (100.0, 130.0, 130.0, 200.0)] == [0.0, 30.0, 30.0, 100.0]


def test_growth_goes_on_over_a_wrap_around() -> None:
    growth = Growth(wraps_at=1000.0)
    # 900 to 1000, then 50 from the beginning
    assert [growth.total(value) for value in (900.0, 50.0, 60.0)] == [0.0, 150.0, 160.0]


def test_growth_waits_where_a_counter_lags_behind() -> None:
    growth = Growth()
    assert [growth.total(value) for value in (100.0, 200.0, 190.0, 210.0)] == [0.0, 100.0, 100.0, 110.0]


@given(st.lists(st.integers(0, 999), min_size=1, max_size=20), st.integers(0, 999))
def test_growth_over_any_steps_is_their_sum(steps: list[int], start: int) -> None:
    # A counter of 0 to 1000 where 1000 and 0 are the same point, as energy_uj has it.
    growth = Growth(wraps_at=1000.0)
    growth.total(float(start))
    at, total = start, 0.0
    for step in steps:
        at = (at + step) % 1000
        total = growth.total(float(at))
    assert total == sum(steps)


def test_rate_covers_the_time_between_readings() -> None:
    rate = Rate()
    assert rate.of(5.0, 10.0) is None
    assert rate.of(6.0, 12.0) == pytest.approx(0.5)
    assert rate.of(6.0, 13.0) == 0.0


def test_rate_does_not_take_a_window_of_one_tick() -> None:
    rate = Rate()
    rate.of(0.0, 10.0)
    # 10 ms of CPU time within 1 ms of time is a tick, not ten CPUs; nothing of it is lost.
    assert rate.of(0.01, 10.001) is None
    assert rate.of(0.1, 10.1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:00:0b.0", "0000:00:0b.0"),
        ("c1:00.0", "0000:c1:00.0"),
        ("00000000:01:00.0", "0000:01:00.0"),
        ("0001:C1:00.1", "0001:c1:00.1"),
        ("card0", None),
        ("", None),
        (None, None),
    ],
)
def test_pci_addresses_have_one_form(text: str | None, expected: str | None) -> None:
    assert pci_address(text) == expected


def _listed(device: str, **metadata: str) -> dict[str, Any]:
    return WinMLDevice("SomeEP", device, "Intel", 0x8086, 0x7D1D, {}, metadata, False).to_dict()


def test_device_is_described_by_what_onnxruntime_tells_on_windows() -> None:
    found = watched_device(_listed("npu", LUID="4294967298", Description="AI Boost"))
    assert found == WatchedDevice("npu", "AI Boost", 0x8086, 0x7D1D, None, None, (1 << 32) + 2)


def test_device_is_described_by_what_onnxruntime_tells_on_linux() -> None:
    found = watched_device(_listed("gpu", card_idx="1", pci_bus_id="0000:03:00.0"))
    assert found == WatchedDevice("gpu", None, 0x8086, 0x7D1D, "0000:03:00.0", 1, None)


def test_a_bundled_ep_that_is_added_by_name_tells_only_the_class() -> None:
    assert watched_device({"device": "gpu"}) == WatchedDevice("gpu")


def test_a08_an_emulator_is_watched_as_the_cpu_it_runs_on() -> None:
    assert watched_device(_listed("cpu")).kind == "cpu"


def test_every_counter_has_a_unit_and_those_of_the_device_are_known() -> None:
    assert set(COUNTERS.values()) == {"% of one CPU", "% of all CPUs", "bytes", "W", "J", "%", "MHz"}
    assert len(DEVICE_COUNTERS) == 7
    assert "process_device_memory" in DEVICE_COUNTERS
    assert "process_rss" not in DEVICE_COUNTERS


def test_failed_readings_are_put_into_words(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as caught:
        read_number(tmp_path / "absent")
    assert why(caught.value) == "No such file or directory"
    assert why(PermissionError(13, "Permission denied"), Path("x")) == "x: this user may not read it"
    assert why(ValueError()) == "ValueError"
