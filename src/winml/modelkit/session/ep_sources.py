"""Where EP libraries come from, in order, like PATH. Nothing here loads a library or imports a plugin."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from winml.modelkit.environment import RUNTIME_DISTRIBUTIONS
from winml.modelkit.errors import UnknownEP
from winml.modelkit.session.ep_binary import FACTORY_SYMBOLS, examine_library, exports_symbol, process_machine
from winml.modelkit.session.ep_device import EP_DEVICE_SPECS, find_spec
from winml.modelkit.session.ep_entry import EPEntry
from winml.modelkit.session.ep_folder import (
    FolderProblem,
    LibraryNames,
    displayable,
    libraries_in_folder,
    runtime_id,
)
from winml.modelkit.session.ep_owner import DistInfo, installed, normalise, owning_distribution

__all__ = [
    "EP_PATH_VARIABLE",
    "AvailableEP",
    "EPEntry",
    "EntryList",
    "SourceProblem",
    "find_entries",
    "query_winml_catalog",
    "read_msix_packages",
    "select_entries",
]

EP_PATH_VARIABLE = "WINMLCLI_EP_PATH"
CPU_EP = "CPUExecutionProvider"
CATALOG = "the Windows ML EP catalog"

MsixReader = Callable[[], Iterable[tuple[str, str]]]
"""Gives (package full name, package root folder) of every MSIX package of the user."""


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """A place that was to be searched and could not be, or held nothing of use.

    Attributes:
        origin: who named the place (``--ep-path``, ``WINMLCLI_EP_PATH``, a distribution ...).
        path: the place.
        code: ``file_missing``, ``unreadable_folder``, ``nothing_found``, ``path_not_utf8``,
            ``broken_package``, ``two_runtimes`` or ``catalog``.
        reason: what is wrong.
    """

    origin: str
    path: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class AvailableEP:
    """An EP that a catalog offers for this machine and that is not installed; nothing here downloads it.

    Attributes:
        ep_name: canonical name, or the catalog's where the table does not know it.
        source: one of ``ep_device.SOURCES``.
        state: the catalog's word, such as ``NotPresent``.
        package: package that would bring it, if known.
        version: its version, if known.
    """

    ep_name: str
    source: str
    state: str
    package: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class EntryList:
    """What the search found: entries in order of precedence, problems, and what could be installed."""

    entries: tuple[EPEntry, ...]
    problems: tuple[SourceProblem, ...] = ()
    available: tuple[AvailableEP, ...] = ()


def find_entries(
    ep_paths: Sequence[str] = (),
    *,
    environ: Mapping[str, str] | None = None,
    platform: str = sys.platform,
    machine: str | None = None,
    home: Path | None = None,
    search_path: Sequence[str] | None = None,
    catalog: Sequence[Mapping[str, Any]] = (),
    msix_packages: MsixReader | None = None,
) -> EntryList:
    """Every EP library of this machine, in order of precedence.

    The order: ``ep_paths``, then WINMLCLI_EP_PATH (``directory``); installed distributions (``pypi``); the
    NuGet cache (``nuget``); the Windows ML catalog (``winml-catalog``); MSIX packages (``msix``); onnxruntime
    itself (``bundled``; only the CPU EP is certain without asking it). The first entry of an EP wins, later
    ones name it in ``shadowed_by``. A file that several sources lead to is listed once, under the first.

    Args:
        ep_paths: folders and library files of ``--ep-path``.
        environ: environment variables; this process's if None.
        platform: ``sys.platform`` of the machine looked at.
        machine: machine of the process that would load the libraries; this process's if None.
        home: the user's home folder.
        search_path: folders with installed distributions; ``sys.path`` if None.
        catalog: rows of ``query_winml_catalog``, which has to run in a worker.
        msix_packages: reads the user's MSIX packages; ``read_msix_packages`` if None.
    """
    environ = os.environ if environ is None else environ
    machine = machine or process_machine()
    search = _Search(platform, machine, runtime_id(platform, machine))
    for item in ep_paths:
        search.add_item(item, f"--ep-path {displayable(item)}")
    for item in environ.get(EP_PATH_VARIABLE, "").split(os.pathsep):
        if item.strip():
            search.add_item(item.strip(), EP_PATH_VARIABLE)
    distributions = list(installed(sys.path if search_path is None else search_path))
    search.add_distributions(distributions)
    search.add_nuget(environ, home)
    search.add_catalog(catalog)
    search.add_msix(read_msix_packages if msix_packages is None else msix_packages)
    search.add_bundled(distributions)
    return EntryList(tuple(search.entries), tuple(search.problems), tuple(search.available))


def select_entries(entries: Sequence[EPEntry], ep_name: str, source: str | None = None) -> list[EPEntry]:
    """The entries of one EP in order of precedence; with ``source``, those that this source leads to.

    Args:
        entries: of ``find_entries``.
        ep_name: canonical EP name.
        source: one of ``ep_device.SOURCES``, or None for all.
    """
    return [
        entry
        for entry in entries
        if entry.ep_name == ep_name and (source is None or source == entry.source or source in entry.also_from)
    ]


class _Search:
    """Collects entries, keeps each file once, and marks what an earlier entry of the same EP shadows."""

    def __init__(self, platform: str, machine: str, rid: str) -> None:
        self.entries: list[EPEntry] = []
        self.problems: list[SourceProblem] = []
        self.available: list[AvailableEP] = []
        self._platform = platform
        self._machine = machine
        self._rid = rid
        self._names = LibraryNames(platform)
        self._places: dict[str, int] = {}  # real path -> index in entries
        self._winners: dict[str, EPEntry] = {}

    def _add(self, entry: EPEntry) -> None:
        if entry.path is not None:
            real = os.path.normcase(os.path.realpath(entry.path))
            if real in self._places:
                first = self.entries[self._places[real]]
                if entry.source not in (first.source, *first.also_from):
                    self.entries[self._places[real]] = replace(first, also_from=(*first.also_from, entry.source))
                return
            self._places[real] = len(self.entries)
        winner = self._winners.setdefault(entry.ep_name, entry)
        self.entries.append(entry if winner is entry else replace(entry, shadowed_by=winner.path))

    def _problem(self, origin: str, problem: FolderProblem) -> None:
        self.problems.append(SourceProblem(origin, problem.path, problem.code, problem.reason))

    # --- directory ------------------------------------------------------------------------------------------

    def add_item(self, item: str, origin: str) -> None:
        """A folder or a library file that the user named."""
        if not item:
            self._problem(origin, FolderProblem(item, "file_missing", "an empty path"))
            return
        path = Path(os.path.abspath(os.path.expanduser(item)))  # noqa: PTH100, PTH111 - links are kept
        shown = displayable(str(path))
        try:
            is_folder = path.is_dir()
            is_there = os.path.lexists(path)
        except (OSError, ValueError) as error:
            self._problem(origin, FolderProblem(shown, "file_missing", f"cannot be looked at: {error}"))
            return
        if is_folder:
            found, problems = libraries_in_folder(path, self._names, platform=self._platform, rid=self._rid)
            for problem in problems:
                self._problem(origin, problem)
        elif not is_there:
            self._problem(origin, FolderProblem(shown, "file_missing", "no such file or folder"))
            return
        elif shown != str(path):
            reason = "its path is not valid UTF-8, and ONNX Runtime takes no other"
            self._problem(origin, FolderProblem(shown, "path_not_utf8", reason))
            return
        else:
            found = [str(path)]
        for library in found:
            name, version = owning_distribution(library) or (None, None)
            ep_name = self._names.ep_name(Path(library).name)
            self._add(EPEntry(ep_name, library, "directory", name, version, origin=origin))

    # --- pypi -----------------------------------------------------------------------------------------------

    def add_distributions(self, distributions: Sequence[DistInfo]) -> None:
        """Plugin distributions: those of the EP table in its order, then any ``onnxruntime-ep-*``."""
        table = [name for spec in EP_DEVICE_SPECS.values() if spec.libraries for name in spec.distributions]
        order = {normalise(name): place for place, name in enumerate(table)}
        first: dict[str, DistInfo] = {}
        for item in distributions:  # as Python does, the first one on the search path counts
            if item.name in order or item.name.startswith("onnxruntime-ep-"):
                first.setdefault(item.name, item)
        for item in sorted(first.values(), key=lambda item: (order.get(item.name, len(order)), item.name)):
            origin = f"distribution {item.name} {item.version}"
            found = self._libraries_of(item)
            if not found:
                reason = "its RECORD lists no plugin library (an editable or broken installation)"
                self._problem(origin, FolderProblem(displayable(str(item.path)), "broken_package", reason))
            for path in found:
                ep_name = self._names.ep_name(path.name)
                self._add(EPEntry(ep_name, str(path), "pypi", item.name, item.version, origin=origin))

    def _libraries_of(self, item: DistInfo) -> list[Path]:
        # Paths in RECORD are relative to the folder of the .dist-info (PyPA: recording installed projects).
        root = Path(os.path.abspath(item.path.parent))  # noqa: PTH100 - links are kept
        files = [root / name for name in _record(item.path) if self._names.is_library(name)]
        plugins = sorted(
            (file for file in files if self._names.known(file.name)),
            key=lambda file: self._names.rank(file.name),
        )
        if not plugins:
            symbol = FACTORY_SYMBOLS[0]
            plugins = [file for file in files if exports_symbol(file, symbol, platform=self._platform)]
        by_name: dict[str, list[Path]] = {}
        for file in plugins:
            by_name.setdefault(file.name, []).append(file)
        return [self._for_this_machine(same) for same in by_name.values()]

    def _for_this_machine(self, files: list[Path]) -> Path:
        """Of a plugin built for several machines (a Windows wheel's amd64, arm64ec), the one for this."""
        if len(files) > 1:
            for file in files:
                finding = examine_library(file, platform=self._platform, machine=self._machine)
                if finding is None:
                    return file
        return files[0]

    # --- nuget ----------------------------------------------------------------------------------------------

    def add_nuget(self, environ: Mapping[str, str], home: Path | None) -> None:
        """Restored NuGet packages, highest version first; NUGET_PACKAGES moves the cache."""
        try:
            cache = Path(environ.get("NUGET_PACKAGES") or (home or Path.home()) / ".nuget" / "packages")
            is_there = cache.is_dir()
        except (OSError, RuntimeError):  # no home folder, or no way into it
            return
        if not is_there:
            return
        for spec in EP_DEVICE_SPECS.values():
            for package in spec.nuget_ids:
                for version in sorted(_folders(cache / package), key=_version_key, reverse=True):
                    native = cache / package / version / "runtimes" / self._rid / "native"
                    self._add_known(
                        [native],
                        spec.library_file_names(self._platform),
                        spec.name,
                        "nuget",
                        package,
                        version,
                    )

    def _add_known(
        self,
        folders: Iterable[Path],
        files: Iterable[str],
        ep_name: str,
        source: str,
        package: str,
        version: str | None,
    ) -> None:
        for path in (folder / file for folder in folders for file in files):
            if path.is_file():
                origin = f"{package} {version}" if version else package
                self._add(EPEntry(ep_name, str(path), source, package, version, origin=origin))

    # --- winml-catalog, msix --------------------------------------------------------------------------------

    def add_catalog(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows of the Windows ML catalog; what is not ready is offered, never fetched."""
        for row in rows:
            name, state = str(row.get("name") or ""), str(row.get("ready_state") or "")
            with contextlib.suppress(UnknownEP):
                name = find_spec(name).name
            package, version = row.get("package_family_name") or None, row.get("version") or None
            path = row.get("library_path") or None
            if state != "Ready":
                self.available.append(AvailableEP(name, "winml-catalog", state, package, version))
            elif path is None:
                reason = f"{name} is ready, and the catalog names no library"
                self._problem(CATALOG, FolderProblem(package or name, "catalog", reason))
            else:
                self._add(EPEntry(name, str(path), "winml-catalog", package, version, origin=CATALOG))

    def add_msix(self, reader: MsixReader) -> None:
        """Installed MSIX packages whose name the EP table knows, highest version first."""
        packages = []
        for full_name, root in reader():
            # Name_Version_Architecture_ResourceId_PublisherId
            name, version = full_name.split("_", 2)[:2] if "_" in full_name else (full_name, "")
            packages.append((name, version, root))
        packages.sort(key=lambda item: _version_key(item[1]), reverse=True)
        for spec in EP_DEVICE_SPECS.values():
            files = spec.library_file_names(self._platform)
            for name, version, root in packages:
                if any(part.casefold() in name.casefold() for part in spec.msix_names):
                    folders = [Path(root), Path(root) / "ExecutionProvider"]
                    self._add_known(folders, files, spec.name, "msix", name, version or None)

    # --- bundled --------------------------------------------------------------------------------------------

    def add_bundled(self, distributions: Sequence[DistInfo]) -> None:
        """What onnxruntime itself holds: the CPU EP, and those that the installed build is known to contain."""
        runtimes = {item.name: item.version for item in distributions if item.name in RUNTIME_DISTRIBUTIONS}
        if len(runtimes) > 1:
            both = ", ".join(f"{name} {version}" for name, version in runtimes.items())
            reason = f"{both}: they overwrite each other's files; uninstall all and install one"
            self._problem("onnxruntime", FolderProblem("onnxruntime", "two_runtimes", reason))
        name, version = next(iter(runtimes.items()), (None, None))
        for spec in EP_DEVICE_SPECS.values():
            for holder in spec.bundled_in:
                if holder in runtimes:
                    self._add(EPEntry(spec.name, None, "bundled", holder, runtimes[holder], origin="onnxruntime"))
        self._add(EPEntry(CPU_EP, None, "bundled", name, version, origin="onnxruntime"))


def _record(dist_info: Path) -> Iterator[str]:
    try:
        with (dist_info / "RECORD").open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            for row in csv.reader(file):
                if row:
                    yield row[0]
    except (OSError, csv.Error):
        return


def _folders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as found:
            return [item.name for item in found if item.is_dir()]
    except OSError:
        return []


def _version_key(version: str) -> tuple[list[int], bool, list[tuple[bool, int, str]]]:
    """Order of NuGet and MSIX versions: numbers by value, pre-releases before the release (SemVer 2.0)."""
    release, dash, pre = version.partition("+")[0].partition("-")
    numbers = [int(part) if part.isdecimal() else 0 for part in release.split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    parts = re.split(r"[.]", pre) if dash else []
    # Numeric identifiers come before words.
    return numbers, not dash, [(not p.isdecimal(), int(p) if p.isdecimal() else 0, p) for p in parts]


def query_winml_catalog() -> list[dict[str, Any]]:
    """The rows of the Windows ML EP catalog, as plain data; empty without the ``windowsml`` package.

    It calls native code and so belongs into a worker. It never downloads. Not seen on hardware.

    Returns:
        Per EP ``name``, ``version``, ``package_family_name``, ``library_path``, ``package_root_path``,
        ``ready_state`` (``Ready``, ``NotReady``, ``NotPresent``), ``certification``; None where it has none.

    Raises:
        OSError: the catalog itself fails.
    """
    if sys.platform != "win32":
        return []
    try:
        from windowsml import EpCatalog
    except ImportError:
        return []
    with EpCatalog() as catalog:
        return [_catalog_row(provider) for provider in catalog.find_all_providers()]


_CATALOG_FIELDS = (
    "name",
    "version",
    "package_family_name",
    "library_path",
    "package_root_path",
    "ready_state",
    "certification",
)


def _catalog_row(provider: object) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key in _CATALOG_FIELDS:
        try:
            value = getattr(provider, key)
        except OSError:  # an EP that is not present has no path to give
            value = None
        row[key] = (str(getattr(value, "name", value)) or None) if value is not None else None
    return row


_PACKAGES_KEY = (
    r"Software\Classes\Local Settings\Software\Microsoft\Windows\CurrentVersion\AppModel\Repository\Packages"
)


def read_msix_packages() -> list[tuple[str, str]]:
    """(package full name, root folder) of every MSIX package of this user; empty where there are none.

    Not seen on hardware.
    """
    if sys.platform != "win32":
        return []
    import winreg

    found = []
    try:
        with winreg.OpenKey(winreg.HKEY_CURRENT_USER, _PACKAGES_KEY) as packages:
            for index in range(winreg.QueryInfoKey(packages)[0]):
                name = winreg.EnumKey(packages, index)
                try:
                    with winreg.OpenKey(packages, name) as package:
                        found.append((name, str(winreg.QueryValueEx(package, "PackageRootFolder")[0])))
                except OSError:  # a package without that value, or one that goes away meanwhile
                    continue
    except OSError:
        return found
    return found
