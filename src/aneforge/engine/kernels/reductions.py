"""Sums, extremes and pooling, as `engine.reductions` and `engine.pooling` have them.

The order of a sum is an argument, as it is there.
"""

from __future__ import annotations

import ctypes
import math
from enum import IntEnum
from functools import reduce
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from aneforge.engine import planar, pooling, reductions
from aneforge.engine.choices import choices
from aneforge.engine.kernels.arrays import as_given, bits_of, element_strides, from_golden, golden_halves, places_of
from aneforge.engine.kernels.distances import read
from aneforge.engine.kernels.elements import to_fp16
from aneforge.engine.kernels.library import address, available, call
from aneforge.ops.groups.pooling import PoolAttributes, elements_seen, pool_slides
from aneforge.ops.shapes import reduced_axes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from aneforge.engine.choices import AdderChoice
    from aneforge.ops.windows import Slide

    Array = npt.NDArray[Any]
    Bits = npt.NDArray[np.uint16]

__all__ = [
    "Kind",
    "Of",
    "accumulate",
    "average_pool",
    "euclidean_pool",
    "extents_of",
    "fits",
    "largest",
    "max_pool",
    "mean",
    "run_along",
    "smallest",
    "total",
]

MOST_GROUP = MOST_TREE = 64
"""`ANEFORGE_MOST_GROUP` and `ANEFORGE_MOST_TREE` of kernels.h."""
MOST_TIMES = 8
"""`ANEFORGE_MOST_TIMES` of kernels.h."""
MOST_BITS = 24
"""Significant bits to which a chain may round: terms and sums are multiples of 2^-24 below 2^29 then."""
LONGEST = 1 << 20
"""Numbers of one sum along an axis; a thread takes 96 bytes for each."""
EXACT_BELOW = 2.0**29
"""Sums of multiples of 2^-24 are exact in float64, in any order, while their magnitudes add up to less."""
ADDER_FIELDS = ("group", "tree", "window", "chain", "times", "bits")
LEAST_NUMBER = 0xFFFF
"""Bits of the least number that the engine reads: padding that is never the largest."""


class Of(IntEnum):
    """`enum aneforge_reduction` of kernels.h: what of the elements is summed, or which of them is looked for."""

    VALUES = 0
    MAGNITUDES = 1
    SQUARES = 2
    LARGEST = 3
    SMALLEST = 4


class Reduce(ctypes.Structure):
    """`struct aneforge_reduce` of kernels.h."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("x", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("runs", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("step", ctypes.c_int64),
        ("taps", ctypes.c_void_p),
        ("tap_count", ctypes.c_int64),
        ("group", ctypes.c_int64),
        ("tree", ctypes.c_int64),
        ("window", ctypes.c_int64),
        ("chain", ctypes.c_int64),
        ("times", ctypes.c_int64),
        ("bits", ctypes.c_int64),
        ("out", ctypes.c_void_p),
    )


class Kind(IntEnum):
    """`enum aneforge_norm_kind` of kernels.h."""

    SOFTMAX = 0
    STANDARDISED = 1
    BY_LENGTH = 2
    SUM = 3
    SUM_OF_MAGNITUDES = 4
    SUM_OF_SQUARES = 5


class Norm(ctypes.Structure):
    """`struct aneforge_norm` of kernels.h."""

    _fields_ = (
        ("kind", ctypes.c_int64),
        ("x", ctypes.c_void_p),
        ("outer", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("inner", ctypes.c_int64),
        ("group", ctypes.c_int64),
        ("tree", ctypes.c_int64),
        ("window", ctypes.c_int64),
        ("chain", ctypes.c_int64),
        ("times", ctypes.c_int64),
        ("bits", ctypes.c_int64),
        ("factor", ctypes.c_void_p),
        ("epsilon", ctypes.c_void_p),
        ("knots", ctypes.c_void_p),
        ("powers", ctypes.c_void_p),
        ("gain", ctypes.c_void_p),
        ("offset", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True)
class Gather:
    """Results and what they see: elements at the place of a result plus each tap."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    taps: npt.NDArray[np.int64]

    @classmethod
    def along(cls, x: Array, axes: Sequence[int]) -> Gather:
        """Return results along the other axes that see everything along some."""
        strides = element_strides(x)
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        taps = places_of([x.shape[axis] for axis in sorted(axes)], [strides[axis] for axis in sorted(axes)])
        return cls(tuple(x.shape[axis] for axis in kept), tuple(strides[axis] for axis in kept), taps)

    @classmethod
    def windows(cls, x: Array, along: Sequence[Slide]) -> Gather:
        """Return results at every place of a window that goes along the last axes of padded images."""
        strides = element_strides(x)
        others = x.ndim - len(along)
        steps = [slide.stride * stride for slide, stride in zip(along, strides[others:], strict=True)]
        gaps = [slide.dilation * stride for slide, stride in zip(along, strides[others:], strict=True)]
        return cls(
            (*x.shape[:others], *(slide.places for slide in along)),
            (*strides[:others], *steps),
            places_of([slide.window for slide in along], gaps),
        )


