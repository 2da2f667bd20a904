"""Numbers the values of programs so that equal numbers mean equal bits.

A value's number stands for everything that makes it: the layer's operation and attributes, the slots behind it, the
numbers of its operands, the contents of its constants, and the arithmetic that the layer has on its target as far as
targets differ. Two values of one number, of one program or of two, hold the same bits for the same inputs. So two
programs whose outputs have the same numbers give the same outputs; what differs in the way they run does not count.
Values that are parts or other shapes of others have the forms of `layouts`. A crop that nothing shows (`cropping`) is
numbered as a copy: what is between it and the functions that hide it may hold other bits, and goes nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import Affine, affine_of_layer, affine_of_stage
from aneforge.compiler.ir.calls import call_of_kind, call_of_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.passes.cuts import is_elementwise, reduced
from aneforge.engine import reductions
from aneforge.engine.execution.layers import EXACT_PAIRS
from aneforge.engine.execution.products import PRODUCT_KINDS
from aneforge.engine.planar import host_fp16
from aneforge.ops.constant import Dense
from aneforge.ops.types import is_float
from aneforge.predict.divergence.arithmetic import FEW_TERMS, Arithmetic, arithmetic_of_layer, terms_of
from aneforge.predict.divergence.cropping import Crops
from aneforge.predict.divergence.layouts import Layouts, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from aneforge.compiler.ir.layer import Argument, Layer, Ref, Stage
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.constant import Constant
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import TensorType
    from aneforge.predict.ranges.interval import Range

    Array = npt.NDArray[Any]
    Key = tuple[object, ...]

SQUARED = "square_after_reduction"

__all__ = ["Numbered", "Numbering", "attributes_key"]


@dataclass(frozen=True, slots=True)
class Numbered:
    """A program whose values have numbers, and the arithmetic of every layer."""

    program: Program
    numbers: Mapping[str, int]
    arithmetics: Mapping[str, Arithmetic]

    def leaving(self) -> dict[str, int]:
        """Return the numbers of what leaves: outputs, and states as they are after the run."""
        outputs = {f"output {port.name}": self.numbers[port.value.name] for port in self.program.outputs}
        states = {
            f"state {state.name}": self.numbers[(state.written or state.read).name] for state in self.program.states
        }
        return {**outputs, **states}


@dataclass(frozen=True, slots=True)
class Part:
    """A product of dense weights that may be a part of a larger one, cut along its output channels."""

    key: Key
    """Operation, attributes, the other operand and arithmetic."""
    other: tuple[str, object]
    """The operand that is no weight: its name and number."""
    weight: Dense
    affine: Affine | None
    slots: tuple[Stage, ...]
    on_engine: tuple[object, ...]
    layer: Layer

    @property
    def channels(self) -> int:
        """The axis of output channels, before the slots."""
        return 1 if self.layer.kind.name == "convolution" else self.layer.core_types[0].rank - 1

    @property
    def axis(self) -> int:
        """The axis of the result along which parts are joined: that of output channels, behind transposes."""
        axis = self.channels
        for stage in self.slots:
            if stage.kind.name == TRANSPOSE:
                perm = permutation(stage)
                axis = [one % len(perm) for one in perm].index(axis)
        return axis


@dataclass(slots=True)
class Numbering:
    """Hands out numbers: one for every key, whichever program asks."""

    known: dict[Key, int] = field(default_factory=dict["Key", int])
    digests: dict[int, str] = field(default_factory=dict[int, str])
    """The digest of a constant's dense values, by the constant's identity."""
    held: list[Constant] = field(default_factory=list["Constant"])
    """The constants whose identities are in use."""

    parts: dict[int, Part] = field(default_factory=dict[int, Part])
    """Products of dense weights by the numbers of their results."""
    keys: dict[int, tuple[Layer, Key]] = field(default_factory=dict[int, "tuple[Layer, Key]"])
    """What layers do to which values, by the layer's identity, for alignments."""
    crops: Crops = field(default_factory=Crops)
    layouts: Layouts = field(init=False)

    def __post_init__(self) -> None:
        self.layouts = Layouts(self.number)

    def number(self, key: Key) -> int:
        """Return the number of a key."""
        return self.known.setdefault(key, len(self.known))

    def digest(self, constant: Constant) -> str:
        """Return the digest of a constant's values, whatever their encoding."""
        if id(constant) not in self.digests:
            dense = constant if isinstance(constant, Dense) else Dense(np.array(constant.dense()))
            self.digests[id(constant)] = dense.digest
            self.held.append(constant)
        return self.digests[id(constant)]

    def joined_digest(self, weights: Sequence[Dense], axis: int) -> str:
        """Return the digest of weights that are joined along an axis."""
        return self.digest(Dense.owning(np.concatenate([weight.dense() for weight in weights], axis=axis)))

    def program(self, program: Program, ranges: Mapping[str, Range]) -> Numbered:
        """Return a program with its values numbered; their ranges decide which routes change nothing."""
        numbers: dict[str, int] = {}
        for port in program.inputs:
            numbers[port.value.name] = self.number(("input", port.name))
        for state in program.states:
            numbers[state.read.name] = self.number(("state", state.name))
        found = {layer.name: arithmetic_of_layer(layer, program, ranges) for layer in program.layers}
        arithmetics = dict(found)
        for layer in program.layers:
            if found[layer.name].route and self.crops.hidden(layer, program, found):
                arithmetics[layer.name] = replace(found[layer.name], route="")
            made = self.layer(layer, arithmetics[layer.name], numbers)
            self.note_part(layer, arithmetics[layer.name], numbers, made[0])
            numbers.update({result.name: number for result, number in zip(layer.results, made, strict=True)})
        return Numbered(program, numbers, arithmetics)

    def layer(self, layer: Layer, arithmetic: Arithmetic, numbers: Mapping[str, int]) -> list[int]:
        """Return the numbers of a layer's results.

        A slot works on fp16 as a layer of its own does, so it has the number of one; all but a gain and offset directly
        behind a product or pair, which works on what was not rounded yet.
        """
        whole = self.joined_parts(layer, numbers)
        if whole is not None:
            return [whole]
        joined, slots = parted_slots(layer)
        if len(layer.results) > 1:
            number = self.operation(layer, joined, arithmetic, numbers)
            return [self.number(("result", number, place)) for place, _ in enumerate(layer.results)]
        flowing = self.arranged(layer, arithmetic, numbers)
        if flowing is None:
            flowing = self.by_elements(layer, joined, arithmetic, numbers)
        if flowing is None:
            flowing = self.by_rows(layer, joined, arithmetic, numbers)
        if flowing is None:
            flowing = self.number(("result", self.operation(layer, joined, arithmetic, numbers), 0))
        kind = layer.core_types[0] if not joined else joined[0].type_of(layer.core_types[0])
        for stage in slots:
            flowing, kind = self.slot(stage, flowing, kind), stage.type_of(kind)
        return [flowing]

    def operation(
        self, layer: Layer, joined: tuple[Stage, ...], arithmetic: Arithmetic, numbers: Mapping[str, int]
    ) -> int:
        """Return the number of what a layer computes before the slots that work on fp16."""
        if layer.kind.name == GAIN_OFFSET:
            return self.affine(affine_of_layer(layer), self.argument(layer.operands["input"], numbers))
        operands = tuple((name, self.argument(argument, numbers)) for name, argument in sorted(layer.operands.items()))
        return self.number((signature(layer, joined), operands, arithmetic.on_engine))

    def arranged(self, layer: Layer, arithmetic: Arithmetic, numbers: Mapping[str, int]) -> int | None:
        """Return the number of what a layer makes that only shapes, cuts or joins; None for any other."""
        if arithmetic.on_engine != PLAIN or len(layer.bottoms) != len(list(layer.refs())):
            return None
        values, shape = [(numbers[one.name], one.shape) for one in layer.bottoms], layer.core_types[0].shape
        match layer.kind.name:
            case "reshape" | "flatten" | "identity":
                return self.layouts.shaped(self.layouts.content(*values[0]), shape)
            case "slice":
                return self.layouts.cut(*values[0], cast("tuple[int, ...]", layer.attributes["begin"]), shape)
            case "concat" if not layer.attributes["interleave"]:
                return self.layouts.joined(values, cast("int", layer.attributes["axis"]) % len(shape), shape)
            case _:
                return None

    def by_elements(
        self, layer: Layer, joined: tuple[Stage, ...], arithmetic: Arithmetic, numbers: Mapping[str, int]
    ) -> int | None:
        """Return the number of a function of single elements, the same for all of them; None for any other layer."""
        shape = layer.core_types[0].shape
        constants = [ref for _, ref in layer.refs() if not isinstance(ref, Value)]
        single = all(one.type.size == 1 for one in (*constants, *stage_constants(joined)))
        if not layer.bottoms or not single or any(one.shape != shape for one in layer.bottoms):
            return None
        if layer.kind.name != GAIN_OFFSET and not is_elementwise(layer.kind):
            return None
        names = list(dict.fromkeys(one.name for one in layer.bottoms))

        def made(inner: tuple[int, ...]) -> int:
            below = dict(zip(names, inner, strict=True))
            return self.number(("result", self.operation(layer, joined, arithmetic, below), 0))

        rank = max((one.type.rank for one in constants), default=0)
        return self.layouts.mapped([numbers[name] for name in names], shape, made, rank)

    def by_rows(
        self, layer: Layer, joined: tuple[Stage, ...], arithmetic: Arithmetic, numbers: Mapping[str, int]
    ) -> int | None:
        """Return the number of a reduction, which adds or compares rows of elements; None for any other layer."""
        x = layer.operands.get("x")
        call = call_of_layer(layer)
        if call is None or call.op not in BY_ROWS or joined or not isinstance(x, Value) or not is_float(x.type.dtype):
            return None
        rows, result = rows_of(x.shape, reduced(layer)), layer.core_types[0].shape

        def reduction(kind: str, op: str) -> int:
            def made(source: int, seen: Key) -> int:
                number = self.number(((kind, op, seen, ()), (("x", source),), arithmetic.on_engine))
                return self.number(("result", number, 0))

            if rows is None:
                return made(numbers[x.name], attributes_key(call.attributes))
            content = self.layouts.content(numbers[x.name], x.shape)
            return self.layouts.shaped(self.layouts.reduced(content, rows, made), result)

        if not is_sum_squared(layer, arithmetic):
            return reduction(layer.kind.name, call.op)
        # So few terms leave one leaf of the adder's tree, which is rounded: the fused form is the sum and its square.
        return self.activated(("sqr", "square", (), ()), "x", reduction("reduce_sum", "reduce_sum"), result)

    def note_part(self, layer: Layer, arithmetic: Arithmetic, numbers: Mapping[str, int], result: int) -> None:
        """Remember a product of dense weights, so that a join of several can be told from one that was cut."""
        place = WEIGHTS.get(layer.kind.name)
        weight = layer.weight(place) if place else None
        joined, slots = parted_slots(layer)
        if not isinstance(weight, Dense) or len(layer.operands) != len(("weight", "other")) or not activations(slots):
            return
        other = next(name for name in layer.operands if name != place)
        affine = affine_of_stage(joined[0], layer.core_types[0].rank) if joined else None
        source = self.argument(layer.operands[other], numbers)
        key = (*signature(layer, ())[:3], source, arithmetic.on_engine, stages_key(slots))
        self.parts[result] = Part(key, (other, source), weight, affine, slots, arithmetic.on_engine, layer)

    def joined_parts(self, layer: Layer, numbers: Mapping[str, int]) -> int | None:
        """Return the number of a product that was cut along its output channels, for the join of its parts.

        Output channels have sums of their own, so the join holds the bits of the whole.
        """
        values = layer.operands.get("values")
        if layer.kind.name != "concat" or layer.epilogue or not isinstance(values, tuple):
            return None
        found = [self.parts.get(numbers[one.name]) if isinstance(one, Value) else None for one in values]
        parts = [part for part in found if part is not None]
        if len(parts) != len(found) or len({part.key for part in parts}) != 1 or layer.attributes["interleave"]:
            return None
        first, affine = parts[0], joined_affine([part.affine for part in parts], parts[0].channels)
        axis = cast("int", layer.attributes["axis"]) % layer.core_types[0].rank
        if axis != first.axis or (affine is None) != (first.affine is None):
            return None
        flipped = first.layer.kind.name == "matmul" and not first.layer.attributes["transpose_rhs"]
        weight = self.joined_digest([part.weight for part in parts], axis=1 if flipped else 0)
        operands = tuple(sorted([first.other, (WEIGHTS[first.layer.kind.name], weight)]))
        joined = () if affine is None else (affine_key(affine),)
        flowing = self.number(("result", self.number(((*first.key[:3], joined), operands, first.on_engine)), 0))
        for stage in first.slots:
            flowing = self.slot(stage, flowing, layer.core_types[0])
        return flowing

    def slot(self, stage: Stage, flowing: int, kind: TensorType) -> int:
        """Return the number of what leaves a slot: that of a layer of its kind."""
        if stage.kind.name == GAIN_OFFSET:
            affine = affine_of_stage(stage, kind.rank)

            def gained(inner: tuple[int, ...]) -> int:
                return self.number(("result", self.affine(affine, *inner), 0))

            single = all(one.type.size == 1 for one in stage.operands.values())
            return self.layouts.mapped([flowing], kind.shape, gained) if single else gained((flowing,))
        call = call_of_kind(stage.kind, stage.attributes, kind.shape)
        assert call is not None, "only gain and offset is no call"  # noqa: S101 - handled above
        held = {name: self.digest(constant) for name, constant in stage.operands.items()}
        key = (stage.kind.name, call.op, attributes_key(call.attributes), ())
        if not held and is_elementwise(stage.kind):
            return self.activated(key, stage.kind.flowing, flowing, kind.shape)
        operands = tuple(sorted({stage.kind.flowing: flowing, **held}.items()))
        return self.number(("result", self.number((key, operands, PLAIN)), 0))

    def activated(self, key: Key, operand: str, flowing: int, shape: tuple[int, ...]) -> int:
        """Return the number of a function of single elements that has one operand alone."""

        def made(inner: tuple[int, ...]) -> int:
            return self.number(("result", self.number((key, ((operand, *inner),), PLAIN)), 0))

        return self.layouts.mapped([flowing], shape, made)

    def affine(self, affine: Affine, flowing: object) -> int:
        """Return the number of a gain and offset on fp16."""
        return self.number((GAIN_OFFSET, affine_key(affine), flowing))

    def argument(self, argument: Argument, numbers: Mapping[str, int]) -> object:
        """Return what stands for an operand in a key."""
        if isinstance(argument, tuple):
            return tuple(self.ref(one, numbers) for one in argument)
        return self.ref(argument, numbers)

    def ref(self, ref: Ref, numbers: Mapping[str, int]) -> object:
        """Return what stands for a value or a constant in a key."""
        return numbers[ref.name] if isinstance(ref, Value) else self.digest(ref)


