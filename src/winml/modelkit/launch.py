"""The console script: ``winml perf`` starts its worker before anything else, click included, is imported.

The worker takes some 300 ms to load ONNX Runtime, and click some 50 ms: side by side they cost only the longer of the
two. Every other command line goes straight to ``cli``.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    words = sys.argv[1:]
    if words[:1] != ["perf"] or not {"-h", "--help"}.isdisjoint(words) or len(words) == 1:
        _run()
    from winml.modelkit.perf import early

    try:
        worker = early.start_worker()
    except OSError:
        # No place for its log, or no process to be had: the command says so in its own way.
        _run()
    with worker:
        early.keep(worker)
        _run()


def _run() -> NoReturn:
    from winml.modelkit import cli

    cli.main()
