"""Make the ``winml sys`` document out of an inventory. Every view of ``sys`` is drawn from this one document."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from winml.modelkit.documents import Library, Machine, Notice
from winml.modelkit.environment import machine_facts
from winml.modelkit.session.ep_binary import file_version
from winml.modelkit.session.ep_device import DEVICES, EP_DEVICE_SPECS, spec_problems
from winml.modelkit.session.ep_inventory import CPU_EP, Inventory
from winml.modelkit.session.ep_isolation import EMULATOR, NO_DEVICE, USABLE, DeviceProbe, EPProbe
from winml.modelkit.session.ep_sources import AvailableEP, EPEntry, SourceProblem
from winml.modelkit.session.ep_spec import EPDeviceSpec
from winml.modelkit.system.document import (
    SECTIONS,
    CatalogRow,
    DeviceRow,
    DeviceUse,
    EPDevice,
    EPRow,
    Readiness,
    Runtime,
    Section,
    SysDocument,
    SysRequested,
)

__all__ = ["build"]

_HASH_LIMIT = 1 << 30
"""Libraries beyond 1 GiB are not hashed: a report must not take seconds for one field."""

# What tells two devices of one model apart, as ONNX Runtime names it on Windows and Linux.
_PLACE_KEYS = ("luid", "pci_bus_id", "card_idx", "dxgiadapternumber")

CPU = "cpu"


def build(
    inventory: Inventory,
    *,
    sections: Collection[Section] = SECTIONS,
    ep_path: Sequence[str] = (),
    timeout_s: float,
    platform: str = sys.platform,
) -> SysDocument:
    """The document for what an inventory found.

    Args:
        inventory: of ``take_inventory``.
        sections: which of ``SECTIONS`` to hold; the others are null.
        ep_path: the folders and libraries that were asked for.
        timeout_s: limit for each library, in seconds.
        platform: ``sys.platform`` of the machine the inventory is of.
    """
    machine = Machine(**machine_facts())
    document = SysDocument(
        requested=SysRequested(
            sections=[section for section in SECTIONS if section in sections],
            ep_path=list(ep_path),
            timeout_s=timeout_s,
        ),
        environment=machine,
        runtime=Runtime(
            version=inventory.runtime,
            distributions=machine.onnxruntime,
            other_providers=list(inventory.other_providers),
        ),
        warnings=_warnings(inventory),
    )
    if "devices" in sections:
        document.devices = _devices(inventory, machine)
    if "eps" in sections:
        document.eps = [_tried(probe) for probe in inventory.probes]
        document.eps += [_shadowed(entry) for entry in inventory.shadowed]
    if "catalog" in sections:
        document.catalog = [_readiness(spec, inventory, platform) for spec in EP_DEVICE_SPECS.values()]
    return document


def _alias(ep_name: str) -> str:
    spec = EP_DEVICE_SPECS.get(ep_name)
    return spec.alias if spec else ep_name


# --- devices ------------------------------------------------------------------------------------------------


def _devices(inventory: Inventory, machine: Machine) -> list[DeviceRow]:
    """One row per physical device; what ONNX Runtime sees, then what only an EP's own list has."""
    rows: dict[tuple[Any, ...], DeviceRow] = {}
    for item in inventory.hardware:
        _row_of(rows, item, item["metadata"], machine)
    for probe in inventory.probes:
        for device in probe.devices:
            row = _row_of(rows, device.facts, device.facts["hardware_metadata"], machine)
            facts = device.facts["device_facts"]
            row.name = row.name or facts["Name"]
            row.architecture = row.architecture or facts["Architecture"]
            row.driver = row.driver or facts["Driver"]
            row.eps.append(
                DeviceUse(
                    ep=probe.entry.ep_name,
                    alias=_alias(probe.entry.ep_name),
                    path=probe.entry.path,
                    usable=device.usable,
                    emulates=device.emulates,
                    reason=device.reason,
                )
            )
    return sorted(rows.values(), key=lambda row: DEVICES.index(row.device))