TRANSPOSE = "transpose"
PLAIN = Arithmetic().on_engine
BY_ROWS = frozenset({*reductions.FOR_TARGET, "reduce_max", "reduce_min"})
"""Reductions of real numbers whose results depend on the elements along their axes in a row, and on nothing else."""


def stage_constants(stages: tuple[Stage, ...]) -> list[Constant]:
    """Return the constants in slots."""
    return [constant for stage in stages for constant in stage.operands.values()]


def is_sum_squared(layer: Layer, arithmetic: Arithmetic) -> bool:
    """Tell whether a layer squares a sum that is fp16 before it is squared, though the square is fused."""
    return layer.kind.name == SQUARED and terms_of(layer) <= max(math.prod(arithmetic.adder[:2]), FEW_TERMS)


def permutation(stage: Stage) -> tuple[int, ...]:
    """Return the order of axes of a transpose."""
    return cast("tuple[int, ...]", stage.attributes["perm"])


WEIGHTS = {"convolution": "weights", "linear": "weight", "matmul": "rhs"}
"""Products by their kinds, and the operand that is the weight."""


def activations(slots: tuple[Stage, ...]) -> bool:
    """Tell whether slots hold functions of single elements alone, the same for all channels, and transposes."""
    return all(
        stage.kind.name == TRANSPOSE or (not stage.operands and Slot.POST_ACTIVATION in stage.kind.fills)
        for stage in slots
    )


