"""Runs a compiled program layer by layer, as the target's silicon would, and says how sure that is.

What depends only on the program is done once (`prepare`): constants decoded, attributes completed, slots joined. The
fast kernels run, and the golden model in their place within `kernels.library.using(golden=True)`.

Everything is a function of the program and its inputs: the same bits on every machine, in every run, with any number of
threads. Two targets differ because their programs or their data differ.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.callsite import warn
from aneforge.compiler.ir.program import Program
from aneforge.engine.exactness import label_of_all
from aneforge.engine.execution.given import expect_known, hand_over
from aneforge.engine.execution.layers import Constants, step_of
from aneforge.engine.execution.values import Values
from aneforge.errors import GraphError, GraphTypeError, PrecisionWarning
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.engine.exactness import Label
    from aneforge.engine.execution.layers import Step
    from aneforge.ops.types import TensorType

    Array = npt.NDArray[Any]

__all__ = ["Executable", "Run", "engine_element", "prepare", "run"]


@dataclass(frozen=True, slots=True)
class Run:
    """What a run gave."""

    outputs: Mapping[str, Array]
    states: Mapping[str, Array]
    labels: Mapping[str, Label]
    """How sure the results of each layer are, given what went in."""
    doubts: Mapping[str, tuple[Label, ...]]
    """What the values that went in made less sure, by layer; no target changes it where the values are the same."""
    values: Mapping[str, Array] = field(default_factory=dict[str, "Array"])
    """Every value by its name, where it was asked for."""

    @property
    def label(self) -> Label:
        """How sure the whole is: the least sure of its layers."""
        return label_of_all(self.labels.values())


@dataclass(frozen=True, slots=True)
class Executable:
    """A program ready to run many times."""

    program: Program
    steps: tuple[Step, ...]
    last: Mapping[str, str]
    """The layer that reads each value last."""

    @property
    def label(self) -> Label:
        """How sure the whole is before any value goes in; a run may be less sure."""
        return label_of_all(step.labels.known for step in self.steps)

    def run(self, inputs: Mapping[str, Array], states: Mapping[str, Array] | None = None, *, keep: bool = False) -> Run:
        """Run the program; `keep` asks for every value.

        >>> import numpy as np, aneforge as af
        >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
        >>> ready = prepare(program)
        >>> [ready.run({"x": np.array([[x, 0.5]])}).outputs["y"].tolist() for x in (2047, 2048)]
        [[[2048.0, 1.5]], [[2050.0, 1.5]]]

        Raises:
            UnknownNameError: A value is given for an input or a state that does not exist.
            GraphTypeError: A value is of a type that its input does not take.
            GraphError: An input has no value, or a value of another shape or out of range.
        """
        program = self.program
        values = Values()
        expect_known("input", inputs, [port.name for port in program.inputs])
        expect_known("state", states or {}, [state.name for state in program.states])
        for port in program.inputs:
            if inputs.get(port.name) is None:
                raise GraphError(f"input {port.name!r} has no value")
            values.arrays[port.value.name] = take_value("input", port.name, inputs[port.name], port.value.type)
        for state in program.states:
            kind = state.read.type
            start = (states or {}).get(state.name, np.zeros(kind.shape, engine_element(kind)))
            values.arrays[state.read.name] = take_value("state", state.name, start, kind)
        labels: dict[str, Label] = {}
        doubts: dict[str, tuple[Label, ...]] = {}
        for step in self.steps:
            layer = step.layer
            if step.warning is not None:
                warn(f"{program.target.name}: {step.warning}", PrecisionWarning)
            results, raised = step.run(values)
            labels[layer.name] = step.labels.with_doubts(raised)
            if raised:
                doubts[layer.name] = raised
            for result, array in zip(layer.results, results, strict=True):
                values.arrays[result.name] = array
            for value in layer.bottoms:
                if not keep and self.last[value.name] == layer.name and value.name not in program.kept:
                    values.arrays.pop(value.name, None)
        return Run(
            {port.name: values.arrays[port.value.name] for port in program.outputs},
            {state.name: values.arrays[(state.written or state.read).name] for state in program.states},
            labels,
            doubts,
            values.arrays if keep else {},
        )


def prepare(program: Program, *, codes: bool = True) -> Executable:
    """Return a program ready to run many times; with `codes` its encoded weights stay so where the kernels take them.

    >>> import aneforge as af
    >>> len(prepare(af.build_program(af.input((1, 2)).relu(), af.targets.Family.A16)).steps)
    1

    Raises:
        GraphTypeError: It is not a program.
    """
    expect_program(program)
    constants = Constants(codes=codes)
    steps = tuple(step_of(layer, program, constants) for layer in program.layers)
    return Executable(program, steps, {name: readers[-1].name for name, readers in program.consumers.items()})


def expect_program(given: object) -> None:
    """Refuse what is not compiled, such as a tensor or a model: the engine runs programs.

    Raises:
        GraphTypeError: It is not a program.
    """
    if not isinstance(given, Program):
        raise GraphTypeError(
            "the engine runs a compiled program",
            seen=type(given).__name__,
            limit="a program",
            remedy="af.compile(tensor, target=…) gives a model to call; af.build_program(tensor, target) gives a "
            "program, and so does model.program",
        )


def engine_element(kind: TensorType) -> np.dtype[Any]:
    """Return the element type of a port of the engine: fp16 for real numbers, integers in their own type."""
    return np.dtype(np.float16) if is_float(kind.dtype) else numpy_dtype(kind.dtype)


def run(
    program: Program, inputs: Mapping[str, Array], states: Mapping[str, Array] | None = None, *, keep: bool = False
) -> Run:
    """Run a program once; `keep` also returns every intermediate value. Prepare a program to run it often.

    >>> import numpy as np, aneforge as af
    >>> program = af.build_program(af.input((1, 2), name="x") + 1.0, af.targets.Family.A16)
    >>> found = run(program, {"x": np.array([[2048, 0.5]])})
    >>> found.outputs["y"].tolist(), str(found.label.exactness)
    ([[2050.0, 1.5]], 'modelled')

    Raises:
        UnknownNameError: A value is given for an input or a state that does not exist.
        GraphTypeError: It is not a program, or a value is of a type that its input does not take.
        GraphError: An input has no value, or a value of another shape or out of range.
    """
    return prepare(program).run(inputs, states, keep=keep)


def take_value(direction: str, name: str, value: object, kind: TensorType) -> Array:
    """Return a value as the engine gets it, checked as the port of a loaded program checks it."""
    return hand_over(f"{direction} {name!r} : {kind}", value, kind, engine_element(kind))
