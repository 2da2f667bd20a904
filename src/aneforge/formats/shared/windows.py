"""Windows that go over the spatial axes of a tensor: convolution, its transpose, pooling, columns of an image.

What the op table has is used as it is; other forms are windows gathered by their places.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.types import is_float, value_range
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value
    from aneforge.ops.types import Array

__all__ = [
    "Window",
    "add_columns",
    "average",
    "convolve",
    "convolve_transposed",
    "gather_windows",
    "is_plain",
    "largest",
    "largest_with_places",
    "place_count",
    "plain",
    "reaching",
]


@dataclass(frozen=True, slots=True)
class Window:
    """How a window goes along one axis."""

    extent: int
    length: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def span(self) -> int:
        """How far the window reaches, the gaps of its dilation counted."""
        return self.dilation * (self.length - 1) + 1


def place_count(window: Window, *, ceil: bool = False) -> int:
    """Return how many places a window takes along an axis.

    Rounding up adds a place for what is left over, unless the window would begin after the axis and its padding.
    """
    room = window.extent + window.before + window.after - window.span
    places = (-(-room // window.stride) if ceil else room // window.stride) + 1
    return places - 1 if ceil and (places - 1) * window.stride >= window.extent + window.before else places


def pads_of(windows: Sequence[Window]) -> dict[str, object]:
    """Return padding as the op table has it."""
    flat = [width for window in windows for width in (window.before, window.after)]
    return {"pad_type": "custom", "pad": flat} if any(flat) else {"pad_type": "valid"}


def is_plain(x: Value, windows: Sequence[Window], places: Sequence[int]) -> bool:
    """Return whether the op table has this form: no gaps, no window of only padding, one to three axes."""
    return (
        3 <= x.type.rank <= 5
        and all(window.dilation == 1 and max(window.before, window.after) < window.length for window in windows)
        and all(
            (count - 1) * window.stride + window.span <= window.extent + window.before + window.after
            for window, count in zip(windows, places, strict=True)
        )
    )


def plain(emit: Emitter, op: str, x: Value, windows: Sequence[Window], **attributes: object) -> Value:
    """Return the op table's own pooling."""
    lengths, strides = [window.length for window in windows], [window.stride for window in windows]
    return emit.apply(op, {"x": x}, kernel_sizes=lengths, strides=strides, **pads_of(windows), **attributes)


def reaching(windows: Sequence[Window], places: Sequence[int]) -> list[Window]:
    """Return windows with the padding after that the last place needs, for poolings in which padding does not count.

    Counts that are rounded up let the last window reach past the axis and its padding.
    """
    return [
        replace(one, after=max(one.after, (count - 1) * one.stride + one.span - one.extent - one.before))
        for one, count in zip(windows, places, strict=True)
    ]


def gather_windows(emit: Emitter, x: Value, windows: Sequence[Window], places: Sequence[int], padding: float) -> Value:
    """Return what every window sees: [N, C, places…, elements of the window]."""
    seen = list_windows(emit, x, windows, places, padding)
    return emit.reshape(seen, (*x.type.shape[:2], *places, seen.type.shape[1]))


def reduced(
    emit: Emitter, op: str, x: Value, windows: Sequence[Window], places: Sequence[int], padding: float
) -> Value:
    """Return a reduction of what every window sees: [N, C, places…]."""
    result = emit.reduce(op, list_windows(emit, x, windows, places, padding), (-1,), keep=False)
    return emit.reshape(result, (*x.type.shape[:2], *places))


