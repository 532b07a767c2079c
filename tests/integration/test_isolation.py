"""Each EP library in a process of its own: whatever it does becomes one row, and no row colours another."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import pytest

from winml.modelkit.session.ep_device import resolve_target
from winml.modelkit.session.ep_inventory import take_inventory
from winml.modelkit.session.ep_isolation import isolated_ep_register
from winml.modelkit.session.ep_sources import EPEntry, find_entries, select_entries

OPENVINO = "OpenVINOExecutionProvider"
QNN = "QNNExecutionProvider"


def entry_of(name: str) -> EPEntry:
    entries = select_entries(find_entries(environ={}).entries, name, "pypi")
    if not entries:
        pytest.skip(f"the plugin distribution of {name} is not installed")
    return entries[0]


def test_cpu_is_usable() -> None:
    probe = isolated_ep_register(EPEntry("CPUExecutionProvider", None, "bundled"))
    assert probe.status == "usable"
    assert [device.device for device in probe.devices] == ["cpu"]
    assert "CPUExecutionProvider" in probe.details["available_providers"]


@pytest.mark.parametrize(
    ("name", "status", "cause", "words"),
    [
        ("hang", "timed_out", "timed_out", "ended after"),
        ("abort", "crashed", "crashed", "SIGABRT"),
        ("exit", "crashed", "ended_early", "exit code"),
        ("segv", "crashed", "crashed", "SIGSEGV"),
        ("flood", "no_device", "no_device", "no device"),
        ("no_device", "no_device", "no_device", "no device"),
        ("no_session", "no_session", "no_session", ""),
        ("truncated", "failed", "truncated", ""),
        ("text", "failed", "wrong_format", ""),
        ("wrong_machine", "failed", "wrong_machine", ""),
        ("missing_dependency", "failed", "missing_dependency", "libgone_dependency.so"),
        ("not_an_ep", "failed", "not_an_ep_library", ""),
        ("missing_symbol", "failed", "missing_symbol", ""),
        ("empty", "failed", "wrong_format", ""),
        ("fifo", "failed", "not_a_regular_file", ""),
        ("directory", "failed", "not_a_regular_file", ""),
        ("dangling", "failed", "file_missing", ""),
        ("newer_api", "failed", "ort_api_too_old", ""),
    ],
)
def test_a05_every_cause_has_its_own_status_and_words(
    hostile_libraries: dict[str, Path], name: str, status: str, cause: str, words: str
) -> None:
    path = hostile_libraries[name]
    started = time.monotonic()
    probe = isolated_ep_register(EPEntry(f"{name.title()}ExecutionProvider", str(path), "directory"), timeout=4)
    assert time.monotonic() - started < 15
    assert probe.failure is not None
    assert (probe.status, probe.failure.cause) == (status, cause)
    assert words in probe.failure.reason
    assert "Traceback" not in probe.failure.reason


def test_a08_qnn_on_x86_is_an_emulator_and_never_an_npu() -> None:
    probe = isolated_ep_register(entry_of(QNN), timeout=60)
    if any(device.device == "npu" for device in probe.devices):
        pytest.skip("this machine has a Qualcomm NPU")
    assert probe.status == "emulator"
    assert [(device.device, device.emulates) for device in probe.devices] == [("cpu", "npu")]


def test_a09_versions_of_package_and_plugin_are_both_kept() -> None:
    entry = entry_of(QNN)
    probe = isolated_ep_register(entry, timeout=60)
    assert entry.package_version is not None
    assert entry.package_version.startswith("2.")
    assert probe.plugin_version == "0.1.0"


def test_j01_openvino_is_usable_or_says_that_it_serves_intel_hardware() -> None:
    probe = isolated_ep_register(entry_of(OPENVINO), timeout=60)
    if probe.status == "usable":
        assert all(device.device in ("cpu", "gpu", "npu") for device in probe.devices)
    else:
        assert probe.status == "no_device"
        assert probe.failure is not None
        assert "serves Intel hardware" in probe.failure.reason
        assert "registered, no device" in probe.failure.reason


def test_a01_auto_is_never_a_device_of_its_own(openvino_ep_path: str | None) -> None:
    folders = [openvino_ep_path] if openvino_ep_path else []
    entry = select_entries(find_entries(folders, environ={}).entries, OPENVINO)[0]
    probe = isolated_ep_register(entry, timeout=60)
    assert probe.status == "usable"
    assert {device.facts["ep_name"] for device in probe.devices} == {OPENVINO}
    assert len({(d.device, d.facts["ep_metadata"]["ov_device"]) for d in probe.devices}) == len(probe.devices)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="copies ELF libraries")
def test_two_copies_of_one_plugin_each_tell_their_own_facts(tmp_path: Path) -> None:
    """A copy without its dependencies fails by itself, also beside a complete one."""
    entry = entry_of(QNN)
    assert entry.path is not None
    whole = Path(entry.path).parent
    lonely = tmp_path / "lonely"
    complete = tmp_path / "complete"
    lonely.mkdir()
    shutil.copy(entry.path, lonely)
    complete = complete / whole.name
    shutil.copytree(whole, complete, symlinks=True, ignore=shutil.ignore_patterns("*Genie*", "*.pdf"))
    bundled = whole.with_name(f"{whole.name}.libs")
    if bundled.is_dir():
        shutil.copytree(bundled, complete.with_name(bundled.name))
    inventory = take_inventory([str(complete), str(lonely)], timeout=60)
    assert [e.path for e in inventory.shadowed if e.ep_name == QNN][:1] == [str(lonely / Path(entry.path).name)]
    alone = isolated_ep_register(EPEntry(QNN, str(lonely / Path(entry.path).name), "directory"), timeout=60)
    beside = next(probe for probe in inventory.probes if probe.entry.ep_name == QNN)
    assert beside.status == "emulator"
    assert beside.entry.path == str(complete / Path(entry.path).name)
    assert alone.status == "no_session"
    assert alone.failure is not None
    assert "placed on CPUExecutionProvider" in alone.failure.reason
    assert "libQnnHtp.so" in alone.failure.reason


def test_inventory_with_ten_hostile_libraries_is_complete(ten_hostile_libraries: dict[str, Path]) -> None:
    folder = next(iter(ten_hostile_libraries.values())).parent
    started = time.monotonic()
    inventory = take_inventory([str(folder)], timeout=6)
    assert time.monotonic() - started < 60
    by_file = {Path(p.entry.path).name: p.status for p in inventory.probes if p.entry.path is not None}
    assert {f"lib{name}.so" for name in ten_hostile_libraries} <= set(by_file)
    assert "usable" not in {by_file[f"lib{name}.so"] for name in ten_hostile_libraries}
    assert ("CPUExecutionProvider", "cpu") in inventory.usable()


def test_a14_automatic_choice_takes_only_what_is_here() -> None:
    from winml.modelkit.session.ep_inventory import choose

    choice = choose(resolve_target(), fresh=True)
    usable = take_inventory().usable()
    assert (choice.entry.ep_name, choice.device) in usable
    assert "first usable of npu, gpu, cpu" in choice.rule
