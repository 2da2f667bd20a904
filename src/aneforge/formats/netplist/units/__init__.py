"""How every layer type becomes operations of a graph: by its row of the table of layers, or by a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.formats.netplist.rows import rows
from aneforge.formats.netplist.units.attention_units import ATTENTION
from aneforge.formats.netplist.units.elementwise_units import ELEMENTWISE
from aneforge.formats.netplist.units.geometry_units import GEOMETRY
from aneforge.formats.netplist.units.movement_units import MOVEMENT
from aneforge.formats.netplist.units.ranking_units import RANKING
from aneforge.formats.netplist.units.read_row import read_row
from aneforge.formats.netplist.units.rearrangement_units import REARRANGEMENT
from aneforge.formats.netplist.units.reduction_units import REDUCTION
from aneforge.formats.netplist.units.window_units import WINDOWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.netplist.layer import LayerReader

__all__ = ["READERS"]

READERS: Mapping[str, LayerReader] = {
    **dict.fromkeys((row.kind for row in rows()), read_row),
    **ATTENTION,
    **ELEMENTWISE,
    **GEOMETRY,
    **MOVEMENT,
    **RANKING,
    **REARRANGEMENT,
    **REDUCTION,
    **WINDOWS,
}
