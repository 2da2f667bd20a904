"""Gradients: how what comes back to an operation's results passes on to its operands, once, on its own entry.

A rule is a function of a `GradientSite`, the gradient at the result, the operation's operands in order and its
attributes by name; it gives a term for every operand, in their order, of the operand's own shape. It is written in the
notation of decompositions and knows no graph, no format and no target.

    forward:   %y = tanh(x = %x)
    backward:  %a = mul(x = %y, y = %y) … %dx = mul(x = %g, y = 1 − %a)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from aneforge.ops.decomposition import Site, Term
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Gradient", "GradientSite", "NoGradient", "Passed", "PassedOn", "through"]

Passed = Term | None
"""What an operand is given; None is 0 everywhere."""
PassedOn = Sequence[Passed | Sequence[Passed]]
"""What the operands are given, in their order; a list for one that is a list."""


class GradientSite(Site, Protocol):
    """The place of an operation whose gradient is taken."""

    @property
    def outputs(self) -> tuple[Term, ...]:
        """The results of the operation."""
        ...

    def wants(self, operand: str) -> bool:
        """Return whether anything asks for the gradient of an operand; a rule may leave the others out."""
        ...

    def through(self, way: str | Callable[..., object]) -> PassedOn:
        """Return the gradients of the operands, taken through another form of the operation.

        It is the name of one of its decompositions, or a function as decompositions have, of the same mathematics.
        """
        ...


@dataclass(frozen=True, slots=True)
class Gradient:
    """How a gradient passes through an operation.

    `build` takes the site, the gradient at the result, the operands and the attributes. It returns a term, or one for
    every operand; None is 0 everywhere.
    """

    form: str
    """The rule in words or as a formula, for the list of operations; g is what comes back, y the result."""
    build: Callable[..., Passed | PassedOn]
    several: bool = False
    """`build` takes a list of gradients, one for every result, None where nothing comes back."""
    straight: bool = False
    """It passes through integers that stand for real numbers, as if they were not rounded."""

    def __str__(self) -> str:
        return self.form


@dataclass(frozen=True, slots=True)
class NoGradient:
    """Why an operation has no gradient."""

    why: str

    def __str__(self) -> str:
        return f"none: {self.why}"


def through(way: str | Callable[..., object], form: str) -> Gradient:
    """Return the rule of an operation whose gradient is that of another form of it."""

    def build(to: GradientSite, *_: object, **__: object) -> PassedOn:
        return to.through(way)

    return Gradient(form, build)
