"""The parent's side of ``perf`` as far as it goes without a measurement."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fixtures.zoo import Zoo
from winml.modelkit import environment
from winml.modelkit.documents import encode
from winml.modelkit.perf import runner
from winml.modelkit.perf.document import PerfDocument
from winml.modelkit.perf.request import PerfRequest


def failed(request: PerfRequest) -> PerfDocument:
    """The document of a request that fails before a session is made."""
    document = runner.run_perf(request, command=["winml", "perf"])
    assert document.error is not None
    assert document.status == "failed"
    assert document.summary == f"failed: {document.error.code}"
    assert document.result is None
    assert encode(document)
    return document


def test_a_model_that_is_not_there_never_raises(tmp_path: Path) -> None:
    document = failed(PerfRequest(str(tmp_path / "nope.onnx"), ep="cpu", dims={"batch": (1, 8)}, shapes={"x": ((1,),)}))
    assert (document.error.code, document.error.exit_code) == ("model_not_found", 1)  # type: ignore[union-attr]
    assert document.effective is None
    assert (document.requested.ep, document.requested.dims) == ("cpu", {"batch": [1, 8]})
    assert document.requested.shapes == {"x": [[1]]}
    assert document.command == ["winml", "perf"]


@pytest.mark.parametrize(
    ("name", "given", "code", "exit_code"),
    [
        ("relu", {"ep": "openvno"}, "unknown_ep", 2),
        ("relu", {"ep": "cpu", "device": "npu"}, "impossible_target", 2),
        ("relu", {"ep": "cpu", "ep_options": {"a": "b"}}, "unknown_ep_option", 2),
        ("batched", {"ep": "cpu", "dims": {"bath": (1,)}}, "unknown_dim", 2),
        ("fixed_batch", {"ep": "cpu", "batch_size": 8}, "batch_fixed", 2),
        ("no_opset", {"ep": "cpu"}, "no_opset", 1),
        ("no_outputs", {"ep": "cpu"}, "no_outputs", 1),
        ("sequence_input", {"ep": "cpu"}, "input_kind_unsupported", 1),
    ],
)
def test_what_can_be_told_without_a_session_is_told_without_one(
    zoo: Zoo, name: str, given: dict[str, object], code: str, exit_code: int
) -> None:
    document = failed(PerfRequest(str(zoo(name)), **given))  # type: ignore[arg-type]
    assert (document.error.code, document.error.exit_code) == (code, exit_code)  # type: ignore[union-attr]
    assert document.placement is None


def test_h05_threads_follow_the_cpus_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(environment, "physical_cores", lambda: 4)
    monkeypatch.setattr(environment, "available_cpus", lambda: 8)
    assert runner._threads(None) == (None, 4, "ONNX Runtime's default: physical cores")
    # One CPU of eight: ONNX Runtime would take four threads and fail to pin them.
    monkeypatch.setattr(environment, "available_cpus", lambda: 1)
    assert runner._threads(None) == (1, 1, "CPUs available to this process")
    # Six of eight are still no more than four cores.
    monkeypatch.setattr(environment, "available_cpus", lambda: 6)
    assert runner._threads(None) == (4, 4, "CPUs available to this process")
    assert runner._threads(2) == (2, 2, "as asked")


def test_auto_is_no_precision_that_was_asked_for() -> None:
    assert (runner._asked_precision(None), runner._asked_precision("auto")) == (None, None)
    assert runner._asked_precision("fp32") == "fp32"
