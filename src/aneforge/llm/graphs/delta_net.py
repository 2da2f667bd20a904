"""One token of a gated delta net: a short convolution over the last tokens, and a state that decays and is written to.

For every value head, with query q and key k of length one, value v, decay d and strength b, the state S [key, value] of
the head becomes S' = d·S + k ⊗ b·(v − k·(d·S)), and the head gives q·S'. Decay first, then write. Both the window of
the convolution and the state are read and written by every step; a prompt is run token by token.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.llm.graphs.decoder_blocks import activate, divide_by_largest, normalise, project

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.llm.architecture import DeltaNetSpec, NormSpec
    from aneforge.llm.graphs.decoder_blocks import LayerWeights

__all__ = ["delta_net_shapes_held", "mix_by_delta_net"]

PARTS = ("query", "key", "value")
MEMORY_SCALE = 16.0
"""What values are multiplied by in the memory: products of small ones would be below 2^-16 and vanish."""
LENGTH_FLOOR = 1e-6
"""What is added to the square of a length, as the model does."""


def delta_net_shapes_held(spec: DeltaNetSpec) -> dict[str, tuple[int, ...]]:
    """Return what a layer keeps between tokens: three windows [channels, kernel − 1], and the states of its heads."""
    keys, values = spec.key_heads * spec.key_width, spec.value_heads * spec.value_width
    shapes: dict[str, tuple[int, ...]] = {
        f"{part}_window": (channels, spec.kernel - 1)
        for part, channels in zip(PARTS, (keys, keys, values), strict=True)
    }
    return {**shapes, "memory": (spec.value_heads, spec.key_width, spec.value_width)}


def mix_by_delta_net(
    x: af.Tensor, spec: DeltaNetSpec, norm: NormSpec, weights: LayerWeights, held: Mapping[str, af.Tensor]
) -> tuple[af.Tensor, dict[str, af.Tensor]]:
    """Return what one token [1, width] adds to the residual, and what is kept after it."""
    kept: dict[str, af.Tensor] = {}
    rows: dict[str, af.Tensor] = {}
    for part in PARTS:
        rows[part], kept[f"{part}_window"] = convolve(
            project(x, weights, part), held[f"{part}_window"], weights(f"convolution.{part}.weight"), spec.kernel
        )
    heads, group = spec.value_heads, spec.value_heads // spec.key_heads
    query, key = (
        repeat_heads(unit_rows(rows[part].reshape(spec.key_heads, spec.key_width)), group) for part in ("query", "key")
    )
    value = rows["value"].reshape(heads, 1, spec.value_width) * MEMORY_SCALE
    rate = (project(x, weights, "decay") + weights("decay.bias")).softplus() * weights("decay.rate")
    strength = project(x, weights, "write_strength").sigmoid().reshape(heads, 1, 1)
    memory = held["memory"] * rate.exp().reshape(heads, 1, 1)
    written = (value - key @ memory) * strength
    memory = memory + key.transpose(0, 2, 1) * written
    kept["memory"] = memory
    found = (query @ memory).reshape(heads, spec.value_width)
    # Queries would be divided by the root of their width: both factors go into epsilon, since a norm follows.
    scaled = replace(norm, epsilon=norm.epsilon * MEMORY_SCALE**2 * spec.key_width)
    normal = normalise(found, scaled, weights.part("value_norm"))
    gate = project(x, weights, "output_gate").reshape(heads, spec.value_width)
    mixed = (normal * activate(gate, "silu")).reshape(1, heads * spec.value_width)
    return project(mixed, weights, "output"), kept


def convolve(x: af.Tensor, window: af.Tensor, taps: object, kernel: int) -> tuple[af.Tensor, af.Tensor]:
    """Return the causal convolution of a row with its window, and the window of the next token.

    The window moves on by a product with 0 and 1, which needs no slice inside the width.
    """
    channels = x.shape[1]
    joined = af.concat([window, x.reshape(channels, 1)], axis=1)
    mixed = (joined * taps).sum(-1).reshape(1, channels)
    return activate(mixed, "silu"), joined.linear(np.eye(kernel, dtype=np.float16)[1:])


def unit_rows(x: af.Tensor) -> af.Tensor:
    """Return rows of length one."""
    unit, reciprocal = divide_by_largest(x)
    floor = reciprocal * math.sqrt(LENGTH_FLOOR)
    return unit * (unit.square().sum(-1) + floor.square()).rsqrt()


def repeat_heads(x: af.Tensor, group: int) -> af.Tensor:
    """Return each of the heads [heads, width] so many times, as [heads · group, 1, width]."""
    heads, width = x.shape
    apart = x.reshape(heads, 1, width)
    return apart.tile((1, group, 1)).reshape(heads * group, 1, width) if group > 1 else apart
