"""How large values can get, as far as single layers say: promises of inputs, functions with bounds, movements.

It serves to leave out warnings that cannot come true. The range analysis of whole programs is another matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.layer import Value
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph

__all__ = ["magnitudes", "promises_of"]

BOUNDED = {
    "cos": 1.0,
    "erf": 1.0,
    "sigmoid": 1.0,
    "sigmoid_hard": 1.0,
    "sign": 1.0,
    "sin": 1.0,
    "softmax": 1.0,
    "softsign": 1.0,
    "tanh": 1.0,
}
"""The largest magnitude that a function gives, whatever goes in."""
SHRINKING = {"relu", "abs", "max", "min", "max_pool", "reduce_max", "reduce_min", "cast"}
"""Layers beside movements whose results are no larger than the largest operand; averages round up, and are none."""
GROWING_MOVES = {"padding", "cast"}
"""Movements that put other values beside those that they move."""


def promises_of(graph: Graph) -> Mapping[str, float]:
    """Return the magnitudes that inputs of a graph are promised not to pass."""
    found = {name: node.attributes["max_abs"] for name, node in graph.inputs.items()}
    return {name: float(most) for name, most in found.items() if isinstance(most, int | float)}


def magnitudes(program: Program, promises: Mapping[str, float]) -> Mapping[str, float]:
    """Return the largest magnitude of values that have a known one, by the value's name."""
    found: dict[str, float] = {}
    for port in program.inputs:
        kind = port.value.type
        if port.name in promises:
            found[port.value.name] = promises[port.name]
        elif not is_float(kind.dtype):
            found[port.value.name] = float(max(map(abs, value_range(kind.dtype))))
    for layer in program.layers:
        most = of_layer(layer, found)
        if most is not None:
            found.update({result.name: most for result in layer.results})
    return found


def of_layer(layer: Layer, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude that a layer gives, where it is known."""
    most = of_operation(layer, known)
    for _, stage in layer.epilogue:
        if stage.kind.name in BOUNDED:
            most = BOUNDED[stage.kind.name]
        elif stage.kind.name not in SHRINKING | {"transpose"}:
            return None
    return most


def of_operation(layer: Layer, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude before the epilogue, where it is known."""
    name = layer.kind.name
    if name in BOUNDED:
        return BOUNDED[name]
    moves = layer.engine in (Engine.DMA, Engine.TE) and name not in GROWING_MOVES
    if not (moves or name in SHRINKING) or layer.choices.get("format") == "q.4":
        return None
    bounds = [of_ref(ref, known) for _, ref in layer.refs()]
    return None if None in bounds else max((bound for bound in bounds if bound is not None), default=None)


def of_ref(ref: Ref, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude of an operand, where it is known."""
    if isinstance(ref, Value):
        return known.get(ref.name)
    values = ref.dense()
    return float(np.max(np.abs(values.astype(np.float64)))) if values.size else 0.0
