"""Independent implementations of normalisations: torch, and plain loops."""

from __future__ import annotations

import math
from itertools import product
from statistics import fmean, pvariance
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from oracle_tools import Array, Oracle, array, tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def maybe(values: Array | None) -> torch.Tensor | None:
    return None if values is None else tensor(values)


def batch_norm(
    x: Array, mean: Array, variance: Array, gamma: Array | None, beta: Array | None, *, epsilon: float
) -> Array:
    return array(
        functional.batch_norm(tensor(x), tensor(mean), tensor(variance), maybe(gamma), maybe(beta), eps=epsilon)
    )


def layer_norm(
    x: Array, gamma: Array | None, beta: Array | None, *, axes: tuple[int, ...] | None, epsilon: float
) -> Array:
    """Bring the normalised axes to the end, in their order, where torch wants them."""
    chosen = {axis % x.ndim for axis in (range(x.ndim) if axes is None else axes)}
    order = [axis for axis in range(x.ndim) if axis not in chosen] + sorted(chosen)
    last = tensor(x).permute(order)
    normalised = functional.layer_norm(
        last.contiguous(), [x.shape[axis] for axis in sorted(chosen)], maybe(gamma), maybe(beta), epsilon
    )
    return array(normalised.permute([order.index(axis) for axis in range(x.ndim)]))


def instance_norm(x: Array, gamma: Array | None, beta: Array | None, *, epsilon: float) -> Array:
    """Go through samples and channels: torch's own instance norm refuses a single place."""
    result = np.empty(x.shape)
    for sample, channel in product(range(x.shape[0]), range(x.shape[1])):
        plane = x[sample, channel]
        values: list[float] = plane.ravel().tolist()
        centre, deviation = fmean(values), math.sqrt(pvariance(values) + epsilon)
        weight = 1.0 if gamma is None else float(gamma[channel])
        offset = 0.0 if beta is None else float(beta[channel])
        normalised = [(value - centre) / deviation * weight + offset for value in values]
        result[sample, channel] = np.reshape(normalised, plane.shape)
    return result


def channel_layer_norm(x: Array, gamma: Array, beta: Array, *, epsilon: float) -> Array:
    return layer_norm(x, gamma, beta, axes=(1,), epsilon=epsilon)


def group_norm(x: Array, gamma: Array, beta: Array, *, num_groups: int, epsilon: float) -> Array:
    return array(torch.group_norm(tensor(x), num_groups, tensor(gamma), tensor(beta), epsilon))


def by_rows(x: Array, axis: int, function: Callable[[list[float]], list[float]]) -> Array:
    """Apply a function to every row along an axis."""
    rows = np.moveaxis(x, axis, -1)
    results = [function(row) for row in rows.reshape(-1, x.shape[axis]).tolist()]
    return np.moveaxis(np.array(results).reshape(rows.shape), -1, axis)


def l2_norm(x: Array, *, axes: tuple[int, ...], epsilon: float) -> Array:
    """Divide element by element by the length of those that share its place on the other axes."""
    summed = [axis % x.ndim for axis in axes]
    lengths: dict[tuple[int, ...], float] = {}

    def others(place: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(index for axis, index in enumerate(place) if axis not in summed)

    places = list(product(*map(range, x.shape)))
    for place in places:
        lengths[others(place)] = math.hypot(lengths.get(others(place), 0.0), x[place])
    return np.array([x[place] / max(lengths[others(place)], math.sqrt(epsilon)) for place in places]).reshape(x.shape)


def rms_norm(x: Array, gamma: Array, *, epsilon: float) -> Array:
    def normalised(row: list[float]) -> list[float]:
        mean_square = sum(value * value for value in row) / len(row)
        root = math.sqrt(max(mean_square, epsilon))
        return [value / root * weight for value, weight in zip(row, gamma.tolist(), strict=True)]

    return by_rows(x, -1, normalised)


def local_response_norm(x: Array, *, size: int, alpha: float, beta: float, k: float) -> Array:
    if size % 2:
        return array(functional.local_response_norm(tensor(x), size, alpha, beta, k))
    # Of an even number torch has the odd channel before, and the table after: the channels turned round.
    return np.flip(array(functional.local_response_norm(tensor(np.flip(x, 1).copy()), size, alpha, beta, k)), 1)


def lrn(x: Array, *, kernel_channel: int, alpha: float, beta: float, k: float) -> Array:
    def normalised(column: list[float]) -> list[float]:
        results: list[float] = []
        for place, value in enumerate(column):
            first = place - (kernel_channel - 1) // 2
            near = [column[c] for c in range(first, first + kernel_channel) if 0 <= c < len(column)]
            results.append(value / (k + alpha * math.fsum(one * one for one in near) / kernel_channel) ** beta)
        return results

    return by_rows(x, 0, normalised)


def minmax_norm(x: Array, *, dimension: str, epsilon: float) -> Array:
    def normalised(row: list[float]) -> list[float]:
        ordered = sorted(row)
        return [(value - ordered[0]) / (ordered[-1] - ordered[0] + epsilon) for value in row]

    return by_rows(x, -1 if dimension == "width" else -2, normalised)


ORACLES: dict[str, Oracle] = {
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "instance_norm": instance_norm,
    "channel_layer_norm": channel_layer_norm,
    "group_norm": group_norm,
    "l2_norm": l2_norm,
    "rms_norm": rms_norm,
    "local_response_norm": local_response_norm,
    "lrn": lrn,
    "minmax_norm": minmax_norm,
}
