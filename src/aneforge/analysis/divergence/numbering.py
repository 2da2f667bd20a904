"""Numbers the values of programs so that equal numbers mean equal bits.

A value's number stands for everything that makes it: the layer's operation and attributes, the slots after it, the
numbers of its operands, the contents of its constants, and the arithmetic that the layer has on its target as far as
targets differ. Two values of one number, of one program or of two, hold the same bits for the same inputs. So two
programs whose outputs have the same numbers give the same outputs; what differs in the way they run does not count.
Values that are parts or other shapes of others, or hold their elements in other places, have the forms of `layouts`.
What elements pass on the way is left out where it changes nothing, and where nothing shows it (`judging`): what is
between such a passage and the functions that hide it may hold other bits, and goes nowhere else.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from aneforge.analysis.divergence.arithmetic import FEW_TERMS, Arithmetic, terms_of
from aneforge.analysis.divergence.functions import split_slots
from aneforge.analysis.divergence.hiding import Hiding
from aneforge.analysis.divergence.joining import Part, part_of, whole_of
from aneforge.analysis.divergence.judging import judge_program
from aneforge.analysis.divergence.keys import affine_key, attributes_key, signature
from aneforge.analysis.divergence.layouts import Layouts, rows_of
from aneforge.analysis.divergence.possible import SQUARED
from aneforge.analysis.held_constants import sample_array
from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import affine_of_layer, affine_of_stage
from aneforge.compiler.ir.calls import call_of_kind, call_of_layer
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.passes.cuts import list_reduced_axes
from aneforge.engine import reductions
from aneforge.ops.constant import Dense
from aneforge.ops.types import is_float
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.analysis.divergence.judging import Judged
    from aneforge.analysis.ranges.interval import Range
    from aneforge.compiler.affine import Affine
    from aneforge.compiler.ir.layer import Argument, Layer, Ref, Stage
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array, TensorType

    Key = tuple[object, ...]

__all__ = ["Numbered", "Numbering"]


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


@dataclass(slots=True)
class Numbering:
    """Gives numbers: one for every key, whichever program asks."""

    reads_weights: ClassVar[bool] = True
    """Weights that choose elements are distinguished from others."""

    known: dict[Key, int] = field(default_factory=dict["Key", int])
    names: dict[int, str] = field(default_factory=dict[int, str])
    """What stands for a constant's dense values, by the constant's identity."""
    alike: dict[Key, list[tuple[str, Constant]]] = field(default_factory=dict["Key", "list[tuple[str, Constant]]"])
    """Constants of different values by what a sample of them shows."""
    held: list[Constant] = field(default_factory=list["Constant"])
    """The constants whose identities are in use."""

    parts: dict[int, Part] = field(default_factory=dict[int, Part])
    """Products of dense weights by the numbers of their results."""
    keys: dict[int, tuple[Layer, Key]] = field(default_factory=dict[int, "tuple[Layer, Key]"])
    """What layers do to which values, by the layer's identity, for alignments."""
    hiding: Hiding = field(default_factory=Hiding)
    layouts: Layouts = field(init=False)

    def __post_init__(self) -> None:
        self.layouts = Layouts(self.number)

    def number(self, key: Key) -> int:
        """Return the number of a key."""
        return self.known.setdefault(key, len(self.known))

    def name_constant(self, constant: Constant) -> str:
        """Return what stands for a constant's values, whatever their encoding: one name for equal bits."""
        if id(constant) not in self.names:
            self.names[id(constant)] = self.name_values(constant)
            self.held.append(constant)
        return self.names[id(constant)]

    def name_values(self, constant: Constant) -> str:
        """Return a name for values; whole constants are compared only where samples of them are equal."""
        values = constant.dense()
        sample = sample_array(values)
        alike = self.alike.setdefault((constant.type, sample), [])
        found = next((name for name, other in alike if has_equal_bits(values, other.dense())), None)
        if found is None:
            found = f"constant {self.number(('constant', constant.type, sample, len(alike)))}"
            alike.append((found, constant))
        return found

    def name_joined(self, weights: Sequence[Dense], axis: int) -> str:
        """Return what stands for weights that are joined along an axis."""
        return self.name_constant(Dense.owning(np.concatenate([weight.dense() for weight in weights], axis=axis)))

    def program(self, program: Program, ranges: Mapping[str, Range]) -> Numbered:
        """Return a program with its values numbered; their ranges decide which routes change nothing."""
        numbers: dict[str, int] = {}
        for port in program.inputs:
            numbers[port.value.name] = self.number(("input", port.name))
        for state in program.states:
            numbers[state.read.name] = self.number(("state", state.name))
        found = judge_program(program, ranges, self.hiding, weights=self.reads_weights)
        for layer in program.layers:
            made = self.layer(layer, found, numbers)
            numbers.update({result.name: number for result, number in zip(layer.results, made, strict=True)})
        return Numbered(program, numbers, found.arithmetics)

    def layer(self, layer: Layer, found: Judged, numbers: Mapping[str, int]) -> list[int]:
        """Return the numbers of a layer's results.

        A slot works on fp16 as a layer of its own does, so it has the number of one; all but a gain and offset directly
        after a product or pair, which works on what was not rounded yet.
        """
        whole = self.joined_parts(layer, numbers)
        if whole is not None:
            return [whole]
        joined, slots = split_slots(layer)
        if len(layer.results) > 1:
            number = self.operation(layer, joined, found.arithmetics[layer.name], numbers)
            return [self.number(("result", number, place)) for place, _ in enumerate(layer.results)]
        flowing = self.core(layer, joined, found, numbers)
        kind = layer.core_types[0] if not joined else joined[0].type_of(layer.core_types[0])
        for stage in slots:
            before, kind = kind, stage.type_of(kind)
            resized = found.textures.get(layer.name) if stage is layer.epilogue.texture else None
            if resized is None:
                flowing = self.slot(stage, flowing, before)
            else:
                flowing = self.layouts.gathered(self.layouts.content(flowing, before.shape), *resized, kind.shape)
        part = part_of(layer, found.arithmetics[layer.name], partial(self.argument, numbers=numbers))
        if part is not None and layer.name not in found.gathers:
            self.parts[flowing] = part
        return [flowing]

    def core(self, layer: Layer, joined: tuple[Stage, ...], found: Judged, numbers: Mapping[str, int]) -> int:
        """Return the number of what a layer gives before the slots that work on fp16, in the first form that it has."""
        arithmetic = found.arithmetics[layer.name]
        if layer.name in found.ones:
            return self.number(("ones", layer.core_types[0].shape))
        if layer.name in found.idle:
            return numbers[layer.bottoms[0].name]
        forms = (
            partial(self.arranged, layer, arithmetic, numbers),
            partial(self.gathered, layer, found, numbers),
            partial(self.by_elements, layer, joined, arithmetic, numbers),
            partial(self.by_rows, layer, joined, arithmetic, numbers),
        )
        for form in forms:
            number = form()
            if number is not None:
                return number
        return self.number(("result", self.operation(layer, joined, arithmetic, numbers), 0))

    def gathered(self, layer: Layer, found: Judged, numbers: Mapping[str, int]) -> int | None:
        """Return the number of what a layer makes that brings elements to other places; None for any other."""
        gather = found.gathers.get(layer.name)
        if gather is None:
            return None
        content = self.layouts.content(numbers[gather.source.name], gather.source.shape)
        return self.layouts.gathered(content, gather.places, gather.passage, layer.core_types[0].shape)

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
                return self.layouts.cut(*values[0], layer.integers("begin"), shape)
            case "concat" if not layer.flag("interleave"):
                return self.layouts.joined(values, layer.integer("axis") % len(shape), shape)
            case "transpose":
                return self.layouts.transposed(*values[0], layer.integers("perm"))
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
        if layer.kind.name != GAIN_OFFSET and not layer.kind.is_elementwise:
            return None
        names = list(dict.fromkeys(one.name for one in layer.bottoms))

        def number_inner(inner: tuple[int, ...]) -> int:
            below = dict(zip(names, inner, strict=True))
            return self.number(("result", self.operation(layer, joined, arithmetic, below), 0))

        rank = max((one.type.rank for one in constants), default=0)
        return self.layouts.mapped([numbers[name] for name in names], shape, number_inner, rank)

    def by_rows(
        self, layer: Layer, joined: tuple[Stage, ...], arithmetic: Arithmetic, numbers: Mapping[str, int]
    ) -> int | None:
        """Return the number of a reduction, which adds or compares rows of elements; None for any other layer."""
        x = layer.operands.get("x")
        call = call_of_layer(layer)
        if call is None or call.op not in BY_ROWS or joined or not isinstance(x, Value) or not is_float(x.type.dtype):
            return None
        rows, result = rows_of(x.shape, list_reduced_axes(layer)), layer.core_types[0].shape

        def reduction(kind: str, op: str) -> int:
            def number_reduction(source: int, seen: Key) -> int:
                number = self.number(((kind, op, seen, ()), (("x", source),), arithmetic.on_engine))
                return self.number(("result", number, 0))

            if rows is None:
                return number_reduction(numbers[x.name], attributes_key(call.attributes))
            content = self.layouts.content(numbers[x.name], x.shape)
            return self.layouts.shaped(self.layouts.reduced(content, rows, number_reduction), result)

        if not is_sum_squared(layer, arithmetic):
            return reduction(layer.kind.name, call.op)
        # So few terms leave one leaf of the adder's tree, which is rounded: the fused form is the sum and its square.
        return self.activated(("sqr", "square", (), ()), "x", reduction("reduce_sum", "reduce_sum"), result)

    def joined_parts(self, layer: Layer, numbers: Mapping[str, int]) -> int | None:
        """Return the number of a product that was cut along its output channels, for the join of its parts."""
        values = layer.operands.get("values")
        if layer.kind.name != "concat" or layer.epilogue or not isinstance(values, tuple):
            return None
        found = [self.parts.get(numbers[one.name]) if isinstance(one, Value) else None for one in values]
        whole = whole_of(found, layer)
        if whole is None:
            return None
        first, kind = whole.first, whole.type
        weight = self.name_joined(whole.weights, axis=whole.weight_axis)
        operands = tuple(sorted([first.other, (first.place, weight)]))
        joined = () if whole.affine is None else (affine_key(whole.affine),)
        flowing = self.number(("result", self.number(((*first.key[:3], joined), operands, first.on_engine)), 0))
        for stage in first.slots:
            flowing, kind = self.slot(stage, flowing, kind), stage.type_of(kind)
        return flowing

    def slot(self, stage: Stage, flowing: int, kind: TensorType) -> int:
        """Return the number of what leaves a slot: that of a layer of its kind."""
        if stage.kind.name == GAIN_OFFSET:
            affine = affine_of_stage(stage, kind.rank)

            def gained(inner: tuple[int, ...]) -> int:
                return self.number(("result", self.affine(affine, *inner), 0))

            single = all(one.type.size == 1 for one in stage.operands.values())
            return self.layouts.mapped([flowing], kind.shape, gained) if single else gained((flowing,))
        if stage.kind.name == "transpose":
            return self.layouts.transposed(flowing, kind.shape, stage.integers("perm"))
        call = call_of_kind(stage.kind, stage.attributes, kind.shape)
        assert call is not None, "only gain and offset is not a call"  # noqa: S101 - handled above
        held = {name: self.name_constant(constant) for name, constant in stage.operands.items()}
        key = (stage.kind.name, call.op, attributes_key(call.attributes), ())
        if not held and stage.kind.is_elementwise:
            return self.activated(key, stage.kind.flowing, flowing, kind.shape)
        operands = tuple(sorted({stage.kind.flowing: flowing, **held}.items()))
        return self.number(("result", self.number((key, operands, PLAIN)), 0))

    def activated(self, key: Key, operand: str, flowing: int, shape: tuple[int, ...]) -> int:
        """Return the number of a function of single elements that has only one operand."""

        def number_function(inner: tuple[int, ...]) -> int:
            return self.number(("result", self.number((key, ((operand, *inner),), PLAIN)), 0))

        return self.layouts.mapped([flowing], shape, number_function)

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
        return numbers[ref.name] if isinstance(ref, Value) else self.name_constant(ref)


PLAIN = Arithmetic().on_engine
BY_ROWS = frozenset({*reductions.FOR_TARGET, "reduce_max", "reduce_min"})
"""Reductions of real numbers whose results depend on the elements along their axes in a row, and on nothing else."""


def has_equal_bits(first: Array, second: Array) -> bool:
    """Return whether arrays of one type hold the same bits, as numbers that are not ordered do, too.

    >>> has_equal_bits(np.array([np.nan]), np.array([np.nan])), has_equal_bits(np.array([0.0]), np.array([-0.0]))
    (True, False)
    """
    one, other = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (first, second))
    return np.array_equal(one, other)


def stage_constants(stages: tuple[Stage, ...]) -> list[Constant]:
    """Return the constants in slots."""
    return [constant for stage in stages for constant in stage.operands.values()]


def is_sum_squared(layer: Layer, arithmetic: Arithmetic) -> bool:
    """Return whether a layer squares a sum that is fp16 before it is squared, though the square is fused."""
    return layer.kind.name == SQUARED and terms_of(layer) <= max(math.prod(arithmetic.adder[:2]), FEW_TERMS)
