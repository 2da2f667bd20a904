"""Gated delta nets: a short convolution over the last tokens, and a memory that decays and is written to.

For every value head, with query q and key k of length one, value v, decay d and strength b, the memory S [key, value]
of the head becomes S' = d·S + k ⊗ u with u = b·(v − k·(d·S)), and the head gives q·S'. Decay first, then write. Both
the window of the convolution and the memory are read and written by every step.

Several tokens are computed together. What they write depends on what those before them wrote, a triangular system:

    (1 + L) · U = b · (V − D₀ · K·S),   L[t, j] = b[t] · D[t, j] · k[t]·k[j] for j < t

where D[t, j] is the product of the decays after token j up to t, and D₀ that of all up to t. The heads give
D₀ · Q·S + (D ∘ Q·Kᵀ) · U, and the memory becomes D_end · S + (D_last ∘ K)ᵀ · U.

The inverse of 1 + L is built of inverses of blocks on the diagonal, each twice as long as those before: no number on
the way is larger than those of the inverse itself, which deltas of keys of length one keep small, where powers of L
would grow. Decays are exponentials of sums that are made for every pair of tokens, each rounded once.

That rounds otherwise than steps of one token do. Tokens that are verified go through the memory one after the other,
between projections of all of them, and have the bits of such steps; what is kept after each of them is known.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.llm.graphs.decoder_blocks import activate, divide_by_largest, normalise, project
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.llm.architecture import DeltaNetSpec, NormSpec
    from aneforge.llm.graphs.decoder_blocks import LayerWeights
    from aneforge.ops.types import Array

__all__ = ["TokenFlags", "delta_net_state_shapes", "mix_by_delta_net"]

PARTS = ("query", "key", "value")
MEMORY_SCALE = 16.0
"""What values are multiplied by in the memory: products of small ones would be below 2^-16 and vanish."""
SOFTPLUS_END = 10.0
"""Above it softplus is the identity, up to 5e-5, and rule ANE-QUIRK-002 begins."""
LENGTH_FLOOR = 1e-6
"""What is added to the square of a length, as the model does."""


@dataclass(frozen=True, slots=True)
class TokenFlags:
    """What distinguishes several tokens of a text from the padding after them."""

    real: af.Tensor
    """[tokens, 1]: 1 for a token, 0 for padding, which neither decays nor writes anything."""
    window: af.Tensor
    """[kernel − 1 + tokens, kernel − 1]: a 1 where the window of the next token begins and ends."""


@dataclass(frozen=True, slots=True)
class HeadRows:
    """What the heads of a delta net read of some tokens; heads are the first axis of all."""

    query: af.Tensor
    """[heads, tokens, key_width], as `key`, of length one."""
    key: af.Tensor
    value: af.Tensor
    """[heads, tokens, value_width]."""
    decay: af.Tensor
    """The logarithms [heads, tokens]; where tokens are computed one after the other, the decay itself."""
    strength: af.Tensor
    """[heads, tokens, 1]."""


def delta_net_state_shapes(spec: DeltaNetSpec) -> dict[str, tuple[int, ...]]:
    """Return what a layer keeps between tokens: three windows [channels, kernel − 1], and the memories of its heads."""
    keys, values = spec.key_heads * spec.key_width, spec.value_heads * spec.value_width
    shapes: dict[str, tuple[int, ...]] = {
        f"{part}_window": (channels, spec.kernel - 1)
        for part, channels in zip(PARTS, (keys, keys, values), strict=True)
    }
    return {**shapes, "memory": (spec.value_heads, spec.key_width, spec.value_width)}


def mix_by_delta_net(
    x: af.Tensor,
    spec: DeltaNetSpec,
    norm: NormSpec,
    weights: LayerWeights,
    held: Mapping[str, af.Tensor],
    flags: TokenFlags | None,
) -> tuple[af.Tensor, list[dict[str, af.Tensor]]]:
    """Return what tokens [tokens, width] add to the residual, and what is kept after them.

    With flags tokens are computed together, and what is kept after the last one is all. Without flags they are computed
    one after the other, and what is kept after each is returned.
    """
    tokens, heads = x.shape[0], spec.value_heads
    # What the engine computes in one operation with its neighbour, and rounds once, is not cut apart between tokens.
    decay = softplus(project(x, weights, "decay") + weights("decay.bias")) * weights("decay.rate")
    strength = project(x, weights, "write_strength").sigmoid()
    if flags is None:
        decay = decay.exp()
    else:
        decay, strength = decay * flags.real, strength * flags.real
    rows = {**{part: project(x, weights, part) for part in PARTS}, "decay": decay, "strength": strength}
    kept: list[dict[str, af.Tensor]] = []
    found: list[af.Tensor] = []
    for some in [rows] if flags is not None else single_rows(rows):
        given, after = read_memory(some, spec, weights, kept[-1] if kept else held, flags)
        found.append(given)
        kept.append(after)
    joined = found[0] if len(found) == 1 else af.concat(found, axis=0)
    # Queries would be divided by the root of their width: both factors go into epsilon, since a norm follows.
    scaled = replace(norm, epsilon=norm.epsilon * MEMORY_SCALE**2 * spec.key_width)
    normal = normalise(joined, scaled, weights.part("value_norm"))
    gate = project(x, weights, "output_gate").reshape(tokens * heads, spec.value_width)
    mixed = (normal * activate(gate, "silu")).reshape(tokens, heads * spec.value_width)
    return project(mixed, weights, "output"), kept


def single_rows(rows: Mapping[str, af.Tensor]) -> list[Mapping[str, af.Tensor]]:
    """Return the rows of every token by themselves."""
    tokens = rows["query"].shape[0]
    if tokens == 1:
        return [rows]
    return [
        {name: row.slice_by_size((place, 0), (1, row.shape[1])) for name, row in rows.items()}
        for place in range(tokens)
    ]


def read_memory(
    projected: Mapping[str, af.Tensor],
    spec: DeltaNetSpec,
    weights: LayerWeights,
    held: Mapping[str, af.Tensor],
    flags: TokenFlags | None,
) -> tuple[af.Tensor, dict[str, af.Tensor]]:
    """Return what heads give [tokens · heads, value_width] for projected rows, and what is kept after them."""
    tokens, heads = projected["query"].shape[0], spec.value_heads
    kept: dict[str, af.Tensor] = {}
    rows: dict[str, af.Tensor] = {}
    for part in PARTS:
        rows[part], kept[f"{part}_window"] = convolve(
            projected[part], held[f"{part}_window"], weights(f"convolution.{part}.weight"), flags
        )
    group = spec.value_heads // spec.key_heads
    query, key = (
        repeat_heads(unit_rows(rows[part].reshape(tokens * spec.key_heads, spec.key_width)), tokens, group)
        for part in ("query", "key")
    )
    value = move_heads(rows["value"].reshape(tokens, heads, spec.value_width)) * MEMORY_SCALE
    strength = projected["strength"].transpose(1, 0).reshape(heads, tokens, 1)
    read = HeadRows(query, key, value, projected["decay"].transpose(1, 0), strength)
    found, kept["memory"] = write_one(read, held["memory"]) if flags is None else write_several(read, held["memory"])
    return move_heads(found).reshape(tokens * heads, spec.value_width), kept


def write_one(read: HeadRows, memory: af.Tensor) -> tuple[af.Tensor, af.Tensor]:
    """Return what heads give for one token, and their memories after it."""
    memory = memory * read.decay.reshape(*read.strength.shape)
    written = (read.value - read.key @ memory) * read.strength
    memory = memory + read.key.transpose(0, 2, 1) * written
    return read.query @ memory, memory


def write_several(read: HeadRows, memory: af.Tensor) -> tuple[af.Tensor, af.Tensor]:
    """Return what heads give for several tokens, and their memories after the last."""
    heads, tokens = read.decay.shape
    lower = np.tri(tokens, dtype=np.float16)
    pairs = read.decay.linear(sums_of_pairs(tokens)).exp().reshape(heads, tokens, tokens) * lower
    # Rows of the triangle with and without its diagonal: the decays from the beginning, and up to the end.
    from_start = read.decay.linear(lower).exp().reshape(heads, tokens, 1)
    to_end = read.decay.linear(np.triu(np.ones((tokens, tokens), np.float16), 1)).exp().reshape(heads, tokens, 1)
    keys = read.key.transpose(0, 2, 1)
    inverse = invert_unit_triangle((read.key @ keys) * pairs * read.strength)
    written = inverse @ ((read.value - (read.key @ memory) * from_start) * read.strength)
    found = (read.query @ memory) * from_start + ((read.query @ keys) * pairs) @ written
    whole = read.decay.sum(-1).exp().reshape(heads, 1, 1)
    return found, memory * whole + (read.key * to_end).transpose(0, 2, 1) @ written


def sums_of_pairs(tokens: int) -> Array:
    """Return the matrix [tokens², tokens] that adds, for every pair (t, j), what is after j up to t.

    >>> sums_of_pairs(3)[3 * 2].tolist(), sums_of_pairs(3)[3 * 0 + 2].tolist()
    ([0.0, 1.0, 1.0], [0.0, 0.0, 0.0])
    """
    place = np.arange(tokens)
    after, up_to = place > place[:, None], place <= place[:, None]
    return (up_to[:, None] & after[None]).reshape(tokens**2, tokens).astype(np.float16)


def invert_unit_triangle(below: af.Tensor) -> af.Tensor:
    """Return the inverse of 1 + what is below the diagonal of matrices [heads, tokens, tokens].

    The inverse of [[A, 0], [B, C]], two blocks and the corner below the first, has −C⁻¹·B·A⁻¹ in that corner.
    """
    tokens = below.shape[-1]
    place = np.arange(tokens)
    inverse: af.Tensor | None = None
    length = 1
    while length < tokens:
        same = place[:, None] // (2 * length) == place // (2 * length)
        corner = below * (same & (place[:, None] // length > place // length)).astype(np.float16)
        if inverse is None:
            inverse = corner * -1.0 + np.eye(tokens, dtype=np.float16)
        else:
            inverse = inverse - inverse @ corner @ inverse
        length *= 2
    assert inverse is not None  # noqa: S101 - there are two tokens or more
    return inverse


def convolve(x: af.Tensor, window: af.Tensor, taps: object, flags: TokenFlags | None) -> tuple[af.Tensor, af.Tensor]:
    """Return the causal convolution of rows [tokens, channels] with the window before them, and the window after them.

    The window moves on by a product with 0 and 1, which needs no slice inside the width.
    """
    tokens, channels = x.shape
    kernel = window.shape[1] + 1
    joined = af.concat([window, x.transpose(1, 0)], axis=1)
    mixed = af.conv(joined.reshape(1, channels, 1, kernel - 1 + tokens), taps, groups=channels)
    moved = joined.linear(np.eye(kernel, dtype=np.float16)[1:]) if flags is None else joined @ flags.window
    return activate(mixed.reshape(channels, tokens).transpose(1, 0), "silu"), moved


def softplus(x: af.Tensor) -> af.Tensor:
    """Return log(1 + eˣ), which is x where it is large: there the table of some engines ends, and jumps to 0."""
    return af.minimum(x, SOFTPLUS_END).softplus() + (x - SOFTPLUS_END).relu()


def unit_rows(x: af.Tensor) -> af.Tensor:
    """Return rows of length one."""
    unit, reciprocal = divide_by_largest(x)
    floor = reciprocal * math.sqrt(LENGTH_FLOOR)
    return unit * (unit.square().sum(-1) + floor.square()).rsqrt()


def move_heads(x: af.Tensor) -> af.Tensor:
    """Return [tokens, heads, width] as [heads, tokens, width], or the other way round; one of either needs no move."""
    first, second, width = x.shape
    return x.reshape(second, first, width) if 1 in {first, second} else x.transpose(1, 0, 2)


def repeat_heads(x: af.Tensor, tokens: int, group: int) -> af.Tensor:
    """Return each of the heads [tokens · heads, width] so many times, as [heads · group, tokens, width]."""
    rows, width = x.shape
    heads = rows // tokens
    moved = move_heads(x.reshape(tokens, heads, width))
    if group == 1:
        return moved
    return moved.reshape(heads, 1, tokens * width).tile((1, group, 1)).reshape(heads * group, tokens, width)
