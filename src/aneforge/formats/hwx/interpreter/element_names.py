"""Names of elements, and the tensors that names make: what a task reads, from where it is.

When a container is read as a graph, memory holds the name of each element in the place of its bits: which value it is
of, and which of its elements. Moving bits moves names. What a task reads is then a value, a part of one with its axes
in another order, or several values side by side, whatever addresses they went through.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import HwxError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from aneforge.errors import Location
    from aneforge.formats.hwx.interpreter.steps import Work
    from aneforge.graph.node import Argument

    Names = NDArray[np.int64]

__all__ = ["Affine", "MadeValue", "ValueTable"]

ELEMENT_BITS = 40
"""Bits of a name that number the element; those above number the value."""
MOST_PIECES = 64
"""Parts of one tensor that are put together."""
ELEMENTS = (1 << ELEMENT_BITS) - 1


@dataclass(frozen=True, slots=True)
class MadeValue:
    """A value: a tensor, or why a graph cannot have it by itself, and what it was made of."""

    tensor: Tensor | None
    refusal: str = ""
    """What is said when something reads it for which there is no tensor."""
    work: Work | None = None
    sources: tuple[Names, ...] = ()


@dataclass(frozen=True, slots=True)
class Affine:
    """Elements of a value at regular distances: from a first one, so many along each axis."""

    first: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    """Elements from one to the next; 0 for an axis of one element."""

    @classmethod
    def of(cls, elements: Names) -> Affine | None:
        """Return the regular form of elements; None where they have none."""
        first = int(elements.flat[0])
        ones = np.eye(elements.ndim, dtype=np.int64)
        steps = [
            int(elements[tuple(one)]) - first if extent > 1 else 0
            for one, extent in zip(ones, elements.shape, strict=True)
        ]
        expected = np.full((1,) * elements.ndim, first, np.int64)
        for axis, (step, extent) in enumerate(zip(steps, elements.shape, strict=True)):
            along = step * np.arange(extent, dtype=np.int64)
            expected = expected + along.reshape([-1 if place == axis else 1 for place in range(elements.ndim)])
        regular = all(step > 0 or extent == 1 for step, extent in zip(steps, elements.shape, strict=True))
        return cls(first, elements.shape, tuple(steps)) if regular and np.array_equal(expected, elements) else None

    @classmethod
    def unfolded(cls, elements: Names) -> Affine | None:
        """Return the regular form of elements one after the other, in axes that make it regular; None where none do."""
        left, extents, strides = elements.ravel(), list[int](), list[int]()
        while left.size > 1:
            steps = np.diff(left)
            others = np.flatnonzero(steps != steps[0])
            count = int(others[0]) + 1 if others.size else left.size
            if steps[0] <= 0 or left.size % count:
                return None
            rows = left.reshape(-1, count)
            if not np.array_equal(rows, rows[:, :1] + steps[0] * np.arange(count)):
                return None
            extents, strides, left = [count, *extents], [int(steps[0]), *strides], rows[:, 0]
        return cls(int(elements.flat[0]), tuple(extents), tuple(strides))

    @property
    def axes(self) -> list[int]:
        """Axes of more than one element, those of larger strides first."""
        long = [axis for axis, extent in enumerate(self.extents) if extent > 1]
        return sorted(long, key=lambda axis: -self.strides[axis])


@dataclass(slots=True)
class ValueTable:
    """Every value of a program, by number."""

    values: list[MadeValue] = field(default_factory=list["MadeValue"])
    place: Location | None = None
    """Where the operations are that are made next."""

    def apply(
        self, op: str, operands: Mapping[str, Argument], attributes: Mapping[str, object] | None = None
    ) -> Tensor:
        """Return the result of an operation."""
        return Tensor(build(op, operands, attributes or {}, self.place))

    def add(self, value: MadeValue, shape: Sequence[int]) -> Names:
        """Return the names of a new value's elements, in a shape."""
        self.values.append(value)
        count = math.prod(shape)
        return ((len(self.values) - 1 << ELEMENT_BITS) + np.arange(count, dtype=np.int64)).reshape(shape)

    def find(self, names: Names) -> tuple[MadeValue, Names] | None:
        """Return the value that names are of, and the numbers of its elements; None where they are of several."""
        numbers = names >> ELEMENT_BITS
        first = int(numbers.flat[0])
        return (self.values[first], names & ELEMENTS) if (numbers == first).all() else None

    def tensor(self, names: Names, where: str) -> Tensor:
        """Return the tensor that names make, in their shape.

        Raises:
            HwxError: No operation of a graph makes it.
        """
        found = self.find(names)
        if found is None:
            return self.join(names, where)
        value, elements = found
        if value.tensor is None:
            raise HwxError(value.refusal)
        whole = value.tensor
        if elements.size == math.prod(whole.shape) and np.array_equal(elements.ravel(), np.arange(elements.size)):
            return in_shape(self, whole, elements.shape)
        regular = Affine.of(elements)
        if regular is None:
            unfolded = Affine.unfolded(elements)
            part = None if unfolded is None else cut_out(self, whole, unfolded)
            return self.piece_together(names, where) if part is None else in_shape(self, part, elements.shape)
        part = cut_out(self, whole, regular)
        part = turn_over(self, whole, regular) if part is None else part
        if part is None:
            raise HwxError(f"{where}: no graph can express what the task reads as a part of a tensor", seen=names.shape)
        return part

    def piece_together(self, names: Names, where: str) -> Tensor:
        """Return parts of one tensor side by side along an axis.

        Raises:
            HwxError: They are laid out in another way.
        """
        for axis in range(names.ndim):
            steps = np.diff(np.moveaxis(names, axis, -1).reshape(-1, names.shape[axis])[0])
            cuts = np.flatnonzero(steps != steps[0]) + 1 if steps.size else steps
            if 0 < cuts.size <= MOST_PIECES:
                parts = np.split(names, cuts, axis=axis)
                return self.apply("concat", {"values": tuple(self.tensor(one, where) for one in parts)}, {"axis": axis})
        raise HwxError(f"{where}: the task reads several parts that are not adjacent along any axis")

    def join(self, names: Names, where: str) -> Tensor:
        """Return tensors side by side along an axis, or in rows and columns.

        Raises:
            HwxError: They are laid out in another way.
        """
        numbers = names >> ELEMENT_BITS
        bounds = [bounds_along(numbers, axis) for axis in range(names.ndim)]
        single = [axis for axis, (least, most) in enumerate(bounds) if (least == most).all()]
        for axis in single or range(names.ndim):
            changes = np.any(np.diff(bounds[axis]) != 0, axis=0)
            if single or changes.any():
                parts = np.split(names, np.flatnonzero(changes) + 1, axis=axis)
                return self.apply("concat", {"values": tuple(self.tensor(one, where) for one in parts)}, {"axis": axis})
        raise HwxError(f"{where}: the task reads several tensors that are not adjacent along any axis")


