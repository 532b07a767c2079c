"""What can be told about an EP library without loading it."""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.pe_image import ARM64, I386, make_dll
from winml.modelkit.session import ep_binary
from winml.modelkit.session.ep_binary import examine_library, exports_symbol, file_version, process_machine
from winml.modelkit.session.ep_preflight import file_facts, preflight

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ELF files and Linux file kinds")

FUZZ = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SEEN_WITHOUT_LOADING = {
    "text": ("wrong_format", "not a Linux shared library: a text file"),
    "empty": ("wrong_format", "empty file"),
    "not_an_ep": ("not_an_ep_library", "not an EP library: no function CreateEpFactories"),
    "no_release": ("not_an_ep_library", "not an EP library: no function ReleaseEpFactory"),
    "fifo": ("not_a_regular_file", "not a regular file: a named pipe"),
    "directory": ("not_a_regular_file", "not a regular file: a directory"),
    "dangling": ("file_missing", "file missing: dangling link to nowhere.so"),
}


@linux
@pytest.mark.parametrize("name", SEEN_WITHOUT_LOADING)
def test_five_causes_are_told_apart_without_loading(hostile_libraries: dict[str, Path], name: str) -> None:
    failure = preflight(hostile_libraries[name], ep="HostileExecutionProvider")
    assert failure is not None
    assert (failure.cause, failure.reason) == SEEN_WITHOUT_LOADING[name]
    assert failure.dll_path == str(hostile_libraries[name])
    assert failure.ep == "HostileExecutionProvider"
    assert failure.exit_code == 3


@linux
@pytest.mark.parametrize(
    "name", ["hang", "abort", "exit", "flood", "no_device", "segv", "no_session", "init_fails", "newer_api"]
)
def test_a_library_that_only_misbehaves_when_loaded_passes(hostile_libraries: dict[str, Path], name: str) -> None:
    assert preflight(hostile_libraries[name]) is None


@linux
@pytest.mark.parametrize("name", ["missing_dependency", "missing_symbol"])
def test_what_only_the_loader_can_know_passes(hostile_libraries: dict[str, Path], name: str) -> None:
    assert preflight(hostile_libraries[name]) is None


@linux
def test_wrong_machine_names_both_machines(hostile_libraries: dict[str, Path]) -> None:
    if process_machine() == "aarch64":
        pytest.skip("the library is built for this very machine")
    failure = preflight(hostile_libraries["wrong_machine"])
    assert failure is not None
    assert failure.cause == "wrong_machine"
    assert failure.details["machine"] == "aarch64"
    assert failure.details["process_machine"] == process_machine()


@linux
def test_32_bit_library_is_a_wrong_machine(hostile_libraries: dict[str, Path]) -> None:
    failure = preflight(hostile_libraries["bits32"])
    assert failure is not None
    assert failure.cause == "wrong_machine"
    assert "32-bit" in failure.reason


@linux
def test_truncated_library_is_found_with_its_sizes(hostile_libraries: dict[str, Path]) -> None:
    failure = preflight(hostile_libraries["truncated"])
    assert failure is not None
    assert failure.cause == "truncated"
    assert failure.details["size"] == hostile_libraries["truncated"].stat().st_size
    assert failure.details["needed"] == hostile_libraries["no_device"].stat().st_size


@linux
@settings(FUZZ, max_examples=60)
@given(data=st.data())
def test_no_truncation_of_a_library_passes(
    hostile_libraries: dict[str, Path], tmp_path: Path, data: st.DataObject
) -> None:
    sound = hostile_libraries["no_device"].read_bytes()
    cut = data.draw(st.integers(0, len(sound) - 1))
    library = tmp_path / "cut.so"
    library.write_bytes(sound[:cut])
    finding = examine_library(library)
    assert finding is not None
    assert finding.cause == ("truncated" if cut >= 4 else "wrong_format")


@linux
@settings(FUZZ, max_examples=150)
@given(data=st.data())
def test_damaged_elf_files_never_raise(hostile_libraries: dict[str, Path], tmp_path: Path, data: st.DataObject) -> None:
    damaged = bytearray(hostile_libraries["no_device"].read_bytes())
    # The header, the program headers and the dynamic tables stand in the first pages.
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(4, 1500))] = data.draw(st.integers(0, 255))
    library = tmp_path / "damaged.so"
    library.write_bytes(damaged)
    finding = examine_library(library)
    assert finding is None or finding.reason
    assert exports_symbol(library, "CreateEpFactories") in (True, False, None)


@linux
def test_missing_file_and_missing_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "nope.so", tmp_path / "nope" / "libx.so"):
        failure = preflight(path)
        assert failure is not None
        assert (failure.cause, failure.reason) == ("file_missing", "file missing")
        assert failure.code == "file_missing"


def test_a_path_no_system_takes_is_a_missing_file(tmp_path: Path) -> None:
    finding = examine_library(f"{tmp_path}/a\0b.so")
    assert finding is not None
    assert finding.cause == "file_missing"


