"""Shape rules that many operations share. Each raises one clear error with what was given and what is allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from aneforge.ops.types import TensorType

__all__ = [
    "broadcast",
    "common_dtype",
    "divisible",
    "expect_rank",
    "normalised_axes",
    "normalised_axis",
    "number_dtype",
    "sliding_extent",
]


def broadcast(*types: TensorType) -> tuple[int, ...]:
    """Return the shape to which all types broadcast, as NumPy does it.

    Raises:
        GraphError: They do not broadcast.
    """
    try:
        return np.broadcast_shapes(*(one.shape for one in types))
    except ValueError:
        shapes = " and ".join(str(list(one.shape)) for one in types)
        raise GraphError(
            f"the shapes {shapes} do not broadcast",
            remedy="axes must be equal, or 1, counted from the last",
        ) from None


def common_dtype(*types: TensorType) -> str:
    """Return the element type that all tensors share.

    Raises:
        GraphError: They have several.
    """
    dtypes = list(dict.fromkeys(one.dtype for one in types))
    if len(dtypes) > 1:
        raise GraphError("the operands have different element types", seen=", ".join(dtypes), remedy="cast one of them")
    return dtypes[0]


def number_dtype(*types: TensorType) -> str:
    """Return the element type that all tensors share, which is a number.

    Raises:
        GraphError: They have several, or hold truth values.
    """
    dtype = common_dtype(*types)
    if dtype == "bool":
        raise GraphError("the operands hold truth values", seen=dtype, remedy="cast them to fp16")
    return dtype


def expect_rank(what: str, tensor: TensorType, *ranks: int) -> None:
    """Check that a tensor has one of several ranks.

    Raises:
        GraphError: It has another.
    """
    if tensor.rank not in ranks:
        allowed = " or ".join(map(str, ranks)) if len(ranks) < 4 else f"{min(ranks)} to {max(ranks)}"
        raise GraphError(f"{what} of shape {list(tensor.shape)} has the wrong rank", seen=tensor.rank, limit=allowed)


def normalised_axis(axis: int, rank: int, name: str = "axis") -> int:
    """Return an axis counted from the front.

    >>> normalised_axis(-1, 4)
    3

    Raises:
        GraphError: There is no such axis.
    """
    if not -rank <= axis < rank:
        raise GraphError(f"{name} is not an axis of a tensor of rank {rank}", seen=axis, limit=f"{-rank} to {rank - 1}")
    return axis % rank


def normalised_axes(axes: Iterable[int], rank: int, name: str = "axes") -> tuple[int, ...]:
    """Return axes counted from the front, in the order given.

    Raises:
        GraphError: One is not an axis, or one is named twice.
    """
    found = tuple(normalised_axis(axis, rank, name) for axis in axes)
    if len(set(found)) != len(found):
        raise GraphError(f"{name} names one axis twice", seen=list(found))
    return found


def sliding_extent(extent: int, window: int, stride: int, pad: Sequence[int], dilation: int, *, ceil: bool) -> int:
    """Return how many places a window takes along an axis.

    Raises:
        GraphError: The window is longer than the padded axis.
    """
    span = dilation * (window - 1) + 1
    room = extent + sum(pad) - span
    if room < 0:
        raise GraphError("the window is longer than the padded axis", seen=span, limit=extent + sum(pad))
    places = (room + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (places - 1) * stride >= extent + pad[0]:  # a window may not begin behind the axis and its left padding
        places -= 1
    return places


def divisible(what: str, value: int, by: int) -> int:
    """Return the quotient of two whole numbers that must divide.

    Raises:
        GraphError: They do not.
    """
    if by == 0 or value % by:
        raise GraphError(f"{what} is not divisible", seen=value, limit=f"a multiple of {by}")
    return value // by
