"""What can be told about a model before any session is made: it gives something, and it can be fed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winml.modelkit.errors import InputError, ModelError
from winml.modelkit.onnx.dtypes import dtype
from winml.modelkit.onnx.facts import real_inputs, real_outputs

if TYPE_CHECKING:
    from winml.modelkit.onnx.model import Model, ValueInfo

__all__ = ["check_runnable", "refuse_unfeedable"]

_KINDS = {"sequence": "a sequence", "optional": "an optional value", "map": "a map", "sparse_tensor": "a sparse tensor"}


def check_runnable(model: Model) -> None:
    """Refuse a model that no run can be made of, before an EP spends minutes on compiling it.

    Raises:
        ModelError: code ``no_outputs``.
        InputError: code ``input_kind_unsupported`` or ``input_dtype_unsupported``.
    """
    if not real_outputs(model):
        raise ModelError(
            f"{model.file}: it has no outputs, so there is nothing to run it for",
            code="no_outputs",
            hint="export the model again, with the values it is made for as outputs",
            details={"path": model.file},
        )
    for value in real_inputs(model):
        refuse_unfeedable(value)


def refuse_unfeedable(value: ValueInfo) -> None:
    """Refuse an input that ONNX Runtime's Python binding cannot be given.

    Raises:
        InputError: code ``input_kind_unsupported`` or ``input_dtype_unsupported``.
    """
    if value.kind != "tensor":
        raise InputError(
            f"the input {value.name!r} is {_KINDS.get(value.kind, value.kind)}, which cannot be fed from here",
            code="input_kind_unsupported",
            hint="only tensor inputs are supported",
            details={"input": value.name, "type": str(value.type)},
        )
    kind = dtype(value.dtype)
    if kind.name.startswith("complex") or (kind.numpy is None and kind.bit_carrier is None):
        raise InputError(
            f"ONNX Runtime cannot be fed the input {value.name!r} of type {kind.name}",
            code="input_dtype_unsupported",
            hint="put a Cast from another type behind the input",
            details={"input": value.name, "dtype": kind.name},
        )