def stages_key(slots: tuple[Stage, ...]) -> Key:
    """Return activations in slots as a key."""
    return tuple((stage.kind.name, attributes_key(stage.attributes)) for stage in slots)


def joined_affine(parts: list[Affine | None], axis: int) -> Affine | None:
    """Return the gain and offset of a whole whose parts have these; None where they do not fit together."""
    found = [part for part in parts if part is not None]
    if len(found) != len(parts) or any(part.vector and part.axis != axis for part in found):
        return None
    gains, offsets = [part.gain for part in found], [part.offset for part in found]
    if not (fit(gains) and fit(offsets)):
        return None
    return Affine(one_behind_another(gains), one_behind_another(offsets), found[0].axis)


def fit(parts: list[Array | None]) -> bool:
    """Tell whether numbers of parts are those of a whole: rows, one number that all share, or none at all."""
    arrays = [part for part in parts if part is not None]
    if len(arrays) not in (0, len(parts)) or len({one.ndim for one in arrays}) > 1:
        return False
    return not arrays or arrays[0].ndim == 1 or len({one.tobytes() for one in arrays}) == 1


def one_behind_another(parts: list[Array | None]) -> Array | None:
    """Return the numbers of a whole, those of its parts fitting together."""
    arrays = [part for part in parts if part is not None]
    return None if not arrays else np.concatenate(arrays) if arrays[0].ndim else arrays[0]


