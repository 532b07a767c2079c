"""One EP library that was found. In a file of its own: the worker needs this and none of the search for libraries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EPEntry:
    """One EP library that was found, or one bundled EP; plain data that can be sent to a worker.

    Attributes:
        ep_name: canonical EP name it is registered under.
        path: absolute path of the library; None for an EP bundled in onnxruntime.
        source: one of ``ep_device.SOURCES``.
        distribution: PyPI distribution, NuGet id or MSIX package that carries it, if any.
        package_version: version of that package, if any.
        shadowed_by: path of the entry of the same EP that wins over this one, or None if this one is used.
        origin: where it was looked for (a folder of --ep-path, WINMLCLI_EP_PATH ...), for the report.
        also_from: further sources that lead to the same file.
    """

    ep_name: str
    path: str | None
    source: str
    distribution: str | None = None
    package_version: str | None = None
    shadowed_by: str | None = None
    origin: str | None = None
    also_from: tuple[str, ...] = ()
