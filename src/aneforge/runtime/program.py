"""A loaded program: ports with buffers that stay, one execution at a time, states that outlive it.

The level below models. A caller writes into the buffers of input ports, executes, and reads the buffers of output
ports; nothing is copied that the caller did not ask to copy. An output buffer can be made the buffer of an input, so
that what one execution writes the next one reads.

Threads: every method may be called from any thread. One lock orders executions and everything that touches buffers, so
concurrent calls of `eval` give what they would give one after the other. Views are the buffers themselves: who writes
into one while another thread executes must order the two himself.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, Self, TypeVar

import numpy as np

from aneforge.engine.exactness import worst
from aneforge.engine.execution.given import hand_over
from aneforge.errors import GraphError, GraphTypeError, RuntimeStateError, UnknownNameError
from aneforge.runtime.executables import RunsMany
from aneforge.runtime.ports import Direction, Port, check_buffer, check_memory, convert_value, expect_apart
from aneforge.runtime.processes import check_process, note_use
from aneforge.runtime.slots import SLOTS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from types import TracebackType

    from aneforge.compiler.ir.program import Program
    from aneforge.engine.exactness import Label
    from aneforge.graph.convert import SuppliedInput
    from aneforge.ops.types import Array, TensorType
    from aneforge.runtime.executables import Executable

__all__ = ["LoadedProgram"]

Item = TypeVar("Item")


class LoadedProgram:
    """A program that a backend has prepared, with a buffer for every port.

    >>> import numpy as np, aneforge as af
    >>> from aneforge.runtime.executables import SoftwareEngine
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> with LoadedProgram(program, SoftwareEngine(program)) as loaded:
    ...     loaded.input_view("x")[:] = [[1, 2]]
    ...     loaded.execute()
    ...     loaded.read_output("y").tolist()
    [[2.0, 3.0]]

    Raises:
        RuntimeStateError: This process has loaded the maximum number of programs, was forked from one that had used
            the runtime, or does not have the memory that the tensors need.
    """

    def __init__(self, program: Program, executable: Executable, supplied: Sequence[SuppliedInput] = ()) -> None:
        try:
            note_use()
            check_memory(program)
            ticket = SLOTS.take(max(1, len(program.segments)), program.target)
        except RuntimeStateError:
            executable.release()
            raise
        self._process = os.getpid()
        self._released = False
        self._end = weakref.finalize(self, let_go, ticket, executable, self._process)
        self.program = program
        self.executable = executable
        self.lock = threading.RLock()
        self.executions = 0
        """How many executions ended."""
        self.label: Label | None = None
        """How sure the outputs of the last execution are."""
        self.inputs = ports_of(Direction.INPUT, program, executable)
        self.outputs = ports_of(Direction.OUTPUT, program, executable)
        self.states: dict[str, Array] = {
            state.name: executable.state_buffer(state.name, state.read.type) for state in program.states
        }
        self.drawn = {one.name: convert_value(self.inputs[one.name], one.draw()) for one in supplied}
        """What the host draws for inputs that conversion added, by their names."""
        for name, value in self.drawn.items():
            fill(self.inputs[name], value)
        self.shared: dict[str, str] = {}
        """Outputs whose buffer is also that of an input: the input's name by the output's."""

    @property
    def ports(self) -> Mapping[str, Port]:
        """Every port by its name, inputs first.

        Where an input and an output have one name, they are called `name:input` and `name:output`.
        """
        twice = self.inputs.keys() & self.outputs.keys()
        return MappingProxyType(
            {
                f"{port.name}:{port.direction}" if port.name in twice else port.name: port
                for port in (*self.inputs.values(), *self.outputs.values())
            }
        )

    @property
    def released(self) -> bool:
        """True once it cannot be used any more."""
        return self._released

    def port(self, name: str) -> Port:
        """Return a port by its name.

        Raises:
            UnknownNameError: There is none.
        """
        return find_named(self.ports, name, "port")

    def bind(self, name: str, buffer: Array) -> None:
        """Make an array of the caller's the buffer of a port.

        Raises:
            UnknownNameError: There is no such port.
            GraphError: The array does not fit the port, or is another output's.
            RuntimeStateError: The program was released.
        """
        with self.use("bind"):
            port = self.port(name)
            checked = check_buffer(port, buffer)
            expect_apart(port, checked, self.outputs.values())
            port.buffer = checked
            self.shared = {
                output: input_name
                for output, input_name in self.shared.items()
                if self.outputs[output].buffer is self.inputs[input_name].buffer
            }

    def share_buffer(self, output: str, to_input: str) -> None:
        """Give an input the buffer of an output, so that the next execution reads what the last one wrote.

        Raises:
            UnknownNameError: There is no such port.
            GraphError: The two ports have different types.
            RuntimeStateError: The program was executed already, or released.
        """
        with self.use("share_buffer"):
            source, sink = find_named(self.outputs, output, "output"), find_named(self.inputs, to_input, "input")
            if self.executions:
                raise RuntimeStateError(
                    "buffers are shared before the first execution",
                    seen=f"{self.executions} executions",
                    remedy="load the program again, share, then execute",
                )
            if source.type != sink.type:
                raise GraphError(f"{source} cannot share its buffer with {sink}", seen=sink.type, limit=source.type)
            self.executable.share_buffer(output, to_input)
            sink.buffer = source.buffer
            self.shared[output] = to_input

    def input_view(self, name: str | None = None) -> Array:
        """Return the buffer of an input itself, to write into; without a name, that of the only input.

        Raises:
            UnknownNameError: There is no such input.
            GraphError: There are several, and no name was given.
            RuntimeStateError: The program was released.
        """
        self.check_usable("input_view")
        return only(self.inputs, name, "input").buffer

    def output_view(self, name: str | None = None) -> Array:
        """Return the buffer of an output itself, which each execution overwrites; without a name, of the only one.

        Raises:
            UnknownNameError: There is no such output.
            GraphError: There are several, and no name was given.
            RuntimeStateError: The program was released.
        """
        self.check_usable("output_view")
        return only(self.outputs, name, "output").buffer

    def set_input(self, name: str, value: object) -> None:
        """Copy a value into the buffer of an input.

        Raises:
            UnknownNameError: There is no such input.
            GraphError: The value does not fit the port.
            RuntimeStateError: The program was released.
        """
        with self.use("set_input"):
            port = find_named(self.inputs, name, "input")
            fill(port, convert_value(port, value))

    def read_output(self, name: str | None = None) -> Array:
        """Return a copy of an output of the last execution, in the port's own element type.

        Raises:
            UnknownNameError: There is no such output.
            GraphError: There are several, and no name was given.
            RuntimeStateError: The program was released.
        """
        with self.use("read_output"):
            return only(self.outputs, name, "output").buffer.copy()

    def read_state(self, name: str) -> Array:
        """Return a copy of what a state holds now.

        Raises:
            UnknownNameError: There is no such state.
            RuntimeStateError: The program was released.
        """
        with self.use("read_state"):
            return find_named(self.states, name, "state").copy()

    def write_state(self, name: str, value: object) -> None:
        """Set what a state holds; it starts from zeros.

        Raises:
            UnknownNameError: There is no such state.
            GraphError: The value does not fit the state.
            RuntimeStateError: The program was released.
        """
        with self.use("write_state"):
            held = find_named(self.states, name, "state")
            kind = next(state.read.type for state in self.program.states if state.name == name)
            np.copyto(held, convert_value(Port(name, Direction.INPUT, kind, held), value))

    def execute(self) -> None:
        """Run once: read the buffers of the inputs, write those of the outputs, move the states on.

        Raises:
            RuntimeStateError: The program was released, or belongs to a process that this one was forked from.
        """
        with self.use("execute"):
            self._run(self.executable, self.inputs.values(), self.outputs.values())

    def execute_with(self, ports: Iterable[Port], executable: Executable | None = None) -> None:
        """Run once as `execute` does, with other ports, and where that is given in other memory of the backend's.

        Raises:
            RuntimeStateError: The program was released, or belongs to a process that this one was forked from.
        """
        listed = tuple(ports)
        entering = [port for port in listed if port.direction is Direction.INPUT]
        leaving = [port for port in listed if port.direction is Direction.OUTPUT]
        with self.use("execute"):
            self._run(executable or self.executable, entering, leaving)

    def _run(self, executable: Executable, inputs: Iterable[Port], outputs: Iterable[Port]) -> None:
        # An output may leave in a buffer that an input came from, and a value may pass through unchanged.
        given = {port.name: port.buffer if executable.in_place else port.buffer.copy() for port in inputs}
        found = executable.execute(given, self.states)
        for port in outputs:
            if found.outputs[port.name] is not port.buffer:
                with np.errstate(over="ignore"):
                    np.copyto(port.buffer, found.outputs[port.name], casting="unsafe")
        for name, held in self.states.items():
            if found.states[name] is not held:
                self.states[name] = np.array(found.states[name])
        self.label = found.label
        self.executions += 1

    def eval(self, *values: object) -> dict[str, Array]:
        """Set every input in order, run once, and return a copy of every output by name.

        Inputs that the host draws come last, and may be left out.

        Raises:
            GraphError: There are more or fewer values than inputs, or one does not fit its port.
            RuntimeStateError: The program was released.
        """
        with self.use("eval"):
            values = self.expect_values(values)
            ready = [convert_value(port, value) for port, value in zip(self.inputs.values(), values, strict=True)]
            for port, value in zip(self.inputs.values(), ready, strict=True):
                fill(port, value)
            self.execute()
            return {name: port.buffer.copy() for name, port in self.outputs.items()}

    def expect_values(self, values: tuple[object, ...]) -> tuple[object, ...]:
        """Return a value for every input, with what the host draws after those that are given.

        Raises:
            GraphError: There are more or fewer values than inputs.
        """
        asked = [name for name in self.inputs if name not in self.drawn]
        if len(values) == len(asked):
            values = (*values, *self.drawn.values())
        if len(values) != len(self.inputs):
            raise GraphError(
                f"the inputs are {', '.join(map(repr, asked)) or 'none'}",
                seen=f"{len(values)} values",
                limit=len(asked),
                remedy="give one value for every input, in the order in which the inputs were made",
            )
        return values

    def eval_many(self, *values: object) -> dict[str, Array]:
        """Run samples, given with one more axis before those of the inputs, and return every output of each by name.

        What comes out, and what states and buffers hold afterwards, is what `eval` gives one sample after the other;
        inputs that the host draws are the same for all.

        Raises:
            GraphError: There are more or fewer values than inputs, or one does not fit its port or the others.
            RuntimeStateError: The program was released.
        """
        with self.use("eval_many"):
            given = self.expect_values(values)
            asked = [name for name in self.inputs if name not in self.drawn]
            counts = {
                len(one) if (one := np.asarray(value)).ndim else 0 for _, value in zip(asked, given, strict=False)
            }
            if len(counts) != 1 or 0 in counts:
                raise GraphError(
                    "inputs have one and the same number of samples, at least one",
                    seen=", ".join(map(str, sorted(counts))) or "no input",
                    remedy="stack the samples of every input along a new first axis",
                )
            (count,) = counts
            ready: dict[str, Array] = {}
            for port, value in zip(self.inputs.values(), given, strict=True):
                drawn = (
                    np.broadcast_to(np.asarray(value), (count, *port.type.shape)) if port.name in self.drawn else value
                )
                kind = port.type.with_shape(count, *port.type.shape)
                ready[port.name] = hand_over(f"samples of {port}", drawn, kind, port.buffer.dtype)
            return self._run_many(ready, count)

    def _run_many(self, ready: Mapping[str, Array], count: int) -> dict[str, Array]:
        executable = self.executable
        if not isinstance(executable, RunsMany):
            found: dict[str, list[Array]] = {name: [] for name in self.outputs}
            labels: list[Label] = []
            for sample in range(count):
                for name, port in self.inputs.items():
                    fill(port, ready[name][sample])
                self.execute()
                labels += [] if self.label is None else [self.label]
                for name, port in self.outputs.items():
                    found[name].append(port.buffer.copy())
            self.label = worst(labels) if labels else None
            return {name: np.stack(arrays) for name, arrays in found.items()}
        execution = executable.execute_many(ready, self.states)
        outputs: dict[str, Array] = {}
        with np.errstate(over="ignore"):
            for name, port in self.outputs.items():
                outputs[name] = execution.outputs[name].astype(port.buffer.dtype)
                np.copyto(port.buffer, outputs[name][-1])
        for name, port in self.inputs.items():
            if name not in self.shared.values():
                fill(port, ready[name][-1])
        for name in self.states:
            self.states[name] = np.array(execution.states[name])
        self.label = execution.label
        self.executions += count
        return outputs

    @contextmanager
    def use(self, action: str) -> Generator[None]:
        """Hold the program for one action; no other call uses it meanwhile.

        Raises:
            RuntimeStateError: It was released, or belongs to a process that this one was forked from.
        """
        self.check_usable(action)  # before the lock: one that a thread held at a fork is never given back in the child
        with self.lock:
            self.check_usable(action)
            yield

    def check_usable(self, action: str) -> None:
        """Check that the program can be used here and now.

        Raises:
            RuntimeStateError: It was released, or belongs to a process that this one was forked from.
        """
        if self._released:
            raise RuntimeStateError(
                "the program was released", operation=action, remedy="compile or load it again, or release it later"
            )
        check_process(action, self._process)

    def release(self) -> None:
        """Give back what the program holds; a second time does nothing. It waits for an execution under way."""
        if os.getpid() != self._process:
            self._released = True  # it is the other process's to release
            return
        with self.lock:
            self._released = True
            if self.executable.in_place:
                for port in (*self.inputs.values(), *self.outputs.values()):
                    port.buffer = np.empty(0, port.buffer.dtype)  # the memory goes with the program
                self.states.clear()
            self._end()

    def __reduce__(self) -> NoReturn:
        raise GraphTypeError(
            "a loaded program is not copied or pickled: its ports and states are here",
            remedy="model.save writes the program, af.load_program reads it",
        )

    def __enter__(self) -> Self:
        self.check_usable("enter")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        ports = ", ".join(map(str, self.ports.values()))
        return f"<{'released' if self._released else 'loaded'} program for {self.program.target.name}: {ports}>"


def let_go(ticket: int, executable: Executable, process: int) -> None:
    """Give back what a program holds; a forked process holds nothing."""
    if os.getpid() == process:
        SLOTS.give_back(ticket)
        executable.release()


def fill(port: Port, value: Array) -> None:
    """Copy a value into the buffer of an input.

    Raises:
        GraphError: The buffer is the caller's own and cannot be written to.
    """
    if not port.buffer.flags.writeable:
        raise GraphError(f"the buffer bound to {port} cannot be written to", remedy="bind one that can")
    np.copyto(port.buffer, value)


def ports_of(direction: Direction, program: Program, executable: Executable) -> Mapping[str, Port]:
    """Return the ports of one direction, each with a buffer of its own."""

    def build_port(name: str, kind: TensorType) -> Port:
        return Port(name, direction, kind, executable.port_buffer(direction, name, kind))

    listed = program.inputs if direction is Direction.INPUT else program.outputs
    return MappingProxyType({port.name: build_port(port.name, port.value.type) for port in listed})


def find_named(known: Mapping[str, Item], name: str, what: str) -> Item:
    """Return what has a name.

    Raises:
        UnknownNameError: Nothing has.
    """
    if not isinstance(name, str) or name not in known:  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise UnknownNameError.of(what, name, known)
    return known[name]


def only(known: Mapping[str, Port], name: str | None, what: str) -> Port:
    """Return the port of a name, or the only one.

    Raises:
        UnknownNameError: None has that name.
        GraphError: There are several, and no name was given.
    """
    if name is not None:
        return find_named(known, name, what)
    if len(known) != 1:
        raise GraphError(
            f"a name is needed unless there is exactly one {what}",
            seen=len(known),
            remedy=f"name one: {', '.join(known)}",
        )
    return next(iter(known.values()))
