"""Operators of the QNN EP, from its profiling CSV, and the true cause where there are none.

QNN's own level ``basic`` has no operators, so our basic asks for ``detailed`` and our detail for ``optrace``. Both ask
for the framework op trace, which maps QNN operators to ONNX nodes. The accelerator counts cycles; microseconds are made
from them only where it tells its time too, and are marked as derived.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from winml.modelkit.session.monitor import ep_monitor, op_metrics
from winml.modelkit.session.monitor.ep_monitor import EPMonitor, TraceContext, TraceFailure
from winml.modelkit.session.monitor.op_metrics import OpKey, OpRecord
from winml.modelkit.session.monitor.qnn_csv import QnnBlock, QnnCsvError, QnnProfile, QnnRow, read_qnn_csv
from winml.modelkit.session.monitor.source_names import SourceNames

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
CSV_NAME = "qnn_profile.csv"
OP_TRACE_NAME = "qnn_op_trace.json"

_QNN_LEVELS = {"basic": "detailed", "detail": "optrace"}
_MARKERS = (
    (ep_monitor.ETW, ("ETW enabled previously",)),
    (ep_monitor.BACKEND, ("Unable to load backend", "QNN SetupBackend failed", "Failed to setup backend")),
    (ep_monitor.BAD_LEVEL, ("Profiling level not valid", "Invalid profiling level")),
    (ep_monitor.CANNOT_OPEN, ("Failed to open profiling file", "Could not open file")),
)


class QNNMonitor(EPMonitor):
    """The QNN EP's profiling, in a folder of its own.

    The EP writes some files into the working directory (the optrace schematic), so that is the trace folder while a
    session is watched, and is put back afterwards.
    """

    name = "QNN profiling"
    levels = ("basic", "detail")

    def __init__(self, folder: Path, level: str, ep_name: str, sources: SourceNames | None = None) -> None:
        super().__init__(folder, level, ep_name, sources)
        self._cwd: str | None = None

    @property
    def csv(self) -> Path:
        """Where the records go."""
        return self.folder / CSV_NAME

    def provider_options(self) -> dict[str, str]:
        """Profiling, and the framework op trace."""
        return {
            "profiling_level": _QNN_LEVELS[self.level],
            "profiling_file_path": str(self.csv),
            "enable_framework_op_trace": "1",
            "framework_op_trace_dir": str(self.folder),
        }

    def __enter__(self) -> Self:
        self._cwd = os.getcwd()  # noqa: PTH109 - put back as it was, links unresolved
        os.chdir(self.folder)
        # The EP appends; what an earlier run left would be counted again.
        with contextlib.suppress(FileNotFoundError):
            self.csv.unlink()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cwd is not None:
            os.chdir(self._cwd)
            self._cwd = None

    def after_session(self, context: TraceContext) -> TraceFailure | None:
        """The EP writes its first rows when the session is made: a file that is not there now will not come."""
        key = f"ep.{self.ep_name.lower()}.profiling_level"
        wanted = _QNN_LEVELS[self.level]
        found = _config_entry(context.session, key)
        if found != wanted:
            return TraceFailure(
                ep_monitor.OPTION_MISSING,
                f"profiling_level={wanted} did not reach the session",
                [f"{key} = {found!r}"],
            )
        if self.csv.is_file():
            return None
        return self._diagnose(context, ep_monitor.NO_FILE, "QNN wrote no profiling file when the session was made")

    def _diagnose(self, context: TraceContext, cause: str, reason: str) -> TraceFailure:
        """The root of missing data: native words first where they say why, then the placement, then the symptom."""
        marked = find_markers(context.log)
        nothing_placed = context.placement.get("target_nodes") == 0
        for found, line in marked:
            if found in (ep_monitor.ETW, ep_monitor.BACKEND, ep_monitor.BAD_LEVEL, ep_monitor.CANNOT_OPEN):
                return TraceFailure(found, f"{reason}: {_WORDS[found]}", [line])
        if nothing_placed:
            total = context.placement.get("nodes_total")
            return TraceFailure(
                ep_monitor.NO_NODE,
                f"{reason}: no node of the model runs on QNN",
                [f"0 of {total} nodes on {self.ep_name} (onnxruntime node assignment)"],
            )
        return TraceFailure(cause, reason, [str(self.csv)])

    def result(self, context: TraceContext) -> dict[str, Any] | TraceFailure:
        """Operators per inference: the blocks of all partitions of one inference belong together."""
        if not self.csv.is_file():
            return self._diagnose(context, ep_monitor.NO_FILE, "QNN left no profiling file")
        try:
            profile = read_qnn_csv(self.csv)
        except (QnnCsvError, OSError) as error:
            return TraceFailure(ep_monitor.PARSE, f"QNN's profiling file cannot be read: {error}", [str(self.csv)])
        if not any(block.rows for block in profile.blocks):
            return self._diagnose(
                context, ep_monitor.NO_ROWS, f"QNN's profiling file has {profile.rows} rows and no operator"
            )
        return self._sum_up(profile, context)

    def _sum_up(self, profile: QnnProfile, context: TraceContext) -> dict[str, Any] | TraceFailure:
        partitions = _partition_count(context.placement, self.ep_name)
        runs = context.warmup + context.iterations
        blocks = [block for block in profile.blocks if block.rows]
        if runs and len(blocks) % runs == 0:
            # What ran counts, should it differ from what the assignment counted.
            partitions = len(blocks) // runs
        if len(blocks) != partitions * runs:
            return TraceFailure(
                ep_monitor.PARSE,
                f"QNN's profiling file has {len(blocks)} executions where {runs} inferences of "
                f"{partitions} partitions were run",
                [str(self.csv)],
            )
        mapping = read_op_trace(self.folder / OP_TRACE_NAME)
        records, busy = self._records(blocks[context.warmup * partitions :], partitions, mapping)
        rows = op_metrics.operator_rows(records)
        times = op_metrics.inference_times(records, context.walls_us, busy)
        notes = []
        if any(record.derived for record in records):
            notes.append("microseconds of operators are derived from cycles by the accelerator's own time")
        notes += op_metrics.check_sums(rows, times, context.iterations)
        return {
            "ops": rows,
            "types": op_metrics.type_rows(rows),
            "inferences": [asdict(time) for time in times],
            "partitions": [str(index) for index in range(partitions)],
            "unmapped": [row["name"] for row in rows if not row["sources"] and not row["io"]],
            "notes": notes,
            "artefacts": sorted(str(path) for path in self.folder.iterdir() if path.is_file() and path.name[0] != "."),
        }

    def _records(
        self, blocks: list[QnnBlock], partitions: int, mapping: dict[str, tuple[str, tuple[str, ...]]]
    ) -> tuple[list[OpRecord], dict[int, float]]:
        found: dict[OpKey, OpRecord] = {}
        busy: dict[int, float] = {}
        shown = display_names({row.name for block in blocks for row in block.rows})
        for index, block in enumerate(blocks):
            inference, partition = divmod(index, partitions)
            if block.execute_us is not None:
                busy[inference] = busy.get(inference, 0.0) + block.execute_us
            scale = block.us_per_cycle
            for row in block.rows:
                kind, sources = mapping.get(row.name, (None, ()))
                key = OpKey(shown[row.name], self.ep_name, str(partition))
                record = found.get(key)
                if record is None:
                    record = found[key] = OpRecord(
                        key, op_type=kind or (row.name if row.io else None), io=row.io, derived=scale is not None
                    )
                    record.sources = self._sources(row, sources)
                us = None if scale is None else row.cycles * scale
                record.add(inference, us=us, cycles=row.cycles)
        return list(found.values()), busy

    def _sources(self, row: QnnRow, traced: tuple[str, ...]) -> tuple[str, ...]:
        """Nodes of the source graph among those the EP names; ONNX Runtime's own additions are none."""
        if row.io:
            return ()
        names: dict[str, None] = {}
        for name in row.sources or traced or (row.name,):
            names.update(dict.fromkeys(self.sources.find(name)))
        return tuple(names)


