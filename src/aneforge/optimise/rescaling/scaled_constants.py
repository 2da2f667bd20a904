"""Weights times powers of two in the encoding that they have: in the scale, the table or the values that are stored.

What is multiplied must stand for the same numbers times the factor, to the last bit: a scale that overflows, or numbers
that were rounded among the subnormal ones, would not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.constant import Blockwise, Dense, Int8Affine, Palette, Sparse

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.ops.constant import Constant

    Array = npt.NDArray[Any]

__all__ = ["can_scale", "has_rows", "scale_constant", "scale_exactly"]


def can_scale(constant: Constant) -> bool:
    """Return whether an encoding has numbers to multiply."""
    return isinstance(constant, Dense | Sparse | Int8Affine | Blockwise | Palette)


def has_rows(constant: Constant, axis: int) -> bool:
    """Return whether an encoding can have a factor of its own for every place of an axis.

    >>> has_rows(Palette(np.zeros((2, 2), np.uint8), np.ones(1, np.float16), bits=1), 0)
    False
    """
    match constant:
        case Dense() | Sparse():
            return True
        case Int8Affine():
            return constant.axis == axis
        case Blockwise():
            return constant.scale.shape[axis] == constant.data.shape[axis]
        case _:
            return False


def scale_constant(constant: Constant, factors: Array, axis: int = 0) -> Constant | None:
    """Return a constant times a power of two, or one for every place of an axis; None where a bit would be lost.

    Factors along an axis are for encodings that have them (`has_rows`).

    >>> halves = Int8Affine(np.array([[2, -4]], np.int8), scale=np.array([0.5], np.float16))
    >>> scaled = scale_constant(halves, np.array([8.0]))
    >>> scaled.encoding, scaled.dense().tolist()
    ('int8', [[8.0, -16.0]])
    """
    along = factors.reshape(()) if factors.size == 1 else reshape_along(factors, constant.type.rank, axis)
    dense = scale_exactly(constant.dense(), along)
    if dense is None or isinstance(constant, Dense):
        return None if dense is None else Dense(dense)
    made = scale_stored(constant, factors, along, axis)
    # The stored numbers may be exact where what they stand for was rounded, and is rounded otherwise now.
    return made if made is not None and np.array_equal(made.dense(), dense) else None


def scale_stored(constant: Constant, factors: Array, along: Array, axis: int) -> Constant | None:
    """Return an encoding whose stored numbers are multiplied; None where one would not keep its bits."""
    match constant:
        case Int8Affine():
            scale = scale_exactly(constant.scale.reshape(-1), factors)
            return None if scale is None else replace(constant, scale=scale)
        case Blockwise():
            scale = scale_exactly(constant.scale, along)
            return None if scale is None else replace(constant, scale=scale)
        case Palette():
            table = scale_exactly(constant.table, factors)
            return None if table is None else constant.with_table(table)
        case Sparse():
            every = np.broadcast_to(factors, (constant.mask.shape[axis],))
            values = scale_exactly(constant.nonzero, every[np.nonzero(constant.mask)[axis]])
            return None if values is None else replace(constant, nonzero=values)
        case _:
            return None


def scale_exactly(values: Array, factor: Array) -> Array | None:
    """Return numbers times powers of two in their own type; None where one would not keep its bits.

    >>> scale_exactly(np.array([3.0], np.float16), np.array(4.0)).tolist()
    [12.0]
    >>> scale_exactly(np.array([2.0**-24], np.float16), np.array(0.5)) is None
    True
    """
    wide = np.float32 if values.dtype == np.float16 else np.float64  # holds the numbers times any factor of a gain
    with np.errstate(over="ignore", under="ignore"):
        exact = values.astype(wide) * factor.astype(wide)
        stored = exact.astype(values.dtype)
    kept = np.array_equal(stored.astype(wide), exact) and bool(np.all(np.isfinite(exact)))
    return stored if kept else None
