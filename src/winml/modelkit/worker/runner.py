"""The parent's side: start the child, follow its events, keep its time, tell how it died."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from winml.modelkit.errors import Interrupted, WinMLError, WorkerCrashed, WorkerTimedOut, error_from_dict
from winml.modelkit.worker import spool
from winml.modelkit.worker.start import start_process

PHASE_TIMEOUT_S = 300.0
"""How long one phase of a job may stay silent beyond what it announced, where the caller set no limit of its own."""

_GRACE_S = 5.0
_LAST_LINES = 12

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Job:
    """What to run in the child.

    Attributes:
        target: ``package.module:function``; the function takes ``(args, context)`` and returns plain data.
        args: plain data that JSON can carry.
    """

    target: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobResult:
    """What the child sent back, and where its native output is.

    Attributes:
        value: the job function's return value.
        log: file with everything the child and its libraries printed.
        pid: process id the child had.
    """

    value: dict[str, Any]
    log: Path
    pid: int


class Worker:
    """One child process that is started early and given its job later, so that its imports overlap our own work.

    Use it as a context manager: leaving the block ends the child, whatever happened. On Linux the child is tied to
    the thread that started it (PR_SET_PDEATHSIG), so that thread must stay until the child has ended.

    Args:
        preload: modules the child imports while it waits for the job.
        name: goes into the name of the log file.
        started: a process of ``start_process`` and its log, to take over in place of starting one.
    """

    def __init__(
        self,
        *,
        preload: Sequence[str] = (),
        name: str = "job",
        started: tuple[subprocess.Popen[bytes], str] | None = None,
    ) -> None:
        if started is None:
            log = str(spool.new_log(name))
            started = start_process(preload, log), log
        self._process = started[0]
        self.log = Path(started[1])
        self._events: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._pump, name="worker-events", daemon=True)
        self._reader.start()

    def _pump(self) -> None:
        stdout = self._process.stdout
        # Closed under our hands only if something the child left behind keeps the pipe open.
        with contextlib.suppress(ValueError, OSError):
            if stdout is not None:
                for line in stdout:
                    self._events.put(line)
        self._events.put(None)

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    def run(
        self,
        job: Job,
        *,
        timeout: float | None = None,
        phase_timeout: float = PHASE_TIMEOUT_S,
        on_event: Callable[[Event], None] | None = None,
        stop: threading.Event | None = None,
    ) -> JobResult:
        """Give the child its job and follow it to the end.

        Args:
            job: what to run.
            timeout: limit for the whole job in seconds, or None.
            phase_timeout: without ``timeout``: longest silence in seconds, beyond three times what a phase announced.
            on_event: called in this thread with every event but the last.
            stop: ends the child within half a second when another thread sets it.

        Raises:
            Interrupted: ``stop`` was set.
            WinMLError: what the job itself reported, with its own kind and exit code.
            WorkerCrashed: the child was ended by a signal or left without a result.
            WorkerTimedOut: it was ended at the limit.
        """
        started = time.monotonic()
        deadline = started + (phase_timeout if timeout is None else timeout)
        phase = "start"
        self._send(job)
        while True:
            line = self._next(deadline, stop)
            if line is _STOPPED:
                self.kill()
                raise Interrupted("the work was interrupted")
            if line is _TIMEOUT:
                self.kill()
                raise self._timed_out(time.monotonic() - started, phase)
            event = None if line is None else _parse(line)
            if event is None:
                raise self._death(phase)
            kind = event.get("event")
            if kind == "result":
                return JobResult(dict(event["value"]), self.log, self.pid)
            if kind == "error":
                error = error_from_dict(event["error"])
                error.details.setdefault("log", str(self.log))
                raise error
            if kind == "phase":
                phase = str(event["name"])
            if timeout is None:
                deadline = time.monotonic() + phase_timeout + 3 * float(event.get("expect_s") or 0.0)
            if on_event is not None:
                on_event(event)

    def _send(self, job: Job) -> None:
        stdin = self._process.stdin
        line = json.dumps({"target": job.target, "args": dict(job.args)}).encode() + b"\n"
        # A child that died already is reported by its missing answer.
        with contextlib.suppress(BrokenPipeError, OSError):
            if stdin is not None:
                stdin.write(line)
                stdin.flush()

    def _next(self, deadline: float, stop: threading.Event | None) -> bytes | None:
        """The next line, None at the end of the stream, or a mark for the time limit or a stop. Waits in slices:
        Windows delivers Ctrl-C only between waits."""
        while True:
            if stop is not None and stop.is_set():
                return _STOPPED
            left = deadline - time.monotonic()
            if left <= 0:
                return _TIMEOUT
            try:
                return self._events.get(timeout=min(left, 0.5))
            except queue.Empty:
                continue

    def last_lines(self) -> list[str]:
        """The last native lines of the child's log."""
        return spool.tail(self.log, _LAST_LINES)

    def _death(self, phase: str) -> WinMLError:
        try:
            code = self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        how, name = describe_exit(code)
        return WorkerCrashed(
            f"the worker process {how} during: {phase}",
            code="crashed" if name else "ended_early",
            hint=f"its native output is in {self.log}",
            details={
                "exit_code": code,
                "signal": name,
                "phase": phase,
                "last_lines": self.last_lines(),
                "log": str(self.log),
            },
        )

    def _timed_out(self, after: float, phase: str) -> WinMLError:
        return WorkerTimedOut(
            f"the worker process gave no answer and was ended after {after:.1f} s, during: {phase}",
            hint=f"its native output is in {self.log}; a larger --timeout lets it run longer",
            details={
                "after_s": round(after, 3),
                "phase": phase,
                "last_lines": self.last_lines(),
                "log": str(self.log),
            },
        )

    def kill(self) -> None:
        """End the child and what it started."""
        if self._process.poll() is None:
            if sys.platform != "win32":
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()

    def close(self) -> None:
        """End the child if it still runs, and collect it."""
        self.kill()
        self._process.wait()
        self._reader.join(1.0)
        for pipe in (self._process.stdin, self._process.stdout):
            _close(pipe)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_TIMEOUT = b"\0timeout"
