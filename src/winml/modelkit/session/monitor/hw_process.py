"""Counters that every machine has: CPU and memory of the watched process and of the system, through psutil."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from winml.modelkit.session.monitor.hw_source import Clock, ProcessGone, Rate, Source, Unavailable

if TYPE_CHECKING:
    import psutil


def find_process(pid: int) -> psutil.Process:
    """The process to watch.

    Raises:
        Unavailable: there is none.
    """
    import psutil

    try:
        return psutil.Process(pid)
    except psutil.Error as error:
        raise Unavailable(f"there is no process {pid}") from error


class ProcessSource(Source):
    """CPU time and resident memory of one process.

    CPU is in percent of one CPU: 400 is four CPUs, fully used.
    """

    counters: ClassVar[tuple[str, ...]] = ("process_cpu", "process_rss")

    def __init__(self, process: psutil.Process, clock: Clock = time.monotonic) -> None:
        super().__init__()
        self._process = process
        self._clock = clock
        self._cpu = Rate()
        self.gives = {"process_cpu": "psutil: CPU time of all threads", "process_rss": "psutil: resident set"}

    def read(self) -> dict[str, float]:
        import psutil

        try:
            with self._process.oneshot():
                ended = self._process.status() == psutil.STATUS_ZOMBIE
                times, memory = self._process.cpu_times(), self._process.memory_info()
        except psutil.NoSuchProcess as error:
            raise ProcessGone from error
        if ended or memory.rss == 0:  # a process that is being ended gives its memory back first
            raise ProcessGone
        values = {"process_rss": float(memory.rss)}
        cpus = self._cpu.of(times.user + times.system, self._clock())
        if cpus is not None:
            values["process_cpu"] = 100 * cpus
        return values


class UniqueMemorySource(Source):
    """Memory that only this process has (USS).

    The kernel walks all its pages for it (25 ms for 1 GiB), and the process may have to wait meanwhile: read every
    second, this alone would cost more than everything else together.
    """

    counters: ClassVar[tuple[str, ...]] = ("process_uss",)
    every_s: ClassVar[float] = 5.0

    def __init__(self, process: psutil.Process) -> None:
        super().__init__()
        self._process = process
        self.gives = {"process_uss": "psutil: unique set, when a phase begins and every 5 s"}

    def read(self) -> dict[str, float]:
        import psutil

        try:
            uss = self._process.memory_full_info().uss
        except psutil.NoSuchProcess as error:
            raise ProcessGone from error
        except psutil.AccessDenied as error:
            raise PermissionError("the system does not let this user see it") from error
        if uss == 0:  # it ended in between
            raise ProcessGone
        return {"process_uss": float(uss)}


class SystemSource(Source):
    """CPU and memory of the whole machine, containers and limits not considered."""

    counters: ClassVar[tuple[str, ...]] = ("system_cpu", "system_memory")

    def __init__(self, clock: Clock = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._busy = Rate()
        self._all = Rate()
        self.gives = {"system_cpu": "psutil: CPU time not idle", "system_memory": "psutil: total less available"}

    def read(self) -> dict[str, float]:
        import psutil

        times, memory = psutil.cpu_times(), psutil.virtual_memory()
        now = self._clock()
        # Linux counts guests' time in user and nice already.
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        idle = times.idle + getattr(times, "iowait", 0.0)
        values = {"system_memory": float(memory.total - memory.available)}
        busy, every = self._busy.of(total - idle, now), self._all.of(total, now)
        if busy is not None and every:
            values["system_cpu"] = min(100.0, max(0.0, 100 * busy / every))
        return values
