"""What the groups of structural operations share: they move elements of any type and compute nothing.

Floors come from the reconstruction of the op floors; an operation that it does not list is taken to need family 2, as
every program in MIL does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.ops.op import Basis, MilStatus, Support
from aneforge.ops.sampling import Chooser, Fill
from aneforge.ops.types import TensorType, bits, is_float

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "CATEGORY",
    "F0",
    "LIKELY_F0",
    "LIKELY_F2",
    "NATIVE_LAYER_F0",
    "NOWHERE",
    "any_tensor",
    "expect_entries",
    "expect_representable",
    "expect_whole_numbers",
]

CATEGORY = "structural"
F0 = Support(floor=0)
LIKELY_F0 = Support(floor=0, basis=Basis.LIKELY)
LIKELY_F2 = Support(floor=2, basis=Basis.LIKELY)
NATIVE_LAYER_F0 = Support(floor=0, mil_since=None, mil_otherwise=MilStatus.BRIDGE)
NOWHERE = Support(floor=None, mil_since=None)


def any_tensor(chooser: Chooser, shape: Sequence[int]) -> Fill:
    """Draw the element type of an operand of which only the shape matters."""
    return Fill(TensorType(tuple(shape), chooser.choose(("fp16", "fp32", "int32", "int8", "bool"))))


def expect_entries(name: str, given: Sequence[object], wanted: int, why: str) -> None:
    """Check that a list has one entry for each of several things.

    Raises:
        GraphError: It has more or fewer.
    """
    if len(given) != wanted:
        raise GraphError(f"{name} does not have one entry for each {why}", seen=len(given), limit=wanted)


def expect_whole_numbers(name: str, tensor: TensorType) -> None:
    """Check that a tensor holds whole numbers.

    Raises:
        GraphError: It does not.
    """
    if not tensor.dtype.startswith(("int", "uint")):
        raise GraphError(f"{name} does not hold whole numbers", seen=tensor.dtype, remedy="cast it to int32")


def expect_representable(name: str, value: float, dtype: str) -> None:
    """Check that a number is a value of an element type; every number is one of a floating type.

    >>> expect_representable("value", 255, "uint8")

    Raises:
        GraphError: It is not.
    """
    if is_float(dtype):
        return
    low, high = value_range(dtype)
    if not (low <= value <= high and float(value).is_integer()):
        raise GraphError(f"{name} is not a value of {dtype}", seen=value, limit=f"a whole number from {low} to {high}")


def value_range(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest value of a whole-number type; of bool, 0 and 1.

    >>> value_range("int4"), value_range("uint8")
    ((-8, 7), (0, 255))
    """
    if dtype == "bool":
        return 0, 1
    if dtype.startswith("uint"):
        return 0, 2 ** bits(dtype) - 1
    return -(2 ** (bits(dtype) - 1)), 2 ** (bits(dtype) - 1) - 1
