"""What runs a program: the software engine, and two references of other arithmetic.

This is the one place in which the runtime calls the engine. An executable takes values by port name and gives values by
port name; ports, buffers, locks and lifetimes are the matter of `program`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from aneforge.compiler.ir.evaluate import evaluate_layer, evaluate_program
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.execution.run import engine_element, prepare
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.records import dataclass
from aneforge.runtime.ports import buffer_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.engine.execution.run import Executable as Prepared
    from aneforge.ops.types import Array, TensorType
    from aneforge.runtime.ports import Direction

__all__ = [
    "Executable",
    "Execution",
    "HalfPrecisionReference",
    "MathematicalReference",
    "RunsMany",
    "SoftwareEngine",
]

IN_FLOAT64 = Label(Exactness.MODELLED, "the mathematics in float64, not the engine's arithmetic")
IN_HALF_PRECISION = Label(Exactness.MODELLED, "every layer rounded once, ties to even, not the engine's arithmetic")


@dataclass(frozen=True, slots=True)
class Execution:
    """What one execution gave."""

    outputs: Mapping[str, Array]
    states: Mapping[str, Array]
    label: Label
    """How sure the outputs are, given what went in."""


class Executable(Protocol):
    """A program that a backend has made ready to run."""

    @property
    def label(self) -> Label:
        """How sure its numbers are, before any value goes in."""
        ...

    def element(self, kind: TensorType) -> np.dtype[Any]:
        """Return the element type in which a port of that type passes values."""
        ...

    @property
    def in_place(self) -> bool:
        """True where an execution reads and writes the buffers of ports and states themselves."""
        ...

    def port_buffer(self, direction: Direction, name: str, kind: TensorType) -> Array:
        """Return the buffer of a port, of zeros."""
        ...

    def state_buffer(self, name: str, kind: TensorType) -> Array:
        """Return the buffer in which a state stays between executions, of zeros."""
        ...

    def share_buffer(self, output: str, to_input: str) -> None:
        """Let an input have the buffer of an output, before the first execution."""
        ...

    def execute(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run once; arrays have the types that `element` gives, and are not written to unless it is in place."""
        ...

    def release(self) -> None:
        """Give back what the backend holds for the program."""
        ...


@runtime_checkable
class RunsMany(Protocol):
    """An executable that runs many samples at a time, and says which layers it leaves to the host."""

    def host_layers(self) -> tuple[str, ...]:
        """Return the layers that run on the host, each with the reason; `isinstance` would read a property."""
        ...

    def execute_many(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run samples, which come with an axis before those of a port; outputs have it too, states are the last."""
        ...


class HostBuffers(ABC):
    """What computes here, from and to arrays of the host: a port has a buffer of its own until another one is bound."""

    in_place = False

    @abstractmethod
    def element(self, kind: TensorType) -> np.dtype[Any]:
        """Return the element type of a port."""

    def port_buffer(self, direction: Direction, name: str, kind: TensorType) -> Array:
        """Return the buffer of a port, of zeros."""
        del direction, name  # they are all alike
        return buffer_for(kind, self.element(kind))

    def state_buffer(self, name: str, kind: TensorType) -> Array:
        """Return the buffer of a state, of zeros."""
        del name
        return buffer_for(kind, self.element(kind))

    def share_buffer(self, output: str, to_input: str) -> None:
        """Do nothing more: the two ports have one buffer, and that is all there is to it."""
        del output, to_input


class SoftwareEngine(HostBuffers):
    """A program on the software engine: the bits of the silicon, where its arithmetic is known."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def ready(self) -> Prepared:
        """The program with everything done that depends only on it, once it is first needed."""
        return prepare(self.program)

    @property
    def label(self) -> Label:
        """How sure its numbers are, before any value goes in."""
        return self.ready.label

    def element(self, kind: TensorType) -> np.dtype[Any]:
        """Return the element type of a port."""
        return engine_element(kind)

    def execute(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run once."""
        found = self.ready.run(inputs, states)
        return Execution(found.outputs, found.states, found.label)

    def release(self) -> None:
        """Give the decoded constants back."""
        vars(self).pop("ready", None)


@dataclass(frozen=True)
class MathematicalReference(HostBuffers):
    """A program as the mathematics has it, in float64 throughout, ports included."""

    program: Program

    @property
    def label(self) -> Label:
        """How sure its numbers are, before any value goes in."""
        return IN_FLOAT64

    def element(self, kind: TensorType) -> np.dtype[Any]:
        """Return the element type of a port."""
        return np.dtype(np.float64) if is_float(kind.dtype) else numpy_dtype(kind.dtype)

    def execute(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run once."""
        outputs, finals = evaluate_program(self.program, inputs, states)
        return Execution(outputs, finals, IN_FLOAT64)

    def release(self) -> None:
        """Hold nothing, so give nothing back."""


@dataclass(frozen=True)
class HalfPrecisionReference(HostBuffers):
    """A program as a processor with fp16 tensors would run it: each layer in float64, its result rounded once."""

    program: Program

    @property
    def label(self) -> Label:
        """How sure its numbers are, before any value goes in."""
        return IN_HALF_PRECISION

    def element(self, kind: TensorType) -> np.dtype[Any]:
        """Return the element type of a port."""
        return engine_element(kind)

    def execute(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run once."""
        program = self.program
        values = {port.value.name: widen(inputs[port.name]) for port in program.inputs}
        values |= {state.read.name: widen(states[state.name]) for state in program.states}
        last = {name: readers[-1].name for name, readers in program.consumers.items()}
        for layer in program.layers:
            for result, array in zip(layer.results, evaluate_layer(layer, values), strict=True):
                values[result.name] = widen(narrow(array))
            for value in layer.bottoms:
                if last[value.name] == layer.name and value.name not in program.kept:
                    values.pop(value.name, None)
        return Execution(
            {port.name: narrow(values[port.value.name]) for port in program.outputs},
            {state.name: narrow(values[(state.written or state.read).name]) for state in program.states},
            IN_HALF_PRECISION,
        )

    def release(self) -> None:
        """Hold nothing, so give nothing back."""


def narrow(array: Array) -> Array:
    """Return real numbers in fp16, ties to even; what is too large is infinite."""
    with np.errstate(over="ignore"):
        return array.astype(np.float16) if array.dtype.kind == "f" else array


def widen(array: Array) -> Array:
    """Return real numbers in float64, in which meanings are evaluated."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array
