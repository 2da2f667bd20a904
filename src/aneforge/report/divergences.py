"""Every target against the first: where answers can differ.

By default the documented prediction for each operation answers, which takes no time; a deep check compares the compiled
programs, bit by bit, for the ranges given.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.report.model import Difference, Divergence
from aneforge.report.sharing import answer_of, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.report.sharing import Answers, Question
    from aneforge.targets import Target

    Ranges = Mapping[str, tuple[float, float] | float]

__all__ = ["compared"]

NONE = "none"
BY_OPERATION = "operation"
SUMS_NOTHING = frozenset({"batch_norm"})
"""Operations that the documented prediction counts as norms by their names, and that have no sum whose order could
differ: the statistics of this one are given, so it is a gain and an offset, which fold into their neighbours."""


def compared(
    graph: Graph,
    targets: Sequence[Target],
    ranges: Ranges,
    tell: Callable[[str, int, int], None],
    *,
    deep: bool,
) -> tuple[Divergence, ...]:
    """Return the differences of every further target from the first; a deep look leaves out what has no program."""
    found: list[Divergence] = []
    alike = Alike(graph, targets[0])
    for number, target in enumerate(targets[1:], 1):
        if target is targets[0]:
            continue
        if not deep:
            differences = alike.of(target)
            strength = differences[0].strength if differences else NONE
            found.append(Divergence(targets[0].name, target.name, strength, differences))
            continue
        tell(f"comparing {targets[0].name} with {target.name}", number, len(targets))
        try:
            found.append(by_program(graph, targets[0], target, ranges))
        except GraphError:
            continue  # the report of that target says why there is no program
    return tuple(found)


class Alike:
    """The documented prediction against one target, made once for all targets that answer its questions alike."""

    def __init__(self, graph: Graph, first: Target) -> None:
        self.graph, self.first = graph, first
        self.found: list[tuple[Answers, tuple[Difference, ...]]] = []

    def of(self, target: Target) -> tuple[Difference, ...]:
        """Return the differences of a target."""
        for answers, differences in self.found:
            if all(answer_of(target, question) == answer for question, answer in answers):
                return differences
        asked: set[Question] = set()
        made = by_operation(self.graph, self.first, watched(target, asked))
        self.found.append((tuple((question, answer_of(target, question)) for question in asked), made))
        return made


def by_operation(graph: Graph, first: Target, second: Target) -> tuple[Difference, ...]:
    """Return the documented prediction for each operation that it can be true of, the strongest first."""
    from aneforge.predict.crosscompile import verdicts_on  # noqa: PLC0415 - a check of one target needs none of it

    numbers = {node: number for number, node in enumerate(graph.nodes)}
    return tuple(
        Difference(numbers[node], "", node.op.name, str(strength), BY_OPERATION, None, "documented for the operation")
        for node, strength in verdicts_on(graph, first, second)
        if node.op.name not in SUMS_NOTHING
    )


def by_program(graph: Graph, first: Target, second: Target, ranges: Ranges) -> Divergence:
    """Return where the programs of two targets can give different bits.

    Raises:
        GraphError: There is no program for one of them.
    """
    from aneforge.predict.divergence.graphs import divergence  # noqa: PLC0415 - few checks compare programs

    found = divergence(graph, first, second, ranges=ranges)
    at = {node.location: number for number, node in enumerate(graph.nodes) if node.location is not None}
    differences = tuple(
        Difference(
            node=at.get(one.location) if one.location is not None else None,
            layer=one.layer,
            op=one.op,
            strength=str(one.strength),
            cause=str(one.cause),
            bound=one.bound if math.isfinite(one.bound) else None,
            detail=one.detail if one.on_engine else f"{one.detail}; the engine models both alike",
        )
        for one in found.findings
    )
    return Divergence(found.first, found.second, str(found.on_silicon), differences)
