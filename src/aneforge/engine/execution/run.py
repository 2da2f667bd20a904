"""Runs a compiled program layer by layer, as the target's silicon would, and says how sure that is.

Everything is a function of the program and its inputs: the same bits on every machine, in every run, with any number of
threads. Two targets differ because their programs or their data differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.exactness import Exactness, Label, worst
from aneforge.engine.execution.layers import computed
from aneforge.engine.planar import host_fp16
from aneforge.errors import GraphError
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import TensorType

    Array = npt.NDArray[Any]

__all__ = ["Run", "run"]

NOTHING_COMPUTED = Label(Exactness.EXACT, "nothing is computed")


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave."""

    outputs: Mapping[str, Array]
    states: Mapping[str, Array]
    labels: Mapping[str, Label]
    """How sure the results of each layer are, given what went in."""
    values: Mapping[str, Array] = field(default_factory=dict[str, "Array"])
    """Every value by its name, where it was asked for."""

    @property
    def label(self) -> Label:
        """How sure the whole is: the least sure of its layers."""
        return worst(self.labels.values()) if self.labels else NOTHING_COMPUTED


def run(
    program: Program, inputs: Mapping[str, Array], states: Mapping[str, Array] | None = None, *, keep: bool = False
) -> Run:
    """Run a program; `keep` asks for every value.

    >>> import numpy as np, aneforge as af
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> found = run(program, {"x": np.array([[2048, 0.5]])})
    >>> found.outputs["y"].tolist(), str(found.label.exactness)
    ([[2050.0, 1.5]], 'exact')

    Raises:
        GraphError: An input has no value, or one of another shape.
    """
    values: dict[str, Array] = {}
    for port in program.inputs:
        values[port.value.name] = handed_over(f"input {port.name!r}", inputs.get(port.name), port.value.type)
    for state in program.states:
        start = (states or {}).get(state.name, np.zeros(state.read.type.shape))
        values[state.read.name] = handed_over(f"state {state.name!r}", start, state.read.type)
    last = {name: readers[-1].name for name, readers in program.consumers.items()}
    labels: dict[str, Label] = {}
    for layer in program.layers:
        found = computed(layer, values, program.target)
        labels[layer.name] = found.label
        values.update({result.name: array for result, array in zip(layer.results, found.results, strict=True)})
        for value in layer.bottoms:
            if not keep and last[value.name] == layer.name and value.name not in program.kept:
                values.pop(value.name, None)
    return Run(
        {port.name: values[port.value.name] for port in program.outputs},
        {state.name: values[(state.written or state.read).name] for state in program.states},
        labels,
        values if keep else {},
    )


def handed_over(what: str, value: Array | None, kind: TensorType) -> Array:
    """Return a value as the host hands it over: real numbers in fp16, ties to even.

    Raises:
        GraphError: There is none, or it has another shape.
    """
    if value is None:
        raise GraphError(f"{what} has no value")
    array = np.asarray(value)
    if array.shape != kind.shape:
        raise GraphError(f"{what} has the wrong shape", seen=list(array.shape), limit=list(kind.shape))
    return host_fp16(array) if is_float(kind.dtype) else array.astype(numpy_dtype(kind.dtype))
