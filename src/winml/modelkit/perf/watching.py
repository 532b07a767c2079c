"""Hardware counters while the worker runs, sampled from this process so that the timing loop is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from winml.modelkit.perf.document import Hardware
from winml.modelkit.session.monitor.hw_device import watched_device
from winml.modelkit.session.monitor.hw_monitor import HardwareMonitor, Reading


class Watch:
    """Follows one worker after another; keeps what it had when a worker dies.

    A second worker (a repeated automatic choice, or a trace) is not watched: its figures would mix with the measured
    ones.
    """

    def __init__(self) -> None:
        self._monitor: HardwareMonitor | None = None

    def start(self, pid: int) -> None:
        """Begin with this process, unless one is watched already."""
        if self._monitor is None:
            self._monitor = HardwareMonitor(pid).start()

    def device(self, listed: Mapping[str, Any]) -> None:
        """The device that runs the model, as ``WinMLDevice.to_dict`` gives it."""
        if self._monitor is not None:
            self._monitor.watch(watched_device(listed))

    def phase(self, name: str) -> None:
        """A phase begins."""
        if self._monitor is not None:
            self._monitor.mark(name)

    def latest(self) -> dict[str, Reading]:
        """The counters now, for a live display."""
        return {} if self._monitor is None else self._monitor.latest()

    def stop(self) -> Hardware | None:
        """End, and give what was seen; None if nothing was watched."""
        return None if self._monitor is None else msgspec.convert(self._monitor.stop(), Hardware)
