"""Hypothesis strategies generated out of the op table: valid calls of any operation, with values."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from hypothesis import strategies as st

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.op import Op
    from aneforge.ops.sampling import Fill, Sample
    from aneforge.ops.types import Array, TensorType

__all__ = ["DrawChooser", "Drawn", "calls"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DrawChooser:
    """Choices of Hypothesis, which shrink."""

    draw: st.DrawFn

    def integer(self, least: int, most: int) -> int:
        """Return an integer between two, both included."""
        return self.draw(st.integers(least, most))

    def choose(self, options: Sequence[T]) -> T:
        """Return one of several options."""
        return self.draw(st.sampled_from(options))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sample of an operation and values for its operands."""

    op: Op
    sample: Sample
    values: dict[str, Array | tuple[Array, ...] | None]

    @property
    def types(self) -> dict[str, TensorType | tuple[TensorType, ...] | None]:
        """The types of the operands."""
        return {name: type_of(fill) for name, fill in self.sample.operands.items()}

    def __repr__(self) -> str:
        types = {name: show(fill) for name, fill in self.sample.operands.items()}
        return f"{self.op.name}({types}, {dict(self.sample.attributes)})"


def type_of(fill: Fill | tuple[Fill, ...] | None) -> TensorType | tuple[TensorType, ...] | None:
    """Return the type of an operand, or of each one of a list."""
    if isinstance(fill, tuple):
        return tuple(one.type for one in fill)
    return fill.type if fill else None


def show(fill: Fill | tuple[Fill, ...] | None) -> str:
    """Return an operand as a failing example prints it."""
    if isinstance(fill, tuple):
        return ", ".join(show(one) for one in fill)
    return "none" if fill is None else str(fill.type)


@st.composite
def calls(draw: st.DrawFn, op: Op) -> Drawn:
    """Draw a valid call of an operation."""
    sample = op.sample(DrawChooser(draw))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values: dict[str, Array | tuple[Array, ...] | None] = {}
    for name, fill in sample.operands.items():
        if isinstance(fill, tuple):
            values[name] = tuple(one.values(generator) for one in fill)
        else:
            values[name] = None if fill is None else fill.values(generator)
    return Drawn(op, sample, values)
