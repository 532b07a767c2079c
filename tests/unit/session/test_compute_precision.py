"""Precision by kernel time, from profiles whose sums can be checked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from winml.modelkit.session.compute_precision import cpu_shares, honoured, judge, kernel_shares


def profile(tmp_path: Path, *kernels: tuple[str, int]) -> Path:
    events = [{"cat": "Session", "name": "model_run", "dur": 1000, "args": {}}]
    events += [{"cat": "Kernel", "dur": duration, "args": {"ov_exec_type": kind}} for kind, duration in kernels]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(events))
    return path


def test_j04_kernels_that_computed_in_bf16_are_seen(tmp_path: Path) -> None:
    shares = kernel_shares(
        profile(tmp_path, ("brgconv_avx512_bf16", 60), ("brgemm_avx512_amx_bf16", 20), ("jit_avx512_f32", 20))
    )
    assert shares == {"bf16": 0.8, "fp32": 0.2}
    judged = judge(shares, None)
    assert judged["effective"] == "bf16"
    assert not honoured(shares, "fp32")
    assert honoured(shares, "bf16")


def test_integer_kernels_count_and_moves_of_integers_do_not(tmp_path: Path) -> None:
    shares = kernel_shares(profile(tmp_path, ("brgconv_avx512_u8", 30), ("jit_avx2_i8", 30), ("ref_any_i32", 999)))
    assert shares == {"int8": 1.0}


def test_unknown_and_missing_types_are_left_out(tmp_path: Path) -> None:
    assert kernel_shares(profile(tmp_path, ("", 5), ("undefined", 5))) == {}
    assert judge({}, "fp32")["effective"] is None


def test_kernels_below_the_clock_still_count(tmp_path: Path) -> None:
    assert kernel_shares(profile(tmp_path, ("jit_f32", 0))) == {"fp32": 1.0}


def node(operator: str, duration: int, *types: str, name: str = "n_kernel_time") -> dict[str, object]:
    given = [{kind: [8, 64]} for kind in types]
    return {"cat": "Node", "name": name, "dur": duration, "args": {"op_name": operator, "input_type_shape": given}}


def test_j04_an_fp16_model_on_the_cpu_ep_is_seen_to_compute_in_fp32(tmp_path: Path) -> None:
    """The CPU EP puts Casts around a MatMul that it has in fp32 only."""
    path = tmp_path / "profile.json"
    events = [
        node("Cast", 500, "float16"),
        node("MatMul", 60, "float", "float"),
        node("Identity", 20, "float16"),
        node("Gather", 20, "float16", "int64"),
        node("Shape", 900, "int64"),
        node("If", 900, "float"),
        node("MatMul", 900, "float", name="n_fence_before"),
        {"cat": "Session", "name": "model_run", "dur": 5000, "args": {}},
    ]
    path.write_text(json.dumps(events))
    assert cpu_shares(path) == {"fp32": 0.6, "fp16": 0.4}
    path.write_text(json.dumps([node("MatMul", 5, "float16", "float"), node("Shape", 5, "int64")]))
    assert cpu_shares(path) == {"fp32": 1.0}
    path.write_text("[]")
    assert cpu_shares(path) == {}


@pytest.mark.parametrize(
    ("shares", "asked", "kept"),
    [
        ({"fp32": 1.0}, "fp32", True),
        ({"fp32": 0.9, "bf16": 0.1}, "fp32", False),
        ({"fp32": 1.0}, "bf16", False),
        ({"bf16": 0.6, "fp32": 0.4}, "bf16", True),
        ({"fp16": 0.9, "fp32": 0.1}, "fp16", True),
        ({"int8": 1.0}, "fp32", True),
    ],
)
def test_honoured(shares: dict[str, float], asked: str, kept: bool) -> None:
    assert honoured(shares, asked) is kept
