"""Crops that nothing shows: what is behind them gives the same for what a crop made infinite as for what it was.

The fixed-point crop changes numbers above 4,094 alone, of which fp16 has a few thousand. A function of single elements
behind it is asked for all of them, as they are and as the crop leaves them, on the engine's own arithmetic. Where all
answers are equal, the program gives the bits that it would give with a slice that copies. It holds for whatever goes
in, so crops are judged one after the other, each with all that is behind it as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.passes.cuts import is_elementwise
from aneforge.engine.choices import entry_of
from aneforge.engine.crop import FOR_TARGET as CROPS
from aneforge.engine.crop import through_crop
from aneforge.engine.dispatch import FOR_TARGET
from aneforge.engine.execution.epilogue import stages_of
from aneforge.engine.execution.layers import Constants, step_of
from aneforge.ops.table import op_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.constant import Constant
    from aneforge.predict.divergence.arithmetic import Arithmetic

    Array = npt.NDArray[Any]
    Key = tuple[object, ...]
    Pair = tuple[Array, Array]

__all__ = ["Crops"]

MOST_LAYERS = 32
"""Layers behind a crop that are looked at."""
PATTERNS = 1 << 16
MOVED = {"x", "input", "values"}
"""Operands whose elements a layer that copies moves."""


@cache
def changed_by_crop() -> Pair:
    """Return every fp16 number that the crop changes, NaN included, and what it makes of each.

    >>> before, after = changed_by_crop()
    >>> float(np.nanmin(np.abs(before))), bool(np.isinf(after).all())
    (4096.0, True)
    """
    every = np.arange(PATTERNS, dtype=np.uint16).view(np.float16)
    after = through_crop(every).astype(np.float16)
    changed = every.view(np.uint16) != after.view(np.uint16)
    return every[changed], after[changed]


@dataclass(slots=True)
class Crops:
    """Tells which crops nothing shows; what functions give is found once for all programs."""

    found: dict[Key, Pair] = field(default_factory=dict["Key", "Pair"])
    """What functions one behind another make of the numbers that a crop changes and of what it makes of them."""

    def hidden(self, layer: Layer, program: Program, arithmetics: Mapping[str, Arithmetic]) -> bool:
        """Tell whether a program gives the same bits whether or not a slice passes the crop."""
        if len(layer.results) > 1 or layer.result.type.dtype != "fp16":
            return False
        behind = Behind(self, program, arithmetics)
        return behind.slots(layer, changed_by_crop(), ())

    def made(self, key: Key, pair: Pair | None) -> Pair | None:
        """Remember what functions make of the numbers; None where they are none of single elements."""
        if pair is not None:
            self.found[key] = pair
        return pair


@dataclass(slots=True)
class Behind:
    """What is behind one crop."""

    crops: Crops
    program: Program
    arithmetics: Mapping[str, Arithmetic]
    looked_at: int = 0

    def slots(self, layer: Layer, pair: Pair, path: Key) -> bool:
        """Tell whether the slots behind a layer that copies, or what reads its result, hide which of two it was."""
        key = (*path, *(stage_key(stage) for _, stage in layer.epilogue if stage.kind.name != "transpose"))
        after = self.crops.found.get(key) or self.crops.made(key, after_slots(layer, pair, self.program))
        return after is not None and self.value(layer.result, after, key)

    def value(self, value: Value, pair: Pair, path: Key) -> bool:
        """Tell whether nobody sees which of two a value holds, told all that it can hold."""
        if alike(pair):
            return True
        if value.name in self.program.kept or value.type.dtype != "fp16":
            return False
        return all(self.layer(reader, value, pair, path) for reader in self.program.consumers.get(value.name, ()))

    def layer(self, layer: Layer, value: Value, pair: Pair, path: Key) -> bool:
        """Tell whether nobody sees behind a layer which of two it reads."""
        self.looked_at += 1
        if self.looked_at > MOST_LAYERS or len(layer.results) > 1:
            return False
        if moves(layer):
            cropped = bool(self.arithmetics[layer.name].route)
            passed = (through(pair[0]), through(pair[1])) if cropped else pair
            return self.slots(layer, passed, (*path, "crop") if cropped else path)
        if not is_function(layer, value):
            return False
        key = (*path, layer_key(layer))
        after = self.crops.found.get(key) or self.crops.made(key, computed(layer, pair, self.program))
        return after is not None and self.value(layer.result, after, key)


def alike(pair: Pair) -> bool:
    """Tell whether both hold the same bits."""
    return pair[0].dtype == pair[1].dtype and pair[0].tobytes() == pair[1].tobytes()


def through(values: Array) -> Array:
    """Return fp16 numbers after the crop."""
    return through_crop(values).astype(np.float16)


def moves(layer: Layer) -> bool:
    """Tell whether every element of a layer's result is one of an operand as it is, or as the crop leaves it."""
    call = call_of_layer(layer)
    return call is not None and (call.op in CROPS or entry_of(call.op).copies) and set(layer.operands) <= MOVED


