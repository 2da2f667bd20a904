"""The greedy list scheduler: of the layers that are ready, the one of highest priority goes next.

Ties are broken in the documented order: membership in a ring buffer, branch-sibling score, merge-sibling score, the
branch test that minds the working set, topological order, number of the layer. Scores and directions that no source
gives are data (`data/schedule.toml`).
"""

from __future__ import annotations

import heapq
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from aneforge.compiler.schedule.branches import branch_footprints
from aneforge.compiler.schedule.flow import ring_values
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.schedule.flow import Flow
    from aneforge.compiler.schedule.rules import Rules

__all__ = ["Priority", "list_order", "ring_members"]


class Priority(NamedTuple):
    """Why a layer goes before others: fields in the order of the tie-break, the smaller one first."""

    outside_rings: bool
    branch_sibling: int
    merge_sibling: int
    footprint: int
    depth: int
    number: int


@dataclass(eq=False)
class Scheduler:
    """The ready layers of a segment in a heap; an entry whose scores have changed since is passed over."""

    flow: Flow
    rules: Rules
    footprints: Sequence[int]
    rings: frozenset[int]
    heap: list[Priority] = field(default_factory=list[Priority])
    branched: set[str] = field(default_factory=set[str])
    """Values of which a branch was started."""
    met: set[int] = field(default_factory=set[int])
    """Layers that already wait with an operand."""

    def __post_init__(self) -> None:
        count = len(self.flow.layers)
        self.branch_scores = [0] * count
        self.merge_scores = [0] * count
        self.missing = [len(before) for before in self.flow.predecessors]
        self.done = [False] * count

    def priority(self, number: int) -> Priority:
        """Return the priority that a layer has now."""
        depth = self.flow.depths[number]
        return Priority(
            number not in self.rings,
            -self.branch_scores[number],
            -self.merge_scores[number],
            -self.footprints[number],
            -depth if self.rules.topological_order == "deepest first" else depth,
            number,
        )

    def push(self, number: int) -> None:
        """Put a layer into the heap if it is ready."""
        if not self.missing[number] and not self.done[number]:
            heapq.heappush(self.heap, self.priority(number))

    def run(self) -> list[int]:
        """Return the layers in the order in which they are scheduled."""
        for number in range(len(self.flow.layers)):
            self.push(number)
        order: list[int] = []
        while self.heap:
            entry = heapq.heappop(self.heap)
            if self.done[entry.number] or entry != self.priority(entry.number):
                continue
            order.append(entry.number)
            self.schedule(entry.number)
        return order

    def schedule(self, number: int) -> None:
        """Note that a layer was scheduled: its readers come nearer, its siblings' scores change."""
        self.done[number] = True
        for reader in self.flow.successors[number]:
            self.missing[reader] -= 1
            self.push(reader)
        self.score_branch_siblings(number)
        self.score_merge_siblings(number)

    def score_branch_siblings(self, number: int) -> None:
        """Score, once each, the other readers of the values from which this layer began the first branch."""
        for value in self.flow.layers[number].bottoms:
            if value.name in self.branched or value.name not in self.flow.writers:
                continue
            self.branched.add(value.name)
            for sibling in self.flow.readers[value.name]:
                if sibling != number and not self.done[sibling]:
                    self.branch_scores[sibling] = self.rules.branch_sibling_score
                    self.push(sibling)

    def score_merge_siblings(self, number: int) -> None:
        """Score the other writers of what a reader of this layer's results still waits for."""
        for reader in self.flow.successors[number]:
            if reader in self.met:
                continue
            self.met.add(reader)
            for sibling in self.flow.predecessors[reader]:
                if sibling != number and not self.done[sibling]:
                    self.merge_scores[sibling] += self.rules.merge_sibling_score
                    self.push(sibling)


def ring_members(flow: Flow, rules: Rules) -> frozenset[int]:
    """Return the layers that read or write a ring buffer."""
    rings = ring_values(flow.layers, rules)
    writers = {flow.writers[name] for name in rings if name in flow.writers}
    return frozenset(writers.union(*(flow.readers.get(name, ()) for name in rings)))


def list_order(flow: Flow, bytes_of: Sequence[int], limit: int, rules: Rules) -> list[int]:
    """Return the layers of a segment in the order in which they run.

    `bytes_of` is what the results of each layer take on chip, `limit` the size of the on-chip memory.
    """
    footprints = branch_footprints(flow, bytes_of, limit)
    return Scheduler(flow, rules, footprints, ring_members(flow, rules)).run()
