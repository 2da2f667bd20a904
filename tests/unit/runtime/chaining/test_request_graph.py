"""The check of request graphs against every order in which small graphs can run."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import aneforge as af
from aneforge.errors import DeadlockError, GraphError, RaceError
from aneforge.runtime.chaining import (
    ANEChainingRequest,
    ANEInputBuffersReady,
    ANEIOSurfaceOutputSets,
    ANEModel,
    ANEOutputSetEnqueue,
    ANESharedSignalEvent,
    ANESharedWaitEvent,
    ChainOptions,
    IOSurface,
)
from aneforge.runtime.chaining.request_graph import request_graph
from chain_tools import CLIENT, buffer, layer, surface

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.runtime.chaining import PreparedChain
    from aneforge.runtime.chaining.request_graph import PlannedExecution, RequestGraph

GRAPHS = 400


@pytest.fixture(scope="module")
def model() -> Iterator[ANEModel]:
    with ANEModel.with_symbol_table([layer(0)], simulate=True) as made:
        yield made


def drawn_graph(draw: random.Random, model: ANEModel) -> list[PreparedChain]:
    """Return two or three chains of up to three executions, with events and surfaces in common."""
    events = [af.Event(f"e{place}") for place in range(3)]
    surfaces = [surface(f"s{place}") for place in range(9)]
    return [drawn_chain(draw, model, place, events, surfaces) for place in range(draw.randint(2, 3))]


def drawn_chain(
    draw: random.Random, model: ANEModel, number: int, events: list[af.Event], surfaces: list[IOSurface]
) -> PreparedChain:
    """Return a chain that mostly signals an event of its own."""
    places = draw.sample(range(len(surfaces)), 4)
    given, written = [surfaces[place] for place in places[:2]], [surfaces[place] for place in places[2:]]
    signalled = events[number] if draw.random() < 0.85 else draw.choice(events)
    request = ANEChainingRequest(
        [buffer(one) for one in given],
        [ANEIOSurfaceOutputSets(IOSurface(64), [buffer(one, source=1)]) for one in written],
        signal_events=[ANESharedSignalEvent(1, 0, 0, signalled)],
    )
    chain = CLIENT.prepare_chaining(model, request, ChainOptions(f"c{number}"), simulate=True)
    executions = draw.randint(1, 2)
    value = 0
    for _ in range(executions - (draw.random() < 0.05)):
        value += draw.choice([1, 1, 1, 2])
        required = draw.random() < 0.85
        CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue(0, draw.randrange(2), value, signal_not_required=not required))
    for _ in range(executions):
        waits = [ANESharedWaitEvent(draw.randint(1, 2), draw.choice(events))] if draw.random() < 0.4 else []
        CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [draw.randrange(2)]), waits)
    return chain


def orders(graph: RequestGraph) -> Iterator[list[PlannedExecution]]:
    """Yield every order in which the executions can run, each as far as it goes."""

    def further(
        places: list[int], values: dict[int, int], ran: list[PlannedExecution]
    ) -> Iterator[list[PlannedExecution]]:
        moved = False
        for number, chain in enumerate(graph.waiting):
            if places[number] == len(chain):
                continue
            head = chain[places[number]]
            if head.starved or head.unmet(values):
                continue
            moved = True
            after = dict(values)
            for event, value in head.signals:
                after[id(event)] = max(after[id(event)], value)
            yield from further([place + (one == number) for one, place in enumerate(places)], after, [*ran, head])
        if not moved:
            yield ran

    yield from further([0] * len(graph.waiting), dict(graph.initial), [])


def outcome(order: list[PlannedExecution]) -> tuple[frozenset[tuple[str, str]], bool]:
    """Return what an order gives: what every surface holds and every execution read; and whether all events grew."""
    held: dict[int, str] = {}
    facts: dict[str, str] = {}
    values: Counter[int] = Counter()
    grew = True
    for one in order:
        accesses = list(one.accesses())
        read = ",".join(held.get(id(access.where), "start") for access in accesses if not access.writes)
        for access in accesses:
            if access.writes:
                held[id(access.where)] = f"{one.name}({read})"
                facts[access.name] = held[id(access.where)]
        facts[one.name] = read
        for event, value in one.signals:
            grew = grew and value > values[id(event)]
            values[id(event)] = max(values[id(event)], value)
    return frozenset(facts.items()), grew


def verdict(graph: RequestGraph) -> str:
    try:
        graph.check()
    except DeadlockError:
        return "dead-lock"
    except RaceError:
        return "race"
    except GraphError:
        return "event"
    return "runs"


def test_verdicts_are_those_of_all_orders(model: ANEModel) -> None:
    draw = random.Random(25)  # noqa: S311 - arrangements, not secrets
    seen: Counter[str] = Counter()
    for number in range(GRAPHS):
        chains = drawn_graph(draw, model)
        graph = request_graph(chains)
        found = verdict(graph)
        seen[found] += 1
        total = sum(map(len, graph.waiting))
        every = list(orders(graph))
        assert ({len(one) == total for one in every} == {True}) is (found != "dead-lock"), number
        assert {len(one) for one in every} == {len(graph.order)}, "what runs does not depend on the order"
        outcomes = {outcome(one) for one in every}
        if found == "runs":
            assert len(outcomes) == 1, number
            assert all(grew for _, grew in outcomes), number
        for chain in chains:
            chain.release()
    assert all(seen[name] >= 20 for name in ("dead-lock", "race", "runs")), seen


def test_a_race_is_one_in_some_order(model: ANEModel) -> None:
    """Of every race on a surface that is named, there is an order with the two the other way round."""
    draw = random.Random(26)  # noqa: S311 - arrangements, not secrets
    races = 0
    for _ in range(GRAPHS // 2):
        chains = drawn_graph(draw, model)
        graph = request_graph(chains)
        if not graph.causes() and events_are_ordered(graph):
            every = list(orders(graph))
            for text in graph.surface_races():
                names = {one.name for one in graph.order if one.name in text}
                turns = {tuple(step.name for step in order if step.name in names) for order in every}
                assert len(turns) == 2, text
                races += 1
        for chain in chains:
            chain.release()
    assert races >= 10


def events_are_ordered(graph: RequestGraph) -> bool:
    try:
        return not list(graph.event_races())
    except GraphError:
        return False
