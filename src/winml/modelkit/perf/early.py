"""Start the worker of ``perf`` before anything else is imported, so that it loads ONNX Runtime meanwhile."""

from __future__ import annotations

from winml.modelkit.worker.runner import Worker

PRELOAD = (
    "onnxruntime",
    "winml.modelkit.perf.job",
    "winml.modelkit.perf.inputs",
    "winml.modelkit.perf.loop",
    "winml.modelkit.onnx.files",
)


def start_worker() -> Worker:
    """A worker that gets its job later; use it as a context manager."""
    return Worker(preload=PRELOAD, name="perf")


_kept: list[Worker] = []


def keep(worker: Worker) -> None:
    """Leave a worker that was started already for ``take_worker``; whoever started it closes it."""
    _kept.append(worker)


def take_worker() -> Worker:
    """The worker that was started before the command was known, or a new one."""
    return _kept.pop() if _kept else start_worker()
