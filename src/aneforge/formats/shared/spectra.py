"""Fourier transforms, as products with constant tables of cosines and sines along one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value

    Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]
    Pair = tuple[Value, Value]
    """A real and an imaginary part."""

__all__ = ["along", "angles", "real_signal", "transform_pair"]


def angles(emit: Emitter, length: int, count: int) -> Table:
    """Return the angle of every element of a line in every result: [results, elements].

    Raises:
        UnsupportedNodeError: The table would take the machine's memory.
    """
    emit.room(count, length)
    turns = np.arange(count)[:, None] * np.arange(length) % length
    return 2 * np.pi * turns / length


def along(emit: Emitter, x: Value, axis: int, table: Table) -> Value:
    """Return an axis multiplied by a matrix [results, elements] that is known; who makes it asks for its room."""
    last = emit.moved(x, axis, -1)
    lines = emit.reshape(last, (-(-last.type.size // max(last.type.shape[-1], 1)), last.type.shape[-1]))
    product = emit.matmul(lines, emit.constant(table.T, x.type.dtype))
    result = emit.reshape(product, (*last.type.shape[:-1], table.shape[0]))
    return emit.moved(result, -1, axis)


def transform_pair(
    emit: Emitter, real: Value, imaginary: Value | None, axis: int, count: int, *, back: bool = False, scale: float = 1
) -> Pair:
    """Return so many frequencies of a signal along an axis, of which the imaginary part may be 0 and left out."""
    turns = angles(emit, real.type.shape[axis], count)
    cosine, sine = np.cos(turns) * scale, np.sin(turns) * (-scale if back else scale)
    if imaginary is None:
        return along(emit, real, axis, cosine), along(emit, real, axis, -sine)
    return (
        emit.add(along(emit, real, axis, cosine), along(emit, imaginary, axis, sine)),
        emit.sub(along(emit, imaginary, axis, cosine), along(emit, real, axis, sine)),
    )


def real_signal(emit: Emitter, real: Value, imaginary: Value, axis: int, length: int, scale: float = 1) -> Value:
    """Return the real signal of a length whose spectrum's first half is given; the other half mirrors it."""
    count = length // 2 + 1
    turns = angles(emit, length, count).T
    weights = np.full(count, 2.0 * scale)
    weights[0] = scale
    if length % 2 == 0:
        weights[-1] = scale
    half = [emit.part(one, axis, 0, count) for one in (real, imaginary)]
    terms = [along(emit, half[0], axis, np.cos(turns) * weights), along(emit, half[1], axis, np.sin(turns) * weights)]
    return emit.sub(terms[0], terms[1])
