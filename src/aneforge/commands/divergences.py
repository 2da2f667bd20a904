"""Every target against the first: where answers can differ.

By default the compiled programs are compared layer by layer, which takes no time; a deep check follows ranges through
them, so that it proves more of them equal and bounds the differences. Both say that two targets *may differ*. Sample
inputs make a check deep, and are run: only what is seen in their outputs *differs*.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aneforge.graph.graph import read_promises
from aneforge.report.model import DIFFERS, MAY_DIFFER, SAME, Difference, Divergence
from aneforge.targets.names import known_as
from aneforge.targets.watching import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.analysis.divergence.graphs import Divergence as Found
    from aneforge.analysis.divergence.graphs import Side
    from aneforge.commands.sampling import SampleRuns
    from aneforge.commands.sharing import Made
    from aneforge.compiler.compile import Compiled
    from aneforge.compiler.ir.program import Program
    from aneforge.errors import Location
    from aneforge.graph.convert import Change
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array
    from aneforge.targets import Target

    Ranges = Mapping[str, tuple[float, float] | float]

__all__ = ["compare_targets", "datapath_key"]

ANY = ""
"""Stands for any operation at a place."""


def compare_targets(
    graph: Graph,
    made: Sequence[tuple[Target, Made]],
    ranges: Ranges,
    tell: Callable[[str, int, int], None],
    *,
    deep: bool,
    runs: SampleRuns | None = None,
) -> tuple[Divergence, ...]:
    """Return the differences of every further target from the first; what has no program is left out.

    Targets of one program and one datapath are looked at once. With `runs` the programs are run on samples too.
    """
    with_program = [(target, one.compiled) for target, one in made if one.compiled is not None]
    if len(with_program) <= 1:
        return ()
    (first, start), *others = with_program
    looking = Deep(graph, ranges) if deep else at_a_glance(graph, ranges)
    sides: dict[object, Side] = {}
    answers: dict[int, Found] = {}
    found: list[Divergence] = []
    at = numbers_by_place(graph)

    def side(target: Target, compiled: Compiled) -> Side:
        key = datapath_key(target, compiled)
        if key not in sides:
            sides[key] = looking.side(compiled.graph, compiled.retargeted.changes, compiled.program)
        return sides[key]

    for number, (target, compiled) in enumerate(others, 1):
        if target is first:
            continue
        tell(f"comparing {name_of(first)} with {name_of(target)}", number, len(with_program))
        other = side(target, compiled)
        if id(other) not in answers:
            answers[id(other)] = looking.between(side(first, start), other)
        pair = reported(answers[id(other)], at, first.name, target.name)
        seen = pair
        if runs is not None:
            seen = with_samples(pair, runs.outputs(first, start), runs.outputs(target, compiled))
        found.append(seen)
    return tuple(found)


def name_of(target: Target) -> str:
    """Return a target for the user who waits: by a chip, where one has its engine."""
    return known_as(target) or target.name


def at_a_glance(graph: Graph, ranges: Ranges) -> Looking:
    """Return the comparison by layers, which follows no ranges but to what is cut."""
    from aneforge.analysis.divergence.glance import Glance  # noqa: PLC0415 - a check of one target needs none of it

    given = {name: max(map(abs, ends)) if isinstance(ends, tuple) else ends for name, ends in ranges.items()}
    return Glance({**read_promises(graph), **given})


class Looking(Protocol):
    """A way of comparing programs."""

    def side(self, graph: Graph, changes: tuple[Change, ...], program: Program) -> Side:
        """Return a program as one side of a comparison."""
        ...

    def between(self, first: Side, second: Side) -> Found:
        """Return where two sides can differ."""
        ...


class Deep:
    """The comparison that follows ranges through both programs; a program is looked at once."""

    def __init__(self, graph: Graph, ranges: Ranges) -> None:
        from aneforge.analysis.divergence.numbering import Numbering  # noqa: PLC0415 - few checks prove anything
        from aneforge.analysis.ranges.program_ranges import declared_ranges  # noqa: PLC0415 - as above

        self.numbering, self.inputs = Numbering(), declared_ranges(graph, ranges)

    def side(self, graph: Graph, changes: tuple[Change, ...], program: Program) -> Side:
        """Return a program as one side of a comparison."""
        from aneforge.analysis.divergence.graphs import Side as Compared  # noqa: PLC0415 - as above
        from aneforge.analysis.ranges.program_ranges import flow  # noqa: PLC0415 - as above

        found = flow(program, self.inputs)
        return Compared(graph, changes, self.numbering.program(program, found.ranges), found)

    def between(self, first: Side, second: Side) -> Found:
        """Return where two sides can differ, and by how much."""
        from aneforge.analysis.divergence.graphs import between  # noqa: PLC0415 - as above

        return between(first, second, self.numbering)


def with_samples(pair: Divergence, first: Mapping[str, Array] | None, second: Mapping[str, Array] | None) -> Divergence:
    """Return a comparison with what sample inputs showed in the outputs, where both have some."""
    if first is None or second is None:
        return pair
    from aneforge.commands.output_errors import same_bits  # noqa: PLC0415 - few checks have samples

    differing = sum(int(np.count_nonzero(~same_bits(array, second[name]))) for name, array in first.items())
    word = DIFFERS if differing else pair.word
    return replace(pair, word=word, differing=differing, elements=sum(array.size for array in first.values()))


def numbers_by_place(graph: Graph) -> Mapping[tuple[Location | None, str], int]:
    """Return the numbers of nodes by their places and operations; where one has no node, the place's last has it."""
    placed = [(number, node) for number, node in enumerate(graph.nodes) if node.location is not None]
    last = {(node.location, ANY): number for number, node in placed}
    return last | {(node.location, node.op.name): number for number, node in reversed(placed)}


def reported(found: Found, at: Mapping[tuple[Location | None, str], int], first: str, second: str) -> Divergence:
    """Return what was found as a report holds it; targets that share a program have an answer each by their name."""
    differences = tuple(
        Difference(
            node=at.get((one.location, one.op), at.get((one.location, ANY))),
            layer=one.layer,
            op=one.op,
            strength=str(one.strength),
            cause=str(one.cause),
            bound=one.bound if math.isfinite(one.bound) else None,
            detail=replace(one, targets=(first, second)).detail
            + ("" if one.on_engine else "; the engine models both alike"),
        )
        for one in found.findings
    )
    return Divergence(first, second, str(found.on_silicon), differences, MAY_DIFFER if differences else SAME)


def datapath_key(target: Target, compiled: Compiled) -> object:
    """Return what the values of a program depend on: its layers, and all that is known of the target's datapath."""
    datapath = tuple((name, target.datapath.get(name)) for name in target.datapath)
    return id(compiled.program.layers), kind_of(target), datapath
