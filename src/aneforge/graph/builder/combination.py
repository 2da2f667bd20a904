"""Several tensors into one, one into several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import GraphTypeError
from aneforge.graph.builder.arguments import expect_tensor, tensor_list
from aneforge.graph.methods.base import build_checked, constant_or_tensor
from aneforge.graph.methods.method_arguments import axis_of, describe_argument, misuse, part_of, whole, whole_list
from aneforge.graph.node import Output
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["concat", "gather", "maximum", "minimum", "select", "split", "stack", "where"]

PARTS_MOST = 65536
"""A tensor is cut into no more parts: every part is an operation or a result, and no axis of an engine is longer."""


def maximum(a: object, b: object) -> Tensor:
    """Return the larger of two tensors, element by element; one of them may be a number or an array.

    >>> import aneforge as af
    >>> af.reference(af.maximum(af.input((2,)), 1.0), [[0.5, 2.0]])["y"].tolist()
    [1.0, 2.0]

    Raises:
        GraphTypeError: Neither is a tensor, or one is neither a tensor, a number nor an array.
    """
    return pair("maximum", a, b)


def minimum(a: object, b: object) -> Tensor:
    """Return the smaller of two tensors, element by element; one of them may be a number or an array.

    >>> import aneforge as af
    >>> af.reference(af.minimum(af.input((2,)), 1.0), [[0.5, 2.0]])["y"].tolist()
    [0.5, 1.0]

    Raises:
        GraphTypeError: Neither is a tensor, or one is neither a tensor, a number nor an array.
    """
    return pair("minimum", a, b)


def select(cond: Tensor, a: object, b: object) -> Tensor:
    """Return a where the condition is true, otherwise b; both may be tensors, numbers or arrays.

    >>> import aneforge as af
    >>> x, y = af.input((2,)), af.input((2,))
    >>> af.reference(af.select(x.less(y), 1.0, 0.0), [[1.0, 2.0], [2.0, 1.0]])["y"].tolist()
    [1.0, 0.0]

    Raises:
        GraphTypeError: The condition is not a tensor, or a value is neither a tensor, a number nor an array.
        GraphError: The condition is not of bool, or the shapes do not broadcast.
    """
    return choice("select", cond, a, b)


def where(cond: Tensor, a: object, b: object) -> Tensor:
    """Return a where the condition holds, else b; another name of `select`.

    >>> import aneforge as af
    >>> x = af.input((2,))
    >>> af.reference(af.where(x.less(-x), -x, x), [[-1.0, 2.0]])["y"].tolist()
    [1.0, 2.0]
    """
    return choice("where", cond, a, b)


def concat(tensors: Sequence[Tensor], axis: int = 1) -> Tensor:
    """Join tensors along an axis.

    >>> import aneforge as af
    >>> af.concat([af.input((1, 2)), af.input((1, 3))], axis=1).shape
    (1, 5)

    Raises:
        GraphTypeError: They are not given as a list of tensors.
        GraphError: There are none, or they differ along another axis.
    """
    values = tensor_list(tensors, "concat")
    return Tensor(build_checked("concat", {"values": values}, axis=whole(axis, "concat", "axis")))


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along a new axis.

    >>> import aneforge as af
    >>> af.stack([af.input((1, 2)), af.input((1, 2))]).shape
    (2, 1, 2)

    Raises:
        GraphTypeError: They are not given as a list of tensors.
        GraphError: There are none, or their shapes differ.
    """
    values = tensor_list(tensors, "stack")
    return Tensor(build_checked("stack", {"values": values}, axis=whole(axis, "stack", "axis")))


def split(x: Tensor, n: int, axis: int = 0) -> list[Tensor]:
    """Cut a tensor into equal parts along an axis.

    >>> import aneforge as af
    >>> [part.shape for part in af.split(af.input((4, 6)), 2, axis=1)]
    [(4, 3), (4, 3)]

    Raises:
        GraphError: The axis does not divide, or there are too many parts.
    """
    tensor = expect_tensor(x, "split")
    count = whole(n, "split", "n", least=1, most=PARTS_MOST)
    node = build_checked("split", {"x": tensor}, num_splits=count, axis=whole(axis, "split", "axis"))
    return [Tensor(node, index) for index in range(len(node.types))]


def gather(x: Tensor, indices: Sequence[int], axis: int = 0) -> Tensor:
    """Return the slices of a tensor at constant indices along an axis, joined.

    The indices are integers, in a list or a 1-D array; negative ones count from the end. Consecutive indices become one
    slice. The last axis is transposed first, because a slice that begins inside the width is not safe on every engine.

    >>> import aneforge as af
    >>> af.reference(af.gather(af.input((3, 1)), [2, 0]), [[[1.0], [2.0], [3.0]]])["y"].tolist()
    [[3.0], [1.0]]

    Raises:
        GraphTypeError: The indices are not integers in a flat list.
        GraphError: There are no indices, or one is out of range.
    """
    tensor = expect_tensor(x, "gather")
    place = axis_of(axis, len(tensor.shape), "gather")
    extent = tensor.shape[place]
    wanted = whole_list(indices, "gather", "indices", most=PARTS_MOST)
    if not wanted:
        raise misuse("gather", "there are no indices", limit="at least one")
    for index in wanted:
        if not -extent <= index < extent:
            raise misuse("gather", "an index is out of range", seen=index, limit=f"{-extent} to {extent - 1}")
    with part_of("gather"):
        return gathered(tensor, [index % extent for index in wanted], place)


def gathered(x: Tensor, indices: Sequence[int], axis: int) -> Tensor:
    """Return slices of a tensor, joined; the last axis is moved away first."""
    rank = len(x.shape)
    if axis == rank - 1 and rank > 1:
        perm = [*range(rank)]
        perm[-1], perm[-2] = perm[-2], perm[-1]
        return gathered(x.transpose(perm), indices, axis - 1).transpose(perm)
    parts = [cut(x, axis, first, count) for first, count in runs(indices)]
    return parts[0] if len(parts) == 1 else concat(parts, axis=axis)


def runs(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Return neighbouring indices as runs: first index and count.

    >>> runs([3, 4, 5, 1])
    [(3, 3), (1, 1)]
    """
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and index == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((index, 1))
    return found


def cut(x: Tensor, axis: int, first: int, count: int) -> Tensor:
    """Return a part of a tensor along one axis."""
    begin = [first if place == axis else 0 for place in range(len(x.shape))]
    size = [count if place == axis else extent for place, extent in enumerate(x.shape)]
    return x.slice_by_size(begin, size)


def pair(op: str, a: object, b: object) -> Tensor:
    """Return an operation on a pair of which one may be a number or an array."""
    if not isinstance(a, Output) and not isinstance(b, Output):
        raise misuse(
            op,
            "neither operand is a tensor",
            seen=f"{describe_argument(a)} and {describe_argument(b)}",
            error=GraphTypeError,
        )
    return Tensor(build_checked(op, {"x": constant_or_tensor(a, op, "a"), "y": constant_or_tensor(b, op, "b")}))


def choice(op: str, cond: object, a: object, b: object) -> Tensor:
    """Return a choice between two values, under one of its names."""
    condition = expect_tensor(cond, op, "the condition", remedy="compare tensors, as in x.less(y)")
    operands = {"cond": condition, "a": constant_or_tensor(a, op, "a"), "b": constant_or_tensor(b, op, "b")}
    with part_of(op):
        return Tensor(build_checked("select", operands))
