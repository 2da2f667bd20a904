"""Functions of single elements, asked for fp16 numbers on the engine's own arithmetic.

A layer that reads one value, alone or with constants, and does the same at every place except for the constants there,
is known by what it makes of numbers: every number meets every constant that it can meet. The slots after a layer are
such functions too, or move elements.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import affine_of_layer, affine_of_stage
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.engine.choices import entry_of
from aneforge.engine.crop import FOR_TARGET as CROPS
from aneforge.engine.dispatch import FOR_TARGET
from aneforge.engine.execution.epilogue import stages_of
from aneforge.engine.execution.layers import EXACT_PAIRS, Constants, step_of
from aneforge.engine.execution.run_products import PRODUCT_KINDS
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType
from aneforge.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.compiler.affine import Affine
    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.compiler.ir.program import Program

    Array = npt.NDArray[Any]
    Key = tuple[object, ...]

__all__ = [
    "after_slots",
    "compute_numbers",
    "find_added",
    "is_function",
    "layer_key",
    "moves",
    "slots_are_functions",
    "slots_key",
    "split_slots",
]

MOST_ANSWERS = 1 << 21
"""Numbers times the constants that they meet: more are not asked for."""
SLOTS = (Slot.PRE_ACTIVATION, Slot.GAIN_OFFSET, Slot.POST_ACTIVATION, Slot.TRANSPOSE)
"""Slots that hold functions of single elements, or move them."""
QUANTISATIONS = ("quant", "dequant")
"""Layers that are such functions where they have one scale for all elements."""


def split_slots(layer: Layer) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
    """Return the slots after a layer: those that work on what was not rounded yet, and those that work on fp16."""
    stages = tuple(stage for _, stage in layer.epilogue)
    exact = layer.kind.name in PRODUCT_KINDS or layer.kind.name in EXACT_PAIRS
    count = 1 if exact and stages and stages[0].kind.name == GAIN_OFFSET else 0
    return stages[:count], stages[count:]


def moves(layer: Layer) -> bool:
    """Return whether every element of a layer's result is one of an operand as it is, or as the crop leaves it."""
    call, movement = call_of_layer(layer), layer.kind.entry.movement
    if call is None or movement is None or not (call.op in CROPS or entry_of(call.op).copies):
        return False
    return set(call.renamed(layer.operands)) <= set(movement.operands)


def find_added(layer: Layer) -> tuple[float, ...]:
    """Return the numbers that a layer which moves elements may put next to them."""
    movement = layer.kind.entry.movement
    return () if movement is None else movement.added(layer.attributes)


def is_function(layer: Layer, value: Value) -> bool:
    """Return whether a layer and its slots are functions of the single elements of a value.

    The value is read alone, or with constants; no target has an arithmetic of its own for it.
    """
    call = call_of_layer(layer)
    known = call is None or (call.op not in FOR_TARGET and find_op(call.op).meaning is not None)
    if not known or len(layer.results) > 1 or not slots_are_functions(layer):
        return False
    refs = [ref for _, ref in layer.refs()]
    if any(isinstance(ref, Value) and ref.name != value.name for ref in refs):
        return False
    if layer.kind.name in QUANTISATIONS:
        return all(isinstance(ref, Value) or ref.type.rank == 0 for ref in refs)
    return layer.kind.name == GAIN_OFFSET or layer.kind.is_elementwise


def slots_are_functions(layer: Layer) -> bool:
    """Return whether the slots of a layer are functions of single elements, or move them; gains may go by channels."""
    return all(slot_is_function(slot, stage) for slot, stage in layer.epilogue)


