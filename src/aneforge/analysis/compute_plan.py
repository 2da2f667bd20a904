"""Core ML's own plan as an oracle: where its scheduler would run each operation, next to what is predicted here.

`MLComputePlan` says for every operation of a compiled package which device Core ML prefers. It is an oracle, not a way
to dispatch: the direct paths reach the engine whatever it says (aneforge docs, dispatch backends). The operations of
both sides are those of the package, matched in order by what they are called.
"""

from __future__ import annotations

import tempfile
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING

from aneforge.analysis.segmenter import Device
from aneforge.errors import NoDataError
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.mlpackage.coreml_tools import CoreMlTools
    from aneforge.graph.graph import Graph

__all__ = ["Audit", "AuditedOperation", "Planned", "compare_with_plan", "read_plan"]

UNITS = "ALL"
CONSTANTS = ("const", "constexpr_")
DEVICES = {
    "MLCPUComputeDevice": Device.CPU,
    "MLGPUComputeDevice": Device.GPU,
    "MLNeuralEngineComputeDevice": Device.ANE,
}
"""The classes by which coremltools says what a device is."""


@dataclass(frozen=True, slots=True)
class Planned:
    """An operation of a package, and where Core ML plans to run it."""

    op: str
    result: str
    """The name of its first result in the package."""
    preferred: Device | None
    """None where the plan does not say."""
    supported: tuple[Device, ...]
    weight: float | None
    """The share of the whole work that Core ML estimates."""


@dataclass(frozen=True, slots=True)
class AuditedOperation:
    """An operation with both answers."""

    number: int
    op: str
    predicted: Device
    planned: Planned | None
    """None where the plan has no such operation: Core ML's front end took it away."""

    @property
    def agrees(self) -> bool | None:
        """Whether the two answers are the same; None where there is only one."""
        if self.planned is None or self.planned.preferred is None:
            return None
        return self.planned.preferred is self.predicted

    def __str__(self) -> str:
        if self.planned is None:
            return f"{self.op} #{self.number}: predicted {self.predicted}, not in the plan"
        verdict = {True: "agrees", False: "differs", None: "the plan does not say"}[self.agrees]
        planned = self.planned.preferred or "?"
        return f"{self.op} #{self.number}: predicted {self.predicted}, planned {planned}: {verdict}"


@dataclass(frozen=True, slots=True)
class Audit:
    """A prediction of where operations land, next to Core ML's own plan."""

    operations: tuple[AuditedOperation, ...]
    only_planned: tuple[Planned, ...]
    """Operations of the plan that the prediction does not have, such as casts at ports."""

    @property
    def compared(self) -> int:
        """How many operations have both answers."""
        return sum(one.agrees is not None for one in self.operations)

    @property
    def agreed(self) -> int:
        """How many of them have the same answer on both sides."""
        return sum(one.agrees is True for one in self.operations)

    def __str__(self) -> str:
        lines = [f"MLComputePlan agrees on {self.agreed} of {self.compared} operations"]
        lines += [f"  {one}" for one in self.operations if one.agrees is not True]
        lines += [f"  {one.op} ({one.result}): only in the plan, {one.preferred or '?'}" for one in self.only_planned]
        return "\n".join(lines)


def read_plan(graph: Graph, tools: CoreMlTools) -> tuple[Planned, ...]:
    """Write a graph as an ML package, let Core ML compile it, and return its plan; constants are left out.

    Raises:
        NotSupportedError: Core ML has no form of an operation.
        NoDataError: Core ML compiled the package into something other than a program.
    """
    from aneforge.formats.mlpackage.package import save_mlpackage  # noqa: PLC0415 - imports coremltools

    with tempfile.TemporaryDirectory(prefix="aneforge-") as folder:
        path = save_mlpackage(graph, Path(folder) / "audit.mlpackage")
        package = tools.load_package(str(path), UNITS)
        plan = tools.load_plan(package.get_compiled_model_path(), UNITS)
        program = plan.model_structure.program
        if program is None:
            raise NoDataError("the compiled package has no program, so the plan has no operations")
        found: list[Planned] = []
        for one in program.functions["main"].block.operations:
            op = one.operator_name.rpartition(".")[2]  # ios16.relu
            if op.startswith(CONSTANTS):
                continue
            usage = plan.get_compute_device_usage_for_mlprogram_operation(one)
            cost = plan.get_estimated_cost_for_mlprogram_operation(one)
            found.append(
                Planned(
                    op,
                    one.outputs[0].name if one.outputs else "",
                    None if usage is None else device_of(usage.preferred_compute_device),
                    () if usage is None else tuple(map(device_of, usage.supported_compute_devices)),
                    None if cost is None else cost.weight,
                )
            )
    return tuple(found)


def device_of(device: object) -> Device:
    """Return which device an object of coremltools is.

    Raises:
        NoDataError: It is of a class that is not known.
    """
    name = type(device).__name__
    if name not in DEVICES:
        raise NoDataError(f"the plan names a device that is not known: {name}")
    return DEVICES[name]


def compare_with_plan(predicted: Sequence[tuple[str, Device]], planned: Sequence[Planned]) -> Audit:
    """Return predictions next to a plan, matched in order by what operations are called.

    >>> plan = [Planned("cast", "x_cast", Device.CPU, (), None), Planned("relu", "y", Device.ANE, (), 1.0)]
    >>> print(compare_with_plan([("relu", Device.ANE)], plan))
    MLComputePlan agrees on 1 of 1 operations
      cast (x_cast): only in the plan, CPU
    """
    names, others = [op for op, _ in predicted], [one.op for one in planned]
    pairs: dict[int, int] = {}
    for first, second, length in SequenceMatcher(None, names, others, autojunk=False).get_matching_blocks():
        pairs |= {first + step: second + step for step in range(length)}
    rows = tuple(
        AuditedOperation(number, op, device, planned[pairs[number]] if number in pairs else None)
        for number, (op, device) in enumerate(predicted)
    )
    matched = set(pairs.values())
    return Audit(rows, tuple(one for place, one in enumerate(planned) if place not in matched))
