"""Programs of a client of the dispatch library: compiled from MIL files, with ports in the client's memory."""

from __future__ import annotations

import json
import mmap
import os
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.compile import compile_graph
from aneforge.engine.execution.run import engine_element
from aneforge.errors import GraphError, UnknownNameError
from aneforge.formats.mil.metadata import hints_of
from aneforge.formats.mil.program import load_mil
from aneforge.graph.precision import to_fp16
from aneforge.records import dataclass
from aneforge.runtime.devices import port_bytes
from aneforge.runtime.executables import SoftwareEngine
from aneforge.runtime.ports import Direction
from aneforge.targets import database, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.compiler.ir.program import Port, Program
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array
    from aneforge.runtime.dispatch.worker import Request

__all__ = ["Programs"]

ARCHITECTURE = "TargetArchitecture"
MAIN = "main"
DIRECTIONS = (Direction.INPUT, Direction.OUTPUT)
"""By the numbers that the library has for them (`ANE_OPEN_INPUT` of ane_open.h)."""
UNKNOWN_OPTION = -2
REFUSED = -1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a port's bytes are in the memory that the client shares."""

    memory: Array
    offset: int
    nbytes: int

    def array(self, port: Port) -> Array:
        """Return the values of a port there.

        Raises:
            GraphError: The client gave it fewer bytes than it has.
            NotSupportedError: It has elements that ports of a device have not.
        """
        needed = port_bytes(port.name, port.value.type)
        if self.nbytes < needed:
            raise GraphError(
                f"port {port.name!r} has more bytes than the client gave it", seen=self.nbytes, limit=needed
            )
        kind, element = port.value.type, engine_element(port.value.type)
        held = self.memory[self.offset : self.offset + kind.size * element.itemsize]
        return held.view(element).reshape(kind.shape)


@dataclass(slots=True)
class Operation:
    """One compiled program, and the arrays that its ports are."""

    program: Program
    engine: SoftwareEngine
    drawn: Mapping[str, Array]
    """What the host draws for inputs that conversion added."""
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    places: dict[tuple[Direction, str], Place]
    """Where the ports are."""
    names: Mapping[str, str]
    """What the program calls a port, by its name in the MIL text, which is the client's."""
    states: Mapping[str, Array] = field(default_factory=dict[str, "Array"])

    def execute(self) -> None:
        """Run once. Every input is read before an output is written, for the two may be one."""
        given = {self.names[name]: array for name, array in self.inputs.items()}
        found = self.engine.execute({**self.drawn, **given}, self.states)
        # A value that passes through unchanged still is in the input's buffer, which an output before it may be.
        results = {name: self.apart(found.outputs[self.names[name]]) for name in self.outputs}
        for name, buffer in self.outputs.items():
            np.copyto(buffer, results[name])
        self.states = {name: self.apart(value) for name, value in found.states.items()}

    def take(self, direction: Direction, name: str, place: Place) -> None:
        """Let a port be in another place."""
        is_input = direction is Direction.INPUT
        listed = self.program.inputs if is_input else self.program.outputs
        port = next(port for port in listed if port.name == self.names[name])
        (self.inputs if is_input else self.outputs)[name] = place.array(port)
        self.places[direction, name] = place

    def apart(self, value: Array) -> Array:
        """Return a value that no write into a port changes."""
        return value.copy() if any(np.may_share_memory(value, one) for one in self.inputs.values()) else value


