"""The worker of ``perf``, started as early as can be."""

from __future__ import annotations

from winml.modelkit.perf.phases import PRELOAD
from winml.modelkit.worker import launched
from winml.modelkit.worker.runner import Worker


def start_worker() -> Worker:
    """A worker that gets its job later; use it as a context manager."""
    return Worker(preload=PRELOAD, name="perf")


def take_worker() -> Worker:
    """The worker that was started before the command was known, or a new one."""
    started = launched.take()
    return start_worker() if started is None else Worker(started=started)
