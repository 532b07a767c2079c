"""What the pages say of documents, codes, EPs and the code's layout is what the code says."""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fixtures.docs_pages import ROOT, Block, blocks, pages, prose, read
from winml.modelkit import documents
from winml.modelkit.errors import WinMLError
from winml.modelkit.perf import document as perf_document
from winml.modelkit.session.ep_device import EP_DEVICE_SPECS, SOURCES, preferred_eps
from winml.modelkit.session.ep_failure import CAUSES
from winml.modelkit.session.ep_spec import DEVICES
from winml.modelkit.system import document as sys_document

DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "winml" / "modelkit"

CODE_SPAN = re.compile(r"`([^`\n]+)`")


# --- documents --------------------------------------------------------------------------------------------------


def structs() -> dict[str, list[str]]:
    """Every part of every document, with the names of its fields."""
    found = {}
    for module in (documents, perf_document, sys_document):
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, documents.Document) and value is not documents.Document:
                found[name] = [field.encode_name for field in msgspec.structs.fields(value)]
    return {name: fields for name, fields in found.items() if fields}


def described_structs() -> dict[str, list[str]]:
    """The fields in the table below each heading that ends in ``(TypeName)``."""
    found: dict[str, list[str]] = {}
    for page in pages():
        name = None
        for line in prose(page).splitlines():
            if line.startswith("#"):
                heading = re.search(r"\(([A-Z]\w+)\)$", line)
                name = heading[1] if heading else None
                if name is not None:
                    assert name not in found, f"{page.name}: {name} is described twice"
                    found[name] = []
            elif name is not None and (cell := re.match(r"\| `(\w+)` \|", line)):
                found[name].append(cell[1])
    return found


def test_every_field_of_every_document_is_described() -> None:
    described = described_structs()
    assert described == structs()


def test_every_document_is_on_the_contract_page() -> None:
    row = re.compile(r"^\| `(winml\.\w+/\d+)` \|.*\(schemas/([\w.-]+)\) \|$", re.MULTILINE)
    table = row.findall(read(DOCS / "contract.md"))
    files = {path.name for path in (DOCS / "schemas").iterdir()}
    assert {name for _, name in table} == files
    for schema, name in table:
        content = json.loads((DOCS / "schemas" / name).read_text(encoding="utf-8"))
        assert content["properties"]["schema"]["enum"] == [schema]


# --- codes ------------------------------------------------------------------------------------------------------


def codes_in_source() -> set[str]:
    """Stable codes as the source gives them: ``code="x"``, ``default_code = "x"``, causes of failed libraries."""
    found = set(CAUSES)
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "code":
                values: list[ast.expr] = [node.value]
            elif isinstance(node, ast.AnnAssign | ast.Assign) and "default_code" in ast.unparse(node):
                values = [node.value] if node.value is not None else []
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("self.warn", "FolderProblem"):
                values = list(node.args[:1] if ast.unparse(node.func) == "self.warn" else node.args[1:2])
            else:
                continue
            found |= {value.value for value in values if isinstance(value, ast.Constant) and value.value}
    return found


def codes_in_page() -> set[str]:
    text = prose(DOCS / "contract.md")
    section = text[text.index("\n## Error codes") :]
    return set(re.findall(r"`([a-z][a-z0-9_]+)`", section))


def test_every_code_is_on_the_contract_page() -> None:
    missing = codes_in_source() - codes_in_page()
    assert not missing


def test_every_code_on_the_contract_page_exists() -> None:
    literals = {
        node.value
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    # Names of commands, and an example of win32_N.
    assert not codes_in_page() - literals - {"winml", "win32_126"}


def test_every_cause_of_a_failed_library_has_its_row() -> None:
    text = read(DOCS / "contract.md")
    section = text[text.index("### Why a library could not be used") : text.index("### Warnings")]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(CAUSES)


def test_codes_stand_beside_the_exit_code_of_their_kind() -> None:
    """For the codes that a kind of error has by default."""
    rows = re.findall(r"^\| (\d+)[^|]*\| (.+) \|$", read(DOCS / "contract.md"), re.MULTILINE)
    listed = {(int(code), word) for code, words in rows for word in CODE_SPAN.findall(words)}

    def kinds(kind: type[WinMLError]) -> Iterator[type[WinMLError]]:
        yield kind
        for below in kind.__subclasses__():
            yield from kinds(below)

    for kind in kinds(WinMLError):
        if isinstance(kind.exit_code, int):
            assert (kind.exit_code, kind.default_code) in listed, kind.__name__


# --- the table of EPs -------------------------------------------------------------------------------------------


def test_the_table_of_eps_is_that_of_the_code() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| ([\w, ]+) \| (\w+) \|$", read(DOCS / "concepts" / "targets.md"), re.MULTILINE
    )
    assert rows == [(spec.alias, spec.name, ", ".join(spec.devices), spec.vendor) for spec in EP_DEVICE_SPECS.values()]


def test_the_order_of_choice_is_that_of_the_code() -> None:
    text = read(DOCS / "concepts" / "targets.md")
    for device in DEVICES:
        order = ", ".join(spec.alias for spec in preferred_eps(device))
        assert f"| {device} | {order} |" in text


def test_the_sources_are_those_of_the_code() -> None:
    text = read(DOCS / "concepts" / "targets.md")
    section = text[text.index("## Where libraries come from") : text.index("## Which one answers")]
    assert tuple(re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)) == SOURCES


# --- architecture.md --------------------------------------------------------------------------------------------


def architecture(language: str, start: str) -> Block:
    return next(
        block
        for block in blocks(DOCS / "architecture.md")
        if block.language == language and block.text.lstrip().startswith(start)
    )


def test_the_layers_are_those_that_ci_holds() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter", encoding="utf-8")
    layers = contracts["importlinter:contract:layers"]["layers"].replace("winml.modelkit.", "")
    assert list(architecture("text", "__main__").lines) == [line.strip() for line in layers.split("\n") if line.strip()]


def test_the_house_has_the_rooms_that_there_are() -> None:
    tree = architecture("text", "src/winml/modelkit/").lines
    shown = {found[1].rstrip("/") for line in tree[1:] if (found := re.match(r"  ([\w./]+)", line))}
    there = {path.name for path in SOURCE.iterdir() if not path.name.startswith("_") and path.name != "py.typed"}
    assert shown == there


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    """The example distribution of architecture.md, as an installer lays it down."""
    project = tomllib.loads(architecture("toml", "[build-system]").text)
    package = tmp_path / "onnxruntime_ep_acme"
    package.mkdir()
    example = next(block for block in blocks(DOCS / "architecture.md") if block.language == "python")
    (package / "__init__.py").write_text(example.text, encoding="utf-8")
    name, version = project["project"]["name"], project["project"]["version"]
    info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    groups = project["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in rows.items()) for group, rows in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def test_the_example_ep_is_an_ep_like_any_other(acme: Path) -> None:
    code = (
        "from winml.modelkit.session.ep_device import *; from winml.modelkit.session.ep_device import spec_problems;"
        "spec = EP_DEVICE_SPECS['AcmeExecutionProvider'];"
        "print(spec_problems(), resolve_target('acme', 'npu').describe(), [s.alias for s in preferred_eps('npu')][-1])"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(acme), str(ROOT / "src")])}
    ask = [sys.executable, "-c", code]
    done = subprocess.run(ask, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("() acme on npu acme\n", "")
