"""Rows of a table by their places, added up, averaged or the largest taken in bags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.torch.registry import operator
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value

ADDED, AVERAGED, LARGEST = range(3)
REDUCTIONS = {ADDED: "reduce_sum", AVERAGED: "reduce_mean", LARGEST: "reduce_max"}


@operator("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(call: Call) -> tuple[Value, ...]:
    """Convert rows by their places in bags; what is kept for gradients is left empty.

    Raises:
        UnsupportedNodeError: Rows that do not count are known only at run time.
    """
    table, indices, emit = call.value("weight"), call.value("indices"), call.emit
    if call.has("padding_idx") and call.integer("padding_idx") >= 0:
        raise UnsupportedNodeError(Reason.FORM, "the rows to ignore are only known at run time")
    rows = emit.apply("gather", {"x": table, "indices": emit.cast(indices, "int32")}, axis=0)
    weights = call.optional("per_sample_weights")
    if weights is not None:
        rows = emit.mul(rows, emit.expand(weights, -1))
    offsets, mode = call.value("offsets"), call.integer("mode")
    known = isinstance(offsets, Constant)
    result = (
        read_known_bags(call, rows, offsets.dense().ravel().tolist(), mode) if known else open_bags(call, rows, mode)
    )
    return result, *[emit.empty((0,), "int64")] * 3


def read_known_bags(call: Call, rows: Value, starts: list[int], mode: int) -> Value:
    """Return the bags that begin at known places."""
    emit = call.emit
    ends = starts[1:] if call.flag("include_last_offset") else [*starts[1:], rows.type.shape[0]]
    empty = emit.filled((1, rows.type.shape[1]), 0, rows.type.dtype)
    bags = [
        emit.reduce(REDUCTIONS[mode], emit.part(rows, 0, begin, end), (0,)) if end > begin else empty
        for begin, end in zip(starts, ends, strict=False)
    ]
    return emit.concat(bags, 0)


def open_bags(call: Call, rows: Value, mode: int) -> Value:
    """Return the bags that begin at places of the data: a table says which row is in which bag."""
    emit, offsets, dtype = call.emit, call.value("offsets"), rows.type.dtype
    last = call.flag("include_last_offset")
    count, bags = rows.type.shape[0], offsets.type.shape[0] - int(last)
    begins = emit.part(offsets, 0, 0, bags)
    end = [] if last else [emit.constant([count], offsets.type.dtype)]
    ends = emit.concat([emit.part(offsets, 0, 1, offsets.type.shape[0]), *end], 0)
    emit.room(count)
    places = emit.constant(np.arange(count)[None], offsets.type.dtype)
    after = emit.binary("greater_equal", places, emit.expand(begins, 1))
    inside = emit.binary("logical_and", after, emit.binary("less", places, emit.expand(ends, 1)))
    filled = emit.reduce("reduce_max", emit.cast(inside, dtype), (1,))
    if mode == LARGEST:
        shown = emit.select(emit.expand(inside, 2), emit.expand(rows, 0), emit.constant(-np.inf, dtype))
        largest = emit.reduce("reduce_max", shown, (1,), keep=False)
        return emit.select(emit.binary("equal", filled, 0.0), emit.constant(0, dtype), largest)
    total = emit.matmul(emit.cast(inside, dtype), rows)
    if mode == ADDED:
        return total
    sizes = emit.reduce("reduce_sum", emit.cast(inside, dtype), (1,))
    return emit.div(total, emit.binary("maximum", sizes, 1.0))
