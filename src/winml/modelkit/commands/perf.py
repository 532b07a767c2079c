"""``winml perf``: measure one model on one target, and prove where it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from winml.modelkit.commands import options

if TYPE_CHECKING:
    from pathlib import Path

    from winml.modelkit.perf.document import PerfDocument
    from winml.modelkit.perf.request import PerfRequest
    from winml.modelkit.session.monitor.ep_monitor import EPMonitor
    from winml.modelkit.worker.runner import Worker


@click.command("perf")
@options.model
@options.ep
@options.device
@options.ep_path
@options.ep_options
@click.option("--emulate", is_flag=True, help="Accept an emulator of the device, such as QNN's HTP on x86-64.")
@click.option("--strict", is_flag=True, help="Fail where any node would be left to the CPU EP, and name the nodes.")
@click.option(
    "--min-placement", type=float, metavar="PCT", help="Exit 4 if less than this percentage of nodes is on the target."
)
@click.option("--iterations", type=int, metavar="N", help="Measured runs.  [default: 100]")
@click.option("--warmup", type=int, metavar="N", help="Runs after the first that are not counted.  [default: 10]")
@click.option("--duration", type=float, metavar="SECONDS", help="Measure for this long instead of a number of runs.")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=N[,N...]",
    help="Size of a symbolic dimension; several sizes are measured one after another in one session. Repeatable.",
)
@click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="INPUT=1,3,224,224",
    help="Shape of an input; given again for the same input, it is measured in the same session too. Repeatable.",
)
@click.option("--batch-size", type=int, metavar="N", help="Size of the batch dimension; refused where it is fixed.")
@click.option("--input-data", metavar="FILE.npz", help="One array per input, by its name, instead of generated data.")
@click.option("--seed", type=int, metavar="N", help="Seed of the generated data.  [default: 0]")
@click.option(
    "--io-binding/--no-io-binding", default=None, help="Bind inputs and outputs once.  [default: --no-io-binding]"
)
@click.option("--threads", type=int, metavar="N", help="CPU threads.  [default: what the runtime or the EP takes]")
@click.option("--memory/--no-memory", default=True, show_default=True, help="Record memory by stage.")
@click.option(
    "--inference-precision",
    type=click.Choice(["auto", "fp32", "bf16", "fp16"]),
    help="In which type kernels compute: honoured or refused. The report tells which they took.",
)
@click.option(
    "--op-tracing",
    type=click.Choice(["basic", "detail"]),
    help="Trace operators in runs of their own after the timed ones. Auto-selects the monitor for the chosen EP.",
)
@click.option("--top-k", type=click.IntRange(min=1), metavar="N", help="Operators to show.  [default: 15]")
@click.option("--trace-out", metavar="FILE", help="Write x.json, which opens in Perfetto, or the operators as x.csv.")
@click.option("--monitor", is_flag=True, help="Sample CPU, memory and the device's counters while the model runs.")
@click.option("--report", metavar="FILE.html", help="Write a report as one self-contained HTML file.")
@click.option("--custom-ops", multiple=True, metavar="LIBRARY", help="Library with custom operators. Repeatable.")
@options.timeout("Limit for the whole measurement.  [default: 300 s without progress]")
@options.format_("text", "json")
@options.output("Write the JSON report here too.")
@options.overwrite
@options.verbose
@options.quiet
@click.pass_context
def perf(ctx: click.Context, /, **given: Any) -> None:
    """Measure the latency of an ONNX model, and prove where it ran.

    MODEL is an ONNX file, a folder with one, or the bundled sample "digits". The model runs in a process of its own.
    Exit codes: 0 done; 1 the work failed; 2 usage; 3 the target is not available here; 4 it ran, and the evidence
    falls short of what was demanded; 5 a vendor library crashed or timed out; 130 interrupted.
    """
    from winml.modelkit.perf.early import take_worker

    with take_worker() as worker:
        _measure(ctx, given, worker)


def _measure(ctx: click.Context, given: dict[str, Any], worker: Worker) -> None:
    # Imported while the worker is busy loading ONNX Runtime.
    from winml.modelkit.console import report_file
    from winml.modelkit.console.perf_text import render_perf
    from winml.modelkit.console.progress import Progress
    from winml.modelkit.perf.runner import run_perf

    _check_outputs(given)
    request = _request(given)
    trace_folder = None
    if request.op_tracing is not None:
        _resolve_ep_monitor(request.ep, request.device, request.op_tracing)
        trace_folder = report_file.trace_folder(given["output"], _title(given["model"]))
    command = ["winml", *_arguments(ctx)]
    with Progress(quiet=given["quiet"]) as progress:
        document = run_perf(request, command=command, observer=progress, worker=worker, trace_folder=trace_folder)
    saved = _save(document, given)
    _write_views(document, given)
    if given["format"] == "json":
        from winml.modelkit.console.json_out import write_document
        from winml.modelkit.console.perf_text import format_failure
        from winml.modelkit.console.streams import write_err

        write_document(document)
        # As for a command line that cannot be meant: whoever sent stdout to a file sees the reason all the same.
        write_err(format_failure(document, verbose=given["verbose"]))
    else:
        render_perf(document, verbose=given["verbose"], report=saved, top_k=given["top_k"])
    if document.error is not None:
        ctx.exit(document.error.exit_code)


def _check_outputs(given: dict[str, Any]) -> None:
    """Refuse files that cannot be written, and a trace that was not asked for, before any work is done."""
    from winml.modelkit.console import report_file
    from winml.modelkit.errors import UsageError

    for name in ("output", "report", "trace_out"):
        if given[name] is not None:
            report_file.check(given[name], overwrite=given["overwrite"])
    if given["report"] is not None and not given["report"].casefold().endswith((".html", ".htm")):
        raise UsageError(f"--report {given['report']}: the name must end in .html", code="unknown_report_format")
    if given["trace_out"] is None:
        return
    ending = given["trace_out"].casefold().rpartition(".")[2]
    if ending not in ("json", "csv"):
        raise UsageError(
            f"--trace-out {given['trace_out']}: the name must end in .json or .csv", code="unknown_trace_format"
        )
    if ending == "csv" and given["op_tracing"] is None:
        raise UsageError(
            "--trace-out as CSV lists operators, which are not traced", code="trace_not_asked", hint="add --op-tracing"
        )


def _write_views(document: PerfDocument, given: dict[str, Any]) -> None:
    """The HTML report and the trace file, as far as there is something to put into them."""
    from winml.modelkit.console import report_file
    from winml.modelkit.errors import EXIT_USAGE, WinMLError
    from winml.modelkit.perf.assemble import note_failure

    if document.error is not None and document.error.exit_code == EXIT_USAGE:
        return
    try:
        if given["report"] is not None:
            from winml.modelkit.console.html_report import render_html
            from winml.modelkit.console.html_trace import TOP_K

            report_file.write_text(given["report"], render_html(document, top_k=given["top_k"] or TOP_K))
        if given["trace_out"] is not None:
            from winml.modelkit.console.perfetto import perfetto_json
            from winml.modelkit.console.trace_csv import to_csv

            if not given["trace_out"].casefold().endswith(".csv"):
                report_file.write_text(given["trace_out"], perfetto_json(document))
            elif document.trace is not None:
                report_file.write_text(given["trace_out"], to_csv(document.trace))
    except WinMLError as error:
        note_failure(document, error)


def _title(model: str) -> str:
    """What files about a model are called after."""
    from pathlib import PurePath

    return PurePath(model).name or model


def _save(document: PerfDocument, given: dict[str, Any]) -> Path | None:
    """Write the report to where it was asked for and to the user's folder; the path of the latter."""
    from winml.modelkit.console import report_file
    from winml.modelkit.errors import EXIT_USAGE, WinMLError
    from winml.modelkit.perf.assemble import note_failure

    if document.error is not None and document.error.exit_code == EXIT_USAGE:
        return None  # a command that cannot be meant leaves no file behind
    name = _title(given["model"])
    try:
        return report_file.save(document, kind="perf", name=name, output=given["output"])
    except WinMLError as error:
        # What was measured is not lost with the file: it is shown, and kept in the user's folder.
        note_failure(document, error)
        return report_file.save(document, kind="perf", name=name)


