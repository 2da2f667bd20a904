"""The way to a device: the interface that dispatch to Apple's frameworks implements, and the backend over it.

It has the calls of the documented dispatch library, one to one: compile MIL for ports of given names and bytes, write
and read ports or look at their memory, share one port's memory with another, add operations to the stream, execute all
of them at once or asynchronously with events, release. Two bytes are an fp16 number, one is a uint8; a port has an even
number of bytes.

What a program keeps between executions (states, and what `execute_multi` passes from step to step) stays in the memory
of the device's ports: an output there shares the memory of an input, and no step copies it through the host.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.execution.run import engine_element
from aneforge.errors import BackendUnavailableError, NotSupportedError, RuntimeStateError
from aneforge.records import dataclass
from aneforge.runtime.breaker import guard_compile
from aneforge.runtime.executables import Execution
from aneforge.runtime.ports import Direction
from aneforge.runtime.streams.resident import with_state_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from aneforge.compiler.ir.program import Program
    from aneforge.formats.mil.text import MilText
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array, TensorType

__all__ = [
    "ENGINE_MASK",
    "Device",
    "DeviceBackend",
    "DeviceExecutable",
    "DevicePort",
    "DeviceProgram",
    "PortKey",
    "another_device",
    "port_bytes",
]

DISPATCHED = Label(Exactness.EXACT, "computed by the device itself")
EMULATED = Label(
    Exactness.MODELLED,
    "computed by a software engine through a dispatch library, which does not report doubts about values; the backend "
    '"software" gives the same bits with its reasons',
)
PORT_TYPES = ("fp16", "uint8")
PortKey = tuple[Direction, str]
"""A port of an operation: its direction, and the name that the device has for it."""
MOST_STEPS = 64
"""Steps that are operations of one stream: each is a program that is loaded, and a process loads about 128 (aneforge
docs, e5rt dispatch). More steps run one operation again and again, with the same values."""
ENGINE_MASK = 0x4
"""The Neural Engine in a mask of devices: 0x1 is the CPU, 0x2 the GPU (aneforge docs, e5rt dispatch)."""


@dataclass(frozen=True, slots=True)
class DevicePort:
    """A port as a device knows it: the name that the MIL text has, and a number of bytes."""

    name: str
    nbytes: int


class Device(Protocol):
    """A way to a device. An error of the device is a `RuntimeError`."""

    @property
    def operation_ports(self) -> int | None:
        """How many inputs, and how many outputs, an operation has that is added to a stream; None for any number."""
        ...

    @property
    def lends_buffers(self) -> bool:
        """True where a port of one program can have the memory of another program's."""
        ...

    @property
    def is_silicon(self) -> bool:
        """True where the numbers are those of a chip; False where a model of one computes them."""
        ...

    def obstacle(self) -> str | None:
        """Return why the device cannot be used here, or None where it can."""
        ...

    def compile(
        self,
        mil: Path,
        inputs: tuple[DevicePort, ...],
        outputs: tuple[DevicePort, ...],
        *,
        mask: int = ENGINE_MASK,
        cache: Path | None = None,
        target: str | None = None,
    ) -> DeviceProgram:
        """Compile and load a MIL program, its weights next to it, as the first operation of a stream.

        A chip is what it is; what stands for one compiles for the target.
        """
        ...

    def compile_check(
        self, mil: Path, *, options: str | None = None, mask: int = ENGINE_MASK, cache: Path | None = None
    ) -> int:
        """Return 0 where the program compiles, -1 where not, -2 where options are not known; else the device's code."""
        ...


