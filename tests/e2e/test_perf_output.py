"""What ``winml perf`` writes: one document, the same facts as text, on every kind of stream, and files kept whole."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.cli import Outcome, PerfCommand, write
from fixtures.zoo import Zoo

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")

ESCAPE = "\x1b"


def both(perf: PerfCommand, folder: Path, *args: str | os.PathLike[str], **options: Any) -> tuple[str, dict[str, Any]]:
    """The text of a run and the JSON report of the same run."""
    report = folder / "both.json"
    outcome = perf(*args, "-o", report, "--overwrite", json_format=False, **options)
    assert outcome.code == 0, outcome.err
    document: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    return outcome.out, document


# --- the document ---------------------------------------------------------------------------------------------


def test_the_document_parses_and_has_every_part(perf: PerfCommand) -> None:
    outcome = perf("digits", "--ep", "cpu")
    document = json.loads(outcome.out)
    parts = {"requested", "effective", "placement", "environment", "result", "warnings", "error"}
    assert {"schema", "status", "summary", "command", "started"} | parts <= set(document)
    assert next(iter(document)) == "schema"
    assert document["command"][:3] == ["winml", "perf", "digits"]
    assert outcome.err == ""


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["nope.onnx"], 1),
        (["digits", "--ep", "vitisai", "--device", "gpu"], 2),
        (["digits", "--iterations", "many"], 2),
        (["digits", "--no-such-option"], 2),
        (["digits", "digits"], 2),
        (["digits", "-m", "digits"], 2),
        ([], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_failure_is_one_document_too_and_is_told_on_stderr(perf: PerfCommand, args: list[str], code: int) -> None:
    outcome = perf(*args, quick=False)
    assert outcome.code == code
    assert outcome.error["reason"]
    assert outcome.document["command"] == ["winml", "perf", *args, "--format", "json"]
    assert outcome.err.strip()
    assert outcome.error["code"] != "internal"


def test_i10_quiet_changes_no_fact(perf: PerfCommand, zoo: Zoo) -> None:
    def facts(*args: str) -> dict[str, Any]:
        document = perf.ok(zoo("det"), "--ep", "cpu", *args)
        for moving in ("command", "started", "summary", "result"):
            document.pop(moving)
        for moving in ("memory_available_bytes",):
            document["environment"].pop(moving)
        return document

    assert facts("--quiet") == facts() == facts("-v")


def test_i10_quiet_keeps_the_text_whole(perf: PerfCommand, zoo: Zoo) -> None:
    def headings(*args: str) -> list[str]:
        text = perf(zoo("relu"), "--ep", "cpu", *args, json_format=False).out
        return [line.split()[0] for line in text.splitlines() if line and not line.startswith(" ")]

    assert headings("--quiet") == headings()


# --- text equals document -------------------------------------------------------------------------------------


def table(text: str, title: str) -> list[dict[str, str]]:
    """The rows of a plain table by the headings of its columns, which two or more blanks separate."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(title))
    block = []
    for line in lines[start + 1 :]:
        if not line.startswith("  "):
            break
        block.append(re.split(r"\s{2,}", line.strip()))
    return [dict(zip(block[0], row, strict=False)) for row in block[1:]]


def assert_rounds_to(shown: str, value: float, factor: float) -> None:
    """The number in the text is the document's, rounded to the digits that are shown."""
    decimals = len(shown.partition(".")[2])
    assert abs(float(shown) - value * factor) <= 0.5000001 * 10**-decimals, (shown, value * factor)


SCALE = {"µs": 1000.0, "ms": 1.0, "s": 0.001}


