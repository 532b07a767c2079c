"""Fixtures that every test may use, and the plugin modules of tests/fixtures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

TESTS = Path(__file__).parent

# There is no __init__.py under tests (import mode importlib), so the folder itself goes on the path, and what lies in
# tests/fixtures is imported as ``fixtures.NAME``, here and in tests.
sys.path.insert(0, str(TESTS))
pytest_plugins = [f"fixtures.{path.stem}" for path in sorted((TESTS / "fixtures").glob("*.py"))]

MARK = "WINML_TEST_MARK"


@pytest.fixture(scope="session", autouse=True)
def _own_user_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Logs, caches and reports go to a folder of this test session, never to the user's own."""
    home = tmp_path_factory.mktemp("user")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(home / name.lower()))
        for name in ("WINMLCLI_EP_PATH", "NO_COLOR", "PYTHONIOENCODING", "PYTHONUTF8"):
            patch.delenv(name, raising=False)
        yield


@dataclass(frozen=True)
class Ran:
    """A command that came to its end; the streams as bytes and as text."""

    code: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    mark: str

    @property
    def out(self) -> str:
        """stdout as UTF-8."""
        return self.stdout_bytes.decode("utf-8")

    @property
    def err(self) -> str:
        """stderr as UTF-8."""
        return self.stderr_bytes.decode("utf-8", "backslashreplace")


Winml = Callable[..., Ran]


@pytest.fixture(scope="session")
def winml_command() -> list[str]:
    """The installed ``winml`` script, or the module where the package is only on the path."""
    script = shutil.which("winml", path=str(Path(sys.executable).parent))
    return [script] if script else [sys.executable, "-m", "winml.modelkit"]


@pytest.fixture(scope="session")
def winml(winml_command: list[str]) -> Winml:
    """Run ``winml`` to its end: ``winml("sys", "--format", "json", env={...}, timeout=60)``."""

    def run(*args: str, env: dict[str, str] | None = None, timeout: float = 100.0, cwd: Path | None = None) -> Ran:
        mark = uuid.uuid4().hex
        done = subprocess.run(
            [*winml_command, *args],
            env={**os.environ, MARK: mark, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr, mark)

    return run


@pytest.fixture(scope="session")
def left_running() -> Callable[[str], list[str]]:
    """Command lines of the processes that still carry the mark of a command in their environment."""

    def find(mark: str) -> list[str]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(process.cmdline()))
            except (psutil.Error, OSError):
                continue
        return found

    return find
