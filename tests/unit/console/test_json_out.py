"""One JSON document, in every encoding."""

from __future__ import annotations

import json

import msgspec

from winml.modelkit.console.json_out import to_json
from winml.modelkit.documents import Document, Notice


class Sample(Document, kw_only=True):
    name: str
    value: float | None = None
    notices: list[Notice] = msgspec.field(default_factory=list)


def test_text_is_kept_where_the_stream_takes_it() -> None:
    text = to_json(Sample(name="µ · 模型"))
    assert "µ · 模型" in text
    assert text.endswith("}\n")


def test_i02_ascii_streams_get_the_same_document() -> None:
    document = Sample(name="µ · 模型 😀", value=0.1, notices=[Notice(code="c", message="é")])
    text = to_json(document, ascii_only=True)
    assert text.isascii()
    assert json.loads(text) == json.loads(to_json(document))


def test_a_file_name_that_is_no_text_is_spelt_out() -> None:
    assert json.loads(to_json(Sample(name="model\udcff.onnx")))["name"] == "model\\udcff.onnx"


def test_nan_and_infinity_become_null() -> None:
    assert json.loads(to_json(Sample(name="x", value=float("nan"))))["value"] is None
    assert json.loads(to_json(Sample(name="x", value=float("inf"))))["value"] is None
