"""An operator trace as CSV (RFC 4180): one row per operator, the most expensive first."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from winml.modelkit.perf.document import Trace

__all__ = ["FIELDS", "to_csv"]

FIELDS = (
    "name",
    "op_type",
    "kernel",
    "ep",
    "partition",
    "sources",
    "io",
    "shapes",
    "samples",
    "calls",
    "total_us",
    "mean_us",
    "p50_us",
    "share",
    "total_cycles",
    "mean_cycles",
    "p50_cycles",
    "derived",
)
"""The header: the fields of ``TraceOp``. Scripts rely on it, so new ones go to the end."""


def to_csv(trace: Trace) -> str:
    """The operators as text with CRLF line ends; write it without translating them.

    A fact that is not known is an empty field, ``sources`` are joined by ``;``, truth values are ``true`` and
    ``false``, numbers have every digit. A trace without operators is its header.
    """
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\r\n")
    writer.writerow(FIELDS)
    for op in trace.ops:
        writer.writerow([_field(getattr(op, name)) for name in FIELDS])
    # Names that are not valid text, as ONNX files can't but file systems can hold, must not stop the writing.
    return output.getvalue().encode("utf-8", "backslashreplace").decode("utf-8")


def _field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ";".join(map(str, value))
    return str(value)
