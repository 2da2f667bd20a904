"""Programs that are compiled for a chip and run, for tests against what was published of chips."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.engine.execution.run import run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.engine.execution.run import Run
    from aneforge.graph.graph import GraphLike

Array = npt.NDArray[Any]
MEASURED = ("M1", "M1 Max", "M2", "M2 Pro", "M4", "M5", "M5 Pro", "M6")
"""Chips whose arithmetic somebody measured."""


def run_on(chip: str, graph: GraphLike, *arrays: Array) -> Run:
    """Compile a graph for a chip and run it on arrays in the order of its inputs."""
    program = build_program(graph, f"soc:{chip}")
    return run(program, {port.name: array for port, array in zip(program.inputs, arrays, strict=True)})


def output_on(chip: str, graph: GraphLike, *arrays: Array) -> Array:
    """Return the one output of a compiled graph."""
    (found,) = run_on(chip, graph, *arrays).outputs.values()
    return found


def halves(values: object) -> Array:
    """Return numbers in fp16."""
    return np.asarray(values).astype(np.float16)


def from_bits(*bits: int) -> Array:
    """Return fp16 numbers by their bits."""
    return np.array(bits, np.uint16).view(np.float16)


def input_of(*shape: int, name: str = "x") -> af.Tensor:
    """Return an input."""
    return af.input(shape, name=name)


def dot(chip: str, x: Sequence[float] | Array, w: Sequence[float] | Array, bias: float | None = None) -> float:
    """Return the dot product of two vectors: a linear layer with one output, compiled for a chip."""
    row, weight = halves(x)[None], halves(w)[None]
    shift = None if bias is None else halves([bias])
    return float(output_on(chip, input_of(*row.shape).linear(weight, shift), row).item())


def along_row(chip: str, function: Callable[[af.Tensor], af.Tensor], x: Sequence[float] | Array) -> list[float]:
    """Return a function of the builder on a row of numbers, compiled for a chip."""
    row = halves(x)[None]
    return [float(one) for one in output_on(chip, function(input_of(*row.shape)), row)[0]]