def _row_of(
    rows: dict[tuple[Any, ...], DeviceRow], item: dict[str, Any], metadata: dict[str, str], machine: Machine
) -> DeviceRow:
    places = {key.casefold(): value for key, value in metadata.items()}
    place = next((places[key] for key in _PLACE_KEYS if places.get(key)), None)
    # The CPUs of a machine are one device to ONNX Runtime, whatever ids an EP gives them.
    is_cpu = item["device"] == CPU
    identity = (CPU,) if is_cpu else (item["device"], item["vendor_id"], item["device_id"], place)
    if identity not in rows:
        rows[identity] = DeviceRow(
            device=item["device"],
            name=machine.cpu if is_cpu else places.get("description"),
            vendor=item["vendor"] or None,
            vendor_id=item["vendor_id"] or None,
            device_id=item["device_id"] or None,
            architecture=machine.machine if is_cpu else None,
            driver=None,
            eps=[],
        )
    return rows[identity]


# --- libraries ----------------------------------------------------------------------------------------------


def _tried(probe: EPProbe) -> EPRow:
    failure = probe.failure
    reason, code, hint = None, None, None
    details: dict[str, Any] = {}
    if failure is not None:
        known = failure.to_dict()
        reason, code, hint, details = known["reason"], known["code"], known["hint"], known["details"]
        if probe.status == NO_DEVICE:
            hint = _needs(EP_DEVICE_SPECS.get(probe.entry.ep_name))
    elif probe.status == EMULATOR:
        reason, code = _emulator_reason(probe), "emulator"
        hint = _needs(EP_DEVICE_SPECS.get(probe.entry.ep_name))
    row = _row(probe.entry, probe.plugin_version)
    row.status = probe.status  # type: ignore[assignment]  # the words of ep_isolation, as the document's type lists them
    row.reason, row.code, row.hint = reason, code, hint
    row.fallback_version = failure.fallback_version if failure is not None else None
    row.devices = [_ep_device(device) for device in probe.devices]
    row.seconds = round(probe.seconds, 3)
    row.log = details.get("log") or probe.details.get("log")
    row.last_lines = list(details.get("last_lines") or ())
    return row


def _shadowed(entry: EPEntry) -> EPRow:
    row = _row(entry, None)
    row.reason = f"not tried: {entry.shadowed_by or 'the bundled one'} comes first"
    row.code = "shadowed"
    return row


def _row(entry: EPEntry, plugin_version: str | None) -> EPRow:
    """The row of a library as far as it is known without trying it."""
    size, digest = (None, None) if entry.path is None else _size_and_sha256(Path(entry.path))
    return EPRow(
        ep=entry.ep_name,
        alias=_alias(entry.ep_name),
        status="shadowed",
        reason=None,
        code=None,
        hint=None,
        library=Library(
            path=entry.path,
            source=entry.source,
            distribution=entry.distribution,
            package_version=entry.package_version,
            plugin_version=plugin_version,
            file_version=None if size is None or entry.path is None else file_version(entry.path),
            bytes=size,
        ),
        sha256=digest,
        fallback_version=None,
        origin=entry.origin,
        also_from=list(entry.also_from),
        shadowed_by=entry.shadowed_by,
        devices=[],
        seconds=None,
        log=None,
        last_lines=[],
    )


def _size_and_sha256(path: Path) -> tuple[int | None, str | None]:
    """Size in bytes and digest; None for what is no regular file, can't be read, or is too large to hash."""
    import hashlib

    try:
        if not path.is_file():
            return None, None
        size = path.stat().st_size
        if size > _HASH_LIMIT:
            return size, None
        with path.open("rb") as file:
            return size, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None, None


def _ep_device(device: DeviceProbe) -> EPDevice:
    facts = device.facts["device_facts"]
    return EPDevice(
        device=device.device,  # type: ignore[arg-type]  # ONNX Runtime has these three classes
        name=facts["Name"],
        vendor=device.facts["vendor"] or None,
        vendor_id=device.facts["vendor_id"] or None,
        device_id=device.facts["device_id"] or None,
        architecture=facts["Architecture"],
        driver=facts["Driver"],
        usable=device.usable,
        emulates=device.emulates,
        reason=device.reason,
    )


