"""``winml perf`` as text, drawn from its document and from nothing else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from winml.modelkit.console.layout import ABSENT, Block, Cell, Column, Lines, Row, Table, Tone, draw
from winml.modelkit.console.live_chart import hardware_blocks
from winml.modelkit.console.perf_words import (
    STATISTICS,
    Unit,
    differences,
    emulation,
    library_line,
    memory_rows,
    noise_facts,
    passed_over,
    phase_times,
    settings,
    shape,
    shapes,
    throughput_words,
)
from winml.modelkit.console.streams import Look, look_of, write_err, write_out
from winml.modelkit.console.trace_text import TOP_K, trace_lines
from winml.modelkit.console.words import absent, machine_lines, percent, size, version_differences
from winml.modelkit.errors import EXIT_EVIDENCE
from winml.modelkit.perf.assemble import format_ms
from winml.modelkit.perf.document import (
    FedInput,
    Latency,
    Memory,
    Noise,
    PerfDocument,
    PerfEffective,
    PerfResult,
    Phases,
    Placement,
    Target,
)

__all__ = ["format_failure", "format_perf", "render_perf"]

_LEFTOVERS = 10
_VERDICTS: dict[str, Tone] = {"stable": "good", "noisy": "warn", "drifting": "warn"}


def render_perf(
    document: PerfDocument, *, verbose: bool = False, report: Path | None = None, top_k: int | None = None
) -> None:
    """Write what was found out to stdout, and a failure to stderr.

    Args:
        document: what to show; of a failed run, whatever it holds.
        verbose: every leftover node, native log lines, the machine, the path of the model.
        report: file that the JSON report was saved to.
        top_k: operators of a trace to show; a usual number if None.
    """
    text = format_perf(document, look_of(sys.stdout), verbose=verbose, report=report, top_k=top_k)
    if text:
        write_out(text)
    if document.error is not None:
        write_err(format_failure(document, verbose=verbose))


def format_failure(document: PerfDocument, *, verbose: bool = False) -> str:
    """The failure as plain lines: reason, next step, the last the library said, and where the rest is."""
    error = document.error
    if error is None:
        return ""
    if error.code == "interrupted":
        return "interrupted\n"
    lines = [error.reason if error.code == "internal" else f"error: {error.reason}"]
    if error.hint:
        lines.append(f"hint: {error.hint}")
    last = [str(line) for line in error.details.get("last_lines") or ()]
    if last and (verbose or error.exit_code != EXIT_EVIDENCE):
        lines.append("last native output:")
        lines += [f"  | {line}" for line in last]
    original = error.details.get("original")
    if verbose and original and original != error.reason:
        lines.append("original text:")
        lines += [f"  | {line}" for line in str(original).splitlines()]
    log = error.details.get("log")
    if log and str(log) not in (error.hint or ""):
        lines.append(f"log: {log}")
    return "".join(f"{line}\n" for line in lines)


def format_perf(
    document: PerfDocument,
    look: Look,
    *,
    verbose: bool = False,
    report: Path | None = None,
    top_k: int | None = None,
) -> str:
    """What was found out as text; empty if that is nothing. The summary is its first line and its last.

    Args:
        document: what to show.
        look: how it may look.
        verbose: show more, as ``render_perf`` says.
        report: file that the JSON report was saved to.
        top_k: operators of a trace to show; a usual number if None.
    """
    effective = document.effective
    blocks: list[Block] = []
    if effective is not None and effective.target is not None:
        blocks.append(_target(effective, effective.target, verbose))
    if changed := [*differences(document)]:
        blocks.append(
            Table(
                "Asked for and done",
                [Column("Option"), Column("Asked"), Column("Done")],
                [Row([Cell(name), Cell(asked), Cell(done, "warn")]) for name, asked, done in changed],
            )
        )
    if document.placement is not None:
        blocks += _placement(document.placement, verbose)
    if document.result is not None:
        blocks += _result(document.result)
    if effective is not None and document.result is not None:
        blocks.append(
            Lines("Settings", [Cell(f"{name}: {value}" if name else value) for name, value in settings(effective)])
        )
        blocks.append(_inputs(effective.inputs))
    if document.result is not None:
        blocks.append(_noise(document.result.noise))
    if document.trace is not None:
        blocks += trace_lines(document.trace, top_k=top_k or TOP_K, verbose=verbose)
    if document.hardware is not None:
        blocks += hardware_blocks(document.hardware)
    if document.warnings:
        blocks.append(Lines("Warnings", [Cell(notice.message, "warn") for notice in document.warnings]))
    if not blocks:
        return ""
    if verbose:
        blocks.append(Lines("Machine", [Cell(line) for line in machine_lines(document.environment)]))
    if report is not None:
        blocks.append(Lines(None, [Cell(f"report: {report}", "dim")]))
    tone: Tone = "strong" if document.error is None else "bad"
    headline = Lines(None, [Cell(document.summary, tone)])
    return draw([headline, *blocks, headline], look)


# --- what ran -----------------------------------------------------------------------------------------------


def _target(effective: PerfEffective, target: Target, verbose: bool) -> Lines:
    lines = []
    if target.emulated:
        lines.append(Cell(emulation(target), "alarm"))
    facts = [value for key in ("Architecture", "Driver") if (value := target.device_facts.get(key))]
    hardware = " · ".join(filter(None, (target.device_name, *facts)))
    lines.append(Cell(f"{target.alias} on {target.listed_device}" + (f": {hardware}" if hardware else "")))
    library = target.library
    lines.append(Cell(library_line(target)))
    if (versions := version_differences(library)) is not None:
        lines.append(Cell(versions))
    if library.path and (verbose or library.source == "directory"):
        lines.append(Cell(library.path, "dim"))
    if effective.rule:
        lines.append(Cell(f"chosen: {effective.rule}"))
    lines += [Cell(f"passed over: {line}") for line in passed_over(effective.passed_over)]
    model = effective.model
    sha = f", sha256 {model.sha256 if verbose else model.sha256[:12]}" if model.sha256 else ""
    lines.append(Cell(f"model {model.path if verbose else model.name}, {size(model.bytes)}{sha}"))
    return Lines("Target", lines)


# --- placement ----------------------------------------------------------------------------------------------


def _placement(placement: Placement, verbose: bool) -> Iterator[Block]:
    table = Table(
        f"Placement ({placement.evidence})",
        [Column("EP"), Column("Nodes", right=True), Column("Share", right=True), Column("Partitions", right=True)],
    )
    for item in placement.eps:
        on_target = item.ep == placement.target_ep
        cells = [item.alias, str(item.nodes), percent(item.share), absent(item.partitions)]
        table.rows.append(Row([Cell(text, "good" if on_target else "warn") for text in cells]))
    yield table
    left = placement.leftovers
    if not left:
        return
    shown = left if verbose else left[:_LEFTOVERS]
    nodes = Table(
        f"Nodes not on the target: {len(left)}",
        [Column("Op"), Column("EP"), Column("Node")],
        [Row([Cell(absent(node.get(key))) for key in ("op_type", "ep", "name")]) for node in shown],
    )
    yield nodes
    if len(shown) < len(left):
        yield Lines(None, [Cell(f"... and {len(left) - len(shown)} more, all of them with -v", "dim")])


# --- figures ------------------------------------------------------------------------------------------------


def _result(result: PerfResult) -> Iterator[Block]:
    medians = [run.latency_ms.p50 for run in result.by_shape or ()] or [result.latency_ms.p50]
    unit = Unit.of(min(medians))
    if result.by_shape:
        rows = [
            Row(
                _latency(run.latency_ms, unit),
                [
                    Cell(shapes(run.inputs), "strong"),
                    Cell(f"{throughput_words(run.throughput)}, first run {format_ms(run.first_run_ms)}"),
                ],
            )
            for run in result.by_shape
        ]
        title = f"Latency in {unit.name} by shape, in one session"
        yield Table(title, _latency_columns(), rows, details="Shapes")
    else:
        yield Table(f"Latency in {unit.name}", _latency_columns(), [Row(_latency(result.latency_ms, unit))])
    throughput = [] if result.by_shape else [Cell(f"throughput {throughput_words(result.throughput)}")]
    yield Lines(None, [*throughput, Cell(_phases(result.phases_ms))])
    yield _memory(result.memory)


def _latency_columns() -> list[Column]:
    return [Column("n", right=True), *(Column(name, right=True) for name in STATISTICS)]


def _latency(latency: Latency, unit: Unit) -> list[Cell]:
    cells = [Cell(str(latency.n))]
    for name in STATISTICS:
        value: float | None = getattr(latency, name)
        needs = latency.unsupported.get(name)
        if value is not None:
            cells.append(Cell(unit.text(value), "strong" if name == "p50" else ""))
        else:
            cells.append(Cell(f"{ABSENT} (needs {needs} samples)" if needs else ABSENT, "dim"))
    return cells


def _phases(phases: Phases) -> str:
    return "phases " + ", ".join(f"{name} {format_ms(value)}" for name, value in phase_times(phases))


def _memory(memory: Memory | None) -> Block:
    if memory is None:
        return Lines("Memory", [Cell("n/a (not recorded: --no-memory)")])
    table = Table(
        "Resident memory of the worker process", [Column("Stage"), Column("Resident", right=True), Column("Change")]
    )
    for stage, _, resident, change in memory_rows(memory):
        table.rows.append(Row([Cell(stage), Cell(resident), Cell(change)]))
    return table


# --- how it ran ---------------------------------------------------------------------------------------------


def _inputs(inputs: dict[str, FedInput]) -> Table:
    return Table(
        "Inputs",
        [Column("Name"), Column("Type"), Column("Shape"), Column("Data")],
        [Row([Cell(name), Cell(item.dtype), Cell(shape(item)), Cell(item.origin)]) for name, item in inputs.items()],
    )


def _noise(noise: Noise) -> Lines:
    verdict = noise.verdict or "not judged"
    why = f": {'; '.join(noise.reasons)}" if noise.reasons else ""
    lines = [Cell(f"{verdict}{why}", _VERDICTS.get(verdict, "dim"))]
    lines.append(Cell(", ".join(f"{name} {text}" for name, text in noise_facts(noise))))
    return Lines("Noise", lines)
