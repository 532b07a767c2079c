"""Every ``$ winml ...`` line of the pages does what its page says, in a folder with the files the pages speak of.

Each command is run once, however often it stands in the pages. Its exit code is the one the page promises, and of the
output below it those lines are compared that are the same on every machine: headings, errors and hints, and how many
nodes are on the target.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fixtures.docs_pages import Block, Command, all_blocks, commands
from winml.modelkit.catalog import find_sample
from winml.modelkit.session.ep_sources import find_entries, select_entries

Winml = Callable[..., Any]

BROKEN = "<html>Please log in to download this file.</html>\n"


def _by_text() -> dict[str, list[Command]]:
    found: dict[str, list[Command]] = {}
    for command in commands():
        found.setdefault(command.text, []).append(command)
    return found


ALL = _by_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as the pages take it for granted."""
    sample = find_sample("digits")
    assert sample is not None
    shutil.copy(sample.model_path, tmp_path / "model.onnx")
    images = np.load(sample.data_path)["images"]
    np.savez(tmp_path / "inputs.npz", image=images[:4].astype(np.float32) / 16)
    (tmp_path / "old.json").write_text("{}\n", encoding="utf-8")
    eps = tmp_path / "eps"
    eps.mkdir()
    name = "onnxruntime_providers_nv_tensorrt_rtx"
    (eps / (f"{name}.dll" if sys.platform == "win32" else f"lib{name}.so")).write_text(BROKEN, encoding="utf-8")
    return tmp_path


def provide(needs: str | None, request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment in which a command has what it needs; skips, with the reason, where that can't be had."""
    if needs is None:
        return {}
    if needs == "an OpenVINO device":
        env: dict[str, str] = request.getfixturevalue("openvino")
        return env
    if needs == "QNN's emulator":
        if not sys.platform.startswith("linux") or not select_entries(find_entries().entries, "QNNExecutionProvider"):
            pytest.skip("needs QNN's emulator: onnxruntime-qnn on x86-64 Linux")
        return {}
    pytest.skip(f"needs {needs}")


@pytest.mark.parametrize("text", ALL)
def test_a_command_does_what_its_page_says(
    text: str, folder: Path, winml: Winml, request: pytest.FixtureRequest
) -> None:
    first, *others = ALL[text]
    for other in others:
        assert (other.exit, other.needs) == (first.exit, first.needs), f"{first.place} and {other.place} disagree"
    if "|" in text and sys.platform == "win32":
        pytest.skip("a pipe of a POSIX shell")
    env = {"COLUMNS": "80", **provide(first.needs, request), **first.env}
    if "|" in text:
        done = piped(text, env, folder)
        code, printed = done.returncode, done.stdout.decode() + done.stderr.decode()
    else:
        ran = winml(*first.args, env=env, cwd=folder)
        code, printed = ran.code, ran.out + ran.err
    assert code == first.exit, printed
    assert "Traceback" not in printed
    lines = printed.splitlines()
    for command in ALL[text]:
        for line in command.output:
            # Which EP an open target comes to is the machine's matter.
            if "--ep" in command.args or not NODES.match(line):
                assert is_printed(line, lines), f"{command.place}: not printed: {line}"


def piped(text: str, env: dict[str, str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a pipe in bash; the exit code is that of its first command that fails."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", text],
        env={**os.environ, **env, "PATH": path},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=100,
        check=False,
    )


NODES = re.compile(r"(?P<steady>\S.*: \d+/\d+ nodes\b)")
HEADING = re.compile(r"(?!\.\.\.|Latency in )[A-Z][^\d]*$")  # of latencies it has the unit that suits them
SAID = re.compile(r"(?:error|hint|Error): ")


def is_printed(line: str, printed: list[str]) -> bool:
    """Whether a line of a page is among those printed, as far as it is one that every machine prints alike."""
    if found := NODES.match(line):
        return any(other.startswith(found["steady"]) for other in printed)
    if not HEADING.match(line) and not SAID.match(line):
        return True
    if line.endswith(" ..."):
        return any(other.startswith(line.removesuffix(" ...")) for other in printed)
    return line in printed


def _python() -> list[Block]:
    # Those that run something, and not just define it.
    return [block for block in all_blocks() if block.language == "python" and "print(" in block.text]


@pytest.mark.parametrize("block", _python(), ids=lambda block: f"{block.page}:{block.line}")
def test_a_python_block_runs(block: Block, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.text],
        env={**os.environ, "PATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout
