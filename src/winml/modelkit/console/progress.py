"""Progress of long work on stderr: one line that is written over on a terminal, plain lines elsewhere.

Nothing shows before the work has lasted a moment, so quick commands stay silent, and rich is imported only then, in
this module's own thread. What is shown changes at most four times a second: the work may be a measurement.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from winml.modelkit.console.layout import one_line
from winml.modelkit.console.streams import Look, look_of, write_err

if TYPE_CHECKING:
    from rich.console import RenderableType

    from winml.modelkit.session.monitor.hw_monitor import Reading

__all__ = ["Progress"]

_SHOW_AFTER_S = 1.0
_PLAIN_AFTER_S = 2.0
_REFRESH_PER_S = 4


class Progress:
    """Use it around the work and call ``phase`` at every step.

    Args:
        quiet: show nothing.
        plain: where no line can be written over (pipes, NO_COLOR), print one for every phase of more than two
            seconds.
        look: how stderr may look; found out if None.
    """

    def __init__(self, *, quiet: bool = False, plain: bool = True, look: Look | None = None) -> None:
        look = look or look_of(sys.stderr)
        self._look = look
        self._live_look = look.terminal and look.color  # NO_COLOR asks for no escape codes, and these are some
        self._silent = quiet or not (self._live_look or plain)
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._over = False
        self._name = ""
        self._note = ""
        self._expect_s = 0.0
        self._started = self._phase_started = time.monotonic()
        self._thread: threading.Thread | None = None
        self._below: RenderableType | None = None

    def __enter__(self) -> Self:
        self._started = self._phase_started = time.monotonic()
        if not self._silent:
            work = self._live if self._live_look else self._lines
            self._thread = threading.Thread(target=work, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._changed.set()
        if self._thread is not None:
            self._thread.join()

    def phase(self, name: str, expect_s: float = 0.0) -> None:
        """A step begins; ``expect_s`` is how long it will take in seconds, as far as that is known, else 0."""
        with self._lock:
            self._name, self._expect_s, self._note = one_line(name), expect_s, ""
            self._phase_started = time.monotonic()
        self._changed.set()

    def note(self, text: str) -> None:
        """What was just done within the phase; shown beside it. May be called in any thread."""
        with self._lock:
            self._note = one_line(text)

    def watching(self, latest: Callable[[], Mapping[str, Reading]]) -> None:
        """Hardware counters are read from now on; a terminal shows them below the line of progress."""
        from winml.modelkit.console.live_chart import HardwareChart

        self._below = HardwareChart(latest, unicode=self._look.unicode)

    # --- plain lines ------------------------------------------------------------------------------------------

    def _lines(self) -> None:
        told = ""
        while not self._over:
            with self._lock:
                name, started, expect_s = self._name, self._phase_started, self._expect_s
            left = started + _PLAIN_AFTER_S - time.monotonic()
            waiting = bool(name) and name != told
            if waiting and left <= 0:
                about = f" (about {_seconds(expect_s)})" if expect_s >= _PLAIN_AFTER_S else ""
                write_err(f"{name}{about} ...\n")
                told = name
                continue
            self._changed.wait(left if waiting else None)
            self._changed.clear()

    # --- a terminal -------------------------------------------------------------------------------------------

    def _live(self) -> None:
        deadline = self._started + _SHOW_AFTER_S
        while not self._over and (left := deadline - time.monotonic()) > 0:
            self._changed.wait(left)
            self._changed.clear()
        if self._over:
            return
        try:
            self._show_live()
        except (OSError, ImportError):
            return  # the terminal went away, or rich is damaged, which the report will say; the work goes on

    def _show_live(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(
            file=sys.stderr,
            force_terminal=True,
            color_system="standard",
            highlight=False,
            markup=False,
            emoji=False,
        )
        view = Live(
            get_renderable=self._view,
            console=console,
            refresh_per_second=_REFRESH_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        with view:
            while not self._over:
                self._changed.wait()
                self._changed.clear()

    def _view(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        line = self._line()
        if self._below is None:
            return line
        if isinstance(line, Text):
            line.end = "\n"
        return Group(line, self._below)

    def _line(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        with self._lock:
            name, note, expect_s, since = self._name, self._note, self._expect_s, now - self._phase_started
        line = Text(f"{_seconds(now - self._started):>6}  ", style="dim", no_wrap=True, overflow="ellipsis", end="")
        line.append(name or "working", style="not dim")
        if expect_s < _PLAIN_AFTER_S:
            line.append(f"  {note}")
            return line
        left = expect_s - since
        line.append(f"  about {_seconds(left)} left" if left > 0 else "  longer than expected")
        if not self._look.unicode:
            return line
        grid = Table.grid(padding=(0, 1))
        grid.add_row(line, ProgressBar(total=expect_s, completed=min(since, expect_s), width=24))
        return grid


def _seconds(value: float) -> str:
    """``8 s``, ``2 min 05 s``."""
    whole = max(0, round(value))
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"
