"""Resizing by scales, or to sizes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.callsite import warn
from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.shared.resizing import Along, Reading, resize_axes
from aneforge.ops.shapes import normalise_axes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value
    from aneforge.ops.types import Array

TRANSFORMS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)
FARTHEST = 2.0**40
"""Where a region may start and end, in lengths of the source: places there are finite in single precision."""
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@operator("Upsample", since=7, until=8)
def upsample_by_attribute(call: Call) -> Value:
    """Convert repetition or linear interpolation by factors that are an attribute."""
    return upsampled(call, np.array(call.attribute("scales").floats, np.float32))


@operator("Upsample", since=9)
def upsample(call: Call) -> Value:
    """Convert repetition or linear interpolation by factors that are an input."""
    return upsampled(call, call.expect_known(1, "the list of scales"))


@operator("Resize", until=10)
def resize_asymmetric(call: Call) -> Value:
    """Convert resizing as it was in version 10: places are the result's, divided by the scale."""
    return upsampled(call, call.expect_known(1, "the list of scales"))


def upsampled(call: Call, scales: Array) -> Value:
    """Return a tensor resized by scales for all of its axes.

    Along an axis that gets shorter, places are rounded up to the nearest element: no text of ONNX says so, but its case
    test_resize_downsample_nearest of release 1.5 does, and so does onnxruntime.
    """
    x = call.value(0)
    mode = {"nearest": "nearest", "linear": "linear", "bilinear": "linear"}[
        call.choice("mode", "nearest", "linear", "bilinear")
    ]
    alongs = scaled_axes(x, tuple(range(x.type.rank)), scales)
    reading = Reading(mode, "asymmetric", "ceil_if_shrunk")
    return x if is_copy(alongs, reading) else resize_axes(call.emit, x, alongs, reading)


@operator("Resize", since=11)
def resize(call: Call) -> Value:
    """Convert resizing by scales, or to sizes."""
    x = call.value(0)
    given = call.integers("axes") if "axes" in call.rules.attributes else None
    axes = tuple(range(x.type.rank)) if given is None else normalise_axes(given, x.type.rank)
    extra = call.rules.attributes
    reading = Reading(
        call.choice("mode", "nearest", "linear", "cubic"),
        call.choice("coordinate_transformation_mode", *TRANSFORMS),
        call.choice("nearest_mode", *NEAREST_MODES),
        call.number("cubic_coeff_a"),
        "antialias" in extra and call.flag("antialias"),
        call.flag("exclude_outside"),
    )
    scaled = call.optional(2) is not None and call.value(2).type.size
    alongs = scaled_axes(x, axes, call.expect_known(2, "the list of scales")) if scaled else sized_axes(call, x, axes)
    if scaled and reading.transform == "align_corners":
        warn_of_fractions(alongs)
    if is_copy(alongs, reading):
        return x
    if reading.transform == "tf_crop_and_resize":
        alongs = cropped_axes(alongs, axes, call.expect_known(1, "the region of interest"))
    return extrapolate(call, resize_axes(call.emit, x, alongs, reading), alongs, reading)


def scaled_axes(x: Value, axes: Sequence[int], scales: Array) -> dict[int, Along]:
    """Return how axes are resized by scales; lengths are the products in single precision, rounded down.

    Raises:
        GraphError: There is not one finite scale above 0 for each axis.
    """
    given = np.ravel(scales).astype(np.float32)
    if len(given) != len(axes) or not np.all(np.isfinite(given) & (given > 0)):
        raise GraphError("there must be one scale above 0 for each axis", seen=given.tolist()[:8], limit=len(axes))
    found: dict[int, Along] = {}
    for axis, scale in zip(axes, given, strict=True):
        extent = x.type.shape[axis]
        product = float(np.float32(extent) * scale)
        check_extents("the result", (int(product),))
        found[axis] = Along(extent, math.floor(product), float(scale))
    return found


def warn_of_fractions(alongs: Mapping[int, Along]) -> None:
    """Warn of corners that are aligned at a length with a fraction: ONNX keeps the fraction, others cut it off."""
    moved = [f"{along.length:.8g}" for along in alongs.values() if along.count > 1 and along.length != along.count]
    if moved:
        warn(
            f"Resize aligns corners at a length of {', '.join(moved)}, fraction included, as ONNX defines it; PyTorch "
            "and onnxruntime cut the fraction off first. Export with sizes instead of scales for their numbers"
        )