def adder_fields(adder: AdderChoice | None) -> dict[str, int]:
    """Return the fields of `struct aneforge_adder` of kernels.h."""
    return {name: 0 if adder is None else getattr(adder, name) for name in ADDER_FIELDS}


def gathered(of: Of, x: Bits, gather: Gather, adder: AdderChoice | None, out: Array) -> bool:
    """Sum or search what every result sees into `out`, which is contiguous; False where the golden model has to."""
    places = places_of(gather.shape[:-1], gather.strides[:-1])
    given = Reduce(
        kind=of,
        x=address(x),
        places=address(places),
        runs=len(places),
        length=gather.shape[-1] if gather.shape else 1,
        step=gather.strides[-1] if gather.shape else 0,
        taps=address(gather.taps),
        tap_count=len(gather.taps),
        **adder_fields(adder),
        out=address(out),
    )
    return call("aneforge_run_reduce", ctypes.byref(given))


# Reductions along axes.


def accumulate(x: Array, axes: tuple[int, ...], adder: AdderChoice, of: Of = Of.VALUES) -> Array:
    """Return sums along axes, which stay with length 1, before the last rounding, in float64.

    >>> from aneforge.engine.choices import choices
    >>> accumulate(np.ones((1, 2049), np.float16), (1,), choices().reduction.orders["early"]).item()
    2049.0

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    bits = bits_of("reduce", x)
    summed = sums_along(x, axes, adder, of)
    if summed is not None:
        return summed
    gather = Gather.along(bits, axes)
    out = np.empty(gather.shape, np.float64)
    if not available() or x.size == 0 or not fits(adder, of) or not gathered(of, bits, gather, adder, out):
        return reductions.accumulate(summands(golden_halves(x), of), axes, adder)
    return np.expand_dims(out, tuple(sorted(axes)))


def extents_of(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, int, int] | None:
    """Return how many places there are before, along and after some axes; None where they are no neighbours.

    >>> extents_of((2, 3, 4, 5), (1, 2)), extents_of((2, 3, 4), (0, 2))
    ((2, 12, 5), None)
    """
    first, last = min(axes), max(axes)
    length = math.prod(shape[first : last + 1])
    if last - first + 1 != len(axes) or length > LONGEST:
        return None
    return math.prod(shape[:first]), length, math.prod(shape[last + 1 :])


def run_along(
    kind: Kind, x: Bits, extents: tuple[int, int, int], adder: AdderChoice, out: Array, **others: ctypes.c_void_p | None
) -> bool:
    """Run sums or a norm along the middle one of three extents; False where the golden model has to answer."""
    outer, length, inner = extents
    given = Norm(
        kind=kind,
        x=address(x),
        outer=outer,
        length=length,
        inner=inner,
        **adder_fields(adder),
        **others,
        out=address(out),
    )
    return call("aneforge_run_norm", ctypes.byref(given))


def sums_along(x: Array, axes: tuple[int, ...], adder: AdderChoice, of: Of) -> Array | None:
    """Return sums along axes that are neighbours, None where there is another way.

    What a chain of chains or a tree gives is added exactly, so a long sum is cut there, and its parts go side by side.
    """
    extents = extents_of(x.shape, axes)
    if not available() or x.size == 0 or extents is None or not fits(adder, of):
        return None
    outer, length, inner = extents
    part = adder.chain**adder.times if adder.chain else adder.group * adder.tree
    parts = length // part if length % part == 0 else 1
    sums = np.empty((outer, parts, inner), np.float64)
    kind = {Of.VALUES: Kind.SUM, Of.MAGNITUDES: Kind.SUM_OF_MAGNITUDES, Of.SQUARES: Kind.SUM_OF_SQUARES}[of]
    values = np.ascontiguousarray(bits_of("reduce", x))
    if not run_along(kind, values, (outer * parts, length // parts, inner), adder, sums):
        return None
    if parts > 1 and not (np.abs(sums).sum(axis=1) < EXACT_BELOW).all():
        return None
    shape = [1 if axis in axes else extent for axis, extent in enumerate(x.shape)]
    return sums.sum(axis=1).reshape(shape)


def fits(adder: AdderChoice, of: Of = Of.VALUES) -> bool:
    """Return whether the kernels add in such an order; the golden model adds in all."""
    if of is Of.SQUARES and not choices().reduction.squares_are_rounded:
        return False
    if adder.chain:
        return adder.chain <= MOST_GROUP and 0 < adder.times <= MOST_TIMES and 0 < adder.bits <= MOST_BITS
    power_of_two = adder.tree & (adder.tree - 1) == 0
    return 0 < adder.group <= MOST_GROUP and 0 < adder.tree <= MOST_TREE and power_of_two


def summands(x: Array, of: Of) -> Array:
    """Return what the golden model adds."""
    if available() and x.dtype == np.float16 and choices().reduction.squares_are_rounded:
        numbers = read(x)
        if of is Of.SQUARES:
            return read(to_fp16(np.square(numbers)))
        return np.abs(numbers) if of is Of.MAGNITUDES else numbers
    numbers = planar.read(x)
    if of is Of.SQUARES:
        return reductions.squares(numbers)
    return np.abs(numbers) if of is Of.MAGNITUDES else numbers


def total(x: Array, axes: tuple[int, ...], adder: AdderChoice, of: Of = Of.VALUES) -> Array:
    """Return Σ x, or of |x| or x², rounded once at the end; the axes stay with length 1.

    >>> from aneforge.engine.choices import choices
    >>> total(np.ones((1, 2049), np.float16), (1,), choices().reduction.orders["early"]).item()
    2050.0

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    return as_given(to_fp16(accumulate(x, axes, adder, of)).view(np.uint16), x)


