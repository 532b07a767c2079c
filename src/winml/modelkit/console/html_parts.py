"""HTML that is escaped by construction: what is not made by ``h`` is text, and text never becomes markup.

Names in a model file are chosen by whoever made the file, so nothing may be put into a page by hand.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence

from winml.modelkit.console.layout import one_line

__all__ = ["Html", "breakable", "data_block", "h", "pairs", "section", "table", "td", "verbatim"]

_VOID = {"br", "meta", "path", "rect", "circle", "line"}


class Html(str):
    """Markup that is known to be safe."""

    __slots__ = ()


Child = str | Iterable[str] | None


def h(tag: str, *children: Child, **attributes: str | bool | float | None) -> Html:
    """One element.

    Args:
        tag: its name.
        children: ``Html`` is kept, other text is put on one line (no control characters, no direction marks) and
            escaped; nested iterables are flattened, None is left out.
        attributes: ``cls`` stands for ``class``, ``_`` for ``-``, except in ``viewBox`` and the like, which are
            written as they are; None and False leave the attribute out, True gives it no value.

    >>> str(h("p", "1 < 2", cls="note"))
    '<p class="note">1 &lt; 2</p>'
    """
    text = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{text}/>")
    return Html(f"<{tag}{text}>{''.join(map(_flat, children))}</{tag}>")


def _attribute(name: str, value: str | bool | float | None) -> str:
    if value is None or value is False:
        return ""
    name = "class" if name == "cls" else name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(_line(str(value)))}"'


def _flat(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str):
        return html.escape(_clean(child))
    return "".join(map(_flat, child))


def _line(text: str) -> str:
    """On one line without control characters; bytes that are no text, as in a file name, spelt out."""
    return one_line(_spelt(text))


def _spelt(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _clean(text: str) -> str:
    """On one line; a space at either end parts the text from its neighbour, so it stays."""
    line = _line(text)
    return f"{' ' * text[:1].isspace()}{line}{' ' * (text[-1:].isspace() and bool(line))}"


def breakable(name: str) -> Html:
    """A long name, which may break where its parts end."""
    parts = re.split(r"(?<=[/._:])(?=.)", _line(name))
    return h("code", Html("<wbr>".join(map(html.escape, parts))))


def verbatim(lines: Iterable[str]) -> Html:
    """Lines as they were written, for ``pre``; control characters are spaces."""
    return Html("\n".join(html.escape("".join(c if c.isprintable() else " " for c in _spelt(line))) for line in lines))


def table(
    columns: Sequence[tuple[str, bool]],
    rows: Iterable[Sequence[str]],
    *,
    cls: str | None = None,
    sortable: bool = False,
) -> Html:
    """A table.

    Args:
        columns: heading, and whether the column holds numbers.
        rows: one child per column; a ready ``td`` (as by ``h``) is kept, anything else becomes one.
        cls: class of the table.
        sortable: headings become buttons; cells sort by their ``data-v`` where they have one.
    """
    heads = [
        h("th", h("button", title, type="button") if sortable and title else title, scope="col", cls=_number(number))
        for title, number in columns
    ]
    body = [
        h("tr", [_cell(cell, number) for cell, (_, number) in zip(row, columns, strict=True)], None) for row in rows
    ]
    classes = " ".join(filter(None, (cls, "sortable" if sortable else None)))
    made = h("table", h("thead", h("tr", heads)), h("tbody", body), cls=classes or None)
    return h("div", made, cls="wide")


def _number(number: bool) -> str | None:
    return "n" if number else None


def _cell(cell: str, number: bool) -> Html:
    if isinstance(cell, Html) and cell.startswith("<td"):
        return cell
    return h("td", cell, cls=_number(number))


def td(text: str, value: float | None = None, cls: str | None = None) -> Html:
    """A cell whose text is not what it sorts by."""
    return h("td", text, cls=cls, data_v=value)


def pairs(items: Iterable[tuple[str, str]]) -> Html:
    """Names and values; an empty name leaves the whole line to its value."""
    return h("dl", *((h("dt", name), h("dd", value)) for name, value in items), cls="pairs")


def section(name: str, title: str, note: str, parts: Iterable[Child]) -> Html:
    """A section with its heading in the margin."""
    head = h("header", h("h2", title), h("p", note) if note else None)
    return h("section", head, h("div", *parts), id=name)


def data_block(name: str, json_text: str) -> Html:
    r"""A JSON document as a data block that no browser runs and no text in it can end.

    All of it is ASCII. ``<``, ``>`` and ``&`` only occur in JSON's strings, where ``\u003c`` is the same character.
    """
    compact = json.dumps(json.loads(json_text), separators=(",", ":"))
    for character in "<>&":
        compact = compact.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json" id="{html.escape(name)}">{compact}</script>')
