"""Where EP libraries come from, in order."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from fixtures.pe_image import ARM64, make_dll
from winml.modelkit.session import ep_sources
from winml.modelkit.session.ep_sources import (
    AvailableEP,
    EntryList,
    EPEntry,
    find_entries,
    query_winml_catalog,
    read_msix_packages,
    select_entries,
)

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux names and file kinds")

OPENVINO = "OpenVINOExecutionProvider"
QNN = "QNNExecutionProvider"
CPU = "CPUExecutionProvider"
OPENVINO_SO = "libonnxruntime_providers_openvino_plugin.so"
QNN_SO = "libonnxruntime_providers_qnn.so"
QNN_DLL = "onnxruntime_providers_qnn.dll"

Finder = Callable[..., EntryList]


@pytest.fixture
def find(tmp_path: Path) -> Finder:
    """``find_entries`` on a machine of which nothing is installed but what the test puts there."""

    def run(*ep_paths: str | Path, **further: Any) -> EntryList:
        settings: dict[str, Any] = {
            "environ": {},
            "platform": "linux",
            "machine": "x86_64",
            "home": tmp_path / "nobody",
            "search_path": [],
            "msix_packages": list,
        }
        return find_entries([str(path) for path in ep_paths], **{**settings, **further})

    return run


def libraries(found: EntryList) -> list[tuple[str, str]]:
    """(EP, file name) of all entries with a library."""
    return [(entry.ep_name, Path(entry.path).name) for entry in found.entries if entry.path]


def touch(*paths: Path, content: bytes = b"not read") -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def install(site: Path, name: str, version: str, *files: str, record: str | None = None) -> None:
    """A distribution as pip leaves it, with empty files."""
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    touch(*(site / file for file in files))
    lines = [f"{file},sha256=x,8" for file in (*files, f"{info.name}/METADATA", f"{info.name}/RECORD")]
    (info / "RECORD").write_text("\n".join(lines) if record is None else record, encoding="utf-8")


# --- --ep-path and WINMLCLI_EP_PATH ---------------------------------------------------------------------------


@linux
def test_a_folder_with_a_known_plugin_gives_it_and_nothing_else(find: Finder, tmp_path: Path) -> None:
    for name in (OPENVINO_SO, "libopenvino.so.2641", "libtbb.so.12", "readme.txt"):
        touch(tmp_path / "ep" / name)
    found = find(tmp_path / "ep")
    assert libraries(found) == [(OPENVINO, OPENVINO_SO)]
    assert found.entries[0].source == "directory"
    assert found.entries[0].origin == f"--ep-path {tmp_path / 'ep'}"
    assert found.problems == ()


@linux
def test_versioned_copies_in_a_wheel_folder_are_one_library(find: Finder, tmp_path: Path) -> None:
    for name in (OPENVINO_SO, f"{OPENVINO_SO}.1", f"{OPENVINO_SO}.1.8.1"):
        touch(tmp_path / name)
    assert libraries(find(tmp_path)) == [(OPENVINO, OPENVINO_SO)]


@linux
def test_links_and_hard_links_in_one_folder_are_one_library(find: Finder, tmp_path: Path) -> None:
    touch(tmp_path / "libfoo.so.1.2")
    (tmp_path / "libfoo.so.1").symlink_to("libfoo.so.1.2")
    (tmp_path / "libfoo.so").symlink_to("libfoo.so.1")
    os.link(tmp_path / "libfoo.so.1.2", tmp_path / "libother_name.so")
    assert libraries(find(tmp_path)) == [("FooExecutionProvider", "libfoo.so")]


@linux
def test_without_a_known_plugin_every_shared_library_is_a_candidate(
    find: Finder, ten_hostile_libraries: dict[str, Path]
) -> None:
    folder = ten_hostile_libraries["hang"].parent
    assert {path for _, path in libraries(find(folder))} == {p.name for p in ten_hostile_libraries.values()}
    assert {ep for ep, _ in libraries(find(folder))} >= {"HangExecutionProvider", "WrongMachineExecutionProvider"}


@linux
def test_pipes_directories_and_dangling_links_with_such_names_are_candidates(find: Finder, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "libpipe.so")
    (tmp_path / "libfolder.so").mkdir()
    (tmp_path / "libdangling.so").symlink_to("nowhere")
    touch(tmp_path / "libfine.so.3", tmp_path / "libnot.sock", tmp_path / "x.so.txt", tmp_path / "y.dll")
    assert [name for _, name in libraries(find(tmp_path))] == [
        "libdangling.so",
        "libfine.so.3",
        "libfolder.so",
        "libpipe.so",
    ]


@linux
def test_beside_a_known_plugin_only_real_plugins_count(
    find: Finder, tmp_path: Path, hostile_libraries: dict[str, Path]
) -> None:
    touch(tmp_path / QNN_SO, tmp_path / "libtext.so")
    shutil.copy(hostile_libraries["no_device"], tmp_path / "libthird_party.so")
    shutil.copy(hostile_libraries["not_an_ep"], tmp_path / "libQnnHtp.so")
    os.mkfifo(tmp_path / "libpipe.so")
    assert libraries(find(tmp_path)) == [(QNN, QNN_SO), ("ThirdPartyExecutionProvider", "libthird_party.so")]


@linux
def test_a_folder_of_many_libraries_is_not_a_folder_of_plugins(
    find: Finder, tmp_path: Path, hostile_libraries: dict[str, Path]
) -> None:
    for number in range(40):
        touch(tmp_path / f"libsystem{number}.so")
    found = find(tmp_path)
    assert libraries(found) == []
    assert [problem.code for problem in found.problems] == ["nothing_found"]
    assert found.problems[0].reason == "40 shared libraries, and none of them exports CreateEpFactories"
    shutil.copy(hostile_libraries["no_device"], tmp_path / "libplugin.so")
    assert [name for _, name in libraries(find(tmp_path))] == ["libplugin.so"]


@linux
def test_an_unpacked_nuget_package(find: Finder, tmp_path: Path) -> None:
    native = tmp_path / "runtimes" / "linux-x64" / "native"
    touch(native / QNN_SO, tmp_path / "runtimes" / "win-x64" / "native" / QNN_DLL, tmp_path / "readme.md")
    assert libraries(find(tmp_path)) == [(QNN, QNN_SO)]


@linux
def test_items_that_are_not_there_are_problems_and_stop_nothing(find: Finder, tmp_path: Path) -> None:
    touch(tmp_path / "ep" / QNN_SO)
    (tmp_path / "empty").mkdir()
    found = find(tmp_path / "nope", "", tmp_path / "empty", f"{tmp_path}/nul\0", tmp_path / "ep")
    assert libraries(found) == [(QNN, QNN_SO)]
    assert [problem.code for problem in found.problems] == [
        "file_missing",
        "file_missing",
        "nothing_found",
        "file_missing",
    ]
    assert found.problems[0].path == str(tmp_path / "nope")


@linux
def test_a_file_that_is_named_is_always_a_candidate(find: Finder, tmp_path: Path) -> None:
    touch(tmp_path / "plugin.bin", tmp_path / f"{OPENVINO_SO}.1.8.1")
    (tmp_path / "libgone.so").symlink_to("nowhere")
    found = find(tmp_path / "plugin.bin", tmp_path / f"{OPENVINO_SO}.1.8.1", tmp_path / "libgone.so")
    assert libraries(found) == [
        ("PluginBinExecutionProvider", "plugin.bin"),
        (OPENVINO, f"{OPENVINO_SO}.1.8.1"),
        ("GoneExecutionProvider", "libgone.so"),
    ]


@linux
def test_relative_paths_are_made_absolute(find: Finder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "a" / "ep" / QNN_SO)
    monkeypatch.chdir(tmp_path / "a")
    found = find("ep", f"../a/ep/{QNN_SO}")
    assert [entry.path for entry in found.entries if entry.path] == [str(tmp_path / "a" / "ep" / QNN_SO)]


@linux
def test_the_variable_is_a_list_and_comes_after_the_option(find: Finder, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        touch(tmp_path / name / QNN_SO)
    variable = os.pathsep.join([str(tmp_path / "two"), "", str(tmp_path / "three" / QNN_SO), ""])
    found = find(tmp_path / "one", environ={"WINMLCLI_EP_PATH": variable})
    assert [Path(entry.path).parent.name for entry in found.entries if entry.path] == ["one", "two", "three"]
    assert found.entries[1].origin == "WINMLCLI_EP_PATH"
    assert found.problems == ()


@linux
def test_a_home_folder_in_the_variable(find: Finder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path / "ep" / QNN_SO)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert libraries(find(environ={"WINMLCLI_EP_PATH": "~/ep"})) == [(QNN, QNN_SO)]


@linux
def test_the_same_library_twice_is_listed_once_and_two_copies_name_the_winner(find: Finder, tmp_path: Path) -> None:
    touch(tmp_path / "one" / OPENVINO_SO, tmp_path / "two" / OPENVINO_SO)
    (tmp_path / "link").symlink_to("one")
    found = find(tmp_path / "one", tmp_path / "one", tmp_path / "link", tmp_path / "two")
    first, second = (entry for entry in found.entries if entry.path)
    assert (first.path, first.shadowed_by) == (str(tmp_path / "one" / OPENVINO_SO), None)
    assert (second.path, second.shadowed_by) == (str(tmp_path / "two" / OPENVINO_SO), first.path)
    assert found.problems == ()


@linux
def test_awkward_names_of_folders_work_and_non_utf8_ones_are_problems(find: Finder, tmp_path: Path) -> None:
    for name in ("with space", "quo'te\"", "new\nline", "漢字"):
        touch(tmp_path / name / QNN_SO)
        assert [e.path for e in find(tmp_path / name).entries if e.path] == [str(tmp_path / name / QNN_SO)]
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff")
    try:
        touch(Path(odd) / QNN_SO, Path(odd) / "libx.so")
    except OSError:
        pytest.skip("this file system takes no such name")
    for item in (odd, f"{odd}/libx.so"):
        found = find(item)
        assert libraries(found) == []
        (problem,) = found.problems
        assert problem.code == "path_not_utf8"
        assert "\\xff" in problem.path
        problem.path.encode("utf-8")
        problem.origin.encode("utf-8")


@linux
def test_a_non_utf8_name_in_a_folder_costs_only_itself(find: Finder, tmp_path: Path) -> None:
    touch(tmp_path / "libgood.so")
    try:
        touch(Path(os.fsdecode(os.fsencode(tmp_path) + b"/lib\xff.so")))
    except OSError:
        pytest.skip("this file system takes no such name")
    found = find(tmp_path)
    assert libraries(found) == [("GoodExecutionProvider", "libgood.so")]
    assert [problem.code for problem in found.problems] == ["path_not_utf8"]


@linux
def test_a_folder_that_may_not_be_listed_is_a_problem(
    find: Finder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> Iterator[os.DirEntry[str]]:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "ep").mkdir()
    monkeypatch.setattr("winml.modelkit.session.ep_folder.os.scandir", refuse)
    (problem,) = find(tmp_path / "ep").problems
    assert (problem.code, problem.reason) == ("unreadable_folder", "cannot be listed: Permission denied")


@linux
def test_package_of_a_plugin_in_a_folder_is_known(find: Finder, tmp_path: Path) -> None:
    library = "libonnxruntime_providers_nv_tensorrt_rtx.so"
    install(tmp_path, "onnxruntime_ep_nv_tensorrt_rtx_cu13", "0.5.0", f"onnxruntime_ep_nv_tensorrt_rtx/{library}")
    (entry, _) = find(tmp_path / "onnxruntime_ep_nv_tensorrt_rtx").entries
    assert (entry.ep_name, entry.source) == ("NvTensorRTRTXExecutionProvider", "directory")
    assert (entry.distribution, entry.package_version) == ("onnxruntime-ep-nv-tensorrt-rtx-cu13", "0.5.0")


@linux
@pytest.mark.parametrize(
    ("file", "ep"),
    [
        ("libonnxruntime_providers_foo_plugin.so", "FooExecutionProvider"),
        ("libhang.so", "HangExecutionProvider"),
        ("libwrong_machine.so.2", "WrongMachineExecutionProvider"),
        ("libonnxruntime_vitisai_ep.so", "VitisAIExecutionProvider"),
        ("lib3d.so", "Ep3dExecutionProvider"),
        ("libqnn.so", "Qnn2ExecutionProvider"),
        ("lib---.so", "EpExecutionProvider"),
    ],
)
def test_names_of_unknown_libraries(find: Finder, tmp_path: Path, file: str, ep: str) -> None:
    touch(tmp_path / file)
    assert libraries(find(tmp_path / file)) == [(ep, file)]


@linux
def test_unknown_libraries_of_different_names_are_different_eps(find: Finder, tmp_path: Path) -> None:
    touch(tmp_path / "a" / "libfoo.so", tmp_path / "a" / "libfoo_plugin.so", tmp_path / "b" / "libfoo.so")
    found = find(tmp_path / "a", tmp_path / "b")
    assert libraries(found) == [
        ("FooExecutionProvider", "libfoo.so"),
        ("Foo2ExecutionProvider", "libfoo_plugin.so"),
        ("FooExecutionProvider", "libfoo.so"),
    ]
    assert found.entries[2].shadowed_by == str(tmp_path / "a" / "libfoo.so")


# --- PyPI -----------------------------------------------------------------------------------------------------


@linux
def test_known_plugin_distributions_and_any_onnxruntime_ep(
    find: Finder, tmp_path: Path, hostile_libraries: dict[str, Path]
) -> None:
    site = tmp_path / "site"
    install(site, "onnxruntime_ep_acme", "3.1", "onnxruntime_ep_acme/libacme.so", "onnxruntime_ep_acme/libdep.so")
    shutil.copy(hostile_libraries["no_device"], site / "onnxruntime_ep_acme" / "libacme.so")
    shutil.copy(hostile_libraries["not_an_ep"], site / "onnxruntime_ep_acme" / "libdep.so")
    install(site, "onnxruntime_ep_openvino", "1.8.1", f"onnxruntime_ep_openvino/{OPENVINO_SO}")
    install(site, "Onnxruntime.QNN", "2.7.0", f"onnxruntime_qnn/{QNN_SO}", "onnxruntime_qnn/libQnnHtp.so")
    install(site, "onnxruntime_tools", "1.0", "onnxruntime_tools/libonnxruntime_providers_webgpu.so")
    found = find(search_path=[str(site)])
    assert [(e.ep_name, e.distribution, e.package_version) for e in found.entries] == [
        (QNN, "onnxruntime-qnn", "2.7.0"),
        (OPENVINO, "onnxruntime-ep-openvino", "1.8.1"),
        ("AcmeExecutionProvider", "onnxruntime-ep-acme", "3.1"),
        (CPU, None, None),
    ]
    assert {entry.source for entry in found.entries} == {"pypi", "bundled"}
    assert found.problems == ()


@linux
def test_the_first_distribution_on_the_search_path_counts(find: Finder, tmp_path: Path) -> None:
    for place, version in (("one", "2.7.0"), ("two", "2.6.0")):
        install(tmp_path / place, "onnxruntime_qnn", version, f"onnxruntime_qnn/{QNN_SO}")
    search = [str(tmp_path / "no such folder"), str(tmp_path / "one"), str(tmp_path / "two")]
    assert [entry.package_version for entry in find(search_path=search).entries] == ["2.7.0", None]


@linux
@pytest.mark.parametrize(
    "record",
    [
        "",
        "__editable__.onnxruntime_qnn-2.7.0.pth,sha256=x,3\n",
        "\0\0\x01",
        '"never closed,,\n',
        "a,b,c,d,e,f\n,,\n",
        "\ud8ff",
        None,
    ],
)
def test_editable_and_broken_distributions_are_problems(find: Finder, tmp_path: Path, record: str | None) -> None:
    install(tmp_path, "onnxruntime_qnn", "2.7.0", record="")
    file = tmp_path / "onnxruntime_qnn-2.7.0.dist-info" / "RECORD"
    file.unlink()
    if record is not None:
        file.write_bytes(record.encode("utf-8", "surrogatepass"))
    found = find(search_path=[str(tmp_path)])
    assert libraries(found) == []
    (problem,) = found.problems
    assert (problem.code, problem.origin) == ("broken_package", "distribution onnxruntime-qnn 2.7.0")


@linux
def test_a_library_that_record_lists_and_that_is_gone_keeps_its_row(find: Finder, tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime_qnn", "2.7.0", f"onnxruntime_qnn/{QNN_SO}")
    (tmp_path / "onnxruntime_qnn" / QNN_SO).unlink()
    assert libraries(find(search_path=[str(tmp_path)])) == [(QNN, QNN_SO)]


@pytest.mark.parametrize(("host", "folder"), [("x86_64", "amd64"), ("aarch64", "arm64ec")])
def test_of_a_windows_wheel_for_two_machines_the_fitting_library_is_taken(
    find: Finder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, folder: str
) -> None:
    files = [f"onnxruntime_qnn/libs/{place}/{QNN_DLL}" for place in ("arm64", "arm64ec", "amd64")]
    install(tmp_path, "onnxruntime_qnn", "2.7.0", *files)
    kinds: dict[str, dict[str, Any]] = {"arm64": {"machine": ARM64}, "arm64ec": {"hybrid": True}, "amd64": {}}
    for place, made in kinds.items():
        touch(tmp_path / "onnxruntime_qnn" / "libs" / place / QNN_DLL, content=make_dll(**made))
    monkeypatch.setattr("winml.modelkit.session.ep_binary.host_machine", lambda: host)
    found = find(platform="win32", search_path=[str(tmp_path)])
    assert [Path(entry.path).parent.name for entry in found.entries if entry.path] == [folder]


def test_no_plugin_package_is_imported() -> None:
    script = (
        "import sys; from winml.modelkit.session.ep_sources import find_entries; find_entries();"
        "print([name for name in sys.modules if name.startswith(('onnxruntime', 'numpy', 'onnx', 'rich', 'pefile'))])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_installed_plugins_of_this_environment_are_found() -> None:
    from importlib.metadata import distributions

    installed = {item.name.lower().replace("_", "-"): item.version for item in distributions()}
    found = find_entries(environ={})
    for name, ep in (("onnxruntime-qnn", QNN), ("onnxruntime-ep-openvino", OPENVINO)):
        entries = select_entries(found.entries, ep, "pypi")
        assert [entry.package_version for entry in entries] == ([installed[name]] if name in installed else [])
        assert all(entry.path and Path(entry.path).is_file() for entry in entries)


@linux
def test_two_onnxruntimes_at_once_are_a_problem(find: Finder, tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime", "1.32.0", "onnxruntime/__init__.py")
    found = find(search_path=[str(tmp_path)])
    assert found.entries == (EPEntry(CPU, None, "bundled", "onnxruntime", "1.32.0", origin="onnxruntime"),)
    install(tmp_path, "onnxruntime_windowsml", "1.24.1", "onnxruntime/capi/x.py")
    (problem,) = find(search_path=[str(tmp_path)]).problems
    assert problem.code == "two_runtimes"
    assert "onnxruntime 1.32.0, onnxruntime-windowsml 1.24.1" in problem.reason


# --- NuGet ----------------------------------------------------------------------------------------------------


@linux
@pytest.mark.parametrize("moved", [False, True])
def test_nuget_cache_highest_version_first(find: Finder, tmp_path: Path, moved: bool) -> None:
    cache = tmp_path / "moved" if moved else tmp_path / "home" / ".nuget" / "packages"
    package = cache / "qualcomm.ml.onnxruntime.qnn"
    for version in ("1.9.0", "1.24.4", "1.24.10-rc.2", "1.24.10-rc.10", "1.24.10"):
        touch(package / version / "runtimes" / "linux-x64" / "native" / QNN_SO)
    touch(package / "2.0.0" / "runtimes" / "win-arm64" / "native" / QNN_DLL)
    environ = {"NUGET_PACKAGES": str(cache)} if moved else {}
    found = find(home=tmp_path / "home", environ=environ)
    entries = select_entries(found.entries, QNN, "nuget")
    versions = ["1.24.10", "1.24.10-rc.10", "1.24.10-rc.2", "1.24.4", "1.9.0"]
    assert [entry.package_version for entry in entries] == versions
    assert {entry.distribution for entry in entries} == {"qualcomm.ml.onnxruntime.qnn"}
    assert [entry.shadowed_by for entry in entries] == [None] + [entries[0].path] * 4


def test_nuget_on_an_arm_windows(find: Finder, tmp_path: Path) -> None:
    native = tmp_path / ".nuget/packages/qualcomm.ml.onnxruntime.qnn/2.0.0/runtimes/win-arm64/native"
    touch(native / QNN_DLL)
    found = find(home=tmp_path, platform="win32", machine="aarch64")
    assert libraries(found) == [(QNN, QNN_DLL)]
    assert libraries(find(home=tmp_path, platform="win32", machine="x86_64")) == []


@st.composite
def versions(draw: st.DrawFn) -> tuple[str, Version]:
    """A version as NuGet writes it, and as packaging, an independent implementation, reads it."""
    release = ".".join(str(part) for part in draw(st.lists(st.integers(0, 30), min_size=1, max_size=4)))
    number = draw(st.none() | st.integers(0, 30))
    return (
        (release, Version(release)) if number is None else (f"{release}-rc.{number}", Version(f"{release}rc{number}"))
    )


@given(versions(), versions())
def test_order_of_versions_agrees_with_packaging(left: tuple[str, Version], right: tuple[str, Version]) -> None:
    ours = ep_sources._version_key(left[0]), ep_sources._version_key(right[0])
    assert (ours[0] < ours[1], ours[0] == ours[1]) == (left[1] < right[1], left[1] == right[1])


@given(st.lists(st.text("0123456789.-+abrc", max_size=12)))
def test_any_folder_name_in_the_nuget_cache_has_a_place(names: list[str]) -> None:
    ordered = sorted(names, key=ep_sources._version_key)
    assert sorted(ordered) == sorted(names)


# --- Windows ML catalog and MSIX (recorded facts; not seen on hardware) ---------------------------------------

CATALOG = [
    {
        "name": "QNNExecutionProvider",
        "version": "1.8.21.0",
        "package_family_name": "MicrosoftCorporationII.WinML.Qualcomm.QNN.EP.1.8_8wekyb3d8bbwe",
        "library_path": r"C:\Program Files\WindowsApps\WinML.Qualcomm.QNN.EP\ExecutionProvider" + "\\" + QNN_DLL,
        "package_root_path": r"C:\Program Files\WindowsApps\WinML.Qualcomm.QNN.EP",
        "ready_state": "Ready",
        "certification": "Certified",
    },
    {
        "name": "VitisAIExecutionProvider",
        "version": "1.8.43.0",
        "package_family_name": None,
        "library_path": None,
        "package_root_path": None,
        "ready_state": "NotPresent",
        "certification": "Certified",
    },
    {"name": "AcmeExecutionProvider", "ready_state": "NotReady", "version": "0.1"},
    {"name": "OpenVINOExecutionProvider", "ready_state": "Ready", "library_path": None},
]


def test_catalog_rows_become_entries_and_offers(find: Finder) -> None:
    found = find(platform="win32", catalog=CATALOG)
    (entry, bundled) = found.entries
    assert (entry.ep_name, entry.source, entry.package_version) == (QNN, "winml-catalog", "1.8.21.0")
    assert entry.path == CATALOG[0]["library_path"]
    assert bundled.ep_name == CPU
    assert found.available == (
        AvailableEP("VitisAIExecutionProvider", "winml-catalog", "NotPresent", None, "1.8.43.0"),
        AvailableEP("AcmeExecutionProvider", "winml-catalog", "NotReady", None, "0.1"),
    )
    (problem,) = found.problems
    assert problem.code == "catalog"
    assert OPENVINO in problem.reason


def test_msix_packages_are_matched_by_name_highest_version_first(find: Finder, tmp_path: Path) -> None:
    packages = []
    for version, inner in (("1.8.9.0", "ExecutionProvider"), ("1.8.21.0", "."), ("1.8.21.0", "elsewhere")):
        root = tmp_path / f"{version}-{inner}"
        touch(root / inner / QNN_DLL)
        packages.append((f"WinML.Qualcomm.QNN.EP.1.8_{version}_x64__8wekyb3d8bbwe", str(root)))
    touch(tmp_path / "other" / QNN_DLL)
    packages += [("Contoso.App_1.0_x64__abc", str(tmp_path / "other")), ("odd", "")]
    found = find(platform="win32", msix_packages=lambda: packages)
    entries = select_entries(found.entries, QNN)
    assert [(entry.source, entry.package_version) for entry in entries] == [("msix", "1.8.21.0"), ("msix", "1.8.9.0")]
    assert entries[0].distribution == "WinML.Qualcomm.QNN.EP.1.8"
    assert entries[1].shadowed_by == entries[0].path


def test_nothing_of_windows_is_asked_elsewhere() -> None:
    if sys.platform == "win32":
        pytest.skip("this is Windows")
    assert query_winml_catalog() == []
    assert read_msix_packages() == []


def test_catalog_rows_are_plain_data() -> None:
    class State:
        name = "NotPresent"

    class Provider:
        name = "VitisAIExecutionProvider"
        version = "1.8.43.0"
        package_family_name = ""
        ready_state = State()
        certification = State()

        @property
        def library_path(self) -> str:
            raise OSError("0x80070490")

        package_root_path = library_path

    assert ep_sources._catalog_row(Provider()) == {
        "name": "VitisAIExecutionProvider",
        "version": "1.8.43.0",
        "package_family_name": None,
        "library_path": None,
        "package_root_path": None,
        "ready_state": "NotPresent",
        "certification": "NotPresent",
    }


# --- order and choice -----------------------------------------------------------------------------------------


@linux
def test_order_of_sources_and_pinning(find: Finder, tmp_path: Path) -> None:
    native = tmp_path / ".nuget/packages/qualcomm.ml.onnxruntime.qnn/2.6.0/runtimes/linux-x64/native"
    touch(tmp_path / "folder" / QNN_SO, tmp_path / "catalog" / QNN_SO, tmp_path / "msix" / QNN_SO, native / QNN_SO)
    install(tmp_path / "site", "onnxruntime_qnn", "2.7.0", f"onnxruntime_qnn/{QNN_SO}")
    found = find(
        tmp_path / "folder",
        home=tmp_path,
        search_path=[str(tmp_path / "site")],
        catalog=[{"name": QNN, "ready_state": "Ready", "library_path": str(tmp_path / "catalog" / QNN_SO)}],
        msix_packages=lambda: [("A.Qualcomm.QNN.EP_1.0_x64__b", str(tmp_path / "msix"))],
    )
    sources = ["directory", "pypi", "nuget", "winml-catalog", "msix"]
    assert [entry.source for entry in found.entries] == [*sources, "bundled"]
    entries = select_entries(found.entries, QNN)
    assert [entry.shadowed_by for entry in entries] == [None] + [str(tmp_path / "folder" / QNN_SO)] * 4
    for source in sources:
        assert [entry.source for entry in select_entries(found.entries, QNN, source)] == [source]
    assert select_entries(found.entries, QNN, "bundled") == []
    assert select_entries(found.entries, "DmlExecutionProvider") == []


@linux
def test_a_file_of_two_sources_answers_to_both(find: Finder, tmp_path: Path) -> None:
    install(tmp_path, "onnxruntime_qnn", "2.7.0", f"onnxruntime_qnn/{QNN_SO}")
    found = find(tmp_path / "onnxruntime_qnn", tmp_path / "onnxruntime_qnn" / QNN_SO, search_path=[str(tmp_path)])
    (entry, _) = found.entries
    assert (entry.source, entry.also_from) == ("directory", ("pypi",))
    assert select_entries(found.entries, QNN, "pypi") == [entry] == select_entries(found.entries, QNN, "directory")
    assert select_entries(found.entries, QNN, "nuget") == []


def test_an_entry_crosses_the_process_boundary_as_plain_data() -> None:
    entry = EPEntry(QNN, "/x/lib.so", "directory", "a", "1", None, "--ep-path /x", ("pypi",))
    assert EPEntry(**asdict(entry)) == entry
