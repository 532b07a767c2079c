"""The element types of ONNX tensors: number, name, width, and what NumPy and ONNX Runtime call them.

Source: ``TensorProto.DataType`` in onnx.proto (numbers 0 to 28) and onnxruntime's ``tensor(...)`` type names.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DTYPES", "DType", "dtype", "dtype_of_numpy", "nbytes_of"]


class DType(NamedTuple):
    """One element type.

    Attributes:
        code: the number in ``TensorProto.DataType``.
        name: our name in reports, NumPy's where NumPy has the type.
        bits: width of one element in packed form; None for strings and for unknown types.
        numpy: name of the NumPy dtype that holds one element, or None where NumPy has none.
        ort: the name inside onnxruntime's ``tensor(...)``.
        bit_carrier: for types NumPy lacks but ONNX Runtime can be fed through
            ``OrtValue.ortvalue_from_numpy_with_onnx_type``: the NumPy dtype that carries the bits.
    """

    code: int
    name: str
    bits: int | None
    numpy: str | None
    ort: str
    bit_carrier: str | None = None

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer of any width (bool is not)."""
        return self.name.startswith(("int", "uint"))


_ROWS = (
    DType(1, "float32", 32, "float32", "float"),
    DType(2, "uint8", 8, "uint8", "uint8"),
    DType(3, "int8", 8, "int8", "int8"),
    DType(4, "uint16", 16, "uint16", "uint16"),
    DType(5, "int16", 16, "int16", "int16"),
    DType(6, "int32", 32, "int32", "int32"),
    DType(7, "int64", 64, "int64", "int64"),
    DType(8, "string", None, "object", "string"),
    DType(9, "bool", 8, "bool", "bool"),
    DType(10, "float16", 16, "float16", "float16"),
    DType(11, "float64", 64, "float64", "double"),
    DType(12, "uint32", 32, "uint32", "uint32"),
    DType(13, "uint64", 64, "uint64", "uint64"),
    DType(14, "complex64", 64, "complex64", "complex64"),
    DType(15, "complex128", 128, "complex128", "complex128"),
    DType(16, "bfloat16", 16, None, "bfloat16", "uint16"),
    DType(17, "float8e4m3fn", 8, None, "float8e4m3fn", "uint8"),
    DType(18, "float8e4m3fnuz", 8, None, "float8e4m3fnuz", "uint8"),
    DType(19, "float8e5m2", 8, None, "float8e5m2", "uint8"),
    DType(20, "float8e5m2fnuz", 8, None, "float8e5m2fnuz", "uint8"),
    DType(21, "uint4", 4, None, "uint4"),
    DType(22, "int4", 4, None, "int4"),
    DType(23, "float4e2m1", 4, None, "float4e2m1"),
    DType(24, "float8e8m0", 8, None, "float8e8m0"),
    DType(25, "uint2", 2, None, "uint2"),
    DType(26, "int2", 2, None, "int2"),
    DType(27, "float6e2m3", 6, None, "float6e2m3"),
    DType(28, "float6e3m2", 6, None, "float6e3m2"),
)

DTYPES: dict[int, DType] = {row.code: row for row in _ROWS}
"""Every element type of ONNX by its number."""

_BY_NUMPY = {row.numpy: row for row in _ROWS if row.numpy}


def dtype(code: int) -> DType:
    """The element type of that number; for a number ONNX does not know, one named ``unknown(<number>)``."""
    known = DTYPES.get(code)
    if known is not None:
        return known
    name = "undefined" if code == 0 else f"unknown({code})"
    return DType(code, name, None, None, name)


def dtype_of_numpy(name: str) -> DType | None:
    """The element type that NumPy calls ``name`` (``float32``), or None."""
    return _BY_NUMPY.get(name)


def nbytes_of(code: int, elements: int) -> int | None:
    """Bytes of ``elements`` packed elements, rounded up to whole bytes; None where the width is not fixed."""
    bits = dtype(code).bits
    return None if bits is None else (elements * bits + 7) // 8
