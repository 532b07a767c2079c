"""Exactly one JSON document on stdout, readable whatever the stream's encoding."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from winml.modelkit.console.streams import look_of, write_out

if TYPE_CHECKING:
    from winml.modelkit.documents import Document

__all__ = ["to_json", "write_document"]


def write_document(document: Document) -> None:
    """Write a document to stdout; a stream that is not UTF-8 gets every other character as ``\\uXXXX``.

    Raises:
        OSError: it can't be written, as on a full disk.
    """
    write_out(to_json(document, ascii_only=not look_of(sys.stdout).unicode))


def to_json(document: Document, *, ascii_only: bool = False) -> str:
    r"""The document as indented JSON with a line break at its end.

    A file name that is not valid text, as Linux allows, is shown with its odd bytes as ``\udcNN`` spelt out, since
    JSON can't carry it.
    """
    from winml.modelkit.documents import encode

    try:
        data = encode(document)
    except UnicodeEncodeError:
        import msgspec

        data = msgspec.json.format(msgspec.json.encode(_clean(msgspec.to_builtins(document))), indent=2)
    text = data.decode("utf-8")
    if ascii_only and not text.isascii():
        import json

        text = json.dumps(json.loads(text), indent=2)
    return text + "\n"


def _clean(value: Any) -> Any:
    """The same plain data without lone surrogates."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
