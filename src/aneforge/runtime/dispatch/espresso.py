"""The Neural Engine through Espresso.framework: its e5rt_* functions in the documented order, by ctypes.

Source: aneforge docs, e5rt dispatch. Every function returns an error code, 0 for none, and keeps a message for the last
error. What creates an object takes the pointer to it first; compiling and retaining take it last; releasing takes a
pointer to the pointer. Objects are released in the documented order: operation, its options, function, library,
buffers, ports, events, stream.

An operation's events are bound before it is encoded. A stream that ran is reset before anything is encoded again, and
an operation that was encoded is prepared first; the runtime refuses both for objects that are fresh.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from dataclasses import field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import RuntimeStateError, UnknownNameError
from aneforge.records import dataclass
from aneforge.runtime.devices import ENGINE_MASK, another_device
from aneforge.runtime.dispatch.espresso_functions import CUSTOM_OPTIONS, EspressoFunctions
from aneforge.runtime.dispatch.native_calls import Block, as_bytes
from aneforge.runtime.ports import Direction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from aneforge.ops.types import Array
    from aneforge.runtime.devices import DevicePort, DeviceProgram, PortKey

__all__ = ["ESPRESSO", "EspressoDevice", "EspressoProgram"]

ESPRESSO = "/System/Library/PrivateFrameworks/Espresso.framework/Espresso"
MAIN, SEGMENTER = "main", "graph"
PLAIN_MEMORY = 0
"""A buffer whose data is a plain pointer of the CPU; types 1 and 2 are valid too."""
ALIGNMENT = 64
PROFILE_VARIABLE = "ANEFORGE_PROFILE"
NO_OPTIONS = -2
P = ctypes.c_void_p
PORT_IN_USE = "buffers are shared before the first execution"


@dataclass(frozen=True)
class EspressoDevice:
    """The Neural Engine through Espresso.framework, or a library with its functions at another path."""

    path: str = ESPRESSO

    @property
    def operation_ports(self) -> int | None:
        """How many inputs, and how many outputs, an added operation has: any number."""
        return None

    @property
    def lends_buffers(self) -> bool:
        """True: a buffer object is bound to any port."""
        return True

    @property
    def is_silicon(self) -> bool:
        """True: the numbers are the chip's own."""
        return True

    @cached_property
    def functions(self) -> EspressoFunctions:
        """The functions of the framework."""
        return EspressoFunctions(self.path)

    @property
    def library(self) -> ctypes.CDLL:
        """The framework itself."""
        return self.functions.library

    def obstacle(self) -> str | None:
        """Return why the framework cannot be used here."""
        if self.path == ESPRESSO and sys.platform != "darwin":
            return f"Espresso.framework is part of macOS, and this is {sys.platform}"
        try:
            self.functions.needed  # noqa: B018 - loads and binds
        except RuntimeStateError as error:
            return str(error)
        return None

    def compile(
        self,
        mil: Path,
        inputs: tuple[DevicePort, ...],
        outputs: tuple[DevicePort, ...],
        *,
        mask: int = ENGINE_MASK,
        cache: Path | None = None,
        target: str | None = None,
    ) -> EspressoProgram:
        """Compile and load a MIL program, as the first operation of a stream.

        Raises:
            RuntimeStateError: The framework refused a step; the message is its own.
        """
        del target  # it compiles for the chip that it is on
        program = EspressoProgram(self, mask, cache or mil.parent / "cache")
        try:
            program.add_operation(mil, inputs, outputs)
            program.stream = self.create("e5rt_execution_stream_create")
        except BaseException:
            program.release()
            raise
        return program

    def compile_check(
        self, mil: Path, *, options: str | None = None, mask: int = ENGINE_MASK, cache: Path | None = None
    ) -> int:
        """Return 0 where the program compiles, -2 where the framework takes no options, else the framework's code."""
        try:
            library = self.compile_library(mil, mask, cache or mil.parent / "cache", options)
        except EspressoError as error:
            return error.code
        self.release(("e5rt_program_library_release", library))
        return 0

    def compile_library(self, mil: Path, mask: int, cache: Path, custom: str | None = None) -> int:
        """Compile a MIL program into a library, which is the caller's to release.

        Raises:
            EspressoError: The framework refused a step.
        """
        cache.mkdir(parents=True, exist_ok=True)
        made: list[tuple[str, int]] = []

        def keep(kind: str, value: int) -> int:
            made.append((f"e5rt_e5_compiler{kind}_release", value))
            return value

        try:
            config = keep("_config_options", self.create("e5rt_e5_compiler_config_options_create"))
            self.call("e5rt_e5_compiler_config_options_set_cache_bundle_location", config, os.fsencode(cache))
            compiler = keep("", self.create("e5rt_e5_compiler_create_with_config", config))
            options = keep("_options", self.create("e5rt_e5_compiler_options_create"))
            self.call("e5rt_e5_compiler_options_set_compute_device_types_mask", options, mask)
            self.call("e5rt_e5_compiler_options_set_force_recompilation", options, 1)
            self.call("e5rt_e5_compiler_options_set_segmenter", options, SEGMENTER.encode())
            if os.environ.get(PROFILE_VARIABLE):
                self.call("e5rt_e5_compiler_options_set_enable_profiling", options, 1)
            if custom is not None:
                self.set_custom_options(options, custom)
            library = P()
            self.call("e5rt_e5_compiler_compile", compiler, os.fsencode(mil), options, ctypes.byref(library))
            return library.value or 0
        finally:
            self.release(*reversed(made))

    def set_custom_options(self, options: int, custom: str) -> None:
        """Give the compiler of the engine options of its own.

        Raises:
            EspressoError: The framework lacks the function, or refused them.
        """
        try:
            self.functions.function(CUSTOM_OPTIONS)
        except RuntimeStateError as error:
            raise EspressoError(error.message, operation=CUSTOM_OPTIONS, code=NO_OPTIONS) from None
        self.call(CUSTOM_OPTIONS, options, custom.encode())

    def create(self, name: str, *arguments: object) -> int:
        """Create an object: the pointer to it comes first."""
        out = P()
        self.call(name, ctypes.byref(out), *arguments)
        return out.value or 0

    def retain(self, name: str, owner: int, called: str) -> int:
        """Retain a part of an object by its name: the pointer to it comes last."""
        out = P()
        self.call(name, owner, called.encode(), ctypes.byref(out))
        return out.value or 0

    def call(self, name: str, *arguments: object) -> None:
        """Call a function.

        Raises:
            EspressoError: It returned an error.
            RuntimeStateError: The framework lacks it.
        """
        code = self.functions.function(name)(*arguments)
        if code:
            raise EspressoError(f"E5RT: {self.functions.last_message()} ({code})", operation=name, code=code)

    def release(self, *objects: tuple[str, int]) -> None:
        """Release objects in order, each by its function; those that are not there are left out, and so are functions.

        Raises:
            EspressoError: One of them was not released; the others were.
        """
        failed: list[EspressoError] = []
        for name, value in objects:
            if value and self.functions.has(name):
                try:
                    self.call(name, ctypes.byref(P(value)))
                except EspressoError as error:
                    failed.append(error)
        if failed:
            raise failed[0]


