"""Pooling on the planar engine.

The largest value of a window rounds nothing. An average is taken to be a sum and one factor, as a mean is:
fp16(Σ x · fp32(1 / n)), the sum in the order of the target's reductions (a published global average of non-negative
numbers comes out about 6.3e-4 too high, typical of ties away from zero in fp16 partial sums). The Euclidean norm of a
window goes through a table that no source lists; it is modelled as a root of a sum, read off the table of roots.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from aneforge.engine.neuron import table
from aneforge.engine.planar import read
from aneforge.engine.reductions import accumulate, adder_of, extreme, squares
from aneforge.engine.rounding import to_fp16
from aneforge.ops.groups.pooling import PoolAttributes, elements_seen, pool_slides
from aneforge.ops.windows import windows_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.engine.choices import AdderChoice
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Pool = Callable[..., Array]

__all__ = ["FOR_TARGET", "FUNCTIONS", "Pools", "add_up"]


def largest(x: Array, **attributes: Unpack[PoolAttributes]) -> Array:
    """Return the largest value of every window; padding is smaller than any value."""
    along = pool_slides(x.shape[2:], attributes)
    seen = windows_of(read(x), along, -np.inf)
    return to_fp16(extreme(seen, tuple(range(seen.ndim - len(along), seen.ndim)), np.argmax, keep_dims=False))


def add_up(numbers: Array, attributes: PoolAttributes, adder: AdderChoice) -> Array:
    """Return the sums of what the windows see, padding 0, before the last rounding."""
    along = pool_slides(numbers.shape[2:], attributes)
    seen = windows_of(numbers, along)
    axes = tuple(range(seen.ndim - len(along), seen.ndim))
    return np.squeeze(accumulate(seen, axes, adder), axis=axes)


def average(x: Array, adder: AdderChoice, attributes: PoolAttributes) -> Array:
    """Return the average of every window, the reciprocal of its count in fp32."""
    exclude = attributes.get("exclude_padding_from_average", False)
    counts = reduce(
        np.multiply.outer,
        [
            elements_seen(slide, 0 if exclude else slide.before, 0 if exclude else slide.after)
            for slide in pool_slides(x.shape[2:], attributes)
        ],
    )
    factors = (np.float32(1.0) / counts.astype(np.float32)).astype(np.float64)
    return to_fp16(add_up(read(x), attributes, adder) * factors)


def euclidean(x: Array, adder: AdderChoice, attributes: PoolAttributes) -> Array:
    """Return the root of the sum of squares of every window."""
    return table("sqrt", to_fp16(add_up(squares(read(x)), attributes, adder)))


@dataclass(frozen=True, slots=True)
class Pools:
    """The ways to pool; the kernels have them too."""

    largest: Pool
    average: Callable[[Array, AdderChoice, PoolAttributes], Array]
    euclidean: Callable[[Array, AdderChoice, PoolAttributes], Array]


GOLDEN = Pools(largest, average, euclidean)


def average_on(target: Target, pools: Pools = GOLDEN) -> Pool:
    """Return the average with the order of a target."""
    adder = adder_of(target)

    def function(x: Array, **attributes: Unpack[PoolAttributes]) -> Array:
        return pools.average(x, adder, attributes)

    return function


def euclidean_on(target: Target, pools: Pools = GOLDEN) -> Pool:
    """Return the Euclidean norm with the order of a target."""
    adder = adder_of(target)

    def function(x: Array, **attributes: Unpack[PoolAttributes]) -> Array:
        return pools.euclidean(x, adder, attributes)

    return function


def by_mode_on(target: Target, pools: Pools = GOLDEN) -> Pool:
    """Return pooling that its mode chooses, with the order of a target."""
    modes: dict[str, Pool] = {
        "average": average_on(target, pools),
        "max": pools.largest,
        "l2": euclidean_on(target, pools),
    }

    def function(x: Array, **attributes: Unpack[PoolAttributes]) -> Array:
        return modes[attributes.get("mode", "max")](x, **attributes)

    return function


FUNCTIONS: Mapping[str, Pool] = {"max_pool": largest}
FOR_TARGET: Mapping[str, Callable[..., Pool]] = {
    "avg_pool": average_on,
    "l2_pool": euclidean_on,
    "ne_pool": by_mode_on,
    "pe_pool": by_mode_on,
}
"""Operations whose sums depend on the order of the target: functions of it and of their pools, else golden ones."""
