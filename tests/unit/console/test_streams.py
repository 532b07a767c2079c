"""Streams that take every character: degrading, closed descriptors, looks."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.console import streams

ANY_TEXT = st.text(alphabet=st.characters(codec=None))


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    streams.prepare()
    yield


@pytest.mark.parametrize(
    ("text", "ascii_text"),
    [
        ("53/53 nodes · p50 6.1 ms", "53/53 nodes | p50 6.1 ms"),
        ("20 µs … ± ≤ ≥ × → –", "20 us ... +/- <= >= x -> -"),
        ("│─┌┐╭┼", "|-++++"),
        ("é", "\\xe9"),
        ("\udcff", "\\udcff"),
        ("plain", "plain"),
    ],
)
def test_i02_characters_degrade_to_their_nearest_ascii_form(text: str, ascii_text: str) -> None:
    assert text.encode("ascii", streams.ERRORS).decode("ascii") == ascii_text


def test_i02_only_what_is_lacking_degrades() -> None:
    assert "é·→".encode("cp1252", streams.ERRORS).decode("cp1252") == "é·->"


@given(text=ANY_TEXT, encoding=st.sampled_from(["ascii", "cp1252", "latin-1", "cp437", "utf-8", "shift_jis"]))
def test_i02_every_text_can_be_written_in_every_encoding(text: str, encoding: str) -> None:
    assert isinstance(text.encode(encoding, streams.ERRORS), bytes)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"


def test_look_of_a_pipe_has_no_width_and_no_color() -> None:
    look = streams.look_of(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert look == streams.Look(terminal=False, color=False, unicode=False, width=None)


@pytest.mark.parametrize(
    ("env", "terminal", "color"),
    [
        ({"TERM": "xterm-256color"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_look_of_a_terminal(env: dict[str, str], terminal: bool, color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "77")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert streams.look_of(Terminal()) == streams.Look(terminal, color, True, 77)


def test_look_of_no_stream() -> None:
    assert streams.look_of(None).width is None


CLOSED = """
import os
from winml.modelkit.console import streams
streams.prepare()
file = os.open({path!r}, os.O_WRONLY | os.O_CREAT, 0o600)
assert file > 2, file
streams.write_out("out\\n")
streams.write_err("err\\n")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="shell redirection of POSIX")
@pytest.mark.parametrize("redirect", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_i09_closed_descriptors_never_become_files_of_ours(redirect: str, tmp_path: object) -> None:
    code = CLOSED.format(path=f"{tmp_path}/file")
    done = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {redirect}', sys.executable, code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("Traceback" in done.stderr) is False


def test_a_reader_that_left_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w", encoding="utf-8") as stream:  # noqa: PTH123 - a descriptor, no path
        monkeypatch.setattr(sys, "stdout", stream)
        streams.write_out("x" * 100_000)
        streams.write_out("y")


def test_stderr_that_cannot_be_written_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.exists("/dev/full"):  # noqa: PTH110
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w", encoding="utf-8") as stream:  # noqa: PTH123
        monkeypatch.setattr(sys, "stderr", stream)
        streams.write_err("x")
        monkeypatch.setattr(sys, "stdout", stream)
