"""The published JSON Schemas are those of the types, and say what a reader needs."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from winml.modelkit import cli

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "schemas"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_schemas", ROOT / "docs" / "build_schemas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where msgspec looks up the names in annotations
    spec.loader.exec_module(module)
    return module


build_schemas = _load()
NAMES = ["winml.error-1.json", "winml.perf-1.json", "winml.sys-1.json"]


def published(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return schema


def test_published_is_generated() -> None:
    texts = build_schemas.texts()
    assert sorted(texts) == NAMES == sorted(path.name for path in FOLDER.iterdir())
    for name, text in texts.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, "run: python docs/build_schemas.py"


@pytest.mark.parametrize("name", NAMES)
def test_every_schema_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(published(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_document_must_say_which_it_is(name: str) -> None:
    schema = published(name)
    identity = name.removesuffix(".json").replace("-", "/")
    assert schema["properties"]["schema"]["enum"] == [identity]
    assert "schema" in schema["required"]
    validator = jsonschema.Draft202012Validator(schema)
    assert not validator.is_valid({})
    assert not validator.is_valid({"schema": "winml.other/1"})


def test_the_error_document_of_the_command_fits(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["perf", "--nope", "--format", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, published("winml.error-1.json"))
    assert document["error"]["code"] == "usage"


def test_every_field_may_grow_but_not_change_type() -> None:
    validator = jsonschema.Draft202012Validator(published("winml.error-1.json"))
    document: dict[str, Any] = {
        "schema": "winml.error/1",
        "status": "failed",
        "command": ["winml", "perf"],
        "error": {"code": "usage", "reason": "it cannot be meant", "hint": None, "exit_code": 2, "details": {}},
    }
    assert validator.is_valid(document)
    assert validator.is_valid({**document, "new": 1})
    assert not validator.is_valid({**document, "status": "ok"})
    assert not validator.is_valid({**document, "error": {**document["error"], "exit_code": "2"}})
