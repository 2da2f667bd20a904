"""ONNX Runtime's forms of attention, and the turning of queries and keys by their places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.registry import operator
from aneforge.formats.onnx.rules import RUNTIME_DOMAIN
from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.shared.masks import repeat_heads
from aneforge.ops.shapes import divisible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Held, Value

KEPT = "save the model with graph_optimization_level ORT_ENABLE_BASIC, which keeps attention in its parts"


@operator("Attention", domain=RUNTIME_DOMAIN)
def attention(call: Call) -> tuple[Held, ...]:
    """Convert attention of a tensor to itself, with the product that makes queries, keys and values of it."""
    x, weights, past, emit = call.value(0), call.value(1), call.optional(4), call.emit
    if call.flag("do_rotary") or call.optional(6) is not None:
        raise UnsupportedNodeError(
            Reason.FORM, "it rotates its queries, or shares the memory of its past", workaround=KEPT
        )
    product = emit.matmul(x, weights)
    if call.optional(2) is not None:
        product = emit.add(product, call.value(2))
    width = weights.type.shape[1]
    widths = call.integers("qkv_hidden_sizes") or (width // 3,) * 3
    query, key, value = (split_heads(call, part) for part in parts_of(call, product, widths))
    present: tuple[Held, ...] = ()
    if past is not None:
        key, value = emit.concat([emit.at(past, 0, 0), key], 2), emit.concat([emit.at(past, 0, 1), value], 2)
    if call.wants(1):
        present = (emit.concat([emit.expand(key, 0), emit.expand(value, 0)], 0),)
    return (attend(call, query, key, value, seen=(call.optional(3), call.optional(5))), *present)


@operator("MultiHeadAttention", domain=RUNTIME_DOMAIN)
def multi_head_attention(call: Call) -> tuple[Held, ...]:
    """Convert attention of queries to keys and values, which may be together in one tensor."""
    query, key, value = three_of(call)
    if call.optional(3) is not None:
        query, key, value = bias(call, (query, key, value))
    emit = call.emit
    if call.optional(6) is not None:
        key, value = emit.concat([call.value(6), key], 2), emit.concat([call.value(7), value], 2)
    return attend(call, query, key, value, seen=(call.optional(4), call.optional(5))), key, value


def three_of(call: Call) -> tuple[Value, Value, Value]:
    """Return queries, keys and values as [batch, heads, length, width].

    Raises:
        GraphError: They are of no form that the operator has.
    """
    query, key, value, emit = call.value(0), call.optional(1), call.optional(2), call.emit
    if key is None and query.type.rank == 5:  # [batch, length, heads, 3, width]
        parts = [emit.transpose(one, (0, 2, 1, 3)) for one in along_fourth(call, query, 3)]
        return parts[0], parts[1], parts[2]
    if value is None and key is not None and key.type.rank == 5:
        both = [emit.transpose(one, (0, 2, 1, 3)) for one in along_fourth(call, key, 2)]
        return split_heads(call, query), both[0], both[1]
    if key is None or value is None:
        raise GraphError("keys or values are missing", seen=str(query.type))
    keys, values = (one if one.type.rank == 4 else split_heads(call, one) for one in (key, value))
    return split_heads(call, query), keys, values


def along_fourth(call: Call, packed: Value, count: int) -> list[Value]:
    """Return the parts of a tensor [batch, length, heads, count, width]."""
    shape = packed.type.shape
    if shape[3] != count:
        raise GraphError("its input does not hold this many tensors", seen=list(shape), limit=count)
    return [call.emit.at(packed, 3, place) for place in range(count)]


def bias(call: Call, parts: Sequence[Value]) -> tuple[Value, Value, Value]:
    """Return queries, keys and values with their parts of one bias."""
    widths = [one.type.shape[1] * one.type.shape[3] for one in parts]
    shifts = parts_of(call, call.value(3), widths)
    emit = call.emit
    query, key, value = (
        emit.add(one, emit.reshape(shift, (one.type.shape[1], 1, one.type.shape[3])))
        for one, shift in zip(parts, shifts, strict=True)
    )
    return query, key, value


def parts_of(call: Call, x: Value, widths: Sequence[int]) -> list[Value]:
    """Return parts of a tensor along its last axis.

    Raises:
        GraphError: They are not all of it.
    """
    if sum(widths) != x.type.shape[-1] or min(widths) < 1:
        raise GraphError("the parts are not all of the last axis", seen=list(widths), limit=x.type.shape[-1])
    ends = np.cumsum(widths).tolist()
    return [call.emit.part(x, -1, end - width, end) for end, width in zip(ends, widths, strict=True)]


def split_heads(call: Call, x: Value, heads: int | None = None) -> Value:
    """Return [batch, length, heads · width] as [batch, heads, length, width]."""
    count = heads or call.integer("num_heads")
    if x.type.rank != 3:
        raise GraphError("it is not [batch, length, width]", seen=str(x.type))
    batch, length, width = x.type.shape
    each = divisible("the width by the number of heads", width, max(count, 1))
    return call.emit.transpose(call.emit.reshape(x, (batch, length, count, each)), (0, 2, 1, 3))


def attend(call: Call, query: Value, key: Value, value: Value, *, seen: tuple[Value | None, Value | None]) -> Value:
    """Return attention as [batch, length, heads · width]; `seen` are the mask of keys, and what is added to scores."""
    mask = mask_of(call, query, key, seen[0])
    if seen[1] is not None:
        mask = seen[1] if mask is None else call.emit.add(mask, seen[1])
    causal = "unidirectional" in call.rules.attributes and call.flag("unidirectional")
    return attention_of(call, query, key, value, mask, causal=causal)


def attention_of(call: Call, query: Value, key: Value, value: Value, mask: Value | None, *, causal: bool) -> Value:
    """Return the op table's attention, heads joined again."""
    emit, queries, keys = call.emit, query.type.shape[2], key.type.shape[2]
    if causal and (mask is not None or queries != keys):
        emit.room(queries, keys)
        later = np.arange(keys) > np.arange(queries)[:, None] + (keys - queries)
        barrier = emit.constant(np.where(later, -np.inf, 0), query.type.dtype)
        mask, causal = barrier if mask is None else emit.add(mask, barrier), False
    scale = call.number("scale") if call.has("scale") and call.number("scale") else None
    operands = {"query": query, "key": key, "value": value, "attn_mask": mask}
    result = emit.apply("sdpa", operands, scale=scale, is_causal=causal)
    batch, heads, length, width = result.type.shape
    return emit.reshape(emit.transpose(result, (0, 2, 1, 3)), (batch, length, heads * width))


