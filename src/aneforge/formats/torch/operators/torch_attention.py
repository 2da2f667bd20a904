"""Attention, kept whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.masks import add_mask, leaves_a_key, repeat_heads
from aneforge.formats.torch.registry import operator
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import divisible

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value


@operator("scaled_dot_product_attention")
def attention(call: Call) -> Value:
    """Convert attention: the op table's own, heads that share keys and values repeated.

    A query that a mask lets see no key gets 0, which the op table's operation does not give; where the mask is not
    known to leave every query a key, the result is chosen by it.
    """
    emit = call.emit
    query, key, value = (call.value(name) for name in ("query", "key", "value"))
    if call.number("dropout_p"):
        raise UnsupportedNodeError(
            Reason.TRAINING, "dropout in attention draws at random", workaround="set dropout_p to 0"
        )
    if "enable_gqa" in call.arguments and call.flag("enable_gqa"):
        repeats = divisible("the number of query heads", query.type.shape[-3], key.type.shape[-3])
        key, value = repeat_heads(emit, key, repeats), repeat_heads(emit, value, repeats)
    mask = call.optional("attn_mask")
    causal = call.flag("is_causal")
    queries, keys = query.type.shape[-2], key.type.shape[-2]
    if causal and queries != keys:
        emit.room(queries, keys)
        mask, causal = emit.constant(np.tri(queries, keys, dtype=np.bool_), "bool"), False
    scale = float(call.number("scale")) if call.has("scale") else 1 / math.sqrt(query.type.shape[-1] or 1)
    shape = call.shape() or (*query.type.shape[:-1], value.type.shape[-1])
    if not math.prod(shape):
        return emit.empty(shape, query.type.dtype)
    if not key.type.size:
        return emit.filled(shape, 0, query.type.dtype)
    added = None if mask is None else add_mask(emit, mask, query.type.dtype)
    operands = {"query": query, "key": key, "value": value, "attn_mask": added}
    result = emit.apply("sdpa", operands, scale=scale, is_causal=causal)
    return result if mask is None or sees_something(mask) else guard(emit, result, mask)


def sees_something(mask: Value) -> bool:
    """Return whether a mask is known to let every query see a key; one that adds numbers is taken to."""
    return leaves_a_key(mask.dense()) if isinstance(mask, Constant) else mask.type.dtype != "bool"


def guard(emit: Emitter, result: Value, mask: Value) -> Value:
    """Return attention with 0 for queries that see no key."""
    if mask.type.dtype != "bool":
        mask = emit.binary("greater", mask, -math.inf)
    seen = emit.cast(emit.reduce("reduce_max", emit.cast(mask, "uint8"), (-1,)), "bool")
    return emit.select(seen, result, 0.0)
