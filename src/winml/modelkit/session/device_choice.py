"""Which device of a registered EP answers the target. Runs where the EP is registered, on what it really lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winml.modelkit.errors import DeviceNotFound
from winml.modelkit.session.ep_device import known_spec
from winml.modelkit.session.ep_failure import WinMLEPRegistrationFailed

if TYPE_CHECKING:
    from winml.modelkit.session.ep_registry import WinMLDevice, WinMLEP


@dataclass(frozen=True, slots=True)
class PickedDevice:
    """The device a session is made on.

    Attributes:
        device: the registered device.
        serves: device class the run stands for: the device's own, or the one that is emulated.
        emulated: it is an emulator on another device class; its timings say nothing about real hardware.
    """

    device: WinMLDevice
    serves: str
    emulated: bool


def pick_device(ep: WinMLEP, device: str | None, *, emulate: bool, no_device_reason: str) -> PickedDevice:
    """Pick one device of a registered EP.

    Args:
        ep: the registered EP.
        device: device class asked for, or None for the EP's own order of preference.
        emulate: take the emulator of the device instead.
        no_device_reason: what to say where the EP lists no device at all.

    Raises:
        WinMLEPRegistrationFailed: the EP registered and offers no device.
        DeviceNotFound: it offers devices, but not the one asked for.
    """
    spec = known_spec(ep.entry.ep_name)
    real = [item for item in ep.devices if not item.virtual]
    if not real:
        raise WinMLEPRegistrationFailed(no_device_reason, dll_path=ep.entry.path, ep=ep.arg0, cause="no_device")
    serves = spec.devices if spec else ("npu", "gpu", "cpu")
    if emulate and spec is not None:
        wanted = device or spec.emulates[0]
        hardware = next((item for item in real if item.device == wanted), None)
        if hardware is not None:
            raise DeviceNotFound(
                f"{spec.alias} has a real {wanted} on this machine and no emulator of it",
                code="emulator_not_found",
                hint="leave --emulate out",
            )
        emulator = next((item for item in real if item.device not in serves), None)
        if emulator is None:
            raise DeviceNotFound(f"{spec.alias} has no emulator on this machine", code="emulator_not_found")
        return PickedDevice(emulator, wanted, True)
    order = (device,) if device else serves
    for wanted in order:
        found = next((item for item in real if item.device == wanted), None)
        if found is not None:
            return PickedDevice(found, wanted, False)
    return _refuse(ep, order, real)


def _refuse(ep: WinMLEP, order: tuple[str, ...], real: list[WinMLDevice]) -> PickedDevice:
    spec = known_spec(ep.entry.ep_name)
    name = spec.alias if spec else ep.entry.ep_name
    offers = ", ".join(f"{item.device} ({item.facts['Name'] or item.vendor})" for item in real)
    reason = f"{name} offers no {' or '.join(order)} on this machine; it lists: {offers}"
    hint = f"choose one of these with --device: {', '.join(dict.fromkeys(item.device for item in real))}"
    if spec is not None and spec.emulates and set(order) & set(spec.emulates):
        emulated = next(iter(set(order) & set(spec.emulates)))
        reason += f", on which {spec.vendor}'s {emulated} emulator runs"
        hint = "--emulate runs the model in the emulator; its timings say nothing about real hardware"
    elif spec is not None and not {item.device for item in real} & set(spec.devices):
        hint = f"it needs {spec.hardware}"
    raise DeviceNotFound(
        reason,
        hint=hint,
        details={"ep": ep.entry.ep_name, "wanted": list(order), "listed": [item.device for item in real]},
    )