def slot_is_function(slot: Slot, stage: Stage) -> bool:
    """Return whether a slot holds a function of single elements, or moves them."""
    constants = stage.operands.values()
    if slot is Slot.QUANTISE:
        return all(constant.type.rank == 0 for constant in constants)
    return slot in SLOTS and (stage.kind.name == GAIN_OFFSET or all(constant.type.size == 1 for constant in constants))


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How numbers are arranged so that each meets every constant: a shape, and the axis of the numbers."""

    shape: tuple[int, ...]
    axis: int

    def lay_out(self, numbers: Array) -> Array | None:
        """Return numbers in a tensor; None where there would be too many answers."""
        if numbers.size * math.prod(self.shape) > MOST_ANSWERS:
            return None
        line = numbers.reshape([-1 if axis == self.axis else 1 for axis in range(len(self.shape))])
        whole = [numbers.size if axis == self.axis else extent for axis, extent in enumerate(self.shape)]
        return np.ascontiguousarray(np.broadcast_to(line, whole))


def find_arrangement(layer: Layer, *, core: bool) -> Arrangement | None:
    """Return how numbers are arranged before a layer, or before its slots; None where constants are along all axes."""
    kind = layer.core_types[0]
    shapes = [one for stage in gains(layer) for one in affine_shapes(affine_of_stage(stage, kind.rank), kind.rank)]
    if core and layer.kind.name == GAIN_OFFSET:
        shapes += affine_shapes(affine_of_layer(layer), kind.rank)
    elif core:
        shapes += [ref.type.shape for _, ref in layer.refs() if not isinstance(ref, Value)]
    extents = np.broadcast_shapes((1,) * max(kind.rank, 1), *shapes)
    free = [axis for axis, extent in enumerate(extents) if extent == 1]
    return Arrangement(extents, free[0]) if free else None


def gains(layer: Layer) -> list[Stage]:
    """Return the gains and offsets in slots."""
    return [stage for _, stage in layer.epilogue if stage.kind.name == GAIN_OFFSET]


def affine_shapes(affine: Affine, rank: int) -> list[tuple[int, ...]]:
    """Return the shapes in which a gain and an offset meet a tensor."""
    rows = [row for row in (affine.gain, affine.offset) if row is not None and row.ndim]
    return [tuple(row.size if axis == affine.axis else 1 for axis in range(rank)) for row in rows]


def after_slots(layer: Layer, numbers: Array, program: Program, first: int = 0) -> Array | None:
    """Return what the slots of a layer from `first` on make of numbers that meet all constants; None if not known."""
    if not layer.epilogue.stages[first:]:
        return numbers
    found = find_arrangement(layer, core=False) if slots_are_functions(layer) else None
    laid = None if found is None else found.lay_out(numbers)
    if laid is None:
        return None
    functions = [(slot, stage) for slot, stage in layer.epilogue.stages[first:] if slot is not Slot.TRANSPOSE]
    return stages_of(functions, layer.core_types[0], program.target)(laid).reshape(-1)


def compute_numbers(layer: Layer, numbers: Array, program: Program) -> Array | None:
    """Return what a function of single elements makes of numbers that meet all constants; None if they are too many."""
    found = find_arrangement(layer, core=True)
    laid = None if found is None else found.lay_out(numbers)
    if laid is None:
        return None
    asked = layer.reading(lambda value: replace(value, type=TensorType(laid.shape, value.type.dtype)))
    step = step_of(asked, program, Constants())
    operands = {name: laid if isinstance(ref, Value) else step.constants[name] for name, ref in layer.refs()}
    return step.results(dict(operands))[0].reshape(-1)


# What a function is, as a key.


def layer_key(layer: Layer) -> Key:
    """Return what a function of single elements computes, the value that it reads left out."""
    operands = tuple(
        (name, None if isinstance(ref, Value) else ref.digest) for name, ref in sorted(layer.refs(), key=first_of)
    )
    kind = (layer.kind.name, repr(sorted(layer.attributes.items())), layer.core_types[0].rank)
    return (*kind, operands, layer.result.type.dtype, *slots_key(layer))


def slots_key(layer: Layer) -> Key:
    """Return what the slots of a layer compute; moving elements computes nothing."""
    return tuple(stage_key(stage) for slot, stage in layer.epilogue if slot is not Slot.TRANSPOSE)


def stage_key(stage: Stage) -> Key:
    """Return what a slot computes."""
    operands = tuple((name, constant.digest) for name, constant in sorted(stage.operands.items(), key=first_of))
    return (stage.kind.name, repr(sorted(stage.attributes.items())), operands)


def first_of(named: tuple[str, object]) -> str:
    """Return a name, by which operands are sorted."""
    return named[0]
