"""How large values can get, as far as single layers say: promises of inputs, bounded functions, movements, products.

It serves to leave out warnings that cannot come true, and to tell whether eight-bit weights are safe. The range
analysis of whole programs, which is sharper, stands above this room.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.layer import Value
from aneforge.ops.constant import Constant
from aneforge.ops.movement import Taking
from aneforge.ops.numbers import FP16_MAX, FP16_SMALLEST
from aneforge.ops.op import Trait
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Argument, Layer, Ref, Stage
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.ops.movement import Movement

__all__ = ["magnitudes", "promises_of"]

CAST = "cast"
OUTPUTS_FIRST = ("convolution", "linear")
"""Products whose weights have the output channels on their first axis, if no layout says otherwise."""


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
    if name in OUTPUTS_FIRST and layer.engine is Engine.NE:
        return of_product(layer, known)
    if name == "gain_offset_control":
        x, gain, offset = (refs.get(operand) for operand in ("input", "gain", "offset"))
        return None if x is None else scaled(of_ref(x, known), gain, offset)
    if layer.choices.get("format") == "q.4":
        return None
    if name == CAST:
        return of_cast(layer, known)
    return of_moved(layer, known)


def of_moved(layer: Layer, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude of what is moved, or no larger than what goes in; None for any other layer."""
    call, movement = call_of_layer(layer), layer.kind.entry.movement
    if call is None or (movement is None and Trait.SHRINKING not in layer.kind.entry.traits):
        return None
    operands = cast("Mapping[str, Argument]", call.renamed(layer.operands))
    names = operands.keys() if movement is None else movement.operands
    refs = [ref for name in names for ref in each(operands[name])]
    bounds = [of_ref(ref, known) for ref in refs]
    if None in bounds:
        return None
    added = () if movement is None else movement.added(call.attributes)
    most = max((bound for bound in (*bounds, *(held(abs(one)) for one in added)) if bound is not None), default=0.0)
    return taken(most, movement)


def taken(most: float, movement: Movement | None) -> float:
    """Return the largest magnitude of what is taken from elements that have one: interpolation rounds."""
    return rounded(most) if movement is not None and movement.taking is Taking.BETWEEN else most


def of_cast(layer: Layer, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude behind a cast: between types of whole numbers they wrap around."""
    (ref,) = dict(layer.refs()).values()
    before, after = ref.type.dtype, layer.core_types[0].dtype
    if is_float(before) or is_float(after):
        return of_ref(ref, known)
    return float(max(map(abs, value_range(after))))


def each(argument: Argument) -> tuple[Ref, ...]:
    """Return an operand as the tensors that it holds."""
    return argument if isinstance(argument, tuple) else (argument,)


def behind(stage: Stage, most: float | None) -> float | None:
    """Return the largest magnitude behind a stage of an epilogue, given that before it."""
    name = stage.kind.name
    bound = bound_of(stage)
    if bound is not None:
        return bound
    if name == "gain_offset_control":
        return scaled(most, stage.operands.get("gain"), stage.operands.get("offset"))
    movement = stage.kind.entry.movement
    keeps = (movement is not None and not stage.operands) or Trait.SHRINKING in stage.kind.entry.traits
    return taken(most, movement) if keeps and most is not None else None


def bound_of(one: Layer | Stage) -> float | None:
    """Return the largest magnitude that a function gives whatever goes in; None where there is none."""
    most = one.kind.codomain_for(one.attributes).engine_magnitude
    return held(most) if most <= FP16_MAX else None


def of_product(layer: Layer, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude of a product with constant weights, whose first axis is that of the outputs.

    Products are rounded to the nearest multiple of the accumulator's grid, which at most doubles one, and sums of
    multiples are exact; so twice the sum of magnitudes is a bound whatever the grid is.
    """
    product, refs = layer.kind.product, dict(layer.refs())
    if product is None:
        return None
    most, weights = of_ref(refs.pop(product.data), known), refs.pop(product.weight)
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


def held(most: float) -> float:
    """Return a magnitude that a constant of fp16 does not pass."""
    if most > FP16_MAX:
        return math.inf
    return most if np.float16(most) == most else rounded(most)


def rounded(most: float) -> float:
    """Return a magnitude that no rounding to fp16 of a smaller one passes."""
    return most * (1 + 2**-10) + FP16_SMALLEST


def of_ref(ref: Ref, known: Mapping[str, float]) -> float | None:
    """Return the largest magnitude of an operand, where it is known."""
    if isinstance(ref, Value):
        return known.get(ref.name)
    values = ref.dense()
    return float(np.max(np.abs(values.astype(np.float64)))) if values.size else 0.0