def parted_slots(layer: Layer) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
    """Return the slots behind a layer: those that work on what was not rounded yet, and those that work on fp16."""
    stages = tuple(stage for _, stage in layer.epilogue)
    exact = layer.kind.name in PRODUCT_KINDS or layer.kind.name in EXACT_PAIRS
    count = 1 if exact and stages and stages[0].kind.name == GAIN_OFFSET else 0
    return stages[:count], stages[count:]


def signature(layer: Layer, joined: tuple[Stage, ...]) -> Key:
    """Return what a layer does, its operands left out: operation, attributes, and slots that belong to it.

    Gains and offsets are those that the engine uses, in fp16.
    """
    call = call_of_layer(layer)
    assert call is not None, "gain and offset alone is numbered otherwise"  # noqa: S101 - the caller looked
    rank = layer.core_types[0].rank
    slots = tuple(affine_key(affine_of_stage(stage, rank)) for stage in joined)
    return (layer.kind.name, call.op, attributes_key(call.attributes), slots)


def affine_key(affine: Affine) -> Key:
    """Return a gain and an offset as the engine uses them; one number along no axis."""
    return (
        *(None if part is None else (part.shape, host_fp16(part).tobytes()) for part in (affine.gain, affine.offset)),
        affine.axis if affine.vector else None,
    )


def attributes_key(attributes: Mapping[str, AttributeValue]) -> Key:
    """Return attributes in an order of their own; their texts tell 0 and −0 apart."""
    return tuple((name, repr(value)) for name, value in sorted(attributes.items()))
