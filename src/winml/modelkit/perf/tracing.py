"""The parent's side of ``--op-tracing``: which monitor, which jobs, and what their answers mean."""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from winml.modelkit.errors import EvidenceShortfall, RunFailed, UsageError, WinMLError, WorkerDied
from winml.modelkit.perf.document import Trace
from winml.modelkit.session.ep_device import known_spec
from winml.modelkit.session.monitor.resolve import load_monitor, resolve_monitor
from winml.modelkit.worker.runner import Job, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


MOST_TRACED = 100
"""Most inferences that are traced where the number of measured ones was left open by ``--duration``."""

MARKER = ".winml-trace"
"""A file that marks a trace folder as ours, so that it may be emptied by the next run."""


def check_level(ep_name: str, level: str, ep_options: Mapping[str, str]) -> None:
    """Refuse a level the EP lacks, and options that its monitor sets, before anything runs.

    Raises:
        UsageError: either.
    """
    if known_spec(ep_name) is None:
        if level != "basic":
            raise UsageError(f"{ep_name} has no operator tracing at level {level!r}; it has: basic")
        return
    spec = resolve_monitor(ep_name, None, level)
    taken = [name for name in spec.trace_options if name in ep_options]
    if taken:
        raise UsageError(
            f"--op-tracing sets {', '.join(taken)} itself",
            code="contradicting_options",
            hint="leave the option or --op-tracing out",
        )


def prepare_folder(folder: Path) -> None:
    """An empty trace folder.

    Raises:
        UsageError: something that is not a trace of ours stands there.
        WinMLError: it cannot be made.
    """
    try:
        if folder.exists() and not (folder / MARKER).is_file():
            raise UsageError(
                f"{folder} exists and is no trace folder of winml", code="output_exists", hint="give another -o"
            )
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / MARKER).touch()
    except OSError as error:
        raise WinMLError(f"the trace folder {folder} cannot be made: {error}", code="output_failed") from error


def run_trace(
    args: Mapping[str, Any],
    *,
    level: str,
    folder: Path,
    untraced_ms: Sequence[float],
    emulated: bool,
    timeout: float | None,
    on_event: Callable[[dict[str, Any]], None],
) -> tuple[Trace, WinMLError | None]:
    """Trace the model that was just measured.

    Args:
        args: those of the measuring job.
        level: ``basic`` or ``detail``.
        folder: where the artefacts go; exists and is empty.
        untraced_ms: samples of the measured runs.
        emulated: the device is an emulator.
        timeout: limit in seconds for each job, or None.
        on_event: told about phases.

    Returns:
        The trace, and the failure to report where it has no operators or its worker died.
    """
    ep_name = str(args["entry"]["ep_name"])
    spec = known_spec(ep_name)
    monitor = load_monitor(spec)
    iterations = args["iterations"] or min(MOST_TRACED, len(untraced_ms))
    p50 = statistics.median(untraced_ms)
    trace = Trace(
        status="failed",
        requested_level=level,
        level=level,
        monitor=monitor.name,
        ep=ep_name,
        emulated=emulated,
        iterations=iterations,
        warmup=args["warmup"] + 1,
    )
    job_args = {
        **args,
        "iterations": iterations,
        "level": level,
        "trace_folder": str(folder),
        "source_model": args["model"],
        # Tracers are known to cost up to this much.
        "expect_s": 10 * p50 / 1000 * (iterations + args["warmup"] + 1),
    }
    try:
        if level == "detail" and spec is not None and spec.compiles and not args["compiled"]:
            compiled = _run("compile_for_trace", job_args, timeout, on_event)
            # Shapes were fixed while compiling; what is fed stays the same.
            job_args.update(model=compiled["model"], fixed_dims={})
        answer = _run("run", job_args, timeout, on_event)
    except WorkerDied as error:
        _note_failure(trace, "worker_died", error)
        return trace, error
    except RunFailed as error:
        _note_failure(trace, error.code, error)
        return trace, _shortfall(trace)
    if answer["failure"] is not None:
        failure = answer["failure"]
        trace.cause, trace.reason = failure["cause"], failure["reason"]
        trace.hint, trace.evidence = failure["hint"], failure["evidence"]
        return trace, _shortfall(trace)
    return _merge(trace, answer, p50), None


def _run(
    function: str, args: Mapping[str, Any], timeout: float | None, on_event: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    preload = ("onnxruntime", "winml.modelkit.perf.trace_job")
    with Worker(preload=preload, name="trace") as worker:
        job = Job(f"winml.modelkit.perf.trace_job:{function}", {**args, "log": str(worker.log)})
        return worker.run(job, timeout=timeout, on_event=on_event).value


def _note_failure(trace: Trace, cause: str, error: WinMLError) -> None:
    trace.cause, trace.reason, trace.hint = cause, error.reason, error.hint
    trace.evidence = [str(line) for line in error.details.get("last_lines", ())]


def _shortfall(trace: Trace) -> EvidenceShortfall:
    return EvidenceShortfall(
        f"no operator trace: {trace.reason}",
        code="trace_failed",
        hint=trace.hint,
        details={"cause": trace.cause, "evidence": trace.evidence},
    )


def _merge(trace: Trace, answer: dict[str, Any], untraced_p50: float) -> Trace:
    found = answer["trace"]
    traced_p50 = statistics.median(answer["walls_us"]) / 1000
    return msgspec.convert(
        {
            **msgspec.to_builtins(trace),
            **found,
            "status": "ok",
            "overhead": {
                "untraced_p50_ms": untraced_p50,
                "traced_p50_ms": traced_p50,
                "ratio": traced_p50 / untraced_p50,
            },
        },
        Trace,
    )
