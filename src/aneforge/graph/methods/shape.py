"""Moving elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from aneforge.graph.methods.base import Methods

__all__ = ["ShapeMethods"]


class ShapeMethods(Methods):
    """Reshaping, transposing, slicing."""

    __slots__ = ()

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the same elements in another shape, given as numbers or as one list."""
        return self.apply("reshape", shape=one_list(shape))

    def transpose(self, *perm: int | Sequence[int]) -> Self:
        """Return the tensor with its axes in another order, given as numbers or as one list."""
        return self.apply("transpose", perm=one_list(perm))

    def squeeze(self, axes: int | Sequence[int]) -> Self:
        """Remove axes of length 1."""
        return self.apply("squeeze", axes=one_list((axes,)))

    def expand_dims(self, axes: int | Sequence[int]) -> Self:
        """Insert axes of length 1."""
        return self.apply("expand_dims", axes=one_list((axes,)))

    def flatten2d(self, axis: int = 1) -> Self:
        """Merge the axes before and from one axis into two."""
        return self.apply("flatten2d", axis=axis)

    def slice_by_size(self, begin: Sequence[int], size: Sequence[int]) -> Self:
        """Return the part that begins at one place and has one size; a size of −1 goes to the end."""
        return self.apply("slice_by_size", begin=list(begin), size=list(size))

    def reverse(self, axes: int | Sequence[int]) -> Self:
        """Reverse axes."""
        return self.apply("reverse", axes=one_list((axes,)))

    def tile(self, reps: Sequence[int]) -> Self:
        """Repeat the tensor along its axes."""
        return self.apply("tile", reps=list(reps))


def one_list(values: Sequence[int | Sequence[int]]) -> list[int]:
    """Return numbers that were given one by one or as a list.

    >>> one_list((1, 2)), one_list(([1, 2],))
    ([1, 2], [1, 2])
    """
    return [item for value in values for item in (value if isinstance(value, Sequence) else (value,))]
