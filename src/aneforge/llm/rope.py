"""Rotary positions: the frequencies of every scaling, and tables of cosines and sines for positions.

The formulas are those of the papers, and equal those of Hugging Face's `modeling_rope_utils` (compared in tests). Two
scalings depend on the length of the text there; here they depend on the context that a model is built for, since keys
that are in the cache cannot be rotated again: `dynamic` takes the base of that length, `longrope` its long factors
where the context is longer than the trained one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.llm.architecture import RopeSpec
    from aneforge.ops.types import Array

__all__ = ["attention_factor", "inverse_frequencies", "rope_tables", "rotation_matrix"]


def inverse_frequencies(spec: RopeSpec, context: int) -> Array:
    """Return the angle per position of every pair, in float64.

    >>> from aneforge.llm.architecture import RopeSpec
    >>> inverse_frequencies(RopeSpec(base=10000.0, width=4), 128).tolist()
    [1.0, 0.01]
    """
    steps = np.arange(0, spec.width, 2) / spec.width
    plain = spec.base**-steps
    if spec.scaling == "linear":
        return plain / spec.factor
    if spec.scaling == "dynamic" and context > spec.trained_positions:
        grown = spec.factor * context / spec.trained_positions - (spec.factor - 1)
        return (spec.base * grown ** (spec.width / (spec.width - 2))) ** -steps
    if spec.scaling == "yarn":
        return yarn_frequencies(spec, plain)
    if spec.scaling == "llama3":
        return llama3_frequencies(spec, plain)
    if spec.scaling == "longrope":
        return plain / np.array(spec.long_factors if context > spec.trained_positions else spec.short_factors)
    return plain


def yarn_frequencies(spec: RopeSpec, plain: Array) -> Array:
    """Return frequencies between those of the trained context and those of a longer one, by their rotation counts."""

    def pair_of(turns: float) -> float:
        return spec.width * math.log(spec.trained_positions / (turns * 2 * math.pi)) / (2 * math.log(spec.base))

    low, high = pair_of(spec.fast), pair_of(spec.slow)
    if spec.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, spec.width - 1)
    span = high - low or 0.001
    ramp = np.clip((np.arange(spec.width // 2) - low) / span, 0, 1)
    return plain / spec.factor * ramp + plain * (1 - ramp)


def llama3_frequencies(spec: RopeSpec, plain: Array) -> Array:
    """Return frequencies of which the slow ones are divided, the fast ones kept, and those between mixed."""
    length = 2 * math.pi / plain
    longest, shortest = spec.trained_positions / spec.low_frequency, spec.trained_positions / spec.high_frequency
    smooth = (spec.trained_positions / length - spec.low_frequency) / (spec.high_frequency - spec.low_frequency)
    mixed = (1 - smooth) * plain / spec.factor + smooth * plain
    return np.where(length > longest, plain / spec.factor, np.where(length < shortest, plain, mixed))


def length_note(spec: RopeSpec, context: int) -> str | None:
    """Return what is done where the model's own positions would depend on the length of a text; None where they do not.

    >>> from aneforge.llm.architecture import RopeSpec
    >>> spec = RopeSpec(base=10000.0, width=64, scaling="dynamic", factor=2.0, trained_positions=2048)
    >>> length_note(spec, 2048), length_note(spec, 4096)
    (None, 'dynamic: rotary positions of every text are those of 4096 tokens, the context; the model is trained for 2048')
    """  # noqa: E501 - a message is one line
    if spec.scaling not in {"dynamic", "longrope"} or context <= spec.trained_positions:
        return None
    return (
        f"{spec.scaling}: rotary positions of every text are those of {context} tokens, the context; "
        f"the model is trained for {spec.trained_positions}"
    )


def attention_factor(spec: RopeSpec) -> float:
    """Return what cosines and sines are multiplied by."""
    if spec.attention_factor is not None:
        return spec.attention_factor
    if spec.scaling == "yarn":
        if spec.magnitude and spec.magnitude_all:
            return yarn_magnitude(spec.factor, spec.magnitude) / yarn_magnitude(spec.factor, spec.magnitude_all)
        return yarn_magnitude(spec.factor, 1.0)
    if spec.scaling == "longrope" and spec.factor > 1:
        return math.sqrt(1 + math.log(spec.factor) / math.log(spec.trained_positions))
    return 1.0


def yarn_magnitude(factor: float, weight: float) -> float:
    """Return the growth of logits that a longer context asks for."""
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def rope_tables(spec: RopeSpec, positions: Sequence[int], context: int, head_width: int) -> tuple[Array, Array]:
    """Return cosines and sines [positions, head_width] in fp16; elements that are not rotated have 1 and 0.

    >>> from aneforge.llm.architecture import RopeSpec
    >>> cosine, sine = rope_tables(RopeSpec(base=10000.0, width=2), [0, 1], 8, 4)
    >>> cosine.shape, sine[1].round(2).tolist()
    ((2, 4), [0.8398..., 0.8398..., 0.0, 0.0])
    """
    angles = np.asarray(positions, np.float64)[:, None] * inverse_frequencies(spec, context)
    doubled = np.repeat(angles, 2, axis=1) if spec.interleaved else np.concatenate([angles, angles], axis=1)
    factor = attention_factor(spec)
    cosine, sine = (np.full((len(positions), head_width), fill, np.float16) for fill in (1.0, 0.0))
    cosine[:, : spec.width] = np.cos(doubled) * factor
    sine[:, : spec.width] = np.sin(doubled) * factor
    return cosine, sine


def rotation_matrix(spec: RopeSpec, head_width: int) -> Array:
    """Return the matrix [out, in] of 0, 1 and −1 that rotates every pair by 90 degrees, in either layout.

    >>> from aneforge.llm.architecture import RopeSpec
    >>> rotation_matrix(RopeSpec(base=10000.0, width=2), 3).tolist()
    [[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    pairs = np.arange(spec.width // 2)
    first, second = (2 * pairs, 2 * pairs + 1) if spec.interleaved else (pairs, pairs + spec.width // 2)
    matrix = np.zeros((head_width, head_width), np.float16)
    matrix[first, second], matrix[second, first] = -1.0, 1.0
    return matrix
