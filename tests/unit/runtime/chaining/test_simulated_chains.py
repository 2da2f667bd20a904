"""Chains on the software engine: the bits of one after the other, whatever the arrangement; bad graphs are named."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import replace
from threading import Barrier, Thread
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import DeadlockError, GraphError, GraphTypeError, RaceError, RuntimeStateError
from aneforge.runtime.chaining import (
    ANEChainingRequest,
    ANEInMemoryModel,
    ANEInMemoryModelDescriptor,
    ANEInputBuffersReady,
    ANEIOSurfaceObject,
    ANEIOSurfaceOutputSets,
    ANEModel,
    ANEOutputSetEnqueue,
    ANERequest,
    ANESharedSignalEvent,
    ANESharedWaitEvent,
    ChainOptions,
    IOSurface,
    check_chains,
    run_chains,
)
from chain_tools import CLIENT, Link, adding, buffer, drawn, layer, surface, values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array
    from aneforge.runtime.chaining import ChainRun, PreparedChain

LAYERS = 12


@pytest.fixture(scope="module")
def layers() -> list[Program]:
    return [layer(seed) for seed in range(LAYERS)]


@pytest.fixture
def model(layers: list[Program]) -> Iterator[ANEModel]:
    with ANEModel.with_symbol_table([layers[0]], simulate=True) as made:
        yield made


def evaluated(programs: list[Program], value: Array) -> Array:
    """Return what the layers give one after the other, as the first study ran them: a call and a copy for each."""
    given, written = surface("given"), surface("written")
    given.write(value)
    for program in programs:
        one = ANEInMemoryModel(ANEInMemoryModelDescriptor(program))
        one.compile()
        one.load()
        assert one.evaluate(
            ANERequest([ANEIOSurfaceObject(given)], [0], [ANEIOSurfaceObject(written)], [0]), simulate=True
        )
        one.unload()
        given.write(values_of(written))
    return values_of(written)


def test_twelve_layers_loop_back_with_the_bits_of_twelve_calls(layers: list[Program]) -> None:
    given, written = surface("x"), surface("y")
    given.write(drawn(1))
    request = ANEChainingRequest(
        [buffer(given)],
        [ANEIOSurfaceOutputSets(IOSurface(64), [buffer(written, source=1)])],
        lb_input_symbol_id=(0,),
        lb_output_symbol_id=(0,),
        procedure_index=tuple(range(LAYERS)),
    )
    with ANEModel.with_symbol_table(layers, simulate=True) as model:
        chain = CLIENT.prepare_chaining(model, request, ChainOptions("block"), simulate=True)
        CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue(procedure_index=LAYERS - 1))
        for place in range(LAYERS):
            CLIENT.buffers_ready(chain, ANEInputBuffersReady(place, [] if place else [0]))
        run = run_chains([chain])
    assert values_of(written).tobytes() == evaluated(layers, drawn(1)).tobytes()
    assert (len(run.steps), run.round_trips) == (LAYERS, 1)
    lines = str(run).splitlines()
    assert lines[0] == "simulated: 12 executions on the software engine, 1 round trip of the host"
    assert lines[1] == "   0  block execution 0: procedure 0, results stay on chip"
    assert lines[-1] == "  11  block execution 11: procedure 11, input 0 from on chip, writes set 0"


def test_an_open_loop_takes_an_input_with_every_execution() -> None:
    start, written, done = surface("start", [0]), surface("sum"), af.Event("sum")
    steps = [surface(f"step {place}", [place + 1.0]) for place in range(5)]
    request = ANEChainingRequest(
        [buffer(start), *(buffer(one, 1) for one in steps)],
        [ANEIOSurfaceOutputSets(IOSurface(64), [buffer(written, source=1)])],
        (0,),
        (0,),
        None,
        [ANESharedSignalEvent(3, 0, 2, done)],
    )
    with ANEModel.with_symbol_table([adding()], simulate=True) as model:
        chain = CLIENT.prepare_chaining(model, request, simulate=True)
        CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue(is_open_loop=True))
        for place in range(3):
            CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [1 + place] if place else [0, 1]))
        run_chains([chain])
        assert (values_of(written)[0, 0], done.value) == (6, 5)
        for place in range(3, 5):  # what loops back stays on chip between two runs, and the event grows on
            CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [1 + place], [place], execution_delay=2))
        run = run_chains([chain])
    assert (values_of(written)[0, 0], done.value, chain.input_free[1].value) == (15, 7, 4)
    assert [step.tick for step in run.steps] == [2, 5]


def pipeline(model: ANEModel, values: list[Array]) -> tuple[list[PreparedChain], list[IOSurface]]:
    """Return two stages with two surfaces between them; the first waits until the second freed one."""
    between = [surface("even"), surface("odd")]
    given = [surface(f"in {place}") for place in range(len(values))]
    taken = [surface(f"out {place}") for place in range(len(values))]
    for one, value in zip(given, values, strict=True):
        one.write(value)
    made = af.Event("made")
    first = CLIENT.prepare_chaining(
        model,
        ANEChainingRequest(
            [buffer(one) for one in given],
            [ANEIOSurfaceOutputSets(IOSurface(64), [buffer(one, source=1)]) for one in between],
            signal_events=[ANESharedSignalEvent(1, 0, 0, made)],
        ),
        ChainOptions("first"),
        simulate=True,
    )
    second = CLIENT.prepare_chaining(
        model,
        ANEChainingRequest(
            [buffer(one) for one in between],
            [ANEIOSurfaceOutputSets(IOSurface(64), [buffer(one, source=1)]) for one in taken],
        ),
        ChainOptions("second"),
        simulate=True,
    )
    for place in range(len(values)):
        waits = [ANESharedWaitEvent(place - 1, second.input_free[0])] if place > 1 else []
        CLIENT.enqueue_sets(first, ANEOutputSetEnqueue(0, place % 2, place + 1))
        CLIENT.buffers_ready(first, ANEInputBuffersReady(0, [place]), waits)
        CLIENT.enqueue_sets(second, ANEOutputSetEnqueue(0, place, signal_not_required=True))
        CLIENT.buffers_ready(
            second, ANEInputBuffersReady(0, [place % 2], [place + 1]), [ANESharedWaitEvent(place + 1, made)]
        )
    return [first, second], taken


def test_a_pipeline_with_back_pressure_has_the_bits_of_one_after_the_other(
    model: ANEModel, layers: list[Program]
) -> None:
    values = [drawn(seed) for seed in range(6)]
    runs: list[str] = []
    for turn in (1, -1, 1):
        chains, taken = pipeline(model, values)
        runs.append(str(run_chains(chains[::turn])))
        for one, value in zip(taken, values, strict=True):
            assert values_of(one).tobytes() == evaluated([layers[0]] * 2, value).tobytes()
    assert runs[0] == runs[2]


def test_a_pipeline_without_back_pressure_is_a_race(model: ANEModel) -> None:
    chains, _ = pipeline(model, [drawn(seed) for seed in range(3)])
    first, _ = chains
    held = [replace(one, waits=()) for one in first.executions]
    first.executions.clear()
    first.executions.extend(held)
    with pytest.raises(RaceError) as raised:
        run_chains(chains)
    assert raised.value.races == (
        (
            "first execution 2 writes output symbol 0 to <surface 'even' of 64 bytes> and second execution 0 reads "
            "input symbol 0 from it, and no event orders them"
        ),
    )
    assert not first.signals[0].shared_event.value, "nothing ran"


@pytest.mark.parametrize("seed", range(20))
def test_any_graph_that_is_ordered_by_events_has_one_result(seed: int, model: ANEModel, layers: list[Program]) -> None:
    """Chains in a random order, each from the surface of an earlier one, waiting for it."""
    draw = random.Random(seed)  # noqa: S311 - an arrangement, not a secret
    links: list[Link] = []
    expected: list[Array] = []
    source = surface("source")
    source.write(drawn(seed))
    for place in range(8):
        before = draw.randrange(-1, place) if place else -1
        waits = [ANESharedWaitEvent(1, links[before].done or af.Event("none"))] if before >= 0 else []
        given = links[before].sink if before >= 0 else source
        links.append(Link(model, given, surface(f"s{place}"), f"c{place}", af.Event(f"e{place}"), waits))
        expected.append(evaluated([layers[0]], expected[before] if before >= 0 else drawn(seed)))
    asked = [link.asked() for link in links]
    draw.shuffle(asked)
    run_chains(asked)
    assert [values_of(link.sink).tobytes() for link in links] == [value.tobytes() for value in expected]
    for chain in asked:
        chain.release()


def ring(model: ANEModel, count: int) -> list[PreparedChain]:
    """Return chains that wait for one another in a circle."""
    events = [af.Event(f"e{place}") for place in range(count)]
    return [
        Link(
            model,
            surface(f"i{place}"),
            surface(f"o{place}"),
            f"c{place}",
            events[place],
            [ANESharedWaitEvent(1, events[place - 1])],
        ).asked()
        for place in range(count)
    ]


def test_a_cycle_is_named_wait_by_wait(model: ANEModel) -> None:
    with pytest.raises(DeadlockError) as raised:
        run_chains(ring(model, 3))
    assert raised.value.causes == (
        (
            "a cycle: c0 execution 0 waits for event 'e2' to reach 1, which c2 execution 0 signals after it ran; "
            "c2 execution 0 waits for event 'e1' to reach 1, which c1 execution 0 signals after it ran; "
            "c1 execution 0 waits for event 'e0' to reach 1, which c0 execution 0 signals after it ran"
        ),
    )
    assert str(raised.value).startswith("run_chains (simulated): 3 executions can never run: a cycle")
    assert "expected an end within 2 s, after which the firmware drops a queue" in str(raised.value)


def test_a_cycle_of_one_and_one_that_others_hide(model: ANEModel) -> None:
    own = af.Event("own")
    alone = Link(model, surface("a"), surface("b"), "alone", own, [ANESharedWaitEvent(1, own)]).asked()
    behind = Link(model, surface("c"), surface("d"), "after", None, [ANESharedWaitEvent(1, own)]).asked()
    free = Link(model, surface("e"), surface("f"), "free").asked()
    with pytest.raises(DeadlockError) as raised:
        check_chains([free, behind, *ring(model, 2), alone])
    assert [cause.split(" waits")[0] for cause in raised.value.causes] == [
        "a cycle: c0 execution 0",
        "a cycle: alone execution 0",
    ]


def test_a_cycle_after_executions_that_can_run(model: ANEModel) -> None:
    """The second executions wait for each other's second signal; the first ones run."""
    events = [af.Event("left"), af.Event("right")]
    chains = [
        Link(model, surface(f"i{place}"), surface(f"o{place}"), f"c{place}", events[place]).asked() for place in (0, 1)
    ]
    for place, chain in enumerate(chains):
        CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0]), [ANESharedWaitEvent(2, events[1 - place])])
    with pytest.raises(DeadlockError, match="2 executions can never run: a cycle: c0 execution 1 waits for event"):
        run_chains(chains)
    assert [event.value for event in events] == [0, 0]


