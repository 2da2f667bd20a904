"""An operation of a stream: a loaded program with ports of its own.

Several operations can run one program, each with its own buffers; what the program keeps as states they share. On a
device these buffers are the device's own memory, unless a caller binds others, and what operations share stays there.

The states that an operation itself passes through are those of the real runtime:

    fresh ──encode──► in use ──reset of the stream──► to be prepared ──prepare──► prepared ──encode──► in use

Ports are bound while it is not in use. Messages that begin with E5RT are the real runtime's own (maderix repository,
experiments W1 and W4); no source gives its words for the others.
"""

from __future__ import annotations

import os
import weakref
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, GraphTypeError, RuntimeStateError, UnknownNameError
from aneforge.runtime.devices import DeviceExecutable
from aneforge.runtime.ports import Direction, Port, buffer_for, check_buffer, convert_value, expect_apart
from aneforge.runtime.processes import check_process, note_use
from aneforge.runtime.program import LoadedProgram
from aneforge.runtime.streams.events import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import Array

__all__ = ["Operation", "Phase", "expect_kind"]

PORT_IN_USE = "E5RT: Port bindings cannot be changed while operation is in use in an execution stream"


class Phase(StrEnum):
    """Where an operation is."""

    FRESH = "fresh"
    IN_USE = "in use"
    TO_BE_PREPARED = "to be prepared"
    PREPARED = "prepared"


