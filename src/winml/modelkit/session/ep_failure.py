"""Why an EP library could not be used, parsed out of what ONNX Runtime and the system loader said.

The Linux texts were seen with ONNX Runtime 1.23 and 1.32 on glibc; the Windows texts come from ONNX Runtime's
source and from the field and were not seen on hardware.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from winml.modelkit.errors import EXIT_CRASH, EXIT_UNAVAILABLE, TargetUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CAUSES", "WinMLEPRegistrationFailed"]

CAUSES: Mapping[str, str] = {
    "file_missing": "check the path, or reinstall the package that carries it",
    "not_a_regular_file": "name the library file itself, or the folder that holds it",
    "access_denied": "give this user the right to read it, or reinstall the package that carries it",
    "wrong_format": "reinstall the package for this operating system",
    "wrong_machine": "install the package for this machine, or a Python for the library's machine",
    "truncated": "the download or copy was cut short: reinstall the package",
    "missing_dependency": "install what brings it (a driver, a package), or put it on the library path",
    "missing_symbol": "the library and one it depends on are of different versions: update both together",
    "not_an_ep_library": "name the EP's plugin library, not one it depends on",
    "ort_api_too_old": "update onnxruntime, or install a plugin built for the one that is here",
    "ort_api_too_new": "update the plugin, or install the onnxruntime it was built for",
    "initialisation_failed": "check the vendor's driver and runtime; -v shows what the library wrote",
    "already_registered": "use one library per EP and process",
    "no_device": "winml sys shows the hardware that is here and what the EP needs",
    "no_session": "update the plugin and onnxruntime together; -v shows what the library wrote",
    "crashed": "update the plugin and its driver; -v shows what the library wrote last",
    "ended_early": "update the plugin and its driver; -v shows what the library wrote last",
    "timed_out": "the library did not come back in time: check its driver, or raise the limit",
    "unknown": "-v shows the whole text",
}
"""Every symbolic cause, with the next step a user can take."""

_DIED = frozenset({"crashed", "ended_early", "timed_out"})

# Win32 system error codes that a failed load gives, and the cause each stands for.
_WIN32 = {
    2: "file_missing",
    3: "file_missing",
    5: "access_denied",
    126: "missing_dependency",
    127: "missing_symbol",
    193: "wrong_format",
    1114: "initialisation_failed",
}


_LOG_BYTES = 65536


@dataclass(frozen=True, slots=True)
class _Verdict:
    cause: str
    reason: str
    details: dict[str, Any] = field(default_factory=dict)


class WinMLEPRegistrationFailed(TargetUnavailable):
    """An EP library that could not be registered, or that registered and cannot serve.

    All that is known stands in ``details`` (plain data), so it survives the worker's process boundary.

    Args:
        original: what ONNX Runtime raised, or any text about the failure.
        dll_path: the library.
        ep: canonical name of the EP.
        cause: one of ``CAUSES``, where the caller knows it; the text is then taken as the reason. Only a text
            that names an ORT API mismatch is believed over ``no_device`` and ``no_session``.
        fallback_version: version of the library where it is known already.
        native_log: what the library and ONNX Runtime wrote meanwhile; some causes are named only there.
        details: further plain data.
    """

    default_code = "unknown"

    def __init__(
        self,
        original: str | BaseException,
        *,
        dll_path: str | None = None,
        ep: str | None = None,
        cause: str | None = None,
        fallback_version: str | None = None,
        native_log: str = "",
        details: Mapping[str, Any] | None = None,
    ) -> None:
        text = str(original) or type(original).__name__
        verdict = _judge(text, native_log, dll_path, cause)
        if fallback_version is None and dll_path is not None:
            fallback_version = _version_of(dll_path)
        facts = {
            "cause": verdict.cause,
            "ep": ep,
            "dll_path": dll_path,
            "fallback_version": fallback_version,
            "original": text,
            **verdict.details,
            **(details or {}),
        }
        win32 = facts.get("win32")
        super().__init__(
            verdict.reason,
            code=verdict.cause if win32 is None else f"win32_{win32}",
            hint=CAUSES[verdict.cause],
            details=facts,
        )

    # The base class's code is always a word; callers of this class may ask for the loader's number.
    @property  # type: ignore[override]
    def code(self) -> int | str:
        """The Win32 error number where the loader gave one, else the symbolic cause.

        ``to_dict`` has the word: ``win32_126``, ``missing_dependency``.
        """
        number = self._word.removeprefix("win32_")
        return int(number) if number.isdecimal() else self._word

    @code.setter
    def code(self, word: str) -> None:
        self._word = word

    @property
    def exit_code(self) -> int:  # type: ignore[override]  # one kind of failure, two exit codes
        """5 where the library ended its process or had to be ended, else 3."""
        return EXIT_CRASH if self.cause in _DIED else EXIT_UNAVAILABLE

    @property
    def cause(self) -> str:
        """The symbolic cause, one of ``CAUSES``, on every platform."""
        return str(self.details.get("cause", "unknown"))

    @property
    def ep(self) -> str | None:
        """Canonical name of the EP, or None."""
        return self.details.get("ep")

    @property
    def dll_path(self) -> str | None:
        """The library, or None for an EP bundled in onnxruntime."""
        return self.details.get("dll_path")

    @property
    def fallback_version(self) -> str | None:
        """The library's version without loading it: VS_VERSIONINFO, or that of the owning distribution."""
        return self.details.get("fallback_version")

    @property
    def original(self) -> str:
        """The whole text that was parsed."""
        return str(self.details.get("original", self.reason))

    def to_dict(self) -> dict[str, Any]:
        """As ``WinMLError.to_dict``; ``code`` is a word on every platform."""
        return {**super().to_dict(), "code": self._word}

    def __str__(self) -> str:
        name = _name(self.dll_path) if self.dll_path else self.ep
        return f"{name}: {self.reason}" if name else self.reason


