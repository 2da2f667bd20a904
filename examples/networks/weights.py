"""Seeded weights for the example networks: the shapes are real, the numbers are drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass
class Weights:
    """A stream of weights, the same for the same seed."""

    seed: int = 0
    generator: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.generator = np.random.default_rng(self.seed)

    def conv(self, out: int, inputs: int, height: int, width: int | None = None) -> Array:
        """Draw a kernel that keeps the variance of its input through a rectifier."""
        shape = (out, inputs, height, width or height)
        return self._normal(shape, math.sqrt(2 / math.prod(shape[1:])))

    def linear(self, out: int, inputs: int) -> Array:
        """Draw a matrix [out, in] that keeps the variance of its input."""
        return self._normal((out, inputs), 1 / math.sqrt(inputs))

    def bias(self, count: int) -> Array:
        """Draw small offsets."""
        return self._normal((count,), 0.01)

    def batch_norm(self, count: int) -> tuple[Array, Array, Array, Array]:
        """Draw gamma, beta, mean and variance near those of a trained network."""
        uniform = self.generator.uniform
        drawn = (
            uniform(0.8, 1.2, count),
            uniform(-0.1, 0.1, count),
            uniform(-0.1, 0.1, count),
            uniform(0.8, 1.2, count),
        )
        gamma, beta, mean, variance = (values.astype(np.float16) for values in drawn)
        return gamma, beta, mean, variance

    def affine(self, count: int) -> tuple[Array, Array]:
        """Draw gamma and beta of a norm."""
        return self.generator.uniform(0.8, 1.2, count).astype(np.float16), self.bias(count)

    def _normal(self, shape: tuple[int, ...], deviation: float) -> Array:
        return (self.generator.standard_normal(shape) * deviation).astype(np.float16)