@linux
def test_a_loop_of_links_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "a.so").symlink_to("b.so")
    (tmp_path / "b.so").symlink_to("a.so")
    finding = examine_library(tmp_path / "a.so")
    assert finding is not None
    assert finding.cause == "file_missing"


@linux
def test_access_denied(tmp_path: Path) -> None:
    library = tmp_path / "libdenied.so"
    library.write_bytes(b"\x7fELF")
    library.chmod(0)
    if os.geteuid() != 0:
        finding = examine_library(library)
        assert finding is not None
        assert finding.cause == "access_denied"
        return
    # root may read everything: look with another user's eyes
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgid(65534)
            os.setuid(65534)
            found = examine_library(library)
            code = 0 if found is not None and found.cause == "access_denied" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@linux
def test_executables_and_object_files_are_no_libraries(c_compiler: str, tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }\n", encoding="utf-8")
    for flags, kind in ((["-c"], "an object file"), (["-no-pie", "-fno-pie"], "an executable")):
        target = tmp_path / "out.so"
        subprocess.run([c_compiler, *flags, "-o", str(target), str(source)], check=True, capture_output=True)
        finding = examine_library(target)
        assert finding is not None
        assert finding.reason == f"not a Linux shared library: {kind}"


@linux
def test_git_lfs_pointer_is_recognised(tmp_path: Path) -> None:
    pointer = tmp_path / "libx.so"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 3069280\n", encoding="utf-8")
    finding = examine_library(pointer)
    assert finding is not None
    assert "Git LFS pointer" in finding.reason


@linux
def test_text_with_a_character_cut_at_the_end_of_what_is_read_is_still_text(tmp_path: Path) -> None:
    page = tmp_path / "libx.so"
    page.write_text("a" * 511 + "é" * 10, encoding="utf-8")
    finding = examine_library(page)
    assert finding is not None
    assert finding.details["found"] == "a text file"


@linux
def test_a_dll_on_linux_and_an_elf_file_on_windows(hostile_libraries: dict[str, Path], tmp_path: Path) -> None:
    dll = tmp_path / "x.dll"
    dll.write_bytes(make_dll())
    on_linux = examine_library(dll, platform="linux")
    assert on_linux is not None
    assert on_linux.reason == "not a Linux shared library: a Windows program or DLL"
    on_windows = examine_library(hostile_libraries["no_device"], platform="win32")
    assert on_windows is not None
    assert on_windows.reason == "not a Windows DLL: a Linux program or library"


# --- exports --------------------------------------------------------------------------------------------------


