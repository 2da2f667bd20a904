"""ONNX's element types and the ones here that stand for them.

The numbers are those of `TensorProto.DataType` in onnx.proto. A type that is not in the op table has no meaning here;
the table below says why, so that a report can.
"""

from __future__ import annotations

from aneforge.formats.shared.findings import Reason

__all__ = ["ELEMENT_TYPES", "FOREIGN_TYPES", "element_type_name", "onnx_element_type", "schema_type"]

ELEMENT_TYPES: dict[int, str] = {
    1: "fp32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    9: "bool",
    10: "fp16",
    11: "fp64",
    12: "uint32",
    13: "uint64",
    16: "bf16",
    17: "fp8e4m3fn",
    19: "fp8e5m2",
    21: "uint4",
    22: "int4",
}
"""Element types with a meaning here, by their number in ONNX."""

FOREIGN_TYPES: dict[int, tuple[str, Reason]] = {
    8: ("string", Reason.STRING),
    14: ("complex64", Reason.DTYPE),
    15: ("complex128", Reason.DTYPE),
    18: ("float8e4m3fnuz", Reason.DTYPE),
    20: ("float8e5m2fnuz", Reason.DTYPE),
    23: ("float4e2m1", Reason.DTYPE),
    24: ("float8e8m0", Reason.DTYPE),
    25: ("uint2", Reason.DTYPE),
    26: ("int2", Reason.DTYPE),
}
"""Element types without a meaning here, by their number in ONNX: its spelling, and the reason that is reported."""

NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}
SCHEMA_NAMES = {
    "fp32": "float",
    "fp64": "double",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8e4m3fn": "float8e4m3fn",
    "fp8e5m2": "float8e5m2",
}


def onnx_element_type(dtype: str) -> int:
    """Return ONNX's number of an element type.

    >>> onnx_element_type("fp32"), onnx_element_type("bool")
    (1, 9)
    """
    return NUMBERS[dtype]


def schema_type(dtype: str) -> str:
    """Return how the schemas of ONNX's operators spell a tensor of an element type.

    >>> schema_type("fp32"), schema_type("int8")
    ('tensor(float)', 'tensor(int8)')
    """
    return f"tensor({SCHEMA_NAMES.get(dtype, dtype)})"


def element_type_name(number: int) -> str:
    """Return how ONNX spells an element type, for messages.

    >>> element_type_name(1), element_type_name(23), element_type_name(99)
    ('float', 'float4e2m1', 'element type 99')
    """
    if number in ELEMENT_TYPES:
        return SCHEMA_NAMES.get(ELEMENT_TYPES[number], ELEMENT_TYPES[number])
    return FOREIGN_TYPES[number][0] if number in FOREIGN_TYPES else f"element type {number}"
