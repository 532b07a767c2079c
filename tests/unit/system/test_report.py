"""The ``winml sys`` document, made of recorded inventories."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from fixtures import inventories as made
from winml.modelkit.documents import encode
from winml.modelkit.session.ep_device import EP_DEVICE_SPECS
from winml.modelkit.session.ep_inventory import Inventory
from winml.modelkit.session.ep_sources import AvailableEP, SourceProblem
from winml.modelkit.system.document import SECTIONS, CatalogRow, EPRow, Section, SysDocument
from winml.modelkit.system.report import build


def report(inventory: Inventory, *, platform: str = "linux", sections: tuple[Section, ...] = SECTIONS) -> SysDocument:
    return build(inventory, timeout_s=15.0, platform=platform, sections=sections)


def ep_row(document: SysDocument, alias: str) -> EPRow:
    assert document.eps is not None
    return next(row for row in document.eps if row.alias == alias)


def catalog_row(document: SysDocument, alias: str) -> CatalogRow:
    assert document.catalog is not None
    return next(row for row in document.catalog if row.alias == alias)


# --- devices ------------------------------------------------------------------------------------------------


def test_a08_an_emulator_never_makes_an_npu() -> None:
    document = report(made.amd_machine())
    assert document.devices is not None
    assert [row.device for row in document.devices] == ["cpu"]
    (cpu,) = document.devices
    assert {(use.alias, use.usable, use.emulates) for use in cpu.eps} == {("qnn", True, "npu"), ("cpu", True, None)}
    row = ep_row(document, "qnn")
    assert row.status == "emulator"
    assert [(item.device, item.emulates) for item in row.devices] == [("cpu", "npu")]
    assert "timings say nothing about real hardware" in str(row.reason)
    assert catalog_row(document, "qnn").readiness == "emulator_only"
    assert catalog_row(document, "qnn").usable_on == []


def test_one_row_per_physical_device_with_what_each_ep_does_there() -> None:
    document = report(made.intel_laptop())
    assert document.devices is not None
    npu, gpu, cpu = document.devices
    assert (npu.device, npu.name, npu.architecture, npu.driver) == ("npu", "Intel(R) AI Boost", "3720", "32.0.100.4023")
    assert (npu.vendor_id, npu.device_id) == (0x8086, 0x7D1D)
    assert gpu.name == "Intel(R) Arc(TM) Graphics"
    assert [(use.alias, use.usable, use.reason) for use in gpu.eps] == [
        ("openvino", False, "no session: out of memory")
    ]
    assert [use.alias for use in cpu.eps] == ["openvino", "cpu"]
    assert cpu.device_id is None


def test_two_cards_of_one_model_are_two_devices() -> None:
    cards = tuple(made.hardware("gpu", "NVIDIA", 0x10DE, 0x2684, pci_bus_id=place) for place in ("01:00.0", "02:00.0"))
    name = "NvTensorRTRTXExecutionProvider"
    inventory = made.inventory(
        made.probe(name, "usable", *map(made.device, cards), path="/x.so"), hardware=(*cards, made.AMD_CPU)
    )
    devices = report(inventory).devices
    assert devices is not None
    assert [row.device for row in devices] == ["gpu", "gpu", "cpu"]
    assert all(len(row.eps) == 1 for row in devices[:2])


def test_cpus_are_one_device_whatever_ids_an_ep_gives_them() -> None:
    odd = made.hardware("cpu", "Intel", 0x8086, 42)
    inventory = made.inventory(made.probe(made.OPENVINO, "usable", made.device(odd), path="/x.so"))
    devices = report(inventory).devices
    assert devices is not None
    assert len(devices) == 1
    assert devices[0].vendor == "AMD"
    assert [use.alias for use in devices[0].eps] == ["openvino", "cpu"]


def test_devices_without_a_hardware_list_come_from_the_eps() -> None:
    devices = report(made.inventory(hardware=())).devices
    assert devices is not None
    assert [row.device for row in devices] == ["cpu"]


# --- libraries ----------------------------------------------------------------------------------------------


def test_j01_registered_without_a_device_keeps_its_reason_and_version() -> None:
    document = report(made.amd_machine())
    row = ep_row(document, "openvino")
    assert row.status == "no_device"
    assert row.code == "no_device"
    assert row.reason == (
        "registered, no device: the plugin serves Intel hardware (CPU, GPU or NPU); this machine has CPU by AMD"
    )
    assert row.hint == "needs Intel hardware (CPU, GPU or NPU)"
    assert row.library.package_version == "1.8.1"
    assert row.devices == []
    assert catalog_row(document, "openvino").readiness == "installed_not_usable"


def test_a09_every_version_is_kept() -> None:
    library = ep_row(report(made.amd_machine()), "qnn").library
    assert (library.package_version, library.plugin_version, library.file_version) == ("2.7.0", "0.1.0", None)


def test_a07_a_copy_is_a_row_that_names_the_winner() -> None:
    document = report(made.intel_laptop())
    assert document.eps is not None
    rows = [row for row in document.eps if row.alias == "openvino"]
    assert [(row.status, row.library.source) for row in rows] == [("usable", "winml-catalog"), ("shadowed", "pypi")]
    assert rows[1].shadowed_by == rows[0].library.path
    assert rows[1].seconds is None


def test_a_library_that_died_shows_how_and_where_its_output_is() -> None:
    failure = made.failed(
        "AbortExecutionProvider",
        "/x/libabort.so",
        "the worker process was ended by signal 6 (SIGABRT) during: register",
        "crashed",
        log="/logs/1.log",
        last_lines=["terminate called"],
    )
    probe = made.probe("AbortExecutionProvider", "crashed", path="/x/libabort.so", source="directory", failure=failure)
    row = ep_row(report(made.inventory(probe)), "AbortExecutionProvider")
    assert (row.status, row.code, row.log, row.last_lines) == (
        "crashed",
        "crashed",
        "/logs/1.log",
        ["terminate called"],
    )


def test_size_and_hash_are_of_the_file_itself(tmp_path: Path) -> None:
    file = tmp_path / "libx.so"
    file.write_bytes(b"abc")
    probe = made.probe(made.OPENVINO, "failed", path=str(file))
    row = ep_row(report(made.inventory(probe)), "openvino")
    assert row.library.bytes == 3
    assert row.sha256 == hashlib.sha256(b"abc").hexdigest()


@pytest.mark.parametrize("kind", ["missing", "folder"])
def test_what_is_no_file_has_neither_size_nor_hash(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "libx.so"
    if kind == "folder":
        path.mkdir()
    row = ep_row(report(made.inventory(made.probe(made.OPENVINO, "failed", path=str(path)))), "openvino")
    assert (row.library.bytes, row.sha256, row.library.file_version) == (None, None, None)


# --- readiness ----------------------------------------------------------------------------------------------


def test_every_ep_of_the_table_has_its_row() -> None:
    document = report(made.amd_machine())
    assert document.catalog is not None
    assert [row.ep for row in document.catalog] == list(EP_DEVICE_SPECS)
    for row in document.catalog:
        assert row.readiness == "usable" or row.reason, row.alias
    assert all(row.next_step for row in document.catalog if row.readiness == "not_installed")


def test_readiness_of_an_ep_for_another_platform() -> None:
    assert catalog_row(report(made.inventory()), "dml").readiness == "other_platform"
    assert catalog_row(report(made.inventory()), "dml").reason == "exists for Windows only"
    on_windows = catalog_row(report(made.inventory(), platform="win32"), "dml")
    assert (on_windows.readiness, on_windows.next_step) == ("not_installed", EP_DEVICE_SPECS[on_windows.ep].install)


def test_readiness_of_what_a_catalog_offers() -> None:
    offer = AvailableEP("VitisAIExecutionProvider", "winml-catalog", "NotPresent", "AMD.NPU.EP", "1.8.53.0")
    row = catalog_row(report(made.inventory(available=(offer,)), platform="win32"), "vitisai")
    assert row.readiness == "not_installed"
    assert row.reason == "offered by winml-catalog as AMD.NPU.EP 1.8.53.0, not installed (NotPresent)"


def test_readiness_of_a_library_that_fails_names_cause_and_next_step() -> None:
    name = "NvTensorRTRTXExecutionProvider"
    failure = made.failed(name, "/x.so", "missing dependency libcuda.so.1", "missing_dependency")
    row = catalog_row(
        report(made.inventory(made.probe(name, "failed", path="/x.so", failure=failure))), "nv_tensorrt_rtx"
    )
    assert row.readiness == "installed_not_usable"
    assert row.reason == "missing dependency libcuda.so.1"
    assert "driver" in str(row.next_step)


def test_usable_on_lists_real_devices_in_order() -> None:
    row = catalog_row(report(made.intel_laptop(), platform="win32"), "openvino")
    assert (row.readiness, row.usable_on, row.reason, row.next_step) == ("usable", ["npu", "cpu"], None, None)


# --- sections, warnings, form -------------------------------------------------------------------------------


@pytest.mark.parametrize("sections", [("devices",), ("eps", "catalog"), ("machine",), SECTIONS])
def test_a10_sections_leave_out_and_never_change(sections: tuple[Section, ...]) -> None:
    whole = report(made.intel_laptop())
    part = report(made.intel_laptop(), sections=sections)
    assert part.requested.sections == list(sections)
    for name in ("devices", "eps", "catalog"):
        assert getattr(part, name) == (getattr(whole, name) if name in sections else None)


def test_warnings_say_which_path_is_wrong() -> None:
    problems = (
        SourceProblem("WINMLCLI_EP_PATH", "/nowhere", "file_missing", "no such file or folder"),
        SourceProblem("--ep-path /gone", "/gone", "file_missing", "no such file or folder"),
    )
    document = report(made.inventory(problems=problems))
    assert [notice.message for notice in document.warnings] == [
        "WINMLCLI_EP_PATH /nowhere: no such file or folder",
        "--ep-path /gone: no such file or folder",
    ]


def test_a_runtime_that_does_not_import_is_said_loudly() -> None:
    failure = made.failed(made.CPU, None, "a package that this job needs does not import", "unknown")
    broken = made.probe(made.CPU, "failed", source="bundled", failure=failure)
    inventory = Inventory((broken,), (), made.inventory().sources, (), None, ())
    document = report(inventory)
    assert document.runtime.version is None
    assert [notice.code for notice in document.warnings] == ["runtime_missing"]
    assert "does not import" in document.warnings[0].message
    assert document.devices == []


@pytest.mark.parametrize("inventory", [made.amd_machine(), made.intel_laptop(), made.inventory(hardware=())])
def test_documents_fit_the_schema_made_of_their_types(inventory: Inventory) -> None:
    schema = msgspec.json.schema(SysDocument)
    jsonschema.validate(json.loads(encode(report(inventory))), schema)
