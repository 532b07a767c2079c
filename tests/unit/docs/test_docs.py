"""The pages by themselves: links, fences, commands and their options."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from fixtures.docs_pages import ROOT, all_blocks, blocks, commands, pages, prose, read
from winml.modelkit.cli import COMMANDS

DOCS = ROOT / "docs"
PAGES = pages()
IDS = [page.relative_to(ROOT).as_posix() for page in PAGES]

CODE_SPAN = re.compile(r"`([^`\n]+)`")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().casefold()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


# --- links and what may not stand in a page ---------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_between_pages_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", CODE_SPAN.sub("", prose(page))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_relative_to(ROOT), target
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_page_is_linked_from_another(page: Path) -> None:
    if page in (ROOT / "README.md", ROOT / "CHANGELOG.md", DOCS / "README.md"):
        return
    linking = [other for other in PAGES if other != page]
    targets = {
        (other.parent / target.partition("#")[0]).resolve()
        for other in linking
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(other))
    }
    assert page in targets


@pytest.mark.parametrize("page", [*PAGES, *sorted((DOCS / "schemas").iterdir())], ids=lambda page: page.name)
def test_no_machine_paths_and_no_registry_hosts(page: Path) -> None:
    text = read(page)
    for pattern in (
        r"(?<![\w.~])/(?:home|root|work|tmp|Users|mnt|opt|private)/",
        r"\b[A-Z]:\\",
        r"pypi\.or[g]|python[h]osted|nuget\.or[g]|/simple\b|--(?:extra-)?index-url|\bartifactory\b|\bnexus\b",
        r"\b(?:localhost|\d{1,3}(?:\.\d{1,3}){3})\b:\d",
    ):
        found = re.search(pattern, text)
        assert found is None, found


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_fence_names_its_language_and_commands_stand_in_console_blocks(page: Path) -> None:
    for block in blocks(page):
        where = f"{block.page}:{block.line}"
        assert block.language in {"console", "json", "powershell", "python", "sh", "text", "toml"}, where
        if any(line.startswith("$ ") for line in block.lines):
            assert block.language == "console", where


def test_every_command_in_the_pages_is_found() -> None:
    """No ``$`` line escapes the test that runs them."""
    prompts = [line for block in all_blocks() for line in block.lines if line.startswith("$ ")]
    assert len(commands()) == len(prompts) > 0


# --- commands and options ---------------------------------------------------------------------------------------


def load(name: str) -> click.Command:
    module, attribute, _ = COMMANDS[name]
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


def test_every_command_has_its_page() -> None:
    assert sorted(path.stem for path in (DOCS / "commands").glob("*.md")) == sorted(COMMANDS)
    table = re.findall(r"^\| \[`winml (\w+)`\]", read(ROOT / "README.md"), re.MULTILINE)
    assert sorted(table) == sorted(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_is_described_and_every_described_option_exists(name: str) -> None:
    command = load(name)
    known = {
        word
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for word in (*parameter.opts, *parameter.secondary_opts)
    }
    headings = re.findall(r"^#### (.+)$", read(DOCS / "commands" / f"{name}.md"), re.MULTILINE)
    described = [
        word for heading in headings for span in CODE_SPAN.findall(heading) for word in re.findall(r"^--?[\w-]+", span)
    ]
    assert sorted(described) == sorted({*known, "-h", "--help"})


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_choices_of_an_option_stand_in_its_heading(name: str) -> None:
    page = read(DOCS / "commands" / f"{name}.md")
    for parameter in load(name).params:
        if isinstance(parameter, click.Option) and isinstance(parameter.type, click.Choice):
            assert re.search(rf"^#### .*{parameter.opts[-1]} {'[|]'.join(parameter.type.choices)}`", page, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_in_the_page_is_the_help_of_the_command(name: str) -> None:
    shown = [command for command in commands() if command.text == f"winml {name} --help"]
    assert [command.place.partition(":")[0] for command in shown] == [f"docs/commands/{name}.md"]
    done = subprocess.run(
        [sys.executable, "-m", "winml.modelkit", name, "--help"],
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "".join(f"{line}\n" for line in shown[0].output) == done.stdout


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_option_a_page_speaks_of_exists(page: Path) -> None:
    options = [option for name in COMMANDS for option in load(name).params]
    known = {word for option in options for word in (*option.opts, *option.secondary_opts)}
    # Of pip and of build_schemas.py.
    known |= {"--help", "--version", "--check"}
    for span in CODE_SPAN.findall(prose(page)):
        if span.startswith(("pip ", "git ")):
            continue
        for option in re.findall(r"(?:^|\s)(--[a-z][\w-]*)", span):
            assert option in known, f"{page.name}: {option}"
