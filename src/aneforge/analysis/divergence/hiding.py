"""Passages that nothing shows: what is after them gives the same for what a passage changed as for what it was.

A passage changes some of the fp16 numbers that can come in, at most a third of all. Functions of single elements
after it are asked for all of them, as they are and as the passage leaves them, on the engine's own arithmetic. Where
all answers are equal, the program gives the bits that it would give with a copy. Passages are judged in the order of
the program, each for whatever can come in after those before it were exchanged for copies, and with all that is after
it as it is.

Every passage keeps the order of numbers. So the largest of numbers that all went one way is the same one with a passage
and with a copy, and layers that choose it are passed like any other.
"""

from __future__ import annotations

import hashlib
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.analysis.divergence.functions import (
    after_slots,
    compute_numbers,
    find_added,
    is_function,
    layer_key,
    moves,
    slots_key,
)
from aneforge.analysis.divergence.passages import EVERY, Passage, find_kept, pass_numbers
from aneforge.ops.op import Trait
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.analysis.divergence.arithmetic import Arithmetic
    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program

    Array = npt.NDArray[Any]
    Mask = npt.NDArray[np.bool_]
    Key = tuple[object, ...]

__all__ = ["Downstream", "Hiding"]

MOST_LAYERS = 32
"""Layers after a passage that are looked at."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Numbers that one of two programs holds where the other holds others, without those that are the same."""

    one: Array
    other: Array

    @classmethod
    def of(cls, one: Array, other: Array) -> Pair:
        """Return the numbers that differ in a bit, each pair once."""
        if one.dtype != np.float16:
            apart = one != other
            return cls(one[apart], other[apart])
        left, right = (side.view(np.uint16).astype(np.uint32) for side in (one, other))
        both = np.unique((left << 16 | right)[left != right])
        return cls(*((half & 0xFFFF).astype(np.uint16).view(np.float16) for half in (both >> 16, both)))

    @property
    def alike(self) -> bool:
        """Nothing differs."""
        return not self.one.size


@dataclass(slots=True)
class Hiding:
    """Finds which passages nothing shows; what functions give is found once for all programs."""

    found: dict[Key, Pair | None] = field(default_factory=dict["Key", "Pair | None"])
    """What functions one after another make of the numbers that a passage changes; None where that is not known."""
    passed: dict[Key, Pair] = field(default_factory=dict["Key", "Pair"])
    """What passages make of the numbers that can enter them: the steps of a recurrent network have one."""

    def hidden(self, layer: Layer, passage: Passage, entering: Mask, after: Downstream) -> bool:
        """Return whether a program gives the same bits whether its elements pass a layer so or are copied there."""
        if len(layer.results) > 1 or layer.core_types[0].dtype != "fp16":
            return False
        key = (passage, hashlib.sha256(np.packbits(entering).tobytes()).digest())
        if key not in self.passed:
            changed = EVERY[entering & ~find_kept(passage)]
            self.passed[key] = Pair.of(changed, pass_numbers(passage, changed))
        return after.slots(layer, self.passed[key], Way(key, in_order=True))


@dataclass(frozen=True, slots=True)
class Way:
    """How elements came after a passage."""

    key: Key
    """What was done to them."""
    in_order: bool
    """They only passed what keeps the order of numbers, and none that did not pass the same came among them.

    The largest of them is then the one that was the largest before.
    """

    def then(self, *steps: object, in_order: bool) -> Way:
        """Return the way with further steps."""
        return Way((*self.key, *steps), self.in_order and in_order)


@dataclass(slots=True)
class Downstream:
    """What is after one passage."""

    hiding: Hiding
    program: Program
    arithmetics: Mapping[str, Arithmetic]
    passages: Mapping[str, Passage]
    """What elements pass in the layers that only gather."""
    looked_at: int = 0

    def slots(self, layer: Layer, pair: Pair, way: Way) -> bool:
        """Return whether the slots after a layer that moves elements, or what reads its result, hide a difference."""
        functions = slots_key(layer)
        after = way.then(*functions, in_order=not functions)
        if after.key not in self.hiding.found:
            answers = [after_slots(layer, side, self.program) for side in (pair.one, pair.other)]
            self.hiding.found[after.key] = pair_of(answers)
        return self.value(layer.result, self.hiding.found[after.key], after)

    def value(self, value: Value, pair: Pair | None, way: Way) -> bool:
        """Return whether no result shows which of two a value holds, given all that it can hold."""
        if pair is None or pair.alike:
            return pair is not None
        if value.name in self.program.kept or value.type.dtype != "fp16":
            return False
        return all(self.layer(reader, value, pair, way) for reader in self.program.consumers.get(value.name, ()))

    def layer(self, layer: Layer, value: Value, pair: Pair, way: Way) -> bool:
        """Return whether no result shows after a layer which of two it reads."""
        self.looked_at += 1
        if self.looked_at > MOST_LAYERS or len(layer.results) > 1:
            return False
        passage = self.passage(layer, way)
        if passage is not None:
            moved = Pair.of(pass_numbers(passage, pair.one), pass_numbers(passage, pair.other))
            return self.slots(layer, moved, way.then(passage, in_order=self.brings_nothing(layer)))
        if not is_function(layer, value):
            return False
        after = way.then(layer_key(layer), in_order=False)
        if after.key not in self.hiding.found:
            answers = [compute_numbers(layer, side, self.program) for side in (pair.one, pair.other)]
            self.hiding.found[after.key] = pair_of(answers)
        return self.value(layer.result, self.hiding.found[after.key], after)

    def passage(self, layer: Layer, way: Way) -> Passage | None:
        """Return what elements pass in a layer that moves them or chooses among them; None for any other."""
        if self.arithmetics[layer.name].route:
            return Passage.CROP
        if layer.name in self.passages:
            return self.passages[layer.name]
        if is_extreme_of_one(layer) and way.in_order:
            return Passage.COMPUTED
        return Passage.COPY if moves(layer) else None

    def brings_nothing(self, layer: Layer) -> bool:
        """Return whether a layer that moves elements or chooses among them brings none but those of one value."""
        alone = len(list(layer.refs())) == 1 and (is_extreme_of_one(layer) or (moves(layer) and not find_added(layer)))
        return alone or layer.name in self.passages


def is_extreme_of_one(layer: Layer) -> bool:
    """Return whether a layer gives one of the elements of an operand, of equal ones the first."""
    return Trait.EXTREME in layer.kind.entry.traits and len(layer.operands) == 1


def pair_of(answers: list[Array | None]) -> Pair | None:
    """Return what functions made of both sides; None where that is not known."""
    one, other = answers
    return None if one is None or other is None else Pair.of(one, other)