def is_copy(alongs: Mapping[int, Along], reading: Reading) -> bool:
    """Return whether a tensor is taken as it is, since its shape stays; warn if ONNX's formula would move elements.

    onnxruntime does so whatever the scales are, and PyTorch does in most of its modes. What is cropped is not copied,
    and corners that are aligned are at their own places, or warned of for the fraction.
    """
    if reading.transform in ("tf_crop_and_resize", "align_corners"):
        return False
    if any(along.count != along.extent for along in alongs.values()):
        return False
    scales = [f"{along.scale:.8g}" for along in alongs.values() if along.scale != 1]
    ahead = reading.transform == "tf_half_pixel_for_nn" and reading.nearest in ("ceil", "round_prefer_ceil")
    if scales or (ahead and reading.mode == "nearest"):
        warn(
            f"Resize by {', '.join(scales) or 1} ({reading.transform}) leaves the shape as it is, so the tensor is "
            "copied as in onnxruntime; ONNX's formula would move its elements. Without this Resize the result is equal"
        )
    return True


def sized_axes(call: Call, x: Value, axes: Sequence[int]) -> dict[int, Along]:
    """Return how axes are brought to sizes; a policy may keep their proportions.

    Raises:
        GraphError: There is not one size for each axis.
    """
    sizes = call.known_integers(3, "the list of sizes") or ()
    if len(sizes) != len(axes) or min(sizes, default=0) < 0:
        raise GraphError("there must be one size for each axis", seen=list(sizes), limit=len(axes))
    check_extents("the result", sizes)
    extents = [x.type.shape[axis] for axis in axes]
    policy = "stretch"
    if "keep_aspect_ratio_policy" in call.rules.attributes:
        policy = call.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    scales = [size / max(extent, 1) for size, extent in zip(sizes, extents, strict=True)]
    if policy == "stretch":
        return {
            axis: Along(extent, size, scale)
            for axis, extent, size, scale in zip(axes, extents, sizes, scales, strict=True)
        }
    scale = min(scales) if policy == "not_larger" else max(scales)
    return {
        axis: Along(extent, math.floor(extent * scale + 0.5), scale) for axis, extent in zip(axes, extents, strict=True)
    }


def cropped_axes(alongs: dict[int, Along], axes: Sequence[int], region: Array) -> dict[int, Along]:
    """Return how axes are resized when a region of the source is read.

    Raises:
        GraphError: The region does not have a start and an end for each axis, or not a finite one.
    """
    bounds = [float(one) for one in np.ravel(region)]
    if len(bounds) != 2 * len(axes):
        raise GraphError("the region must have a start and an end for each axis", seen=len(bounds), limit=2 * len(axes))
    if not all(abs(one) <= FARTHEST for one in bounds):
        raise GraphError("the region is not at a place that can be computed", seen=bounds[:16], limit=FARTHEST)
    return {
        axis: Along(
            alongs[axis].extent, alongs[axis].count, alongs[axis].scale, (bounds[place], bounds[place + len(axes)])
        )
        for place, axis in enumerate(axes)
    }


def extrapolate(call: Call, x: Value, alongs: dict[int, Along], reading: Reading) -> Value:
    """Return a result with a value in place of what was read beyond the source, in the mode that crops."""
    if reading.transform != "tf_crop_and_resize":
        return x
    call.emit.room(*(along.count for along in alongs.values()))
    beyond = np.zeros((1,) * x.type.rank, np.bool_)
    for axis, along in alongs.items():
        points = reading.points(along, np.float32)  # what is beyond by a rounding is so in onnxruntime too
        outside = (points < 0) | (points > along.extent - 1)
        beyond = beyond | outside.reshape([-1 if one == axis else 1 for one in range(x.type.rank)])
    if not beyond.any():
        return x
    emit = call.emit
    return emit.select(emit.constant(beyond, "bool"), emit.number(call.number("extrapolation_value"), x), x)
