"""Fourier transforms: products with tables of sines and cosines, along one axis after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.importers.torch_export.operators.complexes import complex_of
from aneforge.importers.torch_export.registry import complex_operator
from aneforge.importers.torch_export.values import Complex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.graph.node import Value
    from aneforge.importers.emitter import Emitter
    from aneforge.importers.torch_export.call import Call
    from aneforge.importers.torch_export.values import Held

    Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]

ROOT_SCALED, SCALED = 1, 2
"""How a transform is normalised: by the root of the number of elements, or by their number."""


@complex_operator("_fft_r2c")
def of_real(call: Call) -> Held:
    """Convert a transform of real numbers: the last axis alone may be cut to the half that says all."""
    x, axes = call.value("self"), transformed_axes(call)
    start = Complex(x, call.emit.filled((1,) * x.type.rank, 0, x.type.dtype))
    scale = normalised(call, [x.type.shape[axis] for axis in axes])
    last = x.type.shape[axes[-1]]
    count = last // 2 + 1 if call.flag("onesided") else last
    found = transformed(call, start, axes[-1], angles(call.emit, last, count), real=True)
    for axis in axes[:-1]:
        found = transformed(call, found, axis, angles(call.emit, x.type.shape[axis], x.type.shape[axis]))
    return rescaled(call, found, scale)


@complex_operator("_fft_c2c")
def of_complex(call: Call) -> Held:
    """Convert a transform, or its inverse."""
    x, axes = complex_of(call, "self"), transformed_axes(call)
    shape, back = x.real.type.shape, not call.flag("forward")
    found = x
    for axis in axes:
        found = transformed(call, found, axis, angles(call.emit, shape[axis], shape[axis]), back=back)
    return rescaled(call, found, normalised(call, [shape[axis] for axis in axes]))


@complex_operator("_fft_c2r")
def to_real(call: Call) -> Held:
    """Convert the inverse transform of the half that says all to real numbers."""
    x, axes, length = complex_of(call, "self"), transformed_axes(call), call.integer("last_dim_size")
    shape, emit = x.real.type.shape, call.emit
    found = x
    for axis in axes[:-1]:
        found = transformed(call, found, axis, angles(emit, shape[axis], shape[axis]), back=True)
    turns = angles(emit, length, length // 2 + 1).T
    weights = np.full(length // 2 + 1, 2.0)
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    half = [emit.part(one, axes[-1], 0, length // 2 + 1) for one in (found.real, found.imaginary)]
    real = along(call, half[0], axes[-1], np.cos(turns) * weights)
    imaginary = along(call, half[1], axes[-1], np.sin(turns) * weights)
    scale = normalised(call, [*(shape[axis] for axis in axes[:-1]), length])
    return emit.mul(emit.sub(real, imaginary), scale)


def transformed_axes(call: Call) -> tuple[int, ...]:
    """Return the axes of a transform.

    Raises:
        GraphError: There are none.
    """
    found = call.integers("dim")
    if not found:
        raise GraphError("a transform goes along axes, and there are none")
    return found


def angles(emit: Emitter, length: int, count: int) -> Table:
    """Return the angle of every element of a line in every result: [results, elements].

    Raises:
        UnsupportedNodeError: The table would take the machine's memory.
    """
    emit.room(count, length)
    turns = np.arange(count)[:, None] * np.arange(length) % length
    return 2 * np.pi * turns / length


def normalised(call: Call, lengths: Iterable[int]) -> float:
    """Return the factor of a transform over axes of some lengths."""
    count = float(np.prod([*lengths]))
    return {ROOT_SCALED: count**-0.5, SCALED: 1 / count}.get(call.integer("normalization"), 1.0)


def rescaled(call: Call, x: Complex, scale: float) -> Complex:
    """Return complex numbers times a number."""
    return x if scale == 1 else Complex(call.emit.mul(x.real, scale), call.emit.mul(x.imaginary, scale))


def transformed(
    call: Call,
    x: Complex,
    axis: int,
    turns: Table,
    *,
    back: bool = False,
    real: bool = False,
) -> Complex:
    """Return complex numbers turned by angles and summed along an axis; of real numbers the imaginary part is 0."""
    emit, sign = call.emit, -1 if back else 1
    cosine, sine = np.cos(turns), sign * np.sin(turns)
    if real:
        return Complex(along(call, x.real, axis, cosine), along(call, x.real, axis, -sine))
    return Complex(
        emit.add(along(call, x.real, axis, cosine), along(call, x.imaginary, axis, sine)),
        emit.sub(along(call, x.imaginary, axis, cosine), along(call, x.real, axis, sine)),
    )


def along(call: Call, x: Value, axis: int, table: Table) -> Value:
    """Return an axis multiplied by a matrix [results, elements] that is known; who makes it asks for its room."""
    emit = call.emit
    last = emit.moved(x, axis, -1)
    lines = emit.reshape(last, (-(-last.type.size // max(last.type.shape[-1], 1)), last.type.shape[-1]))
    product = emit.matmul(lines, emit.constant(table.T, x.type.dtype))
    result = emit.reshape(product, (*last.type.shape[:-1], table.shape[0]))
    return emit.moved(result, -1, axis)
