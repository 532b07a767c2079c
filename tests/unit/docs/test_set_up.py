"""README's set-up lines are what CI runs, and fit the package."""

from __future__ import annotations

import re
import shlex
import tomllib

import pytest

from fixtures.docs_pages import ROOT, blocks, read

_LONG = {"-c": "--constraint", "-e": "--editable"}


def steps(line: str) -> list[tuple[str, ...]]:
    """A set-up line as its commands, the path of the virtual environment and what only quietens taken out."""
    found = []
    for part in re.split(r"&&|;", line):
        words = shlex.split(part.replace("\\", "/"))
        if not words:
            continue
        if "venv" in words:
            found.append(("venv",))
            continue
        program = re.sub(r"^.*/(?:bin|Scripts)/", "", words[0])
        rest = [_LONG.get(word, word) for word in words[1:] if word not in ("-q", "--quiet")]
        if program == "python" and rest[:1] == ["-m"]:
            program, rest = rest[1], rest[2:]
        found.append((program, *rest))
    return found


def set_up(language: str) -> list[list[tuple[str, ...]]]:
    """The set-up lines of README.md in one shell's language."""
    text = [block for block in blocks(ROOT / "README.md") if block.language == language]
    return [steps(line) for block in text for line in block.lines if "uv run" not in line]


TRY = [("venv",), ("pip", "install", "."), ("winml", "perf", "-m", "digits")]
DEVELOP = [
    ("venv",),
    ("pip", "install", "--constraint", "constraints.txt", "--editable", ".[dev]"),
    ("pytest", "-n", "2"),
]


@pytest.mark.parametrize("language", ["sh", "powershell"])
def test_the_two_lines_in_both_shells(language: str) -> None:
    assert set_up(language) == [TRY, DEVELOP]


def test_each_line_makes_an_environment_of_its_own() -> None:
    lines = [line for block in blocks(ROOT / "README.md") if block.language == "sh" for line in block.lines]
    folders = [re.findall(r"(?:-m venv |(?:^|\s))(\.venv[\w-]*)", line) for line in lines if "-m venv" in line]
    assert len(folders) == 2
    assert all(len(set(found)) == 1 for found in folders)
    assert folders[0][0] != folders[1][0]
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {".venv/", ".venv-*/"} <= set(ignored)


def test_ci_runs_the_development_line() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    lines = [line for line in script if not line.startswith("#") and re.search(r"-m (venv|pip|pytest)\b", line)]
    assert [step for line in lines for step in steps(line)] == DEVELOP


def test_the_workflow_installs_the_same_way() -> None:
    text = (ROOT / ".github" / "workflows" / "modelkit-ci.yml").read_text(encoding="utf-8")
    installs = [steps(line)[0] for line in re.findall(r"run: (.*pip install.*)$", text, re.MULTILINE)]
    assert installs
    assert set(installs) == {DEVELOP[1]}


def test_uv_lines_do_the_same_work() -> None:
    lines = [line for block in blocks(ROOT / "README.md") for line in block.lines if line.startswith("uv run")]
    assert lines == ["uv run winml perf -m digits", "uv run --extra dev pytest -n 2"]


def test_the_python_versions_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11,<3.14"
    assert "Python 3.11 to 3.13" in read(ROOT / "README.md")
    for extra in re.findall(r'pip install "?\S*\.\[(\w+)\]|`"\.\[(\w+)\]"`', read(ROOT / "README.md")):
        assert next(filter(None, extra)) in project["optional-dependencies"]
