"""One content, two looks: by rich on a terminal, plain aligned text everywhere else.

A report is a list of blocks. On a terminal text wraps and nothing is cut; a row's details stand beside it where they
fit, and below it where they don't. Elsewhere every row is one line, however long, so that paths and names can be
searched for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from winml.modelkit.console.streams import Look

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["ABSENT", "Block", "Cell", "Column", "Lines", "Row", "Table", "draw", "one_line"]

ABSENT = "-"
"""How text shows a fact that is not known."""

Tone = Literal["", "good", "warn", "bad", "dim", "strong", "alarm"]

_STYLES = {
    "": "",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "dim": "dim",
    "strong": "bold",
    "alarm": "bold white on red",
}

_GAP = 2
_INDENT = 2
_BESIDE = 40
"""Columns that details need to stand beside their row."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One piece of text and its tone."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and whether it holds numbers."""

    title: str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One cell per column, and further lines about the row as a whole."""

    cells: Sequence[Cell]
    details: Sequence[Cell] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. A table without a row says ``empty`` instead."""

    title: str
    columns: Sequence[Column]
    rows: list[Row] = field(default_factory=list)
    details: str = "Details"
    empty: str = "none"


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines under a title, or without one."""

    title: str | None
    lines: Sequence[Cell]


Block = Table | Lines


def one_line(text: str) -> str:
    """The text on one line: line breaks become ``; ``, other control characters spaces.

    >>> one_line("missing x" + chr(10) + "  see log")
    'missing x; see log'
    """
    joined = "; ".join(line.strip() for line in text.splitlines() if line.strip())
    return "".join(character if character.isprintable() else " " for character in joined)


def draw(blocks: Sequence[Block], look: Look) -> str:
    """All blocks as text that ends in a line break, one empty line between blocks."""
    if look.width is None:
        return "\n".join(map(_plain, blocks))
    return _Terminal(look, look.width).draw(blocks)


def _text(cell: Cell) -> str:
    return one_line(cell.text) or ABSENT


def _heading(table: Table) -> str:
    return table.details if any(row.details for row in table.rows) else ""


# --- plain --------------------------------------------------------------------------------------------------


def _plain(block: Block) -> str:
    if isinstance(block, Lines):
        head = [block.title] if block.title else []
        indent = " " * _INDENT if block.title else ""
        return "".join(f"{line}\n" for line in [*head, *(indent + _text(cell) for cell in block.lines)])
    if not block.rows:
        return f"{block.title}: {block.empty}\n"
    texts = [[column.title for column in block.columns] + [_heading(block)]]
    texts += [[*map(_text, row.cells), "; ".join(map(_text, row.details))] for row in block.rows]
    widths = _widths(texts)
    right = [column.right for column in block.columns] + [False]
    lines = [block.title]
    for row in texts:
        cells = [
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(row, widths, right, strict=True)
        ]
        lines.append(" " * _INDENT + (" " * _GAP).join(cells).rstrip())
    return "".join(f"{line}\n" for line in lines)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]


# --- a terminal ---------------------------------------------------------------------------------------------


class _Terminal:
    def __init__(self, look: Look, width: int) -> None:
        import io

        from rich.console import Console

        self._look = look
        self._output = io.StringIO()
        self._console: Console = Console(
            file=self._output,
            width=max(width, _BESIDE),
            force_terminal=look.color,
            color_system="standard" if look.color else None,
            no_color=not look.color,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def draw(self, blocks: Sequence[Block]) -> str:
        from rich.padding import Padding

        for index, block in enumerate(blocks):
            if index:
                self._console.print()
            if isinstance(block, Table):
                self._table(block)
                continue
            if block.title:
                self._console.print(self._styled(Cell(block.title, "strong")))
            for cell in block.lines:
                text = self._styled(cell)
                self._console.print(Padding(text, (0, 0, 0, _INDENT)) if block.title else text)
        return "".join(f"{line.rstrip()}\n" for line in self._output.getvalue().splitlines())

    def _styled(self, cell: Cell) -> Text:
        from rich.text import Text

        return Text(_text(cell), style=_STYLES[cell.tone], overflow="fold")

    def _table(self, block: Table) -> None:
        from rich.padding import Padding
        from rich.text import Text

        if not block.rows:
            self._console.print(Text.assemble((block.title, "bold"), f": {block.empty}"))
            return
        self._console.print(Text(block.title, style="bold"))
        widths, beside = self._fit(block)
        titles = [Cell(column.title, "dim") for column in block.columns]
        self._row(block, Row(titles, [Cell(_heading(block), "dim")] if beside else ()), widths, beside)
        rule = "─" if self._look.unicode else "-"
        total = sum(widths) + _GAP * (len(widths) - 1)
        self._console.print(Padding(Text(rule * total, style="dim"), (0, 0, 0, _INDENT)))
        for row in block.rows:
            self._row(block, row, widths, beside)
            for cell in row.details if not beside else ():
                self._console.print(Padding(self._styled(cell), (0, 0, 0, 2 * _INDENT)))

    def _fit(self, block: Table) -> tuple[list[int], bool]:
        """Width of every column, that of the details last where they go beside their row."""
        room = self._console.width - _INDENT
        texts = [[column.title for column in block.columns], *([*map(_text, r.cells)] for r in block.rows)]
        widths = _widths(texts)
        while sum(widths) + _GAP * (len(widths) - 1) > room:
            widths[widths.index(max(widths))] -= 1
        left = room - sum(widths) - _GAP * len(widths)
        longest = max((_longest_word(row.details) for row in block.rows), default=0)
        if longest and left >= max(_BESIDE, longest):
            widest = max(len(_text(cell)) for row in block.rows for cell in row.details)
            return [*widths, min(left, widest)], True
        return widths, False

    def _row(self, block: Table, row: Row, widths: Sequence[int], beside: bool) -> None:
        from rich.padding import Padding
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
        cells = [self._styled(cell) for cell in row.cells]
        right = [column.right for column in block.columns]
        if beside:
            cells.append(Text("\n").join(map(self._styled, row.details)))
            right.append(False)
        for width, number in zip(widths, right, strict=True):
            grid.add_column(width=width, justify="right" if number else "left", overflow="fold")
        grid.add_row(*cells)
        self._console.print(Padding(grid, (0, 0, 0, _INDENT)))


def _longest_word(cells: Iterable[Cell]) -> int:
    return max((len(word) for cell in cells for word in _text(cell).split()), default=0)
