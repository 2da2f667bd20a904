"""Independent implementations of pooling: plain loops over windows and the positions in them."""

import math
from itertools import product
from typing import NamedTuple, NotRequired, TypedDict, Unpack

import numpy as np

from oracle_tools import Array, Oracle


class Options(TypedDict):
    """The attributes of pooling."""

    kernel_sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    pad_type: str
    pad: tuple[int, ...] | None
    ceil_mode: NotRequired[bool]
    exclude_padding_from_average: NotRequired[bool]


class Places(NamedTuple):
    """Where windows begin along one axis, in positions of the axis itself, and where the padding begins and ends."""

    starts: list[int]
    low: int
    high: int


def places(axis: int, extent: int, options: Options) -> Places:
    window = options["kernel_sizes"][axis]
    stride = options["strides"][axis] if options["strides"] else 1
    before, after = options["pad"][2 * axis : 2 * axis + 2] if options["pad"] else (0, 0)
    if options["pad_type"].startswith("same"):
        starts = list(range(0, extent, stride))
        total = max(starts[-1] + window - extent, 0)
        before, after = sorted([total // 2, total - total // 2], reverse=options["pad_type"] == "same_lower")
        return Places([start - before for start in starts], -before, extent + after)
    end = extent + after
    starts = [start for start in range(-before, end, stride) if start + window <= end]
    if options.get("ceil_mode") and starts[-1] + window < end and starts[-1] + stride < extent:  # else it sees nothing
        starts.append(starts[-1] + stride)
    return Places(starts, -before, end)


def pool(mode: str, x: Array, options: Options) -> Array:
    extents = x.shape[2:]
    along = [places(axis, extent, options) for axis, extent in enumerate(extents)]
    result = np.zeros((*x.shape[:2], *(len(one.starts) for one in along)), x.dtype)
    for place in product(*(range(len(one.starts)) for one in along)):
        sides = [
            range(one.starts[index], one.starts[index] + length)
            for one, index, length in zip(along, place, options["kernel_sizes"], strict=True)
        ]
        seen = [at for at in product(*sides) if all(0 <= p < n for p, n in zip(at, extents, strict=True))]
        padded = [
            at for at in product(*sides) if all(one.low <= p < one.high for p, one in zip(at, along, strict=True))
        ]
        counted = len(seen) if options.get("exclude_padding_from_average") else len(padded)
        for image in product(range(x.shape[0]), range(x.shape[1])):
            values = [x[image + at].item() for at in seen]
            pooled = {"max": max(values), "average": math.fsum(values) / counted, "l2": math.hypot(*values)}
            result[image + place] = pooled[mode]
    return result


def max_pool(x: Array, **options: Unpack[Options]) -> Array:
    return pool("max", x, options)


def avg_pool(x: Array, **options: Unpack[Options]) -> Array:
    return pool("average", x, options)


def l2_pool(x: Array, **options: Unpack[Options]) -> Array:
    return pool("l2", x, options)


def by_mode(x: Array, *, mode: str, **options: Unpack[Options]) -> Array:
    return pool(mode, x, options)


ORACLES: dict[str, Oracle] = {
    "max_pool": max_pool,
    "avg_pool": avg_pool,
    "l2_pool": l2_pool,
    "ne_pool": by_mode,
    "pe_pool": by_mode,
}
