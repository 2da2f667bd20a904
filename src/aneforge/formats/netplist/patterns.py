"""Several operations of a graph that are one layer together.

Blocks of two factors: a reshape, a transpose and a reshape. Columns in one channel's order: the places of that
channel's sort or topk, repeated for all channels and gathered. The reader makes both so, for the op table has no
operation of its own for them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.formats.netplist.units.rearrangement_units import REARRANGEMENTS
from aneforge.graph.node import Output
from aneforge.ops.attributed import axis_order
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.netplist.units.rearrangement_units import Rearrangement
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node, Value

__all__ = ["Blocks", "Columns", "Pattern", "find_patterns"]

CHANNEL_AXIS, WIDTH_AXIS = 1, 3
IMAGE_RANK = 4


@dataclass(frozen=True, slots=True)
class Blocks:
    """A rearrangement of blocks of an image."""

    source: Output
    kind: str
    factors: tuple[int, int]
    """Of height and width."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns in the order of one channel."""

    source: Value
    lane: int
    ascending: bool
    count: int | None
    """How many are kept; None for all."""


Pattern = Blocks | Columns


def find_patterns(graph: Graph) -> Mapping[Node, Pattern]:
    """Return the nodes that end a pattern."""
    finders = {"reshape": blocks_of, "gather_along_axis": columns_of}
    found: dict[Node, Pattern] = {}
    for node in graph.nodes:
        finder = finders.get(node.op.name)
        pattern = finder(node) if finder else None
        if pattern is not None:
            found[node] = pattern
    return found


def source_of(node: Node | None, op: str, operand: str = "x") -> Output | None:
    """Return the value that gives a node an operand, if it is of a sort."""
    value = node.operands[operand] if node is not None else None
    return value if isinstance(value, Output) and value.node.op.name == op else None


def blocks_of(node: Node) -> Blocks | None:
    """Return the rearrangement that a reshape ends."""
    moved = source_of(node, "transpose")
    cut = source_of(moved.node, "reshape") if moved is not None else None
    image = cut.node.operands["x"] if cut is not None else None
    if moved is None or cut is None or not isinstance(image, Output) or len(image.shape) != IMAGE_RANK:
        return None
    order = axis_order(moved.node)
    for kind, table in REARRANGEMENTS.items():
        factors = factors_of(table, image.shape, cut.shape, order, node.types[0].shape)
        if factors is not None and factors != (1, 1):
            return Blocks(image, kind, factors)
    return None


def factors_of(
    table: Rearrangement, image: tuple[int, ...], cut: tuple[int, ...], order: tuple[int, ...], joined: tuple[int, ...]
) -> tuple[int, int] | None:
    """Return the factors of height and width with which a layer cuts, orders and joins axes so, or None."""
    letters = table.cut.replace(" ", "")
    if len(cut) != len(letters) or order != table.perm:
        return None
    extents = dict(zip(letters, cut, strict=True))
    groups = tuple(math.prod(extents[letter] for letter in group) for group in table.cut.split(" "))
    fits = groups == image and table.joined_shape(extents) == joined
    return (extents["y"], extents["x"]) if fits else None


def columns_of(node: Node) -> Columns | None:
    """Return the columns that a gather along the width takes in one channel's order."""
    image, repeated = node.operands["x"], source_of(node, "broadcast", "indices")
    if isinstance(image, tuple) or repeated is None or len(image.type.shape) != IMAGE_RANK:
        return None
    places = repeated.node.operands["x"]
    if not isinstance(places, Output) or node.integer("axis") not in (WIDTH_AXIS, -1):
        return None
    ranking = places.node
    is_sort, is_topk = ranking.op.name == "argsort", ranking.op.name == "topk" and places.index == 1
    key = source_of(ranking, "input_view") if is_sort or is_topk else None
    if key is None or ranking.integer("axis") not in (WIDTH_AXIS, -1):
        return None
    view = key.node
    lane, source = view.integer("offset"), view.operands["x"]
    one_row = image.type.shape[0] == image.type.shape[2] == 1 and view.integer("axis") == CHANNEL_AXIS
    if not is_same(source, image) or not one_row or key.shape[CHANNEL_AXIS] != 1:
        return None
    return Columns(image, lane, ranking.flag("ascending"), ranking.integer("k") if is_topk else None)


def is_same(one: Argument, other: Argument) -> bool:
    """Return whether two operands are one value."""
    if isinstance(one, Output) and isinstance(other, Output):
        return (one.node, one.index) == (other.node, other.index)
    return one is other
