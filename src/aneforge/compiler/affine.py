"""Gain and offset as numbers: reading them from layers and stages, composing two, and writing them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.compiler.ir.catalogue import find_kind
from aneforge.compiler.ir.layer import Stage
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.declared import Declared, declare
from aneforge.ops.numbers import FP16_MAX, FP16_SMALLEST_NORMAL
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Argument, Layer
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import Array

__all__ = ["KIND", "Affine", "affine_of_layer", "affine_of_stage", "numbers_of"]

KIND = "gain_offset_control"


@dataclass(frozen=True, slots=True)
class Affine:
    """y = gain · x + offset; each is one number or a row of them along an axis; None for 1 or 0."""

    gain: Array | None
    offset: Array | None
    axis: int
    unknown: frozenset[str] = frozenset()
    """Which of `gain` and `offset` are weights without values: their numbers are NaN, and stay so in what is made."""

    @property
    def vector(self) -> bool:
        """One of them differs from channel to channel."""
        return any(one is not None and one.ndim > 0 for one in (self.gain, self.offset))

    def joins(self, other: Affine) -> bool:
        """Return whether this one and another after it are one.

        Rows along two axes are not, nor are two whose numbers fp16 holds and whose product it does not.
        """
        if self.vector and other.vector and self.axis != other.axis:
            return False
        return self.then(other).is_held or not (self.is_held and other.is_held)

    @property
    def is_held(self) -> bool:
        """The slot's fp16 holds the numbers: none is infinite there, and no gain is subnormal or lost."""
        gain, offset = (np.abs(np.asarray(0.0 if one is None else one)) for one in (self.gain, self.offset))
        return bool(max(gain.max(), offset.max()) <= FP16_MAX and np.all((gain == 0) | (gain >= FP16_SMALLEST_NORMAL)))

    def then(self, other: Affine) -> Affine:
        """Return the affine that does this one first and then another, which joins it."""
        gain = product(self.gain, other.gain)
        offset = total(None if self.offset is None else product(self.offset, other.gain), other.offset)
        unknown = self.unknown | other.unknown
        if "gain" in other.unknown and self.offset is not None:
            unknown |= {"offset"}
        return Affine(gain, offset, other.axis if other.vector else self.axis, unknown)

    def constants(self) -> dict[str, Constant]:
        """Return the operands of a layer or stage; both are held in fp64, so nothing is rounded."""
        named = (("gain", self.gain), ("offset", self.offset))
        return {
            name: declare(values.shape, "fp64", name=name)
            if name in self.unknown
            else Dense(np.asarray(values, np.float64))
            for name, values in named
            if values is not None
        }

    def attributes(self) -> dict[str, AttributeValue]:
        """Return the attributes of a layer or stage; single numbers are along no axis."""
        return find_kind(KIND).complete({"axis": self.axis} if self.vector else {})

    def stage(self) -> Stage:
        """Return what fills the gain and offset slot."""
        return Stage(find_kind(KIND), self.constants(), self.attributes())


def product(first: Array | None, second: Array | None) -> Array | None:
    """Multiply two gains; None is 1."""
    if first is None or second is None:
        return second if first is None else first
    return first * second


def total(first: Array | None, second: Array | None) -> Array | None:
    """Add two offsets; None is 0."""
    if first is None or second is None:
        return second if first is None else first
    return first + second


def affine_of_layer(layer: Layer) -> Affine:
    """Return the numbers of a gain and offset layer."""
    return affine_of(layer.operands, layer.integer("axis"), layer.core_types[0].rank)


def affine_of_stage(stage: Stage, rank: int) -> Affine:
    """Return the numbers in a gain and offset slot after a tensor of a rank."""
    return affine_of(stage.operands, stage.integer("axis"), rank)


def affine_of(operands: Mapping[str, Argument], axis: int, rank: int) -> Affine:
    """Return the numbers among operands."""
    held = {name: one for name in ("gain", "offset") if isinstance(one := operands.get(name), Constant)}
    gain, offset = (numbers_of(held[name]) if name in held else None for name in ("gain", "offset"))
    unknown = frozenset(name for name, one in held.items() if isinstance(one, Declared))
    return Affine(gain, offset, axis % rank if rank else 0, unknown)


def numbers_of(constant: Constant) -> Array:
    """Return the numbers of a constant in float64; those of a weight without values are NaN."""
    if isinstance(constant, Declared):
        return np.full(constant.type.shape, np.nan)
    return constant.dense().astype(np.float64)
