"""The dispatch ABI as a device: any library that exports the documented functions, bound through ctypes.

Such a library is found, never built: `ANEFORGE_DYLIB` on any system if that file exists, then `_lib/` in the package,
then `ane_build/lib/` in any folder above it, then `$ANEFORGE_CACHE` or `~/.cache/aneforge/<version>/`: our own version,
then the latest of others (aneforge docs, e5rt dispatch). On Linux that may be this package's own, `aneforge
dispatch-library`.

The library writes its reasons to stderr; what it returns is a code.
"""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aneforge._version import __version__
from aneforge.errors import NotSupportedError, RuntimeStateError
from aneforge.records import dataclass
from aneforge.runtime.devices import ENGINE_MASK, another_device
from aneforge.runtime.dispatch.native_calls import Signature, address_of, as_bytes, bind_functions, load_library
from aneforge.runtime.ports import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from aneforge.ops.types import Array
    from aneforge.runtime.devices import DevicePort, DeviceProgram, PortKey

__all__ = ["LIBRARY_NAME", "AbiDevice", "AbiProgram", "find_dispatch_library"]

LIBRARY_NAME = "libane_e5rt_dispatch.dylib"
LIBRARY_VARIABLE, CACHE_VARIABLE = "ANEFORGE_DYLIB", "ANEFORGE_CACHE"
PACKAGE = Path(__file__).parent.parent.parent
USE_TARGET = "ane_open_use_target"
"""The function of our own library by which it is known."""
LEND_PORT = "ane_open_lend_port"
"""The function of our own library that shares memory between programs: the documented ones do so only within one."""

P, TEXT, INT, SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
U64, U64S = ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64)
TEXTS, SIZES = ctypes.POINTER(TEXT), ctypes.POINTER(SIZE)

SIGNATURES = {
    "ane_e5rt_program_compile": Signature(P, (TEXT, TEXT, U64, TEXTS, SIZES, SIZE, TEXTS, SIZES, SIZE)),
    "ane_e5rt_program_set_input_fp16": Signature(INT, (P, TEXT, P, SIZE)),
    "ane_e5rt_program_get_output_fp16": Signature(INT, (P, TEXT, P, SIZE)),
    "ane_e5rt_program_execute": Signature(INT, (P,)),
    "ane_e5rt_program_input_buffer": Signature(INT, (P, TEXT, ctypes.POINTER(P), ctypes.POINTER(SIZE))),
    "ane_e5rt_program_output_buffer": Signature(INT, (P, TEXT, ctypes.POINTER(P), ctypes.POINTER(SIZE))),
    "ane_e5rt_program_share_buffer": Signature(INT, (P, SIZE, TEXT, SIZE, TEXT)),
    "ane_e5rt_program_release": Signature(None, (P,)),
    "ane_e5rt_compile_check": Signature(INT, (TEXT, TEXT, U64, TEXT)),
}
"""What every client binds."""
STREAM_SIGNATURES = {
    "ane_e5rt_program_add_op": Signature(INT, (P, TEXT, TEXT, SIZE, TEXT, SIZE)),
    "ane_e5rt_program_get_op_count": Signature(SIZE, (P,)),
    "ane_e5rt_program_set_input_fp16_op": Signature(INT, (P, SIZE, TEXT, P, SIZE)),
    "ane_e5rt_program_get_output_fp16_op": Signature(INT, (P, SIZE, TEXT, P, SIZE)),
    "ane_e5rt_program_execute_multi": Signature(INT, (P,)),
    "ane_e5rt_program_chain_ops": Signature(INT, (P, SIZE, SIZE, TEXT)),
    "ane_e5rt_program_get_event_last_signaled": Signature(INT, (P, SIZE, U64S)),
    "ane_e5rt_program_get_chain_event_last_signaled": Signature(INT, (P, SIZE, U64S)),
    "ane_e5rt_program_execute_async": Signature(INT, (P,)),
    "ane_e5rt_program_wait_for_completion": Signature(INT, (P,)),
    "ane_e5rt_program_get_final_event_signaled": Signature(INT, (P, U64S, U64S)),
}
"""The experimental part, which a library need not have until it is used. Inferred: an operation's own event is asked
for as the event of a chain is."""

