"""A device for tests: it reads what it is given, as a dispatch library would, and computes in software.

It has the whole interface, so that what lies over it can be tested without a native library.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.errors import RuntimeStateError
from aneforge.formats.mil.program import load_mil
from aneforge.runtime.devices import ENGINE_MASK
from aneforge.runtime.ports import Direction

if TYPE_CHECKING:
    from pathlib import Path

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import Array
    from aneforge.runtime.devices import DevicePort, DeviceProgram, PortKey


@dataclass
class SoftwareDevice:
    """A device that computes in software, and notes what is asked of it."""

    why_not: str | None = None
    surplus: int = 0
    """How many bytes too many a port has."""
    operation_ports: int | None = None
    lends_buffers: bool = True
    is_silicon: bool = True
    target: str = "h13"
    log: list[str] = field(default_factory=list[str])

    def obstacle(self) -> str | None:
        """Return why it is not there."""
        return self.why_not

    def compile(
        self,
        mil: Path,
        inputs: tuple[DevicePort, ...],
        outputs: tuple[DevicePort, ...],
        *,
        mask: int = ENGINE_MASK,
        cache: Path | None = None,
        target: str | None = None,
    ) -> SoftwareStream:
        """Read what the folder holds."""
        assert mask == ENGINE_MASK
        assert cache is None
        assert target is not None
        self.log.append(f"compile {[port.nbytes for port in inputs]} -> {[port.nbytes for port in outputs]}")
        return SoftwareStream(self, [self.operation(mil, inputs, outputs)])

    def compile_check(
        self, mil: Path, *, options: str | None = None, mask: int = ENGINE_MASK, cache: Path | None = None
    ) -> int:
        """Say that every program compiles."""
        del mil, options, mask, cache
        return 0

    def operation(
        self, mil: Path, inputs: tuple[DevicePort, ...], outputs: tuple[DevicePort, ...]
    ) -> SoftwareOperation:
        """Return a program with memory for its ports."""
        program = af.build_program(load_mil(mil.parent).graph(), self.target)
        return SoftwareOperation(
            program,
            {port.name: np.zeros(port.nbytes + self.surplus, np.uint8) for port in inputs},
            {port.name: np.zeros(port.nbytes + self.surplus, np.uint8) for port in outputs},
        )


@dataclass
class SoftwareOperation:
    """A program with memory for its ports."""

    program: Program
    inputs: dict[str, Array]
    outputs: dict[str, Array]

    def ports(self, direction: Direction) -> dict[str, Array]:
        """Return the memory of the ports of one direction."""
        return self.inputs if direction is Direction.INPUT else self.outputs

    def run(self) -> None:
        """Compute from the memory of the inputs into that of the outputs."""
        values: dict[str, Array] = {}
        for port, memory in zip(self.program.inputs, self.inputs.values(), strict=True):
            kind = port.value.type
            element = np.dtype(np.uint8 if kind.dtype == "uint8" else np.float16)
            values[port.name] = memory[: kind.size * element.itemsize].view(element).reshape(kind.shape).copy()
        found = af.run(self.program, values).outputs
        for port, memory in zip(self.program.outputs, self.outputs.values(), strict=True):
            data = np.ascontiguousarray(found[port.name].astype(np.float16)).reshape(-1).view(np.uint8)
            memory[: data.size] = data


@dataclass
class SoftwareStream:
    """Operations on the device."""

    device: SoftwareDevice
    operations: list[SoftwareOperation]
    executed: bool = False

    def note(self, what: str) -> None:
        """Write down what was asked."""
        self.device.log.append(what)

    def set_input(self, port: str, data: Array, operation: int = 0) -> None:
        """Take bytes."""
        self.operations[operation].inputs[port][: data.nbytes] = data.view(np.uint8)
        self.note(f"set {port}")

    def get_output(self, port: str, into: Array, operation: int = 0) -> None:
        """Give bytes."""
        into[:] = self.operations[operation].outputs[port][: into.nbytes]
        self.note(f"get {port}")

    def input_view(self, port: str) -> Array:
        """Show the memory of an input, in a root array of its own as native memory has."""
        return np.frombuffer(self.operations[0].inputs[port].data, np.uint8)

    def output_view(self, port: str) -> Array:
        """Show the memory of an output."""
        return np.frombuffer(self.operations[0].outputs[port].data, np.uint8)

    def share_buffer(self, source: int, output: str, sink: int, to_input: str) -> None:
        """Let two ports have one memory."""
        assert not self.executed
        self.operations[sink].inputs[to_input] = self.operations[source].outputs[output]
        self.note(f"share {source}.{output} -> {sink}.{to_input}")

    def lend_buffer(self, source: PortKey, to: DeviceProgram, sink: PortKey, operation: int = 0) -> None:
        """Let ports of two programs have one memory."""
        assert isinstance(to, SoftwareStream)
        assert not to.executed
        to.operations[operation].ports(sink[0])[sink[1]] = self.operations[0].ports(source[0])[source[1]]
        self.note(f"lend {source[1]} -> {sink[1]}")

    def execute(self) -> None:
        """Run the first operation."""
        self.executed = True
        self.operations[0].run()
        self.note("execute")

    def add_operation(self, mil: Path, inputs: tuple[DevicePort, ...], outputs: tuple[DevicePort, ...]) -> int:
        """Add an operation."""
        self.operations.append(self.device.operation(mil, inputs, outputs))
        self.note("add")
        return len(self.operations) - 1

    def operation_count(self) -> int:
        """Count operations."""
        return len(self.operations)

    def execute_multi(self) -> None:
        """Run every operation."""
        self.executed = True
        for operation in self.operations:
            operation.run()
        self.note("execute_multi")

    def chain(self, source: int, sink: int, event: str) -> None:
        """Refuse."""
        raise RuntimeStateError("a device for tests has no events", seen=f"{event}: {source} -> {sink}")

    def event_value(self, operation: int) -> int:
        """Refuse."""
        raise RuntimeStateError("a device for tests has no events", seen=operation)

    def chain_event_value(self, sink: int) -> int:
        """Refuse."""
        raise RuntimeStateError("a device for tests has no events", seen=sink)

    def execute_async(self) -> None:
        """Run at once."""
        self.execute_multi()

    def wait_for_completion(self) -> None:
        """Wait for nothing."""

    def final_event_values(self) -> tuple[int, int]:
        """Refuse."""
        raise RuntimeStateError("a device for tests has no events")

    def release(self) -> None:
        """Forget."""
        self.operations.clear()
        self.note("release")
