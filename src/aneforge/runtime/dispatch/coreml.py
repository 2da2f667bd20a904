"""Core ML as a backend, through coremltools where that is installed on a Mac.

Core ML decides itself where a program runs; asked for CPU and Neural Engine, it still keeps most programs on the CPU
(aneforge docs, dispatch backends). What it would do is its plan: `af.placement(..., audit=True)`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.execution.run import engine_element
from aneforge.errors import BackendUnavailableError, NotSupportedError
from aneforge.formats.mlpackage.coreml_tools import coreml_obstacle, coreml_tools
from aneforge.records import dataclass
from aneforge.runtime.breaker import guard_compile
from aneforge.runtime.executables import Execution, HostBuffers
from aneforge.runtime.streams.resident import with_state_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.program import Program
    from aneforge.formats.mlpackage.coreml_tools import CoreMlTools, LoadedPackage
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import Array, TensorType

__all__ = ["CoreMlBackend", "CoreMlExecutable"]

BY_CORE_ML = Label(Exactness.UNKNOWN, "computed by Core ML, on the device that it chose")
UNITS = "CPU_AND_NE"
"""The compute units that are asked for."""


@dataclass(frozen=True)
class CoreMlBackend:
    """Core ML through coremltools, or through an object with its interface."""

    tools: CoreMlTools | None = None

    @property
    def name(self) -> str:
        """The word by which it is chosen."""
        return "coreml"

    @property
    def title(self) -> str:
        """What it is."""
        return "Core ML, usually on the CPU"

    def obstacle(self) -> str | None:
        """Return why it cannot run here."""
        return None if self.tools is not None else coreml_obstacle()

    def load(self, program: Program, graph: Graph | None) -> CoreMlExecutable:
        """Write the graph as an ML package, and let Core ML compile and load it.

        Raises:
            BackendUnavailableError: Core ML cannot be used here, or did not load the package.
            NotSupportedError: The program was read from a file, or Core ML has no form of an operation.
            CompileBackoffError: Core ML failed to compile a moment ago.
        """
        from aneforge.formats.mlpackage.package import save_mlpackage  # noqa: PLC0415 - imports coremltools

        if graph is None:
            raise NotSupportedError(
                "Core ML compiles the graph, and this program was read from a file that holds the engine's layers",
                remedy="compile the graph with this backend",
            )
        tools = coreml_tools() if self.tools is None else self.tools
        resident = with_state_ports(graph)
        with tempfile.TemporaryDirectory(prefix="aneforge-") as folder:
            path = save_mlpackage(resident.graph, Path(folder) / "model.mlpackage")
            with guard_compile(self.name):
                try:
                    package = tools.load_package(str(path), UNITS)
                except Exception as error:  # whatever the framework and coremltools raise
                    raise BackendUnavailableError(f"Core ML did not load the package: {error}") from error
        inputs = dict(zip(resident.graph.inputs, package.input_description, strict=True))
        outputs = dict(zip(resident.graph.outputs, package.output_description, strict=True))
        states = {state: output for output, state in resident.pairs.items()}
        kinds = {port.name: port.value.type for port in program.outputs}
        kinds |= {states[state.name]: state.read.type for state in program.states if state.name in states}
        return CoreMlExecutable(package, inputs, outputs, states, kinds)


@dataclass(frozen=True)
class CoreMlExecutable(HostBuffers):
    """A program that Core ML holds. States pass through it as inputs and outputs."""

    package: LoadedPackage
    inputs: Mapping[str, str]
    """What Core ML calls an input, by the name that the program has; states are among them."""
    outputs: Mapping[str, str]
    states: Mapping[str, str]
    """The output that is a state's next value, by the state's name."""
    kinds: Mapping[str, TensorType]
    """The types of outputs, those of states among them."""

    @property
    def label(self) -> Label:
        """How sure its numbers are."""
        return BY_CORE_ML

    def element(self, kind: TensorType) -> np.dtype[Any]:
        """Return the element type of a port."""
        return engine_element(kind)

    def execute(self, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Execution:
        """Run once."""
        given = {self.inputs[name]: as_feature(array) for name, array in (*inputs.items(), *states.items())}
        found = self.package.predict(given)
        values = {
            name: np.asarray(found[self.outputs[name]], engine_element(kind)).reshape(kind.shape)
            for name, kind in self.kinds.items()
        }
        kept = {name: values[self.states[name]] if name in self.states else array for name, array in states.items()}
        return Execution({name: value for name, value in values.items() if name in self.outputs}, kept, BY_CORE_ML)

    def release(self) -> None:
        """Hold nothing but the package, which goes with this object."""


def as_feature(array: Array) -> Array:
    """Return a value as Core ML takes it: its ports are floating or int32."""
    return array if array.dtype.kind == "f" else array.astype(np.int32)
