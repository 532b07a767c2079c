"""The command line of ``winml perf`` as one request, and what becomes of its document."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.perf_documents import document as example
from winml.modelkit.commands import perf as module
from winml.modelkit.console import report_file
from winml.modelkit.documents import ErrorInfo
from winml.modelkit.errors import UsageError
from winml.modelkit.perf import early
from winml.modelkit.perf.request import PerfRequest

Parse = Callable[..., PerfRequest]


def parsed(*args: str) -> dict[str, Any]:
    """The options as the command gets them."""
    caught: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(early, "start_worker", nullcontext)
        patch.setattr(module, "_measure", lambda ctx, given, worker: caught.append(given))
        module.perf.main(args=list(args), prog_name="winml perf", standalone_mode=False)
    (given_options,) = caught
    return given_options


def request(*args: str) -> PerfRequest:
    """The request they make."""
    return module._request(parsed(*args))


def test_nothing_given_is_none_throughout() -> None:
    assert request("m.onnx") == PerfRequest(model="m.onnx")


def test_every_option_reaches_the_request() -> None:
    assert request(
        *("-m", "m.onnx", "--ep", "qnn@pypi", "-d", "NPU", "--ep-path", "a", "--ep-path", "b"),
        *("--ep-options", "vtcm_mb=4", "--ep-options", "x=a=b", "--emulate", "--strict", "--min-placement", "99.5"),
        *("--iterations", "7", "--warmup", "0", "--duration", "1.5", "--dim", "batch=1,8", "--dim", "seq=16"),
        *("--shape", "x=1,3", "--shape", "x=2,3", "--batch-size", "4", "--seed", "3", "--io-binding", "--threads", "2"),
        *("--no-memory", "--inference-precision", "fp16", "--custom-ops", "c.so", "--timeout", "12"),
    ) == PerfRequest(
        model="m.onnx",
        ep="qnn@pypi",
        device="npu",
        ep_path=("a", "b"),
        ep_options={"vtcm_mb": "4", "x": "a=b"},
        emulate=True,
        strict=True,
        min_placement=99.5,
        iterations=7,
        warmup=0,
        duration_s=1.5,
        dims={"batch": (1, 8), "seq": (16,)},
        shapes={"x": ((1, 3), (2, 3))},
        batch_size=4,
        seed=3,
        io_binding=True,
        threads=2,
        memory=False,
        inference_precision="fp16",
        custom_ops=("c.so",),
        timeout_s=12.0,
    )


def test_i05_the_model_stands_alone_or_with_m_and_never_twice() -> None:
    assert request("m.onnx") == request("-m", "m.onnx") == request("--model", "m.onnx")
    for args in (("m.onnx", "-m", "m.onnx"), (), ("",), ("-m", "")):
        with pytest.raises(click.UsageError):
            parsed(*args)


@pytest.mark.parametrize(
    "args",
    [
        ("--iterations", "1.5"),
        ("--iterations", "ten"),
        ("--threads", ""),
        ("--device", "tpu"),
        ("--inference-precision", "int8"),
        ("--format", "xml"),
        ("--ep-options", "vtcm_mb"),
        ("--ep-options", "=4"),
        ("--ep-options", "a=1", "--ep-options", "a=2"),
        ("--timeout", "nan"),
        ("--timeout", "-1"),
        ("--iteration", "3"),
        ("m2.onnx",),
    ],
    ids=" ".join,
)
def test_what_cannot_be_parsed_is_refused_by_click(args: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        parsed("m.onnx", *args)


@pytest.mark.parametrize(
    "args",
    [
        ("--dim", "batch"),
        ("--dim", "batch="),
        ("--dim", "batch=1,,2"),
        ("--dim", "batch=1", "--dim", "batch=1"),
        ("--dim", "=4"),
        ("--shape", "x"),
        ("--shape", "x=1,a"),
    ],
    ids=" ".join,
)
def test_sizes_that_cannot_be_meant_are_refused(args: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        request("m.onnx", *args)
    assert caught.value.code in ("bad_dim", "bad_shape")
    assert caught.value.hint


@given(st.text(st.characters(exclude_characters="=", exclude_categories=["Cs"]), min_size=1), st.integers(0, 2**31 - 1))
def test_any_name_of_a_dimension_is_taken(name: str, number: int) -> None:
    if not name.strip():
        return
    assert module._request({**parsed("m.onnx"), "dims": (f"{name}={number}",)}).dims == {name.strip(): (number,)}


def test_the_command_line_is_told_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    context = click.Context(module.perf, info_name="perf")
    monkeypatch.setattr(sys, "argv", ["winml", "perf", "m.onnx", "--ep", "cpu"])
    assert module._arguments(context) == ["perf", "m.onnx", "--ep", "cpu"]
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert module._arguments(context) == ["perf"]


# --- what becomes of the document -----------------------------------------------------------------------------


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of reports, for this test alone."""
    folder = tmp_path / "reports"
    monkeypatch.setattr(report_file, "reports_folder", lambda: folder)
    return folder


def test_the_report_is_kept_and_written_where_it_was_asked_for(reports: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    saved = module._save(example(), {"model": "m.onnx", "output": str(output)})
    assert saved is not None and saved.parent == reports
    assert json.loads(saved.read_text()) == json.loads(output.read_text())


def test_a_usage_error_leaves_no_file(reports: Path, tmp_path: Path) -> None:
    document = example()
    document.error = ErrorInfo(code="unknown_dim", reason="no such dimension", exit_code=2)
    output = tmp_path / "out.json"
    assert module._save(document, {"model": "m.onnx", "output": str(output)}) is None
    assert not output.exists() and not reports.exists()


def test_an_output_that_cannot_be_written_costs_no_figure(reports: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    document = example()
    saved = module._save(document, {"model": "m.onnx", "output": str(tmp_path / "file" / "out.json")})
    assert document.error is not None
    assert (document.error.code, document.error.exit_code, document.status) == ("output_failed", 1, "failed")
    assert saved is not None
    kept = json.loads(saved.read_text())
    assert kept["result"]["latency_ms"]["n"] == 100
    assert kept["error"]["code"] == "output_failed"