def test_i13_every_figure_of_the_text_is_the_documents(perf: PerfCommand, tmp_path: Path) -> None:
    text, document = both(perf, tmp_path, "digits", "--ep", "cpu", "--iterations", "120", "--warmup", "5")
    result, effective = document["result"], document["effective"]
    lines = text.splitlines()
    # First and last line are the document's summary, and that is made of its figures.
    assert lines[0] == lines[-1] == document["summary"]
    found = re.fullmatch(r"CPU: (\d+)/(\d+) nodes · p50 ([\d.]+) (µs|ms|s) · ([\d.]+) samples/s.*", lines[0])
    assert found is not None
    placement = document["placement"]
    assert (int(found[1]), int(found[2])) == (placement["target_nodes"], placement["nodes_total"])
    assert float(found[3]) == pytest.approx(result["latency_ms"]["p50"] * SCALE[found[4]], rel=0.006)
    assert float(found[5]) == pytest.approx(result["throughput"]["samples_per_s"], rel=0.006)

    unit = re.search(r"^Latency in (µs|ms|s)$", text, re.M)
    assert unit is not None
    (row,) = table(text, "Latency in")
    assert int(row["n"]) == result["latency_ms"]["n"] == 120
    for name in ("mean", "min", "p50", "p90", "p95", "p99", "max", "stdev"):
        assert_rounds_to(row[name], result["latency_ms"][name], SCALE[unit[1]])

    phases = re.search(r"^phases (.*)$", text, re.M)
    assert phases is not None
    shown = dict(re.findall(r"([a-z -]+) ([\d.]+ (?:µs|ms|s))(?:, |$)", phases[1]))
    names = {"import runtime": "import_runtime", "session": "session", "first run": "first_run", "warm-up": "warmup"}
    for words, key in {**names, "measure": "measure"}.items():
        number, _, scale = shown[words].partition(" ")
        assert float(number) == pytest.approx(result["phases_ms"][key] * SCALE[scale], rel=0.006)
    assert "register" not in shown

    rows = table(text, "Resident memory")
    for stage, item in zip(result["memory"]["stages"], rows, strict=False):
        assert item["Stage"] == stage["stage"]
        number, _, size = item["Resident"].partition(" ")
        scale_of = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[size]
        assert float(number) == pytest.approx(stage["rss_bytes"] / scale_of, abs=0.051)
    assert len(rows) == len(result["memory"]["stages"]) + 1

    assert f"threads: {effective['threads']} ({effective['threads_rule']})" in text
    assert f"precision: {effective['precision']['effective']} (" in text
    assert f"runs: {effective['iterations']} measured after {effective['warmup']} for warm-up" in text
    assert f"batch size: {effective['batch_size']}" in text
    assert f"sha256 {effective['model']['sha256'][:12]}" in text
    (fed,) = table(text, "Inputs")
    described = effective["inputs"]["image"]
    assert (fed["Name"], fed["Type"], fed["Data"]) == ("image", described["dtype"], described["origin"])
    assert fed["Shape"] == "x".join(map(str, described["shape"]))
    assert (result["noise"]["verdict"] or "not judged") in text


def test_i13_placement_in_text_and_document_are_one(
    perf: PerfCommand, zoo: Zoo, tmp_path: Path, openvino: dict[str, str]
) -> None:
    text, document = both(perf, tmp_path, zoo("det"), "--ep", "openvino", "--device", "cpu", env=openvino)
    rows = {row["EP"]: row for row in table(text, "Placement")}
    for item in document["placement"]["eps"]:
        row = rows[item["alias"]]
        assert int(row["Nodes"]) == item["nodes"]
        assert row["Share"] == f"{item['share']:.1%}"
        assert row["Partitions"] == ("-" if item["partitions"] is None else str(item["partitions"]))
    assert len(rows) == len(document["placement"]["eps"])
    (left,) = document["placement"]["leftovers"]
    assert table(text, "Nodes not on the target") == [{"Op": left["op_type"], "EP": left["ep"], "Node": left["name"]}]


def test_the_report_whose_path_is_printed_is_there_and_the_same(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    text, document = both(perf, tmp_path, zoo("relu"), "--ep", "cpu")
    path = re.search(r"^report: (.*)$", text, re.M)
    assert path is not None
    assert json.loads(Path(path[1]).read_text(encoding="utf-8")) == document


# --- streams --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"FORCE_COLOR": "1"}, {"TERM": "xterm-256color", "COLUMNS": "40"}]
)
def test_i09_no_escape_codes_in_a_pipe(perf: PerfCommand, zoo: Zoo, env: dict[str, str]) -> None:
    outcome = perf(zoo("relu"), "--ep", "cpu", json_format=False, env=env)
    assert outcome.code == 0
    assert ESCAPE not in outcome.out + outcome.err
    # Nothing is cut to the width of a terminal that is not there.
    assert "relu.onnx" in outcome.out


