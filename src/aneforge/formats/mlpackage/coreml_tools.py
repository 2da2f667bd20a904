"""The parts of coremltools used in addition to its messages: loading a package, predicting, and Core ML's plan.

It works only on macOS, where coremltools reaches the framework. Tests pass an object with this interface.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from aneforge.errors import BackendUnavailableError
from aneforge.packages import install_line, is_installed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["ComputePlan", "CoreMlTools", "LoadedPackage", "PlannedOperation", "coreml_obstacle", "coreml_tools"]


class LoadedPackage(Protocol):
    """`coremltools.models.MLModel`."""

    @property
    def input_description(self) -> Iterable[str]:
        """The names of the inputs, in order."""
        ...

    @property
    def output_description(self) -> Iterable[str]:
        """The names of the outputs, in order."""
        ...

    def predict(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run once."""
        ...

    def get_compiled_model_path(self) -> str:
        """Return where the compiled model is."""
        ...


class NamedValue(Protocol):
    """A result of an operation of a plan."""

    @property
    def name(self) -> str:
        """Its name in the program."""
        ...


class PlannedOperation(Protocol):
    """`MLModelStructureProgramOperation`."""

    @property
    def operator_name(self) -> str:
        """What it does."""
        ...

    @property
    def outputs(self) -> Sequence[NamedValue]:
        """Its results."""
        ...


class DeviceUsage(Protocol):
    """`MLComputePlanDeviceUsage`."""

    @property
    def preferred_compute_device(self) -> object:
        """A device whose class says what it is."""
        ...

    @property
    def supported_compute_devices(self) -> Sequence[object]:
        """Devices that could run it."""
        ...


class OperationCost(Protocol):
    """`MLComputePlanCost`."""

    @property
    def weight(self) -> float:
        """The share of the whole, from 0 to 1."""
        ...


class BlockStructure(Protocol):
    """`MLModelStructureProgramBlock`."""

    @property
    def operations(self) -> Sequence[PlannedOperation]:
        """The operations, in order."""
        ...


class FunctionStructure(Protocol):
    """`MLModelStructureProgramFunction`."""

    @property
    def block(self) -> BlockStructure:
        """What it does."""
        ...


class ProgramStructure(Protocol):
    """`MLModelStructureProgram`."""

    @property
    def functions(self) -> Mapping[str, FunctionStructure]:
        """The functions by name."""
        ...


class ModelStructure(Protocol):
    """`MLModelStructure`."""

    @property
    def program(self) -> ProgramStructure | None:
        """The program, where the model is one."""
        ...


class ComputePlan(Protocol):
    """`MLComputePlan`."""

    @property
    def model_structure(self) -> ModelStructure:
        """What the compiled model is made of."""
        ...

    def get_compute_device_usage_for_mlprogram_operation(self, operation: PlannedOperation) -> DeviceUsage | None:
        """Return where an operation would run, or None where that is not known."""
        ...

    def get_estimated_cost_for_mlprogram_operation(self, operation: PlannedOperation) -> OperationCost | None:
        """Return what share of the whole an operation is, or None."""
        ...


class CoreMlTools(Protocol):
    """What is used of coremltools."""

    def load_package(self, path: str, units: str) -> LoadedPackage:
        """Load a package for some compute units, such as ALL or CPU_AND_NE."""
        ...

    def load_plan(self, compiled: str, units: str) -> ComputePlan:
        """Return the plan of a compiled model."""
        ...


class InstalledTools:
    """The coremltools that is installed."""

    def __init__(self) -> None:
        self.module: Any = importlib.import_module("coremltools")
        self.plans: Any = importlib.import_module("coremltools.models.compute_plan")

    def load_package(self, path: str, units: str) -> LoadedPackage:
        """Load a package for some compute units."""
        return cast("LoadedPackage", self.module.models.MLModel(path, compute_units=self.module.ComputeUnit[units]))

    def load_plan(self, compiled: str, units: str) -> ComputePlan:
        """Return the plan of a compiled model."""
        plan = self.plans.MLComputePlan.load_from_path(path=compiled, compute_units=self.module.ComputeUnit[units])
        return cast("ComputePlan", plan)


def coreml_obstacle() -> str | None:
    """Return why Core ML cannot be used here, or None where it can."""
    if sys.platform != "darwin":
        return f"CoreML.framework is part of macOS, and this is {sys.platform}"
    if not is_installed("coremltools"):
        return f"coremltools is not installed: {install_line('coremltools')}"
    return None


def coreml_tools() -> CoreMlTools:
    """Return coremltools, where it can reach the framework.

    Raises:
        BackendUnavailableError: Core ML cannot be used here.
    """
    obstacle = coreml_obstacle()
    if obstacle is not None:
        raise BackendUnavailableError(f"Core ML is not available: {obstacle}")
    return InstalledTools()
