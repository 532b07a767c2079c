"""Which distribution a library belongs to, and which onnxruntime is installed, without importing either."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from winml.modelkit.environment import RUNTIME_DISTRIBUTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["DistInfo", "installed", "normalise", "owning_distribution", "runtime_version"]

_LEVELS = 6
"""How far above a library its wheel's root may lie."""


class DistInfo(NamedTuple):
    """An installed distribution: normalised name, version, its ``.dist-info`` folder."""

    name: str
    version: str
    path: Path


def normalise(name: str) -> str:
    """A distribution name as PyPI compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(folders: Iterable[str | os.PathLike[str]]) -> Iterator[DistInfo]:
    """The distributions in these folders, told by the names of their ``.dist-info`` folders.

    The binary distribution format fixes it as ``{name}-{version}.dist-info``, so no file has to be opened.
    """
    for folder in folders:
        try:
            with os.scandir(folder or ".") as found:
                names = sorted(item.name for item in found if item.name.endswith(".dist-info"))
        except OSError:  # a zip file, or an entry that does not exist
            continue
        for name in names:
            stem, _, version = name.removesuffix(".dist-info").rpartition("-")
            if stem:
                yield DistInfo(normalise(stem), version, Path(folder or ".", name))


def owning_distribution(path: str | os.PathLike[str]) -> tuple[str, str] | None:
    """Which distribution's RECORD lists the file, installed or merely unpacked.

    Returns:
        Its normalised name and its version; None if there is none.
    """
    file = Path(os.path.abspath(path))  # noqa: PTH100 - links stay: RECORD lists the name, not its target
    for root in list(file.parents)[:_LEVELS]:
        candidates = list(installed([root]))
        if not candidates:
            continue
        inside = file.relative_to(root)
        near = normalise(inside.parts[0])
        # The distribution that bears the package's name nearly always owns the file: read its RECORD first.
        for candidate in sorted(candidates, key=lambda item: item.name != near):
            if _lists(candidate.path, inside.as_posix()):
                return candidate.name, candidate.version
        return None
    return None


def _lists(dist_info: Path, inside: str) -> bool:
    try:
        record = (dist_info / "RECORD").read_bytes()
    except OSError:
        return False
    name = os.fsencode(inside)
    lines = (name + b",", b'"' + name.replace(b'"', b'""') + b'",')
    return any(record.startswith(line) or b"\n" + line in record for line in lines)


@cache
def runtime_version() -> str | None:
    """Version of the onnxruntime that is installed, without importing it; None if there is none."""
    from importlib.metadata import PackageNotFoundError, version

    for name in RUNTIME_DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None
