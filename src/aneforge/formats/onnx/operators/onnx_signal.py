"""Fourier transforms of signals whose real and imaginary parts are along the last axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.spectra import real_signal, transform_pair
from aneforge.ops.shapes import normalise_axis

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value
    from aneforge.formats.shared.emitter import Emitter

LENGTH_MOST = 8192
"""Longest transform: its matrices have as many rows and columns."""


@operator("DFT", until=19)
def transform_by_attribute(call: Call) -> Value:
    """Convert a transform along an axis that is an attribute."""
    return transform(call, call.axis(call.value(0).type.rank))


@operator("DFT", since=20)
def transform_by_input(call: Call) -> Value:
    """Convert a transform along an axis that is an input, by default the last but one."""
    rank = call.value(0).type.rank
    axis = -2 if call.optional(2) is None else call.known_integer(2, "the axis")
    return transform(call, normalise_axis(axis, rank))


def transform(call: Call, axis: int) -> Value:
    """Return the transform of a real or complex signal, whose parts are along the last axis."""
    x, emit = call.value(0), call.emit
    if axis == x.type.rank - 1 or x.type.shape[-1] not in (1, 2):
        raise GraphError("the last axis must hold a real, or a real and an imaginary part", seen=list(x.type.shape))
    inverse, onesided = call.flag("inverse"), call.flag("onesided")
    usual = 2 * (x.type.shape[axis] - 1) if inverse and onesided else x.type.shape[axis]
    length = usual if call.optional(1) is None else call.known_integer(1, "the length of the transform")
    turned = emit.moved(x, axis, -2)
    if inverse and onesided:
        return emit.moved(real_inverse(emit, turned, length), -2, axis)
    fitted = fit(emit, turned, length)
    result = complex_transform(emit, fitted, length // 2 + 1 if onesided else length, inverse=inverse)
    return emit.moved(result, -2, axis)


def fit(emit: Emitter, x: Value, length: int) -> Value:
    """Return a signal cut, or padded with 0, to a length along its last axis but one.

    Raises:
        GraphError: The length is none.
    """
    if not 1 <= length <= LENGTH_MOST:
        raise GraphError("the transform has no such length", seen=length, limit=f"1 to {LENGTH_MOST}")
    if x.type.shape[-2] >= length:
        return emit.part(x, -2, 0, length)
    widths = [0, length - x.type.shape[-2], 0, 0]
    return emit.apply("pad", {"x": x}, pad=widths, mode="constant")


def complex_transform(emit: Emitter, x: Value, count: int, *, inverse: bool) -> Value:
    """Return `count` frequencies of signals […, length, parts] as […, count, 2]."""
    imaginary = emit.at(x, -1, 1) if x.type.shape[-1] == 2 else None
    axis, scale = x.type.rank - 2, 1 / x.type.shape[-2] if inverse else 1.0
    found = transform_pair(emit, emit.at(x, -1, 0), imaginary, axis, count, back=inverse, scale=scale)
    return emit.apply("stack", {"values": found}, axis=-1)


def real_inverse(emit: Emitter, x: Value, length: int) -> Value:
    """Return the real signal of half a spectrum […, frequencies, 2]; the other half mirrors it."""
    if not 1 <= length <= LENGTH_MOST or x.type.shape[-1] != 2:
        raise GraphError("the spectrum has no real inverse of that length", seen=f"{list(x.type.shape)}, {length}")
    half = fit(emit, x, length // 2 + 1)
    signal = real_signal(emit, emit.at(half, -1, 0), emit.at(half, -1, 1), x.type.rank - 2, length, 1 / length)
    return emit.expand(signal, -1)


@operator("STFT")
def short_time_transform(call: Call) -> Value:
    """Convert transforms of windows that go along a signal [batch, length, parts]."""
    x, emit = call.value(0), call.emit
    step = call.known_integer(1, "the step between frames")
    window = call.optional(2)
    if x.type.rank not in (2, 3) or (window is not None and window.type.rank != 1):
        raise GraphError("signal and window are not [batch, length, parts] and a list", seen=str(x.type))
    length = x.type.shape[1] if window is None else window.type.shape[0]
    if call.optional(3) is not None:
        length = call.known_integer(3, "the length of a frame")
    signal = emit.expand(x, -1) if x.type.rank == 2 else x
    if signal.type.shape[-1] not in (1, 2) or step < 1 or not 1 <= length <= min(x.type.shape[1], LENGTH_MOST):
        raise GraphError("frames do not fit the signal", seen=f"{length} every {step} along {list(x.type.shape)}")
    frames = (x.type.shape[1] - length) // step + 1
    emit.room(frames, length)
    seen = emit.take(signal, np.arange(frames)[:, None] * step + np.arange(length), 1)  # [batch, frames, length, parts]
    if window is not None:
        seen = emit.mul(seen, emit.reshape(emit.cast(window, x.type.dtype), (length, 1)))
    count = length // 2 + 1 if call.flag("onesided") else length
    return complex_transform(emit, seen, count, inverse=False)
