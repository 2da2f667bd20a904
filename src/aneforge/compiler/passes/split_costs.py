"""What a split costs, in words: the layers that stand for one, and the bytes that they write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer

__all__ = ["cost_text"]


def cost_text(pieces: Sequence[Layer]) -> str:
    """Return how many layers stand for one that was too large, and what they write."""
    written = sum(value.type.nbytes for piece in pieces for value in piece.results)
    return f"{len(pieces)} layers ({written} bytes)" if len(pieces) != 1 else f"1 layer ({written} bytes)"