def _emulator_reason(probe: EPProbe) -> str:
    spec = EP_DEVICE_SPECS.get(probe.entry.ep_name)
    whose = f"{spec.vendor}'s" if spec else "an"
    what = "; ".join(
        f"{whose} {device.emulates} emulator on the {device.device}"
        for device in probe.devices
        if device.usable and device.emulates
    )
    return f"{what}: its results count, its timings say nothing about real hardware"


def _needs(spec: EPDeviceSpec | None) -> str | None:
    return f"needs {spec.hardware}" if spec and spec.hardware else None


# --- readiness ----------------------------------------------------------------------------------------------


def _readiness(spec: EPDeviceSpec, inventory: Inventory, platform: str) -> CatalogRow:
    probes = [probe for probe in inventory.probes if probe.entry.ep_name == spec.name]
    offers = [offer for offer in inventory.sources.available if offer.ep_name == spec.name]
    row = CatalogRow(
        ep=spec.name,
        alias=spec.alias,
        vendor=spec.vendor,
        serves=list(spec.devices),
        readiness="not_installed",
        usable_on=_in_order(d.device for p in probes for d in p.devices if d.usable and d.emulates is None),
        emulates=_in_order(d.emulates for p in probes for d in p.devices if d.usable and d.emulates),
        reason="no library of it was found",
        next_step=spec.install or None,
    )
    if probes:
        row.readiness, row.reason, row.next_step = _installed(probes, spec)
    elif platform not in spec.platforms:
        row.readiness = "other_platform"
        row.reason = f"exists for {_platforms(spec.platforms)} only"
        row.next_step = None
    elif offers:
        row.reason = "; ".join(map(_offer, offers))
    return row


def _installed(probes: Sequence[EPProbe], spec: EPDeviceSpec) -> tuple[Readiness, str | None, str | None]:
    statuses = {probe.status for probe in probes}
    if USABLE in statuses:
        return "usable", None, None
    emulator = next((probe for probe in probes if probe.status == EMULATOR), None)
    if emulator is not None:
        return "emulator_only", _emulator_reason(emulator), _needs(spec)
    failed = [probe for probe in probes if probe.failure is not None]
    reason = "; ".join(dict.fromkeys(probe.failure.reason for probe in failed if probe.failure)) or None
    if statuses == {NO_DEVICE}:
        return "installed_not_usable", reason, _needs(spec)
    hints = (probe.failure.hint for probe in failed if probe.failure)
    return "installed_not_usable", reason, "; ".join(dict.fromkeys(filter(None, hints))) or None


def _in_order(devices: Iterable[str]) -> list[str]:
    found = set(devices)
    return [device for device in DEVICES if device in found]


def _platforms(platforms: Sequence[str]) -> str:
    words = {"win32": "Windows", "linux": "Linux", "darwin": "macOS"}
    return " and ".join(words.get(platform, platform) for platform in platforms)


def _offer(offer: AvailableEP) -> str:
    package = " ".join(filter(None, (offer.package, offer.version)))
    return f"offered by {offer.source}{f' as {package}' if package else ''}, not installed ({offer.state})"


# --- warnings -----------------------------------------------------------------------------------------------


def _warnings(inventory: Inventory) -> list[Notice]:
    found = [Notice(code="ep_spec", message=problem) for problem in spec_problems()]
    found += [Notice(code=problem.code, message=_problem(problem)) for problem in inventory.sources.problems]
    if inventory.runtime is None:
        cpu = next((probe for probe in inventory.probes if probe.entry.ep_name == CPU_EP), None)
        why = f": {cpu.failure.reason}" if cpu is not None and cpu.failure is not None else ""
        found.append(Notice(code="runtime_missing", message=f"onnxruntime could not be used{why}"))
    return found


def _problem(problem: SourceProblem) -> str:
    place = "" if problem.path and problem.path in problem.origin else f" {problem.path}"
    return f"{problem.origin}{place}: {problem.reason}"
