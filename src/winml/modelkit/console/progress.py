"""Progress of long work on stderr: one line that is written over on a terminal, plain lines elsewhere.

Nothing shows before the work has lasted a moment, so quick commands stay silent, and rich is imported only then, in
this module's own thread. What is shown changes at most four times a second: the work may be a measurement.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from winml.modelkit.console.layout import one_line
from winml.modelkit.console.streams import Look, look_of, write_err

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Progress"]

_SHOW_AFTER_S = 1.0
_PLAIN_AFTER_S = 2.0
_REFRESH_PER_S = 4


class Progress:
    """Use it around the work and call ``phase`` at every step.

    Args:
        quiet: show nothing.
        plain: print a line for every phase that lasts more than two seconds, where stderr is no terminal.
        look: how stderr may look; found out if None.
    """

    def __init__(self, *, quiet: bool = False, plain: bool = True, look: Look | None = None) -> None:
        look = look or look_of(sys.stderr)
        self._look = look
        self._plain = plain and not look.terminal
        self._silent = quiet or not (look.terminal or plain)
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._over = False
        self._name = ""
        self._note = ""
        self._expect_s = 0.0
        self._started = self._phase_started = time.monotonic()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._started = self._phase_started = time.monotonic()
        if not self._silent:
            work = self._lines if self._plain else self._live
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

    # --- plain lines ------------------------------------------------------------------------------------------

    def _lines(self) -> None:
        told = ""
        while not self._over:
            with self._lock:
                name, started, expect_s = self._name, self._phase_started, self._expect_s
            left = started + _PLAIN_AFTER_S - time.monotonic()
            if not name or name == told:
                left = None
            elif left <= 0:
                about = f" (about {_seconds(expect_s)})" if expect_s >= _PLAIN_AFTER_S else ""
                write_err(f"{name}{about} ...\n")
                told = name
                continue
            self._changed.wait(left)
            self._changed.clear()

    # --- a terminal -------------------------------------------------------------------------------------------

    def _live(self) -> None:
        deadline = self._started + _SHOW_AFTER_S
        while not self._over and (left := deadline - time.monotonic()) > 0:
            self._changed.wait(left)
            self._changed.clear()
        if self._over:
            return
        from rich.console import Console
        from rich.live import Live

        console = Console(
            file=sys.stderr,
            force_terminal=True,
            color_system="standard" if self._look.color else None,
            no_color=not self._look.color,
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
        try:
            with view:
                while not self._over:
                    self._changed.wait()
                    self._changed.clear()
        except OSError:
            return  # the terminal went away; the work goes on

    def _view(self) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        now = time.monotonic()
        with self._lock:
            name, note, expect_s, since = self._name, self._note, self._expect_s, now - self._phase_started
        grid = Table.grid(padding=(0, 1))
        cells: list[Any] = [Text(_seconds(now - self._started).rjust(6), style="dim"), Text(name or "working")]
        if expect_s >= _PLAIN_AFTER_S and self._look.unicode:
            cells.append(ProgressBar(total=expect_s, completed=min(since, expect_s), width=24))
        if expect_s >= _PLAIN_AFTER_S:
            left = expect_s - since
            cells.append(Text(f"about {_seconds(left)} left" if left > 0 else "longer than expected", style="dim"))
        elif note:
            cells.append(Text(note, style="dim"))
        for cell in cells:
            grid.add_column(no_wrap=True, overflow="ellipsis")
            _ = cell
        grid.add_row(*cells)
        return grid


def _seconds(value: float) -> str:
    """``8 s``, ``2 min 05 s``."""
    whole = max(0, round(value))
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60:02d} s"
