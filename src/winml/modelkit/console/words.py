"""How single facts are put into words, the same in every report."""

from __future__ import annotations

from winml.modelkit.console.layout import ABSENT, one_line
from winml.modelkit.documents import Library, Machine

__all__ = ["absent", "machine_lines", "pci_id", "percent", "rate", "size", "version_differences"]


def absent(value: object) -> str:
    """The value as text on one line, or ``-`` where there is none."""
    return ABSENT if value is None or value == "" else one_line(str(value))


def size(count: int | None) -> str:
    """Bytes in binary units.

    >>> size(3 * 1024**3), size(None)
    ('3.0 GiB', '-')
    """
    if count is None:
        return ABSENT
    value = float(count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def percent(share: float | None, *, signed: bool = False) -> str:
    """A share of 1 as a percentage.

    >>> percent(1.0), percent(0.0312), percent(0.02, signed=True)
    ('100%', '3.1%', '+2.0%')
    """
    if share is None:
        return ABSENT
    if share == 1 and not signed:
        return "100%"
    return f"{100 * share:{'+' if signed else ''}.1f}%"


def rate(value: float) -> str:
    """A rate with three significant digits, whole from 100 on."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def pci_id(vendor_id: int | None, device_id: int | None) -> str:
    """``8086:7d1d`` as lspci writes it, ``-`` for a half that is not known."""
    if vendor_id is None and device_id is None:
        return ABSENT
    return ":".join(ABSENT if number is None else f"{number:04x}" for number in (vendor_id, device_id))


def version_differences(library: Library) -> str | None:
    """``versions: package 2.7.0, EP 0.1.0`` where they differ, else None."""
    known = {
        "package": library.package_version,
        "EP": library.plugin_version,
        "file": library.file_version,
    }
    said = {who: version for who, version in known.items() if version is not None}
    if len(set(said.values())) < 2:
        return None
    return "versions: " + ", ".join(f"{who} {version}" for who, version in said.items())


def machine_lines(machine: Machine, runtime: str | None = None) -> list[str]:
    """The machine in three lines: software, processor and memory, system."""
    distributions = machine.onnxruntime
    named = ", ".join(f"{name} {version}" for name, version in distributions.items())
    if runtime is not None and runtime not in distributions.values():
        named = f"onnxruntime {runtime}" + (f" ({named})" if named else "")
    processor = [machine.cpu or "unknown CPU", _cpus(machine)]
    if machine.memory_bytes is not None:
        free = machine.memory_available_bytes
        available = f", {size(free)} available" if free is not None else ""
        processor.append(f"{size(machine.memory_bytes)} memory{available}")
    system = [machine.os, *filter(None, (machine.kernel, machine.machine))]
    return [
        " · ".join([f"winml {machine.winml}", named or "no onnxruntime", f"Python {machine.python}"]),
        " · ".join(processor),
        " · ".join(system),
    ]


def _cpus(machine: Machine) -> str:
    total = machine.cpus_logical or machine.cpus_available
    text = f"{total} CPU{'s' if total != 1 else ''}"
    if machine.cpus_physical not in (None, total):
        text += f" on {machine.cpus_physical} cores"
    if machine.cpus_available != total:
        text += f", {machine.cpus_available} for this process"
    return text
