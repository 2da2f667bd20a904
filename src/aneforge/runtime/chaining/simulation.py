"""Running chains on the software engine: one execution at a time, in an order that depends on nothing but the requests.

The graph of requests is checked first; nothing runs if an execution could never run, or if the result would depend on
chance. Executions go through the one lane of the runtime, as those of streams do. Time is counted in executions: an
execution that may run at a tick, and has a delay, runs so many ticks later if another can run meanwhile.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from contextlib import ExitStack
from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.display import number_of
from aneforge.errors import GraphError
from aneforge.records import dataclass
from aneforge.runtime.chaining.arguments import check_items
from aneforge.runtime.chaining.chaining_study import SIMULATED, simulating
from aneforge.runtime.chaining.prepared_chain import PreparedChain
from aneforge.runtime.chaining.request_graph import request_graph
from aneforge.runtime.streams.lane import lane
from aneforge.runtime.streams.stream import expect_outside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.types import Array
    from aneforge.runtime.chaining.request_graph import PlannedExecution, RequestGraph

__all__ = ["ChainRun", "ExecutedStep", "check_chains", "run_chains"]

RUNS = threading.Lock()
"""One run at a time: two that touch one surface never mix."""


@dataclass(frozen=True, slots=True)
class ExecutedStep:
    """An execution that ran."""

    tick: int
    """Its place in time, counted in executions."""
    chain: str
    number: int
    procedure: int
    looped: tuple[int, ...]
    """Input symbols that came from the execution before, on chip."""
    set_index: int | None
    """The output set that it wrote; None where its results stayed on chip."""
    signals: tuple[tuple[str, int], ...]
    """Events with the values that they took."""
    simulated: bool = field(default=True, init=False)

    @property
    def text(self) -> str:
        """What ran, as a line of a run."""
        parts = [f"{self.tick:4}  {self.chain} execution {self.number}: procedure {self.procedure}"]
        parts += [f"input {', '.join(map(str, self.looped))} from on chip"] if self.looped else []
        parts += ["results stay on chip" if self.set_index is None else f"writes set {self.set_index}"]
        parts += [f"signals {name} = {value}" for name, value in self.signals]
        return ", ".join(parts)

    def __str__(self) -> str:
        return f"{SIMULATED}: {self.text.strip()}"


@dataclass(frozen=True, slots=True)
class ChainRun:
    """What ran, in order.

    >>> from aneforge.runtime.chaining import *
    >>> import aneforge as af
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> model = ANEModel.with_symbol_table([program], simulate=True)
    >>> x, y = (ANEBuffer(ANEIOSurfaceObject(IOSurface(4)), symbol_index=0) for _ in range(2))
    >>> request = ANEChainingRequest([x], [ANEIOSurfaceOutputSets(IOSurface(64), [y])])
    >>> client = ANEClient.shared_connection()
    >>> chain = client.prepare_chaining(model, request, ChainOptions("a chain"), simulate=True)
    >>> client.enqueue_sets(chain, ANEOutputSetEnqueue())
    >>> client.buffers_ready(chain, ANEInputBuffersReady(input_buffer_info_index=[0]))
    >>> print(run_chains([chain]))
    simulated: 1 execution on the software engine, 1 round trip of the host
       0  a chain execution 0: procedure 0, writes set 0
    """

    steps: tuple[ExecutedStep, ...]
    simulated: bool = field(default=True, init=False)

    @property
    def round_trips(self) -> int:
        """How often the host took part: once, whatever ran."""
        return min(1, len(self.steps))

    def __str__(self) -> str:
        count = number_of(len(self.steps), "execution")
        head = f"{SIMULATED}: {count} on the software engine, {self.round_trips} round trip of the host"
        return "\n".join([head, *(step.text for step in self.steps)])


def check_chains(chains: Sequence[PreparedChain]) -> None:
    """Check what was asked of chains, and run nothing.

    >>> from aneforge.runtime.chaining import *
    >>> import aneforge as af
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> model = ANEModel.with_symbol_table([program], simulate=True)
    >>> x, y = (ANEBuffer(ANEIOSurfaceObject(IOSurface(4)), symbol_index=0) for _ in range(2))
    >>> request = ANEChainingRequest([x], [ANEIOSurfaceOutputSets(IOSurface(64), [y])])
    >>> client = ANEClient.shared_connection()
    >>> chain = client.prepare_chaining(model, request, ChainOptions("a chain"), simulate=True)
    >>> client.enqueue_sets(chain, ANEOutputSetEnqueue())
    >>> client.buffers_ready(chain, ANEInputBuffersReady(input_buffer_info_index=[0]))
    >>> check_chains([chain])
    >>> len(chain.executions)
    1

    Raises:
        GraphTypeError: It is not a list of prepared chains.
        GraphError: A chain is given twice, two have one name, or an event would not grow.
        RuntimeStateError: A chain or its model was released.
        DeadlockError: An execution can never run.
        RaceError: The order of two executions matters and is not determined.
    """
    with simulating("check_chains"):
        check_graph(chains)


def check_graph(chains: Sequence[PreparedChain]) -> RequestGraph:
    """Return the graph of what was asked of chains, in which everything runs and nothing depends on chance.

    Raises:
        GraphTypeError: It is not a list of prepared chains.
        GraphError: A chain is given twice, two have one name, or an event would not grow.
        RuntimeStateError: A chain or its model was released.
        DeadlockError: An execution can never run.
        RaceError: The order of two executions matters and is not determined.
    """
    listed = different_chains(chains)
    for chain in listed:
        chain.check_usable("run_chains")
    graph = request_graph(listed)
    graph.check()
    return graph


def different_chains(chains: object) -> tuple[PreparedChain, ...]:
    """Return chains that can be distinguished.

    Raises:
        GraphTypeError: It is not a list of prepared chains.
        GraphError: A chain is given twice, or two have one name.
    """
    listed = check_items(chains, PreparedChain, "chains")
    if len({id(chain) for chain in listed}) != len(listed):
        raise GraphError("a chain must be given once", operation=f"run_chains ({SIMULATED})")
    names = Counter(chain.name for chain in listed)
    if twice := [name for name, count in names.items() if count > 1]:
        raise GraphError(
            f"chains must have different names: {twice[0]!r}",
            operation=f"run_chains ({SIMULATED})",
            remedy="ChainOptions(name) names a chain",
        )
    return listed


def run_chains(chains: Sequence[PreparedChain]) -> ChainRun:
    """Run everything that was asked of chains, on the software engine.

    The result is that of the same executions one after the other, bit for bit, however chains and events are arranged:
    whatever would make a difference is refused before anything runs.

    >>> import numpy as np
    >>> from aneforge.runtime.chaining import *
    >>> import aneforge as af
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> model = ANEModel.with_symbol_table([program], simulate=True)
    >>> x, y = (ANEBuffer(ANEIOSurfaceObject(IOSurface(4)), symbol_index=0) for _ in range(2))
    >>> request = ANEChainingRequest([x], [ANEIOSurfaceOutputSets(IOSurface(64), [y])])
    >>> client = ANEClient.shared_connection()
    >>> chain = client.prepare_chaining(model, request, ChainOptions("a chain"), simulate=True)
    >>> client.enqueue_sets(chain, ANEOutputSetEnqueue())
    >>> client.buffers_ready(chain, ANEInputBuffersReady(input_buffer_info_index=[0]))
    >>> x.surface.write(np.array([[1.0, 2.0]], np.float16))
    >>> _ = run_chains([chain])
    >>> y.surface.read(np.float16, (1, 2)).tolist()
    [[2.0, 3.0]]

    Raises:
        GraphTypeError: It is not a list of prepared chains.
        GraphError: A chain is given twice, two have one name, or an event would not grow.
        RuntimeStateError: A chain or its model was released; or the runtime's own lane calls.
        DeadlockError: An execution can never run: the cycle is named, nothing waits for it.
        RaceError: The order of two executions matters and is not determined.
    """
    expect_outside("run_chains")
    with simulating("run_chains"), RUNS, ExitStack() as stack:
        for chain in different_chains(chains):
            stack.enter_context(chain.running())
        return run_graph(check_graph(chains))


def run_graph(graph: RequestGraph) -> ChainRun:
    """Run what was asked of chains, one execution after the other."""
    queues = [deque(planned) for planned in graph.waiting]
    ready: list[int | None] = [None] * len(queues)
    tick, steps = 0, list[ExecutedStep]()
    while any(queues):
        for place, queue in enumerate(queues):
            if ready[place] is None and queue and may_start(queue[0]):
                ready[place] = tick + queue[0].execution.delay
        start, place = min((since, place) for place, since in enumerate(ready) if since is not None)
        tick = max(tick, start)
        steps.append(execute(queues[place].popleft(), tick))
        ready[place] = None
        tick += 1
    return ChainRun(tuple(steps))


def may_start(one: PlannedExecution) -> bool:
    """Return whether everything that an execution waits for has come."""
    return all(wait.shared_event.value >= wait.value for wait in one.execution.waits)


def execute(one: PlannedExecution, tick: int) -> ExecutedStep:
    """Run one execution: read its inputs, run its program in the lane, write its set, loop back, signal."""
    chain, execution = one.chain, one.execution
    table, operation = chain.table(execution.procedure), chain.operations[execution.procedure]
    given = {buffer.symbol_index: buffer for buffer in execution.inputs}
    for index, port in enumerate(table.inputs):
        buffer = given.get(index)
        value = chain.on_chip[index] if buffer is None else buffer.surface.read(port.buffer.dtype, port.type.shape)
        operation.set_input(port.name, value)
    lane().run(Counter([operation.program]), operation.run).result()
    results = [operation.read_output(port.name) for port in table.outputs]
    if one.record is not None:
        for buffer in chain.output_set(one.record).output_buffer:
            buffer.surface.write(results[buffer.symbol_index])
    finish(one, results)
    looped = tuple(index for index in range(len(table.inputs)) if index not in given)
    signals = tuple((event.name, value) for event, value in one.signals)
    set_index = None if one.record is None else one.record.set_index
    return ExecutedStep(tick, chain.name, execution.number, execution.procedure, looped, set_index, signals)


def finish(one: PlannedExecution, results: Sequence[Array]) -> None:
    """Move the queues of a chain on, keep what loops back, and signal."""
    chain = one.chain
    looped = {into: results[output] for output, into in chain.loopback if output < len(results)}
    chain.finish(one.execution, one.record, looped)
    for event, value in one.signals:
        event.signal(value)