def with_native_log(error: WinMLEPRegistrationFailed) -> WinMLEPRegistrationFailed:
    """The same failure judged with what was printed meanwhile: some plugins name an API mismatch only there.

    The log is the file named in ``details["log"]``; without it, or without a word in it, the failure stays as it is.
    """
    log = error.details.get("log")
    if not log or error.cause not in ("initialisation_failed", "unknown"):
        return error
    try:
        text = Path(log).read_bytes()[-_LOG_BYTES:].decode("utf-8", "replace")
    except OSError:
        return error
    again = WinMLEPRegistrationFailed(
        error.original,
        dll_path=error.dll_path,
        ep=error.ep,
        fallback_version=error.fallback_version,
        native_log=text,
    )
    if again.cause == error.cause:
        return error
    again.details["log"] = log
    return again


def _version_of(path: str) -> str | None:
    if not Path(path).is_absolute():  # a path of another platform, in a recorded text
        return None
    from winml.modelkit.session.ep_binary import file_version
    from winml.modelkit.session.ep_owner import owning_distribution

    version = file_version(path)
    if version is None and (owner := owning_distribution(path)) is not None:
        version = owner[1]
    return version


def _name(path: str) -> str:
    """Base name of a path of either platform; recorded Windows texts are read on Linux too."""
    return PureWindowsPath(path).name if "\\" in path else PurePosixPath(path).name


# What ONNX Runtime puts before a status: its own prefix and, if thrown, source file, line and function.
_STATUS = re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_SOURCE = re.compile(r"^\S+\.(?:cc|cpp|h):\d+ \w+ ")


def _core(text: str) -> str:
    """The innermost status message, without ONNX Runtime's prefixes, on one line."""
    found = list(_STATUS.finditer(text))
    if found:
        text = text[: found[0].start()] + text[found[-1].end() :]
    return _SOURCE.sub("", " ".join(text.split()))


def _judge(text: str, native_log: str, path: str | None, cause: str | None) -> _Verdict:
    core = _core(text)
    if cause is not None and cause not in CAUSES:
        raise ValueError(f"unknown cause {cause!r}")
    if cause is not None:
        mismatch = None
        if cause in ("no_device", "no_session"):
            mismatch = _api_mismatch(core) or _api_mismatch(native_log)
        return mismatch or _Verdict(cause, core)
    for judge in (_api_mismatch, _registered_already, _win32, _no_factory, _linker):
        verdict = judge(core)
        if verdict is not None:
            return _look_again(verdict, path)
    if (verdict := _api_mismatch(native_log)) is not None:
        return verdict
    if core != " ".join(text.split()) and not core.startswith("Failed to load library"):
        # ONNX Runtime hands on the status with which the plugin itself refused to make its factory.
        return _Verdict("initialisation_failed", f"initialisation failed: {core}")
    return _Verdict("unknown", f"does not register: {core}")