def test_a_wait_that_nobody_ends(model: ANEModel) -> None:
    done, never = af.Event("done"), af.Event("never")
    first = Link(model, surface("a"), surface("b"), "first", done).asked()
    late = Link(model, surface("c"), surface("d"), "late", never, [ANESharedWaitEvent(2, done)]).asked()
    last = Link(model, surface("e"), surface("f"), "last", None, [ANESharedWaitEvent(1, never)]).asked()
    with pytest.raises(DeadlockError) as raised:
        run_chains([last, late, first])
    assert raised.value.causes == (
        "late execution 0 waits for event 'done' to reach 2, which nothing signals: it reaches 1",
    )
    done.signal(2)
    run = run_chains([last, late])
    assert [step.chain for step in run.steps] == ["late", "last"]


def test_an_execution_without_an_output_set(model: ANEModel) -> None:
    chain = Link(model, surface("a"), surface("b"), "starved").prepare()
    CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0]))
    with pytest.raises(
        DeadlockError, match="starved execution 0 waits for an output set of procedure 0, which is never enqueued"
    ):
        run_chains([chain])
    CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue())
    assert len(run_chains([chain]).steps) == 1


def test_two_requests_on_one_buffer(model: ANEModel) -> None:
    shared = surface("shared")
    chains = [Link(model, surface(f"i{name}"), shared, name).asked() for name in ("a", "b")]
    with pytest.raises(RaceError, match="a execution 0 writes output symbol 0 to <surface 'shared' of 64 bytes> and b"):
        run_chains(chains)


