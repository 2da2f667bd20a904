"""What a program means: every layer and its epilogue in float64, as the graph's reference evaluates operations.

So the meaning of a program can be compared with that of the graph, and before and after every pass. The engine's
arithmetic is another matter: there each slot rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.ir.layer import Value
from aneforge.errors import GraphError
from aneforge.graph.reference import fit_value
from aneforge.ops.definition import meaning_dtype

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Argument, Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array

__all__ = ["evaluate_layer", "evaluate_program"]


def evaluate_program(
    program: Program, inputs: Mapping[str, Array], states: Mapping[str, Array] | None = None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return outputs and final states as the mathematics gives them; a state starts from zeros unless it is given.

    A value is dropped after its last reader, so memory follows the widest cut.

    Raises:
        GraphError: An input has no value or one that does not fit, or a layer has no meaning of its own.
    """
    values: dict[str, Array] = {}
    for port in program.inputs:
        if port.name not in inputs:
            raise GraphError(
                f"input {port.name!r} has no value", limit=", ".join(known.name for known in program.inputs)
            )
        values[port.value.name] = fit_value(f"input {port.name!r}", inputs[port.name], port.value.type)
    for state in program.states:
        kind = state.read.type
        start = (states or {}).get(state.name, np.zeros(kind.shape, meaning_dtype(kind.dtype)))
        values[state.read.name] = fit_value(f"state {state.name!r}", start, kind)
    last = {name: readers[-1].name for name, readers in program.consumers.items()}
    for layer in program.layers:
        for result, array in zip(layer.results, evaluate_layer(layer, values), strict=True):
            values[result.name] = array
        for value in layer.bottoms:
            if last[value.name] == layer.name and value.name not in program.kept:
                values.pop(value.name, None)
    outputs = {port.name: values[port.value.name] for port in program.outputs}
    finals = {state.name: values[(state.written or state.read).name] for state in program.states}
    return outputs, finals


def evaluate_layer(layer: Layer, values: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the results of one layer, given the values that it reads.

    Raises:
        GraphError: The layer has no meaning of its own.
    """

    def array_of(ref: Ref) -> Array:
        return values[ref.name] if isinstance(ref, Value) else dense(ref)

    def argument_of(argument: Argument) -> Array | tuple[Array, ...]:
        return tuple(map(array_of, argument)) if isinstance(argument, tuple) else array_of(argument)

    try:
        operands = {name: argument_of(argument) for name, argument in layer.operands.items()}
        results = layer.kind.evaluate(operands, layer.attributes)
        for _, stage in layer.epilogue:
            held = {name: dense(constant) for name, constant in stage.operands.items()}
            results = stage.kind.evaluate({stage.kind.flowing: results[0], **held}, stage.attributes)
    except GraphError as error:
        error.operation = error.operation or layer.kind.name
        error.location = error.location or layer.location
        raise
    return results


def dense(constant: Constant) -> Array:
    """Return a constant in the type of the mathematics."""
    return constant.dense().astype(meaning_dtype(constant.type.dtype), copy=False)
