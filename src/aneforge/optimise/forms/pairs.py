"""Numbers as sums of two fp16 tensors, a large part and what its rounding lost: about 22 bits instead of 11.

The engine rounds every elementwise sum and product once, to the nearest (ties away from zero). That is all that the
error-free transformations of Dekker, Knuth and Veltkamp need, so what they lose is nothing but numbers below 2^-24,
where fp16 ends. Splitting a factor multiplies it by 65, so factors stay below 1,000.
"""

from __future__ import annotations

import numpy as np

from aneforge.errors import GraphError, GraphTypeError
from aneforge.graph.builder.combination import concat
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.shapes import normalise_axis
from aneforge.records import dataclass

__all__ = ["Paired", "paired", "paired_subtract"]

SPLITTER = 65.0
"""2^6 + 1: it parts the 11 bits of an fp16 number into two halves."""


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """A tensor as a sum of two: `hi` is the sum rounded to fp16, `lo` the rest. Factors of `*` stay below 1,000.

    >>> import numpy as np, aneforge as af
    >>> third = np.full((1, 4), 1 / 3)
    >>> hi = third.astype(np.float16)
    >>> lo = (third - hi).astype(np.float16)
    >>> x = af.paired(af.input((1, 4), name="hi"), af.input((1, 4), name="lo"))
    >>> model = af.compile_multi({"hi": (x * x).hi, "lo": (x * x).lo}, target=af.targets.Family.A15)
    >>> found = model(hi, lo)
    >>> bool(np.abs(found["hi"].astype(np.float64) + found["lo"] - 1 / 9).max() < 1e-7)
    True
    """

    hi: Tensor
    lo: Tensor

    def __add__(self, other: object) -> Paired:
        one = as_pair(other, self)
        large, lost = two_sum(self.hi, one.hi)
        return normalise(large, lost + (self.lo + one.lo))

    def __sub__(self, other: object) -> Paired:
        one = as_pair(other, self)
        large, lost = two_difference(self.hi, one.hi)
        return normalise(large, lost + (self.lo - one.lo))

    def __mul__(self, other: object) -> Paired:
        one = as_pair(other, self)
        large, lost = two_product(self.hi, one.hi)
        return normalise(large, lost + (self.hi * one.lo + self.lo * one.hi))

    def dot(self, other: Paired | Tensor, axis: int = -1) -> Paired:
        """Return the sum of products along an axis, which stays with one element.

        Everything is added in the accumulator of one matrix product; a second one finds what rounding the first lost.

        Raises:
            GraphError: The shapes differ, or there is no such axis.
            GraphTypeError: The other is neither a pair nor a tensor.
        """
        one = as_pair(other, self)
        along = normalise_axis(axis, self.hi.type.rank)
        left, right = (concat(list(parts), axis=1) for parts in self._factors(one, along))
        rows, terms = left.shape
        row, column = left.reshape(rows, 1, terms), right.reshape(rows, terms, 1)
        total = row @ column
        taken_off = Dense.owning(np.full((rows, 1, 1), -1, np.float16))
        with_that = Tensor(build("concat", {"values": (column, taken_off)}, {"axis": 1}))
        rest = concat([row, total], axis=2) @ with_that
        shape = tuple(1 if place == along else extent for place, extent in enumerate(self.hi.shape))
        return Paired(total.reshape(shape), rest.reshape(shape))

    def to_tensor(self) -> Tensor:
        """Return the sum, rounded to fp16."""
        return self.hi + self.lo

    def _factors(self, other: Paired, axis: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        rank = self.hi.type.rank
        order = (*(place for place in range(rank) if place != axis), axis)

        def matrix(x: Tensor) -> Tensor:
            moved = x if order == tuple(range(rank)) else x.transpose(order)
            return moved.reshape(x.type.size // x.shape[axis], x.shape[axis])

        mine, theirs = (matrix(self.hi), matrix(self.lo)), (matrix(other.hi), matrix(other.lo))
        return (mine[0], mine[0], mine[1]), (theirs[0], theirs[1], theirs[0])


def paired(hi: Tensor, lo: Tensor) -> Paired:
    """Return the pair of a rounded tensor and its rounding error, see `Paired`.

    >>> import aneforge as af
    >>> af.paired(af.input((2, 3)), af.input((2, 3))).to_tensor().shape
    (2, 3)

    Raises:
        GraphTypeError: One is not a tensor.
        GraphError: The two have different types.
    """
    for part in (hi, lo):
        if not isinstance(part, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError("a pair is made of two tensors", seen=type(part).__name__)
    if hi.type != lo.type:
        raise GraphError("the two tensors of a pair have different types", seen=lo.type, limit=hi.type)
    return Paired(hi, lo)


def paired_subtract(a: Paired | Tensor, b: Paired | Tensor) -> Tensor:
    """Return a − b in fp16; for pairs, the small parts are not lost before the large ones cancel.

    The difference of two plain tensors is rounded once and is not more accurate as pairs: the low bits were lost when
    each of the two was rounded. Give pairs if they are known.

    >>> import numpy as np, aneforge as af
    >>> parts = {name: af.input((1, 1), name=name) for name in ("hi", "lo", "b")}
    >>> model = af.compile(paired_subtract(paired(parts["hi"], parts["lo"]), parts["b"]), target=af.targets.Family.A15)
    >>> model([[1000.0]], [[0.125]], [[1000.0]]).item()
    0.125

    Raises:
        GraphTypeError: One is neither a pair nor a tensor.
        GraphError: They have different types.
    """
    if isinstance(a, Paired) or isinstance(b, Paired):
        shaped = a if isinstance(a, Paired) else b
        assert isinstance(shaped, Paired)  # noqa: S101 - one of the two is
        return (as_pair(a, shaped) - b).to_tensor()
    for one in (a, b):
        if not isinstance(one, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError("a difference is of pairs or tensors", seen=type(one).__name__)
    return a - b


def as_pair(value: object, like: Paired) -> Paired:
    """Return an operand as a pair; a tensor has nothing in its small part.

    Raises:
        GraphTypeError: It is neither a pair nor a tensor.
        GraphError: It has another type.
    """
    if isinstance(value, Tensor):
        value = Paired(value, value - value)
    if not isinstance(value, Paired):
        raise GraphTypeError(
            "a pair goes together with pairs and tensors", seen=type(value).__name__, remedy="make it an input"
        )
    if value.hi.type != like.hi.type:
        raise GraphError("two pairs have different types", seen=value.hi.type, limit=like.hi.type)
    return value


def normalise(large: Tensor, small: Tensor) -> Paired:
    """Return the pair of two parts, of which the first is the larger (Dekker's sum)."""
    total = large + small
    return Paired(total, small - (total - large))


def two_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return a sum and what its rounding lost (Knuth)."""
    total = a + b
    second = total - a
    return total, (a - (total - second)) + (b - second)


def two_difference(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return a difference and what its rounding lost (Knuth)."""
    total = a - b
    second = total - a
    return total, (a - (total - second)) - (b + second)


def two_product(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return a product and what its rounding lost (Dekker)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor as a sum of two with half the bits each, whose products are exact (Veltkamp)."""
    spread = x * SPLITTER
    high = spread - (spread - x)
    return high, x - high
