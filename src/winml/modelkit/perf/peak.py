"""Peak memory of the worker seen from outside, where the system keeps no high-water mark that can be reset."""

from __future__ import annotations

import threading

INTERVAL_S = 0.02


class PeakSampler:
    """Samples the resident memory of another process in a thread of this one until stopped.

    Args:
        pid: the process to watch.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._peak: int | None = None
        self._thread = threading.Thread(target=self._watch, name="peak-sampler", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        import psutil

        try:
            process = psutil.Process(self._pid)
            while not self._stop.is_set():
                self._peak = max(self._peak or 0, int(process.memory_info().rss))
                self._stop.wait(INTERVAL_S)
        except psutil.Error:
            # The process is gone; what was seen until then stands.
            return

    def stop(self) -> int | None:
        """Stop, and give the highest resident bytes seen; None if there was nothing to see."""
        self._stop.set()
        self._thread.join()
        return self._peak
