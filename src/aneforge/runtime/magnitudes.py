"""How large values can get, as far as single layers say: promises of inputs, bounded functions, movements, products.

It serves to leave out warnings that cannot come true, and to tell whether eight-bit weights are safe. The range
analysis of whole programs, which is sharper, stands above this room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.layer import Value
from aneforge.ops.constant import Constant
from aneforge.ops.numbers import FP16_MAX, FP16_SMALLEST
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer, Ref, Stage
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph

__all__ = ["magnitudes", "promises_of"]

SHRINKING = {"relu", "abs", "max", "min", "max_pool", "reduce_max", "reduce_min", "cast"}
"""Layers beside movements whose results are no larger than the largest operand; averages round up, and are none."""
PRODUCTS = {"convolution": ("input", "weights"), "linear": ("x", "weight")}
"""Products with weights: what flows into them, and the weights."""
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
        most = behind(stage, most)
    return most if most is None or most <= FP16_MAX else None


def of_operation(layer: Layer, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude before the epilogue, where it is known."""
    name, refs = layer.kind.name, dict(layer.refs())
    bound = bound_of(layer)
    if bound is not None:
        return bound
    if name in PRODUCTS and layer.engine is Engine.NE:
        return of_product(layer, known)
    if name == "gain_offset_control":
        x, gain, offset = (refs.get(operand) for operand in ("input", "gain", "offset"))
        return None if x is None else scaled(of_ref(x, known), gain, offset)
    moves = layer.engine in (Engine.DMA, Engine.TE) and name not in GROWING_MOVES
    if not (moves or name in SHRINKING) or layer.choices.get("format") == "q.4":
        return None
    bounds = [of_ref(ref, known) for ref in refs.values()]
    return None if None in bounds else max((bound for bound in bounds if bound is not None), default=None)


def behind(stage: Stage, most: float | None) -> float | None:
    """Return the largest magnitude behind a stage of an epilogue, given that before it."""
    name = stage.kind.name
    bound = bound_of(stage)
    if bound is not None:
        return bound
    if name == "gain_offset_control":
        return scaled(most, stage.operands.get("gain"), stage.operands.get("offset"))
    return most if name in SHRINKING | {"transpose"} else None


def bound_of(one: Layer | Stage) -> float | None:
    """Return the largest magnitude that a function gives whatever goes in; None where there is none."""
    most = one.kind.codomain_for(one.attributes).engine_magnitude
    if most > FP16_MAX:
        return None
    return most if np.float16(most) == most else rounded(most)


def of_product(layer: Layer, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude of a product with constant weights, whose first axis is that of the outputs.

    Products are rounded to the nearest multiple of the accumulator's grid, which at most doubles one, and sums of
    multiples are exact; so twice the sum of magnitudes is a bound whatever the grid is.
    """
    flowing, weight = PRODUCTS[layer.kind.name]
    refs = dict(layer.refs())
    most, weights = of_ref(refs.pop(flowing), known), refs.pop(weight)
    outputs_first = str(layer.attributes.get("weights_layout", "O")).startswith("O")
    shifts = [of_ref(ref, {}) for ref in refs.values()]
    if most is None or not isinstance(weights, Constant) or not outputs_first or None in shifts:
        return None
    dense = np.abs(weights.dense().astype(np.float64))
    total = float(dense.reshape(dense.shape[0], -1).sum(axis=1).max(initial=0.0))
    return rounded(2 * most * total + sum(shift for shift in shifts if shift is not None))


def scaled(most: float | None, gain: Ref | None, offset: Ref | None) -> float | None:
    """Return the largest magnitude of values times a constant gain, plus a constant offset."""
    factor = 1.0 if gain is None else of_ref(gain, {})
    shift = 0.0 if offset is None else of_ref(offset, {})
    return None if most is None or factor is None or shift is None else rounded(most * factor + shift)


def rounded(most: float) -> float:
    """Return a magnitude that no rounding to fp16 of a smaller one passes."""
    return most * (1 + 2**-10) + FP16_SMALLEST


def of_ref(ref: Ref, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude of an operand, where it is known."""
    if isinstance(ref, Value):
        return known.get(ref.name)
    values = ref.dense()
    return float(np.max(np.abs(values.astype(np.float64)))) if values.size else 0.0
