"""One content, two looks."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winml.modelkit.console.layout import Cell, Column, Lines, Row, Table, draw, one_line
from winml.modelkit.console.streams import Look

PIPE = Look(terminal=False, color=False, unicode=True, width=None)
DUMB_80 = Look(terminal=False, color=False, unicode=False, width=80)
PLAIN_80 = Look(terminal=True, color=False, unicode=True, width=80)
PLAIN_160 = Look(terminal=True, color=False, unicode=True, width=160)
COLOR_80 = Look(terminal=True, color=True, unicode=True, width=80)

PATH = "/opt/" + "a-long-folder-name/" * 8 + "library.so"


def table() -> Table:
    return Table(
        "Things",
        [Column("Name"), Column("Count", right=True)],
        [
            Row([Cell("alpha", "good"), Cell("7")], [Cell("works"), Cell(PATH)]),
            Row([Cell("b"), Cell("1234")], [Cell("does not\nwork at all")]),
        ],
    )


def test_plain_aligns_columns_and_puts_details_last() -> None:
    assert draw([table()], PIPE).splitlines() == [
        "Things",
        "  Name   Count  Details",
        f"  alpha      7  works; {PATH}",
        "  b       1234  does not; work at all",
    ]


def test_terminal_puts_long_details_below_their_row() -> None:
    lines = draw([table()], PLAIN_80).splitlines()
    assert lines[:5] == ["Things", "  Name   Count", "  ────────────", "  alpha      7", "    works"]
    assert "".join(line.strip() for line in lines[5:8]) == PATH
    assert lines[8:] == ["  b       1234", "    does not; work at all"]


def test_terminal_puts_short_details_beside_their_row() -> None:
    short = Table("T", [Column("A")], [Row([Cell("x")], [Cell("some words")])], details="More")
    assert draw([short], PLAIN_160).splitlines() == ["T", "  A  More", "  ─────────────", "  x  some words"]


def test_i02_terminal_without_unicode_is_ascii() -> None:
    assert draw([table()], DUMB_80).isascii()


def test_i09_no_escape_codes_without_color() -> None:
    for look in (PIPE, DUMB_80, PLAIN_80, PLAIN_160):
        assert "\x1b" not in draw([table(), Lines("L", [Cell("x", "alarm")])], look)
    assert "\x1b[32m" in draw([table()], COLOR_80)


def test_empty_table_says_so() -> None:
    for look in (PIPE, PLAIN_80):
        assert draw([Table("Things", [Column("Name")])], look) == "Things: none\n"


def test_absent_text_is_a_dash() -> None:
    assert (
        draw([Table("T", [Column("A"), Column("B")], [Row([Cell(""), Cell("x")])])], PIPE).splitlines()[-1] == "  -  x"
    )


def test_lines_with_and_without_a_title() -> None:
    assert draw([Lines(None, [Cell("a")]), Lines("T", [Cell("b")])], PIPE) == "a\n\nT\n  b\n"


@pytest.mark.parametrize("look", [PLAIN_80, PLAIN_160, DUMB_80])
def test_nothing_is_cut_and_no_line_is_too_long(look: Look) -> None:
    wide = Table("Wide", [Column(f"Column {n}") for n in range(9)], [Row([Cell(f"word{n} " * 9) for n in range(9)])])
    text = draw([wide, table()], look)
    assert look.width is not None
    assert max(map(len, text.splitlines())) <= look.width
    for number in range(9):
        assert len(re.findall(f"w\\s*o\\s*r\\s*d\\s*{number}", text)) or f"{number}" in text
    assert "…" not in text


def test_markup_in_a_text_is_shown_as_it_is() -> None:
    assert "[bold]x[/bold] :smile:" in draw([Lines(None, [Cell("[bold]x[/bold] :smile:")])], COLOR_80)


@given(st.text())
def test_one_line_is_one_line_of_printable_text(text: str) -> None:
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert line.isprintable()


@given(st.lists(st.text(min_size=1), min_size=1, max_size=4))
def test_plain_rows_are_one_line_each(texts: list[str]) -> None:
    drawn = draw([Table("T", [Column("A")], [Row([Cell(text)], [Cell(text)]) for text in texts])], PIPE)
    assert len(drawn.splitlines()) == 2 + len(texts)
