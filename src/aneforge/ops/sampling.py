"""Valid calls of an operation, drawn at random: the raw material of fuzzing, for Hypothesis or for a plain generator.

Every entry of the op table can draw a sample of itself, so a new operation is fuzzed from the day it is entered. In the
groups a function `sample_…` draws a whole call, and a function `draw_…` a part of one.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeVar

from aneforge.arrays import np
from aneforge.ops.types import Array, TensorType, is_float, numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.ops.signature import AttributeValue

__all__ = [
    "FLOATS",
    "NUMBERS",
    "NUMBERS_AND_INT8",
    "Chooser",
    "Fill",
    "RandomChooser",
    "Sample",
    "draw_any",
    "draw_axis",
    "draw_broadcast_pair",
    "draw_shape",
    "draw_type",
]

T = TypeVar("T")

FLOATS = ("fp16", "fp32")
NUMBERS = ("fp16", "fp32", "int32")
NUMBERS_AND_INT8 = ("fp16", "fp32", "int32", "int8")
ANYTHING = ("fp16", "fp32", "int32", "int8", "bool")


class Chooser(Protocol):
    """Something that makes choices: Hypothesis' draw, or a seeded generator."""

    def integer(self, least: int, most: int) -> int:
        """Return an integer between two, both included."""
        ...

    def choose(self, options: Sequence[T]) -> T:
        """Return one of several options."""
        ...


@dataclass(frozen=True, slots=True)
class RandomChooser:
    """Choices of a seeded NumPy generator.

    >>> chooser = RandomChooser(np.random.default_rng(0))
    >>> 1 <= chooser.integer(1, 3) <= 3
    True
    """

    generator: np.random.Generator

    def integer(self, least: int, most: int) -> int:
        """Return an integer between two, both included."""
        return int(self.generator.integers(least, most, endpoint=True))

    def choose(self, options: Sequence[T]) -> T:
        """Return one of several options."""
        return options[self.integer(0, len(options) - 1)]


@dataclass(frozen=True, slots=True)
class Fill:
    """An operand of a sample: a type and the range of its values, or the values themselves.

    Ranges of integer types include both ends.
    """

    type: TensorType
    low: float = -4.0
    high: float = 4.0
    exact: Array | None = None
    """Values that a random filling could not give, such as a permutation."""

    @classmethod
    def of(cls, values: Array, dtype: str) -> Fill:
        """Return an operand with given values."""
        return cls(TensorType(tuple(values.shape), dtype), exact=values.astype(numpy_dtype(dtype)))

    def values(self, generator: np.random.Generator) -> Array:
        """Return values in the type of the operation's meaning: float64, the own integer type, or bool."""
        if self.exact is not None:
            return self.exact.astype(np.float64) if is_float(self.type.dtype) else self.exact
        if is_float(self.type.dtype):
            return generator.uniform(self.low, self.high, self.type.shape)
        if self.type.dtype == "bool":
            return generator.integers(0, 2, self.type.shape).astype(np.bool_)
        whole = generator.integers(int(self.low), int(self.high), self.type.shape, endpoint=True)
        return whole.astype(numpy_dtype(self.type.dtype))


@dataclass(frozen=True, slots=True)
class Sample:
    """A valid call of an operation."""

    operands: Mapping[str, Fill | tuple[Fill, ...] | None]
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict[str, "AttributeValue"])


def draw_shape(chooser: Chooser, least_rank: int = 1, most_rank: int = 4, *, longest: int = 5) -> tuple[int, ...]:
    """Draw a shape."""
    return tuple(chooser.integer(1, longest) for _ in range(chooser.integer(least_rank, most_rank)))


def draw_type(
    chooser: Chooser, dtypes: Sequence[str] = FLOATS, least_rank: int = 1, most_rank: int = 4, *, longest: int = 5
) -> TensorType:
    """Draw the type of a tensor."""
    return TensorType(draw_shape(chooser, least_rank, most_rank, longest=longest), chooser.choose(dtypes))


def draw_any(chooser: Chooser, shape: Sequence[int]) -> Fill:
    """Draw the element type of an operand of which only the shape matters."""
    return Fill(TensorType(tuple(shape), chooser.choose(ANYTHING)))


def draw_axis(chooser: Chooser, rank: int) -> int:
    """Draw an axis, counted from either end."""
    return chooser.integer(-rank, rank - 1)


def draw_broadcast_pair(chooser: Chooser, *, most_rank: int = 4) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw two shapes that broadcast to one another: axes of length 1, and missing leading axes."""
    full = draw_shape(chooser, 1, most_rank)
    pair: list[tuple[int, ...]] = []
    for _ in range(2):
        cut = chooser.integer(0, len(full) - 1)
        pair.append(tuple(chooser.choose([extent, extent, 1]) for extent in full[cut:]))
    first, second = pair
    return first, second
