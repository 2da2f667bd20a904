"""Ranges of a whole program: from its inputs through every layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.planar import host_fp16
from aneforge.errors import GraphError, UnknownNameError
from aneforge.ops.types import is_float
from aneforge.predict.ranges.interval import ANYTHING, Range, of_type, of_values
from aneforge.predict.ranges.layers import Found, range_of_layer, shares_along

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.ops.types import TensorType

    Array = npt.NDArray[Any]

__all__ = ["Flow", "declared_ranges", "flow"]


@dataclass(frozen=True, slots=True)
class Flow:
    """The range of every value of a program, and what was found at every layer."""

    ranges: Mapping[str, Range]
    layers: Mapping[str, Found]


def flow(program: Program, given: Mapping[str, Range]) -> Flow:
    """Return the ranges of every value, told those of inputs and states; one that is not given can hold anything."""
    ranges: dict[str, Range] = {}
    for port in program.inputs:
        ranges[port.value.name] = given.get(port.name, of_type(port.value.type.dtype))
    for state in program.states:
        ranges[state.read.name] = given.get(state.name, of_type(state.read.type.dtype))
    found: dict[str, Found] = {}
    shares: dict[str, int] = {}
    for layer in program.layers:
        found[layer.name] = range_of_layer(layer, ranges, program.target, shares)
        along = shares_along(layer)
        shares.update({} if along is None else {layer.result.name: along})
        ranges.update({result.name: one for result, one in zip(layer.results, found[layer.name].results, strict=True)})
    return Flow(ranges, found)


def declared_ranges(
    graph: Graph, given: Mapping[str, tuple[float, float] | float] | None = None, *, otherwise: Range = ANYTHING
) -> dict[str, Range]:
    """Return the range of every input: what is given, else what its `max_abs` promises, else the default.

    A state has the range that is given for what it holds at the start of a run; without one it can hold anything.

    >>> import aneforge as af
    >>> x = af.input((1, 4), max_abs=2.0, name="x")
    >>> declared_ranges(af.Graph({"y": x.relu()}))
    {'x': Range(low=-2.0, high=2.0)}

    Raises:
        UnknownNameError: There is no input of a name that is given.
        GraphError: A range ends before it begins, or is no number.
    """
    for name in given or {}:
        if name not in graph.inputs and name not in graph.state_placeholders:
            raise UnknownNameError.of("input", name, [*graph.inputs, *graph.state_placeholders])
    found = {
        name: range_given(name, given[name], node.types[0])
        for name, node in graph.state_placeholders.items()
        if given and name in given
    }
    for name, node in graph.inputs.items():
        if given and name in given:
            found[name] = range_given(name, given[name], node.types[0])
            continue
        promise = node.attributes.get("max_abs")
        if isinstance(promise, int | float):
            found[name] = range_given(name, float(promise), node.types[0])
        elif is_float(node.types[0].dtype):
            found[name] = otherwise
    return found


def range_given(name: str, given: tuple[float, float] | float, kind: TensorType) -> Range:
    """Return a range as the host hands its ends over: a magnitude, or two ends.

    Raises:
        GraphError: It ends before it begins, or is no number.
    """
    low, high = (-given, given) if isinstance(given, int | float) else (float(given[0]), float(given[1]))
    if not low <= high:
        raise GraphError(
            f"the range of input {name!r} is none",
            seen=f"{low} to {high}",
            limit="a magnitude, or a low and a high end",
        )
    ends = of_values(np.asarray(host_fp16(np.array([low, high])) if is_float(kind.dtype) else np.array([low, high])))
    whole = of_type(kind.dtype)
    return Range(max(ends.low, whole.low), min(ends.high, whole.high))
