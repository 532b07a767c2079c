"""Parts that every command's JSON document is made of. JSON Schemas are generated from these types.

Imports msgspec, so nothing that ``--help`` reaches may import this module at its top.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Document(msgspec.Struct, kw_only=True):
    """Base of all parts: keyword-only fields."""


class Notice(Document, kw_only=True):
    """A warning: a stable code and one sentence."""

    code: str
    message: str


class ErrorInfo(Document, kw_only=True):
    """A failure: stable code, reason, next step, and details that depend on the code."""

    code: str
    reason: str
    hint: str | None = None
    exit_code: int = 1
    details: dict[str, Any] = msgspec.field(default_factory=dict)


class ErrorDocument(Document, kw_only=True):
    """What ``--format json`` prints for a command that did not come far enough to make its own document."""

    schema: Literal["winml.error/1"]
    status: Literal["failed", "interrupted"]
    command: list[str]
    error: ErrorInfo


class Library(Document, kw_only=True):
    """An EP library and its versions, which may differ from each other.

    ``path`` is null for an EP bundled in onnxruntime; ``source`` is one of directory, pypi, nuget, winml-catalog,
    msix, bundled; ``plugin_version`` is what the EP reports, ``package_version`` what its package is called.
    """

    path: str | None
    source: str
    distribution: str | None = None
    package_version: str | None = None
    plugin_version: str | None = None
    file_version: str | None = None
    bytes: int | None = None


class Machine(Document, kw_only=True):
    """The machine and the Python it ran on."""

    winml: str
    python: str
    os: str
    kernel: str | None
    machine: str | None
    cpu: str | None
    cpus_logical: int | None
    cpus_physical: int | None
    cpus_available: int
    memory_bytes: int | None
    memory_available_bytes: int | None
    onnxruntime: dict[str, str]


def encode(document: Document) -> bytes:
    """One JSON document, indented, ASCII-safe only where the text is; NaN and infinities become null."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2)
