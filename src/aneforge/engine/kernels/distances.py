"""Distances of numbers from a shift, in double, rounded once to fp16: the steps of softmax and norms; and magnitudes.

What is subtracted and multiplied here is not fp16 itself (a mean is, a factor such as log2 e is, a distance is not), so
pairs of elements do not serve.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine import planar, rounding
from aneforge.engine.kernels.arrays import as_given, bits_of, element_strides, golden_halves, places_of
from aneforge.engine.kernels.elements import step_of
from aneforge.engine.kernels.library import address, available, call

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

__all__ = ["compute_scaled_distances", "largest_magnitude", "read"]


class Distances(ctypes.Structure):
    """`struct aneforge_distances` of kernels.h."""

    _fields_ = (
        ("x", ctypes.c_void_p),
        ("shift", ctypes.c_void_p),
        ("shift_places", ctypes.c_void_p),
        ("shift_step", ctypes.c_int64),
        ("factor", ctypes.c_void_p),
        ("factor_places", ctypes.c_void_p),
        ("factor_step", ctypes.c_int64),
        ("runs", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("out", ctypes.c_void_p),
    )


def read(values: Array) -> Array:
    """Return fp16 numbers as the engine reads them, as `planar.read` does: those that are finite are what they are.

    >>> read(np.array([0.5, np.inf], np.float16)).tolist()
    [0.5, 65536.0]
    """
    wide = values.astype(np.float64)
    return wide if np.isfinite(wide).all() else planar.read(values)


def compute_scaled_distances(x: Array, shift: Array, factor: Array) -> Array:
    """Return (x − shift) · factor, both in float64 and broadcast to x, rounded once to fp16.

    >>> compute_scaled_distances(np.array([3.0], np.float16), np.array([2.5]), np.array([4.0])).tolist()
    [2.0]

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    bits = bits_of("distances", x)
    if not available():
        exact = (planar.read(golden_halves(x)) - shift) * factor
        return as_given(rounding.to_fp16(exact).astype(np.float16).view(np.uint16), x)
    return as_given(measure(bits, shift, factor), x)


def measure(x: Array, shift: Array, factor: Array) -> Array:
    """Compute distances, in runs along which shift and factor are one number or are contiguous."""
    numbers, out = np.ascontiguousarray(x), np.empty(x.shape, np.uint16)
    if out.size == 0:
        return out
    shifts, factors = (np.broadcast_to(np.asarray(given, np.float64), x.shape) for given in (shift, factor))
    axis = next(
        place
        for place in range(x.ndim + 1)
        if all(step_of(x.shape[place:], element_strides(one)[place:]) is not None for one in (shifts, factors))
    )
    places = [places_of(x.shape[:axis], element_strides(one)[:axis]) for one in (shifts, factors)]
    steps = [step_of(x.shape[axis:], element_strides(one)[axis:]) or 0 for one in (shifts, factors)]
    given = Distances(
        x=address(numbers),
        shift=address(shifts),
        shift_places=address(places[0]),
        shift_step=steps[0],
        factor=address(factors),
        factor_places=address(places[1]),
        factor_step=steps[1],
        runs=len(places[0]),
        length=out.size // len(places[0]),
        out=address(out),
    )
    call("aneforge_run_distances", ctypes.byref(given))
    return out


def largest_magnitude(x: Array) -> float:
    """Return the largest magnitude as the engine reads numbers: from 65,536 on one is infinite or NaN. 0 for none.

    >>> largest_magnitude(np.array([1.0, -2.5], np.float16)), largest_magnitude(np.array([-np.inf], np.float16))
    (2.5, 65536.0)

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    bits = bits_of("magnitude", x)
    found = np.zeros(1, np.uint16)
    if available():
        values = np.ascontiguousarray(bits)
        call("aneforge_largest_magnitude", address(values), ctypes.c_int64(values.size), address(found))
    else:
        found[0] = (bits & 0x7FFF).max(initial=0)
    return float(read(found.view(np.float16))[0])
