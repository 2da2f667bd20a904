"""Tensors made of numbers that are known: constants, shapes, ranges, windows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.onnx_values import Foreign
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.reshaping import EXACT_MOST
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Held, Value
    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array

RANGE = ("start", "limit", "step")
WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}
"""Windows as a₀ − a₁ · cos(2πn / N) + a₂ · cos(4πn / N)."""


@operator("Constant", takes_all=True)
def constant(call: Call) -> Held:
    """Convert a constant: a tensor, or a number or list of one of the plain types."""
    given = list(call.attributes)
    if len(given) != 1:
        raise GraphError("a constant has one value", seen=", ".join(given) or "none")
    attribute = call.attribute(given[0])
    if given[0] == "value":
        return call.surroundings.constant(attribute.t)
    if given[0] == "sparse_value":
        return call.surroundings.sparse_constant(attribute.sparse_tensor)
    plain = {
        "value_float": (attribute.f, "fp32"),
        "value_floats": (list(attribute.floats), "fp32"),
        "value_int": (attribute.i, "int64"),
        "value_ints": (np.array(attribute.ints, np.int64), "int64"),
    }
    if given[0] not in plain:
        return Foreign("a tensor of string", Reason.STRING)
    return call.emit.constant(*plain[given[0]])


@operator("ConstantOfShape")
def constant_of_shape(call: Call) -> Value:
    """Convert a tensor of one value; 0 as fp32 by default."""
    shape = check_extents("its shape", call.known_integers(0, "the shape") or ())
    if not call.has("value"):
        return call.emit.filled(shape, 0, "fp32")
    value = call.surroundings.constant(call.attribute("value").t)
    if isinstance(value, Foreign):
        raise UnsupportedNodeError(value.reason, f"its value is {value.what}")
    if value.type.size != 1:
        raise GraphError("its value is not one number", seen=list(value.type.shape))
    if math.prod(shape) == 1 or not is_exact(value):
        return call.emit.spread(call.emit.reshape(value, (1,) * len(shape)), shape)
    return call.emit.filled(shape, float(value.dense().reshape(()).item()), value.type.dtype)


def is_exact(value: Constant) -> bool:
    """Return whether a float holds one number exactly."""
    return is_float(value.type.dtype) or abs(int(value.dense().reshape(()).item())) <= EXACT_MOST


@operator("Shape", takes_all=True)
def shape(call: Call) -> Value:
    """Convert the lengths of the axes from `start` to `end`."""
    extents = call.value(0).type.shape
    start = call.integer("start") if call.has("start") else None
    end = call.integer("end") if call.has("end") else None
    return call.emit.constant(np.array(extents[start:end], np.int64), "int64")


@operator("Size")
def size(call: Call) -> Value:
    """Convert the number of elements."""
    return call.emit.constant(call.value(0).type.size, "int64")


@operator("Range")
def value_range(call: Call) -> Value:
    """Convert the numbers from a start to before a limit."""
    dtype = call.value(0).type.dtype
    number = float if is_float(dtype) else int
    start, limit, step = (number(call.known_number(place, f"the {what}")) for place, what in enumerate(RANGE))
    if step == 0 or not all(map(math.isfinite, (start, limit, step))):
        raise GraphError("the range never ends", seen=f"from {start} to {limit} by {step}")
    count = max(0, math.ceil((limit - start) / step) if is_float(dtype) else int(-((start - limit) // step)))
    check_extents("the range", (count,))
    if not call.emit.budget.may_fold(count * 8, 0):
        raise GraphError("the range is too long to be known", seen=count)
    return call.emit.constant(start + np.arange(count) * step, dtype)


@operator("EyeLike")
def eye_like(call: Call) -> Value:
    """Convert a matrix of 0 with 1 on a diagonal."""
    x = call.value(0)
    if x.type.rank != 2:
        raise GraphError("its input must be a matrix", seen=list(x.type.shape))
    dtype = call.dtype("dtype") if call.has("dtype") else x.type.dtype
    rows, columns = x.type.shape
    call.emit.room(rows, columns)
    return call.emit.constant(np.eye(rows, columns, call.integer("k")), dtype)


@operator(*WINDOWS)
def window(call: Call) -> Value:
    """Convert a window of a known length."""
    count = call.known_integer(0, "the length")
    check_extents("the window", (count,))
    call.emit.room(count)
    first, second, third = WINDOWS[call.operator]
    angle = 2 * np.pi * np.arange(count) / max(count if call.flag("periodic") else count - 1, 1)
    return call.emit.constant(first - second * np.cos(angle) + third * np.cos(2 * angle), call.dtype("output_datatype"))


@operator("MelWeightMatrix")
def mel_weights(call: Call) -> Value:
    """Convert the weights that gather the bins of a spectrum into bands of the mel scale, all numbers known."""
    names = ("number of bands", "length of the transform", "sample rate", "lower edge", "upper edge")
    bands, length, rate, low, high = (call.known_number(place, f"the {name}") for place, name in enumerate(names))
    bins = int(length) // 2 + 1
    check_extents("the matrix", (bins, int(bands)))
    call.emit.room(bins, int(bands))
    edges = mel_edges(int(bands), float(low), float(high))
    places = np.floor((length + 1) * edges / rate).astype(np.int64)
    return call.emit.constant(triangles(places, bins), call.dtype("output_datatype"))


def mel_edges(bands: int, low: float, high: float) -> Array:
    """Return the edges of bands of equal width on the mel scale, in hertz.

    There are bands + 2 edges, and ONNX's cases divide the range by as many, so that the last is a step below the top.
    """
    first, last = (2595 * math.log10(1 + edge / 700) for edge in (low, high))
    scale = first + np.arange(bands + 2) * (last - first) / (bands + 2)
    return 700 * (10 ** (scale / 2595) - 1)


def triangles(places: Array, bins: int) -> Array:
    """Return a matrix with a triangle for each band: up from its left edge to its middle, down to its right edge."""
    weights = np.zeros((bins, len(places) - 2))
    place = np.arange(bins)
    edges = [int(one) for one in places]
    for band, (left, middle, right) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        rising, falling = (place - left) / max(middle - left, 1), (right - place) / max(right - middle, 1)
        inside = (place >= left) & (place < max(right, middle + 1))
        weights[:, band] = np.where(inside, np.where(place < middle, rising, falling), 0.0)
        weights[place == middle, band] = 1.0
    return weights
