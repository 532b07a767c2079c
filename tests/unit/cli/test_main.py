"""The ``winml`` command itself: its help, its failures and their exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from winml.modelkit import __version__, cli
from winml.modelkit.errors import DeviceNotFound, Interrupted, WorkerCrashed

PYTHON_M = [sys.executable, "-m", "winml.modelkit"]


def winml(*args: str, env: dict[str, str] | None = None, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run ``python -m winml.modelkit`` in a fresh process."""
    return subprocess.run(
        [*PYTHON_M, *args],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        env={**os.environ, **(env or {})},
        check=False,
    )


def only_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, *, name: str = "made_up_command"
) -> None:
    """Make ``winml boom`` the command that ``source`` defines as ``boom``."""
    (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(cli, "COMMANDS", {"boom": (name, "boom", "Fail.")})
    monkeypatch.delitem(sys.modules, name, raising=False)


RAISES = """
import click
@click.command("boom")
@click.option("-f", "--format", default="text")
def boom(format):
    from winml.modelkit.errors import DeviceNotFound, Interrupted, WorkerCrashed
    raise {}
"""


def test_version_names_the_distribution() -> None:
    done = winml("--version")
    assert (done.returncode, done.stdout) == (0, f"winml-cli {__version__}\n")


def test_help_lists_every_command_and_the_exit_codes() -> None:
    done = winml("--help")
    assert done.returncode == 0
    for name, (_, _, line) in cli.COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line[:20])}", done.stdout, re.MULTILINE)
    for code in (0, 1, 2, 3, 4, 5, 130):
        assert re.search(rf"^    {code} +\w", done.stdout, re.MULTILINE), code
    assert done.stdout.isascii()


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_help_of_every_command_works_and_agrees_with_the_list(command: str) -> None:
    done = winml(command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: winml {command} ")
    assert done.stdout.isascii()
    assert done.stderr == ""


def test_no_arguments_shows_help_and_is_a_usage_error() -> None:
    done = winml()
    assert "Commands:" in done.stdout + done.stderr
    assert done.returncode in (0, 2)  # click before 8.2 calls it a success


@pytest.mark.parametrize(("typed", "meant"), [("syss", "sys"), ("SYS", "sys"), ("pref", "perf")])
def test_unknown_command_suggests_the_nearest(typed: str, meant: str) -> None:
    done = winml(typed)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.endswith(f"Error: No such command {typed!r}. Did you mean {meant!r}?\n")


def test_unknown_command_without_a_near_one_lists_all() -> None:
    done = winml("zzzzzz")
    assert done.returncode == 2
    assert "Commands: perf, sys." in done.stderr


def test_unknown_option_before_the_command() -> None:
    done = winml("--nope")
    assert done.returncode == 2
    assert "No such option" in done.stderr


def test_usage_error_with_json_is_one_document_too() -> None:
    done = winml("sys", "--timeout", "soon", "--format", "json")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert document["schema"] == "winml.error/1"
    assert document["status"] == "failed"
    assert document["command"] == ["winml", "sys", "--timeout", "soon", "--format", "json"]
    assert document["error"]["code"] == "usage"
    assert document["error"]["exit_code"] == 2
    assert "soon" in document["error"]["reason"]
    assert document["error"]["reason"] in done.stderr


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["sys", "--format", "json"], True),
        (["sys", "--format=json"], True),
        (["sys", "-f", "json"], True),
        (["sys", "-fjson"], True),
        (["sys", "-vqf", "json"], True),
        (["sys", "--format", "text"], False),
        (["sys", "--format", "json", "--format", "text"], False),
        (["perf", "--", "--format", "json"], False),
        (["perf", "--format"], False),
        (["perf", "json"], False),
        ([], False),
    ],
)
def test_wants_json(args: list[str], wanted: bool) -> None:
    assert cli.wants_json(args) is wanted


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        ('DeviceNotFound("no npu here", hint="look at winml sys")', DeviceNotFound.exit_code, "error: no npu here"),
        ('WorkerCrashed("it fell over")', WorkerCrashed.exit_code, "error: it fell over"),
        ("KeyboardInterrupt()", Interrupted.exit_code, "interrupted"),
    ],
)
def test_i06_failures_are_two_lines_and_the_right_code(
    raised: str,
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    only_command(monkeypatch, tmp_path, RAISES.format(raised))
    assert cli.run(["boom"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == line
    assert "Traceback" not in err
    if "hint" in raised:
        assert err.splitlines()[1] == "hint: look at winml sys"


def test_i06_failure_with_json_is_one_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only_command(monkeypatch, tmp_path, RAISES.format('DeviceNotFound("no npu here", details={"a": [1]})'))
    assert cli.run(["boom", "-f", "json"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["error"] == {
        "code": "device_not_found",
        "reason": "no npu here",
        "hint": None,
        "exit_code": 3,
        "details": {"a": [1]},
    }
    assert err == "error: no npu here\n"


def test_interrupted_with_json_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only_command(monkeypatch, tmp_path, RAISES.format("KeyboardInterrupt()"))
    assert cli.run(["boom", "-f", "json"]) == 130
    out, err = capsys.readouterr()
    assert json.loads(out)["status"] == "interrupted"
    assert err == "interrupted\n"


def test_internal_error_is_one_line_with_the_traceback_in_a_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only_command(monkeypatch, tmp_path, RAISES.format('ZeroDivisionError("one\\ntwo")'))
    assert cli.run(["boom"]) == 1
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert (out, first) == ("", "internal error: ZeroDivisionError: one two")
    log = Path(second.rpartition(" with ")[2])
    assert "ZeroDivisionError" in log.read_text(encoding="utf-8")
    assert "Traceback" in log.read_text(encoding="utf-8")


def test_failed_import_of_a_command_names_cause_and_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only_command(monkeypatch, tmp_path, "import a_package_nobody_has\n")
    assert cli.run(["boom"]) == 1
    _, err = capsys.readouterr()
    assert "the command 'boom' does not load: No module named 'a_package_nobody_has'" in err
    assert "pip install winml-cli" in err
    assert "No such command" not in err


def test_failed_import_while_running_names_cause_and_fix(tmp_path: Path) -> None:
    (tmp_path / "msgspec.py").write_text("raise ImportError('libc is too old', name='msgspec')\n", encoding="utf-8")
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    done = winml("sys", "--format", "json", env={"PYTHONPATH": path})
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "import_failed"
    assert "libc is too old" in error["reason"]
    assert "--force-reinstall" in error["hint"]
    assert "Traceback" not in done.stderr


def test_help_works_where_a_command_is_broken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only_command(monkeypatch, tmp_path, "import a_package_nobody_has\n")
    assert cli.run(["--help"]) == 0
    assert "boom" in capsys.readouterr().out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("args", [["--help"], ["--version"]])
def test_full_disk_is_a_failure_not_a_traceback(args: list[str]) -> None:
    with Path("/dev/full").open("w", encoding="ascii") as full:
        done = subprocess.run(
            [*PYTHON_M, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output cannot be written: No space left on device")
    assert "Exception ignored" not in done.stderr


class TestWallClock:
    """A generous guard: what takes longer than this has gone badly wrong."""

    LIMIT_S = 8.0

    @pytest.mark.parametrize("args", [["--help"], ["--version"], *([name, "--help"] for name in sorted(cli.COMMANDS))])
    def test_a_fresh_process_answers_in_time(self, args: list[str]) -> None:
        started = time.monotonic()
        assert winml(*args).returncode == 0
        assert time.monotonic() - started < self.LIMIT_S
