"""The graph of chained requests: which execution can run, what waits for what, and what no event orders.

Before anything runs, all executions of the chains are played through without values. What is left over can never run: a
deadlock, or a wait that nothing ends. Then it is known which execution is certainly before which other: one chain's are
in order, and a wait comes after the first signal that ends it. Two executions that touch one surface, of which one
writes, must be ordered so; and the signals of an event must be ordered with growing values, or it depends on chance
which of them ends a wait.

Why playing through is exact: events only grow, so an execution that can run can still run after any other. Hence which
executions run does not depend on the order, and every dead-lock that is reported is one in every order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING

from aneforge.errors import DeadlockError, GraphError, RaceError
from aneforge.records import dataclass
from aneforge.runtime.chaining.chaining_study import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.runtime.chaining.prepared_chain import Execution, PreparedChain
    from aneforge.runtime.chaining.shared_events import ANEOutputSetEnqueue, ANESharedWaitEvent
    from aneforge.runtime.streams.events import Event

__all__ = ["PlannedExecution", "RequestGraph", "request_graph"]

LARGEST_EVENT = 1 << 64
"""Values of events are uint64 (experiment G)."""
MOST_RACES = 1000
"""How many of each kind are named: in a large graph every pair may be one."""


@dataclass(frozen=True, slots=True)
class Access:
    """An execution touches a surface, or the state of a program."""

    where: object
    """What is touched, by identity."""
    name: str
    how: str
    """In words: reads input symbol 0."""
    writes: bool


@dataclass(slots=True)
class SurfaceUse:
    """Who touched a surface so far: one bit for each place in the order, so that long graphs are checked quickly."""

    accesses: int = 0
    writes: int = 0
    at: dict[int, list[Access]] = field(default_factory=lambda: defaultdict(list))

    def add(self, place: int, access: Access) -> None:
        """Note an access."""
        self.accesses |= 1 << place
        self.writes |= int(access.writes) << place
        self.at[place].append(access)


def places_of(bits: int) -> Iterator[int]:
    """Yield the places of set bits.

    >>> list(places_of(0b1010))
    [1, 3]
    """
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


@dataclass(frozen=True, slots=True, eq=False)
class PlannedExecution:
    """An execution with its output set and everything that it signals."""

    chain: PreparedChain
    execution: Execution
    record: ANEOutputSetEnqueue | None
    """The output set that it writes; None where its results stay on chip."""
    starved: bool
    """It waits for an output set that was not enqueued."""
    signals: tuple[tuple[Event, int], ...]
    """Events with the values that they take afterwards."""

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"{self.chain.name} execution {self.execution.number}"

    def unmet(self, values: dict[int, int]) -> list[ANESharedWaitEvent]:
        """Return the waits that are not over, given the values of events."""
        return [wait for wait in self.execution.waits if values[id(wait.shared_event)] < wait.value]

    def accesses(self) -> Iterator[Access]:
        """Yield what it touches."""
        for buffer in self.execution.inputs:
            yield Access(
                buffer.surface, repr(buffer.surface), f"reads input symbol {buffer.symbol_index} from", writes=False
            )
        if self.record is not None:
            for buffer in self.chain.output_set(self.record).output_buffer:
                how = f"writes output symbol {buffer.symbol_index} to"
                yield Access(buffer.surface, repr(buffer.surface), how, writes=True)
        loaded = self.chain.model.loaded(self.execution.procedure)
        if loaded.states:
            yield Access(loaded, f"the states of procedure {self.execution.procedure}", "moves on", writes=True)


@dataclass(slots=True)
class RequestGraph:
    """Executions of chains, played through."""

    waiting: list[list[PlannedExecution]]
    """By chain, what was asked for."""
    order: list[PlannedExecution] = field(default_factory=list[PlannedExecution])
    """What can run, in an order in which it can."""
    before: list[int] = field(default_factory=list[int])
    """For each of them, which of them are certainly before it: one bit for each place in the order."""
    values: dict[int, int] = field(default_factory=dict[int, int])
    """What each event reaches, by identity."""
    initial: dict[int, int] = field(default_factory=dict[int, int])
    signalled: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """For each event, the values that it takes, each with the place in the order."""
    events: dict[int, Event] = field(default_factory=dict["int", "Event"])

    def check(self) -> None:
        """Check that everything runs, and that nothing depends on chance.

        Raises:
            DeadlockError: An execution can never run.
            GraphError: An event would not grow.
            RaceError: The order of two executions matters and is not determined.
        """
        if causes := self.causes():
            self.raise_deadlock(causes)
        races = [*islice(self.event_races(), MOST_RACES), *islice(self.surface_races(), MOST_RACES)]
        if races:
            least = "at least " if len(races) >= MOST_RACES else ""
            more = f" and {least}{len(races) - 1} more" if len(races) > 1 else ""
            error = RaceError(
                f"{races[0]}{more}",
                operation=f"run_chains ({SIMULATED})",
                remedy="let one of them wait for an event that the other signals",
            )
            error.races = tuple(races)
            raise error

    def raise_deadlock(self, causes: Sequence[str]) -> None:
        """Raise the error for executions that never run.

        Raises:
            DeadlockError: Always.
        """
        stuck = sum(map(len, self.waiting)) - len(self.order)
        first = next(rest[0] for rest in self.rests())
        limit = first.chain.model.loaded(first.execution.procedure).program.target.limits
        error = DeadlockError(
            f"{stuck} executions can never run: {'; '.join(causes)}",
            operation=f"run_chains ({SIMULATED})",
            limit=f"an end within {limit.integer('firmware_queue_abort_seconds')} s, "
            "after which the firmware drops a queue",
            remedy="signal what is waited for, or enqueue what is missing; nothing was run",
        )
        error.causes = tuple(causes)
        raise error

    def rests(self) -> list[list[PlannedExecution]]:
        """Return, for each chain that is stuck, what is left of it."""
        ran = set(map(id, self.order))
        left = [[one for one in chain if id(one) not in ran] for chain in self.waiting]
        return [rest for rest in left if rest]

    def causes(self) -> list[str]:
        """Return why executions can never run: waits without an end first, then cycles."""
        rests = self.rests()
        found: list[str] = []
        edges: dict[int, list[tuple[int, str]]] = {}
        for place, (head, *_) in enumerate(rests):
            edges[place] = []
            if head.starved:
                procedure = head.execution.procedure
                found.append(f"{head.name} waits for an output set of procedure {procedure}, which is never enqueued")
            for wait in head.unmet(self.values):
                text = f"{head.name} waits for event {wait.shared_event.name!r} to reach {wait.value}"
                enders = [(other, one) for other, rest in enumerate(rests) if (one := first_ender(rest, wait))]
                if not enders:
                    reached = self.values[id(wait.shared_event)]
                    found.append(f"{text}, which nothing signals: it reaches {reached}")
                edges[place] += [(other, f"{text}, which {one.name} signals after it ran") for other, one in enders]
        return [*found, *cycles(edges)]

    def event_races(self) -> Iterator[str]:
        """Yield signals of one event that nothing orders.

        Raises:
            GraphError: An event would not grow.
        """
        for key, signals in self.signalled.items():
            name, value, last = self.events[key].name, self.initial[key], None
            for grown, place in signals:
                ordered = last is None or last == place or bool(self.before[place] >> last & 1)
                if not ordered:
                    both = f"{self.order[last or 0].name} and {self.order[place].name}"
                    yield f"{both} signal event {name!r}, and no event orders them"
                elif not value < grown < LARGEST_EVENT:
                    raise GraphError(
                        f"event {name!r} only grows: {self.order[place].name} would signal {grown}",
                        operation=f"run_chains ({SIMULATED})",
                        seen=grown,
                        limit=f"more than {value}, less than 2^64",
                    )
                value, last = grown, place

    def surface_races(self) -> Iterator[str]:
        """Yield executions that touch one surface, of which one writes, and that no event orders."""
        touched: dict[int, SurfaceUse] = defaultdict(SurfaceUse)
        for later, one in enumerate(self.order):
            for second in one.accesses():
                use = touched[id(second.where)]
                unordered = (use.accesses if second.writes else use.writes) & ~self.before[later]
                for earlier in places_of(unordered):
                    conflicting = (first for first in use.at[earlier] if first.writes or second.writes)
                    yield from (self.race_text(earlier, first, later, second) for first in conflicting)
                use.add(later, second)

    def race_text(self, earlier: int, first: Access, later: int, second: Access) -> str:
        """Return two accesses that nothing orders, in words."""
        one, other = self.order[earlier].name, self.order[later].name
        if earlier == later:
            return f"{one} {first.how} {first.name} and {second.how} it"
        return f"{one} {first.how} {first.name} and {other} {second.how} it, and no event orders them"


def first_ender(rest: Sequence[PlannedExecution], wait: ANESharedWaitEvent) -> PlannedExecution | None:
    """Return the first execution of a chain that would end a wait; None where none would."""
    for one in rest:
        if any(event is wait.shared_event and value >= wait.value for event, value in one.signals):
            return one
    return None


def request_graph(chains: Sequence[PreparedChain]) -> RequestGraph:
    """Play the executions of chains through."""
    graph = RequestGraph([plan(chain) for chain in chains])
    for one in (one for chain in graph.waiting for one in chain):
        waited = [wait.shared_event for wait in one.execution.waits]
        for event in (*waited, *(event for event, _ in one.signals)):
            graph.values[id(event)] = graph.initial[id(event)] = event.value
            graph.events[id(event)] = event
    places = [0] * len(graph.waiting)
    last: list[int | None] = [None] * len(graph.waiting)
    moved = True
    while moved:
        moved = False
        for number, chain in enumerate(graph.waiting):
            while places[number] < len(chain) and can_run(chain[places[number]], graph.values):
                last[number] = let_run(graph, chain[places[number]], last[number])
                places[number] += 1
                moved = True
    return graph


def can_run(one: PlannedExecution, values: dict[int, int]) -> bool:
    """Return whether an execution can run, given the values of events."""
    return not one.starved and not one.unmet(values)


def let_run(graph: RequestGraph, one: PlannedExecution, previous: int | None) -> int:
    """Take an execution into the order, with what is before it; return its place."""
    place = len(graph.order)
    sources = [] if previous is None else [previous]
    for wait in one.execution.waits:
        key = id(wait.shared_event)
        enough = [signal for signal in graph.signalled[key] if signal[0] >= wait.value]
        if enough and graph.initial[key] < wait.value:
            sources.append(min(enough)[1])
    graph.order.append(one)
    known = 0
    for source in sources:
        known |= graph.before[source] | 1 << source
    graph.before.append(known)
    for event, value in one.signals:
        graph.values[id(event)] = max(graph.values[id(event)], value)
        graph.signalled[id(event)].append((value, place))
    return place


def plan(chain: PreparedChain) -> list[PlannedExecution]:
    """Return the executions of a chain, each with the output set that it will write."""
    with chain.model.guard:
        return plan_now(chain)


def plan_now(chain: PreparedChain) -> list[PlannedExecution]:
    """Return the executions of a chain that nobody changes at the moment."""
    waiting = {procedure: list(queue.waiting) for procedure, queue in chain.queues.items()}
    written = {procedure: queue.written for procedure, queue in chain.queues.items()}
    found: list[PlannedExecution] = []
    for execution in chain.executions:
        sets = waiting[execution.procedure]
        record = sets[0] if sets else None
        grown = 0
        if record is not None and record.is_open_loop:
            grown = written[execution.procedure]
            written[execution.procedure] += 1
        elif record is not None:
            del sets[0]
        starved = record is None and chain.needs_set(execution.procedure)
        signals = (*execution.freed, *signals_of(chain, record, grown))
        found.append(PlannedExecution(chain, execution, record, starved, signals))
    return found


def signals_of(chain: PreparedChain, record: ANEOutputSetEnqueue | None, grown: int) -> Iterator[tuple[Event, int]]:
    """Yield what is signalled once an output set is written; an open loop adds how often that was before."""
    if record is None or record.signal_not_required:
        return
    for signal in chain.signals:
        yield signal.shared_event, (record.signal_value or signal.value) + grown


def cycles(edges: dict[int, list[tuple[int, str]]]) -> Iterator[str]:
    """Yield a shortest cycle through every node that is in one and in none of those before, in words.

    >>> list(cycles({0: [(1, "a waits for b")], 1: [(2, "b waits for c"), (0, "b waits for a")], 2: []}))
    ['a cycle: a waits for b; b waits for a']
    """
    done: set[int] = set()
    for start in edges:
        if start in done:
            continue
        path = shortest_way_back(edges, start)
        done.update(node for node, _ in path)
        if path:
            yield f"a cycle: {'; '.join(text for _, text in path)}"


def shortest_way_back(edges: dict[int, list[tuple[int, str]]], start: int) -> list[tuple[int, str]]:
    """Return the nodes of a shortest cycle through a node, each with its wait; nothing where there is no cycle."""
    came: dict[int, tuple[int, str]] = {}
    front = [start]
    for node in front:
        for other, text in edges[node]:
            if other not in came:
                came[other] = (node, text)
                front.append(other)
        if start in came:
            break
    path: list[tuple[int, str]] = []
    node = start
    while start in came and (not path or node != start):
        node, text = came[node]
        path.insert(0, (node, text))
    return path
