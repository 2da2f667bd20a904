"""Pooling: what a window sees becomes one value, over one to three spatial axes."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, NotRequired, Unpack

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.arithmetic import euclidean_length
from aneforge.ops.attributed import plain_attributes
from aneforge.ops.common import LIKELY_F0
from aneforge.ops.op import Category, Op, Surface, Trait
from aneforge.ops.results import FROM_ZERO, Movement, Taking
from aneforge.ops.sampling import FLOATS, NUMBERS_AND_INT8, Chooser, Fill, Sample
from aneforge.ops.shapes import expect_float, expect_number, expect_rank
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType
from aneforge.ops.windows import (
    PAD,
    PAD_TYPE,
    STRIDES,
    Slide,
    WindowAttributes,
    WindowSample,
    draw_windows,
    one_each,
    slides,
    windows_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CATEGORY = Category.LAYER
POOLING = frozenset({Trait.POOLING})
KERNEL_SIZES = Attribute("kernel_sizes", AttributeKind.INTEGERS, least=1)
CEIL_MODE = Attribute("ceil_mode", AttributeKind.FLAG, default=False)
EXCLUDE_PADDING = Attribute("exclude_padding_from_average", AttributeKind.FLAG, default=False)
MODE = Attribute("mode", AttributeKind.TEXT, choices=("average", "max", "l2"))
WINDOW = (KERNEL_SIZES, STRIDES, PAD_TYPE, PAD)


class PoolAttributes(WindowAttributes):
    """The attributes of pooling; not every form has the last two."""

    kernel_sizes: tuple[int, ...]
    exclude_padding_from_average: NotRequired[bool]
    mode: NotRequired[str]


def pool_slides(extents: Sequence[int], attributes: PoolAttributes) -> tuple[Slide, ...]:
    """Return how the window goes along each axis.

    Raises:
        GraphError: The window does not fit the axes, or could see nothing but padding.
    """
    along = slides(
        extents,
        one_each("kernel_sizes", attributes["kernel_sizes"], len(extents)),
        {
            "strides": attributes["strides"],
            "pad_type": attributes["pad_type"],
            "pad": attributes["pad"],
            "ceil_mode": attributes.get("ceil_mode", False),
        },
    )
    for slide in along:
        if slide.extent == 0:
            raise GraphError("an axis without elements cannot be pooled", seen=list(extents))
        if max(slide.before, slide.after) >= slide.window:
            raise GraphError(
                "a window could contain only padding",
                seen=f"padding of {max(slide.before, slide.after)}",
                limit=f"less than the window's length of {slide.window}",
            )
    return along


def any_pool_type(x: TensorType, **attributes: Unpack[PoolAttributes]) -> TensorType:
    """Return the type of what pooling gives for any numbers."""
    expect_rank(x, 3, 4, 5)
    expect_number(x)
    return x.with_shape(*x.shape[:2], *(slide.places for slide in pool_slides(x.shape[2:], attributes)))


def float_pool_type(x: TensorType, **attributes: Unpack[PoolAttributes]) -> TensorType:
    """Return the type of what pooling gives that integers could not hold."""
    expect_float(x)
    return any_pool_type(x, **attributes)


def unit_pool_type(x: TensorType, **attributes: Unpack[PoolAttributes]) -> TensorType:
    """Return the type of what pooling by a mode gives."""
    infer = any_pool_type if attributes.get("mode") == "max" else float_pool_type
    return infer(x, **attributes)


def pooled(x: Array, attributes: PoolAttributes, combine: Callable[..., Array], padding: float = 0) -> Array:
    """Combine what every window sees, the padding filled with a value."""
    along = pool_slides(x.shape[2:], attributes)
    return combine(windows_of(x, along, padding), axis=tuple(range(-len(along), 0)))


def largest(x: Array, **attributes: Unpack[PoolAttributes]) -> Array:
    """Return the largest value of every window; padding is smaller than any value."""
    if np.issubdtype(x.dtype, np.floating):
        return pooled(x, attributes, np.max, -np.inf)
    return pooled(x, attributes, np.max, x.min() if x.size else 0)


def average(x: Array, **attributes: Unpack[PoolAttributes]) -> Array:
    """Return the average of every window; padding is 0 and counts, unless it is excluded.

    A window may reach after the padding in ceil mode: what it sees there never counts.
    """
    exclude = attributes.get("exclude_padding_from_average", False)
    counts = [
        elements_seen(slide, 0 if exclude else slide.before, 0 if exclude else slide.after)
        for slide in pool_slides(x.shape[2:], attributes)
    ]
    return pooled(x, attributes, np.sum) / reduce(np.multiply.outer, counts)


def elements_seen(slide: Slide, before: int, after: int) -> Array:
    """Return how many elements of an axis and of so much padding the window sees at every place."""
    starts = np.arange(slide.places) * slide.stride - slide.before
    ends = np.minimum(starts + slide.window, slide.extent + after)
    return ends - np.maximum(starts, -before)


def length_of(seen: Array, *, axis: tuple[int, ...]) -> Array:
    """Return the root of the sum of squares along axes, which go."""
    return np.squeeze(euclidean_length(seen, axis), axis)


def euclidean_norm(x: Array, **attributes: Unpack[PoolAttributes]) -> Array:
    """Return the root of the sum of squares of every window; padding is 0."""
    return pooled(x, attributes, length_of)


def by_mode(x: Array, **attributes: Unpack[PoolAttributes]) -> Array:
    """Pool as the mode says."""
    pools = {"average": average, "max": largest, "l2": euclidean_norm}
    return pools[attributes.get("mode", "max")](x, **attributes)


def strides_that_see(windows: WindowSample) -> tuple[int, ...] | None:
    """Return drawn strides, no longer than the window on an axis without padding: the last window could see nothing."""
    if windows.strides is None:
        return None
    before, after = windows.padding[::2], windows.padding[1::2]
    return tuple(
        stride if first or last else min(stride, length)
        for stride, length, first, last in zip(windows.strides, windows.window, before, after, strict=True)
    )


def pool_sampler(*own: Attribute, dtypes: Sequence[str] = FLOATS) -> Callable[[Chooser], Sample]:
    """Return a function that draws pooling with attributes of its own in addition to the window's."""

    def sample(chooser: Chooser) -> Sample:
        windows = draw_windows(chooser, dilated=False, pad_below_window=True)
        attributes = {**plain_attributes(windows.attributes), "kernel_sizes": windows.window}
        for attribute in own:
            attributes[attribute.name] = chooser.choose(attribute.choices or [True, False])
        if windows.attributes["pad_type"].startswith("same"):
            attributes.pop(CEIL_MODE.name, None)
        elif attributes.get(CEIL_MODE.name):
            attributes["strides"] = strides_that_see(windows)
        shape = (chooser.integer(1, 2), chooser.integer(1, 3), *windows.extents)
        return Sample({"x": Fill(TensorType(shape, chooser.choose(dtypes)))}, attributes)

    return sample


