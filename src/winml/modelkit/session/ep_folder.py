"""Which files of a folder are EP libraries, and what an EP is called that the table does not know.

Only names and exports are looked at; no library is loaded.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winml.modelkit.errors import UnknownEP
from winml.modelkit.session.ep_binary import FACTORY_SYMBOLS, exports_symbol
from winml.modelkit.session.ep_device import EP_DEVICE_SPECS, find_spec

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FolderProblem", "LibraryNames", "displayable", "libraries_in_folder", "runtime_id"]

MANY = 32
"""Above this number, libraries of unknown names count only if they export an EP's functions: every candidate
costs a process of its own, and a folder with so many libraries is not a folder of plugins."""

_VERSION = re.compile(r"\.so(?:\.\d+)*$")


@dataclass(frozen=True, slots=True)
class FolderProblem:
    """Something about a place that was looked at: the path, a stable code, the reason."""

    path: str
    code: str
    reason: str


def runtime_id(platform: str, machine: str) -> str:
    """The NuGet runtime identifier, such as ``linux-x64``."""
    system = "win" if platform == "win32" else "linux"
    return f"{system}-{ {'x86_64': 'x64', 'aarch64': 'arm64', 'i386': 'x86'}.get(machine, machine) }"


def displayable(path: str) -> str:
    """A path for reports: bytes that are no UTF-8 become ``\\xff``."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class LibraryNames:
    """From library file names to EP names, on one platform; remembers what it called the unknown ones."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._known = {
            self._fold(file): spec.name
            for spec in EP_DEVICE_SPECS.values()
            for file in spec.library_file_names(platform)
        }
        self._order = list(self._known)
        self._derived: dict[str, str] = {}

    def _fold(self, file: str) -> str:
        return file.casefold() if self._platform == "win32" else file

    def is_library(self, file: str) -> bool:
        """Whether a file is named like a shared library: ``x.dll``, or ``x.so`` and ``x.so.1.2``."""
        if self._platform == "win32":
            return file.casefold().endswith(".dll")
        return _VERSION.search(file) is not None

    def unversioned(self, file: str) -> str:
        """``libx.so`` for ``libx.so.1.2``."""
        return file if self._platform == "win32" else _VERSION.sub(".so", file)

    def known(self, file: str) -> str | None:
        """The EP whose plugin bears exactly this name, or None."""
        return self._known.get(self._fold(file))

    def rank(self, file: str) -> int:
        """Place of a known plugin name in the EP table."""
        return self._order.index(self._fold(file))

    def ep_name(self, file: str) -> str:
        """The EP a library is taken for: the table's by its name, else one derived from it.

        ``libonnxruntime_providers_foo_plugin.so`` is ``FooExecutionProvider``. Libraries of one name in
        several folders are one EP; those of different names never are.
        """
        known = self.known(file) or self.known(self.unversioned(file))
        if known is not None:
            return known
        stem = self._fold(self.unversioned(file)).removesuffix(".so").removesuffix(".dll")
        if stem not in self._derived:
            self._derived[stem] = self._free(_camel_case(stem))
        return self._derived[stem]

    def _free(self, word: str) -> str:
        for number in ("", *map(str, range(2, 10_000))):
            name = f"{word}{number}ExecutionProvider"
            if name not in self._derived.values() and not _is_in_table(name):
                return name
        raise AssertionError("ten thousand libraries of one name")


def _is_in_table(name: str) -> bool:
    try:
        find_spec(name)
    except UnknownEP:
        return False
    return True


def _camel_case(stem: str) -> str:
    stem = re.sub(r"^(?:lib)?(?:onnxruntime_)?(?:providers_|ep_)?", "", stem, flags=re.IGNORECASE)
    stem = re.sub(r"[_-](?:plugin|ep|execution_?provider)$", "", stem, flags=re.IGNORECASE)
    words = re.findall(r"[A-Za-z0-9]+", stem)
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"Ep{name}"


def libraries_in_folder(
    folder: Path, names: LibraryNames, *, platform: str, rid: str
) -> tuple[list[str], list[FolderProblem]]:
    """The EP libraries of a folder, absolute paths in order of precedence, and what is wrong with the folder.

    Files that bear a plugin's known name count, whatever they are. Beside such a one, others count if they
    export an EP's functions; without one, every file named like a shared library does. A library that the
    folder holds under several names (links, or copies that differ in the version suffix) counts once. If
    there is none, ``runtimes/<rid>/native``, the inside of a NuGet package, is looked at.
    """
    found, problems = _candidates(folder, names, platform)
    if not found and not problems:
        inner = folder / "runtimes" / rid / "native"
        if inner.is_dir():
            found, problems = _candidates(inner, names, platform)
    if not found and not problems:
        problems = [FolderProblem(displayable(str(folder)), "nothing_found", "no EP library in this folder")]
    return found, problems


def _candidates(folder: Path, names: LibraryNames, platform: str) -> tuple[list[str], list[FolderProblem]]:
    try:
        with os.scandir(folder) as entries:
            files = sorted(entry.name for entry in entries)
    except OSError as error:
        reason = f"cannot be listed: {error.strerror or error}"
        return [], [FolderProblem(displayable(str(folder)), "unreadable_folder", reason)]
    problems: list[FolderProblem] = []
    known = sorted((file for file in files if names.known(file)), key=names.rank)
    others = [file for file in files if names.is_library(file) and not names.known(file)]
    if known:
        # A wheel's libx.so.1 beside its libx.so is the same library once more.
        others = [file for file in others if not names.known(names.unversioned(file))]
    if known or len(others) > MANY:
        plugins = [file for file in others if _is_plugin(folder / file, platform)]
        if not known and not plugins:
            reason = f"{len(others)} shared libraries, and none of them exports {FACTORY_SYMBOLS[0]}"
            problems.append(FolderProblem(displayable(str(folder)), "nothing_found", reason))
        others = plugins
    found = []
    for file in _one_name_each(folder, known, others, names):
        path = str(folder / file)
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            reason = "its path is not valid UTF-8, and ONNX Runtime takes no other"
            problems.append(FolderProblem(displayable(path), "path_not_utf8", reason))
            continue
        found.append(path)
    return found, problems


def _is_plugin(path: Path, platform: str) -> bool:
    return exports_symbol(path, FACTORY_SYMBOLS[0], platform=platform, deep=False) is True


def _one_name_each(folder: Path, known: list[str], others: list[str], names: LibraryNames) -> list[str]:
    """Known names in the order given, then the others by name; further names of one library are left out."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for file in [*known, *sorted(others, key=lambda name: (len(name), name))]:
        identity: list[tuple[object, ...]] = []
        try:
            status = (folder / file).stat()
        except OSError:  # a dangling link: nothing but its name to tell it by
            pass
        else:
            identity.append(("copy", names.unversioned(file), status.st_size))
            if status.st_ino:
                identity.append(("file", status.st_dev, status.st_ino))
        if not seen.intersection(identity):
            kept.append(file)
        seen.update(identity)
    return [*(file for file in kept if file in known), *sorted(file for file in kept if file not in known)]
