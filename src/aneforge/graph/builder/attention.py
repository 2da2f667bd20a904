"""Attention, and the composites of transformer blocks.

Weights are matrices [out, in], biases [out]. Sequences are matrices [S, D]; heads lie side by side along D.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, NotSupportedError
from aneforge.graph.builder.combination import concat, cut, split
from aneforge.graph.methods.base import build_checked
from aneforge.graph.node import users_location
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = ["cross_attention", "geglu", "mha", "sdpa"]

NATIVE_SHORTER_BELOW = 512
NATIVE_LONGER_AT_MOST = 2048
"""The native layer is right only while the shorter sequence is below the one and the longer at most the other."""
CROSS_TILES_FROM = (768, 512)
"""Lengths of query and context from which cross-attention is tiled."""


def sdpa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None = None,
    is_causal: bool = False,  # noqa: FBT001, FBT002 - the documented signature
    attn_mask: Tensor | None = None,
) -> Tensor:
    """Return softmax(q · kᵀ · scale + mask) · v for [1, heads, S, D]; the scale is 1/√D by default.

    Inside the regime in which the engine's own layer is right it is one native layer, else it is built from products
    and softmax over tiles of queries.

    Raises:
        GraphError: The shapes do not fit, or a mask and is_causal are given together.
        NotSupportedError: is_causal outside the native regime, or with sequences of different lengths.
    """
    check_attention(q, k, v, attn_mask, is_causal=is_causal)
    queries, keys = q.shape[2], k.shape[2]
    native = min(queries, keys) < NATIVE_SHORTER_BELOW and max(queries, keys) <= NATIVE_LONGER_AT_MOST
    if is_causal and (queries != keys or not native):
        raise NotSupportedError(
            "causal attention has a native form alone, for equal and short sequences",
            operation="sdpa",
            location=users_location(),
            seen=f"{queries} queries and {keys} keys",
            limit=f"equal lengths below {NATIVE_SHORTER_BELOW}",
            remedy="pass an additive attn_mask",
        )
    if native:
        operands = {"query": q, "key": k, "value": v, "attn_mask": attn_mask}
        return Tensor(build_checked("sdpa", operands, scale=scale, is_causal=is_causal))
    factor = scale if scale is not None else 1 / math.sqrt(q.shape[3])
    return tiled_attention(q, k, v, factor, attn_mask, tiles(queries))


def mha(  # noqa: PLR0913, PLR0917 - the documented signature
    x: Tensor, Wq: Array, bq: Array, Wk: Array, bk: Array, Wv: Array, bv: Array, Wo: Array, bo: Array,  # noqa: N803 - the documented names
    n_heads: int, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return multi-head self-attention of a sequence [S, D].

    Raises:
        GraphError: The width is not divisible by the heads, or a shape does not fit.
    """
    q, k, v = (heads(x.linear(w, b), n_heads) for w, b in ((Wq, bq), (Wk, bk), (Wv, bv)))
    return merged(attend(q, k, v, mask, tiles(x.shape[0]))).linear(Wo, bo)


def cross_attention(  # noqa: PLR0913, PLR0917 - the documented signature
    x: Tensor, context: Tensor, Wq: Array, bq: Array, Wk: Array, bk: Array, Wv: Array, bv: Array, Wo: Array, bo: Array,  # noqa: N803 - the documented names
    n_heads: int, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return multi-head attention of a sequence [S, D] over a context [T, E].

    Raises:
        GraphError: The width is not divisible by the heads, or a shape does not fit.
    """
    q = heads(x.linear(Wq, bq), n_heads)
    k, v = (heads(context.linear(w, b), n_heads) for w, b in ((Wk, bk), (Wv, bv)))
    long = x.shape[0] >= CROSS_TILES_FROM[0] and context.shape[0] >= CROSS_TILES_FROM[1]
    return merged(attend(q, k, v, mask, tiles(x.shape[0]) if long else 1)).linear(Wo, bo)


def geglu(x: Tensor, W: Array, b: Array | None = None) -> Tensor:  # noqa: N803 - the documented name
    """Project to twice the width, and return the first half times gelu of the second."""
    value, gate = split(x.linear(W, b), 2, axis=-1)
    return value * gate.gelu()


def tiles(queries: int) -> int:
    """Return into how many tiles queries are cut: the documented rule of thumb.

    >>> tiles(128), tiles(1024)
    (1, 2)
    """
    return max(1, (queries + 256) // 512)


def heads(x: Tensor, count: int) -> Tensor:
    """Return a sequence [S, heads · d] as [1, heads, S, d].

    Raises:
        GraphError: The width is not divisible by the heads.
    """
    length, width = x.shape
    if count < 1 or width % count:
        raise GraphError(
            "the width is not divisible by the heads",
            operation="attention",
            location=users_location(),
            seen=width,
            limit=f"a multiple of {count}",
        )
    return x.reshape(1, length, count, width // count).transpose(0, 2, 1, 3)


def merged(x: Tensor) -> Tensor:
    """Return [1, heads, S, d] as a sequence [S, heads · d]."""
    _, count, length, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(length, count * width)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, count: int) -> Tensor:
    """Return attention built from products and softmax, over tiles of queries."""
    return tiled_attention(q, k, v, 1 / math.sqrt(q.shape[3]), mask, count)


def tiled_attention(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor | None, count: int) -> Tensor:
    """Return attention of tiles of queries, joined."""
    keys = k.transpose(0, 1, 3, 2)
    length = q.shape[2]
    edges = [length * number // count for number in range(count + 1)]
    parts: list[Tensor] = []
    for first, end in pairwise(edges):
        query = q if count == 1 else cut(q, 2, first, end - first)
        scores = (query @ keys) * scale
        if mask is not None:
            whole = count == 1 or mask.shape[-2] == 1
            scores = scores + (mask if whole else cut(mask, len(mask.shape) - 2, first, end - first))
        parts.append(scores.softmax(-1) @ v)
    return parts[0] if count == 1 else concat(parts, axis=2)


def check_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool) -> None:
    """Check the shapes of attention.

    Raises:
        GraphError: They do not fit.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if len(tensor.shape) != 4 or tensor.shape[0] != 1:
            raise GraphError(
                f"{name} is not [1, heads, S, D]", operation="sdpa", location=users_location(), seen=list(tensor.shape)
            )
    if mask is None:
        return
    if is_causal:
        raise GraphError("a mask and is_causal are given together", operation="sdpa", location=users_location())
    wanted = (1, 1, q.shape[2], k.shape[2])
    if mask.shape != wanted:
        raise GraphError(
            "the mask has the wrong shape",
            operation="sdpa",
            location=users_location(),
            seen=list(mask.shape),
            limit=wanted,
        )
