"""Core ML through an object with the interface of coremltools: running programs, and its plan as an oracle."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.compute_plan import Planned, compare_with_plan, device_of
from aneforge.analysis.segmenter import Device
from aneforge.errors import BackendUnavailableError, NoDataError, NotSupportedError
from aneforge.runtime.breaker import reset_compile_breaker
from aneforge.runtime.dispatch.coreml import CoreMlBackend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.mlpackage.coreml_tools import ComputePlan, LoadedPackage, PlannedOperation
    from aneforge.graph.node import Node


class MLCPUComputeDevice:
    """Named as in coremltools."""


class MLNeuralEngineComputeDevice:
    """Named as in coremltools."""


class Toaster:
    """A device that nobody knows."""


@dataclass
class Package:
    """A package that the software engine runs."""

    path: str
    graph: af.Graph

    @property
    def input_description(self) -> list[str]:
        """The names of the inputs."""
        return list(self.graph.inputs)

    @property
    def output_description(self) -> list[str]:
        """The names of the outputs."""
        return list(self.graph.outputs)

    def predict(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run once."""
        assert data.keys() == self.graph.inputs.keys()
        if any(array.dtype == np.int32 for array in data.values()):  # the engine has no such ports
            return af.reference(self.graph, [data[name] for name in self.graph.inputs])
        return af.run(af.build_program(self.graph, "h16g"), data).outputs

    def get_compiled_model_path(self) -> str:
        """Return where it would be compiled to."""
        return self.path + "c"


@dataclass
class NamedResult:
    """A result of an operation."""

    name: str


@dataclass
class Structure:
    """Every level of a model's structure at once: program, function and block."""

    operations: list[Structure] = field(default_factory=list["Structure"])
    operator_name: str = ""
    outputs: list[NamedResult] = field(default_factory=list[NamedResult])

    @property
    def program(self) -> Structure | None:
        """The program; an empty structure is a model of another kind."""
        return self if self.operations else None

    @property
    def functions(self) -> dict[str, Structure]:
        """The functions."""
        return {"main": self}

    @property
    def block(self) -> Structure:
        """What the function does."""
        return self


@dataclass
class Usage:
    """Where an operation would run, and its share of the work."""

    preferred_compute_device: object
    supported_compute_devices: list[object]
    weight: float = 0.5


@dataclass
class Plan:
    """A plan that prefers the engine for convolutions alone."""

    model_structure: Structure

    def get_compute_device_usage_for_mlprogram_operation(self, operation: PlannedOperation) -> Usage | None:
        """Return where an operation would run."""
        if operation.operator_name.endswith("cast"):
            return None
        engine, processor = MLNeuralEngineComputeDevice(), MLCPUComputeDevice()
        chosen = engine if operation.operator_name.endswith("conv") else processor
        return Usage(chosen, [engine, processor])

    def get_estimated_cost_for_mlprogram_operation(self, operation: PlannedOperation) -> Usage | None:
        """Return its share of the work."""
        return self.get_compute_device_usage_for_mlprogram_operation(operation)


@dataclass
class FakeTools:
    """What is used of coremltools."""

    broken: bool = False
    empty: bool = False
    loaded: list[Package] = field(default_factory=list[Package])

    def load_package(self, path: str, units: str) -> LoadedPackage:
        """Read a package."""
        if self.broken:
            raise ValueError("the framework said no")
        assert units in ("ALL", "CPU_AND_NE")
        self.loaded.append(Package(path, af.from_mlpackage(Path(path))))
        return self.loaded[-1]

    def load_plan(self, compiled: str, units: str) -> ComputePlan:
        """Plan the package that was loaded last."""
        package = self.loaded[-1]
        assert (compiled, units) == (package.path + "c", "ALL")
        nodes = [node for node in package.graph.nodes if node.op.name != "input"]
        constant = Structure(operator_name="const")
        cast = Structure(operator_name="ios16.cast", outputs=[NamedResult("x_cast")])
        return Plan(Structure([] if self.empty else [constant, cast, *map(planned, nodes)]))


