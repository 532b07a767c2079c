"""Everything that can be told about an EP library before a process is spent on it."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from winml.modelkit.session.ep_binary import examine_library, file_version
from winml.modelkit.session.ep_failure import WinMLEPRegistrationFailed

__all__ = ["FileFacts", "file_facts", "preflight"]


def preflight(
    path: str | os.PathLike[str], *, ep: str | None = None, platform: str = sys.platform
) -> WinMLEPRegistrationFailed | None:
    """Why a library cannot be an EP, as far as can be told without loading it; None if it may be one.

    Told apart: file missing (a dangling link is named), not a regular file (a named pipe is never opened),
    access denied, wrong format, wrong machine, truncated, not an EP library.

    Args:
        path: the library.
        ep: canonical name of the EP it is taken for.
        platform: ``sys.platform`` of the machine it is for.
    """
    finding = examine_library(path, platform=platform)
    if finding is None:
        return None
    return WinMLEPRegistrationFailed(
        finding.reason, dll_path=os.fspath(path), ep=ep, cause=finding.cause, details=finding.details
    )


@dataclass(frozen=True)
class FileFacts:
    """A library file.

    Attributes:
        path: where it is.
        size: in bytes.
        mtime_ns: time of change, in nanoseconds since the epoch.
        version: FileVersion of a Windows library, else None.
    """

    path: str
    size: int
    mtime_ns: int
    version: str | None

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the whole file, read when first asked for. Raises OSError."""
        import hashlib

        with Path(self.path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def file_facts(path: str | os.PathLike[str]) -> FileFacts:
    """Size, time of change and version of a library; its hash on demand.

    Raises:
        OSError: the file is not there or may not be looked at.
    """
    status = Path(path).stat()
    version = file_version(path) if stat.S_ISREG(status.st_mode) else None
    return FileFacts(os.fspath(path), status.st_size, status.st_mtime_ns, version)
