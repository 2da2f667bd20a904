"""Tensors made of numbers that are known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.shared import reducing
from aneforge.formats.shared.extents import check_extents
from aneforge.formats.shared.reshaping import EXACT_MOST, pad_axes
from aneforge.formats.torch.registry import operator
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value

ZEROS = ("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")
"""Tensors of 0; what an empty one holds is not defined."""


def filled(call: Call, shape: tuple[int, ...], value: float) -> Value:
    """Return a tensor of one value."""
    dtype = call.dtype()
    check_extents("its shape", shape)
    if is_float(dtype) or abs(value) <= EXACT_MOST:
        return call.emit.filled(shape, value, dtype)
    return call.emit.spread(call.emit.constant(value, dtype), shape)


@operator("full", "full_like", "new_full")
def full(call: Call) -> Value:
    """Convert a tensor of one value."""
    return filled(call, shape_of(call), call.number("fill_value"))


@operator("fill")
def fill(call: Call) -> Value:
    """Convert a tensor of one value, which may be computed, in the shape of another."""
    x = call.value("self")
    return call.emit.spread(call.operand("value", call.dtype()), x.type.shape)


@operator(*ZEROS)
def zeros(call: Call) -> Value:
    """Convert a tensor of 0."""
    return filled(call, shape_of(call), 0)


@operator("ones", "ones_like", "new_ones")
def ones(call: Call) -> Value:
    """Convert a tensor of 1."""
    return filled(call, shape_of(call), 1)


def shape_of(call: Call) -> tuple[int, ...]:
    """Return the shape that is given, or that of the tensor that is."""
    given = call.integers("size")
    return call.value("self").type.shape if given is None else given


@operator("copy")
def copy(call: Call) -> Value:
    """Convert a tensor with all of its elements replaced."""
    return call.emit.spread(call.operand("src", call.dtype()), call.value("self").type.shape)


@operator("scalar_tensor")
def scalar(call: Call) -> Value:
    """Convert a plain number to a tensor."""
    return call.emit.constant(call.number("s"), call.dtype())


@operator("arange")
def arange(call: Call) -> Value:
    """Convert numbers from a start to before an end."""
    start = call.number("start") if "start" in call.arguments else 0
    step = call.number("step") if "step" in call.arguments else 1
    end = call.number("end")
    if step == 0 or not all(map(math.isfinite, (start, end, step))):
        raise GraphError("the range never ends", seen=f"from {start} to {end} by {step}")
    count = max(0, math.ceil((end - start) / step))
    return count_steps(call, count, start, step)


@operator("iota")
def iota(call: Call) -> Value:
    """Convert a number of numbers from a start on."""
    return count_steps(call, call.integer("length"), call.number("start"), call.number("step"))


def count_steps(call: Call, count: int, start: float, step: float) -> Value:
    """Return numbers a step apart."""
    check_extents("the range", (count,))
    call.emit.room(count)
    return call.emit.constant(start + np.arange(count) * step, call.dtype())


@operator("eye")
def eye(call: Call) -> Value:
    """Convert a matrix of 0 with 1 on its diagonal."""
    rows = call.integer("n")
    columns = call.integer("m") if "m" in call.arguments else rows
    call.emit.room(rows, columns)
    return call.emit.constant(np.eye(rows, columns), call.dtype())


@operator("tril", "triu")
def triangle(call: Call) -> Value:
    """Convert matrices with 0 above, or below, a diagonal."""
    x, emit = call.value("self"), call.emit
    rows, columns = x.type.shape[-2:]
    kept = reducing.triangle(emit, rows, columns, call.integer("diagonal"), upper=call.operator == "triu")
    return emit.select(emit.constant(kept, "bool"), x, emit.number(0, x)) if x.type.size else x


@operator("tril_indices", "triu_indices")
def triangle_places(call: Call) -> Value:
    """Convert the rows and columns of the elements below, or above, a diagonal, row by row."""
    rows, columns, diagonal = (call.integer(name) for name in ("row", "col", "offset"))
    kept = reducing.triangle(call.emit, rows, columns, diagonal, upper=call.operator == "triu_indices")
    return call.emit.constant(np.stack(np.nonzero(kept)), call.dtype())


@operator("repeat_interleave.Tensor")
def repeated_places(call: Call) -> Value:
    """Convert places that come as often as a list says, which must be known: it makes the length."""
    repeats = call.expect_known("repeats", "how often each element is repeated")
    if np.any(repeats < 0):
        raise GraphError("an element is repeated less than 0 times", seen=int(repeats.min()))
    count = int(repeats.sum())
    check_extents("its length", (count,))
    call.emit.room(count)
    return call.emit.constant(np.repeat(np.arange(repeats.size), repeats), call.dtype())


@operator("constant_pad_nd")
def pad(call: Call) -> Value:
    """Convert a tensor with a value around its last axes; a negative width cuts."""
    x, emit = call.value("self"), call.emit
    widths = [(0, 0)] * x.type.rank
    given = call.integers("pad") or ()
    for place in range(len(given) // 2):
        widths[-1 - place] = given[2 * place], given[2 * place + 1]
    return pad_axes(emit, x, widths, emit.constant(call.number("value"), x.type.dtype))


@operator(
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d",
    "replication_pad3d",
)  # fmt: skip
def mirrored(call: Call) -> Value:
    """Convert a tensor with its own elements around its last axes, mirrored or the outermost repeated."""
    x, emit = call.value("self"), call.emit
    given = call.integers("padding") or ()
    mode = "reflect" if call.operator.startswith("reflection") else "edge"
    result = x
    for place in range(len(given) // 2):
        axis = x.type.rank - 1 - place
        before, after = given[2 * place], given[2 * place + 1]
        extent = x.type.shape[axis]
        emit.room(extent + max(before, 0) + max(after, 0))
        places = np.pad(np.arange(extent), (max(before, 0), max(after, 0)), mode=mode)
        places = places[max(-before, 0) : len(places) - max(-after, 0)]
        if not result.type.size:
            result = emit.empty(
                [len(places) if one == axis else length for one, length in enumerate(result.type.shape)], x.type.dtype
            )
        else:
            result = emit.take(result, places, axis) if (before, after) != (0, 0) else result
    return result


# Lengths, which are plain numbers.


@operator("sym_size", "size")
def length(call: Call) -> int:
    """Convert the length of an axis."""
    x = call.value("self")
    return x.type.shape[call.axis("dim", x.type.rank)]


@operator("sym_numel", "numel")
def elements(call: Call) -> int:
    """Convert the number of elements."""
    return call.value("self").type.size


@operator("sym_stride", "stride")
def stride(call: Call) -> int:
    """Convert how far apart two neighbours of an axis are: a graph's tensors are in order."""
    x = call.value("self")
    return math.prod(x.type.shape[call.axis("dim", x.type.rank) + 1 :])


@operator("sym_storage_offset", "storage_offset")
def offset(call: Call) -> int:
    """Convert where a tensor begins in its memory: a graph's tensors begin at 0."""
    call.value("self")
    return 0
