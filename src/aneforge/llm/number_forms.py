"""Forms that numbers take in a decoder's graphs, chosen by the ranges of a text: the residual's scale, and its norms.

Norms come in two forms. The wide one divides a row by its largest magnitude first and survives every range of fp16.
The engine's own operation is shorter; it overflows where the sum of squares of a row passes fp16, and takes epsilon for
a floor. What a text reached is not a bound for other texts: a factor of 4 is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.ops.numbers import FP16_MAX
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.llm.architecture import NormSpec

__all__ = ["NumberForms", "ResidualRanges", "choose_forms"]

HEADROOM = 4.0
"""Factor by which the values that a text reached must fit."""
EPSILONS = 1000.0
"""How many times epsilon the mean square of a row has to be, so that adding and flooring are the same in fp16."""


@dataclass(frozen=True, slots=True)
class ResidualRanges:
    """What the residual reaches on a text, without a scale."""

    layers: tuple[float, ...]
    """The largest magnitude after every layer."""
    largest: float
    """The largest of all that norms read, between the parts of a layer too."""
    square_sum: float
    """The largest sum of squares of a row."""
    mean_square: float
    """The smallest mean of squares of a row."""


@dataclass(frozen=True, slots=True)
class NumberForms:
    """The forms in use, and why.

    >>> print(NumberForms())
    residual scale 1; norms divide rows by their largest magnitude (no ranges were given)
    """

    residual_scale: float = 1.0
    """A power of two."""
    wide_norms: bool = True
    why_scale: str = ""
    why_norms: str = "no ranges were given"

    def __str__(self) -> str:
        scale = f"residual scale {self.residual_scale:g}" + (f" ({self.why_scale})" if self.why_scale else "")
        norms = "norms divide rows by their largest magnitude" if self.wide_norms else "norms are the engine's own"
        return f"{scale}; {norms} ({self.why_norms})"


def choose_forms(ranges: ResidualRanges, norm: NormSpec) -> NumberForms:
    """Return the shortest forms that fit what a text reached, with room for others.

    >>> from aneforge.llm.architecture import NormSpec
    >>> print(choose_forms(ResidualRanges((3.0,), 3.0, 90.0, 0.5), NormSpec(kind="rms", epsilon=1e-6)))
    residual scale 1 (the residual reaches 3); norms are the engine's own (squares of a row add up to 90)
    >>> choose_forms(ResidualRanges((40000.0,), 40000.0, 2e9, 0.5), NormSpec(kind="rms", epsilon=1e-6)).residual_scale
    4.0
    """
    scale = 1.0
    while HEADROOM * ranges.largest / scale > FP16_MAX:
        scale *= 2
    squares, mean = ranges.square_sum / scale**2, ranges.mean_square / scale**2
    epsilon = norm.epsilon / scale**2
    if HEADROOM * squares > FP16_MAX:
        why, wide = f"squares of a row add up to {squares:.3g}, too near the end of fp16", True
    elif mean < EPSILONS * epsilon:
        why, wide = f"the mean square of a row is {mean:.3g}, too near its epsilon of {epsilon:.3g}", True
    else:
        why, wide = f"squares of a row add up to {squares:.3g}", False
    return NumberForms(scale, wide, f"the residual reaches {ranges.largest:.4g}", why)