COUNTS = {"ane_e5rt_program_add_op", "ane_e5rt_program_get_op_count"}
"""What returns an index or a number; all others return 0, or a code that means failure."""
OWN_SIGNATURES = {
    USE_TARGET: Signature(None, (TEXT,)),
    LEND_PORT: Signature(INT, (P, INT, TEXT, P, INT, TEXT)),
}
"""What our own library has in addition to them."""


def find_dispatch_library(environment: Mapping[str, str] = os.environ, package: Path = PACKAGE) -> Path | None:
    """Return where a dispatch library is, or None where there is none.

    >>> find_dispatch_library({"ANEFORGE_DYLIB": __file__}).name
    'abi.py'
    """
    return next((path for path in candidates(environment, package) if path.is_file()), None)


def candidates(environment: Mapping[str, str], package: Path) -> Iterator[Path]:
    """Yield where a dispatch library may be, in the documented order."""
    if named := environment.get(LIBRARY_VARIABLE):
        yield Path(named)
    yield package / "_lib" / LIBRARY_NAME
    for above in package.parents:
        yield above / "ane_build" / "lib" / LIBRARY_NAME
    if cache := environment.get(CACHE_VARIABLE):
        yield Path(cache) / LIBRARY_NAME
        return
    versions = Path(environment.get("HOME", "/")) / ".cache" / "aneforge"
    yield versions / __version__ / LIBRARY_NAME
    # Who built the library calls its own version otherwise than ours.
    yield from sorted(versions.glob(f"*/{LIBRARY_NAME}"), key=lambda path: numbers_of(path.parent.name), reverse=True)


def numbers_of(version: str) -> list[int]:
    """Return the numbers of a version, by which versions are compared.

    >>> numbers_of("0.10.1") > numbers_of("0.9")
    True
    """
    return [int(number) for number in re.findall(r"\d+", version)]


@dataclass(frozen=True)
class AbiDevice:
    """A library that has the dispatch ABI."""

    path: Path

    @property
    def operation_ports(self) -> int | None:
        """How many inputs, and how many outputs, an added operation has: add_op takes one name each."""
        return 1

    @property
    def lends_buffers(self) -> bool:
        """True for our own library."""
        return hasattr(self.library, LEND_PORT)

    @property
    def is_silicon(self) -> bool:
        """False for our own library, which has a function that no other has."""
        return not hasattr(self.library, USE_TARGET)

    @contextmanager
    def aimed(self, target: str | None) -> Generator[None]:
        """Let our own library compile for a target within a block; others compile for the chip that they are on."""
        if self.is_silicon:
            yield
            return
        use_target = self.own_functions[USE_TARGET]
        use_target(None if target is None else target.encode())
        try:
            yield
        finally:
            use_target(None)

    @cached_property
    def functions(self) -> dict[str, Callable[..., Any]]:
        """What every client binds.

        Raises:
            RuntimeStateError: The library cannot be loaded, or lacks one of the functions.
        """
        return bind_functions(self.library, self.path, SIGNATURES)

    @cached_property
    def stream_functions(self) -> dict[str, Callable[..., Any]]:
        """The functions of streams, events and asynchronous execution.

        Raises:
            RuntimeStateError: The library lacks one of them.
        """
        return bind_functions(self.library, self.path, STREAM_SIGNATURES)

    @cached_property
    def own_functions(self) -> dict[str, Callable[..., Any]]:
        """What our own library has in addition to the documented functions.

        Raises:
            RuntimeStateError: It is another library.
        """
        return bind_functions(self.library, self.path, OWN_SIGNATURES)

    @cached_property
    def library(self) -> ctypes.CDLL:
        """The library itself."""
        return load_library(self.path)

    def obstacle(self) -> str | None:
        """Return why the library cannot be used."""
        try:
            self.functions  # noqa: B018 - loads and binds
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
    ) -> AbiProgram:
        """Compile and load a MIL program.

        Raises:
            RuntimeStateError: The library returned no program.
        """
        ports = [*port_arguments(inputs), *port_arguments(outputs)]
        cache_text = None if cache is None else os.fsencode(cache)
        with self.aimed(target):
            handle = self.functions["ane_e5rt_program_compile"](os.fsencode(mil), cache_text, mask, *ports)
        if not handle:
            raise RuntimeStateError(
                f"the dispatch library did not compile {mil}",
                operation="ane_e5rt_program_compile",
                seen="NULL",
                remedy="the library says why on stderr",
            )
        return AbiProgram(self, handle, target)

    def compile_check(
        self, mil: Path, *, options: str | None = None, mask: int = ENGINE_MASK, cache: Path | None = None
    ) -> int:
        """Return the code of a check: 0, -1, -2 for options that are not known, or the runtime's own."""
        cache_text = None if cache is None else os.fsencode(cache)
        given = None if options is None else options.encode()
        return self.functions["ane_e5rt_compile_check"](os.fsencode(mil), cache_text, mask, given)


