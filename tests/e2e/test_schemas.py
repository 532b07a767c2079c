"""Real documents fit the published schemas."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

Winml = Callable[..., Any]

FOLDER = Path(__file__).parents[2] / "docs" / "schemas"

QUICK = ("--iterations", "3", "--warmup", "0")


def check(document: dict[str, Any]) -> None:
    """Validate against the schema that the document names, and demand that no field is missing from it."""
    name = f"{document['schema'].replace('/', '-')}.json"
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    assert set(document) == set(schema["properties"])


@pytest.mark.parametrize("view", [[], ["--list-ep"], ["--list-device"]])
def test_sys(winml: Winml, view: list[str]) -> None:
    done = winml("sys", *view, "--format", "json")
    assert done.code == 0, done.err
    check(json.loads(done.out))


@pytest.mark.parametrize(
    ("args", "code", "schema"),
    [
        (["--ep", "cpu"], 0, "winml.perf/1"),
        (["--ep", "cpu", "--dim", "batch=1,8", "--no-memory"], 0, "winml.perf/1"),
        (["--ep", "cpu", "--min-placement", "100", "--threads", "1", "--io-binding"], 0, "winml.perf/1"),
        (["--ep", "vitisai"], 3, "winml.perf/1"),
        (["--ep", "nonsense"], 2, "winml.perf/1"),
        (["--nonsense"], 2, "winml.error/1"),
    ],
)
def test_perf(winml: Winml, args: list[str], code: int, schema: str) -> None:
    done = winml("perf", "-m", "digits", *QUICK, *args, "--format", "json")
    assert done.code == code, done.err
    document = json.loads(done.out)
    assert document["schema"] == schema
    check(document)
    assert (document["error"] or {"exit_code": 0})["exit_code"] == code


def test_a_report_file_is_the_same_document(winml: Winml, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    done = winml("perf", "-m", "digits", "--ep", "cpu", *QUICK, "--format", "json", "-o", str(path))
    assert done.code == 0, done.err
    document = json.loads(path.read_text(encoding="utf-8"))
    check(document)
    assert document == json.loads(done.out)
