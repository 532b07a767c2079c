"""Start-up stays light: what ``--help`` imports, seen in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from winml.modelkit.cli import COMMANDS

HEAVY = {
    "msgspec",
    "numpy",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "platformdirs",
    "psutil",
    "rich",
    "sklearn",
    "sympy",
    "torch",
    "transformers",
}

PROBE = """
import json, sys
before = set(sys.modules)
from winml.modelkit.cli import run
code = run(json.loads(sys.argv[1]))
sys.stderr.write(json.dumps({"code": code, "modules": sorted(set(sys.modules) - before)}))
"""


def modules_after(args: list[str]) -> set[str]:
    """What a fresh process has imported after one command line, which must have succeeded."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(args)], capture_output=True, text=True, timeout=60, check=True
    )
    answer = json.loads(done.stderr)
    assert answer["code"] == 0, done.stdout
    return set(answer["modules"])


def top(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["--version"]])
def test_i01_help_and_version_import_only_click_and_the_standard_library(args: list[str]) -> None:
    modules = modules_after(args)
    assert top(modules) <= {"click", "winml", *sys.stdlib_module_names}
    ours = {name for name in modules if name.startswith("winml")}
    assert ours == {"winml", "winml.modelkit", "winml.modelkit._version", "winml.modelkit.cli"}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_i01_help_of_every_command_imports_nothing_heavy(command: str) -> None:
    modules = modules_after([command, "--help"])
    assert not top(modules) & HEAVY
    assert not any(name.startswith("winml.modelkit.session") for name in modules)


def test_package_import_is_lazy() -> None:
    code = "import sys, winml.modelkit as m; m.WinMLError; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "onnxruntime" not in done.stdout
    assert "winml.modelkit.errors" in done.stdout