def is_function(layer: Layer, value: Value) -> bool:
    """Tell whether a layer and its slots are one function of the single elements of a value, for all of them the same.

    The value is read alone, or beside single numbers; no target has an arithmetic of its own for it.
    """
    call = call_of_layer(layer)
    known = call is None or (call.op not in FOR_TARGET and op_named(call.op).meaning is not None)
    if not known or not (layer.kind.name == GAIN_OFFSET or is_elementwise(layer.kind)):
        return False
    alone = all(ref.name == value.name if isinstance(ref, Value) else is_single(ref) for _, ref in layer.refs())
    return alone and slots_are_functions(layer)


def slots_are_functions(layer: Layer) -> bool:
    """Tell whether the slots of a layer do the same to every element, and at most move them."""
    functions = (Slot.PRE_ACTIVATION, Slot.GAIN_OFFSET, Slot.POST_ACTIVATION, Slot.TRANSPOSE)
    return all(slot in functions and all(map(is_single, stage.operands.values())) for slot, stage in layer.epilogue)


def is_single(constant: Constant) -> bool:
    """Tell whether a constant is one number."""
    return constant.type.size == 1


def after_slots(layer: Layer, pair: Pair, program: Program) -> Pair | None:
    """Return what the slots of a layer make of elements; None where they are no functions of single ones."""
    if not slots_are_functions(layer):
        return None
    functions = [(slot, stage) for slot, stage in layer.epilogue if slot is not Slot.TRANSPOSE]
    stages = stages_of(functions, layer.core_types[0], program.target)
    return stages(pair[0]), stages(pair[1])


def computed(layer: Layer, pair: Pair, program: Program) -> Pair:
    """Return what a function of single elements makes of some, by the engine's own arithmetic."""
    step = step_of(layer, program, Constants())
    rank = max(layer.core_types[0].rank, 1)

    def result(numbers: Array) -> Array:
        laid = numbers.reshape(*[1] * (rank - 1), -1)
        operands = {name: laid if isinstance(ref, Value) else step.constants[name] for name, ref in layer.refs()}
        return step.compute(dict(operands))[0].reshape(-1)

    return result(pair[0]), result(pair[1])


def layer_key(layer: Layer) -> Key:
    """Return what a function of single elements computes, the value that it reads left out."""
    operands = tuple(
        (name, None if isinstance(ref, Value) else number_key(ref)) for name, ref in sorted(layer.refs(), key=first_of)
    )
    slots = tuple(stage_key(stage) for slot, stage in layer.epilogue if slot is not Slot.TRANSPOSE)
    return (layer.kind.name, repr(sorted(layer.attributes.items())), operands, layer.result.type.dtype, *slots)


def first_of(named: tuple[str, object]) -> str:
    """Return a name, by which operands are sorted."""
    return named[0]


def stage_key(stage: Stage) -> Key:
    """Return what a slot computes."""
    operands = tuple((name, number_key(constant)) for name, constant in sorted(stage.operands.items(), key=first_of))
    return (stage.kind.name, repr(sorted(stage.attributes.items())), operands)


def number_key(constant: Constant) -> Key | None:
    """Return a constant that is one number; nothing for others, beside which no function is looked at."""
    return (constant.type.dtype, constant.dense().tobytes()) if is_single(constant) else None
