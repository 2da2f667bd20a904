"""How operations of a graph become units: one function per operation, one module per group of layer types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.codegen.netplist.emit.attention import ATTENTION
from aneforge.codegen.netplist.emit.elementwise import ELEMENTWISE
from aneforge.codegen.netplist.emit.geometry import GEOMETRY
from aneforge.codegen.netplist.emit.movement import MOVEMENT
from aneforge.codegen.netplist.emit.ranking import RANKING
from aneforge.codegen.netplist.emit.reduction import REDUCTION
from aneforge.codegen.netplist.emit.windows import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.codegen.netplist.call import Writer

__all__ = ["WRITERS"]

WRITERS: Mapping[str, Writer] = {
    **ATTENTION,
    **ELEMENTWISE,
    **GEOMETRY,
    **MOVEMENT,
    **RANKING,
    **REDUCTION,
    **WINDOWS,
}
