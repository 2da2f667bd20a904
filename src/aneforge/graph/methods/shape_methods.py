"""Moving elements without changing them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from aneforge.errors import GraphTypeError
from aneforge.graph.methods.base import Methods
from aneforge.graph.methods.method_arguments import misuse, one_list, whole, whole_list

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ShapeMethods"]


class ShapeMethods(Methods):
    """Reshaping, transposing, slicing."""

    __slots__ = ()

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        """Return the same elements in another shape, given as numbers or as one list; one of them may be −1.

        >>> import aneforge as af
        >>> x = af.input((2, 6))
        >>> x.reshape(3, 4).shape, x.reshape([3, -1]).shape
        ((3, 4), (3, 4))
        """
        return self.apply("reshape", shape=one_list(shape, "reshape", "shape"))

    def transpose(self, *axes: int | Sequence[int], perm: Sequence[int] | None = None) -> Self:
        """Return the tensor with its axes in another order, given as numbers, as one list, or as `perm`.

        >>> import aneforge as af
        >>> x = af.input((2, 3, 4))
        >>> x.transpose(2, 0, 1).shape, x.transpose(perm=[0, 2, 1]).shape
        ((4, 2, 3), (2, 4, 3))
        """
        if perm is None:
            return self.apply("transpose", perm=one_list(axes, "transpose", "perm"))
        if axes:
            raise misuse("transpose", "the order of axes is given twice", remedy="give it once", error=GraphTypeError)
        return self.apply("transpose", perm=whole_list(perm, "transpose", "perm"))

    def squeeze(self, axes: int | Sequence[int]) -> Self:
        """Remove axes of length 1.

        >>> import aneforge as af
        >>> af.input((1, 4, 1)).squeeze([0, 2]).shape
        (4,)
        """
        return self.apply("squeeze", axes=one_list((axes,), "squeeze", "axes"))

    def expand_dims(self, axes: int | Sequence[int]) -> Self:
        """Insert axes of length 1.

        >>> import aneforge as af
        >>> af.input((4,)).expand_dims([0, 2]).shape
        (1, 4, 1)
        """
        return self.apply("expand_dims", axes=one_list((axes,), "expand_dims", "axes"))

    def flatten2d(self, axis: int = 1) -> Self:
        """Merge the axes before and from one axis into two.

        >>> import aneforge as af
        >>> af.input((2, 3, 4)).flatten2d().shape
        (2, 12)
        """
        return self.apply("flatten2d", axis=whole(axis, "flatten2d", "axis"))

    def slice_by_size(self, begin: Sequence[int], size: Sequence[int]) -> Self:
        """Return the part that begins at one place and has one size; a size of −1 goes to the end.

        >>> import aneforge as af
        >>> af.reference(af.input((4,)).slice_by_size([1], [2]), [[1.0, 2.0, 3.0, 4.0]])["y"].tolist()
        [2.0, 3.0]
        """
        op = "slice_by_size"
        return self.apply(op, begin=whole_list(begin, op, "begin"), size=whole_list(size, op, "size"))

    def reverse(self, axes: int | Sequence[int]) -> Self:
        """Reverse axes.

        >>> import aneforge as af
        >>> af.reference(af.input((3,)).reverse(0), [[1.0, 2.0, 3.0]])["y"].tolist()
        [3.0, 2.0, 1.0]
        """
        return self.apply("reverse", axes=one_list((axes,), "reverse", "axes"))

    def tile(self, reps: Sequence[int]) -> Self:
        """Repeat the tensor along its axes.

        >>> import aneforge as af
        >>> af.input((2, 3)).tile([1, 4]).shape
        (2, 12)
        """
        return self.apply("tile", reps=whole_list(reps, "tile", "reps"))
