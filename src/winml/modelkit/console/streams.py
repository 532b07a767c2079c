"""Standard streams that take every character, on every terminal, closed or not. Standard library only.

A character that a stream's encoding lacks becomes its nearest ASCII form where there is one (``·`` a ``|``, box
drawing ``+-|``), else an escape. A descriptor that the caller closed is opened on the null device first of all, so
that no file of ours can come to lie on fd 1 or 2.
"""

from __future__ import annotations

import codecs
import os
import shutil
import sys
from dataclasses import dataclass
from typing import IO, TextIO

__all__ = ["Look", "discard", "look_of", "prepare", "write_err", "write_out"]

ERRORS = "winml.degrade"

_ASCII = {
    "\N{MIDDLE DOT}": "|",
    "\N{BULLET}": "*",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "--",
    "\N{MINUS SIGN}": "-",
    "\N{MULTIPLICATION SIGN}": "x",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{MICRO SIGN}": "u",
    "\N{GREEK SMALL LETTER MU}": "u",
    "\N{PLUS-MINUS SIGN}": "+/-",
    "\N{LESS-THAN OR EQUAL TO}": "<=",
    "\N{GREATER-THAN OR EQUAL TO}": ">=",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
}


def _degrade(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_ascii, error.object[error.start : error.end])), error.end


def _ascii(character: str) -> str:
    known = _ASCII.get(character)
    if known is not None:
        return known
    if 0x2500 <= ord(character) <= 0x259F:  # box drawing and block elements
        return {0x2500: "-", 0x2501: "-", 0x2550: "=", 0x2502: "|", 0x2503: "|", 0x2551: "|"}.get(ord(character), "+")
    return character.encode("ascii", "backslashreplace").decode("ascii")


@dataclass(frozen=True, slots=True)
class Look:
    """How text may look on a stream.

    Attributes:
        terminal: a person reads it on a terminal that can be written over (not ``TERM=dumb``).
        color: escape codes are welcome: a terminal, and no NO_COLOR.
        unicode: the encoding has every character.
        width: columns of the terminal; None where there is none, and lines may be as long as they like.
    """

    terminal: bool
    color: bool
    unicode: bool
    width: int | None


_done = False


def prepare() -> None:
    """Make fds 0 to 2 and ``sys.stdin/stdout/stderr`` usable, whatever the caller left of them. Done once."""
    global _done
    if _done:
        return
    _done = True
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # POSIX gives the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = _null()
    if sys.stderr is None:
        sys.stderr = _null()
    codecs.register_error(ERRORS, _degrade)
    # Windows gives redirected streams the ANSI code page, which no reader expects; elsewhere the locale is the
    # terminal's, and PYTHONIOENCODING is someone's wish everywhere.
    utf8 = sys.platform == "win32" and not os.environ.get("PYTHONIOENCODING")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8" if utf8 else None, errors=ERRORS)


def _null() -> TextIO:
    return open(os.devnull, "w", encoding="utf-8", errors="replace")  # noqa: PTH123 - stands in for a stream


def look_of(stream: IO[str] | None) -> Look:
    """How text may look on ``sys.stdout`` or ``sys.stderr``."""
    try:
        terminal = stream is not None and stream.isatty()
    except ValueError:  # closed by whoever embeds us
        terminal = False
    smart = terminal and os.environ.get("TERM", "").casefold() not in ("dumb", "unknown")
    color = smart and not os.environ.get("NO_COLOR") and _ansi_works()
    encoding = codecs.lookup(getattr(stream, "encoding", None) or "ascii").name
    width = shutil.get_terminal_size().columns if terminal else None
    return Look(smart, color, encoding.startswith("utf"), width)


def _ansi_works() -> bool:
    """Windows consoles take escape codes only where they are switched on (not seen on hardware)."""
    if sys.platform != "win32":
        return True
    import ctypes
    from ctypes import wintypes

    processing = 0x0004  # ENABLE_VIRTUAL_TERMINAL_PROCESSING
    kernel = ctypes.windll.kernel32
    handle = kernel.GetStdHandle(-11)
    mode = wintypes.DWORD()
    if not kernel.GetConsoleMode(handle, ctypes.byref(mode)):
        return True  # a terminal that is no console, such as mintty
    return bool(mode.value & processing or kernel.SetConsoleMode(handle, mode.value | processing))


def write_out(text: str) -> None:
    """Write to stdout and flush. A reader that left early is no failure: the rest is dropped.

    Raises:
        OSError: it can't be written, as on a full disk.
    """
    _write(sys.stdout, text)


def write_err(text: str) -> None:
    """Write to stderr and flush. Where that fails there is nobody to tell, and the exit code still counts."""
    try:
        _write(sys.stderr, text)
    except OSError:
        discard(sys.stderr)


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        discard(stream)


def discard(stream: TextIO) -> None:
    """Send what is left in a stream to the null device, so that the flush at exit does not fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, stream.fileno())
    except (OSError, ValueError):
        pass  # a stand-in without a descriptor
    finally:
        os.close(null)
