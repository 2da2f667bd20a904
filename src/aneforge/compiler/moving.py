"""Layers that only move data: whether tensors longer than the engine's maxima may pass through them is a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.kind import Engine

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer

__all__ = ["CHANNELS", "SPATIAL", "only_moves"]

SPATIAL, CHANNELS = "ANE-EXTENT-001", "ANE-EXTENT-002"
"""The rules that say how long an axis may be on which the engine computes."""


def only_moves(layer: Layer) -> bool:
    """Return whether a layer moves data and may do so with any length; a slice reads only its part on any unit."""
    moves = layer.engine is Engine.DMA or layer.kind.name == "slice"
    return moves and decision("oversize_tensors").text() == "may be moved"
