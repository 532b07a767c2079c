"""Markup that is escaped by construction."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from fixtures import trace_documents as made
from fixtures.html_pages import Page
from winml.modelkit.console.html_parts import Html, breakable, data_block, h, table, td, verbatim
from winml.modelkit.console.layout import one_line

anything = st.text(max_size=40) | st.text("<>&\"'/=- scriptonx\n\u202e\x00", max_size=40)


@given(anything)
def test_any_text_comes_back_as_text(text: str) -> None:
    page = Page(h("p", text).encode("utf-8", "replace").decode())
    (p,) = page.root.children
    assert p.children == []
    assert p.text == " ".join(one_line(text).encode("utf-8", "replace").decode().split())


@given(anything)
def test_any_attribute_stays_one_attribute(text: str) -> None:
    page = Page(h("p", "x", title=text).encode("utf-8", "replace").decode())
    (p,) = page.root.children
    assert set(p.attributes) == {"title"}
    assert p.attributes["title"] == one_line(text).encode("utf-8", "replace").decode()


@given(st.lists(anything, min_size=1))
def test_verbatim_lines_stay_lines(lines: list[str]) -> None:
    page = Page(h("pre", verbatim(lines)).encode("utf-8", "replace").decode())
    (pre,) = page.root.children
    assert pre.children == []
    assert len("".join(pre.texts).split("\n")) == len(lines)


@given(anything)
def test_a_breakable_name_is_the_name(text: str) -> None:
    page = Page(breakable(text).replace("<wbr>", "").encode("utf-8", "replace").decode())
    assert page.root.children[0].children == []
    assert page.root.children[0].text == " ".join(one_line(text).encode("utf-8", "replace").decode().split())


def test_names_break_after_their_parts() -> None:
    assert breakable("/a/b.c") == "<code>/<wbr>a/<wbr>b.<wbr>c</code>"


@given(
    st.recursive(anything | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(anything, inner))
)
def test_a_data_block_holds_any_json_and_cannot_be_ended(value: object) -> None:
    block = data_block("d", json.dumps(value))
    assert block.count("<") == block.count(">") == 2
    inside = block.partition(">")[2].rpartition("<")[0]
    assert json.loads(inside) == value


def test_spaces_at_the_ends_part_texts() -> None:
    assert h("p", h("b", "Next:"), " step", None, " ") == "<p><b>Next:</b> step </p>"


def test_attributes() -> None:
    assert h("p", cls="a b", data_v=1.5, hidden=True, id=None, title=False) == '<p class="a b" data-v="1.5" hidden></p>'
    assert h("rect", width="5%") == '<rect width="5%"/>'


def test_tables() -> None:
    page = Page(table([("Name", False), ("n", True)], [["a<b", td("1 ms", 1.0, "n")]], sortable=True))
    made_table = page.root.all("table", "sortable")[0]
    assert made_table.rows() == [["Name", "n"], ["a<b", "1 ms"]]
    assert [th.attributes.get("scope") for th in made_table.all("th")] == ["col", "col"]
    assert len(made_table.all("button")) == 2
    assert made_table.all("td")[1].attributes == {"class": "n", "data-v": "1.0"}


def test_a_text_that_looks_like_a_cell_is_text() -> None:
    page = Page(table([("x", False)], [["<td onclick=alert(1)>"], [made.HOSTILE]]))
    assert [cell.attributes for cell in page.root.all("td")] == [{}, {}]


def test_only_h_makes_markup() -> None:
    assert isinstance(h("p"), Html)
    assert not isinstance(h("p") + "<b>", Html)
