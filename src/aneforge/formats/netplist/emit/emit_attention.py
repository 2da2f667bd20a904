"""Products of matrices, softmax and attention: rows along channels, columns along width, batches along height."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.callsite import warn
from aneforge.errors import PrecisionWarning
from aneforge.formats.netplist.emit.emit_elementwise import as_numbers, gain_offset
from aneforge.formats.netplist.emit.write_row import row_of
from aneforge.formats.netplist.netplist_values import IMAGE, MATRIX, Held, Known, Placed, canonical
from aneforge.formats.netplist.rows import rows
from aneforge.formats.netplist.schema import Dim

if TYPE_CHECKING:
    from aneforge.formats.netplist.call import Call, Writer
    from aneforge.formats.netplist.emitter import Emitter

__all__ = ["ATTENTION"]

HIDDEN = -1e4
"""What is added to a score that a mask hides: its exponential is 0, and it is far from the infinities of fp16, which
turn whole rows into garbage."""
(PRODUCT,) = (row for row in rows() if row.op == "matmul")
EINSUM = "nchw,nwhu->nchu"
"""The equation of which the product of matrices is the layer."""


def softmax(call: Call) -> Held:
    """Write exponentials divided by their sum.

    Raises:
        NotSupportedError: It is along an axis that has no dimension.
    """
    to, axis = call.to, call.axis()
    x = to.floats(call.x)
    dim = x.axes[axis]
    if dim is None:  # an axis of length 1 takes any free dimension
        dim = next((free for free in (canonical(x.shape)[axis], *Dim) if free not in x.axes), None)
    if dim is None:
        raise to.refuse(
            "no dimension is left for an axis of length 1 next to five longer ones",
            seen=list(x.shape),
            nearest="a constant of ones, which it is",
        )
    row, attributes = row_of(call)
    return to.unit(row.kind, [x], row.params_of(attributes, to.number, [dim]), x)


# Products


def matmul(call: Call) -> Held:
    """Write products of matrices; a vector is a row on the left and a column on the right."""
    x, y = call.x, call.operand("y")
    if "transpose_x" in call.node.attributes:
        x = exchange(call.to, x) if call.node.flag("transpose_x") and len(x.shape) > 1 else x
        y = exchange(call.to, y) if call.node.flag("transpose_y") and len(y.shape) > 1 else y
    left = x if len(x.shape) > 1 else x.reshaped((1, *x.shape))
    right = y if len(y.shape) > 1 else y.reshaped((*y.shape, 1))
    return product(call.to, left, right).reshaped(call.shape)


def exchange(to: Emitter, value: Held) -> Held:
    """Return matrices with rows and columns exchanged."""
    held = value if isinstance(value, Known) else to.settle(value)
    rank = len(held.shape)
    return held.transposed([*range(rank - 2), rank - 1, rank - 2])


def product(to: Emitter, x: Held, y: Held) -> Placed:
    """Write products of matrices, the batches repeated where one has fewer.

    Raises:
        NotSupportedError: There are more than two axes of batches.
    """
    to.expect_floats(x, y)
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    axes = PRODUCT.result.of_rank(len(batch) + 2)
    if axes is None:
        raise to.refuse(
            "a MatrixMultiplication unit has no depth, so there are at most two axes of batches",
            seen=list(batch),
            limit=2,
            nearest="reshape the batches into one axis",
        )
    left = to.spread(x, (*batch, *x.shape[-2:]), axes)
    right = to.spread(y, (*batch, *y.shape[-2:]), axes)
    return to.unit(PRODUCT.kind, [left, right], {}, to.result((*batch, x.shape[-2], y.shape[-1]), axes))


def einsum(call: Call) -> Held:
    """Write the one equation that is the layer's own; others are converted before.

    Raises:
        NotSupportedError: It is not in Float16.
    """
    to, values = call.to, call.several("values")
    if any(value.dtype != "fp16" for value in values):
        raise to.refuse("a description multiplies in Float16", seen=values[0].dtype, nearest="the same in fp16")
    (batch, rows, height, columns), inner = call.shape, max(values[0].shape[3], values[1].shape[1])
    left = to.spread(values[0], (batch, rows, height, inner), IMAGE)
    right = to.spread(values[1], (batch, inner, height, columns), IMAGE)
    return to.unit("MatrixMultiplication", [left, right], {}, to.result(call.shape, IMAGE))


# Attention


def attention(call: Call) -> Held:
    """Write attention of four or five tensors.

    Raises:
        NotSupportedError: There are several batches, or value and key differ in shape.
    """
    to = call.to
    query, key, value = (call.operand(name) for name in ("query", "key", "value"))
    check_attention(to, query, key, value, call.shape)
    heads = call.shape[:-2]
    bottoms = [to.spread(one, (*heads, *one.shape[-2:]), matrix_axes(len(call.shape))) for one in (query, key, value)]
    stated = call.node.attributes["scale"]
    factor = 1 / math.sqrt(query.shape[-1]) if stated is None else call.node.number("scale")
    scale = to.place(to.add_known(np.array([to.number(factor, "the scale")])), (Dim.WIDTH,))
    mask = mask_of(call, query.shape[-2], key.shape[-2])
    if not to.subtract_max:
        message = f"{call.node.location}: SubtractMax is off, so the exponentials of attention overflow in fp16"
        warn(message, PrecisionWarning)
    masks = [] if mask is None else [to.place(mask, (Dim.CHANNEL, Dim.WIDTH))]
    like = to.result(call.shape, matrix_axes(len(call.shape)))
    return to.unit("SDPA", [*bottoms, scale, *masks], {"SubtractMax": to.subtract_max}, like)


def matrix_axes(rank: int) -> tuple[Dim, ...]:
    """Return the dimensions of batches of matrices; a rank above 4 has leading axes of length 1."""
    return (Dim.BATCH,) * max(rank - len(MATRIX), 0) + MATRIX[max(len(MATRIX) - rank, 0) :]


def check_attention(to: Emitter, query: Held, key: Held, value: Held, shape: tuple[int, ...]) -> None:
    """Check that attention is what the layer takes.

    Raises:
        NotSupportedError: It is not.
    """
    to.expect_floats(query, key, value)
    if math.prod(shape[:-3]) != 1:
        raise to.refuse(
            "an SDPA unit has one batch of heads", seen=list(shape), limit=1, nearest="one attention for each batch"
        )
    if key.shape[-1] != value.shape[-1]:
        raise to.refuse(
            "an SDPA unit takes key and value of one shape",
            seen=f"rows of {key.shape[-1]} and {value.shape[-1]}",
            nearest="matmul, softmax and matmul",
        )


def mask_of(call: Call, queries: int, keys: int) -> Held | None:
    """Return what is added to the scores, one plane for all heads, or None.

    Raises:
        NotSupportedError: Every head has its own.
    """
    to, given = call.to, call.optional("attn_mask")
    if call.node.flag("is_causal"):
        to.note(f"the causal mask is a constant of 0 and {HIDDEN:g}")
        return to.add_known(np.where(np.tri(queries, keys, dtype=np.bool_), 0.0, HIDDEN))
    if given is None:
        return None
    if math.prod(given.shape[:-2]) != 1:
        raise to.refuse(
            "an SDPA unit applies one plane of the mask to all heads",
            seen=list(given.shape),
            limit=[1, 1, queries, keys],
            nearest="matmul, add, softmax and matmul",
        )
    plane = given.reshaped(given.shape[-2:] if len(given.shape) > 1 else (1, *given.shape))
    if plane.dtype == "bool":
        to.note(f"the mask adds {HIDDEN:g} where it hides")
        plane = add_mask(to, plane)
    return plane if plane.shape == (queries, keys) else to.spread(plane, (queries, keys), (Dim.CHANNEL, Dim.WIDTH))


def add_mask(to: Emitter, mask: Held) -> Held:
    """Return booleans as what is added: 0 where they keep."""
    if isinstance(mask, Known):
        return to.add_known(np.where(mask.values, 0.0, HIDDEN))
    return gain_offset(to, as_numbers(mask), -HIDDEN, HIDDEN)


ATTENTION: dict[str, Writer] = {
    **dict.fromkeys(("matmul", "ne_matmul", "bmm", "bmm_w"), matmul),
    "einsum": einsum,
    "sdpa": attention,
    "softmax": softmax,
}
