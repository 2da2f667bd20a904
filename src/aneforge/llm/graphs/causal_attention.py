"""Causal attention, decomposed: softmax(queries · keysᵀ · scale + mask) · values, with heads that share keys.

Queries of the heads that share a key head are one after the other on the axis of rows, [key_value_heads,
group · tokens, width]: nothing is repeated, and no axis grows with context times width. The native attention layer
would cut the program at every layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.llm.graphs.decoder_blocks import attention_projections, project

if TYPE_CHECKING:
    import aneforge as af
    from aneforge.llm.architecture import AttentionSpec, NormSpec
    from aneforge.llm.graphs.decoder_blocks import LayerWeights, Rotation
    from aneforge.ops.types import Array

__all__ = ["HIDDEN_SCORE", "attend", "attend_prompt", "attend_with_cache", "causal_mask"]

HIDDEN_SCORE = -1e4
"""What is added to scores that must not count: its exponential is 0 in fp16, and no row becomes infinite by it."""


def causal_mask(tokens: int, context: int | None = None, start: int = 0) -> Array:
    """Return the mask [tokens, context] of tokens that begin at a position; by default the context are the tokens.

    >>> causal_mask(2).tolist()
    [[0.0, -10000.0], [0.0, 0.0]]
    """
    columns = np.arange(tokens if context is None else context)
    rows = start + np.arange(tokens)
    return np.where(columns[None, :] > rows[:, None], np.float16(HIDDEN_SCORE), np.float16(0))


def attend(query: af.Tensor, keys: af.Tensor, values: af.Tensor, mask: object, spec: AttentionSpec) -> af.Tensor:
    """Return what every head attends to.

    Queries [tokens, heads, width], keys and values [key_value_heads, places, width], mask [1, tokens, places];
    the result is [tokens, heads · width]. Queries are scaled before the product, which keeps scores small.
    """
    tokens, shared, width, places = query.shape[0], spec.key_value_heads, spec.head_width, keys.shape[1]
    group = spec.heads // shared
    # One token needs no change of axes: heads are in the order of their groups.
    moved = query if tokens == 1 else query.transpose(1, 0, 2)
    rows = (moved * spec.scale).reshape(shared, group * tokens, width)
    scores = rows @ keys.transpose(0, 2, 1)
    if tokens == 1 or group == 1:
        chances = (scores + mask).softmax(-1)
    else:
        apart = scores.reshape(shared * group, tokens, places) + mask
        chances = apart.softmax(-1).reshape(shared, group * tokens, places)
    attended = chances @ values
    if tokens == 1:
        return attended.reshape(1, spec.heads * width)
    return attended.reshape(spec.heads, tokens, width).transpose(1, 0, 2).reshape(tokens, spec.heads * width)


def attend_prompt(
    x: af.Tensor, spec: AttentionSpec, norm: NormSpec, weights: LayerWeights, rotation: Rotation | None
) -> tuple[af.Tensor, af.Tensor, af.Tensor]:
    """Return attention of all tokens of a prompt among themselves, and the keys and values that the cache begins with.

    Keys and values are [key_value_heads, tokens, width].
    """
    query, key, value = attention_projections(x, spec, norm, weights)
    if rotation is not None:
        query, key = rotation.turn(query), rotation.turn(key)
    keys, values = key.transpose(1, 0, 2), value.transpose(1, 0, 2)
    mask = causal_mask(x.shape[0])[None]
    attended = attend(query, keys, values, mask, spec)
    return output(x, attended, spec, weights), keys, values


def attend_with_cache(  # noqa: PLR0913, PLR0917 - what a step is made of
    x: af.Tensor,
    spec: AttentionSpec,
    norm: NormSpec,
    weights: LayerWeights,
    rotation: Rotation | None,
    cache: tuple[af.Tensor, af.Tensor],
    placement: af.Tensor,
    mask: af.Tensor,
    *,
    verified: bool = False,
) -> tuple[af.Tensor, af.Tensor, af.Tensor]:
    """Return attention of a few tokens to everything in the cache, and the cache with their keys and values written.

    `placement` [1, places, tokens] has a 1 where a token's row goes; rows are written without indexing:
    cache · (1 − placed) + placement · new. The mask is [1, tokens, places]. Rows of several tokens are written by a
    product of matrices, whose sums are multiples of 2^-16; those that are `verified` one by one, as they are.
    """
    query, key, value = attention_projections(x, spec, norm, weights)
    if rotation is not None:
        query, key = rotation.turn(query), rotation.turn(key)
    tokens = x.shape[0]
    if tokens == 1:
        shape = (spec.key_value_heads, 1, spec.head_width)
        new = [one.reshape(*shape) * placement for one in (key, value)]
        placed = placement
    elif verified:
        new = [spread_rows(one, placement) for one in (key, value)]
        placed = placement.sum(-1)
    else:
        spread = placement.tile((spec.key_value_heads, 1, 1)) if spec.key_value_heads > 1 else placement
        new = [spread @ one.transpose(1, 0, 2) for one in (key, value)]
        placed = placement.sum(-1)
    kept = placed * -1.0 + 1.0
    keys, values = (held * kept + one for held, one in zip(cache, new, strict=True))
    attended = attend(query, keys, values, mask, spec)
    return output(x, attended, spec, weights), keys, values


def spread_rows(rows: af.Tensor, placement: af.Tensor) -> af.Tensor:
    """Return rows [tokens, heads, width] at their places [heads, places, width], with no bit lost."""
    tokens, heads, width = rows.shape
    columns = placement.transpose(0, 2, 1)
    spread: af.Tensor | None = None
    for number in range(tokens):
        column = columns.slice_by_size((0, number, 0), (1, 1, columns.shape[2])).transpose(0, 2, 1)
        row = rows.slice_by_size((number, 0, 0), (1, heads, width)).reshape(heads, 1, width) * column
        spread = row if spread is None else spread + row
    assert spread is not None  # noqa: S101 - there is a token
    return spread


def output(x: af.Tensor, attended: af.Tensor, spec: AttentionSpec, weights: LayerWeights) -> af.Tensor:
    """Return the projection back into the residual, gated where the architecture gates it."""
    if spec.gated:
        attended = attended * project(x, weights, "attention_gate", bias=spec.bias).sigmoid()
    return project(attended, weights, "output", bias=spec.output_bias)
