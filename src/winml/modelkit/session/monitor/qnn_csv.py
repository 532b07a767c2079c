"""Read the CSV that the QNN EP writes while profiling.

Seen with onnxruntime-qnn 2.7 (QAIRT 2.51). Columns: message timestamp, message, time, unit, timing source, event
level, event identifier, and with the framework op trace ``ONNX Source Ops`` (names parted by ``;``). The file is
appended to: finalize rows at session creation (repeated for every earlier partition), then after every run one block
per partition, which ends in ``EXECUTE ... QNN (execute) time``. A file that existed before and was empty gets no
header.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_OPERATOR = re.compile(r"^(?P<name>.*?):OpId_\d+ \(cycles\)$")
_IO = re.compile(r"^(?P<name>Input|Output) OpId_\d+ \(cycles\)$")
_PLAIN = re.compile(r"^(?P<name>.*?) \(cycles\)$")
_COLUMNS = 7


class QnnCsvError(ValueError):
    """A line that has not the known form; the message gives its number."""


@dataclass(slots=True)
class QnnRow:
    """One operator in one block: its name, cycles, and the ONNX nodes the EP names for it."""

    name: str
    cycles: float
    io: bool
    sources: tuple[str, ...] = ()


@dataclass(slots=True)
class QnnBlock:
    """One execution of one partition.

    Attributes:
        rows: its operators, in order.
        execute_us: QNN's execute time.
        accelerator_us: the accelerator's share of it.
        accelerator_cycles: the same in cycles.
    """

    rows: list[QnnRow] = field(default_factory=list)
    execute_us: float | None = None
    accelerator_us: float | None = None
    accelerator_cycles: float | None = None

    @property
    def us_per_cycle(self) -> float | None:
        """To make microseconds of cycles, where the accelerator tells both."""
        if not self.accelerator_us or not self.accelerator_cycles:
            return None
        return self.accelerator_us / self.accelerator_cycles


@dataclass(slots=True)
class QnnProfile:
    """A whole file: its blocks in order, how many rows it had, and whether the last block was cut off."""

    blocks: list[QnnBlock] = field(default_factory=list)
    rows: int = 0
    unfinished: bool = False


def read_qnn_csv(path: Path) -> QnnProfile:
    """Read a file.

    Raises:
        QnnCsvError: a line is not of the known form.
        OSError: it cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        return parse_qnn_csv(csv.reader(file))


def parse_qnn_csv(lines: Iterable[list[str]]) -> QnnProfile:
    """Parse rows that are split already.

    Raises:
        QnnCsvError: a line is not of the known form.
    """
    profile = QnnProfile()
    block = QnnBlock()
    for number, row in enumerate(lines, 1):
        if not row or row[0] == "Msg Timestamp":
            continue
        if len(row) < _COLUMNS:
            raise QnnCsvError(f"line {number} has {len(row)} columns, not {_COLUMNS}: {','.join(row)[:120]}")
        profile.rows += 1
        message, text, unit, identifier = row[1], row[2], row[3], row[6]
        try:
            value = float(text)
        except ValueError as error:
            raise QnnCsvError(f"line {number} has no number where the time stands: {text[:40]!r}") from error
        if message == "NODE" and unit == "CYCLES":
            sources = tuple(filter(None, row[_COLUMNS].split(";"))) if len(row) > _COLUMNS else ()
            block.rows.append(_operator(identifier, value, sources))
        elif identifier.startswith("Accelerator (execute) time"):
            if unit == "CYCLES":
                block.accelerator_cycles = value
            elif unit == "US":
                block.accelerator_us = value
        elif message == "EXECUTE":
            block.execute_us = value
            profile.blocks.append(block)
            block = QnnBlock()
    profile.unfinished = bool(block.rows)
    return profile


def _operator(identifier: str, cycles: float, sources: tuple[str, ...]) -> QnnRow:
    found = _IO.match(identifier)
    if found:
        return QnnRow(found["name"], cycles, True, sources)
    found = _OPERATOR.match(identifier) or _PLAIN.match(identifier)
    return QnnRow(found["name"] if found else identifier, cycles, False, sources)
