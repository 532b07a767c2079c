"""Start a worker process. Imports next to nothing: ``winml perf`` does this before anything else."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_numbers = itertools.count(1)


def log_folder() -> str:
    """The per-user folder of native logs.

    On Linux this is what ``platformdirs.user_log_dir("winml")`` gives, without importing it; a test holds the two
    against each other.
    """
    if sys.platform == "linux":
        state = os.environ.get("XDG_STATE_HOME", "").strip()
        return os.path.join(state or os.path.expanduser("~/.local/state"), "winml", "log")  # noqa: PTH111, PTH118
    import platformdirs

    return platformdirs.user_log_dir("winml", appauthor=False)


def log_path(folder: str, name: str) -> str:
    """A new name for a log in this folder; names sort by time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return os.path.join(folder, f"{stamp}-{os.getpid()}-{next(_numbers)}-{name}.log")  # noqa: PTH118


def start_process(preload: Sequence[str], log: str) -> subprocess.Popen[bytes]:
    """A child that waits for its job, its stderr on the log from the first instruction on.

    Args:
        preload: modules it imports meanwhile.
        log: file that is made for it.

    Raises:
        OSError: no log, or no process.
    """
    flags = 0
    if sys.platform == "win32":
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    with open(log, "wb") as sink:  # noqa: PTH123 - pathlib would cost more than the rest of this module
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "winml.modelkit.worker.child", *preload],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            env={**os.environ, "PYTHONIOENCODING": "utf-8:backslashreplace"},
            # A group of its own, so that Ctrl-C reaches only us and we can end the child with all that it started.
            start_new_session=sys.platform != "win32",
            creationflags=flags,
        )
