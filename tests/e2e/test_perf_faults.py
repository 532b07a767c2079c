"""Whatever a vendor's library or the user does to ``winml perf``: one document, the time limit kept, nothing left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from fixtures.cli import PerfCommand, children_of, interrupt
from fixtures.zoo import Zoo

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")
pytestmark = linux

OPENVINO = "libonnxruntime_providers_openvino_plugin.so"

Gone = Callable[[str], None]


@pytest.fixture
def as_openvino(hostile_libraries: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A folder in which a hostile library bears the name of OpenVINO's plugin."""

    def place(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / OPENVINO).write_bytes(hostile_libraries[name].read_bytes())
        return folder

    return place


# --- libraries ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "exit_code", "code", "words"),
    [
        ("abort", 5, "crashed", "SIGABRT"),
        ("exit", 5, "ended_early", "exit code 7"),
        ("segv", 5, "crashed", "SIGSEGV"),
        ("flood", 3, "no_device", "no device"),
        ("no_device", 3, "no_device", "no device"),
        ("init_fails", 3, "initialisation_failed", "the vendor driver is not running"),
        ("not_an_ep", 3, "not_an_ep_library", "CreateEpFactories"),
        ("truncated", 3, "truncated", ""),
        ("text", 3, "wrong_format", ""),
        ("wrong_machine", 3, "wrong_machine", ""),
        ("missing_dependency", 3, "missing_dependency", "libgone_dependency.so"),
    ],
)
def test_a_library_that_misbehaves_is_one_clean_failure(
    perf: PerfCommand,
    zoo: Zoo,
    as_openvino: Callable[[str], Path],
    nothing_left: Gone,
    name: str,
    exit_code: int,
    code: str,
    words: str,
) -> None:
    folder = as_openvino(name)
    outcome = perf.refused(code, exit_code, zoo("relu"), "--ep-path", folder, "--ep", "openvino", timeout=40)
    assert words in outcome.error["reason"]
    assert outcome.document["result"] is None
    nothing_left(outcome.mark)


def test_a_crash_at_the_session_still_names_target_phase_and_log(
    perf: PerfCommand, zoo: Zoo, as_openvino: Callable[[str], Path]
) -> None:
    outcome = perf.refused("crashed", 5, zoo("relu"), "--ep-path", as_openvino("segv"), "--ep", "openvino")
    assert outcome.error["details"]["phase"] == "make the session"
    assert outcome.document["effective"]["target"]["alias"] == "openvino"
    assert Path(outcome.error["details"]["log"]).is_file()
    text = perf(
        zoo("relu"), "--ep-path", outcome.document["requested"]["ep_path"][0], "--ep", "openvino", json_format=False
    )
    assert text.code == 5
    assert "SIGSEGV" in text.err and "log" in text.err


def test_a_session_that_the_ep_refuses_is_told_in_its_own_words(
    perf: PerfCommand, hostile_libraries: dict[str, Path], zoo: Zoo, tmp_path: Path
) -> None:
    (tmp_path / OPENVINO).write_bytes(hostile_libraries["no_session"].read_bytes())
    outcome = perf.refused("session_failed", 1, zoo("relu"), "--ep-path", tmp_path, "--ep", "openvino")
    assert outcome.error["reason"].endswith("openvino made no session: this build of the EP cannot make a session")


def test_noise_of_a_library_reaches_neither_stream(
    perf: PerfCommand, zoo: Zoo, as_openvino: Callable[[str], Path]
) -> None:
    outcome = perf(zoo("relu"), "--ep-path", as_openvino("flood"), "--ep", "openvino")
    assert outcome.document["schema"] == "winml.perf/1"  # parsed, so nothing stands beside it
    assert len(outcome.err) < 5000


def test_a_hanging_library_is_ended_at_the_time_limit(
    perf: PerfCommand, zoo: Zoo, as_openvino: Callable[[str], Path], nothing_left: Gone
) -> None:
    folder = as_openvino("hang")
    outcome = perf.refused("timed_out", 5, zoo("relu"), "--ep-path", folder, "--ep", "openvino", "--timeout", "3")
    assert 3 <= outcome.seconds < 12
    assert outcome.error["details"]["phase"] == "register the EP"
    assert "--timeout" in outcome.error["hint"]
    nothing_left(outcome.mark)