# --- ONNX Runtime's and the plugins' words ------------------------------------------------------------------


def _api_mismatch(text: str) -> _Verdict | None:
    """Plugin and ONNX Runtime do not speak the same version of the API; API n came with version 1.n."""
    if found := re.search(r"requested API version \[(\d+)\] is not available, only API versions \[1, (\d+)\]", text):
        needs, has = int(found[1]), int(found[2])
        reason = f"onnxruntime too old: the plugin needs API {needs} (1.{needs}), here is API {has} (1.{has})"
        return _Verdict("ort_api_too_old", reason, {"api_needed": needs, "api_here": has})
    if found := re.search(r"requires ORT >= (\S+) \(API (\d+)\)\. Host ORT is (\S+) \(API (\d+)\)", text):
        reason = f"onnxruntime too old: the plugin needs {found[1]}, here is {found[3]}"
        return _Verdict("ort_api_too_old", reason, {"api_needed": int(found[2]), "api_here": int(found[4])})
    if found := re.search(r"ONNX Runtime version '(\S+)'.*is below the minimum supported version (\S+?)\.?$", text):
        reason = f"onnxruntime too old: the plugin needs {found[2]}, here is {found[1]}"
        return _Verdict("ort_api_too_old", reason)
    if found := re.search(r"invalid ort_version_supported=(\d+) \(expected at least (\d+)\)", text):
        reason = f"onnxruntime too new: the plugin was built for API {found[1]}, here API {found[2]} is the least"
        return _Verdict("ort_api_too_new", reason, {"api_built_for": int(found[1])})
    if found := re.search(r"Experimental function (\w+?)_SinceV(\d+) is not available in this build", text):
        # Experimental functions come and go: which side is behind depends on the version that runs.
        from winml.modelkit.session.ep_owner import runtime_version

        built_for, here = int(found[2]), runtime_version()
        older = here is not None and _minor(here) < built_for
        reason = (
            f"onnxruntime too {'old' if older else 'new'}: the plugin uses the experimental {found[1]} of "
            f"1.{built_for}{', here is ' + here if here else ''}"
        )
        details = {"api_built_for": built_for, "function": found[1]}
        return _Verdict("ort_api_too_old" if older else "ort_api_too_new", reason, details)
    return None


def _minor(version: str) -> int:
    found = re.match(r"\d+\.(\d+)", version)
    return int(found[1]) if found else 0


def _registered_already(text: str) -> _Verdict | None:
    found = re.search(r"library is already registered under (\S+)", text)
    if not found:
        return None
    return _Verdict("already_registered", f"already registered under {found[1]}", {"registered_as": found[1]})


def _no_factory(text: str) -> _Verdict | None:
    found = re.search(r"Failed to (?:get|find) symbol (\w+)", text)
    if not found:
        return None
    return _Verdict("not_an_ep_library", f"not an EP library: no function {found[1]}", {"symbol": found[1]})


# --- Windows (not seen on hardware) -------------------------------------------------------------------------


_WINDOWS_SAID = re.compile(
    r'Error loading ".*\(Error (\d+)'
    r"|LoadLibrary failed with error (\d+)"
    r"|in library, error code:? (\d+)"
    r"|\[WinError (\d+)\]"
)


