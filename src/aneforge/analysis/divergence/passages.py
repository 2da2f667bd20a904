"""What becomes of an element that a layer is only to bring to another place.

A copy leaves every bit. The crop of some targets makes large numbers infinite. A resize reads NaN as an infinity. A
product with a weight of one puts the element on the accumulator's grid, and −0 is +0 there. Each is a function of the
65,536 fp16 numbers, read off the golden model, so that anyone can see which numbers it leaves as they are.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from aneforge.engine.crop import through_crop
from aneforge.engine.golden import convolution
from aneforge.engine.neuron import read_real
from aneforge.engine.rounding import to_fp16

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float16]
    Mask = npt.NDArray[np.bool_]

__all__ = ["EVERY", "Passage", "find_kept", "pass_numbers"]

EVERY = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
"""Every fp16 number by its pattern, NaN included."""


class Passage(StrEnum):
    """What an element passes on its way to another place."""

    COPY = "copy"
    COMPUTED = "computed"
    """It is read, and written as it was: NaN becomes an infinity of its sign."""
    CROP = "crop"
    """The fixed-point crop of slices: what is above 4,094 is infinite."""
    SUM = "sum"
    """It is times one, in a sum whose other terms are zeros."""


def pass_numbers(passage: Passage, numbers: Numbers) -> Numbers:
    """Return what a passage makes of numbers.

    >>> pass_numbers(Passage.SUM, np.array([1.5, 2.0**-24, 40000.0, np.inf], np.float16)).tolist()
    [1.5, 0.0, inf, inf]
    """
    return numbers if passage is Passage.COPY else whole(passage)[numbers.view(np.uint16)]


@cache
def whole(passage: Passage) -> Numbers:
    """Return what a passage makes of every number, by their patterns."""
    match passage:
        case Passage.COPY:
            return EVERY
        case Passage.COMPUTED:
            return to_fp16(read_real(EVERY)).astype(np.float16)
        case Passage.CROP:
            return through_crop(EVERY).astype(np.float16)
        case Passage.SUM:
            return convolution(EVERY.reshape(-1, 1, 1), np.ones((1, 1, 1))).astype(np.float16).reshape(-1)


@cache
def find_kept(passage: Passage) -> Mask:
    """Return which numbers a passage leaves as they are, to the bit.

    >>> [int((~find_kept(passage)).sum()) for passage in Passage]
    [0, 2046, 10238, 20479]
    """
    return whole(passage).view(np.uint16) == EVERY.view(np.uint16)
