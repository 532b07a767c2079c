"""``winml sys`` on the machine under the test, whichever it is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import msgspec
import pytest

from winml.modelkit.environment import available_cpus
from winml.modelkit.session.ep_device import EP_DEVICE_SPECS
from winml.modelkit.session.ep_sources import find_entries, select_entries
from winml.modelkit.system.document import SysDocument

Winml = Callable[..., Any]
LeftRunning = Callable[[str], list[str]]

QNN = "QNNExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"
INTEL = 0x8086
QUALCOMM = (0x17CB, 0x4D4F4351)

# Facts that two looks at one machine need not share.
FLEETING = {"seconds", "memory_available_bytes", "log"}


def steady(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: steady(item) for key, item in value.items() if key not in FLEETING}
    if isinstance(value, list):
        return [steady(item) for item in value]
    return value


@pytest.fixture(scope="module")
def whole(winml: Winml) -> dict[str, Any]:
    """The document of a plain ``winml sys --format json``, and how long it took."""
    started = time.monotonic()
    done = winml("sys", "--format", "json")
    took = time.monotonic() - started
    assert done.code == 0, done.err
    document: dict[str, Any] = json.loads(done.out)
    return {"document": document, "seconds": took, "stderr": done.err}


def of_ep(document: dict[str, Any], ep: str, part: str = "eps") -> dict[str, Any]:
    row: dict[str, Any] = next(row for row in document[part] if row["ep"] == ep)
    return row


def needs_plugin(ep: str) -> None:
    if not select_entries(find_entries(environ={}).entries, ep):
        pytest.skip(f"{ep} is not installed here")


# --- the truth about this machine -----------------------------------------------------------------------------


def test_one_document_that_fits_its_schema(whole: dict[str, Any]) -> None:
    document = whole["document"]
    jsonschema.validate(document, msgspec.json.schema(SysDocument))
    assert (document["schema"], document["status"], document["error"]) == ("winml.sys/1", "ok", None)
    assert whole["stderr"] == ""


def test_a_look_at_the_machine_takes_seconds(whole: dict[str, Any]) -> None:
    assert whole["seconds"] < (6.0 if available_cpus() >= 2 else 12.0)


def test_a01_cpu_is_usable_and_auto_is_no_ep(whole: dict[str, Any]) -> None:
    document = whole["document"]
    assert of_ep(document, "CPUExecutionProvider")["status"] == "usable"
    assert of_ep(document, "CPUExecutionProvider", "catalog")["usable_on"] == ["cpu"]
    cpu = next(row for row in document["devices"] if row["device"] == "cpu")
    assert ("cpu", True) in {(use["alias"], use["usable"]) for use in cpu["eps"]}
    assert ".AUTO" not in json.dumps(document)


def test_every_ep_of_the_table_has_a_readiness(whole: dict[str, Any]) -> None:
    assert [row["ep"] for row in whole["document"]["catalog"]] == list(EP_DEVICE_SPECS)


def test_j01_openvino_is_usable_on_intel_and_says_why_elsewhere(whole: dict[str, Any]) -> None:
    needs_plugin(OPENVINO)
    document = whole["document"]
    row = of_ep(document, OPENVINO)
    vendors = {device["device"]: device["vendor_id"] for device in document["devices"]}
    if vendors["cpu"] == INTEL:
        assert row["status"] == "usable"
        assert "cpu" in of_ep(document, OPENVINO, "catalog")["usable_on"]
    elif INTEL not in vendors.values():
        assert row["status"] == "no_device"
        assert "Intel" in row["reason"]
        assert of_ep(document, OPENVINO, "catalog")["readiness"] == "installed_not_usable"
    assert row["library"]["package_version"]


def test_a08_qnn_is_an_emulator_and_never_an_npu(whole: dict[str, Any]) -> None:
    needs_plugin(QNN)
    document = whole["document"]
    if sys.platform != "linux" or any(device["vendor_id"] in QUALCOMM for device in document["devices"]):
        pytest.skip("the emulator is part of the Linux x86-64 package, where there is no Qualcomm hardware")
    row = of_ep(document, QNN)
    assert row["status"] == "emulator"
    assert {(device["device"], device["emulates"]) for device in row["devices"]} == {("cpu", "npu")}
    assert of_ep(document, QNN, "catalog")["readiness"] == "emulator_only"
    for device in document["devices"]:
        assert device["device"] == "cpu" or QNN not in {use["ep"] for use in device["eps"]}
    versions = row["library"]
    assert versions["package_version"] != versions["plugin_version"]  # A09: both are shown


def test_openvino_from_a_folder_wins_over_the_package(winml: Winml, openvino_ep_path: str | None) -> None:
    if openvino_ep_path is None:
        pytest.skip("the plain plugin lists its device here")
    done = winml("sys", "--format", "json", "--list-ep", env={"WINMLCLI_EP_PATH": openvino_ep_path})
    rows = [row for row in json.loads(done.out)["eps"] if row["ep"] == OPENVINO]
    assert [(row["status"], row["library"]["source"]) for row in rows] == [
        ("usable", "directory"),
        ("shadowed", "pypi"),
    ]
    assert rows[1]["shadowed_by"] == rows[0]["library"]["path"]
    (device,) = rows[0]["devices"]
    assert (device["device"], device["usable"]) == ("cpu", True)


# --- views ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--list-ep"], {"eps", "catalog"}),
        (["--list-device", "--quiet", "--verbose"], {"devices"}),
        (["--list-ep", "--list-device"], {"eps", "catalog", "devices"}),
    ],
)
def test_a10_views_agree(winml: Winml, whole: dict[str, Any], flags: list[str], parts: set[str]) -> None:
    done = winml("sys", "--format", "json", *flags)
    assert done.code == 0
    document = json.loads(done.out)
    for name in ("devices", "eps", "catalog"):
        assert steady(document[name]) == (steady(whole["document"][name]) if name in parts else None)
    assert steady(document["environment"]) == steady(whole["document"]["environment"])
    assert document["runtime"] == whole["document"]["runtime"]


@pytest.mark.parametrize("form", ["text", "compact"])
def test_a10_text_and_compact_hold_every_row(winml: Winml, whole: dict[str, Any], form: str) -> None:
    done = winml("sys", "--format", form)
    assert done.code == 0
    document = whole["document"]
    for row in document["eps"]:
        for fact in (row["library"]["path"], row["alias"], row["library"]["package_version"], row["library"]["source"]):
            assert fact is None or fact in done.out
        assert row["reason"] is None or row["reason"].removeprefix("registered, no device: ") in done.out
    for row in document["catalog"]:
        assert row["alias"] in done.out
        assert row["next_step"] is None or row["next_step"] in done.out
    for row in document["devices"]:
        for fact in (row["name"], row["vendor"], row["architecture"], row["driver"]):
            assert fact is None or fact in done.out


def test_i10_quiet_and_verbose_change_no_data(winml: Winml, whole: dict[str, Any]) -> None:
    done = winml("sys", "--format", "json", "-q", "-v")
    assert steady(json.loads(done.out)) == steady(whole["document"])


# --- libraries that misbehave -----------------------------------------------------------------------------------

EXPECTED = {
    "hang": ("timed_out", "timed_out"),
    "abort": ("crashed", "crashed"),
    "exit": ("crashed", "ended_early"),
    "flood": ("no_device", "no_device"),
    "truncated": ("failed", "truncated"),
    "text": ("failed", "wrong_format"),
    "wrong_machine": ("failed", "wrong_machine"),
    "missing_dependency": ("failed", "missing_dependency"),
    "not_an_ep": ("failed", "not_an_ep_library"),
    "no_device": ("no_device", "no_device"),
}


def test_ten_hostile_libraries_cost_only_their_rows(
    winml: Winml, whole: dict[str, Any], ten_hostile_libraries: dict[str, Path], left_running: LeftRunning
) -> None:
    folder = next(iter(ten_hostile_libraries.values())).parent
    started = time.monotonic()
    done = winml("sys", "--format", "json", "--timeout", "6", env={"WINMLCLI_EP_PATH": str(folder)})
    took = time.monotonic() - started
    assert done.code == 0
    assert took < 25.0
    assert left_running(done.mark) == []
    document = json.loads(done.out)
    rows = {
        Path(row["library"]["path"]).stem.removeprefix("lib"): row for row in document["eps"] if row["library"]["path"]
    }
    for name, (status, code) in EXPECTED.items():
        row = rows[name]
        assert (row["status"], row["code"]) == (status, code), row
        assert row["reason"]
        assert row["library"]["source"] == "directory"
    assert "gone_dependency" in rows["missing_dependency"]["reason"]
    others = [row for row in document["eps"] if row["library"]["source"] != "directory"]
    assert steady(others) == steady(whole["document"]["eps"])
    assert steady(document["catalog"]) == steady(whole["document"]["catalog"])


def test_a06_text_says_registered_no_device(winml: Winml, hostile_alone: dict[str, Path]) -> None:
    done = winml("sys", "--list-ep", "--ep-path", str(hostile_alone["no_device"]))
    line = next(line for line in done.out.splitlines() if str(hostile_alone["no_device"]) in line)
    assert "registered, no device" in line


def test_a07_a_copy_in_a_second_folder_is_shadowed_and_twice_the_same_is_once(
    winml: Winml, hostile_alone: dict[str, Path], tmp_path: Path
) -> None:
    first = hostile_alone["no_device"]
    copy = tmp_path / first.name
    copy.write_bytes(first.read_bytes())
    paths = [str(first), str(first), str(copy)]
    done = winml("sys", "--format", "json", "--list-ep", *(word for path in paths for word in ("--ep-path", path)))
    rows = [row for row in json.loads(done.out)["eps"] if row["library"]["source"] == "directory"]
    assert [(row["status"], row["library"]["path"], row["shadowed_by"]) for row in rows] == [
        ("no_device", str(first), None),
        ("shadowed", str(copy), str(first)),
    ]


def test_a_path_that_is_not_there_is_a_warning_in_every_view(winml: Winml, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    for form in ("text", "compact", "json"):
        done = winml("sys", "--list-device", "--format", form, "--ep-path", gone)
        assert done.code == 0
        assert f"{gone}: no such file or folder" in done.out
    assert [notice["code"] for notice in json.loads(done.out)["warnings"]] == ["file_missing"]


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_ctrl_c_ends_the_command_and_its_children_at_once(
    winml_command: list[str], hostile_alone: dict[str, Path], left_running: LeftRunning
) -> None:
    mark = f"ctrl-c-{os.getpid()}-{time.monotonic_ns()}"
    command = [*winml_command, "sys", "--format", "json", "--ep-path", str(hostile_alone["hang"])]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "WINML_TEST_MARK": mark}
    )
    deadline = time.monotonic() + 20
    while len(left_running(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1.5)
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 4.0
    assert process.returncode == 130
    assert json.loads(out)["status"] == "interrupted"
    assert err == "interrupted\n"
    assert left_running(mark) == []