@pytest.mark.parametrize(
    ("encoding", "form"),
    [("ascii", "text"), ("cp1252", "text"), ("utf-16", "text"), ("ascii", "json"), ("utf-16", "json")],
)
def test_i02_every_encoding_takes_the_report(perf: PerfCommand, zoo: Zoo, encoding: str, form: str) -> None:
    process, _ = perf.start(
        zoo("relu"),
        "--ep",
        "cpu",
        "--iterations",
        "2",
        "--warmup",
        "0",
        "--format",
        form,
        env={"PYTHONIOENCODING": encoding},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = process.communicate(timeout=50)
    assert (process.returncode, err) == (0, b"")
    text = out.decode(encoding)
    assert "1/1 nodes" in text
    if form == "json":
        assert json.loads(text)["status"] == "ok"
    if encoding == "ascii" and form == "text":
        assert text.startswith("CPU: 1/1 nodes | p50 ")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_i02_help_is_readable_in_every_encoding(perf: PerfCommand, encoding: str) -> None:
    process, _ = perf.start(
        "--help", env={"PYTHONIOENCODING": encoding}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert "--inference-precision" in out.decode(encoding)


def test_i02_an_error_about_a_name_the_terminal_lacks(perf: PerfCommand, tmp_path: Path) -> None:
    outcome = perf("模型.onnx", json_format=False, cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert outcome.code == 1
    assert "no such file" in outcome.err


@linux
@pytest.mark.parametrize("form", ["text", "json"])
def test_i09_a_closed_stderr_is_no_failure(perf: PerfCommand, zoo: Zoo, form: str) -> None:
    outcome = perf(zoo("relu"), "--ep", "cpu", "--format", form, json_format=False, preexec_fn=lambda: os.close(2))
    assert outcome.code == 0
    assert "1/1 nodes" in outcome.out
    failed = perf("nope.onnx", "--format", form, json_format=False, preexec_fn=lambda: os.close(2))
    assert failed.code == 1
    if form == "json":
        assert failed.error["code"] == "model_not_found"


@linux
def test_i09_a_closed_stdout_and_a_reader_that_left_early(perf: PerfCommand, zoo: Zoo) -> None:
    assert perf(zoo("relu"), "--ep", "cpu", preexec_fn=lambda: os.close(1)).code == 0
    process, _ = perf.start(
        zoo("relu"),
        "--ep",
        "cpu",
        "--iterations",
        "5000",
        "--format",
        "json",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    with process.stderr as stderr:
        err = stderr.read()
    assert (process.wait(30), err) == (0, b"")


@linux
def test_a_full_disk_under_stdout_is_told(perf: PerfCommand, zoo: Zoo) -> None:
    with Path("/dev/full").open("wb") as full:
        process, _ = perf.start(zoo("relu"), "--ep", "cpu", "--format", "json", stdout=full, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=50)
    assert process.returncode == 1
    assert b"No space left on device" in err
    assert b"Traceback" not in err


def test_progress_goes_to_stderr_and_quiet_silences_it(perf: PerfCommand, zoo: Zoo) -> None:
    loud = perf(zoo("slow"), "--ep", "cpu", "--duration", "2.6")
    assert "measure" in loud.err
    assert loud.document["status"] == "ok"
    assert perf(zoo("slow"), "--ep", "cpu", "--duration", "2.6", "--quiet").err == ""


# --- files ----------------------------------------------------------------------------------------------------


def test_output_is_not_overwritten_unless_asked(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    report = write(tmp_path / "r.json", b"mine")
    perf.refused("output_exists", 2, zoo("relu"), "-o", report)
    assert report.read_bytes() == b"mine"
    document = perf.ok(zoo("relu"), "--ep", "cpu", "-o", report, "--overwrite")
    assert json.loads(report.read_text(encoding="utf-8")) == document


def test_output_goes_into_a_new_folder(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    report = tmp_path / "new" / "folder" / "r.json"
    document = perf.ok(zoo("relu"), "--ep", "cpu", "-o", report)
    assert json.loads(report.read_text(encoding="utf-8")) == document
    assert [path.name for path in report.parent.iterdir()] == ["r.json"]


def test_output_that_cannot_be_a_file_is_refused_before_the_run(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    file = write(tmp_path / "file", b"")
    perf.refused("output_is_folder", 2, zoo("relu"), "-o", tmp_path, "--overwrite")
    perf.refused("output_not_writable", 2, zoo("relu"), "-o", file / "r.json")
    assert perf(zoo("relu"), "-o", "").code == 2
    if sys.platform.startswith("linux"):
        perf.refused("output_not_regular", 2, zoo("relu"), "-o", "/dev/full", "--overwrite")


def lost(outcome: Outcome) -> None:
    """The output was lost, the measurement was not."""
    assert (outcome.code, outcome.error["code"]) == (1, "output_failed")
    assert outcome.document["result"]["latency_ms"]["n"] == 2
    assert outcome.document["placement"]["target_nodes"] == 1


@linux
def test_output_that_fails_in_the_end_loses_no_measurement(perf: PerfCommand, zoo: Zoo) -> None:
    outcome = perf(zoo("relu"), "--ep", "cpu", "-o", "/proc/x.json")
    if outcome.code == 2:  # told before the run, where the system says so
        assert outcome.error["code"] == "output_not_writable"
        return
    lost(outcome)


@linux
def test_a_full_disk_leaves_the_old_report_and_no_rest(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    import resource

    report = write(tmp_path / "r.json", b"old")
    outcome = perf(
        zoo("relu"),
        "--ep",
        "cpu",
        "-o",
        report,
        "--overwrite",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    lost(outcome)
    assert report.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_a_command_that_cannot_be_meant_writes_no_report(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    report = write(tmp_path / "r.json", b"a good one")
    perf.refused("unknown_dim", 2, zoo("batched"), "--dim", "x=1", "-o", report, "--overwrite")
    assert report.read_bytes() == b"a good one"


def test_a_failed_run_writes_its_report(perf: PerfCommand, zoo: Zoo, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    outcome = perf.refused("opset_too_new", 1, zoo("opset_99"), "--ep", "cpu", "-o", report)
    assert json.loads(report.read_text(encoding="utf-8")) == outcome.document