def _win32(text: str) -> _Verdict | None:
    found = _WINDOWS_SAID.search(text)
    if not found:
        return None
    code = int(next(group for group in found.groups() if group))
    details: dict[str, Any] = {"win32": code}
    if (verdict := _no_factory(text)) is not None:
        return _Verdict(verdict.cause, verdict.reason, {**verdict.details, **details})
    if needed := re.search(r'depends on "([^"]+)" which is missing', text):
        name = _name(needed[1])
        return _Verdict("missing_dependency", f"missing dependency {name}", {**details, "dependency": name})
    if re.search(r'Error loading "[^"]+" which is missing', text):
        return _Verdict("file_missing", "file missing", details)
    cause = _WIN32.get(code)
    system = re.search(r'error:? \d+:? "([^"]+)"', text, re.IGNORECASE)
    said = f": {system[1].strip()}" if system else ""
    reasons = {
        "file_missing": "file missing",
        "access_denied": "access denied",
        "missing_dependency": "missing dependency (Windows does not say which)",
        "missing_symbol": "missing function in a library it depends on (versions do not match)",
        "wrong_format": "not a library for this machine",
        "initialisation_failed": "initialisation failed: the library's start-up routine gave up",
    }
    if cause is None:
        return _Verdict("unknown", f"does not load: Windows error {code}{said}", details)
    return _Verdict(cause, f"{reasons[cause]} (Windows error {code})", details)


# --- Linux: what dlopen says (glibc) ------------------------------------------------------------------------

_LOAD = re.compile(r"Failed to load library (?P<path>.+?) with error: (?P<said>.*)")
_WRONG_FILE = (
    ("cannot read file data: Is a directory", "not_a_regular_file", "not a regular file: a directory"),
    ("file too short", "wrong_format", "not a shared library: too short for one"),
    ("invalid ELF header", "wrong_format", "not a Linux shared library"),
    ("cannot dynamically load", "wrong_format", "not a shared library: an executable"),
    ("only ET_DYN and ET_EXEC can be loaded", "wrong_format", "not a shared library"),
    ("wrong ELF class: ELFCLASS32", "wrong_machine", "wrong machine: a 32-bit library"),
    ("wrong ELF class", "wrong_machine", "wrong machine: another word size"),
    ("ELF file data encoding not", "wrong_machine", "wrong machine: another byte order"),
    ("Permission denied", "access_denied", "access denied"),
    (
        "Operation not permitted",
        "access_denied",
        "access denied: its file system does not allow running code",
    ),
)


def _linker(text: str) -> _Verdict | None:
    found = _LOAD.search(text)
    if not found:
        return None
    path, said = found["path"], found["said"]
    if needed := re.search(r"undefined symbol: (\S+?)(?:, version (\S+))?(?:\s|$)", said):
        version = f" ({needed[2]})" if needed[2] else ""
        return _Verdict(
            "missing_symbol",
            f"missing symbol {needed[1]}{version}",
            {"symbol": needed[1], "version": needed[2]},
        )
    if needed := re.search(r"(\S+): version [`']([^']+)' not found", said):
        library = _name(needed[1])
        reason = f"missing symbol version {needed[2]} of {library}"
        return _Verdict("missing_symbol", reason, {"version": needed[2], "dependency": library})
    culprit = said.partition(": ")[0]
    own = culprit == path
    if said.endswith("cannot open shared object file: No such file or directory"):
        if own:
            return _Verdict("file_missing", "file missing")
        name = _name(culprit)
        return _Verdict("missing_dependency", f"missing dependency {name}", {"dependency": name})
    for words, cause, reason in _WRONG_FILE:
        if words in said:
            if own:
                return _Verdict(cause, reason)
            name = _name(culprit)
            return _Verdict(cause, f"dependency {name}: {reason}", {"dependency": name})
    return _Verdict("unknown", f"does not load: {said}")


def _look_again(verdict: _Verdict, path: str | None) -> _Verdict:
    """Where the loader has one text for several causes, let the file itself decide."""
    vague = verdict.cause in ("file_missing", "wrong_format") or verdict.details.get("win32") == 126
    if not vague or "dependency" in verdict.details or path is None or not Path(path).is_absolute():
        return verdict
    from winml.modelkit.session.ep_binary import examine_library

    finding = examine_library(path)
    if finding is not None:
        return _Verdict(finding.cause, finding.reason, {**verdict.details, **finding.details})
    if verdict.cause == "file_missing" and os.path.lexists(path):
        reason = "does not load: the loader finds no such file, though it is there"
        return _Verdict("unknown", reason, verdict.details)
    return verdict