def list_windows(emit: Emitter, x: Value, windows: Sequence[Window], places: Sequence[int], padding: float) -> Value:
    """Return what every window sees, one after another: [N · C · places, elements of the window].

    One axis is done after the other, and what is done is merged, so that windows over three axes are gathered with
    five, which is the most that an engine takes.
    """
    reach = [(count - 1) * window.stride + window.span for window, count in zip(windows, places, strict=True)]
    excess = [max(end - one.before - one.extent, 0) for end, one in zip(reach, windows, strict=True)]
    result = x
    if any(excess) or any(one.before for one in windows):
        flat = [0] * 4 + [width for one, after in zip(windows, excess, strict=True) for width in (one.before, after)]
        result = emit.apply("pad", {"x": x}, pad=flat, mode="constant", constant_val=padding)
    batch, channels, *extents = result.type.shape
    result = emit.reshape(result, (batch * channels, *extents))
    elements: list[int] = []
    for axis, (window, count) in enumerate(zip(windows, places, strict=True)):
        emit.room(count, window.length)
        at = np.arange(count)[:, None] * window.stride + np.arange(window.length) * window.dilation
        taken = emit.moved(emit.take(result, at, 1), 2, -1)  # [lead, places, further axes…, elements before, elements]
        elements.append(window.length)
        lead = taken.type.shape[0] * count
        result = emit.reshape(taken, (lead, *extents[axis + 1 :], math.prod(elements)))
    return result


def lowest(dtype: str) -> float:
    """Return a value that no other of a type is below."""
    return -math.inf if is_float(dtype) else value_range(dtype)[0]


def largest(emit: Emitter, x: Value, windows: Sequence[Window], places: Sequence[int]) -> Value:
    """Return the largest value of every window."""
    wide = reaching(windows, places)
    if is_plain(x, wide, places):
        return plain(emit, "max_pool", x, wide)
    return reduced(emit, "reduce_max", x, windows, places, lowest(x.type.dtype))


def largest_with_places(
    emit: Emitter, x: Value, windows: Sequence[Window], places: Sequence[int], *, columns: bool, within_image: bool
) -> tuple[Value, Value]:
    """Return the largest value of every window, and its place in the whole tensor or in its image.

    Spatial places count rows first, or columns first where asked.
    """
    seen = gather_windows(emit, x, windows, places, lowest(x.type.dtype))
    emit.room(seen.type.size)
    chosen = emit.apply("reduce_argmax", {"x": seen}, axis=-1, keep_dims=True)
    table = element_places(windows, places, columns=columns)
    if not within_image:
        images = np.arange(math.prod(x.type.shape[:2])) * math.prod(window.extent for window in windows)
        table = table + images.reshape(*x.type.shape[:2], *[1] * (len(windows) + 1))
    known = emit.constant(np.broadcast_to(table, seen.type.shape), "int64")
    at = emit.apply("gather_along_axis", {"x": known, "indices": chosen}, axis=-1)
    return largest(emit, x, windows, places), emit.reshape(at, at.type.shape[:-1])


def average(
    emit: Emitter,
    x: Value,
    windows: Sequence[Window],
    places: Sequence[int],
    *,
    counted: bool,
    divisor: int | None = None,
) -> Value:
    """Return the average of every window, padding counted or not, or its sum over a given number."""
    uncounted = not counted or not any(one.before or one.after for one in windows)
    wide = reaching(windows, places) if uncounted else list(windows)
    if divisor is None and is_plain(x, wide, places):
        return plain(emit, "avg_pool", x, wide, exclude_padding_from_average=not counted or wide != list(windows))
    emit.room(*places)
    total = reduced(emit, "reduce_sum", x, windows, places, 0.0)
    seen = [elements_seen(one, count, counted=counted) for one, count in zip(windows, places, strict=True)]
    counts = reduce(np.multiply.outer, seen) if divisor is None else np.full(places, divisor)
    return emit.div(total, emit.constant(counts, x.type.dtype))


def element_places(windows: Sequence[Window], places: Sequence[int], *, columns: bool) -> Array:
    """Return the place in its image of each element that each window sees: [places…, elements].

    Places count rows first, or columns first where asked.
    """
    rank = len(windows)
    extents = [window.extent for window in windows]
    steps = [math.prod(extents[:axis] if columns else extents[axis + 1 :]) for axis in range(rank)]
    total = np.zeros((1,) * (2 * rank), np.int64)
    for axis, (window, count) in enumerate(zip(windows, places, strict=True)):
        at = np.arange(count)[:, None] * window.stride + np.arange(window.length) * window.dilation - window.before
        shape = [count if one == axis else window.length if one == axis + rank else 1 for one in range(2 * rank)]
        total = total + (at * steps[axis]).reshape(shape)
    return np.broadcast_to(total, (*places, *(window.length for window in windows))).reshape(*places, -1)


