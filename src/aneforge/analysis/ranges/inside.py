"""The largest values inside layers: in the operation, and between it and the slots after it.

Declared ranges bound them. Of a sample the operation's own are found from what the layer read; what flows between slots
no run keeps, so the layer is run again up to each slot, where the ranges of what it read do not rule an overflow out.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.analysis.ranges.inner import INNER, Inner, inner_of_affine
from aneforge.analysis.ranges.interval import of_values
from aneforge.analysis.ranges.layer_ranges import (
    NO_VALUES,
    get_known_ref,
    range_of_layer,
    situation_of,
    situation_of_slot,
)
from aneforge.analysis.ranges.situation import Known
from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import affine_of_layer, affine_of_stage
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.evaluate import evaluate_layer
from aneforge.compiler.ir.layer import Epilogue
from aneforge.engine.execution.layers import Constants, step_of
from aneforge.engine.execution.values import Values
from aneforge.errors import GraphError
from aneforge.ops.numbers import FP16_MAX
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from aneforge.analysis.ranges.interval import Range
    from aneforge.analysis.ranges.situation import Found
    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.types import TensorType
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["inside", "inside_seen", "inside_slots"]


def inside(
    layer: Layer, known: Mapping[str, Range], program: Program, values: Mapping[str, Array] = NO_VALUES
) -> Iterator[Inner]:
    """Yield the largest values inside the operation of a layer; `values` are those of a sample."""
    if layer.kind.name == GAIN_OFFSET:
        yield from inner_of_affine(get_known_ref(layer.operand("input"), known, seen=values), affine_of_layer(layer))
        return
    call = call_of_layer(layer)
    if call is not None and call.op in INNER and is_float(layer.core_types[0].dtype):
        yield from INNER[call.op](situation_of(layer, call, known, program.target, values=values))


def inside_slots(layer: Layer, found: Found, program: Program) -> Iterator[Inner]:
    """Yield the largest values inside the slots that round by themselves, by the ranges of what enters them."""
    entering = dict(zip(places_of(layer, found), found.flowing, strict=True))
    for place, (before, after, stage) in enumerate(slots_of(layer)):
        if place in entering:
            yield into_slot(entering[place])
            yield from inside_slot(Known(before, entering[place]), after, stage, program.target)


def into_slot(entering: Range) -> Inner:
    """Return what enters a slot."""
    return Inner(entering.magnitude if entering.finite else math.inf, "the input of a slot")


def inside_seen(
    layer: Layer, known: Mapping[str, Range], program: Program, values: Mapping[str, Array]
) -> Iterator[Inner]:
    """Yield the largest values inside a layer and between its slots for the values of a sample.

    Of results that overflowed it says how large they should have been.
    """
    yield from inside(layer, known, program, values)
    yield from find_overflowed(layer, known, values)
    if not layer.epilogue or not is_float(layer.core_types[0].dtype):
        return
    found = range_of_layer(layer, known, program.target)
    held = all(one.value <= one.limit for one in inside_slots(layer, found, program))
    if held and all(one.finite for one in found.flowing):
        return
    places = places_of(layer, found)
    for place, (before, after, stage) in enumerate(slots_of(layer)):
        if place not in places:
            continue
        array = entering_slot(layer, place, program, values)
        seen = of_values(array)
        yield into_slot(seen)
        yield from inside_slot(Known(before, seen, array), after, stage, program.target)


def find_overflowed(layer: Layer, known: Mapping[str, Range], seen: Mapping[str, Array]) -> Iterator[Inner]:
    """Yield the magnitude of results without a limit, where they are infinite and nothing that was read is.

    After slots a large value has come through functions that make it larger still, so nothing is said there.
    """
    came, left = ([known[one.name] for one in values] for values in (layer.bottoms, layer.results))
    if layer.epilogue or all(one.finite for one in left) or not all(one.finite for one in came):
        return
    try:
        exact = evaluate_layer(layer, {one.name: seen[one.name].astype(np.float64) for one in layer.bottoms})
    except GraphError:  # its mathematics is not a single operation
        return
    largest = max(float(np.abs(one[np.isfinite(one)]).max(initial=0.0)) for one in exact)
    if largest > FP16_MAX:
        yield Inner(largest, "the exact result")


def inside_slot(entering: Known, after: TensorType, stage: Stage, target: Target) -> Iterator[Inner]:
    """Yield the largest values inside a slot."""
    if stage.kind.name == GAIN_OFFSET:
        yield from inner_of_affine(entering, affine_of_stage(stage, entering.type.rank))
        return
    situation = situation_of_slot(entering, after, stage, target)
    if situation.op in INNER:
        yield from INNER[situation.op](situation)


def places_of(layer: Layer, found: Found) -> range:
    """Return the places of the slots that round by themselves: all, or all but a gain after exact results."""
    count = len(layer.epilogue.stages)
    return range(count - len(found.flowing), count)


def slots_of(layer: Layer) -> Iterator[tuple[TensorType, TensorType, Stage]]:
    """Yield the filled slots with the types of what enters and leaves them."""
    kind = layer.core_types[0]
    for _, stage in layer.epilogue.stages:
        before, kind = kind, stage.type_of(kind)
        yield before, kind, stage


def entering_slot(layer: Layer, place: int, program: Program, values: Mapping[str, Array]) -> Array:
    """Return what enters a slot: the layer without it and those after it is run again."""
    kept = {slot.value: stage for slot, stage in layer.epilogue.stages[:place]}
    step = step_of(replace(layer, epilogue=Epilogue(**kept)), program, Constants())
    results, _ = step.run(Values(dict(values)))
    return results[0]
