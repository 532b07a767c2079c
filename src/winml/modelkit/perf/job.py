"""The child's side of ``perf``: register, make the session, run, time, and gather the evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winml.modelkit import memory
from winml.modelkit.environment import load_sample
from winml.modelkit.errors import WinMLError
from winml.modelkit.perf.phases import MEASURE_PHASE
from winml.modelkit.session import compute_precision
from winml.modelkit.session.device_choice import PickedDevice, pick_device
from winml.modelkit.session.ep_device import known_spec
from winml.modelkit.session.ep_entry import EPEntry
from winml.modelkit.session.ep_registry import WinMLEP, WinMLEPRegistry
from winml.modelkit.session.ep_translate import Wishes, translate
from winml.modelkit.session.session import CPU_EP, SessionSettings, WinMLSession, explain_run, ort_values

if TYPE_CHECKING:
    from winml.modelkit.perf.inputs import GeneratedInputs
    from winml.modelkit.worker.child import JobContext

SLOW_SESSION_S = 60.0
"""A session that took longer than this is not made a second time just to see in which precision it computes."""


class MemoryStages:
    """Resident memory by stage, if it was asked for."""

    def __init__(self, wanted: bool, at_start: int | None) -> None:
        self._wanted = wanted
        self._stages: list[dict[str, Any]] = []
        self._exact = False
        self._note("process start", at_start)

    def _note(self, stage: str, value: int | None) -> None:
        self._stages.append({"stage": stage, "rss_bytes": value})

    def mark(self, stage: str) -> None:
        """Note the resident memory now; only the first time a stage is reached, which several shapes do."""
        if self._wanted and all(item["stage"] != stage for item in self._stages):
            self._note(stage, memory.rss_bytes())

    def start_peak(self) -> None:
        """Begin a new peak, right before the first measured run; it then covers all of them."""
        if not self._exact:
            self._exact = self._wanted and memory.reset_peak()

    def to_dict(self) -> dict[str, Any] | None:
        """The fields of ``Memory``; None where memory was not asked for. The caller fills in a sampled peak."""
        if not self._wanted:
            return None
        peak = memory.peak_bytes() if self._exact else None
        method = "kernel high-water mark" if peak is not None else "not known: this system keeps no resettable peak"
        return {"stages": self._stages, "peak_bytes": peak, "peak_method": method}


def _ms(start: float, end: float) -> float:
    return (end - start) * 1000


def run(args: dict[str, Any], context: JobContext) -> dict[str, Any]:
    """Worker job of ``perf``; the arguments are those ``runner.job_args`` makes.

    Returns:
        Plain data: ``phases_ms``, ``memory``, ``placement``, ``precision``, ``runs`` (one per set of shapes, with
        ``samples_ms``, ``first_run_ms``, ``load_start``, ``load_end``), ``warnings``.
    """
    stages = MemoryStages(args["memory"], context.rss_at_start)
    clock = time.perf_counter
    start = clock()
    context.phase("load onnxruntime")
    import onnxruntime  # noqa: F401 - its import is a phase of its own

    imported = clock()
    given: tuple[str, ...] = ()
    if args["input_data"] is not None:
        # Wrong data is told before an EP spends minutes on the model; it is read again when it is fed.
        context.phase("check the input data")
        given = tuple(_feeds(args["shape_sets"][0], args).arrays)
    checked = clock()
    entry = EPEntry(**args["entry"])
    context.phase("register the EP")
    ep = WinMLEPRegistry.get_instance().register_ep(entry)
    picked = pick(ep, args)
    registered = clock()
    stages.mark("EP registered")
    settings, threads, rule = settings_of(entry, picked, args, given)
    context.emit("target", **_target(ep, picked, settings), threads=threads, threads_rule=rule)
    context.phase("make the session")
    before = clock()
    session = WinMLSession(args["model"], picked.device if picked else None, settings)
    created = clock()
    stages.mark("session created")
    placement = session.placement(name_all=False)
    context.emit("placement", placement=placement)
    warnings = [{"code": "session", "message": note} for note in session.notes]
    runs = [_measure(session, shape_set, args, context, stages, warnings) for shape_set in args["shape_sets"]]
    stages.mark("after the runs")
    if any(not node["name"] for node in placement["leftovers"]):
        # Takes another session, so it waits until nothing is measured any more.
        context.phase("name the nodes", expect_s=created - before)
        placement = session.placement()
        context.emit("placement", placement=placement)
    result = {
        "phases_ms": {
            "import_runtime": context.preload_s * 1000 + _ms(start, imported),
            "register": _ms(checked, registered) if entry.path is not None else None,
            "session": _ms(before, created),
            "first_run": runs[0]["first_run_ms"],
            "warmup": sum(item["warmup_ms"] for item in runs),
            "measure": sum(item["measure_ms"] for item in runs),
        },
        "memory": stages.to_dict(),
        "placement": placement,
        "runs": runs,
        "warnings": warnings,
    }
    # Sent before the traced run: whatever happens there, the timed runs are not lost.
    context.emit("measured", value=result)
    result["precision"] = _precision(session, picked, feeds_of(args), args, context, created - before, placement)
    return result


def pick(ep: WinMLEP, args: dict[str, Any]) -> PickedDevice | None:
    """The device, or None for a bundled EP that ONNX Runtime adds by name only."""
    if ep.entry.path is None and not ep.devices:
        return None
    reason = ""
    if not ep.devices:
        from winml.modelkit.session.ep_isolation import why_no_device

        reason = why_no_device(ep.entry)
    return pick_device(ep, args["device"], emulate=args["emulate"], no_device_reason=reason)


def settings_of(
    entry: EPEntry, picked: PickedDevice | None, args: dict[str, Any], given: tuple[str, ...]
) -> tuple[SessionSettings, int | None, str]:
    """How the session is made, how many threads compute (None: not known), and why that many.

    Args:
        given: names of the inputs that data was given for.
    """
    spec = known_spec(entry.ep_name)
    options = dict(args["ep_options"])
    threads, rule = args["pool_threads"], args["pool_rule"]
    if picked is not None:
        defaults = dict(spec.default_options.get(picked.serves, {})) if spec else {}
        declared = tuple(args["declared_precisions"])
        wishes = Wishes(args["threads"], args["inference_precision"], declared, threads, rule)
        translated = translate(spec, {**defaults, **options}, picked.device, wishes)
        options, threads, rule = translated.options, translated.threads, translated.threads_rule
    settings = SessionSettings(
        ep_name=entry.ep_name,
        ep_options=options,
        threads=args["session_threads"],
        strict=args["strict"],
        dims=args["fixed_dims"],
        custom_ops=tuple(args["custom_ops"]),
        fed_constants=given,
    )
    return settings, threads, rule


def _target(ep: WinMLEP, picked: PickedDevice | None, settings: SessionSettings) -> dict[str, Any]:
    """What is sent to the parent as soon as it is decided, so that a report of a crash can name it."""
    spec = known_spec(ep.entry.ep_name)
    device = picked.device if picked else None
    serves = picked.serves if picked else (spec.devices[0] if spec else "cpu")
    return {
        "target": {
            "ep": ep.entry.ep_name,
            "alias": spec.alias if spec else ep.entry.ep_name,
            "device": serves,
            "device_name": (device.facts["Name"] or device.vendor) if device else None,
            "emulated": picked.emulated if picked else False,
            "listed_device": device.device if device else serves,
            "device_facts": device.facts if device else {},
            "plugin_version": ep.version,
        },
        "listed": device.to_dict() if device else {"device": serves},
        "ep_options": dict(settings.ep_options),
    }


def _feeds(shape_set: dict[str, Any], args: dict[str, Any]) -> GeneratedInputs:
    """What is fed at one set of shapes. The graph is read again here, without its weights: a few milliseconds."""
    from winml.modelkit.onnx.files import read_model
    from winml.modelkit.perf.inputs import load_inputs, make_inputs

    model = read_model(args["model"])
    if args["input_data"] is not None:
        return load_inputs(args["input_data"], model)
    return make_inputs(model, shape_set["shapes"], seed=args["seed"])


def feeds_of(args: dict[str, Any]) -> dict[str, Any]:
    """What is fed at the first set of shapes."""
    return _fed(_feeds(args["shape_sets"][0], args))


def _fed(made: GeneratedInputs) -> dict[str, Any]:
    """What ``session.run`` takes: arrays, and values with their ONNX type where numpy has none for it."""
    import onnxruntime as ort

    return {
        name: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, made.onnx_types[name])
        if name in made.onnx_types
        else array
        for name, array in made.arrays.items()
    }


def _measure(
    session: WinMLSession,
    shape_set: dict[str, Any],
    args: dict[str, Any],
    context: JobContext,
    stages: MemoryStages,
    warnings: list[dict[str, str]],
) -> dict[str, Any]:
    """First run, warm-up and timed loop at one set of shapes."""
    import numpy as np

    from winml.modelkit.perf.loop import MAX_SAMPLES, time_runs

    ep = session.settings.ep_name
    clock = time.perf_counter
    context.phase("make the inputs")
    made = _feeds(shape_set, args)
    feeds = _fed(made)
    warnings.extend({"code": "input_data", "message": note} for note in made.warnings)
    context.phase("first run")
    begin = clock()
    outputs = session.run(feeds)
    first = clock()
    for spec, value in zip(session.ort_session.get_outputs(), outputs, strict=True):
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
            message = f"the output {spec.name!r} has values that are not finite"
            warnings.append({"code": "non_finite_output", "message": message})
    del outputs
    call, call_args = _call(session, feeds, io_binding=args["io_binding"])
    context.phase("warm up", expect_s=(first - begin) * args["warmup"])
    try:
        warm_begin = clock()
        for _ in range(args["warmup"]):
            call(*call_args)
        warm_end = clock()
        stages.mark("after warm-up")
        each = (warm_end - warm_begin) / args["warmup"] if args["warmup"] else first - begin
        expect = args["duration_s"] or each * (args["iterations"] or 1)
        context.phase(MEASURE_PHASE, expect_s=expect)
        stages.start_peak()
        load_start = {**load_sample(), "monotonic_s": time.monotonic()}
        samples = time_runs(call, call_args, args["iterations"], args["duration_s"])
        load_end = {**load_sample(), "monotonic_s": time.monotonic()}
        if args["duration_s"] and not args["iterations"] and len(samples) >= MAX_SAMPLES:
            message = f"stopped after {len(samples)} runs, the most that are recorded, before the duration was over"
            warnings.append({"code": "duration_cut", "message": message})
    except Exception as error:  # whatever the EP raises while running becomes one failure of ours
        raise explain_run(error, ep) from error
    return {
        "inputs": made.descriptions,
        "first_run_ms": _ms(begin, first),
        "warmup_ms": _ms(warm_begin, warm_end),
        "measure_ms": sum(samples) / 1e6,
        "samples_ms": [sample / 1e6 for sample in samples],
        "load_start": load_start,
        "load_end": load_end,
    }


def _call(session: WinMLSession, feeds: dict[str, Any], *, io_binding: bool) -> tuple[Any, tuple[Any, ...]]:
    """The call that is timed, and its arguments."""
    ort_session = session.ort_session
    if not io_binding:
        if session.needs_ort_values:
            return ort_session.run_with_ort_values, (None, ort_values(feeds))
        return ort_session.run, (None, feeds)
    import numpy as np

    binding = ort_session.io_binding()
    for name, value in feeds.items():
        if isinstance(value, np.ndarray):
            binding.bind_cpu_input(name, value)
        else:
            binding.bind_ortvalue_input(name, value)
    for output in ort_session.get_outputs():
        binding.bind_output(output.name)
    return ort_session.run_with_iobinding, (binding,)


def _precision(
    session: WinMLSession,
    picked: PickedDevice | None,
    feeds: dict[str, Any],
    args: dict[str, Any],
    context: JobContext,
    session_s: float,
    placement: dict[str, Any],
) -> dict[str, Any]:
    """In which precision the kernels computed; the traced run is a session of its own, after the timed ones."""
    requested = args["inference_precision"]
    declared = list(args["declared_precisions"])
    ep = session.settings.ep_name
    spec = known_spec(ep)
    nothing = {"requested": requested, "effective": None, "shares": None}
    if ep == CPU_EP and not {"fp16", "bf16"} & set(declared):
        effective = "+".join(declared) or None
        evidence = "the CPU EP computes in the types the model declares"
        # Whatever else was asked for has been refused by now.
        return {**nothing, "effective": effective, "evidence": evidence, "honoured": True if requested else None}
    read = compute_precision.cpu_shares if ep == CPU_EP else compute_precision.kernel_shares
    if ep != CPU_EP and (spec is None or not spec.kernel_records or picked is None):
        name = spec.alias if spec else ep
        return {**nothing, "evidence": f"none: {name} gives no kernel records with types"}
    if placement["target_nodes"] == 0:
        return {**nothing, "evidence": f"none: no node runs on {spec.alias if spec else ep}"}
    if session_s > SLOW_SESSION_S and requested is None:
        return {**nothing, "evidence": f"none: a second session would take {session_s:.0f} s again"}
    context.phase("traced run for the kernels' precision", expect_s=session_s)
    try:
        shares = _traced_shares(session, feeds, read)
    except WinMLError as error:
        return {**nothing, "evidence": f"none: the traced run failed: {error.reason}"}
    judged = compute_precision.judge(shares, requested)
    judged["honoured"] = compute_precision.honoured(shares, requested) if requested and shares else None
    return judged


def _traced_shares(
    session: WinMLSession, feeds: dict[str, Any], read: Callable[[Path], dict[str, float]]
) -> dict[str, float]:
    import tempfile
    from dataclasses import replace

    with tempfile.TemporaryDirectory(prefix="winml-trace-") as folder:
        settings = replace(session.settings, profile_prefix=str(Path(folder) / "kernels"), strict=False)
        traced = WinMLSession(session.path, session.device, settings)
        traced.run(feeds)
        profile = traced.end_profiling()
        return read(profile) if profile else {}
