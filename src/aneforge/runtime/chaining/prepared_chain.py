"""A prepared chain of the simulation: its queues of executions and of output sets, and what stays on chip.

What the study never saw is modelled, and said so here:

- One input record starts one execution of one procedure; executions of a chain run in order.
- A loopback output of an execution becomes the loopback input of the next one, whatever its procedure, and reaches no
  surface on the way.
- A procedure that was given output sets waits for one before each execution (back pressure); in an open loop the set
  stays. A procedure that was never given one runs without, if all its outputs loop back.
- A program has at most as many executions waiting as its queue is deep.
"""

from __future__ import annotations

import itertools
from collections import deque
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.errors import GraphError, RuntimeStateError, UnknownNameError
from aneforge.records import dataclass
from aneforge.runtime.chaining.arguments import check_instance, check_integer, check_items
from aneforge.runtime.chaining.chain_models import check_surface, running_error
from aneforge.runtime.chaining.chaining_study import SIMULATED
from aneforge.runtime.chaining.shared_events import ANESharedWaitEvent
from aneforge.runtime.ports import Direction
from aneforge.runtime.streams.events import Event
from aneforge.runtime.streams.operations import Operation

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from aneforge.ops.types import Array
    from aneforge.runtime.chaining.chain_models import ANEModel, SymbolTable
    from aneforge.runtime.chaining.chaining_request import ANEChainingRequest
    from aneforge.runtime.chaining.shared_events import ANEInputBuffersReady, ANEOutputSetEnqueue
    from aneforge.runtime.chaining.surfaces import ANEBuffer, ANEIOSurfaceOutputSets

__all__ = ["ChainOptions", "Execution", "PreparedChain"]

NUMBERS = itertools.count(1)
"""Chains without a name are numbered in the order in which they are prepared."""


