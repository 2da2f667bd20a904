"""Arrays on a device as plans see them: where the numbers are, and how far apart.

A tensor has the shape that the program knows; the axis of samples comes before it and is not a part of it. It has the
few manners of NumPy's arrays that the compositions of operations use, all of which move nothing: reshaping, turning,
squeezing. What moves or computes goes through `primitives`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.ops.types import numpy_dtypes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from aneforge.engine.cuda.plans import Buffer
    from aneforge.engine.cuda.primitives import Builder

__all__ = ["TYPES", "Tensor", "UnsuitedError", "affine_pattern", "dense_steps", "type_of"]

ELEMENTS = (
    *("bool", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("fp16", "fp64"),
)
TYPES = [numpy_dtypes()[one] for one in ELEMENTS]
"""Element types in the order of `enum element` of meanings.cu."""


class UnsuitedError(Exception):
    """No kernel has this form of an operation; the layer runs on the host. It never leaves this room."""


def dense_steps(shape: Sequence[int]) -> tuple[int, ...]:
    """Return how far apart neighbours along each axis are in an array without gaps.

    >>> dense_steps((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True, eq=False)
class Tensor:
    """Numbers in a buffer of a device; steps are in elements."""

    builder: Builder
    buffer: Buffer
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    first: int
    """The place of the first element."""
    sample: int
    """How far apart samples are; 0 for a constant."""

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements a sample has."""
        return math.prod(self.shape)

    @property
    def dense(self) -> bool:
        """True where the elements of a sample are contiguous, and samples too."""
        right = all(
            step == wanted or extent == 1
            for step, wanted, extent in zip(self.steps, dense_steps(self.shape), self.shape, strict=True)
        )
        return right and self.sample in (0, self.size)

    @property
    def T(self) -> Tensor:  # noqa: N802 - NumPy's name
        """The tensor with its axes turned round."""
        return replace(self, shape=self.shape[::-1], steps=self.steps[::-1])

    def swapaxes(self, one: int, other: int) -> Tensor:
        """Return the tensor with two axes exchanged."""
        order = list(range(self.ndim))
        order[one], order[other] = order[other], order[one]
        return replace(self, shape=tuple(self.shape[i] for i in order), steps=tuple(self.steps[i] for i in order))

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Return the same elements in another shape; they are copied together first where they are apart."""
        wanted = [int(one) for one in (shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)]  # type: ignore[union-attr]
        if -1 in wanted:
            wanted[wanted.index(-1)] = self.size // -math.prod(wanted)
        held = self if self.dense else self.builder.contiguous(self)
        return replace(held, shape=tuple(wanted), steps=dense_steps(wanted))

    def squeeze(self, axis: int | Sequence[int]) -> Tensor:
        """Return the tensor without some axes of length 1."""
        gone = {one % self.ndim for one in ((axis,) if isinstance(axis, int) else axis)}
        kept = [one for one in range(self.ndim) if one not in gone]
        return replace(self, shape=tuple(self.shape[i] for i in kept), steps=tuple(self.steps[i] for i in kept))

    def __getitem__(self, index: object) -> Tensor:
        """Return the tensor with axes added by None, or taken at place 0."""
        parts: list[object] = list(cast("tuple[object, ...]", index)) if isinstance(index, tuple) else [index]
        if ... in parts:
            given = sum(one is not None and one is not ... for one in parts)
            place = parts.index(...)
            parts[place : place + 1] = [slice(None)] * (self.ndim - given)
        shape: list[int] = []
        steps: list[int] = []
        axis = 0
        for part in parts:
            if part is None:
                shape.append(1)
                steps.append(0)
                continue
            if part == slice(None):
                shape.append(self.shape[axis])
                steps.append(self.steps[axis])
            elif part != 0:
                raise UnsuitedError("a part of a tensor")
            axis += 1
        return replace(self, shape=(*shape, *self.shape[axis:]), steps=(*steps, *self.steps[axis:]))

    def astype(self, dtype: object) -> Tensor:
        """Refuse: values that are computed are not converted."""
        raise UnsuitedError(f"computed values as {np.dtype(dtype)}")  # type: ignore[arg-type]

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        """Do for NumPy's functions what compositions of operations ask of them."""
        del types
        if function is np.where and not kwargs:
            return self.builder.choose(*args)
        if function is np.pad and not kwargs:
            x, around = args  # images alone are padded, along their last axes
            return self.builder.padded(x, x.ndim - 2, [tuple(pair) for pair in around[2:]])
        if function in (np.swapaxes, np.squeeze):
            name = "swapaxes" if function is np.swapaxes else "squeeze"
            return getattr(args[0], name)(*args[1:], **kwargs)
        raise UnsuitedError(f"{function.__name__} of computed values")


def type_of(tensor: Tensor) -> int:
    """Return the number of an element type.

    Raises:
        UnsuitedError: The kernels have no such type.
    """
    if tensor.dtype not in TYPES:
        raise UnsuitedError(f"numbers of {tensor.dtype}")
    return TYPES.index(tensor.dtype)


def affine_pattern(places: npt.NDArray[np.int64]) -> tuple[int, list[int]] | None:
    """Return the first place and the steps along every axis, where places are such a pattern; else None.

    >>> affine_pattern(np.arange(6).reshape(2, 3).T), affine_pattern(np.array([0, 2, 3])) is None
    ((0, [1, 3]), True)
    """
    first = int(places.flat[0])
    origin = (0,) * places.ndim
    steps: list[int] = []
    for axis, extent in enumerate(places.shape):
        neighbour = tuple(int(one == axis) for one in range(places.ndim))
        steps.append(int(places[neighbour]) - int(places[origin]) if extent > 1 else 0)
    expected = first + reduce(
        np.add.outer,
        [np.arange(extent, dtype=np.int64) * step for extent, step in zip(places.shape, steps, strict=True)],
        np.zeros((), np.int64),
    )
    return (first, steps) if np.array_equal(expected, places) else None
