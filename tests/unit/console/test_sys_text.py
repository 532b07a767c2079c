"""``winml sys`` as text and as one line per row."""

from __future__ import annotations

import pytest

from fixtures import inventories as made
from winml.modelkit.console.streams import ERRORS, Look, prepare
from winml.modelkit.console.sys_text import compact_sys, format_sys
from winml.modelkit.session.ep_inventory import Inventory
from winml.modelkit.system.document import SECTIONS, Section, SysDocument
from winml.modelkit.system.report import build


@pytest.fixture(scope="module", autouse=True)
def _streams() -> None:
    prepare()


PIPE = Look(terminal=False, color=False, unicode=True, width=None)
TERMINAL_80 = Look(terminal=True, color=True, unicode=True, width=80)
ASCII_80 = Look(terminal=True, color=False, unicode=False, width=80)

COLUMNS = {"machine": 6, "runtime": 4, "device": 9, "ep": 13, "catalog": 9, "warning": 3}


def report(inventory: Inventory, *, sections: tuple[Section, ...] = SECTIONS) -> SysDocument:
    return build(inventory, timeout_s=15.0, platform="linux", sections=sections)


def lines(inventory: Inventory, *, verbose: bool = False) -> list[str]:
    return format_sys(report(inventory), PIPE, verbose=verbose).splitlines()


def row(text: list[str], title: str, name: str) -> str:
    part = text[text.index(title) + 1 :]
    return next(line for line in part if line.split()[:1] == [name])


def test_a08_text_never_calls_the_emulator_an_npu() -> None:
    text = lines(made.amd_machine())
    devices = text[text.index("Devices") + 2 : text.index("Execution providers found") - 1]
    assert len(devices) == 1
    assert devices[0].split()[0] == "cpu"
    assert devices[0].endswith("cpu          qnn (npu)")
    line = row(text, "Execution providers found", "qnn")
    assert "emulator only" in line
    assert "Qualcomm's npu emulator on the cpu" in line
    assert "versions: package 2.7.0, EP 0.1.0" in line


def test_j01_text_gives_the_reason_of_a_library_without_a_device() -> None:
    line = row(lines(made.amd_machine()), "Execution providers found", "openvino")
    assert "registered, no device  1.8.1" in line
    assert "the plugin serves Intel hardware (CPU, GPU or NPU); this machine has CPU by AMD" in line


def test_devices_with_architecture_and_driver() -> None:
    text = lines(made.intel_laptop())
    assert row(text, "Devices", "npu").split()[-2:] == ["openvino", "-"]
    assert "Intel(R) AI Boost" in row(text, "Devices", "npu")
    assert "32.0.100.4023" in row(text, "Devices", "npu")
    assert "nothing" in row(text, "Devices", "gpu")
    line = row(text, "Execution providers found", "openvino")
    assert "npu (Intel(R) AI Boost, 3720, driver 32.0.100.4023)" in line
    assert "gpu (not usable)" in line


def test_a07_the_copy_that_lost_is_shown() -> None:
    text = [line for line in lines(made.intel_laptop()) if line.split()[:2] == ["openvino", "shadowed"]]
    assert len(text) == 1
    assert r"C:\catalog\onnxruntime_providers_openvino_plugin.dll comes first" in text[0]


def test_an_ep_outside_the_table_goes_by_its_short_name() -> None:
    failure = made.failed("HangExecutionProvider", "/x/libhang.so", "no answer after 15.0 s", "timed_out", log="/l.log")
    probe = made.probe("HangExecutionProvider", "timed_out", path="/x/libhang.so", failure=failure)
    line = row(lines(made.inventory(probe)), "Execution providers found", "Hang")
    assert "timed out" in line
    assert line.endswith("no answer after 15.0 s; /x/libhang.so; log: /l.log")


def test_verbose_adds_ids_hash_and_time() -> None:
    brief, long = "\n".join(lines(made.amd_machine())), "\n".join(lines(made.amd_machine(), verbose=True))
    for fact in ("1022:-", "tried in 0.50 s", "found through distribution onnxruntime-qnn"):
        assert fact not in brief
        assert fact in long


@pytest.mark.parametrize("make", [made.amd_machine, made.intel_laptop])
@pytest.mark.parametrize("look", [TERMINAL_80, ASCII_80])
def test_i02_the_report_fits_80_columns(make: object, look: Look) -> None:
    assert callable(make)
    import re

    text = re.sub(r"\x1b\[[0-9;]*m", "", format_sys(report(make()), look, verbose=True))
    assert max(map(len, text.splitlines())) <= 80
    if not look.unicode:
        text.encode("ascii", ERRORS)


def test_a10_every_view_has_the_same_rows() -> None:
    document = report(made.intel_laptop())
    assert document.eps is not None
    assert document.catalog is not None
    text, compact = format_sys(document, PIPE), compact_sys(document)
    for ep in document.eps:
        for view in (text, compact):
            assert ep.library.path is None or ep.library.path in view
            assert ep.reason is None or ep.reason in view
    for entry in document.catalog:
        for view in (text, compact):
            assert entry.next_step is None or entry.next_step in view


def test_compact_is_one_line_per_row_with_stable_columns() -> None:
    for inventory in (made.amd_machine(), made.intel_laptop()):
        for line in compact_sys(report(inventory)).splitlines():
            cells = line.split("\t")
            assert len(cells) == COLUMNS[cells[0]], line
            assert all(cells), line


def test_compact_values() -> None:
    rows = [line.split("\t") for line in compact_sys(report(made.amd_machine())).splitlines()]
    qnn = next(cells for cells in rows if cells[:2] == ["ep", "qnn"])
    assert qnn[2:9] == ["emulator", "-", "npu", "2.7.0", "0.1.0", "-", "pypi"]
    cpu = next(cells for cells in rows if cells[:2] == ["device", "cpu"])
    assert cpu[-2:] == ["cpu", "qnn(npu)"]


def test_sections_that_were_not_asked_for_are_left_out() -> None:
    document = report(made.amd_machine(), sections=("devices",))
    assert format_sys(document, PIPE).startswith("Devices\n")
    assert "Execution providers" not in format_sys(document, PIPE)
    assert {line.split("\t")[0] for line in compact_sys(document).splitlines()} == {"device"}
