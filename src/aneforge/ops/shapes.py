"""Rules of shapes and element types that many operations share.

Each raises one clear error with what was given and what is allowed. A rule about one operand takes it first and its
name as `what`, which is `x` unless it is given.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.ops.types import is_float, is_integer, value_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.ops.types import Array, TensorType

__all__ = [
    "broadcast",
    "common_dtype",
    "divisible",
    "expect_bool",
    "expect_countable",
    "expect_elements",
    "expect_entries",
    "expect_float",
    "expect_integer",
    "expect_kind",
    "expect_least_rank",
    "expect_number",
    "expect_one_each",
    "expect_rank",
    "expect_representable",
    "expect_shape",
    "expect_within",
    "nearest_divisor",
    "normalise_axes",
    "normalise_axis",
    "own_type",
    "reduced_axes",
    "sliding_extent",
]


# Element types.


def kind_of(dtype: str) -> str:
    """Return what an element type holds, in words.

    >>> kind_of("bf16"), kind_of("uint8"), kind_of("bool")
    ('floating-point numbers', 'integers', 'bool')
    """
    if is_float(dtype):
        return "floating-point numbers"
    return "integers" if is_integer(dtype) else "bool"


REMEDIES = {
    "floating-point numbers": "cast it to fp16",
    "integers": "cast it to int32",
    "numbers": "cast it to int32 or fp16",
    "bool": "compare it with 0 by not_equal",
}


def expect_kind(tensor: TensorType, dtypes: Iterable[str], what: str = "x") -> None:
    """Check that a tensor holds something of the same kind as one of several element types.

    Raises:
        GraphError: It does not.
    """
    kinds = list(dict.fromkeys(map(kind_of, dtypes)))
    if kind_of(tensor.dtype) not in kinds:
        wanted = "numbers" if len(kinds) == 2 and "bool" not in kinds else " or ".join(kinds)
        raise GraphError(f"{what} must hold {wanted}", seen=tensor.dtype, remedy=REMEDIES.get(wanted))


def expect_float(tensor: TensorType, what: str = "x") -> None:
    """Check that a tensor holds floating-point numbers.

    Raises:
        GraphError: It does not.
    """
    expect_kind(tensor, ("fp16",), what)


def expect_integer(tensor: TensorType, what: str = "x") -> None:
    """Check that a tensor holds integers.

    Raises:
        GraphError: It does not.
    """
    expect_kind(tensor, ("int32",), what)


def expect_number(tensor: TensorType, what: str = "x") -> None:
    """Check that a tensor holds numbers, whole or not.

    Raises:
        GraphError: It does not.
    """
    expect_kind(tensor, ("fp16", "int32"), what)


def expect_bool(tensor: TensorType, what: str = "x") -> None:
    """Check that a tensor holds booleans.

    Raises:
        GraphError: It does not.
    """
    expect_kind(tensor, ("bool",), what)


def common_dtype(*types: TensorType | None) -> str:
    """Return the element type that all tensors share; None is an operand that was left out.

    Raises:
        GraphError: They have several.
    """
    dtypes = list(dict.fromkeys(one.dtype for one in types if one is not None))
    if len(dtypes) > 1:
        raise GraphError("the operands have different element types", seen=", ".join(dtypes), remedy="cast one of them")
    return dtypes[0]


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
        raise GraphError(f"{name} is not a value of {dtype}", seen=value, limit=f"an integer from {low} to {high}")


# Shapes.


def own_type(x: TensorType) -> TensorType:
    """Return the type of the operand itself: the rule of what changes neither shape nor element type."""
    return x


def broadcast(*types: TensorType) -> tuple[int, ...]:
    """Return the shape to which all types broadcast, as NumPy does it.

    Raises:
        GraphError: They do not broadcast.
    """
    import numpy as np  # noqa: PLC0415 - as in `aneforge.ops.types`

    try:
        return np.broadcast_shapes(*(one.shape for one in types))
    except ValueError:
        shapes = " and ".join(str(list(one.shape)) for one in types)
        raise GraphError(
            f"the shapes {shapes} do not broadcast",
            remedy="axes must be equal, or 1, counted from the last",
        ) from None


def expect_rank(tensor: TensorType, *ranks: int, what: str = "x") -> None:
    """Check that a tensor has one of several ranks.

    Raises:
        GraphError: It has another.
    """
    if tensor.rank not in ranks:
        allowed = " or ".join(map(str, ranks)) if len(ranks) < 4 else f"{min(ranks)} to {max(ranks)}"
        raise GraphError(f"{what} of shape {list(tensor.shape)} has the wrong rank", seen=tensor.rank, limit=allowed)


def expect_least_rank(tensor: TensorType, least: int, layout: str = "", what: str = "x") -> None:
    """Check that a tensor has enough axes; `layout` says what they are.

    Raises:
        GraphError: It has fewer.
    """
    if tensor.rank < least:
        raise GraphError(
            f"{what} of shape {list(tensor.shape)} has too few axes",
            seen=tensor.rank,
            limit=f"{least} or more" + (f": {layout}" if layout else ""),
            remedy="add axes of length 1 with expand_dims",
        )


def expect_shape(tensor: TensorType | None, shape: Sequence[int], of_what: str, what: str = "x") -> None:
    """Check that an operand, where it is given, has the shape that something asks for.

    Raises:
        GraphError: It has another.
    """
    if tensor is not None and tensor.shape != tuple(shape):
        raise GraphError(f"{what} does not have the shape of {of_what}", seen=list(tensor.shape), limit=list(shape))


def expect_one_each(tensor: TensorType | None, count: int, of_what: str, what: str = "x") -> None:
    """Check that an operand, where it is given, is a list with one number for each of several things.

    Raises:
        GraphError: It is not.
    """
    if tensor is not None and tensor.shape != (count,):
        raise GraphError(f"{what} must hold one number for each {of_what}", seen=list(tensor.shape), limit=[count])


def expect_elements(tensor: TensorType, axes: Iterable[int], done: str) -> None:
    """Check that none of several axes is without elements; `done` says what is done along them.

    Raises:
        GraphError: One is.
    """
    if any(tensor.shape[axis] == 0 for axis in axes):
        raise GraphError(f"an axis without elements cannot be {done}", seen=list(tensor.shape))


def normalise_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Return an axis counted from the front.

    >>> normalise_axis(-1, 4)
    3

    Raises:
        GraphError: There is no such axis.
    """
    if not -rank <= axis < rank:
        raise GraphError(f"{name} is not an axis of a tensor of rank {rank}", seen=axis, limit=f"{-rank} to {rank - 1}")
    return axis % rank


