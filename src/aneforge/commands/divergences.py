"""Every target against the first: where answers can differ.

By default the compiled programs are compared layer by layer, which takes no time; a deep check follows ranges through
them, so that it proves more of them equal and bounds the differences.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.graph.graph import read_promises
from aneforge.report.model import Difference, Divergence

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.analysis.divergence.graphs import Divergence as Found
    from aneforge.analysis.divergence.graphs import Side
    from aneforge.commands.sharing import Made
    from aneforge.errors import Location
    from aneforge.graph.graph import Graph
    from aneforge.targets import Target

    Ranges = Mapping[str, tuple[float, float] | float]

__all__ = ["compared"]

ANY = ""
"""Stands for any operation at a place."""


def compared(
    graph: Graph,
    made: Sequence[tuple[Target, Made]],
    ranges: Ranges,
    tell: Callable[[str, int, int], None],
    *,
    deep: bool,
) -> tuple[Divergence, ...]:
    """Return the differences of every further target from the first; what has no program is left out."""
    with_program = [(target, one) for target, one in made if one.compiled is not None]
    if len(with_program) <= 1:
        return ()
    first, *others = with_program
    others = [(target, one) for target, one in others if target is not first[0]]
    if not deep:
        return at_a_glance(graph, first, others, ranges)
    found: list[Divergence] = []
    for number, (target, _) in enumerate(others, 1):
        tell(f"comparing {first[0].name} with {target.name}", number, len(with_program))
        try:
            found.append(by_program(graph, first[0], target, ranges))
        except GraphError:
            continue  # it has a program by the direct route alone
    return tuple(found)


def at_a_glance(
    graph: Graph, first: tuple[Target, Made], others: Sequence[tuple[Target, Made]], ranges: Ranges
) -> tuple[Divergence, ...]:
    """Return what the layers of the programs tell; targets of one program and one datapath are looked at once."""
    from aneforge.analysis.divergence.glance import Glance  # noqa: PLC0415 - a check of one target needs none of it

    given = {name: max(map(abs, ends)) if isinstance(ends, tuple) else ends for name, ends in ranges.items()}
    glance = Glance({**read_promises(graph), **given})
    sides: dict[object, Side] = {}

    def side(target: Target, made: Made) -> Side:
        assert made.compiled is not None, "it has a program"  # noqa: S101 - `compared` leaves the others out
        program = made.compiled.program
        datapath = tuple((name, target.datapath.get(name)) for name in target.datapath)
        key = id(program.layers), target.family, datapath
        if key not in sides:
            sides[key] = glance.side(made.compiled.graph, made.compiled.changes, program)
        return sides[key]

    at, start = numbers_by_place(graph), side(*first)
    answers: dict[int, Found] = {}
    found: list[Divergence] = []
    for target, made in others:
        other = side(target, made)
        if id(other) not in answers:
            answers[id(other)] = glance.between(start, other)
        found.append(reported(answers[id(other)], at, first[0].name, target.name))
    return tuple(found)


def by_program(graph: Graph, first: Target, second: Target, ranges: Ranges) -> Divergence:
    """Return where the programs of two targets can give different bits, for inputs within the ranges.

    Raises:
        GraphError: There is no program for one of them.
    """
    from aneforge.analysis.divergence.graphs import divergence  # noqa: PLC0415 - few checks prove anything

    found = divergence(graph, first, second, ranges=ranges)
    return reported(found, numbers_by_place(graph), first.name, second.name)


def numbers_by_place(graph: Graph) -> Mapping[tuple[Location | None, str], int]:
    """Return the numbers of nodes by their places and operations; where one has no node, the place's last has it."""
    placed = [(number, node) for number, node in enumerate(graph.nodes) if node.location is not None]
    last = {(node.location, ANY): number for number, node in placed}
    return last | {(node.location, node.op.name): number for number, node in reversed(placed)}


def reported(found: Found, at: Mapping[tuple[Location | None, str], int], first: str, second: str) -> Divergence:
    """Return what was found as a report holds it."""
    differences = tuple(
        Difference(
            node=at.get((one.location, one.op), at.get((one.location, ANY))),
            layer=one.layer,
            op=one.op,
            strength=str(one.strength),
            cause=str(one.cause),
            bound=one.bound if math.isfinite(one.bound) else None,
            detail=one.detail if one.on_engine else f"{one.detail}; the engine models both alike",
        )
        for one in found.findings
    )
    return Divergence(first, second, str(found.on_silicon), differences)
