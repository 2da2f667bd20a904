"""Which operands a layer may rewrite in place, by its kind and by their types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Value

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.schedule.rules import Rules

__all__ = ["rewritable"]


def rewritable(layer: Layer, rules: Rules) -> tuple[str, ...]:
    """Return the names of the operands over which a layer may write its result.

    A layer that makes each element from those in its place may rewrite any operand of the result's type; one that
    changes a part of its first operand may rewrite that one. An epilogue that moves elements forbids it.
    """
    moving = layer.epilogue.texture or layer.epilogue.broadcast or layer.epilogue.transpose
    if moving or len(layer.results) > 1:
        return ()
    refs: tuple[object, ...] = ()
    if layer.kind.name in rules.pointwise_kinds:
        refs = layer.bottoms
    elif layer.kind.name in rules.rewriting_kinds:
        refs = (layer.operand(layer.kind.operands[0].name),)
    return tuple(ref.name for ref in refs if isinstance(ref, Value) and ref.type == layer.result.type)
