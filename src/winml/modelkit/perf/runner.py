"""The parent's side of ``perf``: one request in, one document out, whatever happened in between.

The worker is started first, so that it loads ONNX Runtime while the model's graph is read and the target is chosen
here. This process never imports onnxruntime, onnx or numpy.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from winml.modelkit import environment
from winml.modelkit.documents import Library, Machine, Notice
from winml.modelkit.errors import (
    DeviceNotFound,
    Interrupted,
    ModelError,
    RunFailed,
    TargetUnavailable,
    WinMLError,
    WorkerDied,
)
from winml.modelkit.loader import resolve_model
from winml.modelkit.onnx.facts import ep_context_sources, float_types, is_topologically_sorted
from winml.modelkit.perf.assemble import build_result, note_failure, shortfall, summarise
from winml.modelkit.perf.document import (
    FedInput,
    ModelFile,
    PerfDocument,
    PerfEffective,
    PerfRequested,
    Placement,
    Precision,
    Target,
)
from winml.modelkit.perf.early import start_worker
from winml.modelkit.perf.feedable import check_runnable
from winml.modelkit.perf.peak import PeakSampler
from winml.modelkit.perf.phases import MEASURE_PHASE
from winml.modelkit.perf.shape_sets import resolve_shape_sets, shapes_of_fed
from winml.modelkit.perf.shapes import ResolvedShapes
from winml.modelkit.perf.tracing import check_level, prepare_folder, run_trace
from winml.modelkit.perf.watching import Watch
from winml.modelkit.session.ep_device import (
    EP_DEVICE_SPECS,
    EPDeviceTarget,
    check_ep_options,
    find_spec,
    resolve_target,
    spec_problems,
)
from winml.modelkit.session.ep_failure import WinMLEPRegistrationFailed, with_native_log
from winml.modelkit.session.ep_inventory import Choice, choose, name_what_is_there
from winml.modelkit.worker.runner import PHASE_TIMEOUT_S, Job, Worker

if TYPE_CHECKING:
    from winml.modelkit.onnx.model import Model
    from winml.modelkit.perf.request import PerfRequest
    from winml.modelkit.session.ep_entry import EPEntry
    from winml.modelkit.session.monitor.hw_monitor import Reading

CPU_EP = "CPUExecutionProvider"


class Observer(Protocol):
    """Who is told how far the work is."""

    def phase(self, name: str, expect_s: float = 0.0) -> None:
        """A phase begins, expected to take so many seconds (0: not known)."""

    def watching(self, latest: Callable[[], dict[str, Reading]]) -> None:
        """Hardware counters are read from now on; ``latest`` gives them."""


def run_perf(
    request: PerfRequest,
    *,
    command: Sequence[str] = (),
    observer: Observer | None = None,
    worker: Worker | None = None,
    trace_folder: Path | None = None,
) -> PerfDocument:
    """Measure one model on one target.

    Args:
        request: what to do.
        command: the command line, for the report.
        observer: told how far the work is.
        worker: one of ``early.start_worker`` that has not had a job yet; it is closed here. Started here if None.
        trace_folder: where the artefacts of ``op_tracing`` go; needed with it.

    Never raises for what a user or a vendor library can cause: the document then carries ``error``, with whatever was
    found out before.
    """
    run = _Run(request, list(command), observer)
    run.trace_folder = trace_folder
    try:
        run.go(worker if worker is not None else start_worker())
    except KeyboardInterrupt:
        run.fail(Interrupted("interrupted by the user"))
    except WinMLError as error:
        run.fail(error)
    finally:
        if run.watch is not None:
            run.document.hardware = run.watch.stop()
    run.document.summary = summarise(run.document)
    return run.document


class _Run:
    """The state of one request while it is worked on."""

    def __init__(self, request: PerfRequest, command: list[str], observer: Observer | None) -> None:
        self.request = request
        self.observer = observer
        self.measured: dict[str, Any] | None = None
        self.job_args: dict[str, Any] = {}
        self.trace_folder: Path | None = None
        self.watch: Watch | None = None
        self.log: str | None = None
        self.last_lines: list[str] = []
        self.entry: EPEntry | None = None
        self._sampler: PeakSampler | None = None
        self._sampled_peak: int | None = None
        self.shape_sets: list[ResolvedShapes] = []
        self.document = PerfDocument(
            command=command,
            started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            requested=_requested(request),
            environment=msgspec.convert(environment.machine_facts(), Machine),
        )

    # --- the order of things ---------------------------------------------------------------------------------------

    def go(self, worker: Worker) -> None:
        with worker:
            source = resolve_model(self.request.model)
            for text in source.warnings:
                self.warn("model_name", text)
            target = resolve_target(self.request.ep, self.request.device, emulate=self.request.emulate)
            for problem in spec_problems():
                self.warn("ep_spec", problem)
            model = self._read(source.path, source.name)
            target = self._follow_compiled(model, target)
            self._resolve_shapes(model)
            choice = self._choose(target, fresh=False)
            answer = self._attempt(worker, source.path, model, target, choice)
        if answer is None:
            # An earlier look at this machine led the automatic choice astray: look again, once.
            choice = self._choose(target, fresh=True)
            with start_worker() as worker:
                answer = self._run_job(worker, self._job(source.path, model, target, choice), target)
        self._finish(answer, source.path, model, target)

    def _attempt(
        self, worker: Worker, path: Path, model: Model, target: EPDeviceTarget, choice: Choice
    ) -> dict[str, Any] | None:
        """The job's answer; None where a remembered choice proved stale and another may be made."""
        try:
            return self._run_job(worker, self._job(path, model, target, choice), target)
        except TargetUnavailable:
            if choice.cached and target.ep is None:
                return None
            raise

    def _read(self, path: Path, name: str) -> Model:
        from winml.modelkit.onnx.files import read_model

        self.phase("read the model")
        self.document.effective = PerfEffective(
            model=ModelFile(path=str(path), name=name, bytes=path.stat().st_size), strict=self.request.strict
        )
        model = read_model(path)
        file = self.document.effective.model
        file.ir_version = model.ir_version
        file.opsets = {domain or "ai.onnx": version for domain, version in model.opset_imports}
        file.producer = " ".join(filter(None, (model.producer_name, model.producer_version))) or None
        return model

    def _follow_compiled(self, model: Model, target: EPDeviceTarget) -> EPDeviceTarget:
        """A model compiled for one EP runs on that EP only."""
        sources = [name for name in ep_context_sources(model) if name in EP_DEVICE_SPECS]
        if not sources:
            return target
        if target.ep is None:
            self.warn("compiled_model", f"the model was compiled by {find_spec(sources[0]).alias}, so it runs there")
            return resolve_target(sources[0], target.device)
        if target.ep not in sources:
            made = find_spec(sources[0]).alias
            raise ModelError(
                f"the model was compiled by {made}; {find_spec(target.ep).alias} cannot run it",
                code="compiled_for_other_ep",
                hint=f"run it with --ep {made}, or give the model it was compiled from",
                details={"compiled_by": sources, "ep": target.ep},
            )
        return target

    def _resolve_shapes(self, model: Model) -> None:
        check_runnable(model)
        if self.request.input_data is None:
            self.shape_sets = resolve_shape_sets(
                model,
                dims=self.request.dims,
                shapes=self.request.shapes,
                batch_size=self.request.batch_size,
            )

    def _choose(self, target: EPDeviceTarget, *, fresh: bool) -> Choice:
        try:
            choice = choose(
                target, self.request.ep_path, fresh=fresh, progress=self.phase, limit=self.request.timeout_s
            )
        except TargetUnavailable as error:
            if not isinstance(error, DeviceNotFound):
                name_what_is_there(error, self.request.ep_path, self.phase, self.request.timeout_s)
            raise
        for problem in choice.problems:
            self.warn(f"ep_source_{problem.code}", f"{problem.origin}: {problem.path}: {problem.reason}")
        return choice

    # --- the job ---------------------------------------------------------------------------------------------------

    def _job(self, path: Path, model: Model, target: EPDeviceTarget, choice: Choice) -> Job:
        request = self.request
        self.entry = choice.entry
        spec = EP_DEVICE_SPECS.get(choice.entry.ep_name)
        device = target.device or choice.device
        if spec is not None:
            for text in check_ep_options(spec, request.ep_options, device):
                self.warn("ep_options", text)
        if request.op_tracing is not None:
            check_level(choice.entry.ep_name, request.op_tracing, request.ep_options)
        effective = self._effective()
        effective.rule = choice.rule + (", as seen at an earlier look" if choice.cached else "")
        effective.passed_over = list(choice.passed_over)
        effective.iterations = request.effective_iterations
        effective.duration_s = request.duration_s
        effective.warmup = request.effective_warmup
        effective.seed = None if request.input_data is not None else request.seed or 0
        effective.io_binding = bool(request.io_binding)
        effective.input_data = request.input_data
        session_threads, pool_threads, pool_rule = _threads(request.threads)
        fixed = self._fixed_dims()
        effective.dims_fixed_in_session = bool(fixed)
        self.job_args = {
            "model": str(path),
            "entry": asdict(choice.entry),
            "device": device,
            "emulate": target.emulate,
            "ep_options": dict(request.ep_options),
            "threads": request.threads,
            "session_threads": session_threads,
            "pool_threads": pool_threads,
            "pool_rule": pool_rule,
            "inference_precision": _asked_precision(request.inference_precision),
            "declared_precisions": float_types(model),
            "strict": request.strict,
            "fixed_dims": fixed,
            "custom_ops": [str(Path(library).resolve()) for library in request.custom_ops],
            "memory": request.memory,
            "iterations": effective.iterations,
            "warmup": effective.warmup,
            "duration_s": request.duration_s,
            "io_binding": effective.io_binding,
            "input_data": str(Path(request.input_data).absolute()) if request.input_data else None,
            "seed": effective.seed,
            "shape_sets": [{"shapes": found.shapes} for found in self.shape_sets] or [{"shapes": None}],
            "compiled": bool(ep_context_sources(model)),
        }
        return Job("winml.modelkit.perf.job:run", self.job_args)

    def _fixed_dims(self) -> dict[str, int]:
        """Symbolic dimensions that are fixed in the session: those given by name with one value only."""
        if len(self.shape_sets) != 1:
            return {}
        return self.shape_sets[0].given_dims

    def _run_job(self, worker: Worker, job: Job, target: EPDeviceTarget) -> dict[str, Any]:
        def on_event(event: dict[str, Any]) -> None:
            self._event(event, worker.pid)

        if self.request.monitor:
            if self.watch is not None:
                self.watch.stop()
            self.watch = Watch()
            self.watch.start(worker.pid)
            if self.observer is not None:
                self.observer.watching(self.watch.latest)
        self.log = str(worker.log)
        try:
            value = worker.run(
                job,
                timeout=self.request.timeout_s,
                phase_timeout=max(PHASE_TIMEOUT_S, self.request.duration_s or 0.0),
                on_event=on_event,
            ).value
            self.last_lines = worker.last_lines()
            return value
        except WorkerDied as error:
            if self.measured is None:
                raise
            # The timed runs were done; only the traced run after them is lost.
            self.warn("traced_run_lost", f"the traced run for the kernels' precision was lost: {error.reason}")
            asked = _asked_precision(self.request.inference_precision)
            lost = {"requested": asked, "effective": None, "evidence": "none: the traced run was lost"}
            return {**self.measured, "precision": lost}
        except (DeviceNotFound, WinMLEPRegistrationFailed) as found:
            failure = with_native_log(found) if isinstance(found, WinMLEPRegistrationFailed) else found
            if target.ep is not None:
                name_what_is_there(failure, self.request.ep_path, self.phase, self.request.timeout_s)
            raise failure from found
        except RunFailed as error:
            self._name_guessed_sizes(error)
            raise

    def _name_guessed_sizes(self, error: RunFailed) -> None:
        """A run that failed on a size nobody gave: say which sizes were chosen here."""
        guessed = [item for found in self.shape_sets for item in found.defaults]
        if not guessed or error.code != "run_failed":
            return
        named = dict.fromkeys(
            f"{item.name or f'axis {item.axis} of {item.input}'}={item.value} ({item.rule})" for item in guessed
        )
        hint = f"sizes chosen here, since none was given: {', '.join(named)}; --dim or --shape sets them"
        error.hint = f"{hint}; {error.hint}" if error.hint else hint

    def _event(self, event: dict[str, Any], pid: int) -> None:
        kind = event["event"]
        if kind == "phase":
            self.phase(event["name"], float(event["expect_s"]))
            if self.watch is not None:
                self.watch.phase(event["name"])
            # Linux: the worker reads its own high-water mark, exactly and without a second process awake.
            if event["name"] == MEASURE_PHASE and self.request.memory and sys.platform != "linux":
                self._sampler = self._sampler or PeakSampler(pid)
        elif kind == "target":
            self._note_target(event)
        elif kind == "placement":
            self.document.placement = msgspec.convert(event["placement"], Placement)
        elif kind == "measured":
            self.measured = event["value"]
            if self._sampler is not None:
                self._sampled_peak = self._sampler.stop()

    def _note_target(self, event: dict[str, Any]) -> None:
        effective = self._effective()
        target = dict(event["target"])
        plugin_version = target.pop("plugin_version")
        entry = self.entry
        assert entry is not None
        library = Library(
            path=entry.path,
            source=entry.source,
            distribution=entry.distribution,
            package_version=entry.package_version,
            plugin_version=plugin_version,
        )
        effective.target = msgspec.convert({**target, "library": library}, Target)
        effective.ep_options = event["ep_options"]
        if self.watch is not None and event["listed"] is not None:
            self.watch.device(event["listed"])
        effective.threads = event["threads"]
        effective.threads_rule = event["threads_rule"]
        if effective.target.emulated:
            self.warn("emulated", "the target is an emulator on the CPU; its timings say nothing about real hardware")

    # --- the result ------------------------------------------------------------------------------------------------

    def _finish(self, answer: dict[str, Any], path: Path, model: Model, target: EPDeviceTarget) -> None:
        self.phase("sum up")
        document, effective = self.document, self._effective()
        for warning in answer["warnings"]:
            self.warn(warning["code"], warning["message"])
        runs = answer["runs"]
        batches: list[int | None] = []
        for index, item in enumerate(runs):
            shapes = {name: info["shape"] for name, info in item["inputs"].items()}
            fed = self.shape_sets[index] if self.shape_sets else shapes_of_fed(model, shapes)
            item["dims"] = fed.dims
            batches.append(fed.batch_size)
        effective.inputs = msgspec.convert(runs[0]["inputs"], dict[str, FedInput])
        effective.dims = runs[0]["dims"]
        effective.batch_size = batches[0]
        effective.precision = msgspec.convert(answer["precision"], Precision)
        document.result = build_result(answer, batches, self._sampled_peak)
        effective.iterations = document.result.latency_ms.n
        self._hash(path, model)
        if not is_topologically_sorted(model):
            self.warn(
                "unsorted_nodes",
                "the model's nodes are not in topological order: ONNX Runtime sorts them, ONNX's checker refuses them",
            )
        placement = document.placement
        if placement is None:
            return
        if not placement.nodes_total:
            self.warn("no_nodes", "ONNX Runtime left no node to run: everything in the graph was known beforehand")
        if target.is_open and placement.target_nodes == 0 and placement.nodes_total:
            name = placement.target_ep.removesuffix("ExecutionProvider")
            self.warn(
                "nothing_placed", f"{name} was chosen automatically and took no node; the model ran on the CPU EP"
            )
        lost = self._trace()
        short = shortfall(
            placement,
            effective.precision,
            explicit=not target.is_open,
            min_placement=self.request.min_placement,
            open_dims={} if effective.dims_fixed_in_session else effective.dims,
        )
        for failure in (short, lost):
            if failure is not None:
                failure.details.setdefault("log", self.log)
                failure.details.setdefault("last_lines", self.last_lines)
                raise failure

    def _trace(self) -> WinMLError | None:
        """Trace operators, if that was asked for; what went wrong is given back, so that the rest is judged first."""
        level, result, target = self.request.op_tracing, self.document.result, self._effective().target
        if level is None or result is None or target is None:
            return None
        folder = self.trace_folder
        if folder is None:
            raise ValueError("op_tracing needs a trace_folder")
        prepare_folder(folder)
        if self.observer is not None and self.watch is not None:
            # The worker that was watched has ended; a live display would go on with its last values.
            self.observer.watching(dict)
        self.document.trace, lost = run_trace(
            self.job_args,
            level=level,
            folder=folder,
            untraced_ms=result.samples_ms,
            emulated=target.emulated,
            timeout=self.request.timeout_s,
            on_event=lambda event: self._event(event, 0),
        )
        return lost

    def _hash(self, path: Path, model: Model) -> None:
        """After the measured runs, so that it does not disturb them."""
        from winml.modelkit.onnx.hashing import hash_model

        file = self._effective().model
        hashes = hash_model(path, model)
        if hashes.reason is not None:
            self.warn("not_hashed", hashes.reason)
        file.sha256 = hashes.sha256
        file.external_data = hashes.external_data

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _effective(self) -> PerfEffective:
        assert self.document.effective is not None
        return self.document.effective

    def phase(self, name: str, expect_s: float = 0.0) -> None:
        if self.observer is not None:
            self.observer.phase(name, expect_s)

    def warn(self, code: str, message: str) -> None:
        self.document.warnings.append(Notice(code=code, message=message))

    def fail(self, error: WinMLError) -> None:
        """Put a failure into the document, beside what is there already."""
        if self.document.placement is None and isinstance(error.details.get("placement"), dict):
            self.document.placement = msgspec.convert(error.details["placement"], Placement)
        note_failure(self.document, error)


def _requested(request: PerfRequest) -> PerfRequested:
    fields = {**asdict(request), "dims": request.dims, "shapes": request.shapes}
    return msgspec.convert(msgspec.to_builtins(fields), PerfRequested)


def _threads(asked: int | None) -> tuple[int | None, int | None, str]:
    """Intra-op threads to set in the session (None: leave ONNX Runtime's default), how many that are, and the rule.

    ONNX Runtime takes one thread per physical core of the machine and pins them; where fewer CPUs may be used
    (affinity, container quota) that fails or oversubscribes, so the number is set.
    """
    if asked is not None:
        return asked, asked, "as asked"
    available, cores = environment.available_cpus(), environment.physical_cores()
    if available < (os.cpu_count() or 1):
        count = min(available, cores or available)
        return count, count, "CPUs available to this process"
    return None, cores, "ONNX Runtime's default: physical cores"


def _asked_precision(text: str | None) -> str | None:
    return None if text in (None, "auto") else text
