"""In which precision kernels really computed, read from the EP's kernel records of one traced run.

OpenVINO's ``Kernel`` events in an ONNX Runtime profile carry ``ov_exec_type``, whose last part is the type the kernel
ran in (``brgconv_avx512_bf16``). An fp32 model runs in bf16 unasked where the CPU has it, so the model's own types
prove nothing.
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


def kernel_shares(profile: Path) -> dict[str, float]:
    """Share of kernel time per precision (0 to 1, summing to 1), empty if the profile has no kernel records.

    Args:
        profile: an ONNX Runtime profile (Chrome trace JSON; ``dur`` in microseconds).
    """
    spent: dict[str, float] = {}
    for event in json.loads(profile.read_text(encoding="utf-8")):
        if event.get("cat") != "Kernel":
            continue
        suffix = str(event.get("args", {}).get("ov_exec_type", "")).rpartition("_")[2].casefold()
        if suffix in _TYPES:
            # A kernel below the clock's resolution still counts.
            spent[_TYPES[suffix]] = spent.get(_TYPES[suffix], 0.0) + max(float(event.get("dur", 0)), 0.5)
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
