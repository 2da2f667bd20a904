"""Elements and pairs of elements: conversion to fp16, tables, and the planar engine's arithmetic (`engine.planar`).

A function of one fp16 number is a table of 65,536 entries: made once from the golden model, it is that function.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine import planar, rounding
from aneforge.engine.kernels.arrays import (
    BEHIND_FIELDS,
    as_given,
    bits_of,
    element_strides,
    from_golden,
    golden_halves,
    places_of,
)
from aneforge.engine.kernels.library import address, available, call
from aneforge.errors import GraphError, GraphTypeError
from aneforge.ops.numbers import FP16_PATTERNS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Bits = npt.NDArray[np.uint16]

__all__ = [
    "Pair",
    "Pairs",
    "add",
    "hand_over",
    "in_runs",
    "lookup",
    "maximum",
    "minimum",
    "mul",
    "rectify",
    "sub",
    "table_of",
    "to_fp16",
]

SHORTEST_RUN = 32
"""Runs of pairs shorter than this are copied together first: starting one costs as much as some elements."""
CONVERSIONS = {np.dtype(np.float32): "aneforge_from_float", np.dtype(np.float64): "aneforge_from_double"}


class Pair(IntEnum):
    """`enum aneforge_pair` of kernels.h."""

    ADD = 0
    SUB = 1
    MUL = 2
    MAX = 3
    MIN = 4


class Pairs(ctypes.Structure):
    """`struct aneforge_pairs` of kernels.h."""

    _fields_ = (
        ("pair", ctypes.c_int64),
        ("x", ctypes.c_void_p),
        ("x_places", ctypes.c_void_p),
        ("x_step", ctypes.c_int64),
        ("y", ctypes.c_void_p),
        ("y_places", ctypes.c_void_p),
        ("y_step", ctypes.c_int64),
        ("runs", ctypes.c_int64),
        ("length", ctypes.c_int64),
        *BEHIND_FIELDS,
        ("out", ctypes.c_void_p),
    )


GOLDEN: Mapping[Pair, Callable[[Array, Array], Array]] = {
    Pair.ADD: planar.add,
    Pair.SUB: planar.sub,
    Pair.MUL: planar.mul,
    Pair.MAX: planar.maximum,
    Pair.MIN: planar.minimum,
}


def to_fp16(values: Array) -> npt.NDArray[np.float16]:
    """Round float32 or float64 to fp16, ties away from zero, as `rounding.to_fp16` does.

    >>> to_fp16(np.array([2049.0, 2.0**-25, 65520.0])).tolist()
    [2050.0, 5.960464477539063e-08, inf]

    Raises:
        GraphTypeError: The numbers are of another type.
    """
    function = CONVERSIONS.get(values.dtype)
    if function is None:
        raise GraphTypeError("this conversion takes wide numbers", seen=values.dtype, limit="float32 or float64")
    if not available():
        return rounding.to_fp16(values).astype(np.float16)
    wide = np.ascontiguousarray(values)
    out = np.empty(values.shape, np.uint16)
    call(function, address(wide), address(out), ctypes.c_int64(wide.size))
    return out.view(np.float16)


def hand_over(values: Array) -> npt.NDArray[np.float16]:
    """Round numbers to fp16, ties to even: so a host hands over what it was given.

    Where one of them overflows or is not finite, NumPy does it, with the overflow that its error state knows.

    >>> hand_over(np.array([2049.0, 2051.0, -0.1], np.float32)).tolist()
    [2048.0, 2052.0, -0.0999755859375]
    """
    if values.dtype == np.float32 and values.flags.c_contiguous and available():
        out = np.empty(values.shape, np.uint16)
        if call("aneforge_from_host", address(values), address(out), ctypes.c_int64(values.size)):
            return out.view(np.float16)
    return values.astype(np.float16)


def table_of(function: Callable[[Array], Array]) -> Bits:
    """Return a function of fp16 numbers as a table of its results for all 65,536 bit patterns.

    The function takes and returns fp16 numbers held in float64, as those of the golden model do.

    >>> int(table_of(np.negative)[0x3C00]) == 0xBC00
    True
    """
    inputs = np.arange(FP16_PATTERNS, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        return np.asarray(function(inputs.astype(np.float64))).astype(np.float16).view(np.uint16)


def lookup(values: Array, table: Bits) -> Array:
    """Return what a table of 65,536 entries has for every number.

    >>> lookup(np.array([1.0, -2.0], np.float16), table_of(np.square)).tolist()
    [1.0, 4.0]

    Raises:
        GraphError: The table has another length.
        GraphTypeError: The numbers or the table's entries are not fp16.
    """
    bits, entries = bits_of("lookup", values), bits_of("lookup", table)
    if entries.shape != (FP16_PATTERNS,):
        raise GraphError("a table has one entry for every bit pattern", seen=entries.shape, limit=(FP16_PATTERNS,))
    if not available():
        return as_given(entries[bits], values)
    places, entries = np.ascontiguousarray(bits), np.ascontiguousarray(entries)
    out = np.empty(values.shape, np.uint16)
    call("aneforge_lookup", address(places), address(entries), address(out), ctypes.c_int64(places.size))
    return as_given(out, values)


def rectify(values: Array, bound: int) -> Array:
    """Return 0 for negative numbers, and the others up to the number of some bits.

    >>> rectify(np.array([1.0, -2.0, 7.0], np.float16), 0x4600).tolist()
    [1.0, 0.0, 6.0]

    Raises:
        GraphTypeError: The numbers are not fp16.
    """
    found = np.maximum(bits_of("rectify", values).view(np.int16), 0)
    return as_given(np.minimum(found, bound, out=found).view(np.uint16), values)


# Pairs of elements.


def add(x: Array, y: Array) -> Array:
    """Return x + y, broadcast, rounded once.

    >>> add(np.array([2048.0], np.float16), np.array([1.0], np.float16)).tolist()
    [2050.0]

    Raises:
        GraphError: The shapes do not go together.
        GraphTypeError: An operand is not fp16.
    """
    return paired(Pair.ADD, x, y)


def sub(x: Array, y: Array) -> Array:
    """Return x − y, broadcast, rounded once.

    >>> sub(np.array([2050.0], np.float16), np.array([1.0], np.float16)).tolist()
    [2050.0]

    Raises:
        GraphError: The shapes do not go together.
        GraphTypeError: An operand is not fp16.
    """
    return paired(Pair.SUB, x, y)


def mul(x: Array, y: Array) -> Array:
    """Return x · y, broadcast, rounded once.

    >>> mul(np.array([2.0**-12], np.float16), np.array([2.0**-12], np.float16)).tolist() == [2.0**-24]
    True

    Raises:
        GraphError: The shapes do not go together.
        GraphTypeError: An operand is not fp16.
    """
    return paired(Pair.MUL, x, y)


def maximum(x: Array, y: Array) -> Array:
    """Return the larger of x and y, broadcast; of +0 and −0 the second.

    >>> maximum(np.array([1.0, -1.0], np.float16), np.zeros(1, np.float16)).tolist()
    [1.0, 0.0]

    Raises:
        GraphError: The shapes do not go together.
        GraphTypeError: An operand is not fp16.
    """
    return paired(Pair.MAX, x, y)


def minimum(x: Array, y: Array) -> Array:
    """Return the smaller of x and y, broadcast; of +0 and −0 the second.

    >>> minimum(np.array([1.0, -1.0], np.float16), np.zeros(1, np.float16)).tolist()
    [0.0, -1.0]

    Raises:
        GraphError: The shapes do not go together.
        GraphTypeError: An operand is not fp16.
    """
    return paired(Pair.MIN, x, y)


def paired(pair: Pair, x: Array, y: Array) -> Array:
    """Combine pairs of elements, in contiguous runs."""
    operation = pair.name.lower()
    first, second = bits_of(operation, x), bits_of(operation, y)
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError as error:
        seen = f"{x.shape} and {y.shape}"
        raise GraphError("the shapes do not match", operation=operation, seen=seen) from error
    if not available():
        return from_golden(GOLDEN[pair](golden_halves(x), golden_halves(y)), x)
    out = np.empty(shape, np.uint16)
    if out.size == 0:
        return as_given(out, x)
    axis, first, second = in_runs(np.broadcast_to(first, shape), np.broadcast_to(second, shape))
    given, _places = pairs_of(pair, axis, first, second)
    given.x, given.y, given.out = address(first), address(second), address(out)
    call("aneforge_run_pairs", ctypes.byref(given))
    return as_given(out, x)


def pairs_of(pair: Pair, axis: int, first: Bits, second: Bits) -> tuple[Pairs, list[npt.NDArray[np.int64]]]:
    """Return the call for operands of one shape with runs from an axis on, without addresses, and what it points to."""
    shape = first.shape
    strides = [element_strides(operand) for operand in (first, second)]
    places = [places_of(shape[:axis], stride[:axis]) for stride in strides]
    steps = [step_of(shape[axis:], stride[axis:]) or 0 for stride in strides]
    return Pairs(
        pair=pair,
        x_places=address(places[0]),
        x_step=steps[0],
        y_places=address(places[1]),
        y_step=steps[1],
        runs=len(places[0]),
        length=first.size // len(places[0]),
    ), places


def in_runs(first: Bits, second: Bits) -> tuple[int, Bits, Bits]:
    """Return operands of one shape and the axis from which on each is contiguous, or is one element all along.

    Operands that do not, or only for short runs, are copied.
    """
    axis = run_axis(first, second)
    if int(np.prod(first.shape[axis:])) >= min(SHORTEST_RUN, first.size):
        return axis, first, second
    return 0, np.ascontiguousarray(first), np.ascontiguousarray(second)


def run_axis(*operands: Bits) -> int:
    """Return the first axis from which on every operand has one step, 0 or 1; the number of axes if none has.

    >>> rows = np.zeros((4, 3, 2), np.uint16)
    >>> run_axis(rows, np.broadcast_to(np.zeros((3, 1), np.uint16), rows.shape))
    2
    """
    shape = operands[0].shape
    for axis in range(len(shape)):
        if all(step_of(shape[axis:], element_strides(operand)[axis:]) is not None for operand in operands):
            return axis
    return len(shape)


def step_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> int | None:
    """Return the one step between all places of some axes, if it is 0 or 1; an axis of one place has no step.

    >>> step_of((2, 3), (3, 1)), step_of((2, 3), (0, 0)), step_of((2, 3), (4, 1)), step_of((1, 1), (7, 7))
    (1, 0, None, 1)
    """
    longer = [(extent, stride) for extent, stride in zip(shape, strides, strict=True) if extent > 1]
    step = longer[-1][1] if longer else 1
    expected = step
    for extent, stride in reversed(longer):
        if stride != expected:
            return None
        expected *= extent
    return step if step in {0, 1} else None
