"""In which precision kernels really computed, read from the EP's kernel records of one traced run.

OpenVINO's ``Kernel`` events in an ONNX Runtime profile carry ``ov_exec_type``, whose last part is the type the kernel
ran in (``brgconv_avx512_bf16``). An fp32 model runs in bf16 unasked where the CPU has it, so the model's own types
prove nothing. The CPU EP has few kernels for fp16 and bf16 and puts Casts to fp32 around the other nodes; its ``Node``
events carry the types that the kernels were given.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# Suffixes of OpenVINO's primitive types, by our name. Others (i32, i64, boolean) move or count, they don't compute.
_TYPES = {
    "f32": "fp32",
    "f16": "fp16",
    "bf16": "bf16",
    "f64": "fp64",
    "i8": "int8",
    "u8": "int8",
    "i4": "int4",
    "u4": "int4",
}

# ONNX Runtime's names of floating-point types, the widest first.
_FLOATS = {"double": "fp64", "float": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_NO_KERNEL = frozenset({"Cast", "If", "Loop", "Scan"})


def kernel_shares(profile: Path) -> dict[str, float]:
    """Share of kernel time per precision (0 to 1, summing to 1), empty if the profile has no kernel records.

    Args:
        profile: an ONNX Runtime profile (Chrome trace JSON; ``dur`` in microseconds).
    """
    spent: dict[str, float] = {}
    for event in _events(profile):
        if event.get("cat") != "Kernel":
            continue
        suffix = str(event.get("args", {}).get("ov_exec_type", "")).rpartition("_")[2].casefold()
        if suffix in _TYPES:
            _add(spent, _TYPES[suffix], event)
    return _shares(spent)


def cpu_shares(profile: Path) -> dict[str, float]:
    """The same for the CPU EP's nodes, by the widest floating-point type among a node's inputs.

    Nodes without one compute no floats and are left out, and so are Casts, and nodes that only run other nodes.
    """
    spent: dict[str, float] = {}
    for event in _events(profile):
        args = event.get("args", {})
        if event.get("cat") != "Node" or not str(event.get("name", "")).endswith("_kernel_time"):
            continue
        if args.get("op_name") in _NO_KERNEL:
            continue
        given = {kind for value in args.get("input_type_shape") or () for kind in value}
        widest = next((name for kind, name in _FLOATS.items() if kind in given), None)
        if widest is not None:
            _add(spent, widest, event)
    return _shares(spent)


def _events(profile: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(profile.read_text(encoding="utf-8"))
    return events


def _add(spent: dict[str, float], name: str, event: dict[str, Any]) -> None:
    # A kernel below the clock's resolution still counts.
    spent[name] = spent.get(name, 0.0) + max(float(event.get("dur", 0)), 0.5)


def _shares(spent: dict[str, float]) -> dict[str, float]:
    total = sum(spent.values())
    return {name: time / total for name, time in sorted(spent.items(), key=lambda item: -item[1])} if total else {}


def judge(shares: dict[str, float], requested: str | None) -> dict[str, Any]:
    """The fields of ``Precision`` for kernel records: the precision most of the kernel time was spent in."""
    if not shares:
        return {
            "requested": requested,
            "effective": None,
            "evidence": "none: the traced run gave no kernel records",
            "shares": None,
        }
    return {
        "requested": requested,
        "effective": next(iter(shares)),
        "evidence": "kernel records of one traced run outside the timed ones",
        "shares": {name: round(share, 4) for name, share in shares.items()},
    }


def honoured(shares: dict[str, float], requested: str) -> bool:
    """Whether the floating-point kernels kept to what was asked.

    Asked for fp32, no time may go to narrower floats; asked for a narrower type, it must carry most of the time that
    floats took (an EP keeps some kernels in fp32 by nature).
    """
    floats = {name: share for name, share in shares.items() if name in ("fp32", "fp16", "bf16", "fp64")}
    if not floats:
        return True
    if requested == "fp32":
        return floats.get("fp16", 0.0) + floats.get("bf16", 0.0) == 0.0
    return floats.get(requested, 0.0) > 0.5 * sum(floats.values())
