"""One content, two looks: tables by rich on a terminal, plain aligned text everywhere else.

A report is a list of blocks. On a terminal cells wrap and nothing is cut; elsewhere every row is one line, however
long, so that paths and names can be searched for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from winml.modelkit.console.streams import Look

__all__ = ["ABSENT", "Block", "Cell", "Column", "Lines", "Table", "draw", "one_line"]

ABSENT = "-"
"""How text shows a fact that is not known."""

Tone = Literal["", "good", "warn", "bad", "dim", "strong"]

_STYLES = {"": "", "good": "green", "warn": "yellow", "bad": "red", "dim": "dim", "strong": "bold"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One piece of text and its tone. Lines within it are kept on a terminal and joined by ``; `` elsewhere."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, whether it holds numbers, and whether it is the one that gives way to others."""

    title: str
    right: bool = False
    flexible: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. A table without a row shows ``empty`` instead."""

    title: str
    columns: Sequence[Column]
    rows: list[list[Cell]] = field(default_factory=list)
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
        return "\n".join(_plain(block) for block in blocks)
    return _rich(blocks, look, look.width)


# --- plain --------------------------------------------------------------------------------------------------


def _plain(block: Block) -> str:
    if isinstance(block, Lines):
        head = [block.title] if block.title else []
        indent = "  " if block.title else ""
        return "".join(f"{line}\n" for line in [*head, *(indent + one_line(cell.text) for cell in block.lines)])
    if not block.rows:
        return f"{block.title}: {block.empty}\n"
    texts = [[column.title for column in block.columns]]
    texts += [[one_line(cell.text) or ABSENT for cell in row] for row in block.rows]
    widths = [max(len(row[index]) for row in texts) for index in range(len(block.columns))]
    lines = [block.title]
    for row in texts:
        cells = [
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(row, widths, block.columns, strict=True)
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return "".join(f"{line}\n" for line in lines)


# --- rich ---------------------------------------------------------------------------------------------------


def _rich(blocks: Sequence[Block], look: Look, width: int) -> str:
    import io

    from rich import box
    from rich.console import Console, Group, RenderableType
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    console = Console(
        file=io.StringIO(),
        width=max(width, 40),
        force_terminal=look.color,
        color_system="standard" if look.color else None,
        no_color=not look.color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )

    def text(cell: Cell) -> Text:
        clean = "\n".join(one_line(line) for line in cell.text.splitlines()) or ABSENT
        return Text(clean, style=_STYLES[cell.tone], overflow="fold")

    for index, block in enumerate(blocks):
        if index:
            console.print()
        if isinstance(block, Lines):
            body: RenderableType = Group(*(text(cell) for cell in block.lines))
            if block.title:
                console.print(Text(block.title, style="bold"))
                body = Padding(body, (0, 0, 0, 2))
            console.print(body)
            continue
        if not block.rows:
            console.print(Text(f"{block.title}: {block.empty}"))
            continue
        table = RichTable(
            box=box.SIMPLE_HEAD if look.unicode else box.ASCII2,
            show_edge=not look.unicode,
            pad_edge=False,
            padding=(0, 1),
            header_style="dim" if look.color else "",
        )
        for column in block.columns:
            table.add_column(
                column.title,
                justify="right" if column.right else "left",
                overflow="fold",
                ratio=1 if column.flexible else None,
                no_wrap=False,
            )
        for row in block.rows:
            table.add_row(*(text(cell) for cell in row))
        console.print(Text(block.title, style="bold"))
        console.print(Padding(table, (0, 0, 0, 2)))
    output = console.file
    assert isinstance(output, io.StringIO)
    return "\n".join(line.rstrip() for line in output.getvalue().splitlines()) + "\n"
