"""Which device of a registered EP answers: what it lists, never what was wished for."""

from __future__ import annotations

import pytest

from winml.modelkit.errors import DeviceNotFound, TargetUnavailable
from winml.modelkit.session.device_choice import pick_device
from winml.modelkit.session.ep_failure import WinMLEPRegistrationFailed
from winml.modelkit.session.ep_registry import WinMLDevice, WinMLEP
from winml.modelkit.session.ep_sources import EPEntry

QNN = "QNNExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"


def ep(name: str, *devices: str, virtual: bool = False) -> WinMLEP:
    listed = [WinMLDevice(name, device, "Maker", 1, 0, {}, {}, virtual) for device in devices]
    return WinMLEP(name, EPEntry(name, "/plugins/lib.so", "directory"), listed)


def pick(registered: WinMLEP, device: str | None, *, emulate: bool = False) -> tuple[str, str, bool]:
    picked = pick_device(registered, device, emulate=emulate, no_device_reason="registered, no device: because")
    return picked.device.device, picked.serves, picked.emulated


@pytest.mark.parametrize(
    ("listed", "asked", "expected"),
    [
        (("cpu", "gpu", "npu"), None, "npu"),
        (("cpu", "gpu"), None, "gpu"),
        (("cpu",), None, "cpu"),
        (("cpu", "gpu", "npu"), "gpu", "gpu"),
        (("cpu", "gpu", "npu"), "cpu", "cpu"),
    ],
)
def test_open_device_follows_the_eps_order_and_a_named_one_is_taken(
    listed: tuple[str, ...], asked: str | None, expected: str
) -> None:
    assert pick(ep(OPENVINO, *listed), asked) == (expected, expected, False)


def test_named_device_that_is_not_listed_is_refused_and_what_is_listed_is_named() -> None:
    with pytest.raises(DeviceNotFound, match="openvino offers no npu on this machine; it lists: cpu") as caught:
        pick(ep(OPENVINO, "cpu"), "npu")
    assert caught.value.exit_code == 3
    assert caught.value.details == {"ep": OPENVINO, "wanted": ["npu"], "listed": ["cpu"]}


@pytest.mark.parametrize("asked", ["npu", None])
def test_a08_qnn_on_a_cpu_device_is_an_emulator_and_served_only_on_request(asked: str | None) -> None:
    with pytest.raises(DeviceNotFound, match="emulator") as caught:
        pick(ep(QNN, "cpu"), asked)
    assert "--emulate" in str(caught.value.hint)
    assert pick(ep(QNN, "cpu"), asked, emulate=True) == ("cpu", "npu", True)


def test_emulation_is_refused_beside_real_hardware() -> None:
    with pytest.raises(DeviceNotFound, match="real npu"):
        pick(ep(QNN, "npu"), "npu", emulate=True)


def test_a06_no_device_is_the_registration_failure_with_the_given_words() -> None:
    with pytest.raises(WinMLEPRegistrationFailed, match="because") as caught:
        pick(ep(OPENVINO), None)
    assert caught.value.cause == "no_device"
    assert caught.value.exit_code == 3


def test_j03_virtual_devices_are_never_run_on() -> None:
    with pytest.raises(WinMLEPRegistrationFailed):
        pick(ep(OPENVINO, "npu", virtual=True), "npu")


def test_a_device_whose_ep_is_gone_raises_our_error() -> None:
    device = ep(OPENVINO, "cpu").devices[0]
    with pytest.raises(TargetUnavailable, match="was unregistered"):
        _ = device.ort_device