def mask_of(call: Call, query: Value, key: Value, mask: Value | None) -> Value | None:
    """Return what a mask of keys adds to scores: the lengths of lines, or 1 for what is seen.

    Raises:
        UnsupportedNodeError: It is of another form.
    """
    if mask is None:
        return None
    emit, batch, queries, keys = call.emit, query.type.shape[0], query.type.shape[2], key.type.shape[2]
    if mask.type.shape == (batch,):
        emit.room(keys)
        places = emit.constant(np.arange(keys), mask.type.dtype)
        unseen = emit.binary("greater_equal", places, emit.expand(mask, 1))
        spread = emit.reshape(unseen, (batch, 1, 1, keys))
    elif mask.type.shape in ((batch, keys), (batch, queries, keys)):
        hidden = emit.binary("equal", mask, emit.constant(0, mask.type.dtype))
        spread = emit.reshape(hidden, (batch, 1, queries if mask.type.rank == 3 else 1, keys))
    else:
        raise UnsupportedNodeError(Reason.FORM, "its mask has another form", seen=str(mask.type), workaround=KEPT)
    # A choice and no product: 0 times a value that half precision has as −infinity is not a number.
    value, seen = (emit.constant(one, query.type.dtype) for one in (call.number("mask_filter_value"), 0))
    return emit.select(spread, value, seen)


# Places.


