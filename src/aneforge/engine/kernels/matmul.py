"""Matrix products of fp16, as `golden.matmul` has them, and of int8, as `quantised.int8_matmul` has them.

How it is fast: one fused multiply-add in float32 multiplies, rounds half away from zero and accumulates, because the
left operand is moved by one unit in its last place and the sum carries 1.5 · 2^23 (the proof stands in
native/panel.h). That holds while partial sums stay below 64; norms of both operands prove it for stretches of the sum,
and stretches that it cannot be proved for go in double. Where no bound proves that a sum stays below the edge at 2^15,
it is done again term by term, in the order of the golden model.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine import golden, quantised
from aneforge.engine.kernels.arrays import (
    BEHIND_FIELDS,
    MOST_INT8_DEPTH,
    Element,
    as_given,
    bits_of,
    element_strides,
    expect_int8,
    from_golden,
    places_of,
)
from aneforge.engine.kernels.codes import Coded
from aneforge.engine.kernels.elements import to_fp16
from aneforge.engine.kernels.library import address, available, call
from aneforge.errors import GraphError

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Weights = Array | Coded

__all__ = ["int8_matmul", "matmul", "matmul_total"]


class Matmul(ctypes.Structure):
    """`struct aneforge_matmul` of kernels.h."""

    _fields_ = (
        ("element", ctypes.c_int64),
        ("unrounded", ctypes.c_int64),
        ("batch", ctypes.c_int64),
        ("rows", ctypes.c_int64),
        ("depth", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("left", ctypes.c_void_p),
        ("left_places", ctypes.c_void_p),
        ("left_row", ctypes.c_int64),
        ("left_step", ctypes.c_int64),
        ("left_codes", ctypes.c_void_p),
        ("right", ctypes.c_void_p),
        ("right_places", ctypes.c_void_p),
        ("right_step", ctypes.c_int64),
        ("right_column", ctypes.c_int64),
        ("right_codes", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("bias_places", ctypes.c_void_p),
        ("bias_row", ctypes.c_int64),
        ("bias_column", ctypes.c_int64),
        ("bias_count", ctypes.c_int64),
        *BEHIND_FIELDS,
        ("out_places", ctypes.c_void_p),
        ("out_row", ctypes.c_int64),
        ("out_column", ctypes.c_int64),
        ("out", ctypes.c_void_p),
    )


def matmul(x: Array, w: Weights, bias: Array | None = None) -> Array:
    """Return x [..., M, K] times w [..., K, N], the leading axes broadcast; a vector x is one row.

    The sums start from the bias, which is broadcast to the result. Transposed operands are read where they lie, and a
    matrix w in codes is decoded part by part.

    >>> matmul(np.array([[1.0, 2.0]], np.float16), np.array([[3.0], [4.0]], np.float16)).item()
    11.0

    Raises:
        GraphError: The inner extents differ, the batches do not match, or the bias does not fit.
        GraphTypeError: An operand is not fp16.
    """
    shape = product_shape("matmul", x, w)
    if not available() or x.shape[-1] == 0:
        return from_golden(golden_sum(x, w, bias).result(), x)
    out = np.empty(shape, np.uint16)
    multiply_halves(x, w, bias, out)
    return as_given(out, x)


def matmul_total(x: Array, w: Weights, bias: Array | None = None) -> Array:
    """Return the sums of `matmul` in float64, before they are rounded on their way out.

    >>> matmul_total(np.array([[2.0**-12]], np.float16), np.array([[2.0**-4]], np.float16)).item() == 2.0**-16
    True

    Raises:
        GraphError: The inner extents differ, the batches do not match, or the bias does not fit.
        GraphTypeError: An operand is not fp16.
    """
    shape = product_shape("matmul", x, w)
    if not available() or x.shape[-1] == 0:
        return golden_sum(x, w, bias).total()
    out = np.empty(shape, np.float64)
    multiply_halves(x, w, bias, out)
    return out


def golden_sum(x: Array, w: Weights, bias: Array | None) -> golden.Sum:
    """Return a product of fp16 as the golden model does it, its operands checked."""
    shape = product_shape("matmul", x, w)
    left, right = (bits_of("matmul", operand).view(np.float16) for operand in (x, np.asarray(w)))
    return golden.matmul_sum(left, right, None if bias is None else fitting_bias(bias, shape))


def multiply_halves(x: Array, w: Weights, bias: Array | None, out: Array) -> None:
    """Multiply fp16 matrices into `out`: rounded if it is of fp16, unrounded if it is of float64."""
    left, right = bits_of("matmul", x), w if isinstance(w, Coded) else bits_of("matmul", w)
    start = None if bias is None else fitting_bias(bias, out.shape)
    if out.size:
        multiply(left, right, start, out)


def int8_matmul(x: Array, w: Array, scale: Array | float = 1.0) -> Array:
    """Return x [..., M, K] times w [..., K, N] of int8: an exact sum in 32 bits, times a scale, rounded once to fp16.

    >>> int8_matmul(np.full((1, 4), 127, np.int8), np.full((4, 1), 127, np.int8)).item()
    64512.0

    Raises:
        GraphError: The inner extents differ, or the batches do not match.
        GraphTypeError: An operand is not int8.
    """
    expect_int8("int8_matmul", x, w)
    shape = product_shape("int8_matmul", x, w)
    if not available() or not 0 < x.shape[-1] <= MOST_INT8_DEPTH:
        return quantised.int8_matmul(x, w, scale).astype(np.float16)
    out = np.empty(shape, np.int32)
    if out.size:
        multiply(x, w, None, out)
    return to_fp16(out * np.asarray(scale, np.float64))


def product_shape(operation: str, x: Array, w: Weights) -> tuple[int, ...]:
    """Return the shape of a matrix product.

    Raises:
        GraphError: The operands are not matrices, their inner extents differ, or their batches do not go together.
    """
    seen = f"{x.shape} and {w.shape}"
    if x.ndim < 1 or w.ndim < 2:
        raise GraphError("a matrix product takes a vector or matrices and matrices", operation=operation, seen=seen)
    if x.shape[-1] != w.shape[-2]:
        raise GraphError("the inner extents differ", operation=operation, seen=seen)
    try:
        batch = np.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    except ValueError as error:
        raise GraphError("the batches do not match", operation=operation, seen=seen) from error
    return (*batch, *x.shape[-2:-1], w.shape[-1])


def fitting_bias(bias: Array, shape: tuple[int, ...]) -> Array:
    """Return a bias as the engine reads it, in float64, that can be broadcast to the result of a product.

    Raises:
        GraphError: It does not fit.
    """
    wide = np.ascontiguousarray(golden.bias_operand(bias)) if np.ndim(bias) else golden.bias_operand(bias)
    try:
        np.broadcast_to(wide, shape)
    except ValueError as error:
        raise GraphError("the bias does not fit", operation="matmul", seen=np.shape(bias), limit=shape) from error
    return wide


def multiply(left: Array, right: Weights, bias: Array | None, out: Array) -> None:
    """Multiply the matrices of a batch into `out`, which is contiguous; int8 where the operands are."""
    codes = right.of_columns if isinstance(right, Coded) else None
    right = right.seen if isinstance(right, Coded) else right
    if left.ndim == 1:
        left, out = left[None], out[..., None, :]
        bias = bias[..., None, :] if bias is not None and bias.ndim else bias
    if right.ndim == 2 and (bias is None or bias.ndim < 2):  # one product with more rows
        left, out = left.reshape(-1, left.shape[-1]), out.reshape(-1, out.shape[-1])
    batch = out.shape[:-2]
    lefts, rights = (
        np.broadcast_to(left, (*batch, *left.shape[-2:])),
        np.broadcast_to(right, (*batch, *right.shape[-2:])),
    )
    starts = np.broadcast_to(np.zeros(()) if bias is None else bias, out.shape)
    left_strides, right_strides, start_strides = (element_strides(array) for array in (lefts, rights, starts))
    places = [places_of(batch, strides[:-2]) for strides in (left_strides, right_strides, start_strides)]
    given = Matmul(
        element=Element.of(left),
        unrounded=out.dtype == np.float64,
        batch=len(places[0]),
        rows=out.shape[-2],
        depth=left.shape[-1],
        columns=out.shape[-1],
        left=address(lefts),
        left_places=address(places[0]),
        left_row=left_strides[-2],
        left_step=left_strides[-1],
        right=address(rights),
        right_places=address(places[1]),
        right_step=right_strides[-2],
        right_column=right_strides[-1],
        right_codes=None if codes is None else ctypes.addressof(codes),
        bias=None if bias is None else address(bias),
        bias_places=address(places[2]),
        bias_row=start_strides[-2],
        bias_column=start_strides[-1],
        bias_count=0 if bias is None else bias.size,
        out_places=address(places_of(batch, element_strides(out)[:-2])),
        out_row=out.shape[-1],
        out_column=1,
        out=address(out),
    )
    call("aneforge_run_matmul", ctypes.byref(given))