class DeviceProgram(Protocol):
    """A stream of operations that a device holds, the first of which `compile` made."""

    def set_input(self, port: str, data: Array, operation: int = 0) -> None:
        """Copy values into an input port; fewer bytes than it has leave the rest as it was."""
        ...

    def get_output(self, port: str, into: Array, operation: int = 0) -> None:
        """Copy an output port into an array, as many bytes as it has at most."""
        ...

    def input_view(self, port: str) -> Array:
        """Return the memory of an input port of the first operation, as bytes.

        Where a device has gaps between rows, the array has its rows in the last axis, and strides that leave them out.
        """
        ...

    def output_view(self, port: str) -> Array:
        """Return the memory of an output port of the first operation, as `input_view` does."""
        ...

    def share_buffer(self, source: int, output: str, sink: int, to_input: str) -> None:
        """Give an input of one operation the memory of an output of another; before the first execution."""
        ...

    def lend_buffer(self, source: PortKey, to: DeviceProgram, sink: PortKey, operation: int = 0) -> None:
        """Give a port of an operation of another program the memory of a port of this one's first.

        Before the first execution of the other. The memory stays as long as one of the programs does.
        Where added operations have a limited number of ports, only the first operation takes memory.
        """
        ...

    def execute(self) -> None:
        """Run the first operation once."""
        ...

    def add_operation(self, mil: Path, inputs: tuple[DevicePort, ...], outputs: tuple[DevicePort, ...]) -> int:
        """Compile another program into the stream, and return the number of its operation."""
        ...

    def operation_count(self) -> int:
        """Return how many operations the stream has."""
        ...

    def execute_multi(self) -> None:
        """Run every operation once, in order. No event moves."""
        ...

    def chain(self, source: int, sink: int, event: str) -> None:
        """Let an operation wait for the end of an earlier one in asynchronous executions."""
        ...

    def event_value(self, operation: int) -> int:
        """Return how often an operation ended in asynchronous executions."""
        ...

    def chain_event_value(self, sink: int) -> int:
        """Return the value of the event that an operation waits for."""
        ...

    def execute_async(self) -> None:
        """Run every operation in order, after what was submitted before, and return at once."""
        ...

    def wait_for_completion(self) -> None:
        """Wait for everything that was submitted."""
        ...

    def final_event_values(self) -> tuple[int, int]:
        """Return the value of the last operation's event before and after the last submission."""
        ...

    def release(self) -> None:
        """Unload the program."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceBackend:
    """A backend that dispatches to a device."""

    name: str
    title: str
    device: Device

    def obstacle(self) -> str | None:
        """Return why the device cannot be used here."""
        return self.device.obstacle()

    def load(self, program: Program, graph: Graph | None) -> DeviceExecutable:
        """Write the program as MIL, and let the device compile and load it.

        Raises:
            BackendUnavailableError: The device cannot be used here.
            NotSupportedError: The program has a port or an operation that this way has no form for.
            CompileBackoffError: The device failed to compile a moment ago.
        """
        obstacle = self.obstacle()
        if obstacle is not None:
            raise BackendUnavailableError(f"backend {self.name!r} is not available: {obstacle}")
        if graph is None:
            raise NotSupportedError(
                "a device compiles the graph, and this program was read from a file that holds the engine's layers",
                remedy="compile the graph with this backend, or pass the MIL program as well",
            )
        from aneforge.formats.mil.mil_files import write_mil  # noqa: PLC0415 - only devices are given MIL text
        from aneforge.formats.mil.text import mil_text  # noqa: PLC0415 - as above

        resident = with_state_ports(graph)
        made = mil_text(resident.graph)
        states = {state.name: state.read.type for state in program.states}
        entering = {port.name: port.value.type for port in program.inputs} | states
        leaving = {port.name: port.value.type for port in program.outputs}
        leaving |= {output: states[state] for output, state in resident.pairs.items()}
        names_in, names_out = mil_names(resident.graph, made)
        inputs, outputs = bind_ports(names_in, entering), bind_ports(names_out, leaving)
        folder = tempfile.TemporaryDirectory(prefix="aneforge-")
        try:
            mil = write_mil(made, folder.name)
            with guard_compile(self.name):
                loaded = self.device.compile(
                    mil, tuple(inputs.values()), tuple(outputs.values()), target=program.target.name
                )
            types = {Direction.INPUT: entering, Direction.OUTPUT: leaving}
            interface = Interface(inputs, outputs, types, frozenset(states), resident.pairs, program.target.name)
            return DeviceExecutable(self.device, loaded, interface, mil, folder)
        except BaseException:
            folder.cleanup()
            raise


@dataclass(frozen=True, slots=True)
class Interface:
    """What is known of a program that a device holds."""

    inputs: Mapping[str, DevicePort]
    """The ports of the device by the names that the program has; states are among them."""
    outputs: Mapping[str, DevicePort]
    types: Mapping[Direction, Mapping[str, TensorType]]
    states: frozenset[str]
    """The inputs that are states."""
    pairs: Mapping[str, str]
    """States that an execution changes: the input's name by the output's."""
    target: str


class DeviceExecutable:
    """A program that a device holds."""

    in_place = True

    def __init__(
        self,
        device: Device,
        loaded: DeviceProgram,
        interface: Interface,
        mil: Path,
        folder: tempfile.TemporaryDirectory[str] | None = None,
        lender: DeviceExecutable | None = None,
    ) -> None:
        self.device = device
        self.interface = interface
        self.mil = mil
        """The MIL program, which stays as long as the executable that it was written for."""
        self.folder = folder
        """Where it is, for the executable that it was written for."""
        self.inputs, self.outputs = interface.inputs, interface.outputs
        self.types, self.pairs, self.target = interface.types, interface.pairs, interface.target
        self.memory = Memory(loaded)
        self.views: dict[tuple[Direction, str], Array] = {}
        self.borrowed: list[Array] = []
        """Memory of others in which ports of this one are."""
        self.streams: dict[tuple[int, tuple[tuple[str, str], ...]], DeviceProgram] = {}
        """Streams that `execute_multi` made, by the number of steps and what is resident."""
        try:
            if lender is None:
                self.share_all(loaded, self.pairs, [(0, 0)])
            else:
                self.take_states(lender)
        except BaseException:
            self.release()
            raise

    def again(self) -> DeviceExecutable | None:
        """Return the same program with ports of its own, loaded once more; the states are this one's.

        None where the device cannot lend the memory of the states.
        """
        if self.interface.states and not self.device.lends_buffers:
            return None
        inputs, outputs = tuple(self.inputs.values()), tuple(self.outputs.values())
        loaded = self.device.compile(self.mil, inputs, outputs, target=self.target)
        return DeviceExecutable(self.device, loaded, self.interface, self.mil, lender=self)

    def take_states(self, lender: DeviceExecutable) -> None:
        """Go on from the states of another load of the program, in their memory."""
        lender.lend_states(self.memory.loaded)
        for state in self.interface.states:
            held = lender.view(Direction.INPUT, state)
            self.views[Direction.INPUT, state] = held
            self.borrowed.append(held)

    def lend_states(self, to: DeviceProgram, operations: int = 1) -> None:
        """Let other loads of the program read the states in the memory of this one's, and write them there."""
        loaded = self.memory.loaded
        for operation in range(operations):
            for state in self.interface.states:
                entry = Direction.INPUT, self.inputs[state].name
                loaded.lend_buffer(entry, to, entry, operation)
            for output, state in self.pairs.items():
                # An output that changes a state is where the state does.
                entry, end = (Direction.INPUT, self.inputs[state].name), (Direction.OUTPUT, self.outputs[output].name)
                loaded.lend_buffer(entry, to, end, operation)

    @property
    def label(self) -> Label:
        """How sure its numbers are: they are the device's own, or those of what stands for one."""
        return DISPATCHED if self.device.is_silicon else EMULATED

    def element(self, kind: TensorType) -> np.dtype[Any]:
        """Return the element type of a port."""
        return engine_element(kind)

    def port_buffer(self, direction: Direction, name: str, kind: TensorType) -> Array:
        """Return the memory of a port, as an array of its type."""
        del kind  # the one that it was loaded with
        return self.view(direction, name)

    def view(self, direction: Direction, name: str) -> Array:
        """Return the memory of a port, as an array of its type.

        Raises:
            RuntimeStateError: The device has another number of bytes for the port.
        """
        if (direction, name) in self.views:
            return self.views[direction, name]
        loaded, is_input = self.memory.loaded, direction is Direction.INPUT
        port = (self.inputs if is_input else self.outputs)[name]
        root = (loaded.input_view if is_input else loaded.output_view)(port.name)
        if root.nbytes != port.nbytes:
            raise RuntimeStateError(
                f"the device has {direction} {name!r} with another size", seen=root.nbytes, limit=port.nbytes
            )
        self.memory.watch(root)
        kind = self.types[direction][name]
        self.views[direction, name] = as_tensor(root, name, kind, self.element(kind))
        return self.views[direction, name]

    def state_buffer(self, name: str, kind: TensorType) -> Array:
        """Return the memory in which a state stays between executions."""
        del kind  # the one that it was loaded with
        return self.view(Direction.INPUT, name)

    def share_buffer(self, output: str, to_input: str) -> None:
        """Let an input have the memory of an output."""
        self.share_all(self.memory.loaded, {output: to_input}, [(0, 0)])
        self.views[Direction.INPUT, to_input] = self.view(Direction.OUTPUT, output)

    def lend_buffer(self, output: str, to: DeviceExecutable, to_input: str) -> bool:
        """Let an input of another executable have the memory of an output; False where the device cannot do that."""
        if to is self:
            self.share_buffer(output, to_input)
            return True
        if self.device != to.device or not self.device.lends_buffers:
            return False
        source, sink = (Direction.OUTPUT, self.outputs[output].name), (Direction.INPUT, to.inputs[to_input].name)
        self.memory.loaded.lend_buffer(source, to.memory.loaded, sink)
        to.views[Direction.INPUT, to_input] = self.view(Direction.OUTPUT, output)
        to.borrowed.append(self.view(Direction.OUTPUT, output))
        return True

    def execute(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run once; what is in the device's own memory already is not copied."""
        for name, array in (*inputs.items(), *states.items()):
            view = self.view(Direction.INPUT, name)
            if array is not view:
                np.copyto(view, array)
        self.memory.loaded.execute()
        return Execution(
            {name: self.view(Direction.OUTPUT, name) for name in self.outputs if name not in self.pairs},
            {name: self.view(Direction.INPUT, name) for name in states},
            self.label,
        )

    def execute_multi(
        self,
        feeds: Sequence[Mapping[str, Array]],
        resident: Mapping[str, str],
        seeds: Mapping[str, Array],
    ) -> list[dict[str, Array]]:
        """Run a step for every feed and return the outputs of each; what is resident stays in the device's memory.

        Every step is an operation of one stream, run by one call, where the device takes operations of as many ports,
        there are not too many steps, and for states their memory can be lent to all operations. Else one operation runs
        once for every step.
        """
        most = self.device.operation_ports
        fits = len(feeds) <= MOST_STEPS and (most is None or max(len(self.inputs), len(self.outputs)) <= most)
        if fits and (not self.interface.states or (most is None and self.device.lends_buffers)):
            return self.run_stream(feeds, resident, seeds)
        return self.run_again(feeds, resident, seeds)

    def run_stream(
        self,
        feeds: Sequence[Mapping[str, Array]],
        resident: Mapping[str, str],
        seeds: Mapping[str, Array],
    ) -> list[dict[str, Array]]:
        """Run every step by one call."""
        count = len(feeds)
        stream = self.stream_of(count, resident, [(step, step + 1) for step in range(count - 1)])
        for step, feed in enumerate(feeds):
            for name, array in {**feed, **(seeds if step == 0 else {})}.items():
                stream.set_input(self.inputs[name].name, pad(array), step)
        stream.execute_multi()
        return [self.outputs_of(stream, step) for step in range(count)]

    def run_again(
        self,
        feeds: Sequence[Mapping[str, Array]],
        resident: Mapping[str, str],
        seeds: Mapping[str, Array],
    ) -> list[dict[str, Array]]:
        """Run one operation once for every step.

        Where the device cannot lend the memory of states, they are copied before the first step and after the last.
        """
        stream = self.stream_of(1, resident, [(0, 0)]) if resident else self.memory.loaded
        apart = bool(resident) and not self.device.lends_buffers
        for state in self.interface.states if apart else ():
            stream.set_input(self.inputs[state].name, pad(self.view(Direction.INPUT, state)))
        found: list[dict[str, Array]] = []
        for step, feed in enumerate(feeds):
            for name, array in {**feed, **(seeds if step == 0 else {})}.items():
                stream.set_input(self.inputs[name].name, pad(array))
            stream.execute()
            found.append(self.outputs_of(stream, 0))
        for output, state in self.pairs.items() if apart else ():
            np.copyto(self.view(Direction.INPUT, state), self.read_output(stream, output, 0))
        return found

    def stream_of(self, count: int, resident: Mapping[str, str], steps: Sequence[tuple[int, int]]) -> DeviceProgram:
        """Return a stream of so many operations in which outputs share memory with inputs, made once."""
        key = count, tuple(resident.items())
        if key not in self.streams:
            mil, inputs, outputs = self.mil, tuple(self.inputs.values()), tuple(self.outputs.values())
            stream = self.device.compile(mil, inputs, outputs, target=self.target)
            try:
                for _ in range(count - 1):
                    stream.add_operation(mil, inputs, outputs)
                self.share_all(stream, resident, steps)
                if self.device.lends_buffers:
                    self.lend_states(stream, count)
                else:
                    self.share_all(stream, self.pairs, steps)
            except BaseException:
                stream.release()
                raise
            self.streams[key] = stream
        return self.streams[key]

    def share_all(self, stream: DeviceProgram, pairs: Mapping[str, str], steps: Sequence[tuple[int, int]]) -> None:
        """Let inputs of operations have the memory of outputs of others."""
        for source, sink in steps:
            for output, to_input in pairs.items():
                stream.share_buffer(source, self.outputs[output].name, sink, self.inputs[to_input].name)

    def outputs_of(self, stream: DeviceProgram, operation: int) -> dict[str, Array]:
        """Return copies of the outputs of an operation."""
        return {name: self.read_output(stream, name, operation) for name in self.outputs if name not in self.pairs}

    def read_output(self, stream: DeviceProgram, name: str, operation: int) -> Array:
        """Return a copy of an output of an operation."""
        kind, held = self.types[Direction.OUTPUT][name], np.empty(self.outputs[name].nbytes, np.uint8)
        stream.get_output(self.outputs[name].name, held, operation)
        element = self.element(kind)
        return held[: kind.size * element.itemsize].view(element).reshape(kind.shape)

    def release(self) -> None:
        """Unload the program; its memory stays until no view of it is left."""
        for stream in self.streams.values():
            stream.release()
        self.streams.clear()
        self.views.clear()
        self.memory.give_up()
        self.borrowed.clear()
        if self.folder is not None:
            self.folder.cleanup()


@dataclass(slots=True)
class Memory:
    """The memory of a program's ports: the program is unloaded once it was given up and no view is left.

    A device frees the memory with the program, and an array that is there would end the process when it is read.
    """

    loaded: DeviceProgram
    viewed: int = 0
    given_up: bool = False
    process: int = field(default_factory=os.getpid)
    # Collection may drop a view in a thread that holds the lock already.
    lock: threading.RLock = field(default_factory=threading.RLock)

    def watch(self, root: Array) -> None:
        """Count an array that is in the memory, on which every view of it depends."""
        with self.lock:
            self.viewed += 1
        weakref.finalize(root, self.drop).atexit = False

    def drop(self) -> None:
        """Count one array less."""
        with self.lock:
            self.viewed -= 1
            self.unload()

    def give_up(self) -> None:
        """Unload the program as soon as no view is left."""
        with self.lock:
            if not self.given_up:
                self.given_up = True
                self.unload()

    def unload(self) -> None:
        """Unload the program if it is no longer needed; a forked process unloads nothing."""
        if self.given_up and self.viewed == 0 and os.getpid() == self.process:
            self.loaded.release()


def another_device(program: DeviceProgram) -> NotSupportedError:
    """Return the error for a program that is to have memory of another device's."""
    return NotSupportedError(
        "memory can be shared only between programs of one device", operation="lend_buffer", seen=type(program).__name__
    )


def as_tensor(root: Array, name: str, kind: TensorType, element: np.dtype[Any]) -> Array:
    """Return the bytes of a port as an array of its type, in the same memory.

    Raises:
        NotSupportedError: Their strides are not those of any array of that shape.
    """
    if root.ndim == 1:
        return root[: kind.size * element.itemsize].view(element).reshape(kind.shape)
    found = root.view(element).reshape(kind.shape)
    if not np.may_share_memory(found, root):
        raise NotSupportedError(
            f"port {name!r} has a memory layout on the device that no array of its shape can have",
            seen=f"extents {root.shape}, strides {root.strides}",
            limit=kind,
        )
    return found


def mil_names(graph: Graph, made: MilText) -> tuple[dict[str, str], dict[str, str]]:
    """Return what inputs and outputs of a graph are called in its MIL text."""
    (function,) = made.program.functions.values()
    return (
        dict(zip(graph.inputs, (one.name for one in function.inputs), strict=True)),
        dict(zip(graph.outputs, (one.name for one in function.outputs), strict=True)),
    )


def bind_ports(names: Mapping[str, str], types: Mapping[str, TensorType]) -> dict[str, DevicePort]:
    """Return ports as a device knows them, by the names that the program has.

    Raises:
        NotSupportedError: Ports of a device have no such elements.
    """
    return {name: DevicePort(called, port_bytes(name, types[name])) for name, called in names.items()}


def port_bytes(name: str, kind: TensorType) -> int:
    """Return how many bytes a port has.

    Raises:
        NotSupportedError: Ports of a device have no such elements.
    """
    if kind.dtype not in PORT_TYPES:
        raise NotSupportedError(
            f"port {name!r} has an element type that a device does not support",
            seen=kind.dtype,
            limit=", ".join(PORT_TYPES),
            remedy="cast in the graph",
        )
    return even(kind.size * engine_element(kind).itemsize)


def pad(array: Array) -> Array:
    """Return the bytes of a value, an even number of them."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return data if data.size % 2 == 0 else np.append(data, np.uint8(0))


def even(count: int) -> int:
    """Round up to an even number."""
    return count + count % 2