class EspressoError(RuntimeStateError):
    """The framework refused a step."""

    def __init__(self, message: str, *, operation: str, code: int) -> None:
        super().__init__(message, operation=operation)
        self.code = code


@dataclass(slots=True)
class Buffer:
    """A buffer object: its handle, and its memory."""

    handle: int
    memory: Array
    """As many bytes as the port has; the buffer itself has a multiple of 64."""
    programs: int = 1
    """How many programs have ports bound to it; the last one releases it."""

    def is_left_by_last(self) -> bool:
        """Count one program less, and return whether none is left."""
        self.programs -= 1
        return self.programs == 0


@dataclass(eq=False)
class EspressoOperation:
    """An operation with its ports, buffers and events."""

    device: EspressoDevice
    library: int = 0
    function: int = 0
    options: int = 0
    handle: int = 0
    ports: dict[tuple[Direction, str], int] = field(default_factory=dict[tuple[Direction, str], int])
    own: list[Buffer] = field(default_factory=list[Buffer])
    """Those that it made, or that another program lent."""
    bound: dict[tuple[Direction, str], Buffer] = field(default_factory=dict[tuple[Direction, str], Buffer])
    """The buffer of each port, which may be another operation's."""
    events: list[int] = field(default_factory=list[int])
    """The last one is signalled when the operation ended."""
    awaited: int = 0
    """The event that it waits for; 0 where there is none."""
    was_encoded: bool = False

    def build(self, library: int, ports: Sequence[tuple[Direction, DevicePort]], number: int) -> None:
        """Make the operation of a compiled library and bind its ports and its event."""
        device = self.device
        self.library = library
        self.function = device.retain("e5rt_program_library_retain_program_function", library, MAIN)
        prefix = "e5rt_precompiled_compute_op_create_options_"
        self.options = device.create(f"{prefix}create_with_program_function", self.function)
        device.call(f"{prefix}set_operation_name", self.options, MAIN.encode())
        device.call(f"{prefix}set_allocate_intermediate_buffers", self.options, 1)
        self.handle = device.create(
            "e5rt_execution_stream_operation_create_precompiled_compute_operation_with_options", self.options
        )
        for direction, port in ports:
            key = direction, port.name
            self.ports[key] = device.retain(
                f"e5rt_execution_stream_operation_retain_{direction}_port", self.handle, port.name
            )
            self.bind(key, self.allocate(port.nbytes))
        self.bind_event(f"op{number}_complete")

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer of zeros for a port of so many bytes."""
        size = max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT)
        buffer = Buffer(self.device.create("e5rt_buffer_object_alloc", size, PLAIN_MEMORY), np.empty(0, np.uint8))
        self.own.append(buffer)
        where = P()
        self.device.call("e5rt_buffer_object_get_data_ptr", buffer.handle, ctypes.byref(where))
        ctypes.memset(where.value or 0, 0, size)
        buffer.memory = as_bytes(where.value or 0, nbytes)
        return buffer

    def bind(self, key: tuple[Direction, str], buffer: Buffer) -> None:
        """Give a port a buffer."""
        self.device.call("e5rt_io_port_bind_buffer_object", self.ports[key], buffer.handle)
        self.bound[key] = buffer

    def bind_event(self, name: str) -> int:
        """Let a new event be signalled when the operation ended, and return it."""
        event = self.device.create("e5rt_async_event_create", name.encode(), 0)
        self.events.append(event)
        self.device.call("e5rt_execution_stream_operation_bind_completion_event", self.handle, event)
        return event

    def buffer(self, direction: Direction, port: str) -> Buffer:
        """Return the buffer of a port.

        Raises:
            UnknownNameError: There is no such port.
        """
        if (direction, port) not in self.bound:
            names = [name for one, name in self.bound if one is direction]
            raise UnknownNameError.of(str(direction), port, names)
        return self.bound[direction, port]

    def give_up(self) -> list[list[tuple[str, int]]]:
        """Return what is to be released, with the functions for it, by kind in the documented order."""
        return [
            [("e5rt_execution_stream_operation_release", self.handle)],
            [("e5rt_precompiled_compute_op_create_options_release", self.options)],
            [("e5rt_program_function_release", self.function)],
            [("e5rt_program_library_release", self.library)],
            [("e5rt_buffer_object_release", buffer.handle) for buffer in self.own if buffer.is_left_by_last()],
            [("e5rt_io_port_release", port) for port in self.ports.values()],
            [("e5rt_async_event_release", event) for event in self.events],
        ]


@dataclass(eq=False)
class EspressoProgram:
    """A stream of operations."""

    device: EspressoDevice
    mask: int
    cache: Path
    stream: int = 0
    operations: list[EspressoOperation] = field(default_factory=list[EspressoOperation])
    encoded: tuple[int, ...] = ()
    """The operations that the stream has now."""
    executed: bool = False
    """It ran since the last operation was added."""
    submitted: int = 0
    """How many submissions there were."""
    block: Block | None = None
    """What the framework calls at the end of a submission."""
    final: tuple[int, int] = (0, 0)
    ended: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def set_input(self, port: str, data: Array, operation: int = 0) -> None:
        """Copy values into an input port.

        Raises:
            RuntimeStateError: There are more than it has room for.
        """
        memory = self.operation(operation).buffer(Direction.INPUT, port).memory
        given = data.reshape(-1).view(np.uint8)
        if given.size > memory.size:
            raise RuntimeStateError(f"more bytes than input {port!r} has", seen=given.size, limit=memory.size)
        memory[: given.size] = given

    def get_output(self, port: str, into: Array, operation: int = 0) -> None:
        """Copy an output port into an array, as many bytes as it has at most."""
        memory = self.operation(operation).buffer(Direction.OUTPUT, port).memory
        taken = into.reshape(-1).view(np.uint8)
        count = min(taken.size, memory.size)
        taken[:count] = memory[:count]

    def input_view(self, port: str) -> Array:
        """Return the memory of an input port of the first operation."""
        return view_of(self.operation(0).buffer(Direction.INPUT, port))

    def output_view(self, port: str) -> Array:
        """Return the memory of an output port of the first operation."""
        return view_of(self.operation(0).buffer(Direction.OUTPUT, port))

    def share_buffer(self, source: int, output: str, sink: int, to_input: str) -> None:
        """Give an input of one operation the buffer of an output of another.

        Raises:
            RuntimeStateError: The stream ran, and no operation was added since.
        """
        if self.executed:
            raise RuntimeStateError(PORT_IN_USE, operation="share_buffer", remedy="load the program again")
        buffer = self.operation(source).buffer(Direction.OUTPUT, output)
        self.operation(sink).buffer(Direction.INPUT, to_input)
        self.free()
        self.operation(sink).bind((Direction.INPUT, to_input), buffer)

    def lend_buffer(self, source: PortKey, to: DeviceProgram, sink: PortKey, operation: int = 0) -> None:
        """Give a port of an operation of another program the buffer of a port of this one's first.

        Raises:
            NotSupportedError: The other program is another device's.
            RuntimeStateError: The other program ran.
        """
        if not isinstance(to, EspressoProgram) or to.device != self.device:
            raise another_device(to)
        if to.executed:
            raise RuntimeStateError(PORT_IN_USE, operation="lend_buffer", remedy="load the program again")
        buffer, taker = self.operation(0).buffer(*source), to.operation(operation)
        taker.buffer(*sink)
        to.free()
        taker.bind(sink, buffer)
        taker.own.append(buffer)
        buffer.programs += 1

    def execute(self) -> None:
        """Run the first operation once."""
        self.run((0,))

    def execute_multi(self) -> None:
        """Run every operation once, in order."""
        self.run(tuple(range(len(self.operations))))

    def run(self, wanted: tuple[int, ...]) -> None:
        """Encode operations unless they are encoded already, and run the stream.

        Raises:
            RuntimeStateError: The program was released.
        """
        self.operation(0)
        self.encode(wanted)
        self.executed = True
        self.device.call("e5rt_execution_stream_execute_sync", self.stream)

    def encode(self, wanted: tuple[int, ...]) -> None:
        """Let the stream have some operations and no others."""
        if self.encoded == wanted:
            return
        self.free()
        for number in wanted:
            operation = self.operations[number]
            if operation.was_encoded:
                self.device.call("e5rt_execution_stream_operation_prepare_op_for_encode", operation.handle)
            self.device.call("e5rt_execution_stream_encode_operation", self.stream, operation.handle)
            operation.was_encoded = True
        self.encoded = wanted

    def free(self) -> None:
        """Take every operation out of the stream, so that ports and events can be bound; a fresh stream has none."""
        if self.encoded:
            self.device.call("e5rt_execution_stream_reset", self.stream)
            self.encoded = ()

    def add_operation(self, mil: Path, inputs: tuple[DevicePort, ...], outputs: tuple[DevicePort, ...]) -> int:
        """Compile another program into the stream, and return the number of its operation."""
        number = len(self.operations)
        cache = self.cache / f"op{number}" if number else self.cache
        library = self.device.compile_library(mil, self.mask, cache)
        operation = EspressoOperation(self.device)
        self.operations.append(operation)
        ports = [(Direction.INPUT, port) for port in inputs] + [(Direction.OUTPUT, port) for port in outputs]
        try:
            operation.build(library, ports, number)
        except BaseException:
            self.device.release(*chain.from_iterable(self.operations.pop().give_up()))
            raise
        self.executed = False
        return number

    def operation_count(self) -> int:
        """Return how many operations there are."""
        return len(self.operations)

    def operation(self, number: int) -> EspressoOperation:
        """Return an operation by its number.

        Raises:
            RuntimeStateError: There is no such operation, or the program was released.
        """
        if not 0 <= number < len(self.operations):
            raise RuntimeStateError("there is no such operation", seen=number, limit=len(self.operations))
        return self.operations[number]

    def chain(self, source: int, sink: int, event: str) -> None:
        """Let an operation wait for the end of an earlier one in asynchronous executions.

        Raises:
            RuntimeStateError: The other one is not earlier.
        """
        first, second = self.operation(source), self.operation(sink)
        if source >= sink:
            raise RuntimeStateError("an operation waits for an earlier one", seen=source, limit=f"less than {sink}")
        self.free()
        second.awaited = first.bind_event(event)
        self.device.call(
            "e5rt_execution_stream_operation_bind_dependent_events", second.handle, (P * 1)(second.awaited), 1
        )

    def event_value(self, operation: int) -> int:
        """Return how often an operation ended in asynchronous executions."""
        return self.value(self.operation(operation).events[-1])

    def chain_event_value(self, sink: int) -> int:
        """Return the value of the event that an operation waits for.

        Raises:
            RuntimeStateError: It waits for none.
        """
        event = self.operation(sink).awaited
        if not event:
            raise RuntimeStateError("the operation waits for no event", seen=sink)
        return self.value(event)

    def value(self, event: int) -> int:
        """Return the value that an event reached."""
        found = ctypes.c_uint64()
        self.device.call("e5rt_async_event_get_last_signaled_value", event, ctypes.byref(found))
        return found.value

    def execute_async(self) -> None:
        """Run every operation in order and return at once; what was submitted before is waited for first.

        No document says whether a stream takes a submission while it runs another one.
        """
        if self.block is None:
            self.block = Block(self.device.library, self.note_end)
        if self.submitted:
            self.wait_for_completion()
        self.encode(tuple(range(len(self.operations))))
        self.executed = True
        before = self.event_value(len(self.operations) - 1)
        self.device.call("e5rt_execution_stream_submit_async", self.stream, self.block.address)
        self.submitted += 1
        self.final = before, before

    def note_end(self) -> None:
        """Count a submission that ended; the framework calls this on a thread of its own."""
        with self.changed:
            self.ended += 1
            self.changed.notify_all()

    def await_end(self) -> None:
        """Wait until the framework has called back for every submission."""
        with self.changed:
            self.changed.wait_for(lambda: self.ended >= self.submitted)

    def wait_for_completion(self) -> None:
        """Wait for everything that was submitted.

        Raises:
            RuntimeStateError: Nothing ever was, or the last operation did not end.
        """
        if not self.submitted:
            raise RuntimeStateError("nothing was submitted to this stream", operation="wait_for_completion")
        self.await_end()
        before = self.final[0]
        self.final = before, self.event_value(len(self.operations) - 1)
        if self.final[1] == before:
            raise RuntimeStateError("the submission failed: the event of its last operation did not move")

    def final_event_values(self) -> tuple[int, int]:
        """Return the value of the last operation's event before and after the last submission."""
        return self.final[0], self.event_value(len(self.operations) - 1)

    def release(self) -> None:
        """Unload the program; a second time does nothing."""
        self.await_end()
        operations, self.operations = self.operations, []
        stream, self.stream = self.stream, 0
        for kinds in zip(*(operation.give_up() for operation in operations), strict=True):
            self.device.release(*chain.from_iterable(kinds))
        self.device.release(("e5rt_execution_stream_release", stream))


def view_of(buffer: Buffer) -> Array:
    """Return the memory of a buffer in an array of its own, on which its views depend."""
    return as_bytes(buffer.memory.ctypes.data, buffer.memory.size)
