"""What every command keeps to: streams, encodings, exit codes, one document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from winml.modelkit.cli import COMMANDS

Winml = Callable[..., Any]

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="shell redirection of POSIX")

# The quickest view with real rows, some of them not ASCII in text.
QUICK = ["sys", "--list-device"]


def shell(command: list[str], redirect: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command through a POSIX shell with a redirection or a pipe behind it."""
    return subprocess.run(
        ["bash", "-c", f'"$@" {redirect}', "bash", *command],
        capture_output=True,
        timeout=100,
        env={**os.environ, **env},
        check=False,
    )


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-16"])
def test_i02_text_in_every_encoding(winml: Winml, encoding: str) -> None:
    done = winml("sys", env={"PYTHONIOENCODING": encoding})
    assert done.code == 0, done.err
    text = done.stdout_bytes.decode(encoding)
    assert "Execution providers found" in text
    assert "\\xb7" not in text  # the middle dot has an ASCII form


def test_i02_json_where_the_stream_is_not_utf_8(winml: Winml) -> None:
    done = winml(*QUICK, "--format", "json", "--ep-path", "/no/模型·", env={"PYTHONIOENCODING": "cp1252"})
    assert done.code == 0, done.err
    assert json.loads(done.stdout_bytes.decode("ascii"))["requested"]["ep_path"] == ["/no/模型·"]


@pytest.mark.parametrize("command", [[], *([name] for name in sorted(COMMANDS))])
@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_i02_help_in_every_encoding(winml: Winml, command: list[str], encoding: str) -> None:
    done = winml(*command, "--help", env={"PYTHONIOENCODING": encoding})
    assert done.code == 0
    assert done.stdout_bytes.startswith(b"Usage: winml")


@POSIX
@pytest.mark.parametrize("redirect", ["<&-", "2>&-", "<&- >&- 2>&-"])
def test_i09_closed_streams(winml_command: list[str], redirect: str) -> None:
    done = shell([*winml_command, *QUICK], redirect)
    assert done.returncode == 0
    assert done.stderr == b""
    assert (b"Devices" in done.stdout) == (" >&-" not in redirect)


@POSIX
def test_i09_a_usage_error_with_closed_stderr(winml_command: list[str]) -> None:
    done = shell([*winml_command, "sys", "--nope", "-f", "json"], "2>&-")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "usage"


@POSIX
def test_i09_a_reader_that_leaves_early(winml_command: list[str]) -> None:
    done = shell([*winml_command, "sys", "-v", "-q"], "| head -1; exit ${PIPESTATUS[0]}")
    assert done.returncode == 0
    assert done.stderr == b""
    assert done.stdout.startswith(b"winml ")


@POSIX
def test_i09_a_reader_that_never_reads(winml_command: list[str]) -> None:
    done = shell([*winml_command, "sys", "--format", "json"], "| true; exit ${PIPESTATUS[0]}")
    assert done.returncode == 0
    assert done.stderr == b""


@POSIX
def test_a_full_disk_is_said(winml_command: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    done = shell([*winml_command, *QUICK], "> /dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: the output cannot be written: No space left on device")


@pytest.mark.parametrize("env", [{}, {"COLUMNS": "20", "TERM": "xterm-256color"}])
def test_i09_pipes_get_no_escape_codes_and_whole_lines(winml: Winml, env: dict[str, str]) -> None:
    done = winml("sys", "--verbose", env=env)
    assert b"\x1b" not in done.stdout_bytes + done.stderr_bytes
    assert "…" not in done.out


def in_a_terminal(command: list[str], columns: int, **env: str) -> tuple[int, str]:
    """Run a command on a pseudo-terminal; what it wrote to it, and its exit code."""
    import pty

    master, slave = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color", **env},
    )
    os.close(slave)
    chunks = []
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # Linux says EIO when the last writer is gone
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(master)
    return process.wait(timeout=60), b"".join(chunks).decode("utf-8")


@POSIX
@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_i09_terminals_without_color_get_no_escape_codes(winml_command: list[str], env: dict[str, str]) -> None:
    code, text = in_a_terminal([*winml_command, "sys"], 80, **env)
    assert code == 0
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


@POSIX
def test_a_terminal_gets_tables_in_its_width(winml_command: list[str]) -> None:
    code, text = in_a_terminal([*winml_command, "sys", "-q"], 100)
    assert code == 0
    assert "\x1b[1m" in text
    assert "─" in text


# --- exit codes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ["nope"],
        ["sys", "--format", "xml"],
        ["sys", "--timeout", "0"],
        ["sys", "--timeout", "nan"],
        ["sys", "stray"],
        ["perf"],
        ["perf", "a.onnx", "-m", "b.onnx"],
        ["perf", "a.onnx", "--ep-options", "nosign"],
    ],
)
def test_i06_usage_errors_exit_2_with_one_document(winml: Winml, args: list[str]) -> None:
    text = winml(*args)
    assert (text.code, text.out) == (2, "")
    assert "Error: " in text.err
    assert "Traceback" not in text.err
    if "--format" not in args:
        document = json.loads(winml(*args, "--format", "json").out)
        assert (document["status"], document["error"]["exit_code"]) == ("failed", 2)


def test_python_m_is_the_same_command(winml: Winml) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "winml.modelkit", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == winml("--version").out
