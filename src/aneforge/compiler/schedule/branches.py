"""Diamonds: where a value branches and the branches meet again, and how much memory each branch needs meanwhile.

When both ends of a diamond fit on chip, the branch with the larger footprint runs first while its peak still fits: it
is drained before the working set grows. A diamond inside a branch counts as one step of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.schedule.flow import Flow

__all__ = ["Branch", "branch_footprints", "branches_from"]


@dataclass(frozen=True, slots=True)
class Branch:
    """A path from a branching value to the layer in which it meets others."""

    head: int
    """Its first layer."""
    end: int | None
    """The layer in which it meets another; None where it leaves the segment or falls apart."""
    footprint: int
    """The most bytes of its own that are live at a time; 0 for a branch without layers."""
    layers: tuple[int, ...]
    """The layers that are in it and in no diamond inside it."""


class Diamonds:
    """Finds branches from the end of a segment to its beginning, so that inner diamonds are known first."""

    def __init__(self, flow: Flow, bytes_of: Sequence[int]) -> None:
        self.flow = flow
        self.bytes_of = bytes_of
        """Bytes of all results of each layer."""
        self.joins: dict[int, tuple[int, int]] = {}
        """The layer in which all branches of a branching layer meet, and the most bytes between the two."""

    def branches(self, heads: Sequence[int], source: int | None) -> list[Branch]:
        """Return the branches of a branching value; `source` is the layer that wrote it, if one of the segment did."""
        found = [self.walk(head, source) for head in heads]
        ends = {branch.end for branch in found}
        if source is not None and len(ends) == 1 and (join := ends.pop()) is not None:
            inside = max(branch.footprint for branch in found)
            self.joins[source] = join, inside
        return found

    def walk(self, head: int, source: int | None) -> Branch:
        """Follow a branch until it meets another."""
        node, before, footprint = head, source, 0
        joined = False
        passed: list[int] = []
        while True:
            meets_others = len(self.flow.predecessors[node]) > (before is not None)
            if meets_others and not joined:
                return Branch(head, node, footprint, tuple(passed))
            passed.append(node)
            incoming = sum(self.bytes_of[layer] for layer in self.flow.predecessors[node]) if before != source else 0
            footprint = max(footprint, incoming + self.bytes_of[node])
            readers = self.flow.successors[node]
            if not readers:
                return Branch(head, None, footprint, tuple(passed))
            before, joined = node, len(readers) > 1
            if not joined:
                (node,) = readers
                continue
            if node not in self.joins:
                return Branch(head, None, footprint, tuple(passed))
            node, inside = self.joins[node]
            footprint = max(footprint, self.bytes_of[before] + inside)


def branches_from(flow: Flow, bytes_of: Sequence[int]) -> list[tuple[int | None, list[Branch]]]:
    """Return the branches of every branching layer, inner diamonds first, then those of what comes from outside.

    A layer of several results branches as one.
    """
    diamonds = Diamonds(flow, bytes_of)
    found: list[tuple[int | None, list[Branch]]] = [
        (number, diamonds.branches(flow.successors[number], number))
        for number in reversed(range(len(flow.layers)))
        if len(flow.successors[number]) > 1
    ]
    for name, readers in flow.readers.items():
        if name not in flow.writers and len(readers) > 1:
            found.append((None, diamonds.branches(readers, None)))
    return found


def branch_footprints(flow: Flow, bytes_of: Sequence[int], limit: int) -> list[int]:
    """Return for every layer the footprint by which its branch goes before others; 0 where the rule does not apply.

    It applies to a branch that meets a sibling, when the branching value and the results of the join fit into the limit
    together, and when the branch's peak (the branching value included) fits too.
    """
    scores: dict[int, int] = {}
    for source, branches in branches_from(flow, bytes_of):
        held = 0 if source is None else bytes_of[source]
        meeting: dict[int, list[Branch]] = {}
        for branch in branches:
            if branch.end is not None:
                meeting.setdefault(branch.end, []).append(branch)
        for join, siblings in meeting.items():
            if len(siblings) < 2 or held + bytes_of[join] > limit:
                continue
            for branch in siblings:
                if held + branch.footprint <= limit:
                    scores.update(dict.fromkeys(branch.layers, branch.footprint))
    return [scores.get(number, 0) for number in range(len(flow.layers))]
