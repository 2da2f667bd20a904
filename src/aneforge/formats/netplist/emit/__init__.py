"""How operations of a graph become units: by their rows of the table of layers, or by a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.netplist.emit.emit_attention import ATTENTION
from aneforge.formats.netplist.emit.emit_elementwise import ELEMENTWISE
from aneforge.formats.netplist.emit.emit_movement import MOVEMENT
from aneforge.formats.netplist.emit.emit_ranking import RANKING
from aneforge.formats.netplist.emit.emit_reduction import REDUCTION
from aneforge.formats.netplist.emit.emit_windows import WINDOWS
from aneforge.formats.netplist.emit.write_row import write_row
from aneforge.formats.netplist.rows import rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.netplist.call import Writer

__all__ = ["WRITERS"]

WRITERS: Mapping[str, Writer] = {
    **dict.fromkeys((row.op for row in rows()), write_row),
    **ATTENTION,
    **ELEMENTWISE,
    **MOVEMENT,
    **RANKING,
    **REDUCTION,
    **WINDOWS,
}
