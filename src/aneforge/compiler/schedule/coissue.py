"""Co-issue: a layer of the multiply-accumulate array and one of the planar engine that run at the same time.

Candidates are layers that compute and follow each other in the order; where the next one cannot be a partner, a later
one that is ready is brought forward: of several heads, the softmax of one runs with a product of another. Layers that
only move data between the two, and need nothing of the first, are done before both. A pair is disqualified for the
reasons that the guide gives, and for those that follow from running two layers in one step. Chaining and co-issue
exclude each other: a layer whose input could be chained is not co-issued, and a layer that is co-issued is not chained
into the next one.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.passes.kernels import kernel_of
from aneforge.compiler.schedule.chaining import engine_number
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.schedule.chaining import Chaining
    from aneforge.compiler.schedule.flow import Flow

__all__ = ["CoissueVerdict", "Discovery", "Disqualifier", "discover", "streaming_reason"]

COMPUTING = (Engine.NE, Engine.PE)
AHEAD = 24
"""How many layers further on a partner is looked for: a few heads, and the search stays linear."""


class Disqualifier(StrEnum):
    """Why two layers do not run at the same time. The guide gives the first six.

    They are tested in this order, except for those that need to know where results are: they come last.
    """

    UNSCHEDULED = "unscheduled"
    """Either is not scheduled in this segment."""
    SAME_CLASS = "same class"
    """They are not one multiply-accumulate layer and one planar layer."""
    DIFFERENT_ENGINES = "different engines"
    """They are on different engines of one chip."""
    DEPENDENT = "producer and consumer"
    """One needs what the other makes."""
    CHAINED_INPUT = "chained input"
    """An input of either is chained or could be."""
    BOTH_STREAM = "both stream"
    """Both write to DRAM, or bring weights from there, and would wait for each other on the one channel."""
    TAKEN = "taken"
    """Either runs at the same time as another layer."""
    APART = "apart"
    """Other layers that compute run between them."""
    PARTITION = "partition"
    """A partition ends between them."""
    WORKING_SET = "working set"
    """What both need at the same time exceeds the budget of the partition."""


@dataclass(frozen=True, slots=True)
class CoissueVerdict:
    """Whether two layers run at the same time, and the first reason if not."""

    first: str
    second: str
    disqualified: Disqualifier | None
    detail: str = ""

    def __str__(self) -> str:
        text = "co-issued" if self.disqualified is None else f"not co-issued, {self.disqualified}: {self.detail}"
        return f"%{self.first} and %{self.second}: {text}"


@dataclass(eq=False)
class Discovery:
    """The order of a segment with the pairs that may run together in it."""

    flow: Flow
    chaining: Chaining
    order: list[int]
    chained: frozenset[tuple[int, int]]
    """Pairs of layers that would be chained in this order."""
    pairs: dict[int, int] = field(default_factory=dict[int, int])
    """Candidate pairs, first layer to second."""
    verdicts: list[CoissueVerdict] = field(default_factory=list[CoissueVerdict])

    def __post_init__(self) -> None:
        self.scheduled = set(self.order)
        self.taken: set[int] = set()

    def disqualified(self, first: int, second: int, between: Sequence[int] = ()) -> tuple[Disqualifier, str] | None:
        """Return the first reason why two layers cannot be a pair, before memory is looked at."""
        for number in (first, second):
            if number not in self.scheduled:
                return Disqualifier.UNSCHEDULED, f"%{self.name(number)} is not scheduled"
        one, other = self.flow.layers[first], self.flow.layers[second]
        if {one.engine, other.engine} != set(COMPUTING):
            return Disqualifier.SAME_CLASS, f"{one.engine} and {other.engine}"
        if engine_number(one) != engine_number(other):
            return Disqualifier.DIFFERENT_ENGINES, f"engine {engine_number(one)} and engine {engine_number(other)}"
        if needed := self.depends(first, second, between):
            return Disqualifier.DEPENDENT, needed
        return self.chain_disqualified(first, second)

    def chain_disqualified(self, first: int, second: int) -> tuple[Disqualifier, str] | None:
        """Return why chaining or another pair excludes a pair."""
        for number in (first, second):
            before = self.chaining.chainable_input(number)
            if before is not None:
                word = "is" if (before, number) in self.chained else "could be"
                detail = f"%{self.name(before)} {word} chained into %{self.name(number)}"
                return Disqualifier.CHAINED_INPUT, detail
        for number in (first, second):
            if number in self.taken:
                return Disqualifier.TAKEN, f"%{self.name(number)} runs with another layer"
        return None

    def depends(self, first: int, second: int, between: Sequence[int]) -> str:
        """Return how the second of two layers needs the first, perhaps through movements between; nothing if not."""
        reached = self.reached(first, (*between, second))
        if second not in reached:
            return ""
        through = [f"%{self.name(number)}" for number in between if number in reached]
        return f"%{self.name(second)} needs %{self.name(first)}" + (f" through {', '.join(through)}" if through else "")

    def reached(self, first: int, later: Sequence[int]) -> set[int]:
        """Return those of later layers that need the first."""
        found = {first}
        for number in later:
            if any(before in found for before in self.flow.predecessors[number]):
                found.add(number)
        return found - {first}

    def name(self, number: int) -> str:
        """Return the name of a layer."""
        return self.flow.layers[number].name


def bring_partners(flow: Flow, chaining: Chaining, order: Sequence[int]) -> list[int]:
    """Return an order in which a layer that could not run with the next one is followed by one that it can run with.

    The partner, and movements that it needs, come from further on and need nothing that is not done yet. What is
    chained stays together.
    """
    pairs = [pair for pair in pairwise(order) if chaining.verdict(*pair).failed is None]
    begins = {first for first, _ in pairs}
    look = Discovery(flow, chaining, list(order), frozenset(pairs))
    arranged: list[int] = []
    done: set[int] = set()
    for place, first in enumerate(order):
        if first in done:
            continue
        arranged.append(first)
        done.add(first)
        if flow.layers[first].engine not in COMPUTING or first in look.taken or first in begins:
            continue
        ahead = [number for number in order[place + 1 : place + 1 + AHEAD] if number not in done]
        other = COMPUTING[1 - COMPUTING.index(flow.layers[first].engine)]
        for number in ahead:
            if flow.layers[number].engine is not other or number in begins:
                continue
            needed = movements_before(flow, number, done, ahead)
            if needed is not None and look.disqualified(first, number, needed) is None:
                look.taken.update((first, number))
                arranged += [*needed, number]
                done.update((*needed, number))
                break
    return arranged


def movements_before(flow: Flow, number: int, done: AbstractSet[int], ahead: Sequence[int]) -> list[int] | None:
    """Return the layers that must run before one, in their order; None where one of them computes or is too far on."""
    needed: set[int] = set()
    open_layers = [number]
    while open_layers:
        for before in flow.predecessors[open_layers.pop()]:
            if before in done or before in needed:
                continue
            if before not in ahead or flow.layers[before].engine in COMPUTING:
                return None
            needed.add(before)
            open_layers.append(before)
    return [one for one in ahead if one in needed]


def discover(flow: Flow, chaining: Chaining, order: Sequence[int]) -> Discovery:
    """Return an order in which the layers of every candidate pair are neighbours, and the candidates.

    Of the movements between the two, those that need nothing of the first run before both, the others after both.
    """
    order = bring_partners(flow, chaining, order)
    chained = frozenset(
        (first, second) for first, second in pairwise(order) if chaining.verdict(first, second).failed is None
    )
    found = Discovery(flow, chaining, list(order), chained)
    arranged: list[int] = []
    first: int | None = None
    moving: list[int] = []
    for number in order:
        if flow.layers[number].engine not in COMPUTING:
            moving.append(number)
            continue
        if first is not None and pair_up(found, first, number, moving):
            dependent = found.reached(first, moving)
            arranged += [*(one for one in moving if one not in dependent), first]
            moving = [one for one in moving if one in dependent]
        else:
            arranged += [*([] if first is None else [first]), *moving]
            moving = []
        first = number
    arranged += [*([] if first is None else [first]), *moving]
    found.order = arranged
    return found


def pair_up(found: Discovery, first: int, second: int, between: list[int]) -> bool:
    """Return whether two layers are a candidate pair; note it, or why not if they are of the two classes."""
    layers = found.flow.layers
    if layers[first].engine is layers[second].engine:
        return False
    reason = found.disqualified(first, second, between)
    if reason is not None:
        found.verdicts.append(CoissueVerdict(found.name(first), found.name(second), *reason))
        return False
    found.pairs[first] = second
    found.taken.update((first, second))
    return True


def streaming_reason(layer: Layer, in_dram: Callable[[str], bool], resident_bytes: int) -> str:
    """Return why a layer keeps the channel to DRAM busy; nothing where it does not.

    A result in DRAM does, and weights that do not stay on chip. The resident weight of a product is exempt.
    """
    streamed = [result.name for result in layer.results if in_dram(result.name)]
    if streamed:
        return f"%{streamed[0]} goes to DRAM"
    kernel = kernel_of(layer)
    weight = None if kernel is None else kernel.ref
    if isinstance(weight, Constant) and weight.nbytes > resident_bytes:
        return f"{weight.nbytes} bytes of weight stream, {resident_bytes} at most stay on chip"
    if isinstance(weight, Value) and in_dram(weight.name):
        return f"the weight %{weight.name} comes from DRAM"
    return ""
