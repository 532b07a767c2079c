"""Whatever happens in the child becomes one result or one structured failure, within the time limit."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from winml.modelkit.errors import DeviceNotFound, WinMLError, WorkerCrashed, WorkerTimedOut
from winml.modelkit.worker.runner import Job, JobResult, Worker, describe_exit, run_job

JOBS = Path(__file__).parents[2] / "fixtures" / "jobs"
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")


@pytest.fixture(autouse=True)
def _jobs_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.pathsep.join(filter(None, [str(JOBS), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONPATH", path)


def run(function: str, timeout: float | None = 30.0, **args: Any) -> JobResult:
    return run_job(Job(f"worker_jobs:{function}", args), timeout=timeout, preload=())


def test_result_and_events_come_back() -> None:
    events: list[dict[str, Any]] = []
    result = run_job(
        Job("worker_jobs:echo", {"text": "grüße 你好", "numbers": [1, 2.5]}), preload=(), on_event=events.append
    )
    assert result.value["args"] == {"text": "grüße 你好", "numbers": [1, 2.5]}
    assert result.value["pid"] == result.pid
    assert result.value["rss"] > 1_000_000
    assert events == [{"event": "phase", "name": "echo", "expect_s": 0.5}]


def test_child_does_not_import_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the working directory')")
    monkeypatch.chdir(tmp_path)
    assert run("modules").value["cwd_on_path"] is False


def test_error_keeps_kind_code_hint_and_details() -> None:
    with pytest.raises(DeviceNotFound) as caught:
        run("refuse")
    error = caught.value
    assert (error.reason, error.hint, error.exit_code) == ("no such device", "plug it in", 3)
    assert error.details["device"] == "npu"
    assert Path(error.details["log"]).is_file()


def test_own_fault_is_said_to_be_ours_and_its_traceback_is_in_the_log() -> None:
    with pytest.raises(WinMLError) as caught:
        run("fault")
    assert caught.value.code == "internal"
    assert "ZeroDivisionError: one of our own" in caught.value.reason
    assert "Traceback" in Path(caught.value.details["log"]).read_text()


def test_missing_package_is_named() -> None:
    with pytest.raises(WinMLError, match="package_that_is_not_there") as caught:
        run("missing_package")
    assert caught.value.code == "import_failed"


@posix_only
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGBUS", "SIGABRT", "SIGKILL"])
def test_signal_is_named(name: str) -> None:
    with pytest.raises(WorkerCrashed) as caught:
        run("end_by_signal", signal=name)
    assert caught.value.details["signal"] == name
    assert caught.value.details["phase"] == "about to end"
    assert caught.value.exit_code == 5
    assert name in caught.value.reason


@posix_only
def test_reading_a_null_pointer_is_a_crash_with_its_last_native_lines() -> None:
    with pytest.raises(WorkerCrashed) as caught:
        run("read_null")
    assert caught.value.details["signal"] == "SIGSEGV"
    assert any("read_null" in line for line in caught.value.details["last_lines"])


@pytest.mark.parametrize("code", [0, 7])
def test_early_exit_without_a_result_is_a_failure_even_with_code_0(code: int) -> None:
    with pytest.raises(WorkerCrashed) as caught:
        run("leave", code=code)
    assert caught.value.code == "ended_early"
    assert f"exit code {code}" in caught.value.reason


@pytest.mark.parametrize("holding", [False, pytest.param(True, marks=posix_only)])
def test_hang_is_ended_at_the_limit_also_while_native_code_holds_the_interpreter(holding: bool) -> None:
    started = time.monotonic()
    with pytest.raises(WorkerTimedOut) as caught:
        run("hang", timeout=1.5, holding_the_interpreter=holding)
    assert time.monotonic() - started < 8
    assert caught.value.details["phase"] == "hanging"
    assert caught.value.exit_code == 5


@posix_only
def test_what_the_child_started_ends_with_it() -> None:
    seen: list[int] = []

    def note(event: dict[str, Any]) -> None:
        if event["event"] == "child":
            seen.append(event["pid"])

    with pytest.raises(WorkerTimedOut):
        run_job(Job("worker_jobs:hang_with_child", {}), timeout=2, preload=(), on_event=note)
    deadline = time.monotonic() + 5
    while _alive(seen[0]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(seen[0])


def _alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_native_noise_reaches_the_log_and_never_the_channel() -> None:
    """Twenty thousand lines on both streams neither block nor forge an answer."""
    result = run("scribble", lines=20_000)
    assert result.value == {"written": 20_000}
    assert result.log.stat().st_size > 2_000_000
    assert b"noise on stdout" in result.log.read_bytes()


def test_last_lines_carry_no_colour_codes() -> None:
    with Worker() as worker:
        worker.run(Job("worker_jobs:scribble", {"lines": 3}), timeout=30)
        assert worker.last_lines()[-1] == "the last native line"


def test_announced_phases_extend_the_limit_and_silent_ones_do_not() -> None:
    job = Job("worker_jobs:slow_phases", {"phases": 3, "each_s": 0.7, "expect_s": 1.0})
    assert run_job(job, phase_timeout=0.6, preload=()).value == {"phases": 3}
    silent = Job("worker_jobs:slow_phases", {"phases": 1, "each_s": 30.0, "expect_s": 0.0})
    with pytest.raises(WorkerTimedOut):
        run_job(silent, phase_timeout=0.6, preload=())


@posix_only
@pytest.mark.parametrize("holding", ["True", "False"])
def test_child_ends_when_the_parent_is_killed(holding: str) -> None:
    script = (
        "from winml.modelkit.worker.runner import Job, Worker\n"
        "worker = Worker()\n"
        "def show(event): print(worker.pid, flush=True)\n"
        f"worker.run(Job('worker_jobs:hang', {{'holding_the_interpreter': {holding}}}), on_event=show)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _alive(pid)
        parent.kill()
    deadline = time.monotonic() + 5
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(pid)


@pytest.mark.parametrize(
    ("code", "words", "name"),
    [
        (-9, "signal 9 (SIGKILL)", "SIGKILL"),
        (0xC0000005, "0xC0000005 (access violation)", "access violation"),
        (3, "exit code 3", None),
    ],
)
def test_exit_codes_in_words(code: int, words: str, name: str | None) -> None:
    text, found = describe_exit(code)
    assert words in text
    assert found == name
