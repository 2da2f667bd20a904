"""PyTorch's element types and the ones here that stand for them.

PyTorch's are named as PyTorch prints them, so that nothing of it is imported for the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.shared.findings import Reason, UnsupportedNodeError

if TYPE_CHECKING:
    import torch

__all__ = ["COMPLEX_TYPES", "ELEMENT_TYPES", "TORCH_TYPES", "element_type", "is_foreign", "part_type"]

ELEMENT_TYPES: dict[str, str] = {
    "torch.float64": "fp64",
    "torch.float32": "fp32",
    "torch.float16": "fp16",
    "torch.bfloat16": "bf16",
    "torch.float8_e4m3fn": "fp8e4m3fn",
    "torch.float8_e5m2": "fp8e5m2",
    "torch.int64": "int64",
    "torch.int32": "int32",
    "torch.int16": "int16",
    "torch.int8": "int8",
    "torch.uint64": "uint64",
    "torch.uint32": "uint32",
    "torch.uint16": "uint16",
    "torch.uint8": "uint8",
    "torch.bool": "bool",
}
"""Element types with a meaning here."""
TORCH_TYPES = {ours: theirs.removeprefix("torch.") for theirs, ours in ELEMENT_TYPES.items()}
"""PyTorch's names for the element types here."""

COMPLEX_TYPES = {"torch.complex32": "fp16", "torch.complex64": "fp32", "torch.complex128": "fp64"}
"""Complex element types, and those of their two parts."""


def part_type(dtype: torch.dtype) -> str:
    """Return the element type of the parts of complex numbers, and of real numbers their own."""
    return COMPLEX_TYPES.get(str(dtype)) or element_type(dtype)


def is_foreign(dtype: torch.dtype) -> bool:
    """Return whether an element type has no meaning here."""
    return str(dtype) not in ELEMENT_TYPES


def element_type(dtype: torch.dtype) -> str:
    """Return the element type that stands for one of PyTorch's.

    Raises:
        UnsupportedNodeError: There is none.
    """
    if is_foreign(dtype):
        workaround = (
            "pass real and imaginary parts as two tensors, with torch.view_as_real and torch.view_as_complex"
            if "complex" in str(dtype)
            else ""
        )
        raise UnsupportedNodeError(
            Reason.DTYPE, f"tensors of {str(dtype).removeprefix('torch.')} have no meaning here", workaround=workaround
        )
    return ELEMENT_TYPES[str(dtype)]
