"""Slices: bit copies, except for the fixed-point crop that some targets send width slices through.

Where the target's `width_slice_crop_x16` is set, a slice that begins inside the last axis passes the engine times 16 in
fp16: from 4,096 on that overflows, so magnitudes up to 4,094 come out as they went in and larger ones infinite
(measured: finite at 4,094, infinite at 4,096). `height_slice_crop_x16` says the same of the axis before; it is set
nowhere, since the one chip measured is clean. A slice from the start, or along any other axis, is a copy.

Concatenating two or more such slices returns wrong elements there. Which ones no source says, so the right ones are
computed and the label is *unknown* (`label_of_joined`); running such a program gives a `PrecisionWarning`.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from aneforge.engine.choices import choices, switch
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.planar import read
from aneforge.engine.rounding import to_fp16
from aneforge.ops.groups.slicing import Region, region_index
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Crop = Callable[[Array], Array]

__all__ = ["FOR_TARGET", "label_of_joined", "through_crop"]

CROPPED_AXES = ("width_slice_crop_x16", "height_slice_crop_x16")
"""The values that send a slice through the crop which begins inside the last axis, and inside the one before."""
SLICED_TWICE = "two or more of its operands are slices that begin inside the width: wrong elements come out here"


def through_crop(values: Array) -> Array:
    """Return values after the crop: times 16 in fp16 and back.

    >>> through_crop(np.array([4094.0, -4096.0, 2.0**-24])).tolist()
    [4094.0, -inf, 5.960464477539063e-08]
    """
    factor = choices().crop.factor
    scaled = to_fp16(read(values) * factor)
    return np.where(np.isfinite(scaled), scaled / factor, scaled)


def after_slicing(part: Array, begins: Sequence[int], target: Target, through: Crop = through_crop) -> Array:
    """Return a slice as it comes out, given where it begins along each axis of what it was cut from.

    Integers and bool are copied: the crop was seen only for fp16.
    """
    inside = [name for name, begin in zip(CROPPED_AXES, reversed(begins), strict=False) if begin]
    crops = np.issubdtype(part.dtype, np.floating) and any(switch(target, name) for name in inside)
    return through(part) if crops else part


def slice_by_size_on(target: Target, through: Crop = through_crop) -> Callable[..., Array]:
    """Return slice_by_size on a target."""

    def function(x: Array, *, begin: tuple[int, ...], size: tuple[int, ...]) -> Array:
        (part,) = find_op("slice_by_size").evaluate({"x": x}, {"begin": begin, "size": size})
        return after_slicing(part, begin, target, through)

    return function


def slice_by_index_on(target: Target, through: Crop = through_crop) -> Callable[..., Array]:
    """Return slice_by_index on a target; where an axis is read backwards it begins inside of it."""

    def function(x: Array, **region: Unpack[Region]) -> Array:
        index = region_index(x.shape, region)
        begins = [first_place(one, extent) for one, extent in zip(index, x.shape, strict=True)]
        return after_slicing(np.asarray(x[index]), begins, target, through)

    return function


def first_place(index: slice | int, extent: int) -> int:
    """Return the place of the first element that an index takes of an axis, 0 for none.

    >>> first_place(slice(None, None, -1), 4), first_place(-1, 4), first_place(slice(2, 2), 4)
    (3, 3, 0)
    """
    if isinstance(index, int):
        return index % extent
    places = range(extent)[index]
    return places[0] if places else 0


def crop_on(target: Target, through: Crop = through_crop) -> Callable[..., Array]:
    """Return crop on a target."""

    def function(x: Array, *, crop_height: tuple[int, ...], crop_width: tuple[int, ...]) -> Array:
        (part,) = find_op("crop").evaluate({"x": x}, {"crop_height": crop_height, "crop_width": crop_width})
        return after_slicing(part, (crop_height[0], crop_width[0]), target, through)

    return function


def split_on(target: Target, through: Crop = through_crop) -> Callable[..., tuple[Array, ...]]:
    """Return split on a target: every part but the first begins inside the axis."""

    def function(x: Array, *, axis: int, **sizes: Any) -> tuple[Array, ...]:  # noqa: ANN401 - passed on unread
        parts = find_op("split").evaluate({"x": x}, {"axis": axis, **sizes})
        firsts = accumulate((part.shape[axis] for part in parts[:-1]), initial=0)
        return tuple(
            after_slicing(part, along(x.ndim, axis, first), target, through)
            for part, first in zip(parts, firsts, strict=True)
        )

    return function


def input_view_on(target: Target, through: Crop = through_crop) -> Callable[..., Array]:
    """Return input_view on a target."""

    def function(x: Array, *, axis: int, offset: int, size: int, step: int) -> Array:
        view = {"axis": axis, "offset": offset, "size": size, "step": step}
        (part,) = find_op("input_view").evaluate({"x": x}, view)
        return after_slicing(part, along(x.ndim, axis, offset), target, through)

    return function


def along(rank: int, axis: int, begin: int) -> list[int]:
    """Return where a slice of one axis begins along each.

    >>> along(3, -2, 5)
    [0, 5, 0]
    """
    return [begin if place == axis % rank else 0 for place in range(rank)]


def label_of_joined(begins_inside: Sequence[bool], target: Target) -> Label | None:
    """Return the label of a concat, given for each operand whether it is a slice that begins inside the width.

    None where nothing is wrong with it.
    """
    wrong = sum(begins_inside) > 1 and switch(target, "concat_of_width_slices_wrong")
    return Label(Exactness.UNKNOWN, SLICED_TWICE) if wrong else None


FOR_TARGET: Mapping[str, Callable[..., Callable[..., Array | tuple[Array, ...]]]] = {
    "crop": crop_on,
    "input_view": input_view_on,
    "slice_by_index": slice_by_index_on,
    "slice_by_size": slice_by_size_on,
    "split": split_on,
}
"""Operations that some targets send through the crop: functions of the target and of a crop, else the golden one."""
