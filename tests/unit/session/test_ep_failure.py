"""Failures of EP libraries, told apart by what ONNX Runtime and the system loader say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.pe_image import make_dll
from winml.modelkit.errors import TargetUnavailable, error_from_dict
from winml.modelkit.session import ep_owner
from winml.modelkit.session.ep_failure import CAUSES, WinMLEPRegistrationFailed

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what the Linux loader says")

FAIL = "[ONNXRuntimeError] : 1 : FAIL : "
SESSION = (
    "[ONNXRuntimeError] : {n} : {kind} : /onnxruntime_src/onnxruntime/core/session/plugin_ep/"
    "ep_plugin_provider_interfaces.cc:393 virtual std::unique_ptr<onnxruntime::IExecutionProvider> "
    "onnxruntime::PluginExecutionProviderFactory::CreateProvider(const OrtSessionOptions&, const OrtLogger&) "
    "[ONNXRuntimeError] : {n} : {kind} : "
)
P = "/opt/ep/libonnxruntime_providers_x.so"

# (text, cause, reason), seen with ONNX Runtime 1.32.0 and 1.23.2 on Debian 12.
LINUX = [
    (
        f"{FAIL}Failed to load library {P} with error: libcuda.so.1: cannot open shared object file: "
        "No such file or directory",
        "missing_dependency",
        "missing dependency libcuda.so.1",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: {P}: cannot open shared object file: No such file or directory",
        "file_missing",
        "file missing",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: {P}: cannot open shared object file: Permission denied",
        "access_denied",
        "access denied",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: {P}: cannot read file data: Is a directory",
        "not_a_regular_file",
        "not a regular file: a directory",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: {P}: file too short",
        "wrong_format",
        "not a shared library: too short for one",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: {P}: invalid ELF header",
        "wrong_format",
        "not a Linux shared library",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: {P}: wrong ELF class: ELFCLASS32",
        "wrong_machine",
        "wrong machine: a 32-bit library",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: {P}: undefined symbol: function_of_another_version",
        "missing_symbol",
        "missing symbol function_of_another_version",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' "
        f"not found (required by {P})",
        "missing_symbol",
        "missing symbol version GLIBC_2.38 of libc.so.6",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: /opt/ep/libopenvino.so.2641: invalid ELF header",
        "wrong_format",
        "dependency libopenvino.so.2641: not a Linux shared library",
    ),
    (
        f"{FAIL}Failed to get symbol CreateEpFactories with error: {P}: undefined symbol: CreateEpFactories",
        "not_an_ep_library",
        "not an EP library: no function CreateEpFactories",
    ),
    (
        f"{FAIL}EP library is already registered under FooExecutionProvider",
        "already_registered",
        "already registered under FooExecutionProvider",
    ),
    (
        f"{FAIL}library is already registered under OpenVINOExecutionProvider",
        "already_registered",
        "already registered under OpenVINOExecutionProvider",
    ),
    (
        f"{FAIL}QNN EP requires ORT >= 1.24 (API 24). Host ORT is 1.23.2 (API 23).",
        "ort_api_too_old",
        "onnxruntime too old: the plugin needs 1.24, here is 1.23.2",
    ),
    (
        f"{FAIL}the vendor driver is not running",
        "initialisation_failed",
        "initialisation failed: the vendor driver is not running",
    ),
    (
        f"{FAIL}Failed to load library {P} with error: cannot allocate memory in static TLS block",
        "unknown",
        "does not load: cannot allocate memory in static TLS block",
    ),
]

WINDOWS_PATH = r"C:\Program Files\ep\onnxruntime_providers_x.dll"

# (text, Win32 code, cause, reason): from ONNX Runtime's source and from the field, not seen on hardware.
WINDOWS = [
    (
        f'{FAIL}LoadLibrary failed with error 126 "" when trying to load "{WINDOWS_PATH}"',
        126,
        "missing_dependency",
        "missing dependency (Windows does not say which) (Windows error 126)",
    ),
    (
        f'{FAIL}Error loading "{WINDOWS_PATH}" which depends on "nvcuda.dll" which is missing. '
        '(Error 126: "The specified module could not be found.")',
        126,
        "missing_dependency",
        "missing dependency nvcuda.dll",
    ),
    (
        f'{FAIL}Error loading "{WINDOWS_PATH}" which is missing. '
        '(Error 126: "The specified module could not be found.")',
        126,
        "file_missing",
        "file missing",
    ),
    (
        f'{FAIL}LoadLibrary failed with error 2 "The system cannot find the file specified." when trying to '
        f'load "{WINDOWS_PATH}"',
        2,
        "file_missing",
        "file missing (Windows error 2)",
    ),
    (
        f'{FAIL}Error loading "{WINDOWS_PATH}" (Error 5: "Access is denied.")',
        5,
        "access_denied",
        "access denied (Windows error 5)",
    ),
    (
        f'{FAIL}Error loading "{WINDOWS_PATH}" (Error 127: "The specified procedure could not be found.")',
        127,
        "missing_symbol",
        "missing function in a library it depends on (versions do not match) (Windows error 127)",
    ),
    (
        f'{FAIL}Error loading "{WINDOWS_PATH}" (Error 193: "%1 is not a valid Win32 application.")',
        193,
        "wrong_format",
        "not a library for this machine (Windows error 193)",
    ),
    (
        f'{FAIL}Error loading "{WINDOWS_PATH}" (Error 1114: "A dynamic link library (DLL) initialization '
        'routine failed.")',
        1114,
        "initialisation_failed",
        "initialisation failed: the library's start-up routine gave up (Windows error 1114)",
    ),
    (
        f'{FAIL}Failed to find symbol CreateEpFactories in library, error code: 127 ""',
        127,
        "not_an_ep_library",
        "not an EP library: no function CreateEpFactories",
    ),
    (
        f'{FAIL}Error loading "{WINDOWS_PATH}" (Error 1455: "The paging file is too small.")',
        1455,
        "unknown",
        "does not load: Windows error 1455: The paging file is too small.",
    ),
]


@pytest.mark.parametrize(("text", "cause", "reason"), LINUX, ids=[row[2] for row in LINUX])
def test_linux_texts(text: str, cause: str, reason: str) -> None:
    failure = WinMLEPRegistrationFailed(text)
    assert (failure.cause, failure.code, failure.reason) == (cause, cause, reason)
    assert failure.original == text
    assert failure.hint


@pytest.mark.parametrize(("text", "code", "cause", "reason"), WINDOWS, ids=[row[3] for row in WINDOWS])
def test_windows_texts(text: str, code: int, cause: str, reason: str) -> None:
    failure = WinMLEPRegistrationFailed(text, ep="XExecutionProvider")
    assert (failure.code, failure.cause, failure.reason) == (code, cause, reason)
    assert failure.to_dict()["code"] == f"win32_{code}"
    assert failure.original == text


def test_the_sentence_names_the_library_and_the_cause() -> None:
    failure = WinMLEPRegistrationFailed(WINDOWS[1][0], dll_path=WINDOWS_PATH, ep="XExecutionProvider")
    assert str(failure) == "onnxruntime_providers_x.dll: missing dependency nvcuda.dll"
    assert str(WinMLEPRegistrationFailed(LINUX[0][0], dll_path=P)).startswith("libonnxruntime_providers_x.so: missing")
    assert (
        str(WinMLEPRegistrationFailed("gone", ep="XExecutionProvider", cause="no_device")) == "XExecutionProvider: gone"
    )


def test_missing_dependency_is_named() -> None:
    assert WinMLEPRegistrationFailed(LINUX[0][0]).details["dependency"] == "libcuda.so.1"
    assert WinMLEPRegistrationFailed(WINDOWS[1][0]).details["dependency"] == "nvcuda.dll"


def test_a_number_in_the_plugins_own_words_is_no_win32_code() -> None:
    failure = WinMLEPRegistrationFailed(f"{FAIL}device open failed with error 5 (Error 126: busy)")
    assert failure.code == "initialisation_failed"


def test_unknown_texts_stay_honest_and_whole() -> None:
    failure = WinMLEPRegistrationFailed("something\n  nobody has seen before")
    assert (failure.cause, failure.code) == ("unknown", "unknown")
    assert failure.reason == "does not register: something nobody has seen before"
    assert failure.original == "something\n  nobody has seen before"


def test_an_exception_without_text_gives_its_type() -> None:
    assert WinMLEPRegistrationFailed(KeyError()).original == "KeyError"


def test_every_cause_has_a_next_step() -> None:
    for cause, hint in CAUSES.items():
        assert WinMLEPRegistrationFailed("text", cause=cause).hint == hint
    with pytest.raises(ValueError, match="unknown cause"):
        WinMLEPRegistrationFailed("text", cause="tired")


@given(text=st.text(max_size=300), log=st.text(max_size=100))
def test_no_text_raises(text: str, log: str) -> None:
    failure = WinMLEPRegistrationFailed(text, native_log=log)
    assert failure.cause in CAUSES
    assert failure.reason.strip()
    assert "\n" not in failure.reason
    if text:
        assert failure.original == text


# --- the API of plugin and runtime ----------------------------------------------------------------------------


def test_api_named_only_in_the_native_log() -> None:
    log = (
        "The requested API version [24] is not available, only API versions [1, 23] are supported in this "
        "build. Current ORT Version is: 1.23.2\n"
    )
    for cause in (None, "no_device", "no_session"):
        failure = WinMLEPRegistrationFailed(f"{FAIL}no API", native_log=f"noise\n{log}noise", cause=cause)
        assert failure.cause == "ort_api_too_old"
        assert failure.reason == "onnxruntime too old: the plugin needs API 24 (1.24), here is API 23 (1.23)"
        assert (failure.details["api_needed"], failure.details["api_here"]) == (24, 23)


def test_session_texts_lose_onnxruntimes_prefixes() -> None:
    text = SESSION.format(n=1, kind="FAIL") + "Could not determine default backend path for device\n"
    failure = WinMLEPRegistrationFailed(f"cpu: no session: {text}", cause="no_session")
    assert failure.cause == "no_session"
    assert failure.reason == "cpu: no session: Could not determine default backend path for device"


def test_plugin_built_for_an_api_that_is_gone() -> None:
    text = SESSION.format(n=1, kind="FAIL") + (
        "ep_plugin_provider_interfaces.cc:404 SanityCheckOrtEp OrtEp has invalid ort_version_supported=21 "
        "(expected at least 22).\n"
    )
    failure = WinMLEPRegistrationFailed(text, cause="no_session")
    assert failure.cause == "ort_api_too_new"
    assert failure.details["api_built_for"] == 21


@pytest.mark.parametrize(
    ("runtime", "cause"),
    [("1.32.0", "ort_api_too_new"), ("1.27.1", "ort_api_too_old"), (None, "ort_api_too_new")],
)
def test_experimental_functions_tie_a_plugin_to_one_runtime(
    monkeypatch: pytest.MonkeyPatch, runtime: str | None, cause: str
) -> None:
    monkeypatch.setattr(ep_owner, "runtime_version", lambda: runtime)
    text = SESSION.format(n=9, kind="NOT_IMPLEMENTED") + (
        "Experimental function OrtEpApi_ReleaseEpContextConfig_SinceV28 is not available in this build\n"
    )
    failure = WinMLEPRegistrationFailed(text, cause="no_session")
    assert failure.cause == cause
    assert failure.details["function"] == "OrtEpApi_ReleaseEpContextConfig"
    assert failure.details["api_built_for"] == 28


# --- across the process boundary ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [LINUX[0][0], WINDOWS[1][0], "unheard of"])
def test_survives_the_process_boundary(text: str) -> None:
    sent = WinMLEPRegistrationFailed(text, dll_path=WINDOWS_PATH, ep="XExecutionProvider", fallback_version="0.5.0")
    received = error_from_dict(json.loads(json.dumps(sent.to_dict())))
    assert type(received) is WinMLEPRegistrationFailed
    assert isinstance(received, TargetUnavailable)
    for name in ("code", "cause", "reason", "hint", "dll_path", "fallback_version", "original", "ep", "exit_code"):
        assert getattr(received, name) == getattr(sent, name), name
    assert received.to_dict() == sent.to_dict()
    assert str(received) == str(sent)


def test_exit_code_tells_a_dead_worker_from_an_absent_target() -> None:
    for cause in CAUSES:
        wanted = 5 if cause in ("crashed", "ended_early", "timed_out") else 3
        failure = WinMLEPRegistrationFailed("text", cause=cause)
        assert failure.exit_code == wanted
        assert failure.to_dict()["exit_code"] == wanted


# --- the version of a library that did not load ---------------------------------------------------------------


@pytest.fixture
def unpacked_wheel(tmp_path: Path) -> Path:
    """A plugin wheel that was only unpacked, beside another one; gives the library."""
    for name, version, files in (
        ("other", "9.9", "other/__init__.py"),
        ("onnxruntime_ep_x", "0.5.0", 'onnxruntime_ep_x/libx.so,sha256=1,3\n"onnxruntime_ep_x/a, b.so",sha256=1,3'),
    ):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "RECORD").write_text(f"{files}\n{info.name}/RECORD,,\n", encoding="utf-8")
    (tmp_path / "onnxruntime_ep_x").mkdir()
    return tmp_path / "onnxruntime_ep_x" / "libx.so"


def test_version_of_the_owning_distribution(unpacked_wheel: Path) -> None:
    failure = WinMLEPRegistrationFailed(LINUX[0][0], dll_path=str(unpacked_wheel))
    assert failure.fallback_version == "0.5.0"
    assert ep_owner.owning_distribution(unpacked_wheel) == ("onnxruntime-ep-x", "0.5.0")
    assert ep_owner.owning_distribution(unpacked_wheel.with_name("a, b.so")) == ("onnxruntime-ep-x", "0.5.0")
    assert ep_owner.owning_distribution(unpacked_wheel.with_name("libx.so.1")) is None


def test_version_in_the_file_itself_comes_first(unpacked_wheel: Path) -> None:
    unpacked_wheel.write_bytes(make_dll(version="2.7.0"))
    assert WinMLEPRegistrationFailed("x", dll_path=str(unpacked_wheel)).fallback_version == "2.7.0"


def test_no_version_is_none(tmp_path: Path) -> None:
    assert WinMLEPRegistrationFailed("x", dll_path=str(tmp_path / "libx.so")).fallback_version is None
    assert WinMLEPRegistrationFailed("x").fallback_version is None


def test_a_record_that_cannot_be_read_owns_nothing(unpacked_wheel: Path) -> None:
    record = unpacked_wheel.parent.parent / "onnxruntime_ep_x-0.5.0.dist-info" / "RECORD"
    record.unlink()
    assert ep_owner.owning_distribution(unpacked_wheel) is None


def test_runtime_version_is_what_is_installed() -> None:
    from importlib.metadata import version

    assert ep_owner.runtime_version() == version("onnxruntime")


# --- what the real loader and the real onnxruntime say --------------------------------------------------------

_REGISTER_EACH = """
import json, sys
import onnxruntime as ort
said = {}
for number, path in enumerate(sys.argv[1:]):
    try:
        ort.register_execution_provider_library(f"Hostile{number}ExecutionProvider", path)
        said[path] = None
    except Exception as error:
        said[path] = str(error)
