"""How large a tensor of a model may be: what says more is damaged, or made to take the machine's memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.errors import GraphError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ELEMENTS_MOST", "EXTENT_MOST", "RANK_MOST", "check_extents"]

ELEMENTS_MOST = 2**40
"""No tensor of a model has more elements: what says so is damaged."""
EXTENT_MOST = 2**31 - 1
"""Longest axis: indices of 32 bits reach no further, in ONNX's own tools and in MIL."""
RANK_MOST = 32
"""Most axes of a tensor: NumPy broadcasts no more."""


def check_extents(what: str, extents: Iterable[int]) -> tuple[int, ...]:
    """Return a shape from a file.

    >>> check_extents("the input", [2, 3])
    (2, 3)

    Raises:
        GraphError: A length is negative or past 31 bits, or there are more axes or elements than any tensor has.
    """
    shape = tuple(extents)
    if len(shape) > RANK_MOST:
        raise GraphError(f"{what} has too many axes", seen=len(shape), limit=RANK_MOST)
    if min(shape, default=0) < 0:
        raise GraphError(f"{what} has an axis of negative length", seen=list(shape), limit="0 or more")
    if max(shape, default=0) > EXTENT_MOST:
        raise GraphError(f"{what} has an axis that is too long", seen=list(shape), limit=EXTENT_MOST)
    if math.prod(extent for extent in shape if extent) > ELEMENTS_MOST:  # NumPy counts so in an empty array too
        raise GraphError(f"{what} has too many elements", seen=list(shape), limit=f"{ELEMENTS_MOST} elements")
    return shape
