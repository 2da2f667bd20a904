"""Weights in an encoding: the matrices of layers, each encoded as it is read, so that one at most is there in fp16 too.

Norms, biases, the taps of convolutions and the head stay in fp16, as plans count them (`declared_weights`).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.llm.architecture import weight_shapes
from aneforge.llm.declared_weights import is_encoded
from aneforge.ops.arithmetic import greatest_magnitude
from aneforge.ops.constant import Constant
from aneforge.optimise.compress.choice import TOLERANCE

if TYPE_CHECKING:
    from aneforge.llm.baked import BakedWeights
    from aneforge.optimise.compress.graphs import WeightReport
    from aneforge.targets import TargetLike

__all__ = ["EncodedWeights"]

NORMS = {
    "mixer_norm": ("query", "key", "value", "attention_gate", "output_gate", "write_strength", "decay"),
    "mlp_norm": ("gate", "up", "router"),
}
"""Which projections read the rows of a norm, by the last part of their roles."""


class EncodedWeights:
    """Weights for one target, encoded as `compress=` of `af.compile` says, which `mode` is."""

    def __init__(self, weights: BakedWeights, mode: str, target: TargetLike) -> None:
        self.weights, self.mode, self.target = weights, mode, target
        self.shapes = weight_shapes(weights.config)
        self.held: dict[tuple[str, tuple[int, int] | None], Constant] = {}
        self.reports: dict[str, WeightReport] = {}
        """What was done to each matrix, by its role; of one that is read in parts, to its last part."""

    def __call__(self, role: str, rows: tuple[int, int] | None = None) -> Constant:
        """Return a weight, or rows of it, as a constant."""
        if not is_encoded(role, self.shapes[role]):
            return self.weights(role, rows)
        if (role, rows) not in self.held:
            self.held[role, rows] = self.encode(role, self.weights(role, rows))
        return self.held[role, rows]

    def encode(self, role: str, weight: Constant) -> Constant:
        """Return a weight in its encoding, chosen where it is read: a product by itself."""
        x = af.input((1, weight.type.shape[1]), max_abs=self.bound(role))
        made = af.compressed(x.linear(weight), self.mode, target=self.target)
        (self.reports[role],) = made.weights
        return next(value for node in made.graph.nodes for _, value in node.values() if isinstance(value, Constant))

    def bound(self, role: str) -> float | None:
        """Return what bounds the numbers that a weight meets, None where nothing does.

        No number of a row is larger than √width once the row is normalised.
        """
        layers, number, *_, part, _ = role.split(".")
        norm = next((f"{layers}.{number}.{one}" for one, readers in NORMS.items() if part in readers), None)
        if norm is None:
            return None
        offset = self.weights(f"{norm}.bias").values if f"{norm}.bias" in self.shapes else np.zeros(1)
        gain = self.weights(f"{norm}.weight").values
        return math.sqrt(self.weights.config.width) * greatest_magnitude(gain) + greatest_magnitude(offset)

    def __str__(self) -> str:
        """Return how many matrices were read so far in each encoding, and what becomes of them on the target."""
        by_encoding = Counter((one.encoding, str(one.fate)) for one in self.reports.values())
        counts = (f"{count} in {name} ({fate})" for (name, fate), count in by_encoding.items())
        return f"matrices of layers: {', '.join(counts)}; the head and all others in fp16"

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is to be said of matrices whose error is large in an encoding that was asked for by its name."""
        over = {role: one for role, one in self.reports.items() if one.error > TOLERANCE}
        if not over:
            return ()
        worst = max(over, key=lambda role: over[role].error)
        text = (
            f"compress={self.mode!r} is applied as asked: {len(over)} of {len(self.reports)} matrices have a relative "
            f"error over {TOLERANCE:g}, the largest {over[worst].error:.3g} in {worst}; 'auto' takes only what is "
            "close enough"
        )
        return (text,)