@operator("RotaryEmbedding", domain=RUNTIME_DOMAIN)
def rotary(call: Call) -> Value:
    """Convert the turning of pairs by angles that grow with the place."""
    x, emit = call.value(0), call.emit
    if call.number("scale") != 1 or call.flag("is_packed_batching"):
        raise UnsupportedNodeError(Reason.FORM, "it scales its angles, or packs sequences", workaround=KEPT)
    heads = x
    if x.type.rank == 3:
        width = 2 * call.value(2).type.shape[1] if not call.integer("rotary_embedding_dim") else 0
        count = call.integer("num_heads") or divisible("the width by that of a head", x.type.shape[2], max(width, 1))
        heads = split_heads(call, x, count)
    places = call.value(1)
    if places.type.size == 1:
        emit.room(heads.type.shape[2])
        places = emit.add(emit.reshape(places, (1, 1)), emit.constant(np.arange(heads.type.shape[2])[None], "int64"))
    turned = turned_by(call, heads, places, (call.value(2), call.value(3)), split=not call.flag("interleaved"))
    if x.type.rank == 4:
        return turned
    return emit.reshape(emit.transpose(turned, (0, 2, 1, 3)), x.type.shape)


def turned_by(call: Call, x: Value, places: Value, tables: tuple[Value, Value], *, split: bool) -> Value:
    """Return [batch, heads, length, width] with pairs turned: halves, or neighbours; what is left stays."""
    emit, width = call.emit, 2 * tables[0].type.shape[1]
    batch, heads, length, whole = x.type.shape
    if width > whole:
        raise GraphError("the angles are for wider heads", seen=width, limit=whole)
    cosine, sine = (emit.expand(call.standard("Gather", table, places), 1) for table in tables)
    part = emit.part(x, 3, 0, width)
    shape = (batch, heads, length, 2, width // 2) if split else (batch, heads, length, width // 2, 2)
    axis = 3 if split else 4
    pairs = emit.reshape(part, shape)
    first, second = emit.at(pairs, axis, 0), emit.at(pairs, axis, 1)
    left = emit.sub(emit.mul(first, cosine), emit.mul(second, sine))
    right = emit.add(emit.mul(second, cosine), emit.mul(first, sine))
    joined = emit.reshape(emit.concat([emit.expand(left, axis), emit.expand(right, axis)], axis), part.type.shape)
    return joined if width == whole else emit.concat([joined, emit.part(x, 3, width, whole)], 3)


@operator("GroupQueryAttention", domain=RUNTIME_DOMAIN)
def grouped_attention(call: Call) -> tuple[Held, ...]:
    """Convert causal attention of queries that share keys, to a past and to themselves.

    Raises:
        UnsupportedNodeError: Lines have not all the length of past and queries together, or it has a further option.
    """
    if call.number("softcap") or call.integer("local_window_size") != -1 or call.integer("smooth_softmax") > 0:
        raise UnsupportedNodeError(Reason.FORM, "it bounds its scores or its window", workaround=KEPT)
    emit, heads, shared = call.emit, call.integer("num_heads"), call.integer("kv_num_heads")
    if call.optional(1) is None:
        each = divisible("the width by all heads", call.value(0).type.shape[2], max(heads + 2 * shared, 1))
        parts = parts_of(call, call.value(0), (heads * each, shared * each, shared * each))
    else:
        parts = [call.value(place) for place in range(3)]
    counts = (heads, shared, shared)
    query, key, value = (split_heads(call, one, count) for one, count in zip(parts, counts, strict=True))
    past, length = (call.value(3).type.shape[2] if call.optional(3) is not None else 0), query.type.shape[2]
    lengths = call.expect_known(5, "the length of every line")
    if np.any(lengths != past + length - 1):
        raise UnsupportedNodeError(
            Reason.FORM,
            "sequences are shorter than their tensors",
            seen=lengths.tolist(),
            workaround="bind the length of the past",
        )
    if call.flag("do_rotary"):
        emit.room(length)
        places = emit.constant(np.arange(past, past + length)[None], "int64")
        tables, split = (call.value(7), call.value(8)), not call.flag("rotary_interleaved")
        query, key = (turned_by(call, one, places, tables, split=split) for one in (query, key))
    if past:
        key, value = emit.concat([call.value(3), key], 2), emit.concat([call.value(4), value], 2)
    times = divisible("the number of query heads", heads, shared)
    shared_keys, shared_values = repeat_heads(emit, key, times), repeat_heads(emit, value, times)
    result = attention_of(call, query, shared_keys, shared_values, None, causal=length > 1)
    return result, key, value