print("said " + json.dumps(said))
"""

# None of these gets as far as running code of its own, but for the last two, which refuse politely.
_SOFT = {
    "text": "wrong_format",
    "empty": "wrong_format",
    "wrong_machine": "wrong_machine",
    "bits32": "wrong_machine",
    "missing_dependency": "missing_dependency",
    "missing_symbol": "missing_symbol",
    "not_an_ep": "not_an_ep_library",
    "no_release": "not_an_ep_library",
    "directory": "not_a_regular_file",
    "dangling": "file_missing",
    "init_fails": "initialisation_failed",
    "newer_api": "ort_api_too_old",
}


@pytest.fixture(scope="module")
def what_onnxruntime_says(hostile_libraries: dict[str, Path]) -> tuple[dict[str, str], str]:
    paths = [str(hostile_libraries[name]) for name in _SOFT]
    answer = subprocess.run(
        [sys.executable, "-c", _REGISTER_EACH, *paths], capture_output=True, text=True, timeout=120, check=True
    )
    line = next(line for line in answer.stdout.splitlines() if line.startswith("said "))
    said = json.loads(line.removeprefix("said "))
    return {name: said[str(hostile_libraries[name])] for name in _SOFT}, answer.stderr


@linux
@pytest.mark.parametrize("name", _SOFT)
def test_real_texts_are_told_apart(
    what_onnxruntime_says: tuple[dict[str, str], str], hostile_libraries: dict[str, Path], name: str
) -> None:
    said, log = what_onnxruntime_says
    native_log = log if name == "newer_api" else ""
    failure = WinMLEPRegistrationFailed(said[name], dll_path=str(hostile_libraries[name]), native_log=native_log)
    assert failure.cause == _SOFT[name], said[name]
    assert failure.original == said[name]


@linux
def test_missing_dependency_of_a_real_library_is_named(
    what_onnxruntime_says: tuple[dict[str, str], str],
) -> None:
    failure = WinMLEPRegistrationFailed(what_onnxruntime_says[0]["missing_dependency"])
    assert failure.reason == "missing dependency libgone_dependency.so"


@linux
def test_missing_file_and_wrong_machine_share_a_text_and_are_told_apart(
    what_onnxruntime_says: tuple[dict[str, str], str], hostile_libraries: dict[str, Path]
) -> None:
    said, _ = what_onnxruntime_says
    texts = {
        name: said[name].replace(os.fspath(hostile_libraries[name]), "P") for name in ("dangling", "wrong_machine")
    }
    assert texts["dangling"] == texts["wrong_machine"]
    dangling = WinMLEPRegistrationFailed(said["dangling"], dll_path=str(hostile_libraries["dangling"]))
    assert "dangling link to nowhere.so" in dangling.reason
    machine = WinMLEPRegistrationFailed(said["wrong_machine"], dll_path=str(hostile_libraries["wrong_machine"]))
    assert "built for aarch64" in machine.reason
