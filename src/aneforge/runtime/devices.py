"""The way to a device: the small interface that dispatch to Apple's frameworks implements, and the backend over it.

It has the calls of the documented dispatch library, one to one: compile a folder that holds `model.mil` and
`weights.bin`, write input ports, execute, read output ports, release. Values cross it as bytes: two for an fp16 number,
one for a uint8, rounded up to an even number. Tests run it with a device that computes in software.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.execution.run import engine_element
from aneforge.errors import BackendUnavailableError, NotSupportedError, RuntimeStateError
from aneforge.formats.mil.mil_files import write_mil
from aneforge.runtime.breaker import guard_compile
from aneforge.runtime.executables import Execution

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Port, Program
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array, TensorType

__all__ = ["Device", "DeviceBackend", "DeviceExecutable", "DevicePort"]

DISPATCHED = Label(Exactness.EXACT, "computed by the device itself")
PORT_TYPES = ("fp16", "uint8")


@dataclass(frozen=True, slots=True)
class DevicePort:
    """A port as a device knows it: a name and a number of bytes."""

    name: str
    nbytes: int


class Device(Protocol):
    """A way to a device. A handle is whatever the device likes; an error of the device is a `RuntimeError`."""

    def obstacle(self) -> str | None:
        """Return why the device cannot be used here, or None where it can."""
        ...

    def compile(self, folder: Path, inputs: tuple[DevicePort, ...], outputs: tuple[DevicePort, ...]) -> object:
        """Compile and load the program in a folder, and return a handle."""
        ...

    def set_input(self, handle: object, port: str, data: bytes) -> None:
        """Write an input port."""
        ...

    def execute(self, handle: object) -> None:
        """Run once."""
        ...

    def get_output(self, handle: object, port: str) -> bytes:
        """Read an output port."""
        ...

    def release(self, handle: object) -> None:
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
                remedy="compile the graph with this backend",
            )
        if program.states:
            raise NotSupportedError(
                "a device has no ports for states",
                seen=", ".join(state.name for state in program.states),
                remedy="make them inputs and outputs that share a buffer",
            )
        inputs, outputs = (tuple(map(device_port, ports)) for ports in (program.inputs, program.outputs))
        with tempfile.TemporaryDirectory(prefix="aneforge-") as folder:
            write_mil(graph, folder)
            with guard_compile(self.name):
                handle = self.device.compile(Path(folder), inputs, outputs)
        return DeviceExecutable(program, self.device, handle)


@dataclass(slots=True)
class DeviceExecutable:
    """A program that a device holds."""

    program: Program
    device: Device
    handle: object

    @property
    def label(self) -> Label:
        """How sure its numbers are: they are the device's own."""
        return DISPATCHED

    def element(self, kind: TensorType) -> np.dtype[Any]:
        """Return the element type of a port."""
        return engine_element(kind)

    def execute(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run once.

        Raises:
            RuntimeStateError: The device gave another number of bytes than a port has.
        """
        del states  # `load` takes no program that has any
        for port in self.program.inputs:
            self.device.set_input(self.handle, port.name, padded(inputs[port.name]))
        self.device.execute(self.handle)
        return Execution({port.name: self.output(port) for port in self.program.outputs}, {}, DISPATCHED)

    def output(self, port: Port) -> Array:
        """Return what the device has in an output port."""
        kind, wanted = port.value.type, device_port(port).nbytes
        data = self.device.get_output(self.handle, port.name)
        if len(data) != wanted:
            raise RuntimeStateError(
                f"the device gave output {port.name!r} in another size", seen=len(data), limit=wanted
            )
        return np.frombuffer(data, self.element(kind), count=kind.size).reshape(kind.shape)

    def release(self) -> None:
        """Unload the program."""
        self.device.release(self.handle)


def device_port(port: Port) -> DevicePort:
    """Return a port as a device knows it.

    Raises:
        NotSupportedError: Ports of a device have no such elements.
    """
    kind = port.value.type
    if kind.dtype not in PORT_TYPES:
        raise NotSupportedError(
            f"port {port.name!r} has an element type that a device does not support",
            seen=kind.dtype,
            limit=", ".join(PORT_TYPES),
            remedy="cast in the graph",
        )
    return DevicePort(port.name, even(kind.size * engine_element(kind).itemsize))


def padded(array: Array) -> bytes:
    """Return the bytes of a value, an even number of them."""
    data = np.ascontiguousarray(array).tobytes()
    return data.ljust(even(len(data)), b"\0")


def even(count: int) -> int:
    """Round up to an even number."""
    return count + count % 2
