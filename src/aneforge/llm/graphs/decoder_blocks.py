"""Parts of a decoder's layer, on rows [tokens, width]: norms, projections, rotary positions, feed-forward.

Weights come by role from a function, which may give arrays or constants without values: the same code builds what runs
and what is only planned.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import aneforge as af
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.llm.architecture import Activation, AttentionSpec, DenseSpec, NormSpec
    from aneforge.ops.types import Array

__all__ = [
    "NORM_FLOOR",
    "LayerWeights",
    "Rotation",
    "WeightReader",
    "activate",
    "attention_projections",
    "dense",
    "divide_by_largest",
    "normalise",
    "project",
]

NORM_FLOOR = 2.0**-12
"""The least value that a row's largest magnitude counts as: its reciprocal is finite, and it is far below √epsilon."""
GELU_LINEAR, GELU_CUBIC = 2 * math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi) * 0.044715


class WeightReader(Protocol):
    """What gives the weights of a decoder: arrays in fp16, or constants without values."""

    def __call__(self, role: str, rows: tuple[int, int] | None = None) -> object:
        """Return a weight by its role, or rows of it; the same object for the same question."""
        ...


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """The weights of one layer or of the whole model, by the ends of their roles."""

    read: WeightReader
    prefix: str = ""

    def __call__(self, role: str, rows: tuple[int, int] | None = None) -> object:
        """Return a weight, or rows of it."""
        return self.read(f"{self.prefix}{role}", rows)

    def part(self, name: str) -> LayerWeights:
        """Return the weights below a name."""
        return LayerWeights(self.read, f"{self.prefix}{name}.")


@dataclass(frozen=True, slots=True)
class Rotation:
    """What rotary positions multiply by: tables that broadcast over heads, and the matrix of a 90-degree rotation."""

    cosine: af.Tensor | Array
    sine: af.Tensor | Array
    matrix: object

    def turn(self, x: af.Tensor) -> af.Tensor:
        """Rotate the last axis; a product with 0 and ±1 is exact, and needs no slice inside the width."""
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1]).linear(self.matrix).reshape(*x.shape)
        return x * self.cosine + rows * self.sine


def normalise(x: af.Tensor, spec: NormSpec, weights: LayerWeights, *, wide: bool = True) -> af.Tensor:
    """Normalise rows; `weights` are those of the norm.

    `wide` is the form that survives fp16: rows are divided by their largest magnitude, so that no square overflows, and
    epsilon by its square, so that it is added as the model means it. The operations of the engine are shorter and right
    where no sum of squares of a row passes fp16 and none is near epsilon: `rms_norm` takes epsilon for a floor.
    """
    if not wide:
        if spec.kind == "rms":
            return x.rms_norm(weights("weight"), eps=spec.epsilon)
        return x.layer_norm(weights("weight"), weights("bias"), eps=spec.epsilon)
    if spec.kind == "layer":
        x = x - x.mean(-1)
    unit, reciprocal = divide_by_largest(x)
    floor = reciprocal * math.sqrt(spec.epsilon)
    normal = unit * (unit.square().mean(-1) + floor.square()).rsqrt()
    scaled = normal * weights("weight")
    return scaled + weights("bias") if spec.kind == "layer" else scaled


def divide_by_largest(x: af.Tensor) -> tuple[af.Tensor, af.Tensor]:
    """Return rows divided by their largest magnitude, and its reciprocal: squares neither overflow nor vanish."""
    reciprocal = af.maximum(x.abs().amax(-1), NORM_FLOOR).inverse()
    return x * reciprocal, reciprocal


def project(x: af.Tensor, weights: LayerWeights, role: str, *, bias: bool = False) -> af.Tensor:
    """Multiply rows by a weight [out, in], with its bias where it has one."""
    return x.linear(weights(f"{role}.weight"), bias=weights(f"{role}.bias") if bias else None)


def activate(x: af.Tensor, activation: Activation) -> af.Tensor:
    """Apply an activation in the form that is nearest on every family.

    silu is x · sigmoid(x): the engine's own table is off by up to 0.015 on some. The tanh form of gelu is the same with
    a cubic inside, since (1 + tanh u) / 2 = sigmoid(2u).
    """
    if activation == "silu":
        return x * x.sigmoid()
    if activation == "gelu_tanh":
        return x * (x * (x.square() * GELU_CUBIC + GELU_LINEAR)).sigmoid()
    return x.gelu() if activation == "gelu" else x.relu()


def dense(x: af.Tensor, spec: DenseSpec, weights: LayerWeights) -> af.Tensor:
    """Return the feed-forward part of rows."""
    hidden = project(x, weights, "gate" if spec.gated else "up", bias=spec.bias)
    hidden = activate(hidden, spec.activation)
    if spec.gated:
        hidden = hidden * project(x, weights, "up", bias=spec.bias)
    return project(hidden, weights, "down", bias=spec.bias)


def attention_projections(
    x: af.Tensor, spec: AttentionSpec, norm: NormSpec, weights: LayerWeights
) -> tuple[af.Tensor, af.Tensor, af.Tensor]:
    """Return queries [tokens, heads, width], keys and values [tokens, key_value_heads, width], normalised per head."""
    tokens = x.shape[0]
    found: list[af.Tensor] = []
    for role, heads in (("query", spec.heads), ("key", spec.key_value_heads), ("value", spec.key_value_heads)):
        rows = project(x, weights, role, bias=spec.bias)
        if spec.head_norm and role != "value":
            rows = rows.reshape(tokens * heads, spec.head_width)
            rows = normalise(rows, norm, weights.part(f"{role}_norm"))
        found.append(rows.reshape(tokens, heads, spec.head_width))
    query, key, value = found
    return query, key, value
