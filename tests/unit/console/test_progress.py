"""Progress: on a terminal one line, elsewhere plain lines, and never in the way."""

from __future__ import annotations

import threading
import time

import pytest

from winml.modelkit.console import progress
from winml.modelkit.console.progress import Progress
from winml.modelkit.console.streams import Look

PIPE = Look(terminal=False, color=False, unicode=True, width=None)
TERMINAL = Look(terminal=True, color=True, unicode=True, width=80)
NO_COLOR = Look(terminal=True, color=False, unicode=True, width=80)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_SHOW_AFTER_S", 0.05)
    monkeypatch.setattr(progress, "_PLAIN_AFTER_S", 0.1)


def test_quick_work_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for look in (PIPE, TERMINAL):
        with Progress(look=look) as shown:
            shown.phase("quick")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_quick")
def test_plain_lines_only_for_phases_that_last(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(look=PIPE) as shown:
        shown.phase("first")
        time.sleep(0.4)
        shown.phase("short")
        shown.phase("second", 30.0)
        time.sleep(0.4)
    assert capsys.readouterr().err == "first ...\nsecond (about 30 s) ...\n"


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize("options", [{"quiet": True}, {"plain": False}])
def test_quiet_and_not_plain_show_nothing_in_a_pipe(
    capsys: pytest.CaptureFixture[str], options: dict[str, bool]
) -> None:
    with Progress(look=PIPE, **options) as shown:
        shown.phase("first")
        time.sleep(0.3)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_quick")
def test_i10_quiet_shows_nothing_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(look=TERMINAL, quiet=True) as shown:
        shown.phase("first")
        time.sleep(0.3)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_quick")
def test_i09_no_color_means_plain_lines_without_escape_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(look=NO_COLOR) as shown:
        shown.phase("first")
        time.sleep(0.4)
    assert capsys.readouterr().err == "first ...\n"


@pytest.mark.usefixtures("_quick")
def test_terminal_shows_phase_estimate_and_note_and_cleans_up(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(look=TERMINAL) as shown:
        shown.phase("trying libraries")
        shown.note("done: libx.so")
        time.sleep(0.8)
        shown.phase("measure", 20.0)
        time.sleep(0.5)
    text = capsys.readouterr().err
    assert "trying libraries" in text
    assert "done: libx.so" in text
    assert "about 20 s left" in text or "about 19 s left" in text
    assert text.rstrip().endswith("\x1b[2K")  # the line is gone
    assert "\x1b[?25h" in text  # the cursor is back


def test_no_thread_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(look=PIPE) as shown:
        shown.phase("x")
        assert any(thread.name == "progress" for thread in threading.enumerate())
    assert not any(thread.name == "progress" for thread in threading.enumerate())


def test_leaves_with_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Progress(look=PIPE) as shown:
        shown.phase("x")
        raise KeyboardInterrupt
    assert not any(thread.name == "progress" for thread in threading.enumerate())