def test_two_readers_of_one_buffer_are_no_race(model: ANEModel) -> None:
    shared = surface("shared", [1])
    sinks = [surface("y"), surface("z")]
    run_chains([Link(model, shared, sink, sink.name).asked() for sink in sinks])
    assert values_of(sinks[0]).tobytes() == values_of(sinks[1]).tobytes()


def test_one_execution_that_reads_what_it_writes(model: ANEModel) -> None:
    both = surface("both")
    with pytest.raises(RaceError, match="own execution 0 reads input symbol 0 from <surface 'both' of 64 bytes> and "):
        run_chains([Link(model, both, both, "own").asked()])


def test_two_chains_on_one_program_with_states() -> None:
    total = af.state("total", (1, 32))
    now = total + af.input((1, 32), name="x")
    counter = af.build_program(af.Graph({"y": now * 1.0}, states={"total": now}), "h16s")
    with ANEModel.with_symbol_table([counter], simulate=True) as model:
        chains = [Link(model, surface(f"i{name}"), surface(f"o{name}"), name).asked() for name in ("a", "b")]
        with pytest.raises(RaceError, match="a execution 0 moves on the states of procedure 0 and b execution 0"):
            run_chains(chains)


def test_two_signals_of_one_event_that_nothing_orders(model: ANEModel) -> None:
    done = af.Event("done")
    chains = [
        Link(model, surface("a"), surface("b"), "one", done).asked(),
        Link(model, surface("c"), surface("d"), "two", done).asked(2),
    ]
    with pytest.raises(
        RaceError, match="one execution 0 and two execution 0 signal event 'done', and no event orders them"
    ):
        run_chains(chains)


