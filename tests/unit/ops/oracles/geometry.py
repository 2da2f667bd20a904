"""Independent geometry: torch, scipy and plain loops."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import torch
from scipy import signal, spatial

from oracle_tools import Array, Oracle, array, tensor


def cross_product(a: Array, b: Array) -> Array:
    return array(torch.cross(tensor(a), tensor(b), dim=0))


def cross_correlation(x: Array, template: Array) -> Array:
    return signal.correlate2d(x, template, mode="valid")


def cost_volume(aux: Array, ref: Array, *, disparity_range: int) -> Array:
    return np.array(
        [[abs(float(aux[w]) - float(ref[w + d])) for w in range(len(aux))] for d in range(disparity_range + 1)]
    )


def fps(points: Array, *, k: int) -> Array:
    left = cast("list[list[float]]", points.tolist())
    chosen = [left[0]]
    while len(chosen) < k:
        chosen.append(max(left, key=lambda point: min(math.dist(point, one) for one in chosen)))
    return np.array(chosen)


def radius_search(points: Array, centroids: Array, *, radius: float) -> Array:
    distances = spatial.distance.cdist(points, centroids)
    return np.where(distances > radius, 0.0, 1.0)


ORACLES: dict[str, Oracle] = {
    "cross_product": cross_product,
    "cross_correlation": cross_correlation,
    "cost_volume": cost_volume,
    "fps": fps,
    "radius_search": radius_search,
}