@dataclass(eq=False)
class AbiProgram:
    """A program that the library holds."""

    device: AbiDevice
    handle: int
    target: str | None = None
    """What our own library compiles its operations for."""

    def call(self, name: str, *arguments: object) -> int:
        """Call a function with the handle, and return what it returned.

        Raises:
            RuntimeStateError: It failed, or the program was released.
        """
        if not self.handle:
            raise RuntimeStateError("the program was released", operation=name)
        code = self.function(name)(self.handle, *arguments)
        if code < 0 or (code > 0 and name not in COUNTS):
            raise RuntimeStateError(
                f"{name} failed", operation=name, seen=code, remedy="the library says why on stderr"
            )
        return code

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of the library."""
        if name in SIGNATURES:
            return self.device.functions[name]
        return (self.device.own_functions if name in OWN_SIGNATURES else self.device.stream_functions)[name]

    def set_input(self, port: str, data: Array, operation: int = 0) -> None:
        """Copy values into an input port."""
        where, count = address_of(data), data.nbytes // 2
        if operation == 0:
            self.call("ane_e5rt_program_set_input_fp16", port.encode(), where, count)
        else:
            self.call("ane_e5rt_program_set_input_fp16_op", operation, port.encode(), where, count)

    def get_output(self, port: str, into: Array, operation: int = 0) -> None:
        """Copy an output port into an array."""
        where, count = address_of(into), into.nbytes // 2
        if operation == 0:
            self.call("ane_e5rt_program_get_output_fp16", port.encode(), where, count)
        else:
            self.call("ane_e5rt_program_get_output_fp16_op", operation, port.encode(), where, count)

    def input_view(self, port: str) -> Array:
        """Return the memory of an input port."""
        return self.view("ane_e5rt_program_input_buffer", port)

    def output_view(self, port: str) -> Array:
        """Return the memory of an output port."""
        return self.view("ane_e5rt_program_output_buffer", port)

    def view(self, function: str, port: str) -> Array:
        """Return the memory that a function points to."""
        pointer, nbytes = ctypes.c_void_p(), ctypes.c_size_t()
        self.call(function, port.encode(), ctypes.byref(pointer), ctypes.byref(nbytes))
        return as_bytes(pointer.value or 0, nbytes.value)

    def share_buffer(self, source: int, output: str, sink: int, to_input: str) -> None:
        """Give an input of one operation the memory of an output of another."""
        self.call("ane_e5rt_program_share_buffer", source, output.encode(), sink, to_input.encode())

    def lend_buffer(self, source: PortKey, to: DeviceProgram, sink: PortKey, operation: int = 0) -> None:
        """Give a port of another program the memory of a port.

        Raises:
            NotSupportedError: The other program is another device's, or the operation is one that was added.
            RuntimeStateError: The library refused, or is not our own.
        """
        if not isinstance(to, AbiProgram) or to.device != self.device:
            raise another_device(to)
        if operation != 0:
            raise NotSupportedError(
                "the dispatch library lends memory only to first operations", operation=LEND_PORT, seen=operation
            )
        self.call(LEND_PORT, *port_argument(source), to.handle, *port_argument(sink))

    def execute(self) -> None:
        """Run the first operation once."""
        self.call("ane_e5rt_program_execute")

    def add_operation(self, mil: Path, inputs: tuple[DevicePort, ...], outputs: tuple[DevicePort, ...]) -> int:
        """Add an operation of one input and one output, and return its number.

        Raises:
            NotSupportedError: It has more.
        """
        if len(inputs) != 1 or len(outputs) != 1:
            raise NotSupportedError(
                "the dispatch ABI adds operations of one input and one output",
                operation="ane_e5rt_program_add_op",
                seen=f"{len(inputs)} inputs, {len(outputs)} outputs",
            )
        (entry,), (end,) = inputs, outputs
        with self.device.aimed(self.target):
            return self.call(
                "ane_e5rt_program_add_op",
                os.fsencode(mil),
                entry.name.encode(),
                entry.nbytes,
                end.name.encode(),
                end.nbytes,
            )

    def operation_count(self) -> int:
        """Return how many operations there are."""
        return self.call("ane_e5rt_program_get_op_count")

    def execute_multi(self) -> None:
        """Run every operation once, in order."""
        self.call("ane_e5rt_program_execute_multi")

    def chain(self, source: int, sink: int, event: str) -> None:
        """Let an operation wait for an earlier one in asynchronous executions."""
        self.call("ane_e5rt_program_chain_ops", source, sink, event.encode())

    def event_value(self, operation: int) -> int:
        """Return how often an operation ended in asynchronous executions."""
        return self.number("ane_e5rt_program_get_event_last_signaled", operation)

    def chain_event_value(self, sink: int) -> int:
        """Return the value of the event that an operation waits for."""
        return self.number("ane_e5rt_program_get_chain_event_last_signaled", sink)

    def number(self, function: str, operation: int) -> int:
        """Return the number that a function writes."""
        value = ctypes.c_uint64()
        self.call(function, operation, ctypes.byref(value))
        return value.value

    def execute_async(self) -> None:
        """Run every operation in order, after what was submitted before, and return at once."""
        self.call("ane_e5rt_program_execute_async")

    def wait_for_completion(self) -> None:
        """Wait for everything that was submitted."""
        self.call("ane_e5rt_program_wait_for_completion")

    def final_event_values(self) -> tuple[int, int]:
        """Return the value of the last operation's event before and after the last submission."""
        before, after = ctypes.c_uint64(), ctypes.c_uint64()
        self.call("ane_e5rt_program_get_final_event_signaled", ctypes.byref(before), ctypes.byref(after))
        return before.value, after.value

    def release(self) -> None:
        """Unload the program; a second time does nothing."""
        handle, self.handle = self.handle, 0
        if handle:
            self.device.functions["ane_e5rt_program_release"](handle)


def port_argument(port: PortKey) -> tuple[int, bytes]:
    """Return direction and name of a port as our own library has them."""
    direction, name = port
    return int(direction is Direction.OUTPUT), name.encode()


def port_arguments(ports: tuple[DevicePort, ...]) -> tuple[object, object, int]:
    """Return names, sizes and number of ports as C has them."""
    count = len(ports)
    return (
        (TEXT * count)(*(port.name.encode() for port in ports)),
        (SIZE * count)(*(port.nbytes for port in ports)),
        count,
    )
