"""The console script: ``winml perf`` starts its worker before anything else, click included, is imported.

The worker takes some 250 ms to load ONNX Runtime, and click and the rest of the command 150 ms: side by side they cost
only the longer of the two. Every other command line goes straight to ``cli``.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    words = sys.argv[1:]
    if words[:1] != ["perf"] or len(words) == 1 or not {"-h", "--help"}.isdisjoint(words):
        _run()
    from winml.modelkit.perf.phases import PRELOAD
    from winml.modelkit.worker import launched, start

    try:
        folder = start.log_folder()
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - pathlib would cost more than all this
        log = start.log_path(folder, "perf")
        process = start.start_process(PRELOAD, log)
    except OSError:
        # No place for its log, or no process to be had: the command starts it later and says what is wrong.
        _run()
    launched.keep(process, log)
    try:
        _run()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _run() -> NoReturn:
    from winml.modelkit import cli

    cli.main()
