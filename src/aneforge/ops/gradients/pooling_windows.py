"""Gradients of pooling.

Windows that neither overlap nor leave a border repeat what comes back; others put it back along one axis after the
other, or, where the elements of a window get different parts, one tap after the other.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Unpack

from aneforge.arrays import np
from aneforge.ops.gradient import Gradient
from aneforge.ops.gradients.multiplying import fold, fold_all, padded, patch, taps_of
from aneforge.ops.gradients.shifting import keep_where, repeat, spread
from aneforge.ops.windows import WindowAttributes, slides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.ops.decomposition import Term
    from aneforge.ops.gradient import GradientSite
    from aneforge.ops.types import Array
    from aneforge.ops.windows import Slide

SMALLEST = 2.0**-24
"""The smallest number of fp16: a length of 0 divides by it, and zeros stay zeros."""


class Pooling(WindowAttributes):
    """The attributes of pooling."""

    kernel_sizes: tuple[int, ...]


def slides_of(x: Term, attributes: Pooling) -> tuple[Slide, ...]:
    """Return how the window goes along each axis."""
    return slides(
        x.shape[2:],
        attributes["kernel_sizes"],
        {
            "strides": attributes["strides"],
            "pad_type": attributes["pad_type"],
            "pad": attributes["pad"],
            "ceil_mode": attributes.get("ceil_mode", False),
        },
    )


def is_tiling(along: Sequence[Slide]) -> bool:
    """Return whether every element is in one window, and every window inside of the tensor."""
    return all(
        slide.before == 0
        and slide.extent == slide.places * slide.window
        and (slide.places == 1 or slide.stride == slide.window)
        for slide in along
    )


def repeated(value: Term, along: Sequence[Slide]) -> Term:
    """Return what windows hold at each of their elements."""
    for axis, slide in enumerate(along, 2):
        if slide.places == 1:
            value = spread(value, (*value.shape[:axis], slide.window, *value.shape[axis + 1 :]))
        else:
            value = repeat(value, axis, slide.window)
    return value


def counts_of(along: Sequence[Slide], *, exclude: bool) -> Array:
    """Return by how many elements every window's sum is divided."""
    counts: list[Array] = []
    for slide in along:
        starts = np.arange(slide.places) * slide.stride - slide.before
        before, after = (0, 0) if exclude else (slide.before, slide.after)
        counts.append(np.minimum(starts + slide.window, slide.extent + after) - np.maximum(starts, -before))
    return np.asarray(reduce(np.multiply.outer, counts))


def average(
    to: GradientSite,
    g: Term,
    x: Term,
    *,
    exclude_padding_from_average: bool = False,
    **attributes: Unpack[Pooling],
) -> Term:
    """Return g over the number of elements, at every element of its window."""
    along = slides_of(x, attributes)
    share = g * to.constant(1 / counts_of(along, exclude=exclude_padding_from_average), g.dtype, "shares of a window")
    if is_tiling(along):
        return repeated(share, along)
    for axis, slide in enumerate(along, 2):
        parts = [fold(share, axis, slide, offset) for offset in range(slide.window)]
        share = reduce(lambda total, part: total + part, parts)
    return share


def by_taps(x: Term, along: Sequence[Slide], border: float, give: Callable[[Term], Term]) -> Term:
    """Return what a function gives for every element that windows see, put back to the elements' places."""
    whole = padded(x, along, border)
    parts = [fold_all(give(patch(whole, along, tap)), along, tap) for tap in taps_of(along)]
    return reduce(lambda total, part: total + part, parts)


def largest(to: GradientSite, g: Term, x: Term, **attributes: Unpack[Pooling]) -> Term:
    """Return g wherever x is the largest of its window: all of several equal ones get it."""
    along, (y,) = slides_of(x, attributes), to.outputs
    if is_tiling(along):
        return keep_where(to, x.equal(repeated(y, along)), repeated(g, along))
    return by_taps(x, along, -math.inf, lambda seen: keep_where(to, seen.equal(y), g))


def length(to: GradientSite, g: Term, x: Term, **attributes: Unpack[Pooling]) -> Term:
    """Return x / y · g, summed over the windows that see it."""
    along, bounded = slides_of(x, attributes), to.outputs[0].threshold(alpha=SMALLEST)
    if is_tiling(along):
        return x / repeated(bounded, along) * repeated(g, along)
    return by_taps(x, along, 0.0, lambda seen: seen / bounded * g)


AVERAGE = Gradient("g / n at every element of the window", average)
LARGEST = Gradient("g where x is the window's largest, all of several equal ones", largest)
LENGTH = Gradient("x / y · g at every element of the window", length)


def by_mode(
    to: GradientSite,
    g: Term,
    x: Term,
    *,
    mode: str,
    exclude_padding_from_average: bool = False,
    **attributes: Unpack[Pooling],
) -> Term:
    """Return the gradient of the pooling that the mode names."""
    if mode == "average":
        return average(to, g, x, exclude_padding_from_average=exclude_padding_from_average, **attributes)
    return (largest if mode == "max" else length)(to, g, x, **attributes)


BY_MODE = Gradient("that of avg_pool, max_pool or l2_pool", by_mode)
