"""What ``winml perf`` imports: no torch for an ONNX file, no ONNX Runtime in the parent, nothing from its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fixtures.cli import PerfCommand
from fixtures.zoo import Zoo

RECORD = """
import os, sys

_file = os.open(os.environ["IMPORTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def _note(event, args):
    if event == "import":
        os.write(_file, f"{os.getpid()} {args[0]}\\n".encode())


sys.addaudithook(_note)
"""
HEAVY = {"torch", "transformers", "sklearn", "sympy", "scipy", "pandas", "matplotlib"}


@pytest.mark.parametrize("args", [("digits",), ("digits", "--ep", "openvino"), ("digits", "--format", "json")])
def test_no_command_on_an_onnx_file_imports_torch_or_its_like(
    perf: PerfCommand, openvino: dict[str, str], tmp_path: Path, args: tuple[str, ...]
) -> None:
    (tmp_path / "sitecustomize.py").write_text(RECORD, encoding="utf-8")
    record = tmp_path / "imports.txt"
    env = {**openvino, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])}
    outcome = perf(*args, "--iterations", "1", env={**env, "IMPORTS": str(record)}, json_format=False)
    assert outcome.code == 0, outcome.err
    by_process: dict[str, set[str]] = {}
    for line in record.read_text(encoding="utf-8").splitlines():
        pid, _, module = line.partition(" ")
        by_process.setdefault(pid, set()).add(module.partition(".")[0])
    parents = [names for names in by_process.values() if "winml" in names and "onnxruntime" not in names]
    workers = [names for names in by_process.values() if "onnxruntime" in names]
    assert parents and workers
    for names in by_process.values():
        assert not names & HEAVY
    for names in parents:
        assert not names & {"onnx", "numpy", "onnx_ir"}


def test_files_in_the_working_directory_are_not_imported(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    for name in ("onnxruntime", "numpy", "onnx", "click", "msgspec", "json", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('imported {name} from the working directory')\n")
    assert perf.ok(zoo("relu"), "--ep", "cpu", cwd=tmp_path)["placement"]["nodes_total"] == 1