class Operation:
    """A loaded program as one step of a stream.

    >>> import aneforge as af
    >>> from aneforge.runtime.executables import SoftwareEngine
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> step = Operation(af.LoadedProgram(program, SoftwareEngine(program)), "step")
    >>> print(*step.ports.values(), sep=", ")
    input 'x' : fp16[1, 2], output 'y' : fp16[1, 2]

    Raises:
        GraphTypeError: It is not a loaded program, or the name is not text.
        RuntimeStateError: The program was released, or this process was forked from one that had used the runtime.
    """

    def __init__(self, program: LoadedProgram, name: str = "main") -> None:
        note_use()
        expect_kind(program, LoadedProgram, "make an operation", remedy="model.loaded is one")
        expect_kind(name, str, "name an operation")
        program.check_usable(f"make operation {name!r}")
        self.program = program
        self.name = name
        self.phase = Phase.FRESH
        self.executions = 0
        """How often it ran."""
        self.completion: Event | None = None
        self.awaited: tuple[tuple[Event, int], ...] = ()
        """Events that a submission waits for before it runs this operation, each with a number."""
        self._sharing: set[tuple[str, Direction]] = set()
        """Ports that share their buffer with another."""
        self._process = os.getpid()
        self._device = device_memory(program)
        if self._device is not None:
            weakref.finalize(self, self._device.release).atexit = False
        self._ports = {key: self._own_port(port) for key, port in program.ports.items()}
        for drawn, value in program.drawn.items():
            np.copyto(self.port(drawn, Direction.INPUT).buffer, value)

    @property
    def ports(self) -> Mapping[str, Port]:
        """Every port by its name, as the program calls it, with this operation's own buffers."""
        return MappingProxyType(self._ports)

    def port(self, name: str, direction: Direction | None = None) -> Port:
        """Return a port; a name that an input and an output share needs the direction.

        Raises:
            UnknownNameError: There is no such port.
        """
        if name in self._ports and direction in (None, self._ports[name].direction):
            return self._ports[name]
        for port in self._ports.values():
            if port.name == name and port.direction is direction:
                return port
        raise UnknownNameError.of(str(direction or "port"), name, self._ports)

    def bind(self, name: str, buffer: Array, direction: Direction | None = None) -> None:
        """Make an array of the caller's the buffer of a port.

        Raises:
            UnknownNameError: There is no such port.
            GraphError: The array does not fit the port, or is another output's.
            RuntimeStateError: The operation is in use in a stream, or the port shares its buffer with another.
        """
        self.expect_free("bind")
        port = self.port(name, direction)
        self._expect_own(port, "bind")
        checked = check_buffer(port, buffer)
        expect_apart(port, checked, (one for one in self._ports.values() if one.direction is Direction.OUTPUT))
        port.buffer = checked

    def set_input(self, name: str, value: object) -> None:
        """Copy a value into the buffer of an input; this is not a binding, and may be done between executions.

        Raises:
            UnknownNameError: There is no such input.
            GraphError: The value does not fit the port, or its buffer cannot be written to.
        """
        check_process("set_input", self._process)
        port = self.port(name, Direction.INPUT)
        ready = convert_value(port, value)
        if not port.buffer.flags.writeable:
            raise GraphError(f"the buffer bound to {port} cannot be written to", remedy="bind one that can")
        np.copyto(port.buffer, ready)

    def read_output(self, name: str) -> Array:
        """Return a copy of an output of the last execution.

        Raises:
            UnknownNameError: There is no such output.
        """
        return self.port(name, Direction.OUTPUT).buffer.copy()

    def share_buffer(self, output: str, into: Operation, to_input: str) -> None:
        """Give an input of an operation, perhaps of this one, the buffer of an output of this one.

        What one execution writes the next one reads, without a copy by the caller. It is done before either ran.

        Raises:
            UnknownNameError: There is no such port.
            GraphTypeError: The other is not an operation.
            GraphError: The two ports hold different types.
            RuntimeStateError: One of the operations is in use, or ran already; or the input shares a buffer already.
        """
        expect_kind(into, Operation, "share_buffer")
        for one in (self, into):
            one.expect_free("share_buffer")
            if one.executions:
                raise RuntimeStateError(
                    "buffers are shared before the first execution",
                    operation=f"operation {one.name!r}",
                    seen=f"{one.executions} executions",
                    remedy="make a new operation, share, then execute",
                )
        source, sink = self.port(output, Direction.OUTPUT), into.port(to_input, Direction.INPUT)
        if source.type != sink.type or source.buffer.dtype != sink.buffer.dtype:
            raise GraphError(f"{source} cannot share its buffer with {sink}", seen=sink.type, limit=source.type)
        into._expect_own(sink, "share_buffer")
        here, there = self._device, into._device
        if here is not None and there is not None and source.buffer is here.view(source.direction, source.name):
            here.lend_buffer(source.name, there, sink.name)
        sink.buffer = source.buffer
        self._sharing.add((source.name, source.direction))
        into._sharing.add((sink.name, sink.direction))

    def bind_completion_event(self, event: Event) -> None:
        """Let an event grow by one whenever a submission has run this operation.

        Raises:
            GraphTypeError: It is not an event.
            RuntimeStateError: The operation is in use in a stream: events are bound before it is encoded.
        """
        self.expect_free("bind_completion_event")
        expect_kind(event, Event, "bind_completion_event")
        self.completion = event

    def wait_for(self, event: Event, value: int) -> None:
        """Let submissions wait before this operation until an event is at least a number.

        Raises:
            GraphTypeError: It is not an event, or no integer.
            RuntimeStateError: The operation is in use in a stream.
        """
        self.expect_free("wait_for")
        expect_kind(event, Event, "wait_for")
        expect_kind(value, int, "wait_for")
        self.awaited = (*self.awaited, (event, value))

    def prepare(self) -> None:
        """Make it ready to be encoded again, after the stream that it was in was reset.

        Raises:
            RuntimeStateError: It was in no stream yet, or is in one now, or is prepared already.
        """
        check_process("prepare", self._process)
        if self.phase is Phase.TO_BE_PREPARED:
            self.phase = Phase.PREPARED
            return
        remedy = {
            Phase.FRESH: "encode it: a fresh operation needs no preparing",
            Phase.IN_USE: "reset the stream that it is in first",
            Phase.PREPARED: "encode it",
        }[self.phase]
        raise RuntimeStateError(
            "an operation is prepared between the reset of its stream and its next encoding",
            operation=f"operation {self.name!r}",
            seen=str(self.phase),
            limit=str(Phase.TO_BE_PREPARED),
            remedy=remedy,
        )

    def expect_free(self, action: str) -> None:
        """Check that bindings may change.

        Raises:
            RuntimeStateError: It is in use in a stream, or belongs to a process that this one was forked from.
        """
        check_process(action, self._process)
        if self.phase is Phase.IN_USE:
            raise RuntimeStateError(
                PORT_IN_USE, operation=f"{action} of operation {self.name!r}", remedy="reset the stream first"
            )

    def _own_port(self, port: Port) -> Port:
        buffer = (
            buffer_for(port.type, port.buffer.dtype)
            if self._device is None
            else self._device.port_buffer(port.direction, port.name, port.type)
        )
        return Port(port.name, port.direction, port.type, buffer)

    def _expect_own(self, port: Port, action: str) -> None:
        if (port.name, port.direction) in self._sharing:
            raise RuntimeStateError(
                f"{port} shares its buffer, and would be separated from it",
                operation=f"{action} of operation {self.name!r}",
                remedy="bind first, then share; or make a new operation",
            )

    def run(self) -> None:
        """Run once, with this operation's buffers.

        Raises:
            RuntimeStateError: The program was released.
        """
        self.program.execute_with(self._ports.values(), self._device)
        self.executions += 1

    def __repr__(self) -> str:
        return f"<operation {self.name!r}, {self.phase}: {', '.join(map(str, self._ports.values()))}>"


def device_memory(program: LoadedProgram) -> DeviceExecutable | None:
    """Return a program with memory of a device for only one operation; None where its memory is the host's.

    Its states are the program's own, which all its operations share.
    """
    executable = program.executable
    return executable.again() if isinstance(executable, DeviceExecutable) else None


def expect_kind(value: object, kind: type, action: str, remedy: str | None = None) -> None:
    """Check what a caller gave, who may be untyped.

    Raises:
        GraphTypeError: It is something else.
    """
    if not isinstance(value, kind):
        raise GraphTypeError(f"expected {kind.__name__}", operation=action, seen=type(value).__name__, remedy=remedy)
