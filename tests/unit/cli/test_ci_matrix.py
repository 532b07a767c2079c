"""CI runs every test there is: each directory with tests is named in the workflow's matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "modelkit-ci.yml"


def _test_job() -> dict[str, Any]:
    jobs: dict[str, dict[str, Any]] = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]
    return jobs["test"]


def _paths_of_groups() -> dict[str, list[str]]:
    rows = _test_job()["strategy"]["matrix"]["include"]
    return {row["group"]: row["paths"].split() for row in rows}


def _directories_with_tests() -> set[str]:
    found = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    return {path.relative_to(ROOT).as_posix() for path in found}


def test_every_directory_with_tests_is_named_once() -> None:
    named = [path for paths in _paths_of_groups().values() for path in paths]
    assert sorted(named) == sorted(set(named))
    missing = _directories_with_tests() - set(named)
    # A directory below a named one is run with it.
    assert not {path for path in missing if not any(path.startswith(f"{top}/") for top in named)}


def test_every_named_path_has_tests() -> None:
    for group, paths in _paths_of_groups().items():
        for path in paths:
            assert any((ROOT / path).rglob("test_*.py")), f"{group}: {path}"


def test_groups_and_their_paths_are_the_same_set() -> None:
    groups = _test_job()["strategy"]["matrix"]["group"]
    assert sorted(groups) == sorted(_paths_of_groups())
    assert "cli" in groups


def test_linux_and_windows_and_the_oldest_and_newest_python() -> None:
    matrix = _test_job()["strategy"]["matrix"]
    systems = {name.partition("-")[0] for name in matrix["os"]}
    assert {"ubuntu", "windows"} <= systems
    assert {"3.11", "3.13"} <= set(matrix["python"])


def test_the_job_runs_the_paths_of_its_group() -> None:
    runs = [step["run"] for step in _test_job()["steps"] if "pytest" in step.get("run", "")]
    assert len(runs) == 1
    assert runs[0].endswith("${{ matrix.paths }}")
