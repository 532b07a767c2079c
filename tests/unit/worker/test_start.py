"""The quick start of a worker agrees with the slow one."""

from __future__ import annotations

import subprocess
import sys

import platformdirs
import pytest

from winml.modelkit.worker import start


@pytest.mark.parametrize("state", [None, "", "  ", "/elsewhere"])
def test_log_folder_is_that_of_platformdirs(monkeypatch: pytest.MonkeyPatch, state: str | None) -> None:
    if state is None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", state)
    assert start.log_folder() == platformdirs.user_log_dir("winml", appauthor=False)


def test_names_of_logs_differ() -> None:
    names = {start.log_path("f", "job") for _ in range(100)}
    assert len(names) == 100


def test_starting_imports_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import winml.modelkit.launch, winml.modelkit.worker.start;"
    code += "print(sorted(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for module in ("click", "platformdirs", "dataclasses", "inspect", "json"):
        assert f"'{module}'" not in loaded
