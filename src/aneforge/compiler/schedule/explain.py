"""Why two layers of a schedule are not chained, or do not run at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.memory.chip import on_chip
from aneforge.compiler.schedule.chaining import ChainCondition, Chaining, ChainVerdict
from aneforge.compiler.schedule.coissue import CoissueVerdict, Discovery, Disqualifier
from aneforge.compiler.schedule.flow import flow_of
from aneforge.compiler.schedule.rules import rules as standard_rules
from aneforge.errors import UnknownNameError

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.schedule.rules import Rules
    from aneforge.compiler.schedule.schedule import Schedule

__all__ = ["explain_chaining", "explain_coissue"]


def explain_chaining(
    program: Program, schedule: Schedule, first: str, second: str, rules: Rules | None = None
) -> ChainVerdict:
    """Return whether a layer is chained into another, and the first condition that fails if not.

    >>> import aneforge as af
    >>> from aneforge.compiler.compile import build_program
    >>> from aneforge.targets import Family
    >>> from aneforge.compiler.schedule.schedule import schedule
    >>> x = af.input((1, 4, 8, 8))
    >>> program = build_program(x.softmax(1) + x.max_pool(3, stride=1, pad=1), Family.A14)
    >>> print(explain_chaining(program, schedule(program), "t1", "t2"))
    %t1 and %t2: not chained, one reader: %t1 is read by %t3

    Raises:
        UnknownNameError: There is no such layer.
    """
    segments = segments_of(program, first, second)
    for verdict in schedule.chain_verdicts:
        if (verdict.first, verdict.second) == (first, second):
            return verdict
    if segments[0] != segments[1]:
        return ChainVerdict(
            first, second, ChainCondition.ONE_READER, f"%{first} and %{second} are in different segments"
        )
    chaining = chaining_of(program, segments[0], rules)
    places = {name: place for place, name in enumerate(schedule.order)}
    numbers = {layer.name: number for number, layer in enumerate(chaining.flow.layers)}
    return chaining.verdict(numbers[first], numbers[second], abs(places[second] - places[first]) - 1)


def explain_coissue(
    program: Program, schedule: Schedule, first: str, second: str, rules: Rules | None = None
) -> CoissueVerdict:
    """Return whether two layers run at the same time, and the first reason if not.

    >>> import aneforge as af
    >>> from aneforge.compiler.compile import build_program
    >>> from aneforge.targets import Family
    >>> from aneforge.compiler.schedule.schedule import schedule
    >>> x = af.input((1, 4, 8, 8))
    >>> program = build_program(x.softmax(1).max_pool(2), Family.A14)
    >>> print(explain_coissue(program, schedule(program), "t1", "t2"))
    %t1 and %t2: not co-issued, same class: PE and PE

    Raises:
        UnknownNameError: There is no such layer.
    """
    segments = segments_of(program, first, second)
    for verdict in schedule.coissue_verdicts:
        if {verdict.first, verdict.second} == {first, second}:
            return verdict
    if segments[0] != segments[1]:
        detail = f"%{second} is not scheduled in the segment of %{first}"
        return CoissueVerdict(first, second, Disqualifier.UNSCHEDULED, detail)
    chaining = chaining_of(program, segments[0], rules)
    numbers = {layer.name: number for number, layer in enumerate(chaining.flow.layers)}
    order = [numbers[name] for name in schedule.order if name in numbers]
    chained = frozenset(
        (numbers[pair.first], numbers[pair.second]) for pair in schedule.chained if pair.first in numbers
    )
    discovery = Discovery(chaining.flow, chaining, order, chained)
    earlier, later = sorted((numbers[first], numbers[second]), key=order.index)
    between = order[order.index(earlier) + 1 : order.index(later)]
    reason = discovery.disqualified(earlier, later, between)
    detail = f"{len(between)} layers run between them"
    return CoissueVerdict(first, second, *(reason or (Disqualifier.APART, detail)))


def segments_of(program: Program, first: str, second: str) -> tuple[int, int]:
    """Return the segments of two layers.

    Raises:
        UnknownNameError: There is no such layer.
    """
    known = {layer.name: layer.segment for layer in program.layers}
    for name in (first, second):
        if name not in known:
            raise UnknownNameError.of("layer", name, known)
    return known[first], known[second]


def chaining_of(program: Program, segment: int, rules: Rules | None) -> Chaining:
    """Return the conditions for the layers of a segment."""
    rules = rules or standard_rules()
    (found,) = (one for one in program.segments if one.number == segment)
    return Chaining(flow_of(program, found), on_chip(program.target, rules), rules)
