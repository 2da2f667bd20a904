"""Scaled dot-product attention.

An engine has a layer for it, which runs as a program of its own and is reached only by network descriptions: the
compilers of MIL programs build attention of products and softmax (guide ch. 22). So does every dialect, unless `native`
asks for the layer.
"""

from __future__ import annotations

import math

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions
from aneforge.ops.arithmetic import softmax
from aneforge.ops.common import F2
from aneforge.ops.gradient import through
from aneforge.ops.op import Category, Op, Surface, Trait
from aneforge.ops.sampling import FLOATS, Chooser, Fill, Sample
from aneforge.ops.shapes import broadcast, common_dtype, expect_float, expect_least_rank
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType


def attention_type(
    query: TensorType,
    key: TensorType,
    value: TensorType,
    attn_mask: TensorType | None,
    *,
    is_causal: bool,
    **_: object,
) -> TensorType:
    """Return the type of attention: the leading axes broadcast, one row of `value`'s width per query."""
    dtype = common_dtype(query, key, value)
    for what, operand in (("query", query), ("key", key), ("value", value)):
        expect_float(operand, what)
        expect_least_rank(operand, 2, what=what)
    if key.shape[-1] != query.shape[-1]:
        raise GraphError(
            "query and key have rows of different lengths", seen=key.shape[-1], limit=f"the query's {query.shape[-1]}"
        )
    if value.shape[-2] != key.shape[-2]:
        raise GraphError(
            "key and value have different numbers of rows", seen=value.shape[-2], limit=f"the key's {key.shape[-2]}"
        )
    if not key.shape[-2] or not key.shape[-1]:
        raise GraphError("there is no key to attend to", seen=list(key.shape))
    queries, keys = query.shape[-2], key.shape[-2]
    batch = broadcast(*(operand.with_shape(*operand.shape[:-2]) for operand in (query, key, value)))
    expect_causal(queries, keys, attn_mask, is_causal=is_causal)
    if attn_mask is not None:
        expect_mask(attn_mask, TensorType((*batch, queries, keys), dtype))
    return TensorType((*batch, queries, value.shape[-1]), dtype)


def expect_causal(queries: int, keys: int, attn_mask: TensorType | None, *, is_causal: bool) -> None:
    """Check that a causal mask is the only one and is square.

    Raises:
        GraphError: It does not, or is not.
    """
    if is_causal and attn_mask is not None:
        raise GraphError("attention is given a mask and is causal as well", remedy="put the causal part into attn_mask")
    if is_causal and queries != keys:
        raise GraphError(
            "causal attention needs as many keys as queries",
            seen=keys,
            limit=queries,
            remedy="give the mask as attn_mask",
        )


def expect_mask(attn_mask: TensorType, scores: TensorType) -> None:
    """Check that a mask is of the right elements and broadcasts to the scores.

    Raises:
        GraphError: It is not, or does not.
    """
    if attn_mask.dtype != "bool":
        common_dtype(attn_mask, scores)
    if broadcast(attn_mask, scores) != scores.shape:
        raise GraphError("attn_mask is larger than the scores", seen=list(attn_mask.shape), limit=list(scores.shape))


def attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None,
    *,
    scale: float | None,
    is_causal: bool,
    **_: object,
) -> Array:
    """Weigh the rows of `value` by the softmax of the scaled, masked scores."""
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query @ np.swapaxes(key, -1, -2)) * factor
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == np.bool_ else scores + attn_mask
    return softmax(scores, -1) @ value


def attention_macs(query: TensorType, key: TensorType, value: TensorType, *_: object, **__: object) -> int:
    """Count both products: queries with keys, and weights with values."""
    batch = broadcast(*(operand.with_shape(*operand.shape[:-2]) for operand in (query, key, value)))
    return math.prod(batch) * query.shape[-2] * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def sample_attention(chooser: Chooser) -> Sample:
    """Draw attention with none to two leading axes, and with each sort of mask or none."""
    dtype = chooser.choose(FLOATS)
    batch = tuple(chooser.integer(1, 3) for _ in range(chooser.integer(0, 2)))
    shared = tuple(chooser.choose([extent, 1]) for extent in batch)
    queries, width, out = (chooser.integer(1, 5) for _ in range(3))
    mask = chooser.choose(["none", "causal", "added", "bool"])
    keys = queries if mask == "causal" else chooser.integer(1, 5)
    masked = chooser.choose([(*batch, queries, keys), (queries, keys), (1, keys), (keys,)])
    attn_mask = None
    if mask == "added":
        attn_mask = Fill(TensorType(masked, dtype))
    if mask == "bool":
        allowed = np.indices(masked).sum(axis=0) % 2 == 0
        allowed[..., 0] = True  # a query that may see no key has no attention
        attn_mask = Fill.of(allowed, "bool")
    return Sample(
        {
            "query": Fill(TensorType((*batch, queries, width), dtype)),
            "key": Fill(TensorType((*shared, keys, width), dtype)),
            "value": Fill(TensorType((*batch, keys, out), dtype)),
            "attn_mask": attn_mask,
        },
        {"scale": chooser.choose([None, 0.25, 1.0]), "is_causal": mask == "causal"},
    )


SDPA = Op(
    name="sdpa",
    category=Category.LAYER,
    summary="softmax(scale · query · keyᵀ + mask) · value; scale is 1/√D by default, a bool mask keeps where true",
    operands=(Operand("query"), Operand("key"), Operand("value"), Operand("attn_mask", optional=True)),
    attributes=(
        Attribute("scale", AttributeKind.NUMBER, None, finite=True),
        Attribute("is_causal", AttributeKind.FLAG, default=False),
        Attribute("native", AttributeKind.FLAG, default=False),
    ),
    infer=attention_type,
    meaning=attention,
    macs=attention_macs,
    sample=sample_attention,
    traits=frozenset({Trait.MASKING}),
    surface=Surface.NATIVE_LAYER,
    mil="scaled_dot_product_attention",
    opset="ios18",
    support=F2,
    decompositions=lambda: (decompositions.products.ATTENTION_BY_PRODUCTS, decompositions.products.ATTENTION_ALIKE),
    in_mil=True,
    gradient=lambda: through("products", "through products and softmax, which are computed again"),
)