@dataclass(frozen=True, slots=True)
class ChainOptions:
    """What a simulated chain is prepared with, in addition to its request; the keys of the real options are not known.

    >>> ChainOptions("decoder", wait_events=[ANESharedWaitEvent(1, Event("weights are loaded"))]).name
    'decoder'

    Raises:
        GraphTypeError: The name is not text, or the list holds something other than wait events.
    """

    name: str = ""
    """How messages call it."""
    wait_events: Sequence[ANESharedWaitEvent] = ()
    """What the first execution waits for."""

    def __post_init__(self) -> None:
        check_instance(self.name, str, "the name of a chain")
        object.__setattr__(self, "wait_events", check_items(self.wait_events, ANESharedWaitEvent, "wait_events"))


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution that was asked for."""

    number: int
    """Its place in the chain, from 0."""
    procedure: int
    inputs: tuple[ANEBuffer, ...]
    freed: tuple[tuple[Event, int], ...]
    """Events of inputs that are free again afterwards, each with its value."""
    waits: tuple[ANESharedWaitEvent, ...]
    delay: int


@dataclass(slots=True)
class SetQueue:
    """Output sets of one procedure that may be written."""

    waiting: deque[ANEOutputSetEnqueue] = field(default_factory=deque["ANEOutputSetEnqueue"])
    ever: bool = False
    """A set was enqueued at some time."""
    written: int = 0
    """How often the set of an open loop was written."""


class PreparedChain:
    """What `prepare_chaining` returns in the simulation. Calls of the client fill it, `run_chains` runs it.

    Several threads may fill one chain, also while it runs: what is asked for then waits for the next run.

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
    >>> chain.name, len(chain.executions), chain.asked
    ('a chain', 1, 1)
    >>> run_chains([chain]).round_trips, len(chain.executions)
    (1, 0)
    """

    def __init__(self, model: ANEModel, request: ANEChainingRequest, options: ChainOptions) -> None:
        self.model = model
        self.request = request
        self.name = options.name or f"chain {next(NUMBERS)}"
        self.buffers = request.buffers()
        self.sets = request.sets()
        self.signals = request.signals()
        self.loopback = request.loopback()
        self.procedures = request.procedures()
        self.first_waits = tuple(options.wait_events)
        self.fw_enqueue_delay = check_integer(request.fw_enqueue_delay, "fw_enqueue_delay")
        self.executions: deque[Execution] = deque()
        """What was asked for and did not run yet."""
        self.asked = 0
        """How many executions were asked for in all."""
        self.on_chip: dict[int, Array] = {}
        """What loops back, by the input symbol that it becomes."""
        self.input_free = {
            buffer.symbol_index: Event(f"{SIMULATED} {self.name} input {buffer.symbol_index} free")
            for buffer in self.buffers
        }
        """By input symbol: an event that takes the free values of input records."""
        self.last_procedure = self.procedures[0]
        """The procedure that ran last: what is on chip comes from it."""
        self.released = False
        self.runs = False
        """It is being run."""
        self.queues = {procedure: SetQueue() for procedure in self.procedures}
        self.check_symbols()
        self.operations = {
            procedure: Operation(model.loaded(procedure), f"{self.name} procedure {procedure}")
            for procedure in self.procedures
        }

    def table(self, procedure: int) -> SymbolTable:
        """Return the symbols of one of its procedures.

        Raises:
            UnknownNameError: The chain does not have the procedure.
            RuntimeStateError: The model was released.
        """
        if procedure not in self.queues:
            known = ", ".join(map(str, self.procedures))
            raise UnknownNameError(f"{self.name} has no procedure {procedure}; known: {known}")
        return self.model.symbol_table(procedure)

    def check_symbols(self) -> None:
        """Check that every symbol of the request exists in one of its procedures, and that its surface holds it.

        Raises:
            UnknownNameError: A procedure or a symbol does not exist.
            GraphError: A surface is too small for every procedure that has its symbol.
        """
        sides = [(Direction.INPUT, buffer) for buffer in self.buffers]
        sides += [(Direction.OUTPUT, buffer) for one in self.sets for buffer in one.output_buffer]
        for direction, buffer in sides:
            self.check_symbol(direction, buffer.symbol_index, buffer)
        for output, into in self.loopback:
            self.check_symbol(Direction.OUTPUT, output)
            self.check_symbol(Direction.INPUT, into)
        for signal in self.signals:
            self.check_symbol(Direction.OUTPUT, signal.symbol_index)

    def check_symbol(self, direction: Direction, index: int, buffer: ANEBuffer | None = None) -> None:
        """Check that a symbol exists in a procedure, where its buffer fits.

        Raises:
            UnknownNameError: No procedure has it.
            GraphError: The surface of the buffer fits into none of them.
        """
        errors: list[GraphError | UnknownNameError] = []
        for procedure in self.procedures:
            try:
                port = self.table(procedure).symbol(direction, index)
                if buffer is not None:
                    check_surface(port, buffer.surface)
            except (GraphError, UnknownNameError) as error:
                errors.append(error)
            else:
                return
        raise errors[0]

    def ask(self, record: ANEInputBuffersReady, waits: tuple[ANESharedWaitEvent, ...]) -> None:
        """Ask for one execution.

        Raises:
            UnknownNameError: There is no such procedure, or no buffer at one of the places.
            GraphError: An input has no buffer, two, or one that is too small; or a loopback has another type.
            RuntimeStateError: The chain or its model was released, or the queue of the program is full.
        """
        with self.model.guard:
            self._ask(record, waits)

    def _ask(self, record: ANEInputBuffersReady, waits: tuple[ANESharedWaitEvent, ...]) -> None:
        self.check_usable("buffersReadyWithModel")
        table = self.table(record.procedure_index)
        inputs = tuple(self.buffer_at(place) for place in record.input_buffer_info_index)
        self.check_inputs(table, record, inputs)
        queue = self.model.queue(record.procedure_index)
        queue.check_room("buffersReadyWithModel")
        freed = zip(inputs, record.input_free_value, strict=False)
        self.executions.append(
            Execution(
                self.asked,
                record.procedure_index,
                inputs,
                tuple((self.input_free[buffer.symbol_index], value) for buffer, value in freed if value),
                (*(() if self.asked else self.first_waits), *waits),
                record.execution_delay + (0 if self.asked else self.fw_enqueue_delay),
            )
        )
        self.asked += 1
        queue.pending += 1

    def buffer_at(self, place: int) -> ANEBuffer:
        """Return an input buffer of the request.

        Raises:
            UnknownNameError: There is none at that place.
        """
        if place >= len(self.buffers):
            raise UnknownNameError(
                f"{self.name} has no input buffer {place}; the request has {len(self.buffers)}, from 0"
            )
        return self.buffers[place]

    def check_inputs(self, table: SymbolTable, record: ANEInputBuffersReady, inputs: tuple[ANEBuffer, ...]) -> None:
        """Check that an execution has everything that it reads.

        Raises:
            UnknownNameError: A buffer is of a symbol that the procedure does not have.
            GraphError: An input has no buffer, two, or one that is too small; or a loopback has another type.
        """
        symbols = [buffer.symbol_index for buffer in inputs]
        if twice := sorted({symbol for symbol in symbols if symbols.count(symbol) > 1}):
            raise GraphError(f"input symbol {twice[0]} has two buffers in one record", seen=str(record))
        for buffer in inputs:
            check_surface(table.symbol(Direction.INPUT, buffer.symbol_index), buffer.surface)
        looped = {into: output for output, into in self.loopback} if self.asked else {}
        for index, port in enumerate(table.inputs):
            if index in symbols:
                continue
            if index not in looped:
                raise GraphError(
                    f"no buffer for input symbol {index} ({port.name}) of procedure {record.procedure_index}",
                    operation=f"buffersReadyWithModel ({SIMULATED})",
                    remedy="list its buffer in input_buffer_info_index; a loopback feeds later executions only",
                )
            self.check_loopback(looped[index], index, record.procedure_index)

    def check_loopback(self, output: int, into: int, procedure: int) -> None:
        """Check that what the execution before writes is what this one reads.

        Raises:
            UnknownNameError: The execution before has no such output.
            GraphError: The types are different.
        """
        before = self.executions[-1].procedure if self.executions else self.last_procedure
        source = self.table(before).symbol(Direction.OUTPUT, output)
        sink = self.table(procedure).symbol(Direction.INPUT, into)
        if source.type != sink.type:
            raise GraphError(
                f"{source} of procedure {before} cannot loop back to {sink} of procedure {procedure}",
                seen=source.type,
                limit=sink.type,
            )

    def offer(self, record: ANEOutputSetEnqueue) -> None:
        """Enqueue an output set.

        Raises:
            UnknownNameError: There is no such procedure or set, or the procedure has no such output.
            GraphError: A surface is too small.
            RuntimeStateError: The chain or its model was released, the queue is full, or an open loop has a set.
        """
        with self.model.guard:
            self._offer(record)

    def _offer(self, record: ANEOutputSetEnqueue) -> None:
        self.check_usable("enqueueSetsWithModel")
        table = self.table(record.procedure_index)
        if record.set_index >= len(self.sets):
            raise UnknownNameError(
                f"{self.name} has no output set {record.set_index}; the request has {len(self.sets)}, from 0"
            )
        for buffer in self.sets[record.set_index].output_buffer:
            check_surface(table.symbol(Direction.OUTPUT, buffer.symbol_index), buffer.surface)
        queue = self.queues[record.procedure_index]
        if queue.waiting and queue.waiting[-1].is_open_loop:
            raise RuntimeStateError(
                f"procedure {record.procedure_index} of {self.name} is in an open loop: its set stays enqueued",
                operation=f"enqueueSetsWithModel ({SIMULATED})",
                remedy="prepare another chain for closed loops",
            )
        depth = self.model.queue(record.procedure_index).queue_depth
        if len(queue.waiting) >= depth:
            raise RuntimeStateError(
                f"the queue of output sets of procedure {record.procedure_index} of {self.name} is full",
                operation=f"enqueueSetsWithModel ({SIMULATED})",
                seen=len(queue.waiting) + 1,
                limit=depth,
                remedy="run the chains first: run_chains(...)",
            )
        queue.waiting.append(record)
        queue.ever = True

    def needs_set(self, procedure: int) -> bool:
        """Return whether executions of a procedure wait for an output set."""
        looped = {output for output, _ in self.loopback}
        every = looped.issuperset(range(len(self.table(procedure).outputs)))
        return self.queues[procedure].ever or not every

    def output_set(self, record: ANEOutputSetEnqueue) -> ANEIOSurfaceOutputSets:
        """Return the set that a record enqueues."""
        return self.sets[record.set_index]

    def check_usable(self, action: str) -> None:
        """Check that neither the chain nor its model was released.

        Raises:
            RuntimeStateError: One was.
        """
        if self.released:
            raise RuntimeStateError(
                f"{self.name} was released", operation=f"{action} ({SIMULATED})", remedy="prepare the request again"
            )
        self.model.check_usable(action)

    @contextmanager
    def running(self) -> Generator[None]:
        """Keep the chain and its model from being released while the chain runs.

        Raises:
            RuntimeStateError: One was released before.
        """
        with self.model.guard:
            self.check_usable("run_chains")
            self.runs, self.model.runs = True, self.model.runs + 1
        try:
            yield
        finally:
            with self.model.guard:
                self.runs, self.model.runs = False, self.model.runs - 1

    def release(self) -> None:
        """Give the chain up: what was asked for and did not run is dropped. A second time does nothing.

        Raises:
            RuntimeStateError: It runs, in another thread.
        """
        with self.model.guard:
            if self.runs:
                raise running_error(self.name, "release")
            for execution in self.executions:
                self.model.queue(execution.procedure).pending -= 1
            self.executions.clear()
            self.on_chip.clear()
            self.released = True

    def finish(self, execution: Execution, record: ANEOutputSetEnqueue | None, looped: dict[int, Array]) -> None:
        """Take the first execution out of the queue, with the set that it wrote and what loops back from it."""
        with self.model.guard:
            self.executions.popleft()
            self.model.queue(execution.procedure).pending -= 1
            self.on_chip = looped
            self.last_procedure = execution.procedure
            queue = self.queues[execution.procedure]
            if record is None:
                return
            if record.is_open_loop:
                queue.written += 1
            else:
                queue.waiting.popleft()

    def __repr__(self) -> str:
        standing = "released" if self.released else f"{len(self.executions)} of {self.asked} executions waiting"
        return f"<{SIMULATED} chain {self.name!r} of {len(self.procedures)} procedures, {standing}>"
