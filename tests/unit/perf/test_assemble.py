"""Figures and judgement of a run, from answers whose results can be worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures.perf_documents import document as example
from winml.modelkit.documents import Library
from winml.modelkit.errors import EvidenceShortfall, Interrupted, RunFailed
from winml.modelkit.perf.assemble import build_result, format_ms, note_failure, shortfall, summarise, target_name
from winml.modelkit.perf.document import PlacedEP, Placement, Precision, Target

CPU = "CPUExecutionProvider"
OPENVINO = "OpenVINOExecutionProvider"


def load(monotonic: float) -> dict[str, Any]:
    return {
        "load_average": [0.1, 0.1, 0.1],
        "system_busy_s": None,
        "steal_s": None,
        "own_cpu_s": 1.0,
        "frequency_mhz": None,
        "affinity": [0],
        "monotonic_s": monotonic,
    }


def run(*samples: float, batch: int = 1) -> dict[str, Any]:
    return {
        "inputs": {"x": {"dtype": "float32", "shape": [batch, 8], "origin": "uniform [0, 1)"}},
        "dims": {"batch": batch},
        "first_run_ms": 9.0,
        "warmup_ms": 3.0,
        "measure_ms": sum(samples),
        "samples_ms": list(samples),
        "load_start": load(0.0),
        "load_end": load(1.0),
    }


def answer(*runs: dict[str, Any], memory: dict[str, Any] | None = None) -> dict[str, Any]:
    phases = {
        "import_runtime": 100.0,
        "register": None,
        "session": 20.0,
        "first_run": 9.0,
        "warmup": 3.0,
        "measure": 6.0,
    }
    return {"runs": list(runs), "phases_ms": phases, "memory": memory}


def test_figures_of_three_samples() -> None:
    result = build_result(answer(run(1.0, 2.0, 3.0)), [4], None)
    latency = result.latency_ms
    assert (latency.n, latency.mean, latency.min, latency.p50, latency.max, latency.stdev) == (
        3,
        2.0,
        1.0,
        2.0,
        3.0,
        1.0,
    )
    # 3 inferences in 6 ms, each of 4 samples
    assert (result.throughput.inferences_per_s, result.throughput.samples_per_s) == (500.0, 2000.0)
    assert result.samples_ms == [1.0, 2.0, 3.0]
    assert result.memory is None
    assert result.by_shape is None
    assert result.phases_ms.register is None


def test_b06_without_a_batch_there_are_no_samples_per_second() -> None:
    throughput = build_result(answer(run(2.0)), [None], None).throughput
    assert (throughput.samples_per_s, throughput.batch_size) == (None, None)


def test_h07_several_shapes_have_a_row_each_and_the_first_is_the_headline() -> None:
    result = build_result(answer(run(1.0, 1.0), run(4.0, 4.0, batch=8)), [1, 8], None)
    assert result.latency_ms.mean == 1.0
    assert result.by_shape is not None
    assert [row.batch_size for row in result.by_shape] == [1, 8]
    assert [row.latency_ms.mean for row in result.by_shape] == [1.0, 4.0]
    assert [row.throughput.samples_per_s for row in result.by_shape] == [1000.0, 2000.0]
    assert [row.dims for row in result.by_shape] == [{"batch": 1}, {"batch": 8}]


@pytest.mark.parametrize(
    ("own", "sampled", "expected"),
    [
        (500, 700, (500, "kernel high-water mark")),
        (None, 700, (700, "sampled from outside every 20 ms")),
        (None, None, (None, "not known")),
    ],
)
def test_b08_a_peak_is_the_workers_own_or_a_sampled_one_or_null(
    own: int | None, sampled: int | None, expected: tuple[int | None, str]
) -> None:
    method = "kernel high-water mark" if own else "not known"
    memory = {"stages": [{"stage": "process start", "rss_bytes": 5}], "peak_bytes": own, "peak_method": method}
    found = build_result(answer(run(1.0), memory=memory), [1], sampled).memory
    assert found is not None
    assert (found.peak_bytes, found.peak_method) == expected


# --- words ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0.0201, "20.1 µs"),
        (0.0999, "99.9 µs"),
        (0.1, "0.1 ms"),
        (6.1234, "6.12 ms"),
        (99.96, "100 ms"),
        (123.4, "123 ms"),
        (1500.0, "1.5 s"),
        (123456.0, "123 s"),
    ],
)
def test_milliseconds_in_three_digits(ms: float, text: str) -> None:
    assert format_ms(ms) == text


def target(ep: str, device: str, *, emulated: bool = False) -> Target:
    library = Library(path=None, source="bundled")
    return Target(
        ep=ep, alias="x", device=device, device_name=None, emulated=emulated, listed_device="cpu", library=library
    )


def test_a08_the_name_of_a_target_says_emulated() -> None:
    assert target_name(target(CPU, "cpu")) == "CPU"
    assert target_name(target(OPENVINO, "cpu")) == "OpenVINO (CPU)"
    assert target_name(target("QNNExecutionProvider", "npu", emulated=True)) == "QNN (NPU, EMULATED)"


def test_the_summary_is_made_of_the_documents_figures() -> None:
    document = example()
    document.summary = ""
    summary = summarise(document)
    assert summary.startswith("OpenVINO (CPU): ")
    assert f"{document.placement.target_nodes}/{document.placement.nodes_total} nodes" in summary  # type: ignore[union-attr]
    assert "p50 6.1 ms" in summary


# --- judgement ------------------------------------------------------------------------------------------------


def placed(on_target: int, total: int, ep: str = OPENVINO) -> Placement:
    left = [{"name": f"n{index}", "op_type": "Det", "domain": "", "ep": CPU} for index in range(total - on_target)]
    rows = [PlacedEP(ep=ep, alias="openvino", nodes=on_target, share=None, partitions=1)]
    share = on_target / total if total else None
    return Placement(
        evidence="e",
        nodes_total=total,
        target_ep=ep,
        target_nodes=on_target,
        target_share=share,
        eps=rows,
        leftovers=left,
    )


def precision(requested: str | None, effective: str | None, honoured: bool | None) -> Precision:
    shares = {effective: 1.0} if effective else None
    return Precision(requested=requested, effective=effective, evidence="why", shares=shares, honoured=honoured)


def judge(
    placement: Placement, kept: Precision | None = None, *, explicit: bool = True, minimum: float | None = None
) -> str | None:
    short = shortfall(placement, kept, explicit=explicit, min_placement=minimum)
    if short is None:
        return None
    assert isinstance(short, EvidenceShortfall) and short.exit_code == 4
    return short.code


def test_an_explicit_target_without_a_node_is_no_success() -> None:
    assert judge(placed(0, 3)) == "nothing_placed"
    assert judge(placed(0, 3), explicit=False) is None
    assert judge(placed(1, 3)) is None
    # A graph that was folded away has no node to place.
    assert judge(placed(0, 0)) is None


@pytest.mark.parametrize(("minimum", "code"), [(80.0, None), (80.1, "placement_below_minimum"), (None, None)])
def test_the_minimum_counts_nodes_and_is_inclusive(minimum: float | None, code: str | None) -> None:
    assert judge(placed(4, 5), minimum=minimum) == code
    assert judge(placed(4, 5), explicit=False, minimum=minimum) == code


def test_the_nodes_that_fail_the_minimum_are_named_up_to_eight() -> None:
    short = shortfall(placed(1, 11), None, explicit=True, min_placement=50)
    assert short is not None
    assert "Det (n0), Det (n1)" in short.reason and short.reason.endswith("Det (n7) ...")


@pytest.mark.parametrize(
    ("kept", "code"),
    [
        (None, None),
        (precision(None, "bf16", None), None),
        (precision("fp32", "fp32", True), None),
        (precision("fp32", "bf16", False), "precision_not_honoured"),
        (precision("fp16", None, None), "precision_not_proven"),
    ],
)
def test_j04_a_precision_is_honoured_by_evidence_or_falls_short(kept: Precision | None, code: str | None) -> None:
    assert judge(placed(3, 3), kept) == code


def test_j04_a_part_in_another_precision_is_told_with_its_share() -> None:
    kept = Precision(
        requested="fp32", effective="fp32", evidence="e", shares={"fp32": 0.9, "bf16": 0.1}, honoured=False
    )
    short = shortfall(placed(3, 3), kept, explicit=True, min_placement=None)
    assert short is not None
    assert "90% fp32, 10% bf16" in short.reason


def test_a_failure_stands_beside_the_figures_and_the_first_one_counts() -> None:
    document = example()
    note_failure(document, RunFailed("first", code="one"))
    note_failure(document, Interrupted("second"))
    assert document.error is not None
    assert (document.error.code, document.error.exit_code, document.status) == ("one", 1, "failed")
    assert document.warnings[-1].message == "second"
    assert document.result is not None
    assert document.summary.endswith("failed: one")


def test_an_interruption_is_its_own_status() -> None:
    document = example()
    note_failure(document, Interrupted("by the user"))
    assert (document.status, document.error.exit_code) == ("interrupted", 130)  # type: ignore[union-attr]