def normalise_axes(axes: Iterable[int], rank: int, name: str = "axes") -> tuple[int, ...]:
    """Return axes counted from the front, in the order given.

    Raises:
        GraphError: One is not an axis, or one is named twice.
    """
    found = tuple(normalise_axis(axis, rank, name) for axis in axes)
    if len(set(found)) != len(found):
        raise GraphError(f"{name} names one axis twice", seen=list(found))
    return found


def reduced_axes(rank: int, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the axes of a reduction counted from the front; None is all of them."""
    return tuple(range(rank)) if axes is None else normalise_axes(axes, rank)


def sliding_extent(extent: int, window: int, stride: int, pad: Sequence[int], dilation: int, *, ceil: bool) -> int:
    """Return how many places a window takes along an axis.

    Rounding up adds a place for what is left over. A last window that would begin after the axis and its left padding
    is left out where there is padding, as MIL does it; where there is none, MIL keeps it and it sees nothing.

    Raises:
        GraphError: The window is longer than the padded axis, or sees nothing at its last place.
    """
    span = dilation * (window - 1) + 1
    room = extent + sum(pad) - span
    if room < 0:
        raise GraphError("the window is longer than the padded axis", seen=span, limit=extent + sum(pad))
    places = (room + (stride - 1 if ceil else 0)) // stride + 1
    if not ceil or (places - 1) * stride < extent + pad[0]:
        return places
    if not any(pad):
        raise GraphError(
            "in ceil mode the last window begins after the axis and sees nothing",
            seen=f"a window of {span} every {stride} along an axis of {extent}",
            remedy="set ceil_mode to false, or take a stride no longer than the window",
        )
    return places - 1


# Attributes and values.


def expect_entries(name: str, given: Sequence[object], wanted: int, of_what: str) -> None:
    """Check that a list has one entry for each of several things.

    Raises:
        GraphError: It has more or fewer.
    """
    if len(given) != wanted:
        raise GraphError(f"{name} does not have one entry for each {of_what}", seen=len(given), limit=wanted)


def divisible(what: str, value: int, by: int) -> int:
    """Return the quotient of two integers that must divide.

    Raises:
        GraphError: They do not.
    """
    if by == 0 or value % by:
        raise GraphError(f"{what} is not divisible", seen=value, limit=f"a multiple of {by}")
    return value // by


def expect_countable(extent: int, dtype: str) -> None:
    """Check that every place along an axis is a value of the element type that places are given in.

    Raises:
        GraphError: The last one is not.
    """
    _, most = value_range(dtype)
    if extent - 1 > most:
        raise GraphError(f"the axis is too long for places in {dtype}", seen=extent, limit=most + 1, remedy="use int32")


def expect_within(values: Array, least: int, most: int, otherwise: str) -> None:
    """Check that integers that were computed are between two, both included; `otherwise` is the message.

    Values that are not there yet, as those of a GPU's plan, note it themselves when they are.

    Raises:
        GraphError: One does not.
    """
    when_there = getattr(values, "expect_within", None)
    if when_there is not None:
        when_there(least, most)
        return
    outside = values[(values < least) | (values > most)]
    if outside.size:
        raise GraphError(otherwise, seen=int(outside.flat[0]), limit=f"{least} to {most}")


def nearest_divisor(extent: int, wanted: int) -> int:
    """Return the divisor of an extent that is nearest to a wanted one, the smaller of two that are as near.

    >>> nearest_divisor(128, 32), nearest_divisor(48, 32), nearest_divisor(37, 32), nearest_divisor(6, 32)
    (32, 24, 37, 6)

    Raises:
        GraphError: Either is not a positive integer.
    """
    for what, number in (("the number of columns", extent), ("the block size", wanted)):
        if type(number) is not int or number < 1:
            raise GraphError(f"{what} is not a positive integer", seen=repr(number), limit="1 or more")
    small = [divisor for divisor in range(1, math.isqrt(extent) + 1) if extent % divisor == 0]
    return min({*small, *(extent // divisor for divisor in small)}, key=lambda one: (abs(one - wanted), one))
