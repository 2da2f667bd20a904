"""The values of a run and their largest magnitudes, found once for each value and only if they are asked for."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine import kernels
from aneforge.engine.planar import read
from aneforge.ops.numbers import FP16_INFINITY
from aneforge.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.engine.kernels.codes import Coded

    Array = npt.NDArray[Any]

__all__ = ["Values", "magnitude_of", "wide"]


@dataclass(slots=True)
class Values:
    """Values by their names."""

    arrays: dict[str, Array] = field(default_factory=dict[str, "Array"])
    magnitudes: dict[str, float] = field(default_factory=dict[str, float])

    def magnitude(self, name: str) -> float:
        """Return the largest magnitude of a value, 0 for one that holds no real numbers."""
        if name not in self.magnitudes:
            self.magnitudes[name] = magnitude_of(self.arrays[name])
        return self.magnitudes[name]


def magnitude_of(array: Array | Coded) -> float:
    """Return the largest magnitude in an array as the engine reads it, 0 for one that holds no real numbers.

    >>> magnitude_of(np.array([1.0, -np.inf], np.float16)), magnitude_of(np.array([7], np.int8))
    (65536.0, 0.0)
    """
    if not isinstance(array, np.ndarray | np.generic):  # a result without axes may be a scalar of NumPy's
        return array.largest
    return kernels.distances.largest_magnitude(array) if array.dtype == np.float16 else 0.0


def wide(array: Array, magnitude: float) -> Array:
    """Return fp16 numbers in float64 as the engine reads them, given their largest magnitude."""
    return array.astype(np.float64) if magnitude < FP16_INFINITY else read(array)