def elements_seen(window: Window, places: int, *, counted: bool) -> Array:
    """Return how many elements of an axis, and of its padding where that counts, a window sees at every place."""
    at = np.arange(places)[:, None] * window.stride + np.arange(window.length) * window.dilation - window.before
    first, last = (-window.before, window.extent + window.after) if counted else (0, window.extent)
    return np.count_nonzero((at >= first) & (at < last), axis=1)


def convolve(
    emit: Emitter, x: Value, weight: Value, bias: Value | None, windows: Sequence[Window], groups: int
) -> Value:
    """Return a convolution; one that sums over no elements is only its bias."""
    if not x.type.size or not weight.type.size:
        shape = (x.type.shape[0], weight.type.shape[0], *map(place_count, windows))
        return sum_of_nothing(emit, shape, x.type.dtype, bias)
    return emit.apply(
        "conv",
        {"x": x, "weight": weight, "bias": bias},
        strides=[window.stride for window in windows],
        dilations=[window.dilation for window in windows],
        groups=groups,
        **pads_of(windows),
    )


def sum_of_nothing(emit: Emitter, shape: Sequence[int], dtype: str, bias: Value | None) -> Value:
    """Return what a convolution over no elements gives: a bias for every channel, or 0."""
    if not math.prod(shape):
        return emit.empty(shape, dtype)
    zeros = emit.filled(shape, 0, dtype)
    return zeros if bias is None else emit.add(zeros, emit.reshape(bias, (bias.type.size, *[1] * (len(shape) - 2))))


def convolve_transposed(
    emit: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    windows: Sequence[Window],
    lengths: Sequence[int],
    groups: int,
) -> Value:
    """Return a transposed convolution of a wanted size; what is after the last window is only the bias."""
    if not x.type.size or not weight.type.size:
        return sum_of_nothing(emit, (x.type.shape[0], weight.type.shape[1] * groups, *lengths), x.type.dtype, bias)
    beyond = [max(-window.after, 0) for window in windows]
    flat = [width for window in windows for width in (window.before, max(window.after, 0))]
    result = emit.apply(
        "conv_transpose",
        {"x": x, "weight": weight, "bias": None if any(beyond) else bias},
        strides=[window.stride for window in windows],
        dilations=[window.dilation for window in windows],
        groups=groups,
        pad_type="custom" if any(flat) else "valid",
        pad=flat,
    )
    if not any(beyond):
        return result
    result = emit.apply("pad", {"x": result}, pad=[width for one in beyond for width in (0, one)], mode="constant")
    return result if bias is None else emit.add(result, emit.reshape(bias, (bias.type.size, *[1] * len(lengths))))


def add_columns(emit: Emitter, x: Value, image: Sequence[Window]) -> Value:
    """Return columns of windows [N, C · elements, places] added up to the image that the windows go over.

    It is a transposed convolution whose kernels have a single 1.
    """
    counts, taps = [place_count(one) for one in image], math.prod(one.length for one in image)
    extents, channels = [one.extent for one in image], x.type.shape[1] // taps
    emit.room(channels, taps, taps)
    kernels = np.tile(np.eye(taps).reshape(taps, 1, *(one.length for one in image)), (channels, 1, *[1] * len(image)))
    spread = emit.reshape(x, (*x.type.shape[:2], *counts))
    windows = [
        replace(one, extent=count, after=(count - 1) * one.stride + one.span - one.before - one.extent)
        for one, count in zip(image, counts, strict=True)
    ]
    return convolve_transposed(emit, spread, emit.constant(kernels, x.type.dtype), None, windows, extents, channels)
