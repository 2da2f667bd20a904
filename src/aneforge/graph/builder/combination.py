"""Several tensors into one, one into several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.methods.base import build_checked, weight
from aneforge.graph.node import Output, users_location
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import normalised_axis

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["concat", "gather", "maximum", "minimum", "select", "split", "stack", "where"]


def maximum(a: object, b: object) -> Tensor:
    """Return the larger of two tensors, element by element; one of them may be a number or an array.

    Raises:
        GraphTypeError: Neither is a tensor.
    """
    return pair("maximum", a, b)


def minimum(a: object, b: object) -> Tensor:
    """Return the smaller of two tensors, element by element; one of them may be a number or an array.

    Raises:
        GraphTypeError: Neither is a tensor.
    """
    return pair("minimum", a, b)


def select(cond: Tensor, a: object, b: object) -> Tensor:
    """Return a where the condition holds, else b.

    Raises:
        GraphTypeError: The condition is not a tensor of bool.
    """
    if not isinstance(cond, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError(
            "the condition is not a tensor", operation="select", location=users_location(), seen=type(cond).__name__
        )
    return Tensor(
        build_checked("select", {"cond": cond, "a": cond.constant_or_tensor(a), "b": cond.constant_or_tensor(b)})
    )


def where(cond: Tensor, a: object, b: object) -> Tensor:
    """Return a where the condition holds, else b; another name of `select`."""
    return select(cond, a, b)


def concat(tensors: Sequence[Tensor], axis: int = 1) -> Tensor:
    """Join tensors along an axis.

    Raises:
        GraphError: There are none, or they differ along another axis.
    """
    return Tensor(build_checked("concat", {"values": tensor_list(tensors, "concat")}, axis=axis))


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along a new axis.

    Raises:
        GraphError: There are none, or their shapes differ.
    """
    return Tensor(build_checked("stack", {"values": tensor_list(tensors, "stack")}, axis=axis))


def split(x: Tensor, n: int, axis: int = 0) -> list[Tensor]:
    """Cut a tensor into equal parts along an axis.

    Raises:
        GraphError: The axis does not divide.
    """
    node = build_checked("split", {"x": x}, num_splits=n, axis=axis)
    return [Tensor(node, index) for index in range(len(node.types))]


def gather(x: Tensor, indices: Sequence[int], axis: int = 0) -> Tensor:
    """Return the slices of a tensor at fixed places along an axis: slices, joined.

    Runs of neighbouring places become one slice. The last axis is moved away first, because a slice that begins inside
    the width is not safe on every engine.

    Raises:
        GraphError: There are no indices, or one is out of range.
    """
    place = normalised_axis(axis, len(x.shape))
    extent = x.shape[place]
    wanted = [int(index) for index in np.asarray(indices).ravel()]
    for index in wanted:
        if not -extent <= index < extent:
            raise GraphError(
                "an index is out of range",
                operation="gather",
                location=users_location(),
                seen=index,
                limit=f"{-extent} to {extent - 1}",
            )
    if not wanted:
        raise GraphError("there are no indices", operation="gather", location=users_location())
    if place == len(x.shape) - 1 and len(x.shape) > 1:
        perm = [*range(len(x.shape))]
        perm[-1], perm[-2] = perm[-2], perm[-1]
        return gather(x.transpose(perm), wanted, axis=place - 1).transpose(perm)
    parts = [cut(x, place, first, count) for first, count in runs([index % extent for index in wanted])]
    return parts[0] if len(parts) == 1 else concat(parts, axis=place)


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
        raise GraphTypeError(
            "neither operand is a tensor",
            operation=op,
            location=users_location(),
            seen=f"{type(a).__name__} and {type(b).__name__}",
        )
    x, y = (
        value if isinstance(value, Output | Constant) else weight(np.asarray(value, np.float64), "operand")
        for value in (a, b)
    )
    return Tensor(build_checked(op, {"x": x, "y": y}))


def tensor_list(tensors: Sequence[Tensor], op: str) -> tuple[Tensor, ...]:
    """Return tensors as the operand of an operation on several.

    Raises:
        GraphError: There are none.
        GraphTypeError: One is not a tensor.
    """
    values = tuple(tensors)
    if not values:
        raise GraphError("there are no tensors", operation=op, location=users_location(), limit="at least one")
    for value in values:
        if not isinstance(value, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError("a value is not a tensor", operation=op, location=users_location(), seen=repr(value))
    return values
