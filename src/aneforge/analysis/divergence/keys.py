"""What layers do, as keys: operations, attributes, gains and offsets, their operands left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.affine import affine_of_stage
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.engine.planar import host_fp16

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.affine import Affine
    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.ops.signature import AttributeValue

    Key = tuple[object, ...]

__all__ = ["affine_key", "attributes_key", "signature"]


def signature(layer: Layer, joined: tuple[Stage, ...]) -> Key:
    """Return what a layer does, its operands left out: operation, attributes, and slots that belong to it.

    Gains and offsets are those that the engine uses, in fp16.
    """
    call = call_of_layer(layer)
    assert call is not None, "gain and offset alone is numbered otherwise"  # noqa: S101 - the caller looked
    rank = layer.core_types[0].rank
    slots = tuple(affine_key(affine_of_stage(stage, rank)) for stage in joined)
    return (layer.kind.name, call.op, attributes_key(call.attributes), slots)


def affine_key(affine: Affine) -> Key:
    """Return a gain and an offset as the engine uses them; one number along no axis."""
    return (
        *(None if part is None else (part.shape, host_fp16(part).tobytes()) for part in (affine.gain, affine.offset)),
        affine.axis if affine.vector else None,
    )


def attributes_key(attributes: Mapping[str, AttributeValue]) -> Key:
    """Return attributes in an order of their own; their texts distinguish 0 and −0."""
    return tuple((name, repr(value)) for name, value in sorted(attributes.items()))
