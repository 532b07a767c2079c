"""The child's side of ``--op-tracing``: the same model on the same target, watched by the EP's monitor.

A job of its own, in a fresh process, after the timed runs: tracing changes what it measures, sets the working directory
for some EPs, and may crash, and none of that may touch the figures of the report.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winml.modelkit.errors import RunFailed
from winml.modelkit.perf.job import feeds_of, pick, settings_of
from winml.modelkit.session.ep_device import known_spec
from winml.modelkit.session.ep_entry import EPEntry
from winml.modelkit.session.ep_registry import WinMLEPRegistry
from winml.modelkit.session.monitor.ep_monitor import CANNOT_OPEN, TraceContext, TraceFailure
from winml.modelkit.session.monitor.qnn_monitor import find_markers
from winml.modelkit.session.monitor.resolve import load_monitor
from winml.modelkit.session.monitor.source_names import SourceNames
from winml.modelkit.session.native_text import plain_reason
from winml.modelkit.session.session import WinMLSession, explain_run

if TYPE_CHECKING:
    from winml.modelkit.session.device_choice import PickedDevice
    from winml.modelkit.session.monitor.ep_monitor import EPMonitor
    from winml.modelkit.worker.child import JobContext


def compile_for_trace(args: dict[str, Any], context: JobContext) -> dict[str, Any]:
    """Worker job: compile the model to an EPContext model in the trace folder, with the EP's own op trace beside it.

    An operator trace in detail reads what the EP noted while it composed the graph, so that has to be done once with
    tracing on; running the compiled model then times nothing but the model.

    Returns:
        ``model``: path of the compiled model.
    """
    import onnxruntime as ort

    entry, picked, monitor = _prepare(args, context)
    settings, _, _ = settings_of(entry, picked, args, ())
    target = monitor.folder / "compiled.onnx"
    with monitor:
        options = ort.SessionOptions()
        for name, size in settings.dims.items():
            options.add_free_dimension_override_by_name(name, size)
        if picked is not None:
            wanted = {**settings.ep_options, **monitor.provider_options()}
            options.add_provider_for_devices([picked.device.ort_device], wanted)
        context.phase("compile for the trace")
        try:
            ort.ModelCompiler(options, args["model"], embed_compiled_data_into_model=False).compile_to_file(str(target))
        except Exception as error:
            raise RunFailed(
                f"the model was not compiled for the trace: {plain_reason(str(error))}", code="compile_failed"
            ) from error
    return {"model": str(target)}


def run(args: dict[str, Any], context: JobContext) -> dict[str, Any]:
    """Worker job: run the model under its monitor.

    Returns:
        ``placement``, ``walls_us``, and either ``trace`` (what the monitor found) or ``failure`` (cause, reason, hint,
        evidence).
    """
    entry, picked, monitor = _prepare(args, context)
    feeds = feeds_of(args)
    settings, _, _ = settings_of(entry, picked, args, tuple(feeds))
    settings = replace(
        settings,
        ep_options={**settings.ep_options, **monitor.provider_options()},
        profile_prefix=monitor.profile_prefix(),
        name_nodes=monitor.profile_prefix() is not None,
        strict=False,
    )
    found = TraceContext(log=Path(args["log"]), warmup=args["warmup"] + 1, iterations=args["iterations"])
    found.device = picked.device.device if picked else "cpu"
    with monitor:
        context.phase("make the traced session")
        try:
            session = WinMLSession(args["model"], picked.device if picked else None, settings)
        except RunFailed as error:
            failure = _blocked(error, found)
            if failure is None:
                raise
            return _failed(failure, {}, found)
        found.session = session.ort_session
        found.placement = session.placement()
        failure = monitor.after_session(found)
        if failure is not None:
            return _failed(failure, found.placement, found)
        context.phase("run under the trace", expect_s=args["expect_s"])
        _run(session, feeds, found)
        session.end_profiling()
        context.phase("read the trace")
        outcome = monitor.result(found)
    if isinstance(outcome, TraceFailure):
        return _failed(outcome, found.placement, found)
    return {"placement": found.placement, "walls_us": found.walls_us, "trace": outcome, "failure": None}


def _prepare(args: dict[str, Any], context: JobContext) -> tuple[EPEntry, PickedDevice | None, EPMonitor]:
    from winml.modelkit.onnx.facts import walk_nodes
    from winml.modelkit.onnx.files import read_model

    entry = EPEntry(**args["entry"])
    context.phase("register the EP")
    ep = WinMLEPRegistry.get_instance().register_ep(entry)
    picked = pick(ep, args)
    folder = Path(args["trace_folder"])
    sources = SourceNames((node.name, node.outputs) for node in walk_nodes(read_model(args["source_model"])))
    monitor = load_monitor(known_spec(entry.ep_name))(folder, args["level"], entry.ep_name, sources)
    return entry, picked, monitor


def _run(session: WinMLSession, feeds: dict[str, Any], found: TraceContext) -> None:
    ort_session = session.ort_session
    clock = time.perf_counter_ns
    try:
        for _ in range(found.warmup):
            ort_session.run(None, feeds)
        for _ in range(found.iterations):
            start = clock()
            ort_session.run(None, feeds)
            found.walls_us.append((clock() - start) / 1000)
    except Exception as error:
        raise explain_run(error, session.settings.ep_name) from error


def _blocked(error: RunFailed, found: TraceContext) -> TraceFailure | None:
    """A session that tracing itself prevented: the EP says that it cannot open its file."""
    text = str(error.details.get("original", error.reason))
    lines = [line for cause, line in find_markers(found.log) if cause == CANNOT_OPEN]
    if "profiling file" in text.casefold() or lines:
        return TraceFailure(CANNOT_OPEN, f"the EP cannot open its profiling file: {error.reason}", lines or [text])
    return None


def _failed(failure: TraceFailure, placement: dict[str, Any], found: TraceContext) -> dict[str, Any]:
    return {
        "placement": placement,
        "walls_us": found.walls_us,
        "trace": None,
        "failure": {**asdict(failure), "hint": failure.hint},
    }
