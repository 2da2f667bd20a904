"""Windows that go over the spatial axes of a tensor: pooling, columns of an image, transposed convolution.

What the op table has is used as it is; other forms are windows gathered by their places.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.graph.node import Value
    from aneforge.importers.emitter import Emitter
    from aneforge.ops.types import Array

__all__ = [
    "Window",
    "element_places",
    "elements_seen",
    "gathered",
    "is_plain",
    "lowest",
    "pads_of",
    "plain",
    "reaching",
    "reduced",
    "transposed",
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


def pads_of(windows: Sequence[Window]) -> dict[str, object]:
    """Return padding as the op table has it."""
    flat = [width for window in windows for width in (window.before, window.after)]
    return {"pad_type": "custom", "pad": flat} if any(flat) else {"pad_type": "valid"}


def is_plain(x: Value, windows: Sequence[Window], places: Sequence[int]) -> bool:
    """Tell whether the op table has this form: no gaps, no window of padding alone, one to three axes."""
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
    """Return windows with the padding behind that the last place needs, for poolings in which padding does not count.

    Counts that are rounded up let the last window reach past the axis and its padding.
    """
    return [
        replace(one, after=max(one.after, (count - 1) * one.stride + one.span - one.extent - one.before))
        for one, count in zip(windows, places, strict=True)
    ]


def gathered(emit: Emitter, x: Value, windows: Sequence[Window], places: Sequence[int], padding: float) -> Value:
    """Return what every window sees: [N, C, places…, elements of the window]."""
    seen = listed(emit, x, windows, places, padding)
    return emit.reshape(seen, (*x.type.shape[:2], *places, seen.type.shape[1]))


def reduced(
    emit: Emitter, op: str, x: Value, windows: Sequence[Window], places: Sequence[int], padding: float
) -> Value:
    """Return a reduction of what every window sees: [N, C, places…]."""
    result = emit.reduce(op, listed(emit, x, windows, places, padding), (-1,), keep=False)
    return emit.reshape(result, (*x.type.shape[:2], *places))


def listed(emit: Emitter, x: Value, windows: Sequence[Window], places: Sequence[int], padding: float) -> Value:
    """Return what every window sees, one after another: [N · C · places, elements of the window].

    One axis is done after the other, and what is done is merged, so that windows over three axes are gathered with
    five, which is the most that an engine takes.
    """
    reach = [(count - 1) * window.stride + window.span for window, count in zip(windows, places, strict=True)]
    behind = [max(end - one.before - one.extent, 0) for end, one in zip(reach, windows, strict=True)]
    result = x
    if any(behind) or any(one.before for one in windows):
        flat = [0] * 4 + [width for one, after in zip(windows, behind, strict=True) for width in (one.before, after)]
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


def element_places(x: Value, windows: Sequence[Window], places: Sequence[int], *, columns: bool) -> Array:
    """Return the place in the whole tensor of each element that each window sees: [N, C, places…, elements].

    Spatial places count rows first, or columns first where asked.
    """
    rank = len(windows)
    extents = [window.extent for window in windows]
    steps = [math.prod(extents[:axis] if columns else extents[axis + 1 :]) for axis in range(rank)]
    total = np.zeros((1,) * (2 * rank), np.int64)
    for axis, (window, count) in enumerate(zip(windows, places, strict=True)):
        at = np.arange(count)[:, None] * window.stride + np.arange(window.length) * window.dilation - window.before
        shape = [count if one == axis else window.length if one == axis + rank else 1 for one in range(2 * rank)]
        total = total + (at * steps[axis]).reshape(shape)
    flat = np.broadcast_to(total, (*places, *(window.length for window in windows))).reshape(*places, -1)
    images = np.arange(math.prod(x.type.shape[:2])) * math.prod(extents)
    return flat + images.reshape(*x.type.shape[:2], *[1] * (rank + 1))


def elements_seen(window: Window, places: int, *, counted: bool) -> Array:
    """Return how many elements of an axis, and of its padding where that counts, a window sees at every place."""
    at = np.arange(places)[:, None] * window.stride + np.arange(window.length) * window.dilation - window.before
    first, last = (-window.before, window.extent + window.after) if counted else (0, window.extent)
    return np.count_nonzero((at >= first) & (at < last), axis=1)


def transposed(
    emit: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    windows: Sequence[Window],
    lengths: Sequence[int],
    groups: int,
) -> Value:
    """Return a transposed convolution of a wanted size; what lies behind the last window is the bias alone."""
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