def test_an_event_that_would_fall(model: ANEModel) -> None:
    done = af.Event("done")
    chain = Link(model, surface("a"), surface("b"), "c", done).prepare()
    for value in (2, 1):
        CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue(signal_value=value))
        CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0]))
    with pytest.raises(
        GraphError, match=r"event 'done' only grows: c execution 1 would signal 1 \(got 1, expected more"
    ):
        run_chains([chain])


def test_an_event_that_would_not_fit(model: ANEModel) -> None:
    """Values are uint64; the second signal of an open loop would be one more."""
    chain = Link(model, surface("a"), surface("b"), "c", af.Event("done")).prepare()
    CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue(signal_value=(1 << 64) - 1, is_open_loop=True))
    for _ in range(2):
        CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0]))
    with pytest.raises(GraphError, match=r"c execution 1 would signal 18446744073709551616 .* less than 2\^64"):
        run_chains([chain])


def test_back_pressure_at_the_depth_of_the_queue(model: ANEModel) -> None:
    depth = model.queue(0).queue_depth
    assert depth == 127
    one = Link(model, surface("a"), surface("b"), "one").asked(100)
    two = Link(model, surface("c"), surface("d"), "two").asked(27)
    with pytest.raises(RuntimeStateError, match=r"the queue of the program is full \(got 128, limit 127\)"):
        CLIENT.buffers_ready(two, ANEInputBuffersReady(0, [0]))
    one.release()
    CLIENT.buffers_ready(two, ANEInputBuffersReady(0, [0]))
    assert len(run_chains([two]).steps) == 28
    assert model.queue(0).pending == 0
    three = Link(model, surface("e"), surface("f"), "three").prepare()
    for _ in range(depth):
        CLIENT.enqueue_sets(three, ANEOutputSetEnqueue())
    with pytest.raises(RuntimeStateError, match="the queue of output sets of procedure 0 of three is full"):
        CLIENT.enqueue_sets(three, ANEOutputSetEnqueue())


def test_a_set_after_an_open_loop(model: ANEModel) -> None:
    chain = Link(model, surface("a"), surface("b"), "open").asked()
    with pytest.raises(RuntimeStateError, match="procedure 0 of open is in an open loop: its set stays enqueued"):
        CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue())


def test_requests_after_a_release(layers: list[Program]) -> None:
    model = ANEModel.with_symbol_table([layers[0]], simulate=True)
    chain, other = (Link(model, surface("a"), surface("b"), name).asked() for name in ("one", "two"))
    chain.release()
    for call in (
        lambda: CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0])),
        lambda: CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue()),
        lambda: run_chains([chain]),
    ):
        with pytest.raises(RuntimeStateError, match=r"\(simulated\): one was released\. Remedy: prepare the request"):
            call()
    model.release()
    for call in (lambda: run_chains([other]), lambda: Link(model, surface("c"), surface("d"), "three").prepare()):
        with pytest.raises(RuntimeStateError, match=r"\(simulated\): the model was released"):
            call()
    assert (repr(model), repr(chain)) == (
        "simulated _ANEModel of 1 procedures, unloaded",
        "<simulated chain 'one' of 1 procedures, released>",
    )