def mean(x: Array, axes: tuple[int, ...], adder: AdderChoice) -> Array:
    """Return Σ x · (1 / n), the factor in fp32 and the sum not rounded before; the axes stay with length 1.

    >>> from aneforge.engine.choices import choices
    >>> mean(np.array([[1.0, 2.0]], np.float16), (1,), choices().reduction.orders["early"]).item()
    1.5

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    scaled = accumulate(x, axes, adder) * reductions.reciprocal_count(x, axes)
    return as_given(to_fp16(scaled).view(np.uint16), x)


def largest(x: Array, *, axes: tuple[int, ...] | None, keep_dims: bool) -> Array:
    """Return the largest x along axes.

    >>> largest(np.array([[1.0, 3.0]], np.float16), axes=(1,), keep_dims=False).tolist()
    [3.0]

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    return extreme(Of.LARGEST, x, axes, keep_dims=keep_dims)


def smallest(x: Array, *, axes: tuple[int, ...] | None, keep_dims: bool) -> Array:
    """Return the smallest x along axes.

    >>> smallest(np.array([[1.0, 3.0]], np.float16), axes=(1,), keep_dims=False).tolist()
    [1.0]

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    return extreme(Of.SMALLEST, x, axes, keep_dims=keep_dims)


def extreme(of: Of, x: Array, axes: tuple[int, ...] | None, *, keep_dims: bool) -> Array:
    """Return the largest or smallest elements along axes."""
    bits = bits_of("reduce", x)
    if not available() or x.size == 0:
        function = reductions.largest if of is Of.LARGEST else reductions.smallest
        return from_golden(function(golden_halves(x), axes=axes, keep_dims=keep_dims), x)
    found = reduced_axes(x.ndim, axes)
    gather = Gather.along(bits, found)
    out = np.empty(gather.shape, np.uint16)
    gathered(of, bits, gather, None, out)
    return as_given(np.expand_dims(out, tuple(sorted(found))) if keep_dims else out, x)


# Pooling.


def max_pool(x: Array, **attributes: Unpack[PoolAttributes]) -> Array:
    """Return the largest value of every window; padding is smaller than any value.

    >>> images = np.array([[[1.0, 3.0, 2.0]]], np.float16)
    >>> max_pool(images, kernel_sizes=(2,), strides=None, pad_type="valid", pad=None).tolist()
    [[[3.0, 3.0]]]

    Raises:
        GraphError: The window does not fit the images, or could see nothing but padding.
        GraphTypeError: The numbers are not fp16.
    """
    bits = bits_of("max_pool", x)
    along = pool_slides(x.shape[2:], attributes)
    if not available() or x.size == 0:
        return from_golden(pooling.largest(golden_halves(x), **attributes), x)
    padded = padded_for(bits, along, LEAST_NUMBER)
    gather = Gather.windows(padded, along)
    out = np.empty(gather.shape, np.uint16)
    gathered(Of.LARGEST, padded, gather, None, out)
    return as_given(out, x)


def average_pool(x: Array, adder: AdderChoice, **attributes: Unpack[PoolAttributes]) -> Array:
    """Return the average of every window, summed in the order of a target; the reciprocal of its count is fp32.

    >>> from aneforge.engine.choices import choices
    >>> images, early = np.array([[[1.0, 3.0, 2.0]]], np.float16), choices().reduction.orders["early"]
    >>> average_pool(images, early, kernel_sizes=(2,), strides=None, pad_type="valid", pad=None).tolist()
    [[[2.0, 2.5]]]

    Raises:
        GraphError: The window does not fit the images, or could see nothing but padding.
        GraphTypeError: The numbers are not fp16.
    """
    sums, along = window_sums("avg_pool", x, Of.VALUES, adder, attributes), pool_slides(x.shape[2:], attributes)
    return as_given(to_fp16(sums * reciprocal_counts(along, attributes)).view(np.uint16), x)


def euclidean_pool(x: Array, adder: AdderChoice, **attributes: Unpack[PoolAttributes]) -> Array:
    """Return the sum of squares of every window, rounded once at the end: a root of it is the Euclidean norm.

    >>> from aneforge.engine.choices import choices
    >>> images, early = np.array([[[1.0, 3.0, 2.0]]], np.float16), choices().reduction.orders["early"]
    >>> euclidean_pool(images, early, kernel_sizes=(2,), strides=None, pad_type="valid", pad=None).tolist()
    [[[10.0, 13.0]]]

    Raises:
        GraphError: The window does not fit the images, or could see nothing but padding.
        GraphTypeError: The numbers are not fp16.
    """
    sums = window_sums("l2_pool", x, Of.SQUARES, adder, attributes)
    return as_given(to_fp16(sums).view(np.uint16), x)


def window_sums(op: str, x: Array, of: Of, adder: AdderChoice, attributes: PoolAttributes) -> Array:
    """Return the sum of what every window sees."""
    along = pool_slides(x.shape[2:], attributes)
    padded = padded_for(bits_of(op, x), along, 0)
    gather = Gather.windows(padded, along)
    sums = np.empty(gather.shape, np.float64)
    if available() and x.size > 0 and fits(adder, of) and gathered(of, padded, gather, adder, sums):
        return sums
    return pooling.add_up(summands(golden_halves(x), of), attributes, adder)


def reciprocal_counts(along: Sequence[Slide], attributes: PoolAttributes) -> Array:
    """Return 1 over how many elements every window counts, in fp32."""
    exclude = attributes.get("exclude_padding_from_average", False)
    counts = [elements_seen(slide, 0 if exclude else slide.before, 0 if exclude else slide.after) for slide in along]
    return (np.float32(1.0) / reduce(np.multiply.outer, counts).astype(np.float32)).astype(np.float64)


def padded_for(bits: Bits, along: Sequence[Slide], padding: int) -> Bits:
    """Return images with as much around them as the windows see."""
    around = [(slide.before, max(slide.reach - slide.before - slide.extent, 0)) for slide in along]
    if not np.any(around):
        return bits
    return np.pad(bits, [(0, 0)] * (bits.ndim - len(along)) + around, constant_values=padding)
