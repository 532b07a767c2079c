"""``winml perf`` as text, drawn from its document and from nothing else."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from winml.modelkit.console.layout import ABSENT, Block, Cell, Column, Lines, Row, Table, Tone, draw
from winml.modelkit.console.live_chart import hardware_blocks
from winml.modelkit.console.streams import Look, look_of, write_err, write_out
from winml.modelkit.console.trace_text import TOP_K, trace_lines
from winml.modelkit.console.words import absent, machine_lines, percent, rate, size, version_differences
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
    Throughput,
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
    if last:
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
    if effective is not None and (differences := [*_differences(document, effective)]):
        blocks.append(
            Table(
                "Asked for and done",
                [Column("Option"), Column("Asked"), Column("Done")],
                [Row([Cell(name), Cell(asked), Cell(done, "warn")]) for name, asked, done in differences],
            )
        )
    if document.placement is not None:
        blocks += _placement(document.placement, verbose)
    if document.result is not None:
        blocks += _result(document.result)
    if effective is not None and document.result is not None:
        blocks.append(Lines("Settings", [Cell(line) for line in _settings(effective)]))
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
        lines.append(
            Cell(
                f"EMULATED: no {target.device} here; {target.alias}'s emulator ran on the {target.listed_device}. "
                "Its timings say nothing about real hardware.",
                "alarm",
            )
        )
    facts = [value for key in ("Architecture", "Driver") if (value := target.device_facts.get(key))]
    hardware = " · ".join(filter(None, (target.device_name, *facts)))
    lines.append(Cell(f"{target.alias} on {target.listed_device}" + (f": {hardware}" if hardware else "")))
    library = target.library
    version = library.package_version or library.plugin_version or library.file_version
    of = f"{library.distribution or 'library'} {absent(version)}"
    lines.append(Cell(f"{of} from {library.source}" if library.path else f"{of}, bundled"))
    if (versions := version_differences(library)) is not None:
        lines.append(Cell(versions))
    if library.path and (verbose or library.source == "directory"):
        lines.append(Cell(library.path, "dim"))
    if effective.rule:
        lines.append(Cell(f"chosen: {effective.rule}"))
    lines += [Cell(f"passed over: {line}") for line in _passed_over(effective.passed_over)]
    model = effective.model
    sha = f", sha256 {model.sha256 if verbose else model.sha256[:12]}" if model.sha256 else ""
    lines.append(Cell(f"model {model.path if verbose else model.name}, {size(model.bytes)}{sha}"))
    return Lines("Target", lines)


def _passed_over(items: Sequence[dict[str, str]]) -> list[str]:
    """``OpenVINO on npu, gpu: why not``: one line per EP and reason."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for item in items:
        key = (item["ep"].removesuffix("ExecutionProvider"), item["reason"])
        grouped.setdefault(key, []).append(item["device"])
    return [f"{name} on {', '.join(devices)}: {reason}" for (name, reason), devices in grouped.items()]


def _differences(document: PerfDocument, effective: PerfEffective) -> Iterator[tuple[str, str, str]]:
    """Options that were given and came out otherwise."""
    asked = document.requested
    target = effective.target
    pairs: list[tuple[str, Any, Any]] = [
        ("--iterations", asked.iterations, effective.iterations),
        ("--warmup", asked.warmup, effective.warmup),
        ("--batch-size", asked.batch_size, effective.batch_size),
        ("--threads", asked.threads, effective.threads),
        ("--seed", asked.seed, effective.seed),
        ("--io-binding", asked.io_binding, effective.io_binding),
        ("--strict", asked.strict or None, effective.strict),
        ("--input-data", asked.input_data, effective.input_data),
    ]
    if target is not None and asked.device not in (None, "auto"):
        pairs.append(("--device", str(asked.device).casefold(), target.listed_device))
    precision = effective.precision
    if precision is not None and precision.requested not in (None, "auto"):
        pairs.append(("--inference-precision", precision.requested, precision.effective))
    for key, value in asked.ep_options.items():
        pairs.append((f"--ep-options {key}", value, effective.ep_options.get(key)))
    if document.result is None:  # not all of it came to be done
        pairs = [pair for pair in pairs if pair[0] == "--device"]
    for name, wanted, done in pairs:
        if wanted is not None and wanted != done:
            yield name, str(wanted), "not known" if done is None else str(done)


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

_STATISTICS = ("mean", "min", "p50", "p90", "p95", "p99", "max", "stdev")


def _result(result: PerfResult) -> Iterator[Block]:
    medians = [run.latency_ms.p50 for run in result.by_shape or ()] or [result.latency_ms.p50]
    unit = _Unit.of(min(medians))
    if result.by_shape:
        rows = [
            Row(
                _latency(run.latency_ms, unit),
                [
                    Cell(_shapes(run.inputs), "strong"),
                    Cell(f"{_throughput(run.throughput)}, first run {format_ms(run.first_run_ms)}"),
                ],
            )
            for run in result.by_shape
        ]
        title = f"Latency in {unit.name} by shape, in one session"
        yield Table(title, _latency_columns(), rows, details="Shapes")
    else:
        yield Table(f"Latency in {unit.name}", _latency_columns(), [Row(_latency(result.latency_ms, unit))])
    throughput = [] if result.by_shape else [Cell(f"throughput {_throughput(result.throughput)}")]
    yield Lines(None, [*throughput, Cell(_phases(result.phases_ms))])
    yield _memory(result.memory)