_STOPPED = b"\0stopped"


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):
            pipe.close()


def _parse(line: bytes) -> Event | None:
    """One event; None for a line that was cut off by the child's death."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


_WINDOWS_STATUS = {
    0xC0000005: "access violation",
    0xC000001D: "illegal instruction",
    0xC0000094: "integer division by zero",
    0xC00000FD: "stack overflow",
    0xC0000135: "DLL not found",
    0xC0000139: "entry point not found",
    0xC0000142: "DLL initialisation failed",
    0xC0000374: "heap corruption",
    0xC0000409: "fail-fast or stack buffer overrun",
}


def describe_exit(code: int) -> tuple[str, str | None]:
    """How a process ended, in words, and the name of the signal or NTSTATUS if there was one.

    >>> describe_exit(-11)
    ('was ended by signal 11 (SIGSEGV)', 'SIGSEGV')
    """
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"was ended by signal {-code} ({name})", name
    status = _WINDOWS_STATUS.get(code & 0xFFFFFFFF)
    if status:
        return f"was ended by exception 0x{code & 0xFFFFFFFF:08X} ({status})", status
    return f"left early with exit code {code} and without a result", None


def run_job(
    job: Job,
    *,
    timeout: float | None = None,
    phase_timeout: float = PHASE_TIMEOUT_S,
    on_event: Callable[[Event], None] | None = None,
    stop: threading.Event | None = None,
    preload: Sequence[str] = ("onnxruntime",),
    name: str = "job",
) -> JobResult:
    """Run one job in a fresh child process; see ``Worker.run`` for limits and errors."""
    with Worker(preload=preload, name=name) as worker:
        return worker.run(job, timeout=timeout, phase_timeout=phase_timeout, on_event=on_event, stop=stop)
