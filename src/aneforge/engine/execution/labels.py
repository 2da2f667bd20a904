"""How sure a layer's results are, found without computing them twice.

What types, shapes and attributes say is known before a run. What values add is their largest magnitude, which is
found once for each: whether something is infinite, and whether a sum can pass the edge of the accumulator, which is
bounded from above by the largest operand and the sums of the weights' magnitudes. What is not proven to stay below the
edge is labelled as if it could pass it.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.engine import kernels
from aneforge.engine.doubts import SPECIAL
from aneforge.engine.exactness import Exactness, Label, worst
from aneforge.engine.golden import EDGE
from aneforge.engine.products import ORDER_OF_SUMS
from aneforge.ops.numbers import FP16_INFINITY
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.compiler.ir.calls import Call
    from aneforge.engine.dispatch import Arithmetic
    from aneforge.engine.doubts import Doubtful
    from aneforge.engine.kernels.codes import Coded

    Array = npt.NDArray[Any]
    Weights = Array | Coded

__all__ = ["Labels", "Reach", "static_label"]

WINOGRAD_GROWTH = 4.0
"""A transformed column of data is at most twice, and the four of weights together twice, what they are made of."""
PAST_THE_EDGE = Label(Exactness.MODELLED, ORDER_OF_SUMS)


def static_label(found: Arithmetic, operands: Mapping[str, Array | tuple[Array, ...]], call: Call) -> Label:
    """Return the label of an operation for operands of given types and shapes."""
    return found.label_of(dict(operands), call.attributes, values=False)


@dataclass(frozen=True, slots=True)
class Reach:
    """A bound of what any partial sum of a product can reach, for any operands."""

    op: str
    depth: int
    """Terms of a sum."""
    start_magnitude: float
    """The largest magnitude that a sum starts from."""
    growth: float
    transposed: bool
    """The second operand of a matrix product has its terms last."""
    most: Callable[[], float] | None
    """Finds the largest sum of magnitudes of the weights of one result, where they are constant: once, if at all."""

    @classmethod
    def of(
        cls, call: Call, shape: tuple[int, ...], weight: Weights | None, start: Array | None, *, winograd: bool
    ) -> Reach:
        """Return the bound of a product with weights of a shape, None where they are not constant."""
        transposed = call.is_set("transpose_y")
        start_magnitude = 0.0 if start is None else float(np.abs(start).max(initial=0.0))
        most = None if weight is None else cache(partial(most_of, call.op, weight, transposed=transposed))
        depth = math.prod(shape) // max(channels_of(call.op, shape, transposed=transposed), 1)
        return cls(call.op, depth, start_magnitude, WINOGRAD_GROWTH if winograd else 1.0, transposed, most)

    def passes_edge(self, x: float, weight: float, weights: Weights) -> bool:
        """Return whether a sum could pass the edge, given both operands' largest magnitudes and the second operand."""
        return self.passes_edge_at(x, weight, lambda: most_of(self.op, weights, transposed=self.transposed))

    def passes_edge_at(self, x: float, weight: float, most: Callable[[], float]) -> bool:
        """Return the same, given what finds the largest sum of magnitudes of computed weights where it is asked for."""
        # Every product is rounded to the grid, by half of it at most.
        rest = self.start_magnitude + self.depth * 2.0**-17
        if (x * weight * self.depth + rest) * self.growth < EDGE:
            return False
        return (x * (self.most or most)() + rest) * self.growth >= EDGE


def channels_of(op: str, shape: tuple[int, ...], *, transposed: bool) -> int:
    """Return how many results share the numbers of a weight without sharing one."""
    match op:
        case "conv" | "linear":
            return shape[0]
        case "conv_transpose":
            return shape[1]
        case _:
            return 1 if len(shape) == 1 else math.prod(shape) // max(shape[-1 if transposed else -2], 1)


def most_of(op: str, weight: Weights, *, transposed: bool) -> float:
    """Return the largest sum of magnitudes of the weights of one result, found in parts along their first axis."""
    rank = weight.ndim
    match op:
        case "conv" | "linear":
            axes = tuple(range(1, rank))
        case "conv_transpose":
            axes = (0, *range(2, rank))
        case _:
            axes = (rank - (1 if rank == 1 or transposed else 2),)
    parts = (np.abs(part.astype(np.float32)) for part in kernels.codes.parts_of(weight))
    sums = (part.sum(axis=axes, dtype=np.float64) for part in parts)
    if 0 in axes:
        return float(np.max(sum(sums), initial=0.0))
    return max((float(one.max(initial=0.0)) for one in sums), default=0.0)


@dataclass(frozen=True, slots=True)
class Labels:
    """The label of a layer, and which doubts the values that go in can add."""

    known: Label
    special: bool = False
    """Infinite operands make it less sure."""
    doubtful: Doubtful | None = None
    """So do some numbers, where it is a function of one number; infinities are among them."""
    among_zeros: Callable[..., Iterator[Label]] | None = None
    """So do zeros of both signs, where it chooses among several numbers."""
    reach: Reach | None = None
    """So do sums that can pass the edge."""

    @property
    def look(self) -> bool:
        """True if values can add a doubt."""
        return self.special or self.doubtful is not None or self.reach is not None

    def doubts(self, magnitudes: list[float], operands: Sequence[Weights | tuple[Array, ...]]) -> list[Label]:
        """Return the doubts that values add, given the operands and the largest magnitude of each."""
        doubts: list[Label] = []
        infinite = max(magnitudes, default=0.0) >= FP16_INFINITY
        if self.special and infinite:
            doubts.append(SPECIAL)
        if self.doubtful is not None:
            doubts += self.doubtful.labels(cast("Array", operands[0]), magnitudes[0])
        if self.among_zeros is not None:
            doubts += self.among_zeros(*operands)
        if self.reach is not None and not infinite:
            first, second = magnitudes
            if self.reach.passes_edge(first, second, cast("Array", operands[1])):
                doubts.append(PAST_THE_EDGE)
        return doubts

    def with_doubts(self, doubts: Collection[Label]) -> Label:
        """Return the label of a run in which values added some doubts."""
        return worst([self.known, *doubts]) if doubts else self.known