def test_what_is_run_is_a_list_of_chains(model: ANEModel) -> None:
    chain = Link(model, surface("a"), surface("b"), "one").asked()
    with pytest.raises(GraphTypeError, match="chains must be a list"):
        run_chains(chain)  # pyright: ignore[reportArgumentType] - the subject of the test
    with pytest.raises(GraphTypeError, match=r"chains\[1\] must be of type PreparedChain"):
        run_chains([chain, 1])  # pyright: ignore[reportArgumentType] - the subject of the test
    with pytest.raises(GraphError, match="a chain must be given once"):
        run_chains([chain, chain])
    with pytest.raises(GraphError, match="chains must have different names: 'one'"):
        run_chains([chain, Link(model, surface("c"), surface("d"), "one").asked()])
    assert str(run_chains([])).startswith("simulated: 0 executions")


def test_a_completion_handler_cannot_run_chains(model: ANEModel) -> None:
    chain = Link(model, surface("a"), surface("b"), "one").asked()
    with af.ExecutionStream() as stream:
        stream.encode(af.Operation(model.loaded(0)))
        failures: list[Exception] = []

        def handler(_: BaseException | None) -> None:
            try:
                run_chains([chain])
            except RuntimeStateError as error:
                failures.append(error)

        stream.submit(handler).wait()
    assert "a completion handler cannot wait for the lane that calls it" in str(failures[0])


def test_delays_order_what_may_run(model: ANEModel) -> None:
    slow = Link(model, surface("a"), surface("b"), "slow").prepare()
    CLIENT.enqueue_sets(slow, ANEOutputSetEnqueue(is_open_loop=True))
    CLIENT.buffers_ready(slow, ANEInputBuffersReady(0, [0], execution_delay=2))
    fast = Link(model, surface("c"), surface("d"), "fast").asked(3)
    run = run_chains([slow, fast])
    assert [(step.tick, step.chain) for step in run.steps] == [(0, "fast"), (1, "fast"), (2, "slow"), (3, "fast")]
    assert np.all(values_of(slow.sets[0].output_buffer[0].surface) == 0)


@pytest.mark.parametrize("chip", ["m1", "m3", "m4", "m5"])
def test_chains_have_the_bits_of_one_after_the_other_on_every_chip(chip: str) -> None:
    """A loopback chain of different layers, a pipeline of two chains, and the same programs called one by one."""
    programs = [layer(seed, chip) for seed in range(4)]
    value = drawn(7)
    expected = evaluated(programs, value).tobytes()
    given, between, written = surface("given"), surface("between"), surface("written")
    given.write(value)
    with ANEModel.with_symbol_table(programs, simulate=True) as model:
        assert run_loopback(model, given, written, range(4)).round_trips == 1
        assert values_of(written).tobytes() == expected
        written.write(np.zeros_like(value))
        done = af.Event("half")
        halves = [
            asked_loopback(model, given, between, range(2), "first", done=done),
            asked_loopback(model, between, written, range(2, 4), "second", [ANESharedWaitEvent(1, done)]),
        ]
        run_chains(halves[::-1])
        assert values_of(written).tobytes() == expected


def asked_loopback(
    model: ANEModel,
    given: IOSurface,
    written: IOSurface,
    procedures: range,
    name: str,
    waits: Sequence[ANESharedWaitEvent] = (),
    done: af.Event | None = None,
) -> PreparedChain:
    """Return a chain that runs procedure after procedure on chip, and writes what the last one gives."""
    request = ANEChainingRequest(
        [buffer(given)],
        [ANEIOSurfaceOutputSets(IOSurface(64), [buffer(written, source=1)])],
        (0,),
        (0,),
        tuple(procedures),
        [] if done is None else [ANESharedSignalEvent(1, 0, 0, done)],
    )
    chain = CLIENT.prepare_chaining(model, request, ChainOptions(name, wait_events=waits), simulate=True)
    CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue(procedures[-1]))
    for place, procedure in enumerate(procedures):
        CLIENT.buffers_ready(chain, ANEInputBuffersReady(procedure, [] if place else [0]))
    return chain


def run_loopback(model: ANEModel, given: IOSurface, written: IOSurface, procedures: range) -> ChainRun:
    return run_chains([asked_loopback(model, given, written, procedures, "whole")])


