"""Products that were cut along their output channels: their parts, and the whole that a join of them is.

Output channels have sums of their own, so the join of the parts holds the bits of the whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.analysis.divergence.functions import split_slots
from aneforge.analysis.divergence.keys import attributes_key, signature
from aneforge.compiler.affine import Affine, affine_of_stage
from aneforge.compiler.ir.kind import Slot
from aneforge.ops.constant import Dense
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from aneforge.analysis.divergence.arithmetic import Arithmetic
    from aneforge.compiler.ir.layer import Argument, Layer, Stage
    from aneforge.ops.types import TensorType

    Array = npt.NDArray[Any]
    Key = tuple[object, ...]

__all__ = ["Part", "Whole", "part_of", "whole_of"]

TRANSPOSE = "transpose"


TRANSPOSED = "deconvolution"
"""The product whose weights have their output channels elsewhere: no pass cuts it along them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A product of dense weights that may be a part of a larger one, cut along its output channels."""

    key: Key
    """Operation, attributes, the other operand and arithmetic."""
    other: tuple[str, object]
    """The operand that is not a weight: its name and number."""
    place: str
    """The name of the operand that is the weight."""
    weight: Dense
    affine: Affine | None
    slots: tuple[Stage, ...]
    on_engine: tuple[object, ...]
    layer: Layer

    @property
    def channels(self) -> int:
        """The axis of output channels, before the slots."""
        return 1 if self.layer.kind.name == "convolution" else self.layer.core_types[0].rank - 1

    @property
    def axis(self) -> int:
        """The axis of the result along which parts are joined: that of output channels, after transposes."""
        axis = self.channels
        for stage in self.slots:
            if stage.kind.name == TRANSPOSE:
                perm = permutation(stage)
                axis = [one % len(perm) for one in perm].index(axis)
        return axis


@dataclass(frozen=True, slots=True)
class Whole:
    """A product that was cut: what its parts have in common, their weights, and gain and offset of all of them."""

    first: Part
    weights: tuple[Dense, ...]
    affine: Affine | None
    type: TensorType
    """Of what it gives before the slots."""

    @property
    def weight_axis(self) -> int:
        """The axis of output channels of the weights."""
        flipped = self.first.layer.kind.name == "matmul" and not self.first.layer.flag("transpose_rhs")
        return 1 if flipped else 0


def part_of(layer: Layer, arithmetic: Arithmetic, key_of: Callable[[Argument], object]) -> Part | None:
    """Return a product of dense weights as a part that a whole may have; `key_of` says what stands for an operand."""
    product = layer.kind.product
    if product is None or layer.kind.name == TRANSPOSED:
        return None
    weight = layer.weight(product.weight)
    joined, slots = split_slots(layer)
    if not isinstance(weight, Dense) or len(layer.operands) != len(("weight", "other")) or not activations(slots):
        return None
    affine = affine_of_stage(joined[0], layer.core_types[0].rank) if joined else None
    source = key_of(layer.operands[product.data])
    key = (*signature(layer, ())[:3], source, arithmetic.on_engine, stages_key(slots))
    return Part(key, (product.data, source), product.weight, weight, affine, slots, arithmetic.on_engine, layer)


def whole_of(parts: Sequence[Part | None], layer: Layer) -> Whole | None:
    """Return the product of which a layer joins the parts; None where it is none."""
    known = [part for part in parts if part is not None]
    if len(known) != len(parts) or len({part.key for part in known}) != 1 or layer.flag("interleave"):
        return None
    first, affine = known[0], join_affine([part.affine for part in known], known[0].channels)
    axis = layer.integer("axis") % layer.core_types[0].rank
    if axis != first.axis or (affine is None) != (first.affine is None):
        return None
    extents = list(first.layer.core_types[0].shape)
    extents[first.channels] = layer.core_types[0].shape[axis]
    kind = first.layer.core_types[0].with_shape(*extents)
    return Whole(first, tuple(part.weight for part in known), affine, kind)


def permutation(stage: Stage) -> tuple[int, ...]:
    """Return the order of axes of a transpose."""
    return stage.integers("perm")


def activations(slots: tuple[Stage, ...]) -> bool:
    """Return whether slots hold only functions of single elements, the same for all channels, and transposes."""
    return all(
        stage.kind.name == TRANSPOSE or (not stage.operands and Slot.POST_ACTIVATION in stage.kind.fills)
        for stage in slots
    )


def stages_key(slots: tuple[Stage, ...]) -> Key:
    """Return activations in slots as a key."""
    return tuple((stage.kind.name, attributes_key(stage.attributes)) for stage in slots)


def join_affine(parts: list[Affine | None], axis: int) -> Affine | None:
    """Return the gain and offset of a whole whose parts have these; None where they do not fit together."""
    found = [part for part in parts if part is not None]
    if len(found) != len(parts) or any(part.vector and part.axis != axis for part in found):
        return None
    gains, offsets = [part.gain for part in found], [part.offset for part in found]
    if not (fit(gains) and fit(offsets)):
        return None
    return Affine(join_numbers(gains), join_numbers(offsets), found[0].axis)


def fit(parts: list[Array | None]) -> bool:
    """Return whether numbers of parts are those of a whole: rows, one number that all share, or none at all."""
    arrays = [part for part in parts if part is not None]
    if len(arrays) not in (0, len(parts)) or len({one.ndim for one in arrays}) > 1:
        return False
    return not arrays or arrays[0].ndim == 1 or len({one.tobytes() for one in arrays}) == 1


def join_numbers(parts: list[Array | None]) -> Array | None:
    """Return the numbers of a whole, those of its parts fitting together."""
    arrays = [part for part in parts if part is not None]
    return None if not arrays else np.concatenate(arrays) if arrays[0].ndim else arrays[0]
