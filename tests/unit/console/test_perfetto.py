"""The Chrome trace: its form, as the Trace Event Format has it, and what it claims to have measured."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest

from fixtures import perf_documents
from fixtures import trace_documents as made
from winml.modelkit.console.perfetto import perfetto_json, to_perfetto
from winml.modelkit.perf.document import PerfDocument

Event = dict[str, Any]

DOCUMENTS = {
    "plain": perf_documents.document,
    "by shape": perf_documents.by_shape,
    "crashed": perf_documents.crashed,
    "refused": perf_documents.refused,
    "full": made.full,
    "one run": lambda: made.run_of([6.1]),
    "traced": lambda: made.traced(made.small_trace()),
    "cycles": lambda: made.traced(made.cycles_trace(scaled=False)),
    "failed trace": lambda: made.traced(made.failed_trace()),
    "hostile": made.hostile,
}


def events(document: PerfDocument, phase: str | None = None) -> list[Event]:
    found: list[Event] = to_perfetto(document)["traceEvents"]
    return [event for event in found if phase in (None, event["ph"])]


def named(document: PerfDocument) -> dict[tuple[str, str], list[Event]]:
    """Complete events by the names of their process and thread."""
    processes = {
        event["pid"]: event["args"]["name"] for event in events(document, "M") if event["name"] == "process_name"
    }
    threads = {event["tid"]: event["args"]["name"] for event in events(document, "M") if event["name"] == "thread_name"}
    rows: dict[tuple[str, str], list[Event]] = {}
    for event in events(document, "X"):
        rows.setdefault((processes[event["pid"]], threads[event["tid"]]), []).append(event)
    return rows


@pytest.mark.parametrize("name", DOCUMENTS)
def test_form(name: str) -> None:
    document = DOCUMENTS[name]()
    whole = json.loads(perfetto_json(document), parse_constant=lambda text: pytest.fail(text))
    assert set(whole) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert whole["displayTimeUnit"] in ("ms", "ns")
    assert all(isinstance(value, str) for value in whole["otherData"].values())
    for event in whole["traceEvents"]:
        assert event["ph"] in "XCM"
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["args"], dict)
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert isinstance(event["tid"], int)
            assert event["dur"] >= 0
        elif event["ph"] == "C":
            assert all(isinstance(value, int | float) and math.isfinite(value) for value in event["args"].values())
        else:
            assert event["name"] in ("process_name", "process_sort_index", "thread_name", "thread_sort_index")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_events_of_a_thread_never_overlap(name: str) -> None:
    document = DOCUMENTS[name]()
    rows = named(document)  # every process and thread that has events has a name
    for row in rows.values():
        spans = sorted((round(1000 * event["ts"]), round(1000 * event["dur"])) for event in row)
        for (start, length), (following, _) in itertools.pairwise(spans):
            assert start + length <= following


def test_timed_runs_have_their_measured_lengths() -> None:
    document = made.run_of([1.5, 2.25, 1.0])
    row = named(document)["timed runs", "inferences"]
    assert [event["name"] for event in row] == ["run 1", "run 2", "run 3"]
    assert [event["dur"] for event in row] == [1500.0, 2250.0, 1000.0]
    # Without a monitor the phases are end to end: 310 + 44 + 245 + 11.2 + 63 ms before the measured runs.
    assert [event["ts"] for event in row] == [673200.0, 674700.0, 676950.0]


def test_phases_end_to_end_say_that_their_starts_are_not_measured() -> None:
    row = named(made.run_of([1.0]))["timed runs", "phases"]
    assert [event["name"] for event in row] == [
        "import runtime", "register", "session", "first run", "warm-up", "measure",
    ]  # fmt: skip
    assert all("the start is not" in event["args"]["start"] for event in row)


def test_every_shape_has_its_runs() -> None:
    row = named(perf_documents.by_shape())["timed runs", "inferences"]
    assert len(row) == 200
    assert row[0]["args"] == {"inputs": "x 1x3x224x224"}
    assert row[100]["args"] == {"inputs": "x 8x3x224x224"}
    assert row[100]["name"] == "run 1"


def test_counters_and_phases_stand_where_the_monitor_saw_them() -> None:
    document = made.run_of([1.0])
    document.hardware = made.hardware()
    phases = named(document)["timed runs", "phases"]
    assert [(event["name"], event["ts"], event["dur"]) for event in phases] == [
        ("load", 0.0, 1e6),
        ("session", 1e6, 1e6),
        ("measure", 2e6, 2.5e6),
        ("trace", 4.5e6, 1.5e6),
    ]
    assert named(document)["timed runs", "inferences"][0]["ts"] == 2e6
    busy = [event for event in events(document, "C") if event["name"] == "process_cpu (% of one CPU)"]
    assert len(busy) == 61
    assert (busy[0]["ts"], busy[0]["args"]) == (0.0, {"value": 12.0})
    assert (busy[10]["ts"], busy[10]["args"]) == (1e6, {"value": 12.0})


def test_a_reading_that_failed_or_never_was_is_no_event() -> None:
    document = made.run_of([1.0])
    document.hardware = made.hardware()
    counted = [event["name"] for event in events(document, "C")]
    assert counted.count("package_power (W)") == sum(
        value is not None for value in document.hardware.counters["package_power"].values
    )
    assert not any(name.startswith("device_") for name in counted)


def test_h03_operators_are_drawn_once_as_means_and_not_as_if_seen_in_every_inference() -> None:
    document = made.traced(made.small_trace())
    rows = named(document)
    walls = rows["traced runs", "inferences"]
    assert [event["dur"] for event in walls] == [1000.0, 1100.0, 900.0]
    assert walls[0]["args"] == {"ep_us": 850.0, "operators_us": 800.0, "outside_us": 150.0}
    mean = "mean traced inference (of 3)"
    (whole,) = rows[mean, "inference"]
    first, second = rows[mean, "OpenVINO #0"]
    (moved,) = rows[mean, "OpenVINO #1"]
    assert (whole["dur"], first["dur"], second["dur"], moved["dur"]) == (1000.0, 500.0, 200.0, 100.0)
    assert second["ts"] == first["ts"] + 500.0
    assert whole["ts"] == first["ts"] == moved["ts"] == walls[0]["ts"]
    assert first["args"]["start"] == "not measured: laid out one after another"
    assert moved["args"]["moves_data"] is True
    about = to_perfetto(document)["otherData"]
    assert "order and starts are not measured" in about["times of the mean traced inference"]


def test_an_operator_of_a_branch_counts_over_all_inferences() -> None:
    records = [made.op("always", "Add", us=[10.0, 10.0]), made.op("sometimes", "Mul", us=[8.0])]
    rows = named(made.traced(made.trace_of(records, [30.0, 30.0])))
    lengths = {event["name"]: event["dur"] for event in rows["mean traced inference (of 2)", "OpenVINO #0"]}
    assert lengths == {"always": 10.0, "sometimes": 4.0}


def test_cycles_are_not_drawn_as_time() -> None:
    rows = named(made.traced(made.cycles_trace(scaled=False)))
    assert not any("QNN" in thread for _, thread in rows)
    scaled = named(made.traced(made.cycles_trace(scaled=True)))
    first = scaled["mean traced inference (of 2)", "QNN #0"][0]
    assert first["dur"] == 2050.0
    assert (first["args"]["mean_cycles"], first["args"]["derived_from_cycles"]) == (4100.0, True)


def test_emulation_and_failure_are_in_the_metadata() -> None:
    document = perf_documents.emulated()
    document.trace = made.failed_trace()
    about = to_perfetto(document)["otherData"]
    assert about["emulated"].startswith("yes")
    assert about["target"] == "QNN (NPU, EMULATED)"
    assert about["no operators"].startswith("backend_load_failed: ")


def test_nothing_to_draw_is_an_empty_trace() -> None:
    assert to_perfetto(perf_documents.refused())["traceEvents"] == []


def test_a_name_that_is_no_text_does_not_stop_the_writing() -> None:
    document = made.traced(made.small_trace())
    assert document.trace is not None
    document.trace.ops[0].name = "caf\udce9"
    text = perfetto_json(document)
    text.encode("utf-8")
    assert "caf\\udce9" in {event["name"] for event in json.loads(text)["traceEvents"]}
