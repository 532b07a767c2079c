"""Which device the hardware counters are to be of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WatchedDevice:
    """The device that ran, as far as it can be found again in the system's own counters.

    Attributes:
        kind: ``cpu``, ``gpu`` or ``npu``: the class ONNX Runtime lists, so ``cpu`` for an emulator.
        name: what it is called, or None.
        vendor_id, device_id: PCI ids; 0 if not known.
        pci_address: ``0000:00:0b.0``, or None.
        card_index: N of ``/sys/class/drm/cardN``, or None.
        luid: Windows' number of the adapter, or None.
    """

    kind: str
    name: str | None = None
    vendor_id: int = 0
    device_id: int = 0
    pci_address: str | None = None
    card_index: int | None = None
    luid: int | None = None


def watched_device(listed: Mapping[str, Any]) -> WatchedDevice:
    """A device that ONNX Runtime lists, out of what ``WinMLDevice.to_dict`` says of it; only ``device`` must be there.

    ONNX Runtime's metadata carries ``LUID`` (decimal, high part times 2**32) on Windows, ``pci_bus_id`` and
    ``card_idx`` for GPUs on Linux.
    """
    both = {**listed.get("ep_metadata", {}), **listed.get("hardware_metadata", {})}
    facts = {key.casefold(): value for key, value in both.items()}
    return WatchedDevice(
        kind=listed["device"],
        name=listed.get("device_facts", {}).get("Name"),
        vendor_id=listed.get("vendor_id", 0),
        device_id=listed.get("device_id", 0),
        pci_address=pci_address(facts.get("pci_bus_id")),
        card_index=_whole(facts.get("card_idx")),
        luid=_whole(facts.get("luid")),
    )


def pci_address(text: str | None) -> str | None:
    """``0000:01:00.0`` out of ``01:00.0`` or ``00000000:01:00.0``; None for anything else.

    >>> pci_address("00000000:C1:00.0"), pci_address("c1:00.0"), pci_address("card0")
    ('0000:c1:00.0', '0000:c1:00.0', None)
    """
    found = _PCI.fullmatch(text.strip()) if text else None
    if found is None:
        return None
    domain, bus, slot, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{slot}.{function}".casefold()


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
