"""What ``--threads`` and ``--inference-precision`` mean to each EP: honoured through its own options, or refused.

An EP row names its function in ``EPDeviceSpec.translate``; one without can take neither silently: threads then go to
ONNX Runtime's own pool and the report says so, and a precision is refused.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from winml.modelkit.errors import UsageError

if TYPE_CHECKING:
    from winml.modelkit.session.ep_registry import WinMLDevice
    from winml.modelkit.session.ep_spec import EPDeviceSpec


@dataclass(frozen=True, slots=True)
class Wishes:
    """Settings that are not provider options.

    Attributes:
        threads: CPU threads asked for, or None.
        precision: ``fp32``, ``bf16``, ``fp16``, or None for the EP's own choice.
        declared: floating-point types the model declares (``fp32``, ``fp16``, ``bf16``, ``fp64``).
        pool_threads: threads ONNX Runtime's own pool will have, or None if that is not known.
        pool_rule: why that many, in words.
    """

    threads: int | None
    precision: str | None
    declared: tuple[str, ...]
    pool_threads: int | None = None
    pool_rule: str = "ONNX Runtime's default"


@dataclass(frozen=True, slots=True)
class Translated:
    """Provider options with the wishes in them, how many threads compute (None: not known), and why that many."""

    options: dict[str, str]
    threads: int | None
    threads_rule: str


Translate = Callable[[dict[str, str], "WinMLDevice", Wishes], Translated]


def translate(spec: EPDeviceSpec | None, options: Mapping[str, str], device: WinMLDevice, wishes: Wishes) -> Translated:
    """Provider options that honour the wishes.

    Raises:
        UsageError: the EP cannot honour the precision asked for, or would ignore an option.
    """
    if spec is not None and spec.translate is not None:
        module, _, name = spec.translate.partition(":")
        function: Translate = getattr(importlib.import_module(module), name)
        return function(dict(options), device, wishes)
    name = spec.alias if spec else "this EP"
    if wishes.precision is not None:
        raise _refused(name, wishes.precision, "it has no known option for it")
    return _own_pool(dict(options), name, wishes)


def _refused(name: str, precision: str, why: str) -> UsageError:
    return UsageError(
        f"{name} cannot be told to compute in {precision}: {why}",
        code="precision_refused",
        hint="leave --inference-precision out, and read the effective precision in the report",
        details={"precision": precision},
    )


def _own_pool(options: dict[str, str], name: str, wishes: Wishes) -> Translated:
    rule = f"{wishes.pool_rule}, for nodes on the CPU EP; {name} schedules its own work"
    return Translated(options, wishes.pool_threads, rule)


def cpu(options: dict[str, str], device: WinMLDevice, wishes: Wishes) -> Translated:
    """The CPU EP computes in the types the model declares."""
    if wishes.precision is not None and wishes.declared and wishes.declared != (wishes.precision,):
        raise _refused("cpu", wishes.precision, f"it computes in the types of the model, {', '.join(wishes.declared)}")
    return Translated(options, wishes.pool_threads, wishes.pool_rule)


_OPENVINO_HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}
# Provider options that plugin 1.8.1 takes without an error and ignores, and the property that it reads instead.
_OPENVINO_IGNORES = {
    "cache_dir": "CACHE_DIR",
    "enable_qdq_optimizer": "NPU_QDQ_OPTIMIZATION",
    "model_priority": "MODEL_PRIORITY",
    "num_of_threads": "INFERENCE_NUM_THREADS",
    "num_streams": "NUM_STREAMS",
    "precision": "INFERENCE_PRECISION_HINT",
}
_OPENVINO_INSTEAD = {"num_of_threads": "--threads N, or ", "precision": "--inference-precision, or "}


def openvino(options: dict[str, str], device: WinMLDevice, wishes: Wishes) -> Translated:
    """OpenVINO takes both as properties of the device in ``load_config``.

    ``INFERENCE_PRECISION_HINT`` decides in which type kernels compute; ``INFERENCE_NUM_THREADS`` is a property of the
    CPU device only. Options that the plugin ignores are refused.
    """
    from winml.modelkit.session.session import merge_load_config

    key = device.ep_metadata.get("ov_device", device.device.upper()).partition(".")[0]
    for name, property_name in _OPENVINO_IGNORES.items():
        if name in options:
            raise UsageError(
                f"openvino takes the option {name} and ignores it",
                code="ep_option_ignored",
                hint=f"{_OPENVINO_INSTEAD.get(name, '')}the property {property_name} in load_config, such as "
                f'load_config={{"{key}": {{"{property_name}": "..."}}}}',
                details={"option": name},
            )
    properties: dict[str, str] = {}
    if wishes.precision is not None:
        properties["INFERENCE_PRECISION_HINT"] = _OPENVINO_HINTS[wishes.precision]
    if key == "CPU" and wishes.threads is not None:
        properties["INFERENCE_NUM_THREADS"] = str(wishes.threads)
    if properties or "load_config" in options:
        options["load_config"] = merge_load_config(options.get("load_config"), key, properties)
    if key != "CPU":
        return _own_pool(options, "openvino", wishes)
    if wishes.threads is not None:
        return Translated(options, wishes.threads, "as asked, through INFERENCE_NUM_THREADS")
    given = str(json.loads(options.get("load_config", "{}")).get(key, {}).get("INFERENCE_NUM_THREADS", ""))
    if given.isdecimal() and int(given) > 0:
        return Translated(options, int(given), "INFERENCE_NUM_THREADS in load_config")
    return Translated(options, None, "OpenVINO's default")


def qnn(options: dict[str, str], device: WinMLDevice, wishes: Wishes) -> Translated:
    """QNN's HTP computes floating point in fp16, or in bf16 where the option asks for it."""
    switches: dict[str | None, dict[str, Any]] = {
        None: {},
        "fp16": {"enable_htp_fp16_precision": "1"},
        "bf16": {"htp_bf16_enable": "1"},
    }
    if wishes.precision not in switches:
        raise _refused("qnn", str(wishes.precision), "the HTP computes floating point in fp16")
    for name, value in switches[wishes.precision].items():
        if options.get(name, value) != value:
            raise UsageError(
                f"--inference-precision {wishes.precision} and the option {name}={options[name]} contradict each other",
                code="contradicting_options",
                hint="leave either out",
            )
        if "soc_model" not in options:
            raise _refused("qnn", str(wishes.precision), "without the option soc_model it refuses that type")
        options[name] = value
    return _own_pool(options, "qnn", wishes)