def test_a_limit_shorter_than_start_up_is_kept(
    perf: PerfCommand, zoo: Zoo, as_openvino: Callable[[str], Path], nothing_left: Gone
) -> None:
    folder = as_openvino("hang")
    outcome = perf.refused("timed_out", 5, zoo("relu"), "--ep-path", folder, "--ep", "openvino", "--timeout", "0.5")
    assert outcome.seconds < 8
    nothing_left(outcome.mark)


def test_a_limit_ends_a_measurement_that_takes_too_long(perf: PerfCommand, zoo: Zoo, nothing_left: Gone) -> None:
    outcome = perf.refused("timed_out", 5, zoo("slow"), "--ep", "cpu", "--duration", "30", "--timeout", "3")
    assert outcome.error["details"]["phase"] == "measure"
    assert outcome.seconds < 12
    assert outcome.document["placement"]["target_nodes"] == 8
    nothing_left(outcome.mark)


def test_a_hanging_library_costs_the_automatic_choice_no_more_than_the_limit(
    perf: PerfCommand, zoo: Zoo, as_openvino: Callable[[str], Path], nothing_left: Gone
) -> None:
    # Another EP may be chosen; the look at this library alone would take 15 s.
    outcome = perf(zoo("relu"), "--ep-path", as_openvino("hang"), "--timeout", "4", timeout=40)
    assert outcome.code == 0, outcome.err
    assert outcome.seconds < 14
    passed = {item["ep"]: item["reason"] for item in outcome.document["effective"]["passed_over"]}
    assert "ended after" in passed["OpenVINOExecutionProvider"]
    nothing_left(outcome.mark)


# --- where it is started from ---------------------------------------------------------------------------------


def test_a_home_that_cannot_be_written_costs_the_copy_only(perf: PerfCommand, zoo: Zoo) -> None:
    names = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    outcome = perf(zoo("relu"), env=dict.fromkeys(names, "/proc/nowhere"))
    assert outcome.code == 0, outcome.err
    assert outcome.document["result"]
    assert "no copy of the report was kept" in outcome.err


# --- the user -------------------------------------------------------------------------------------------------


def wait_for_child(process: subprocess.Popen[bytes], seconds: float = 20) -> list[psutil.Process]:
    """The worker of a command, once it has been busy for a moment."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        found = [child for child in children_of(process.pid) if sum(child.cpu_times()[:2]) > 1.5]
        if found:
            return found
        assert process.poll() is None
        time.sleep(0.05)
    pytest.fail("the command started no worker")


@pytest.mark.parametrize("form", ["json", "text"])
def test_ctrl_c_ends_everything_with_130_and_one_document(
    perf: PerfCommand, zoo: Zoo, nothing_left: Gone, form: str
) -> None:
    process, mark = perf.start(
        zoo("slow"),
        "--ep",
        "cpu",
        "--duration",
        "60",
        "--format",
        form,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    wait_for_child(process)
    began = time.monotonic()
    interrupt(process)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert b"interrupted" in err
    if form == "json":
        import json

        document = json.loads(out)
        assert (document["status"], document["error"]["code"]) == ("interrupted", "interrupted")
        assert document["result"] is None
    nothing_left(mark)


def test_ctrl_c_right_at_the_start_is_clean_too(perf: PerfCommand, zoo: Zoo, nothing_left: Gone) -> None:
    for delay in (0.05, 0.25, 0.5):
        process, mark = perf.start(
            zoo("relu"),
            "--duration",
            "60",
            "--format",
            "json",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        time.sleep(delay)
        interrupt(process)
        _, err = process.communicate(timeout=20)
        # Before Python has come to our code the interpreter itself answers, by the signal or with its own 1.
        assert process.returncode in (130, -signal.SIGINT, 1)
        if process.returncode == 130:
            assert b"Traceback" not in err
        nothing_left(mark)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_command_that_is_killed_leaves_no_worker(
    perf: PerfCommand, zoo: Zoo, nothing_left: Gone, how: signal.Signals
) -> None:
    process, mark = perf.start(
        zoo("slow"), "--ep", "cpu", "--duration", "60", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for_child(process)
    process.send_signal(how)
    process.wait(20)
    nothing_left(mark)


def test_a_worker_that_is_killed_is_told_by_its_signal(perf: PerfCommand, zoo: Zoo, nothing_left: Gone) -> None:
    process, mark = perf.start(
        zoo("slow"),
        "--ep",
        "cpu",
        "--duration",
        "60",
        "--format",
        "json",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    (child,) = wait_for_child(process)
    child.kill()
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 5
    assert b"SIGKILL" in out
    nothing_left(mark)
