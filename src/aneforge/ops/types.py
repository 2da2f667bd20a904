"""Element types and tensor types, as MIL spells them.

A graph is general in both: what the engine accepts of them is said by rules, not here.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from aneforge.errors import GraphError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    """Any NumPy array; the operations' meanings work on arrays of float64, of their own integer type, or of bool."""
else:
    Array: TypeAlias = Any

__all__ = [
    "DTYPES",
    "Array",
    "TensorType",
    "bits",
    "is_float",
    "is_integer",
    "numpy_dtype",
    "numpy_dtypes",
    "value_range",
]

DTYPES = {
    "fp16": 16,
    "fp32": 32,
    "fp64": 64,
    "bf16": 16,
    "fp8e4m3fn": 8,
    "fp8e5m2": 8,
    "int4": 4,
    "uint4": 4,
    "int8": 8,
    "uint8": 8,
    "int16": 16,
    "uint16": 16,
    "int32": 32,
    "uint32": 32,
    "int64": 64,
    "uint64": 64,
    "bool": 8,
}
"""Every element type, and the bits that one element takes in storage."""


@cache
def numpy_dtypes() -> Mapping[str, np.dtype[Any]]:
    """Return the NumPy type of every element type."""
    import ml_dtypes  # noqa: PLC0415 - rules and types are read without arrays
    import numpy as np  # noqa: PLC0415 - as above

    ours = {"bool": np.bool_, "bf16": ml_dtypes.bfloat16, "fp8e4m3fn": ml_dtypes.float8_e4m3fn}
    ours |= {"fp8e5m2": ml_dtypes.float8_e5m2, "int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}
    return {name: np.dtype(ours.get(name, name.replace("fp", "float"))) for name in DTYPES}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy type of an element type.

    Raises:
        UnknownNameError: There is no such element type.
    """
    bits(name)
    return numpy_dtypes()[name]


def bits(name: str) -> int:
    """Return how many bits one element takes in storage.

    >>> bits("fp16"), bits("int4")
    (16, 4)

    Raises:
        UnknownNameError: There is no such element type.
    """
    if name not in DTYPES:
        raise UnknownNameError.of("element type", name, DTYPES)
    return DTYPES[name]


def is_float(name: str) -> bool:
    """Return whether an element type is a floating one.

    >>> is_float("bf16"), is_float("int8"), is_float("bool")
    (True, False, False)
    """
    return name.startswith(("fp", "bf"))


def is_integer(name: str) -> bool:
    """Return whether an element type is an integer; bool is not."""
    return name.startswith(("int", "uint"))


def value_range(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type; of bool, 0 and 1.

    >>> value_range("int4"), value_range("uint8"), value_range("bool")
    ((-8, 7), (0, 255), (0, 1))
    """
    if dtype == "bool":
        return 0, 1
    width = bits(dtype)
    return (0, (1 << width) - 1) if dtype.startswith("u") else (-(1 << (width - 1)), (1 << (width - 1)) - 1)


class TensorType(msgspec.Struct, frozen=True):
    """Shape and element type of a tensor.

    >>> print(TensorType((1, 3, 32, 32)))
    fp16[1, 3, 32, 32]
    """

    shape: tuple[int, ...]
    dtype: str = "fp16"

    def __post_init__(self) -> None:
        bits(self.dtype)
        for extent in self.shape:
            if extent < 0:
                raise GraphError("the length of an axis must be 0 or more", seen=list(self.shape), limit="0 or more")

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the tensor takes in storage, elements packed."""
        return (self.size * bits(self.dtype) + 7) // 8

    def with_shape(self, *shape: int) -> TensorType:
        """Return a type of the same elements and another shape."""
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: str) -> TensorType:
        """Return a type of the same shape and other elements."""
        return TensorType(self.shape, dtype)