@linux
def test_exports_agree_with_nm(site_libraries: list[Path]) -> None:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm to compare with")
    for library in site_libraries:
        listing = subprocess.run(
            [nm, "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
        ).stdout
        defined = {line.split()[-1].partition("@")[0] for line in listing.splitlines() if line.split()}
        assert defined
        assert exports_symbol(library, "CreateEpFactories", deep=False) is ("CreateEpFactories" in defined)
        for name in sorted(defined)[:: max(1, len(defined) // 10)]:
            assert exports_symbol(library, name, deep=False) is True, name
        assert exports_symbol(library, "no_such_function_anywhere", deep=False) is False


@pytest.fixture(scope="module")
def site_libraries() -> list[Path]:
    """Real libraries of this environment: onnxruntime's own and those of the plugin packages that are installed."""
    from importlib.util import find_spec

    found: list[Path] = []
    for module in ("onnxruntime", "onnxruntime_ep_openvino", "onnxruntime_qnn"):
        spec = find_spec(module)
        for place in spec.submodule_search_locations or () if spec else ():
            found += [path for path in Path(place).rglob("*.so*") if path.is_file()]
    assert found
    return sorted(found)


@linux
@pytest.mark.parametrize("style", ["sysv", "gnu", "both"])
def test_exports_with_either_hash_table(c_compiler: str, tmp_path: Path, style: str) -> None:
    source = tmp_path / "x.c"
    functions = "\n".join(f"int function_{number}(void) {{ return {number}; }}" for number in range(50))
    source.write_text(f"extern int elsewhere(void);\nint use(void) {{ return elsewhere(); }}\n{functions}\n")
    library = tmp_path / "libx.so"
    command = [c_compiler, "-shared", "-fPIC", f"-Wl,--hash-style={style}", "-o", str(library), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    assert all(exports_symbol(library, f"function_{number}") for number in range(50))
    assert exports_symbol(library, "elsewhere") is False  # named, and not defined here
    assert exports_symbol(library, "function_50") is False


@linux
def test_functions_of_a_library_beside_it_count_as_dlsym_counts_them(
    hostile_libraries: dict[str, Path], c_compiler: str, tmp_path: Path
) -> None:
    real = tmp_path / "libreal.so"
    shutil.copy(hostile_libraries["no_device"], real)
    source = tmp_path / "shell.c"
    source.write_text("int shell;\n", encoding="utf-8")
    shell = tmp_path / "libshell.so"
    build = [c_compiler, "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", str(shell), str(source)]
    subprocess.run([*build, f"-L{tmp_path}", "-lreal"], check=True, capture_output=True)
    assert exports_symbol(shell, "CreateEpFactories", deep=False) is False
    assert preflight(shell) is None
    real.unlink()  # now nobody but the loader can say what it would find
    assert exports_symbol(shell, "CreateEpFactories") is None
    assert preflight(shell) is None


# --- Windows libraries ----------------------------------------------------------------------------------------


def _examine_dll(tmp_path: Path, content: bytes, *, host: str = "x86_64") -> ep_binary.Finding | None:
    dll = tmp_path / "onnxruntime_providers_x.dll"
    dll.write_bytes(content)
    return examine_library(dll, platform="win32", machine="x86_64", host=host)


def test_a_sound_dll_passes(tmp_path: Path) -> None:
    assert _examine_dll(tmp_path, make_dll()) is None


@pytest.mark.parametrize(("machine", "name"), [(ARM64, "aarch64"), (I386, "i386")])
def test_dll_for_another_machine(tmp_path: Path, machine: int, name: str) -> None:
    finding = _examine_dll(tmp_path, make_dll(machine=machine))
    assert finding is not None
    assert (finding.cause, finding.details["machine"]) == ("wrong_machine", name)


def test_arm64ec_reads_as_amd64_and_loads_only_on_an_arm_windows(tmp_path: Path) -> None:
    content = make_dll(hybrid=True)
    on_pc = _examine_dll(tmp_path, content, host="x86_64")
    assert on_pc is not None
    assert on_pc.cause == "wrong_machine"
    assert "arm64ec" in on_pc.reason
    assert _examine_dll(tmp_path, content, host="aarch64") is None


def test_dll_without_the_functions(tmp_path: Path) -> None:
    finding = _examine_dll(tmp_path, make_dll(exports=("CreateEpFactories", "Other")))
    assert finding is not None
    assert (finding.cause, finding.details) == ("not_an_ep_library", {"symbol": "ReleaseEpFactory"})


def test_program_is_no_dll(tmp_path: Path) -> None:
    finding = _examine_dll(tmp_path, make_dll(is_dll=False))
    assert finding is not None
    assert finding.reason == "not a Windows DLL: a program"


def test_truncated_dll(tmp_path: Path) -> None:
    content = make_dll()
    finding = _examine_dll(tmp_path, content[:-100])
    assert finding is not None
    assert finding.details == {"size": len(content) - 100, "needed": len(content)}
    for cut in (2, 63, 70, 200):
        finding = _examine_dll(tmp_path, content[:cut])
        assert finding is not None
        assert finding.cause in ("truncated", "wrong_format")


@pytest.fixture
def frozen_heap() -> Iterator[None]:
    """pefile collects garbage at every close; a test session's heap makes that slow unless it is set aside."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen_heap")
@settings(FUZZ, max_examples=60)
@given(data=st.data())
def test_damaged_dlls_never_raise(tmp_path: Path, data: st.DataObject) -> None:
    damaged = bytearray(make_dll(version="1.2.3"))
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(2, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    finding = _examine_dll(tmp_path, bytes(damaged))
    assert finding is None or finding.reason
    dll = tmp_path / "onnxruntime_providers_x.dll"
    assert file_version(dll) is None or isinstance(file_version(dll), str)
    assert exports_symbol(dll, "CreateEpFactories", platform="win32") in (True, False, None)


def test_file_version_of_a_dll(tmp_path: Path) -> None:
    dll = tmp_path / "x.dll"
    dll.write_bytes(make_dll(version="1.30.0.20260916.3.f2c39fe"))
    assert file_version(dll) == "1.30.0.20260916.3.f2c39fe"
    dll.write_bytes(make_dll(version="", fixed_version=(2, 7, 0, 9)))
    assert file_version(dll) == "2.7.0.9"
    dll.write_bytes(make_dll())
    assert file_version(dll) is None


# --- facts ----------------------------------------------------------------------------------------------------


def test_file_facts(tmp_path: Path) -> None:
    dll = tmp_path / "x.dll"
    content = make_dll(version="2.7.0")
    dll.write_bytes(content)
    facts = file_facts(dll)
    assert (facts.size, facts.version, facts.path) == (len(content), "2.7.0", str(dll))
    assert facts.mtime_ns == dll.stat().st_mtime_ns
    assert facts.sha256 == hashlib.sha256(content).hexdigest()


def test_file_facts_of_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_facts(tmp_path / "nope.so")


@linux
def test_a_pipe_has_facts_and_is_never_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "libx.so"
    os.mkfifo(pipe)
    facts = file_facts(pipe)
    assert facts.version is None
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert exports_symbol(pipe, "CreateEpFactories") is None


def test_process_machine_is_the_interpreters() -> None:
    if struct.calcsize("P") != 8 or sys.platform == "win32":
        pytest.skip("platform.machine() is no witness here")
    assert process_machine() == platform.machine()