@dataclass(slots=True)
class Programs:
    """Everything that a client has compiled and not released, by the client's own numbers."""

    held: dict[int, list[Operation]] = field(default_factory=dict[int, "list[Operation]"])

    def functions(self) -> Mapping[int, Callable[[Request], str | int]]:
        """Return what answers each request, by its code (`enum request` of worker.h)."""
        return {1: self.compile, 2: self.execute, 3: self.share, 4: self.release, 5: self.check, 6: self.lend}

    def compile(self, request: Request) -> str:
        """Compile an operation of a program; return what is to be said of that, a zero, and what the program is."""
        number = request.u64()
        path, target = request.text(), request.text()
        memory = map_memory(request)
        inputs, outputs = places(request, memory), places(request, memory)
        read = read_mil(path)
        program, drawn, remarks = compile_read(read.graph, target)
        asked = {read.inputs[port.name]: port for port in program.inputs if port.name not in drawn}
        given = {read.outputs[port.name]: port for port in program.outputs}
        for name in asked.keys() - inputs.keys():
            raise GraphError(f"the client gave no bytes for input port {name!r}")
        operation = Operation(
            program,
            SoftwareEngine(program),
            drawn,
            {name: place.array(find_port(asked, name, "input")) for name, place in inputs.items()},
            {name: place.array(find_port(given, name, "output")) for name, place in outputs.items()},
            {(Direction.INPUT, name): place for name, place in inputs.items()}
            | {(Direction.OUTPUT, name): place for name, place in outputs.items()},
            {called: port.name for called, port in (*asked.items(), *given.items())},
            {state.name: np.zeros(state.read.type.shape, engine_element(state.read.type)) for state in program.states},
        )
        self.held.setdefault(number, []).append(operation)
        return f"{'; '.join(remarks)}\0{describe(operation)}"

    def execute(self, request: Request) -> int:
        """Run the first operations of a program."""
        operations = self.held[request.u64()]
        for operation in operations[: request.u32()]:
            operation.execute()
        return 0

    def share(self, request: Request) -> int:
        """Make an output's buffer that of an input."""
        operations = self.held[request.u64()]
        source, output = operations[request.u32()], request.text()
        place = source.places[Direction.OUTPUT, output]
        operations[request.u32()].take(Direction.INPUT, request.text(), place)
        return 0

    def lend(self, request: Request) -> int:
        """Make a port's buffer that of a port of another program."""
        source = self.held[request.u64()][0]
        place = source.places[DIRECTIONS[request.u32()], request.text()]
        sink = self.held[request.u64()][0]
        sink.take(DIRECTIONS[request.u32()], request.text(), place)
        return 0

    def release(self, request: Request) -> int:
        """Forget a program."""
        self.held.pop(request.u64(), None)
        return 0

    def check(self, request: Request) -> int:
        """Say whether a target takes a program as it is: nothing built from others, nothing split."""
        path, target, options = request.text(), request.text(), request.text()
        for option in options.split():
            key, _, target = option.partition("=")
            if key != ARCHITECTURE:
                return UNKNOWN_OPTION
            if target not in database().targets:
                raise UnknownNameError.of(ARCHITECTURE, target, tuple(database().targets))
        verdict = compile_graph(to_fp16(read_mil(path).graph).graph, place_of(target or None)).verdict
        return 0 if verdict.ok and not verdict.decompose else REFUSED


def map_memory(request: Request) -> Array:
    """Return the memory that came with a request."""
    assert request.memory is not None  # noqa: S101 - the library sends it with this request
    return np.frombuffer(mmap.mmap(request.memory, os.fstat(request.memory).st_size), np.uint8)


def places(request: Request, memory: Array) -> dict[str, Place]:
    """Read where ports are, by their names.

    Raises:
        GraphError: One name is there twice.
    """
    found: dict[str, Place] = {}
    for _ in range(request.u32()):
        name, nbytes, offset = request.text(), request.u64(), request.u64()
        if name in found:
            raise GraphError(f"the client gave port {name!r} twice")
        found[name] = Place(memory, offset, nbytes)
    return found


def find_port(ports: Mapping[str, Port], name: str, direction: str) -> Port:
    """Return a port of the program by its name.

    Raises:
        UnknownNameError: There is none.
    """
    if name not in ports:
        raise UnknownNameError.of(f"{direction} port", name, tuple(ports))
    return ports[name]


@dataclass(frozen=True, slots=True)
class ReadMil:
    """The graph of a MIL file, and what the text calls its ports, by the names that the graph has.

    A file that this package wrote keeps the names of the graph as well as those of the text; clients know the text's.
    """

    graph: Graph
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


def read_mil(path: str) -> ReadMil:
    """Read a MIL file."""
    source = load_mil(path)
    source.weights.copies = True  # a client may write the file again while the program lives
    graph, named = source.graph(port_casts=False), hints_of(source.syntax, MAIN).names
    function = source.syntax.functions[MAIN]
    inputs = {named.get(one.name, one.name): one.name for one in function.inputs}
    outputs = {named.get(one.name, one.name): one.name for one in function.outputs}
    return ReadMil(graph, inputs, outputs)


def compile_read(graph: Graph, target: str) -> tuple[Program, Mapping[str, Array], tuple[str, ...]]:
    """Return the program of a graph, what the host draws for it, and what is to be said of that."""
    half = to_fp16(graph)
    made = compile_graph(half.graph, place_of(target or None))
    return made.program, {one.name: one.draw() for one in made.supplied}, half.notes


def describe(operation: Operation) -> str:
    """Return what a record of calls says of a program, as JSON."""
    program = operation.program
    return json.dumps(
        {
            "target": program.target.name,
            "layers": len(program.layers),
            "exactness": str(operation.engine.label.exactness),
            "inputs": {port.name: str(port.value.type) for port in program.inputs},
            "outputs": {port.name: str(port.value.type) for port in program.outputs},
        }
    )