def planned(node: Node) -> Structure:
    """Return a node as a plan has it."""
    return Structure(operator_name=f"ios16.{node.op.mil_name}", outputs=[NamedResult("y")])


def network() -> af.Graph:
    weight = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float16)
    return af.Graph({"y": af.conv(af.input((1, 3, 8, 8), name="x"), weight, pad=1).relu().tanh()})


def test_a_program_runs_by_core_ml() -> None:
    model = af.compile(network(), target="h16g", backend=CoreMlBackend(FakeTools()))
    sample = np.random.default_rng(1).standard_normal((1, 3, 8, 8))
    assert np.array_equal(np.asarray(model(sample)), np.asarray(af.compile(network(), target="h16g")(sample)))
    assert str(model.exactness) == "unknown: computed by Core ML, on the device that it chose"
    assert model.backend == "coreml"
    model.release()


def test_states_and_integers_pass_core_ml() -> None:
    total, fixed = af.state("total", (1, 32)), af.state("fixed", (1, 32))
    graph = af.Graph(
        {"y": total + fixed + af.input((1, 32), dtype="uint8", name="x").cast("fp16")}, {"total": total + 1.0}
    )
    with pytest.warns(UserWarning, match="int32"):
        model = af.compile(graph, target="h16g", backend=CoreMlBackend(FakeTools()))
    model.loaded.write_state("fixed", np.full((1, 32), 0.5))
    ones = np.ones((1, 32), np.uint8)
    assert [float(np.asarray(model(ones))[0, 0]) for _ in range(3)] == [1.5, 2.5, 3.5]
    assert model.loaded.read_state("total")[0, 0] == 3


def test_what_core_ml_does_not_take(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailableError, match="Core ML did not load the package: the framework said no"):
        af.compile(network(), target="h16g", backend=CoreMlBackend(FakeTools(broken=True)))
    reset_compile_breaker()
    saved = af.compile(network(), target="h16g").save(tmp_path / "net")
    with pytest.raises(NotSupportedError, match="Core ML compiles the graph"):
        af.load_program(saved, backend=CoreMlBackend(FakeTools()))


def test_an_audit_of_a_placement() -> None:
    found = af.placement(network(), "h16g", "coreml", audit=FakeTools())
    assert found.audit is not None
    assert [(one.op, one.predicted, one.agrees) for one in found.audit.operations] == [
        ("conv", Device.CPU, False),
        ("relu", Device.CPU, True),
        ("tanh", Device.CPU, True),
    ]
    assert (found.audit.compared, found.audit.agreed) == (3, 2)
    first = found.audit.operations[0].planned
    assert first == Planned("conv", "y", Device.ANE, (Device.ANE, Device.CPU), 0.5)
    assert str(found).endswith(
        "MLComputePlan agrees on 2 of 3 operations\n"
        "  conv #0: predicted CPU, planned ANE: differs\n"
        "  cast (x_cast): only in the plan, ?"
    )
    assert af.placement(network(), "h16g").audit is None


def test_operations_that_one_side_has_alone() -> None:
    plan = [Planned("relu", "a", None, (), None)]
    audit = compare_with_plan([("identity", Device.ANE), ("relu", Device.ANE)], plan)
    assert str(audit) == (
        "MLComputePlan agrees on 0 of 0 operations\n"
        "  identity #0: predicted ANE, not in the plan\n"
        "  relu #1: predicted ANE, planned ?: the plan does not say"
    )


def no_package(_: str) -> None:
    """Find nothing."""


def test_a_plan_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoDataError, match="the compiled package has no program"):
        af.placement(network(), "h16g", "coreml", audit=FakeTools(empty=True))
    with pytest.raises(NoDataError, match="a device that is not known: Toaster"):
        device_of(Toaster())
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(BackendUnavailableError, match=r"CoreML\.framework is part of macOS, and this is linux"):
        af.placement(network(), "h16g", "coreml", audit=True)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(importlib.util, "find_spec", no_package)
    with pytest.raises(BackendUnavailableError, match="coremltools is not installed"):
        af.placement(network(), "h16g", "coreml", audit=True)
