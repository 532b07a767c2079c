"""``winml sys`` as text, and as one line per row. Both are drawn from the document and from nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from winml.modelkit.console.layout import ABSENT, Block, Cell, Column, Lines, Row, Table, Tone, draw
from winml.modelkit.console.streams import Look, look_of, write_out
from winml.modelkit.console.words import absent, machine_lines, pci_id, size, version_differences
from winml.modelkit.system.document import CatalogRow, DeviceRow, EPDevice, EPRow, SysDocument

__all__ = ["compact_sys", "format_sys", "render_sys", "render_sys_compact"]

_STATUS: dict[str, tuple[str, Tone]] = {
    "usable": ("usable", "good"),
    "emulator": ("emulator only", "warn"),
    "no_device": ("registered, no device", "warn"),
    "no_session": ("registered, no session", "bad"),
    "failed": ("failed", "bad"),
    "crashed": ("crashed", "bad"),
    "timed_out": ("timed out", "bad"),
    "shadowed": ("shadowed", "dim"),
}

_READINESS: dict[str, tuple[str, Tone]] = {
    "usable": ("usable", "good"),
    "emulator_only": ("emulator only", "warn"),
    "installed_not_usable": ("installed, not usable", "warn"),
    "not_installed": ("not installed", ""),
    "other_platform": ("other platform", "dim"),
}


def render_sys(document: SysDocument, *, verbose: bool = False) -> None:
    """Write the report to stdout."""
    write_out(format_sys(document, look_of(sys.stdout), verbose=verbose))


def render_sys_compact(document: SysDocument) -> None:
    """Write one line per row to stdout."""
    write_out(compact_sys(document))


def format_sys(document: SysDocument, look: Look, *, verbose: bool = False) -> str:
    """The report as text.

    Args:
        document: what to show; sections that are null are left out.
        look: how it may look.
        verbose: add where libraries were found, hashes, ids, times, and what failed libraries wrote.
    """
    blocks: list[Block] = []
    if "machine" in document.requested.sections:
        lines = machine_lines(document.environment, document.runtime.version)
        blocks.append(Lines(None, [Cell(lines[0], "strong"), *(Cell(line) for line in lines[1:])]))
    if document.devices is not None:
        blocks.append(_devices(document.devices, verbose))
    if document.eps is not None:
        blocks.append(_eps(document.eps, verbose))
    if document.catalog is not None:
        blocks.append(_catalog(document.catalog))
    if document.warnings:
        blocks.append(Lines("Warnings", [Cell(notice.message, "warn") for notice in document.warnings]))
    return draw(blocks, look)


def _devices(devices: list[DeviceRow], verbose: bool) -> Table:
    titles = ["Device", "Name", "Vendor", "Architecture", "Driver", "Usable with", "Emulators"]
    table = Table("Devices", [Column(title) for title in titles + (["PCI id"] if verbose else [])])
    for row in devices:
        usable = _usable(row)
        cells = [
            Cell(row.device, "strong"),
            Cell(absent(row.name)),
            Cell(absent(row.vendor)),
            Cell(absent(row.architecture)),
            Cell(absent(row.driver)),
            Cell(", ".join(usable) or "nothing", "good" if usable else "warn"),
            Cell(", ".join(_emulators(row)) or ABSENT),
        ]
        table.rows.append(Row(cells + ([Cell(pci_id(row.vendor_id, row.device_id))] if verbose else [])))
    return table


def _usable(row: DeviceRow) -> list[str]:
    return list(dict.fromkeys(_short(use.alias) for use in row.eps if use.usable and use.emulates is None))


def _emulators(row: DeviceRow) -> list[str]:
    return list(dict.fromkeys(f"{use.alias} ({use.emulates})" for use in row.eps if use.usable and use.emulates))


def _eps(eps: list[EPRow], verbose: bool) -> Table:
    titles = ("EP", "Status", "Version", "Devices", "Source")
    table = Table("Execution providers found", [Column(title) for title in titles])
    for row in eps:
        status, tone = _STATUS[row.status]
        cells = [
            Cell(_short(row.alias), "dim" if row.status == "shadowed" else "strong"),
            Cell(status, tone),
            Cell(absent(_version(row))),
            Cell("; ".join(map(_device, row.devices)) or ABSENT),
            Cell(row.library.source),
        ]
        table.rows.append(Row(cells, [*_details(row, verbose)]))
    return table


def _short(alias: str) -> str:
    """EPs outside the table have no alias but their long name."""
    return alias.removesuffix("ExecutionProvider") or alias


def _version(row: EPRow) -> str | None:
    library = row.library
    return library.package_version or row.fallback_version or library.plugin_version or library.file_version


def _device(device: EPDevice) -> str:
    """``cpu (x86_64)``, ``npu (Intel AI Boost, 4000, driver 32.0.100.3104)``."""
    facts = [
        device.name,
        device.architecture,
        None if device.driver is None else f"driver {device.driver}",
        None if device.usable else "not usable",
    ]
    known = ", ".join(fact for fact in facts if fact)
    return f"{device.device} ({known})" if known else device.device


def _details(row: EPRow, verbose: bool) -> Iterator[Cell]:
    if row.reason:
        yield Cell(row.reason.removeprefix("registered, no device: "))
    if (versions := version_differences(row.library)) is not None:
        yield Cell(versions)
    if row.library.path:
        yield Cell(row.library.path, "dim")
    elif row.library.distribution:
        yield Cell(f"part of {row.library.distribution} {absent(row.library.package_version)}", "dim")
    if row.log and (verbose or row.status in ("crashed", "timed_out")):
        yield Cell(f"log: {row.log}", "dim")
    if not verbose:
        return
    if row.code not in (None, row.status):
        yield Cell(f"code: {row.code}", "dim")
    if row.hint:
        yield Cell(f"hint: {row.hint}", "dim")
    if row.origin:
        yield Cell(f"found through {', '.join([row.origin, *row.also_from])}", "dim")
    if row.sha256:
        yield Cell(f"{size(row.library.bytes)}, sha256 {row.sha256}", "dim")
    if row.seconds is not None:
        yield Cell(f"tried in {row.seconds:.2f} s", "dim")
    for line in row.last_lines:
        yield Cell(f"| {line}", "dim")


def _catalog(catalog: list[CatalogRow]) -> Table:
    titles = ("EP", "Vendor", "Serves", "Readiness")
    table = Table("Readiness of every execution provider", [Column(title) for title in titles], details="Next step")
    for row in catalog:
        word, tone = _READINESS[row.readiness]
        cells = [
            Cell(row.alias, "strong"),
            Cell(row.vendor),
            Cell(", ".join(row.serves)),
            Cell(f"{word} on {', '.join(row.usable_on)}" if row.usable_on else word, tone),
        ]
        step = row.next_step or row.reason
        table.rows.append(Row(cells, [Cell(step)] if step else []))
    return table


# --- compact ------------------------------------------------------------------------------------------------


def compact_sys(document: SysDocument) -> str:
    """One line per row, its columns parted by tabs, the kind of row in the first: for grep, cut and awk."""
    return "".join("\t".join(map(absent, row)) + "\n" for row in _compact_rows(document))


def _compact_rows(document: SysDocument) -> Iterator[list[object]]:
    if "machine" in document.requested.sections:
        machine = document.environment
        yield ["machine", machine.os, machine.machine, machine.cpu, machine.cpus_available, machine.memory_bytes]
        yield ["runtime", document.runtime.version, machine.winml, machine.python]
    for device in document.devices or ():
        yield [
            "device",
            device.device,
            device.name,
            device.vendor,
            pci_id(device.vendor_id, device.device_id),
            device.architecture,
            device.driver,
            ",".join(_usable(device)),
            ",".join(_emulators(device)).replace(" ", ""),
        ]
    for ep in document.eps or ():
        yield [
            "ep",
            ep.alias,
            ep.status,
            ",".join(item.device for item in ep.devices if item.usable and item.emulates is None),
            ",".join(item.emulates for item in ep.devices if item.usable and item.emulates),
            ep.library.package_version or ep.fallback_version,
            ep.library.plugin_version,
            ep.library.file_version,
            ep.library.source,
            ep.code,
            ep.reason,
            ep.library.path,
            ep.shadowed_by,
        ]
    for row in document.catalog or ():
        yield [
            "catalog",
            row.alias,
            row.readiness,
            ",".join(row.usable_on),
            ",".join(row.emulates),
            row.vendor,
            ",".join(row.serves),
            row.reason,
            row.next_step,
        ]
    for notice in document.warnings:
        yield ["warning", notice.code, notice.message]