def test_everything_of_a_simulation_says_so(model: ANEModel) -> None:
    done = af.Event("done")
    chain = Link(model, surface("a"), surface("b"), "one", done).asked(2)
    assert [event.name for event in chain.input_free.values()] == ["simulated one input 0 free"]
    run = run_chains([chain])
    assert (run.simulated, run.steps[0].simulated) == (True, True)
    assert "simulated=True" in repr(model.symbol_table(0))
    assert str(model.queue(0)).startswith("simulated _ANEProgramForEvaluation: { programHandle=")
    for said in (model, chain, run, *run.steps, *chain.input_free.values()):
        assert "simulated" in str(said)
        assert "simulated" in repr(said)
    wrong: list[Callable[[], object]] = [
        lambda: CLIENT.buffers_ready(chain, ANEInputBuffersReady(5, [0])),
        lambda: CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [5])),
        lambda: CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [])),
        lambda: CLIENT.enqueue_sets(chain, ANEOutputSetEnqueue(0, 5)),
        lambda: run_chains([chain, chain]),
        lambda: check_chains(cast("list[PreparedChain]", [chain, 1])),
        lambda: Link(model, IOSurface(2), surface("b"), "two").prepare(),
    ]
    for call in wrong:
        with pytest.raises(af.errors.AneforgeError, match=r"\(simulated\): "):
            call()


def test_a_graph_of_thousands_of_executions() -> None:
    """As many chains as one model has queues for, all on one surface: ordered they pass, unordered races are named."""
    one = layer(0)
    with ExitStack() as stack:
        models = [stack.enter_context(ANEModel.with_symbol_table([one], simulate=True)) for _ in range(24)]
        shared, sources = surface("shared"), [surface(f"s{place}") for place in range(24)]
        events = [af.Event(f"e{place}") for place in range(24)]
        ordered = [
            Link(each, sources[place], shared, f"c{place}", events[place], before(events, place)).asked(127)
            for place, each in enumerate(models)
        ]
        check_chains(ordered[::-1])
        for chain in ordered:
            chain.release()
        loose = [
            Link(each, sources[place], shared, f"c{place}", events[place]).asked(127)
            for place, each in enumerate(models)
        ]
        with pytest.raises(RaceError, match="and at least 999 more") as raised:
            check_chains(loose)
        assert len(raised.value.races) == 1000
        for chain in loose:
            chain.release()


def before(events: list[af.Event], place: int) -> list[ANESharedWaitEvent]:
    """Return a wait for the last execution of the chain before."""
    return [ANESharedWaitEvent(127, events[place - 1])] if place else []


def test_threads_that_fill_one_chain(model: ANEModel) -> None:
    """The queue takes 127 executions however many threads ask, and every one of them runs once."""
    chain = Link(model, surface("a"), surface("b"), "one", af.Event("done")).asked(0)
    start, refused = Barrier(8), list[RuntimeStateError]()

    def ask() -> None:
        start.wait()
        for _ in range(20):
            try:
                CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0]))
            except RuntimeStateError as error:
                refused.append(error)

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    depth = model.queue(0).queue_depth
    assert (len(chain.executions), model.queue(0).pending, len(refused)) == (depth, depth, 160 - depth)
    assert [one.number for one in chain.executions] == list(range(depth))
    assert [step.number for step in run_chains([chain]).steps] == list(range(depth))
    assert model.queue(0).pending == 0


def test_threads_that_run_one_chain(model: ANEModel) -> None:
    """Several threads ask and run: every execution runs once, and the event counts them."""
    done = af.Event("done")
    chain = Link(model, surface("a"), surface("b"), "one", done).asked(0)
    start, ran, failures = Barrier(4), list[int](), list[BaseException]()

    def work() -> None:
        start.wait()
        try:
            for _ in range(5):
                CLIENT.buffers_ready(chain, ANEInputBuffersReady(0, [0]))
                ran.extend(step.number for step in run_chains([chain]).steps)
        except BaseException as error:  # noqa: BLE001 - reported below
            failures.append(error)

    threads = [Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(ran) == list(range(20))
    assert (done.value, model.queue(0).pending, model.runs) == (20, 0, 0)


def test_nothing_is_released_while_it_runs(model: ANEModel) -> None:
    chain = Link(model, surface("a"), surface("b"), "one").asked()
    with chain.running():
        with pytest.raises(RuntimeStateError, match=r"release \(simulated\): one runs in another thread"):
            chain.release()
        with pytest.raises(RuntimeStateError, match=r"release \(simulated\): a chain of the model runs in another"):
            model.release()
    chain.release()
    assert (chain.released, model.queue(0).pending) == (True, 0)