_WORDS = {
    ep_monitor.ETW: "a Windows trace session took the records",
    ep_monitor.BACKEND: "its backend library does not load",
    ep_monitor.BAD_LEVEL: "it does not know the profiling level",
    ep_monitor.CANNOT_OPEN: "it cannot open the file",
}


def strip_token(name: str) -> str:
    """``/net/conv1/Conv_token_1`` is ``/net/conv1/Conv``."""
    head, mark, number = name.rpartition("_token_")
    return head if mark and number.isdigit() else name


def display_names(names: Iterable[str]) -> dict[str, str]:
    """Names without ONNX Runtime's tokens, except where two operators would then share one.

    >>> display_names(["conv_token_1", "Transpose_token_2", "Transpose_token_9"])["conv_token_1"]
    'conv'
    """
    plain = {name: strip_token(name) for name in names}
    taken = Counter(plain.values())
    return {name: short if short and taken[short] == 1 else name for name, short in plain.items()}


def find_markers(log: Path | None) -> list[tuple[str, str]]:
    """Native lines that name a cause, as (cause, line)."""
    if log is None:
        return []
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [
        (cause, line.strip())
        for line in _COLOUR.sub("", text).splitlines()
        for cause, words in _MARKERS
        if any(word in line for word in words)
    ]


def read_op_trace(path: Path) -> dict[str, tuple[str, tuple[str, ...]]]:
    """QNN type and ONNX nodes by QNN operator name, from the framework op trace; empty if there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        graphs = document["subgraph_traces"]
        return {
            str(item["dst_name"]): (
                str(item.get("dst_qnn_op_type") or ""),
                tuple(str(source["name"]) for source in item.get("sources", ()) if source.get("type") == "OP"),
            )
            for graph in graphs
            for item in graph.get("op_mappings", ())
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _config_entry(session: Any, key: str) -> str | None:
    try:
        return str(session.get_session_options().get_session_config_entry(key))
    except Exception:  # noqa: BLE001 - onnxruntime raises its own types for an entry that is not there
        return None


def _partition_count(placement: dict[str, Any], ep_name: str) -> int:
    return next((int(row["partitions"] or 0) for row in placement.get("eps", ()) if row["ep"] == ep_name), 0)