def bounds_along(numbers: Names, axis: int) -> Names:
    """Return the least and the largest number at each place of an axis."""
    others = tuple(place for place in range(numbers.ndim) if place != axis)
    return np.stack([numbers.min(axis=others), numbers.max(axis=others)])


def in_shape(table: ValueTable, tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a tensor in a shape; of two shapes one after the other the last remains."""
    if tensor.op == "reshape":
        tensor = tensor.srcs[0]
    return tensor if tensor.shape == tuple(shape) else table.apply("reshape", {"x": tensor}, {"shape": tuple(shape)})


def cut_out(table: ValueTable, whole: Tensor, part: Affine) -> Tensor | None:
    """Return a part of a tensor whose axes are each along one axis of it; None where they are not."""
    shape = whole.shape
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    begin = [part.first // step % extent for step, extent in zip(steps, shape, strict=True)]
    end, stride = [one + 1 for one in begin], [1] * len(shape)
    along: list[int] = []
    for axis in part.axes:
        place = next((at for at, step in enumerate(steps) if step <= part.strides[axis] and shape[at] > 1), None)
        if place is None or place in along or part.strides[axis] % steps[place]:
            return None
        stride[place] = part.strides[axis] // steps[place]
        end[place] = begin[place] + stride[place] * (part.extents[axis] - 1) + 1
        if end[place] > shape[place]:
            return None
        along.append(place)
    if (begin, end) != ([0] * len(shape), list(shape)) or set(stride) != {1}:
        attributes = {"begin": tuple(begin), "end": tuple(end), "stride": tuple(stride)}
        whole = table.apply("slice_by_index", {"x": whole}, attributes)
    return in_order(table, whole, [along[part.axes.index(axis)] for axis in sorted(part.axes)], part.extents)


def turn_over(table: ValueTable, whole: Tensor, part: Affine) -> Tensor | None:
    """Return all of a tensor, its elements regrouped into other axes in another order; None where some are left out."""
    expected = 1
    for axis in reversed(part.axes):
        if part.strides[axis] != expected:
            return None
        expected *= part.extents[axis]
    if expected != math.prod(whole.shape):
        return None
    regrouped = in_shape(table, whole, [part.extents[axis] for axis in part.axes])
    return in_order(table, regrouped, [part.axes.index(axis) for axis in sorted(part.axes)], part.extents)


def in_order(table: ValueTable, tensor: Tensor, along: Sequence[int], shape: Sequence[int]) -> Tensor:
    """Return a tensor with some of its axes in an order, the others having one element, in a shape."""
    rest = [axis for axis in range(len(tensor.shape)) if axis not in along]
    order = place_rest(along, rest)
    if order != sorted(order):
        tensor = table.apply("transpose", {"x": tensor}, {"perm": tuple(order)})
    return in_shape(table, tensor, shape)


def place_rest(along: Sequence[int], rest: Sequence[int]) -> list[int]:
    """Return an order of all axes: those that count in theirs, each of the others where it was as far as it can be.

    >>> place_rest([1, 3], [0, 2]), place_rest([3, 1], [0, 2])
    ([0, 1, 2, 3], [0, 3, 2, 1])
    """
    order = list(along)
    for axis in sorted(rest):
        order.insert(axis, axis)
    return order
