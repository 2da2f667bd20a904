"""One block of a Llama-style decoder with a resident key-value cache, one token at a time, with seeded weights.

The cache is state: read at the start of a run, written at its end. The place of the token comes in as a one-hot row, so
that writing it is arithmetic, and the mask hides the places that are still empty.
"""

from __future__ import annotations

import math

import numpy as np

import aneforge as af
from weights import Weights


def rotated(x: af.Tensor, cosine: af.Tensor, sine: af.Tensor) -> af.Tensor:
    """Turn pairs of elements of [1, heads, 1, d] by the angles of a position."""
    half = x.shape[3] // 2
    first, second = af.split(x, 2, axis=3)
    turned = af.concat([second * -1.0, first], axis=3)
    return x * cosine + turned * sine if half else x


def llama_block(seed: int = 0, width: int = 256, heads: int = 4, places: int = 64) -> af.Graph:
    """Return the block: one token [1, width] in and out, keys and values [1, heads, places, d] as states."""
    weights = Weights(seed)
    depth = width // heads
    x = af.input((1, width), name="token")
    here = af.input((1, 1, places, 1), name="position")
    mask = af.input((1, 1, 1, places), name="mask")
    cosine = af.input((1, 1, 1, depth), name="cosine")
    sine = af.input((1, 1, 1, depth), name="sine")
    keys = af.state("keys", (1, heads, places, depth))
    values = af.state("values", (1, heads, places, depth))

    normal = x.rms_norm(np.ones(width, np.float16))
    q, k, v = (normal.linear(weights.linear(width, width)).reshape(1, heads, 1, depth) for _ in range(3))
    empty = here * -1.0 + 1.0
    all_keys = keys * empty + rotated(k, cosine, sine) * here
    all_values = values * empty + v * here

    scores = (rotated(q, cosine, sine) @ all_keys.transpose(0, 1, 3, 2)) * (1 / math.sqrt(depth)) + mask
    attended = (scores.softmax(-1) @ all_values).reshape(1, width)
    y = x + attended.linear(weights.linear(width, width))

    hidden = 8 * width // 3
    normal = y.rms_norm(np.ones(width, np.float16))
    gate = normal.linear(weights.linear(hidden, width)).silu() * normal.linear(weights.linear(hidden, width))
    return af.Graph(
        {"token": y + gate.linear(weights.linear(width, hidden))}, states={"keys": all_keys, "values": all_values}
    )


if __name__ == "__main__":
    print(llama_block().summary())
