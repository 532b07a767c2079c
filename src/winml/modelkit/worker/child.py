"""The child's side: ``python -m winml.modelkit.worker.child [MODULE ...]``.

The parent gives the job as one JSON line on stdin and keeps stdin open as a sign of life; events go back as JSON lines
on the pipe that was fd 1 at the start. fd 2 is the spool file from the first instruction on, and fd 1 becomes it
before any vendor code is loaded, so that nothing a library prints can reach the parent's channel.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO

from winml.modelkit import memory
from winml.modelkit.errors import WinMLError


class JobContext:
    """What a job function may use besides its arguments.

    Attributes:
        rss_at_start: resident bytes before anything but the interpreter was loaded, or None.
        preload_s: seconds that the modules took which were imported while waiting for the job.
    """

    def __init__(self, channel: BinaryIO, rss_at_start: int | None) -> None:
        self._channel = channel
        self.rss_at_start = rss_at_start
        self.preload_s = 0.0

    def emit(self, event: str, **data: Any) -> None:
        """Send one event to the parent. Never called inside a timing loop."""
        line = json.dumps({"event": event, **data}, separators=(",", ":"))
        self._channel.write(line.encode("utf-8", "surrogatepass") + b"\n")
        self._channel.flush()

    def phase(self, name: str, *, expect_s: float = 0.0) -> None:
        """Say that a phase begins; ``expect_s`` is how long it will take as far as that can be told, in seconds."""
        self.emit("phase", name=name, expect_s=expect_s)


JobFunction = Callable[[dict[str, Any], JobContext], dict[str, Any]]


def _take_channel() -> BinaryIO:
    """Keep the parent's pipe under a private number, and point fd 1 at the spool that fd 2 already is."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return channel


def _die_with_parent() -> None:
    """Linux: be killed when the parent dies, also while native code holds the interpreter (prctl(2))."""
    if sys.platform == "linux":
        import ctypes
        import signal

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def _leave_when_parent_leaves(stdin: BinaryIO) -> None:
    """Everywhere: stdin ends when the parent is gone."""
    import threading

    def watch() -> None:
        stdin.read()
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def _find(target: str) -> JobFunction:
    import importlib

    module, _, function = target.partition(":")
    found: JobFunction = getattr(importlib.import_module(module), function)
    return found


def _preload(modules: list[str]) -> None:
    import gc
    import importlib

    # Imports make objects that stay; collecting in between finds nothing and costs a few percent.
    gc.disable()
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            # The job itself imports it again and reports; here it is only a head start.
            sys.stderr.write(f"preload of {name}: {error}\n")
    gc.enable()


def _import_failure(error: ImportError) -> WinMLError:
    return WinMLError(
        f"a package that this job needs does not import: {error}",
        code="import_failed",
        hint="reinstall it in this environment: pip install --force-reinstall winml-cli onnxruntime",
        details={"module": error.name},
    )


def main() -> None:
    """Run one job and leave without native clean-up, which vendor libraries are known to crash in."""
    rss = memory.rss_bytes()
    channel = _take_channel()
    _die_with_parent()
    import faulthandler

    faulthandler.enable()
    context = JobContext(channel, rss)
    started = time.perf_counter()
    _preload(sys.argv[1:])
    context.preload_s = time.perf_counter() - started
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(1)
    job = json.loads(line)
    _leave_when_parent_leaves(sys.stdin.buffer)
    code = 0
    try:
        result = _find(job["target"])(job["args"], context)
        context.emit("result", value=result)
    except WinMLError as error:
        context.emit("error", error=error.to_dict())
    except ImportError as error:
        context.emit("error", error=_import_failure(error).to_dict())
    except Exception as error:  # noqa: BLE001 - reported to the parent as a fault of ours, with the traceback in the log
        import traceback

        traceback.print_exc()
        fault = WinMLError(
            f"internal error: {type(error).__name__}: {error}",
            code="internal",
            hint="this is a fault of winml itself; the log has the details",
        )
        context.emit("error", error=fault.to_dict())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
