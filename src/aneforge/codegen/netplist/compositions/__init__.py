"""Operations without a layer of their own, rebuilt from those that have one before anything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.codegen.netplist.compositions.activation import ACTIVATION
from aneforge.codegen.netplist.compositions.layers import LAYERS
from aneforge.codegen.netplist.compositions.movement import MOVEMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.codegen.netplist.compose import Composition

__all__ = ["ARITHMETIC", "COMPOSITIONS"]

ARITHMETIC = frozenset({*ACTIVATION, *LAYERS})
"""Those that compute, which they do in fp16; the others move elements of any type."""
COMPOSITIONS: Mapping[str, Composition] = {**ACTIVATION, **LAYERS, **MOVEMENT}
