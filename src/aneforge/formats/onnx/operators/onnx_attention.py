"""Attention: the op table's own where every query is known to see a key, else the function by which ONNX defines it.

ONNX gives 0 for a query that sees no key, the op table's operation does not; so a mask that is computed at run time is
left to the function, which has the guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.masks import add_mask, leaves_a_key, repeat_heads
from aneforge.ops.constant import Constant
from aneforge.ops.shapes import divisible
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Held, Value
    from aneforge.ops.types import Array


@operator("Attention")
def attention(call: Call) -> tuple[Held, ...]:
    """Convert attention."""
    mask = call.optional(3)
    plain = (
        (mask is None or (isinstance(mask, Constant) and mask.type.rank > 0 and mask_counts(mask)))
        and call.optional(6) is None
        and not call.wants(3)
        and call.number("softcap") == 0
        and not has_window(call)
    )
    found = by_table(call) if plain else None
    return call.surroundings.run_function(call) if found is None else found


def mask_counts(mask: Constant) -> bool:
    """Return whether a mask is of booleans or of real numbers."""
    return mask.type.dtype == "bool" or is_float(mask.type.dtype)


def has_window(call: Call) -> bool:
    """Return whether the keys that a query sees are bounded on a side."""
    return any(
        name in call.rules.attributes and call.integer(name) >= 0 for name in ("left_window_size", "right_window_size")
    )


def by_table(call: Call) -> tuple[Value, ...] | None:
    """Return the op table's attention, and keys and values with those of the past; nothing if a query sees no key."""
    emit = call.emit
    query, key, value = (heads_first(call, place) for place in range(3))
    past = 0
    if call.optional(4) is not None:
        if call.value(4).type.rank != 4:
            raise GraphError("the past is not [batch, heads, length, width]", seen=str(call.value(4).type))
        past = call.value(4).type.shape[2]
        key, value = emit.concat([call.value(4), key], 2), emit.concat([call.value(5), value], 2)
    present = key, value
    repeats = divisible("the number of query heads", query.type.shape[1], key.type.shape[1])
    square = query.type.shape[2] == key.type.shape[2]
    seen = mask_of(call, query.type.shape[2], key.type.shape[2], past)
    if seen is not None and not leaves_a_key(seen):
        return None
    causal = call.flag("is_causal") and call.optional(3) is None and square and not past
    operands = {
        "query": query,
        "key": repeat_heads(emit, key, repeats),
        "value": repeat_heads(emit, value, repeats),
        "attn_mask": None
        if causal or seen is None
        else add_mask(
            emit, emit.constant(seen, "bool" if seen.dtype == np.bool_ else query.type.dtype), query.type.dtype
        ),
    }
    scale = call.number("scale") if call.has("scale") else None
    result = emit.apply("sdpa", operands, scale=scale, is_causal=causal)
    if call.value(0).type.rank == 3:
        batch, count, length, width = result.type.shape
        result = emit.reshape(emit.transpose(result, (0, 2, 1, 3)), (batch, length, count * width))
    return (result, *present)


def heads_first(call: Call, place: int) -> Value:
    """Return query, key or value as [batch, heads, length, width].

    Raises:
        GraphError: It is neither that nor [batch, length, heads · width].
    """
    x, emit = call.value(place), call.emit
    if x.type.rank == 4:
        return x
    name = "q_num_heads" if place == 0 else "kv_num_heads"
    if x.type.rank != 3 or not call.has(name):
        raise GraphError(f"input {place} is neither [batch, heads, length, width] nor of three axes with {name}")
    batch, length, width = x.type.shape
    count = call.integer(name)
    each = divisible(f"the width of input {place} by {name}", width, max(count, 1))
    return emit.transpose(emit.reshape(x, (batch, length, count, each)), (0, 2, 1, 3))


def mask_of(call: Call, queries: int, keys: int, past: int) -> Array | None:
    """Return which keys queries see, or what is added to their scores; nothing if all see all.

    A mask that is shorter than the keys hides the rest.
    """
    given = call.optional(3)
    call.emit.room(queries, keys)
    causal = np.arange(keys) <= np.arange(queries)[:, None] + past if call.flag("is_causal") else None
    if not isinstance(given, Constant):
        return causal
    mask = given.dense()
    missing = keys - mask.shape[-1]
    if missing and mask.shape[-1] > 1:
        widths = [(0, 0)] * (mask.ndim - 1) + [(0, missing)]
        mask = np.pad(mask, widths, constant_values=False if mask.dtype == np.bool_ else -np.inf)
    if causal is None:
        return mask
    return mask & causal if mask.dtype == np.bool_ else np.where(causal, mask, -np.inf)
