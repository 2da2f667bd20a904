"""Independent implementations of distributions: scipy's quantiles of the stream, made of PCG64's raw 64 bits.

That the stream is PCG64's is our choice and shared; `test_random.py` pins its first numbers and tests it statistically.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import special, stats

from oracle_tools import Array, Oracle


def doubles(shape: tuple[int, ...], seed: int) -> Array:
    """Return the upper 53 of every 64 bits as a fraction."""
    raw = np.random.PCG64(0 if seed == -1 else seed).random_raw(math.prod(shape))
    return np.array([(int(one) >> 11) / 2**53 for one in raw]).reshape(shape)


def uniform(*, shape: tuple[int, ...], low: float, high: float, seed: int, **_: object) -> Array:
    return np.array(stats.uniform.ppf(doubles(shape, seed), loc=low, scale=high - low) if high > low else low) + (
        np.zeros(shape)
    )


def normal(*, shape: tuple[int, ...], mean: float, stddev: float, seed: int, **_: object) -> Array:
    return np.array(special.ndtri(doubles(shape, seed))) * stddev + mean


def bernoulli(*, shape: tuple[int, ...], prob: float, seed: int, **_: object) -> Array:
    return np.array([1.0 if one < prob else 0.0 for one in doubles(shape, seed).ravel()]).reshape(shape)


def each(function: Callable[[list[float], float], int], lines: Array, points: Array) -> Array:
    flat = zip(lines.reshape(-1, lines.shape[-1]).tolist(), points.reshape(-1, points.shape[-1]).tolist(), strict=True)
    return np.array([[function(line, point) for point in some] for line, some in flat]).reshape(points.shape)


def first_past(probabilities: list[float], point: float) -> int:
    total = 0.0
    for place, probability in enumerate(probabilities):
        total += probability
        if point < total:
            return place
    return len(probabilities) - 1


def categorical(x: Array, *, mode: str, size: int, seed: int) -> Array:
    weights = np.array(special.softmax(x, axis=-1)) if mode == "logits" else x / x.sum(axis=-1, keepdims=True)
    return each(first_past, weights, doubles((*x.shape[:-1], size), seed))


def dropout(x: Array, *, rate: float, seed: int) -> Array:
    points = doubles(x.shape, seed).ravel()
    kept = [value * (1 / (1 - rate)) if point >= rate else 0.0 for value, point in zip(x.ravel(), points, strict=True)]
    return np.array(kept).reshape(x.shape)


ORACLES: dict[str, Oracle] = {
    "random_uniform": uniform,
    "random_normal": normal,
    "random_bernoulli": bernoulli,
    "random_categorical": categorical,
    "dropout": dropout,
    "random": uniform,
}