@dataclass(frozen=True, slots=True)
class _Unit:
    """One unit and one number of decimals for a whole table, so that its figures line up."""

    name: str
    per_ms: float
    decimals: int

    @classmethod
    def of(cls, p50_ms: float) -> _Unit:
        """The unit that gives this median three significant digits."""
        name, per_ms = ("µs", 1000.0) if p50_ms < 0.1 else ("ms", 1.0) if p50_ms < 1000 else ("s", 0.001)
        digits = math.floor(math.log10(p50_ms * per_ms)) if p50_ms > 0 else 0
        return cls(name, per_ms, max(0, 2 - digits))

    def text(self, value_ms: float) -> str:
        return f"{value_ms * self.per_ms:.{self.decimals}f}"


def _latency_columns() -> list[Column]:
    return [Column("n", right=True), *(Column(name, right=True) for name in _STATISTICS)]


def _latency(latency: Latency, unit: _Unit) -> list[Cell]:
    cells = [Cell(str(latency.n))]
    for name in _STATISTICS:
        value: float | None = getattr(latency, name)
        needs = latency.unsupported.get(name)
        if value is not None:
            cells.append(Cell(unit.text(value), "strong" if name == "p50" else ""))
        else:
            cells.append(Cell(f"{ABSENT} (needs {needs} samples)" if needs else ABSENT, "dim"))
    return cells


def _shapes(inputs: dict[str, FedInput]) -> str:
    return ", ".join(f"{name} {_shape(item)}" for name, item in inputs.items())


def _shape(item: FedInput) -> str:
    return "x".join(map(str, item.shape)) if item.shape else "scalar"


def _throughput(throughput: Throughput) -> str:
    text = f"{rate(throughput.inferences_per_s)} inferences/s"
    if throughput.samples_per_s is not None and throughput.batch_size is not None:
        text += f", {rate(throughput.samples_per_s)} samples/s at batch size {throughput.batch_size}"
    return text


def _phases(phases: Phases) -> str:
    named = [
        ("import runtime", phases.import_runtime),
        ("register", phases.register),
        ("session", phases.session),
        ("first run", phases.first_run),
        ("warm-up", phases.warmup),
        ("measure", phases.measure),
    ]
    return "phases " + ", ".join(f"{name} {format_ms(value)}" for name, value in named if value is not None)


def _memory(memory: Memory | None) -> Block:
    if memory is None:
        return Lines("Memory", [Cell("n/a (not recorded: --no-memory)")])
    table = Table(
        "Resident memory of the worker process", [Column("Stage"), Column("Resident", right=True), Column("Change")]
    )
    before: int | None = None
    for stage in [*memory.stages]:
        table.rows.append(_memory_row(stage.stage, stage.rss_bytes, before, "the system gave no figure"))
        before = stage.rss_bytes
    table.rows.append(_memory_row(f"peak while running ({memory.peak_method})", memory.peak_bytes, before, ""))
    return table


def _memory_row(stage: str, value: int | None, before: int | None, why: str) -> Row:
    if value is None:
        return Row([Cell(stage), Cell("n/a"), Cell(why or ABSENT)])
    change = ABSENT if before is None else f"{'+' if value >= before else '-'}{size(abs(value - before))}"
    return Row([Cell(stage), Cell(size(value)), Cell(change)])


# --- how it ran ---------------------------------------------------------------------------------------------


def _settings(effective: PerfEffective) -> Iterator[str]:
    precision = effective.precision
    if precision is None:
        yield "precision: not known"
    else:
        asked = f", asked for {precision.requested}" if precision.requested else ""
        shares = precision.shares or {}
        mix = ", ".join(f"{name} {percent(share)}" for name, share in shares.items()) if len(shares) > 1 else ""
        yield (
            f"precision: {precision.effective or 'not known'}{asked}"
            f" ({'; '.join(filter(None, (mix, precision.evidence)))})"
        )
    rule = f" ({effective.threads_rule})" if effective.threads_rule else ""
    yield f"threads: {absent(effective.threads)}{rule}"
    yield f"runs: {absent(effective.iterations)} measured after {absent(effective.warmup)} for warm-up"
    if effective.ep_options:
        yield f"EP options: {', '.join(f'{key}={value}' for key, value in effective.ep_options.items())}"
    if effective.dims:
        fixed = ", fixed in the session" if effective.dims_fixed_in_session else ""
        yield f"dimensions: {', '.join(f'{key}={value}' for key, value in effective.dims.items())}{fixed}"
    if effective.batch_size is not None:
        yield f"batch size: {effective.batch_size}"
    if effective.io_binding:
        yield "inputs and outputs are bound once (--io-binding)"
    if effective.strict:
        yield "strict: no node may fall back to the CPU; not comparable with a run that allows it"


def _inputs(inputs: dict[str, FedInput]) -> Table:
    return Table(
        "Inputs",
        [Column("Name"), Column("Type"), Column("Shape"), Column("Data")],
        [Row([Cell(name), Cell(item.dtype), Cell(_shape(item)), Cell(item.origin)]) for name, item in inputs.items()],
    )


def _noise(noise: Noise) -> Lines:
    verdict = noise.verdict or "not judged"
    why = f": {'; '.join(noise.reasons)}" if noise.reasons else ""
    lines = [Cell(f"{verdict}{why}", _VERDICTS.get(verdict, "dim"))]
    facts = [
        ("IQR over median", percent(noise.iqr_over_median), noise.iqr_over_median),
        ("drift", percent(noise.drift, signed=True), noise.drift),
        ("CPUs used by others", f"{noise.other_cpus or 0:.2f}", noise.other_cpus),
        ("steal", percent(noise.steal), noise.steal),
    ]
    lines.append(Cell(", ".join(f"{name} {'n/a' if raw is None else text}" for name, text, raw in facts)))
    return Lines("Noise", lines)