MAX_POOL = Op(
    name="max_pool",
    category=CATEGORY,
    summary="the largest value of every window",
    operands=(Operand("x"),),
    attributes=(*WINDOW, CEIL_MODE),
    infer=any_pool_type,
    meaning=largest,
    sample=pool_sampler(CEIL_MODE, dtypes=NUMBERS_AND_INT8),
    movement=Movement(taking=Taking.CHOSEN),
    traits=POOLING | {Trait.EXTREME},
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.pooling_windows.LARGEST,
)
AVG_POOL = Op(
    name="avg_pool",
    category=CATEGORY,
    summary="the average of every window",
    operands=(Operand("x"),),
    attributes=(*WINDOW, CEIL_MODE, EXCLUDE_PADDING),
    infer=float_pool_type,
    meaning=average,
    sample=pool_sampler(CEIL_MODE, EXCLUDE_PADDING),
    surface=Surface.FUSED,
    traits=POOLING | {Trait.AVERAGING},
    in_mil=True,
    gradient=lambda: gradients.pooling_windows.AVERAGE,
)
L2_POOL = Op(
    name="l2_pool",
    category=CATEGORY,
    summary="√Σx² of every window",
    operands=(Operand("x"),),
    attributes=(*WINDOW, CEIL_MODE),
    infer=float_pool_type,
    meaning=euclidean_norm,
    sample=pool_sampler(CEIL_MODE),
    traits=POOLING | {Trait.SQUARING_SUM},
    codomain=FROM_ZERO,
    support=LIKELY_F0,
    in_mil=True,
    gradient=lambda: gradients.pooling_windows.LENGTH,
)


def unit_pool(name: str) -> Op:
    """Return the pooling of one of the engine's units, which takes the kind of pooling as an attribute."""
    return Op(
        name=name,
        category=CATEGORY,
        summary="the average, the largest value or √Σx² of every window",
        operands=(Operand("x"),),
        attributes=(MODE, *WINDOW, CEIL_MODE, EXCLUDE_PADDING),
        infer=unit_pool_type,
        meaning=by_mode,
        sample=pool_sampler(MODE, CEIL_MODE, EXCLUDE_PADDING),
        traits=POOLING,
        support=LIKELY_F0,
        decompositions=lambda: (decompositions.reductions.NAMED_POOL,),
        gradient=lambda: gradients.pooling_windows.BY_MODE,
        in_mil=True,
    )


NE_POOL = unit_pool("ne_pool")
PE_POOL = unit_pool("pe_pool")
