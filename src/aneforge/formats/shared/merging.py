"""Axes that move together, merged: a view of more axes than any engine holds, between two reshapes.

Frameworks split images into windows and pixels into channels by a reshape to six axes or more, a transpose and a
reshape back. Most of those axes stay next to their neighbours, and some have length 1; without these, five are mostly
enough. Where they are not, the axes are moved one at a time. What nobody reads of more axes is not made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from aneforge.graph.convert import unroll
from aneforge.graph.node import Node, Output, all_types, build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument

__all__ = ["merge_axes", "merge_moves"]

MOST_AXES = 5
"""Of a tensor that an engine holds, whatever its generation."""
Move = tuple[tuple[int, ...], tuple[int, ...]]
"""A shape that the elements are seen in, and the order in which its axes are taken."""


def merge_axes(graph: Graph) -> Graph:
    """Return a graph without views of more than five axes that are made to be transposed and reshaped again.

    >>> import aneforge as af
    >>> x = af.input((2, 6, 6, 4))
    >>> def moved(op, x, **how):
    ...     return Tensor(build(op, {"x": x}, how))
    >>> windows = moved("transpose", moved("reshape", x, shape=(2, 3, 2, 3, 2, 4)), perm=(0, 1, 3, 2, 4, 5))
    >>> made = merge_axes(af.Graph({"y": moved("reshape", windows, shape=(18, 2, 2, 4))}))
    >>> [str(node.types[0]) for node in made.nodes]
    ['fp16[2, 6, 6, 4]', 'fp16[6, 2, 3, 8]', 'fp16[6, 3, 2, 8]', 'fp16[18, 2, 2, 4]']
    """
    if all(kind.rank <= MOST_AXES for node in graph.nodes for kind in all_types(node)):
        return graph
    graph = unroll(graph).graph
    readers = graph.consumers
    returned = {output.node for output in (*graph.outputs.values(), *graph.states.values())}

    def is_passed_on(node: Node) -> bool:
        return node not in returned and len(readers[node]) == 1

    def replace(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        turned = turns_before(node)
        view = made_by(turned[-1], "transpose", "reshape") if turned else None
        if view is None or view.types[0].rank <= MOST_AXES or not all(map(is_passed_on, (*turned, view))):
            return None
        # The nodes between were made again, of more axes; nothing reads them any more.
        now = operands["x"]
        for _ in (*turned, view):
            now = cast("Output", now).node.operands["x"]
        for shape, order in merge_moves(view.types[0].shape, order_of(turned)):
            seen = Tensor(build("reshape", {"x": now}, {"shape": shape}, turned[0].location))
            now = Tensor(build("transpose", {"x": seen}, {"perm": order}, turned[0].location))
        return [Tensor(build("reshape", {"x": now}, {"shape": node.types[0].shape}, node.location))]

    return rewrite(graph, replace)


def turns_before(node: Node) -> list[Node]:
    """Return the transposes whose result a reshape reads, the last of them first."""
    found: list[Node] = []
    source = made_by(node, "reshape", "transpose")
    while source is not None:
        found.append(source)
        source = made_by(source, "transpose", "transpose")
    return found


def order_of(turned: Sequence[Node]) -> list[int]:
    """Return the order in which several transposes, the last of them first, take the axes of what the first reads."""
    order = list(turned[-1].integers("perm"))
    for one in reversed(turned[:-1]):
        order = [order[axis] for axis in one.integers("perm")]
    return order


def made_by(node: Node, op: str, source: str) -> Node | None:
    """Return the node that makes the operand of a node, if they are of these two operations."""
    if node.op.name != op:
        return None
    value = node.operands["x"]
    return value.node if isinstance(value, Output) and value.node.op.name == source else None


def merge_moves(shape: Sequence[int], order: Sequence[int]) -> list[Move]:
    """Return moves of at most five axes that together take the axes of a shape in an order; none where nothing moves.

    >>> merge_moves((2, 3, 4, 3, 4, 8), (0, 1, 3, 2, 4, 5))
    [((6, 4, 3, 32), (0, 2, 1, 3))]
    >>> merge_moves((1, 5, 1, 7), (2, 0, 1, 3))
    []
    >>> merge_moves((2, 3, 4, 5, 6, 7), (5, 4, 3, 2, 1, 0))[:2]
    [((1, 720, 7, 1), (0, 2, 1, 3)), ((7, 120, 6, 1), (0, 2, 1, 3))]
    """
    kept = [axis for axis in order if shape[axis] != 1]
    places = {axis: place for place, axis in enumerate(sorted(kept))}
    blocks: list[list[int]] = []
    for axis in kept:
        if blocks and places[axis] == places[blocks[-1][-1]] + 1:
            blocks[-1].append(axis)
        else:
            blocks.append([axis])
    source = sorted(blocks)
    if source == blocks:
        return []
    lengths = [math.prod(shape[axis] for axis in block) for block in source]
    if len(blocks) <= MOST_AXES:
        return [(tuple(lengths), tuple(source.index(block) for block in blocks))]
    return move_one_by_one(lengths, [source.index(block) for block in blocks])


def move_one_by_one(lengths: Sequence[int], order: Sequence[int]) -> list[Move]:
    """Return moves that bring one axis after another to its place: what is in place, before it, it, and after it."""
    moves: list[Move] = []
    left, done = list(range(len(lengths))), 1
    for axis in order:
        place = left.index(axis)
        if place:
            before, after = (math.prod(lengths[one] for one in part) for part in (left[:place], left[place + 1 :]))
            moves.append(((done, before, lengths[axis], after), (0, 2, 1, 3)))
        left.remove(axis)
        done *= lengths[axis]
    return moves
