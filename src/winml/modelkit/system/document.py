"""The document of ``winml sys``: this machine, its devices, every EP library and what it did when it was tried."""

from __future__ import annotations

from typing import Literal

import msgspec

from winml.modelkit.documents import Document, ErrorInfo, Library, Machine, Notice

SCHEMA: Literal["winml.sys/1"] = "winml.sys/1"

Section = Literal["machine", "devices", "eps", "catalog"]
SECTIONS: tuple[Section, ...] = ("machine", "devices", "eps", "catalog")

Status = Literal["usable", "emulator", "no_device", "no_session", "failed", "crashed", "timed_out", "shadowed"]
Readiness = Literal["usable", "emulator_only", "installed_not_usable", "not_installed", "other_platform"]


class SysRequested(Document, kw_only=True):
    """What was asked for. Sections that were not asked for are null in the document."""

    sections: list[Section]
    ep_path: list[str] = msgspec.field(default_factory=list)
    timeout_s: float


class Runtime(Document, kw_only=True):
    """The ONNX Runtime that the EPs were tried with; ``version`` is null where it does not import.

    ``distributions`` are all installed packages that provide the import name ``onnxruntime``; more than one overwrite
    each other's files. ``other_providers`` are bundled providers that are no row of the EP table.
    """

    version: str | None
    distributions: dict[str, str]
    other_providers: list[str]


class DeviceUse(Document, kw_only=True):
    """What one EP library does on a device: ``usable`` is proven by a session that ran one node there."""

    ep: str
    alias: str
    path: str | None
    usable: bool
    emulates: str | None = None
    reason: str | None = None


class DeviceRow(Document, kw_only=True):
    """One physical device, with the class that ONNX Runtime gives it. PCI ids are null where they are not known."""

    device: Literal["cpu", "gpu", "npu"]
    name: str | None
    vendor: str | None
    vendor_id: int | None
    device_id: int | None
    architecture: str | None
    driver: str | None
    eps: list[DeviceUse]


class EPDevice(Document, kw_only=True):
    """One device that an EP lists, as that EP describes it."""

    device: Literal["cpu", "gpu", "npu"]
    name: str | None
    vendor: str | None
    vendor_id: int | None
    device_id: int | None
    architecture: str | None
    driver: str | None
    usable: bool
    emulates: str | None = None
    reason: str | None = None


class EPRow(Document, kw_only=True):
    """One EP library and what it did in a process of its own.

    ``reason``, ``code`` and ``hint`` say why it is not usable, or not usable for real; they are null for a usable
    one. ``fallback_version`` is the version of a library that did not get as far as reporting one. ``shadowed_by`` is
    the library that is used in its place. ``log`` is the file with the library's own output.
    """

    ep: str
    alias: str
    status: Status
    reason: str | None
    code: str | None
    hint: str | None
    library: Library
    sha256: str | None
    fallback_version: str | None
    origin: str | None
    also_from: list[str]
    shadowed_by: str | None
    devices: list[EPDevice]
    seconds: float | None
    log: str | None
    last_lines: list[str]


class CatalogRow(Document, kw_only=True):
    """One EP of the table: how far this machine is from using it, and the next step (null where there is none)."""

    ep: str
    alias: str
    vendor: str
    serves: list[str]
    readiness: Readiness
    usable_on: list[str]
    emulates: list[str]
    reason: str | None
    next_step: str | None


class SysDocument(Document, kw_only=True):
    """``winml sys --format json``."""

    schema: Literal["winml.sys/1"] = SCHEMA
    status: Literal["ok"] = "ok"
    requested: SysRequested
    environment: Machine
    runtime: Runtime
    devices: list[DeviceRow] | None = None
    eps: list[EPRow] | None = None
    catalog: list[CatalogRow] | None = None
    warnings: list[Notice] = msgspec.field(default_factory=list)
    error: ErrorInfo | None = None