def _resolve_ep_monitor(ep: str | None, device: str | None, level: str) -> type[EPMonitor]:
    """The monitor that would watch a run on this target; a level that cannot be had is refused before anything runs.

    Which EP really runs decides in the end; see ``session.monitor.resolve``.

    Raises:
        UsageError: the EP, or every EP for the device, lacks that level.
    """
    from winml.modelkit.session.monitor.resolve import load_monitor, resolve_monitor

    return load_monitor(resolve_monitor(ep, device, level))


def _arguments(ctx: click.Context) -> list[str]:
    import sys

    return ["perf", *sys.argv[2:]] if len(sys.argv) > 1 and sys.argv[1] == "perf" else [str(ctx.info_name)]


def _request(given: dict[str, Any]) -> PerfRequest:
    """The request as plain data; raises UsageError for what cannot be meant."""
    from winml.modelkit.perf.request import PerfRequest
    from winml.modelkit.perf.shape_sets import parse_dims, parse_shapes

    return PerfRequest(
        model=given["model"],
        ep=given["ep"],
        device=given["device"],
        ep_path=given["ep_path"],
        ep_options=given["ep_options"],
        emulate=given["emulate"],
        strict=given["strict"],
        min_placement=given["min_placement"],
        iterations=given["iterations"],
        warmup=given["warmup"],
        duration_s=given["duration"],
        dims=parse_dims(given["dims"]),
        shapes=parse_shapes(given["shapes"]),
        batch_size=given["batch_size"],
        input_data=given["input_data"],
        seed=given["seed"],
        io_binding=given["io_binding"],
        threads=given["threads"],
        memory=given["memory"],
        inference_precision=given["inference_precision"],
        custom_ops=given["custom_ops"],
        timeout_s=given["timeout"],
        op_tracing=given["op_tracing"],
        monitor=given["monitor"],
    )
