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
