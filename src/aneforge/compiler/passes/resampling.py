"""Resizing as arithmetic: the weights with which each element of an axis enters each result, as integers.

Along one axis a resize is a matrix. With evenly spaced results, several to an element, its columns are one kernel that
moves on, and the matrix is a deconvolution of the source, whose ends are repeated. Weights are fractions of one
denominator; they are held as n / 2^k, which an fp16 weight holds without rounding up to n = 2048, and what is left of
the denominator is a gain.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.compiler.ir.meanings.regions import ALIGNED_HALF_PIXELS
from aneforge.ops.interpolation import nearest_indices
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = ["AxisResize", "Kernel", "scale_weights"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A deconvolution that resizes along one axis."""

    numerators: tuple[int, ...]
    denominator: int
    stride: int
    repeated: tuple[int, int]
    """How often the first and the last element are repeated before."""
    padding: tuple[int, int]
    """What is cut from the result's ends."""


@dataclass(frozen=True)
class AxisResize:
    """How one axis is resized.

    >>> AxisResize(2, 4, "LINEAR", "UNALIGN_CORNERS").kernel.numerators
    (1, 3, 3, 1)
    """

    extent: int
    count: int
    mode: str
    sampling: str

    @property
    def changes_nothing(self) -> bool:
        """Every result is the element of the same place."""
        if self.extent != self.count:
            return False
        if self.mode == "NEAREST":
            return bool(np.array_equal(nearest_indices(self.extent, self.count, self.sampling), np.arange(self.count)))
        return self.places == [Fraction(place) for place in range(self.count)]

    @cached_property
    def spacing(self) -> Fraction:
        """How far apart results are in the source."""
        match self.sampling:
            case "STRICT_ALIGN_CORNERS" | "ALIGN_CORNERS":
                return Fraction(self.extent - 1, max(self.count - 1, 1))
            case name if name == ALIGNED_HALF_PIXELS:
                return Fraction(self.extent - 1, max(self.count - 1, 1))
            case "OFFSET_CORNERS":
                return Fraction(max(1, self.extent - 1), self.count)
            case _:
                return Fraction(self.extent, self.count)

    @cached_property
    def first(self) -> Fraction:
        """Where the first result is, before it is moved into the source."""
        half = Fraction(1, 2)
        match self.sampling:
            case "UNALIGN_CORNERS":
                return half * self.spacing - half
            case name if name == ALIGNED_HALF_PIXELS:
                return half * self.spacing - half
            case "OFFSET_CORNERS":
                return half * self.spacing
            case "ALIGN_CORNERS" if self.count == 1:
                return Fraction(self.extent - 1, 2)
            case _:
                return Fraction(0)

    @cached_property
    def places(self) -> list[Fraction]:
        """Where each result is in the source."""
        last = Fraction(self.extent - 1)
        return [min(last, max(Fraction(0), self.first + place * self.spacing)) for place in range(self.count)]

    @cached_property
    def denominator(self) -> int:
        """The denominator of all weights."""
        if self.mode == "NEAREST":
            return 1
        return math.lcm(*(place.denominator for place in self.places))

    def matrix(self) -> Array:
        """Return the numerators of the weights: [results, elements]."""
        made = np.zeros((self.count, self.extent), np.int64)
        if self.mode == "NEAREST":
            made[np.arange(self.count), nearest_indices(self.extent, self.count, self.sampling)] = 1
            return made
        for result, place in enumerate(self.places):
            lower = math.floor(place)
            share = (place - lower) * self.denominator
            made[result, lower] += self.denominator - int(share)
            if share:
                made[result, lower + 1] += int(share)
        return made

    @cached_property
    def kernel(self) -> Kernel | None:
        """The deconvolution that does the same; None where results are not evenly spaced, several to an element."""
        if self.mode == "NEAREST":
            return self.repeating
        factor = 1 / self.spacing if self.spacing else Fraction(0)
        return self.sloping(int(factor)) if factor.denominator == 1 and factor > 1 else None

    @property
    def repeating(self) -> Kernel | None:
        """The kernel of ones that repeats every element."""
        factor, rest = divmod(self.count, self.extent)
        if rest or factor < 2:
            return None
        indices = nearest_indices(self.extent, self.count, self.sampling)
        if not np.array_equal(indices, np.repeat(np.arange(self.extent), factor)):
            return None
        return Kernel((1,) * factor, 1, factor, (0, 0), (0, 0))

    def sloping(self, factor: int) -> Kernel:
        """Return the kernel that rises to an element and falls after it, for so many results to an element."""
        # Result o is at o / factor + first; element i has the weight 1 − |o / factor + first − i| there, where that
        # is positive. With o = i · factor + m the weight depends only on m.
        least = math.floor(-factor * (1 + self.first)) + 1
        most = math.ceil(factor * (1 - self.first)) - 1
        weights = [1 - abs(Fraction(m, factor) + self.first) for m in range(least, most + 1)]
        denominator = math.lcm(*(weight.denominator for weight in weights))
        ends = self.first, self.first + (self.count - 1) * self.spacing
        before = max(0, -math.floor(ends[0]))
        after = max(0, math.ceil(ends[1]) - (self.extent - 1))
        cut = factor * before - least
        reach = (before + self.extent + after - 1) * factor + len(weights) - cut
        numerators = tuple(int(weight * denominator) for weight in weights)
        return Kernel(numerators, denominator, factor, (before, after), (cut, reach - self.count))


def scale_weights(numerators: Array, denominator: int, dtype: np.dtype[np.generic]) -> tuple[Array, float | None, bool]:
    """Return fractions as weights, the gain that brings them to their value (None for 1), and whether they are exact.

    >>> scale_weights(np.array([1, 2]), 3, np.dtype(np.float16))
    (array([0.25, 0.5 ], dtype=float16), 1.3333333333333333, True)
    """
    if denominator == 1:
        return numerators.astype(dtype), None, True
    scale = 1 << (denominator - 1).bit_length()
    exact = numerators / scale
    held = exact.astype(dtype)
    gain = None if scale == denominator else scale / denominator
    return held, gain, bool(np.array_equal(held.astype(np.float64), exact))
