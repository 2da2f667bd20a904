"""One layer, ready to run: constants, its operation before the epilogue, the slots, and how sure the results are."""

from __future__ import annotations

from dataclasses import field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.compiler.affine import affine_of_layer, affine_of_stage
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.engine import kernels
from aneforge.engine.choices import switch
from aneforge.engine.crop import label_of_joined
from aneforge.engine.dispatch import TAKEN_AS_GIVEN, UNARY, arithmetic, round_operands
from aneforge.engine.doubts import CHOICES_AMONG_ZEROS, doubtful_numbers
from aneforge.engine.exactness import Exactness, Label, worst
from aneforge.engine.execution.epilogue import (
    ONE_ROUNDING,
    Exact,
    Moved,
    Pointwise,
    Stages,
    build_gain,
    label_of_gain,
    stages_of,
)
from aneforge.engine.execution.labels import Labels, Reach, static_label
from aneforge.engine.execution.run_products import is_product, product_of
from aneforge.engine.execution.values import magnitude_of, wide
from aneforge.ops.constant import Blockwise, Folded, Int8Affine, Palette, shared_dense
from aneforge.ops.op import Trait
from aneforge.ops.table import find_op
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    import numpy.typing as npt

    from aneforge.compiler.ir.calls import Call
    from aneforge.compiler.ir.layer import Argument, Layer, Ref, Stage
    from aneforge.compiler.ir.program import Program
    from aneforge.engine.dispatch import Arithmetic
    from aneforge.engine.execution.run_products import Product
    from aneforge.engine.execution.values import Values
    from aneforge.engine.kernels.codes import Coded
    from aneforge.engine.kernels.prepared import Run
    from aneforge.ops.constant import Constant
    from aneforge.ops.types import TensorType
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Weights = Array | Coded
    Operand = Weights | tuple[Array, ...]
    Compute = Callable[[dict[str, Operand], "Notes"], tuple[Array, ...]]
    """Computes the results of a layer; what is to be said of the values on the way is noted."""

__all__ = ["Constants", "Step", "known_label", "step_of"]

EXACT_PAIRS: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mult": np.multiply,
}
"""Elementwise layers whose exact result float64 holds: fp16 numbers span 40 bits, their products 22."""

LOST_MULTIPLIER = (
    "a product with a number directly after floor, ceil or round: it is computed here, and was seen to be dropped on "
    "a chip (ANE-QUIRK-001)"
)
SUM_OF_PARTS = "a product too long for the target was cut; its parts are assumed to be rounded before they are added"


class Constants:
    """The constants of a program in the types in which the engine gets them, each decoded once.

    Weights in an encoding stay in `codes` where the kernels decode them part by part, unless an array is asked for.
    """

    def __init__(self, *, codes: bool = False) -> None:
        self.found: dict[tuple[int, bool], Array] = {}
        self.coded: dict[int, Coded | None] = {}
        self.codes = codes

    def in_codes(self, constant: Constant) -> Coded | None:
        """Return weights in codes; None where they are to be an array."""
        if not self.codes or not isinstance(constant, Folded | Int8Affine | Blockwise | Palette):
            return None
        if id(constant) not in self.coded:
            self.coded[id(constant)] = kernels.codes.Coded.of(constant)
        return self.coded[id(constant)]

    def array(self, constant: Constant, *, given: bool) -> Array:
        """Return a constant: real numbers in fp16, unless it is taken as it is given."""
        key = (id(constant), given)
        if key not in self.found:
            self.found[key] = decoded(constant, given)
        return self.found[key]


def decoded(constant: Constant, given: bool) -> Array:  # noqa: FBT001 - as `Constants.array` has it
    """Return a constant in the type in which the engine gets it."""
    dense = shared_dense(constant)
    return dense if given else cast("Array", round_operands({"x": dense})["x"])


@dataclass(slots=True)
class Notes:
    """What a computation says of the values that it met."""

    doubts: list[Label] = field(default_factory=list[Label])
    """What they make less sure."""
    largest: float | None = None
    """The largest magnitude of the first result, where it was found on the way."""


@dataclass(frozen=True, slots=True)
class Step:
    """A layer ready to run."""

    layer: Layer
    constants: Mapping[str, Array]
    """Operands that are constants."""
    compute: Compute
    labels: Labels
    read: tuple[str | float, ...]
    """Every operand whose values labels look at: the name of a value, or the largest magnitude of a constant."""
    warning: str | None
    """What is known to come out wrong."""
    given: bool
    """Values are taken in their own types."""
    copies: bool = False
    """It moves numbers and computes none."""
    coded: Mapping[str, Coded] = field(default_factory=dict[str, "Coded"])
    """Operands of a product that are constants in codes."""

    def run(self, values: Values) -> tuple[tuple[Array, ...], tuple[Label, ...]]:
        """Return the results, and what the values make less sure (`labels.with_doubts` is how sure they are)."""
        operands = {name: self.operand(name, argument, values) for name, argument in self.layer.operands.items()}
        notes = Notes()
        results = self.compute(operands, notes)
        self.keep_magnitude(values, notes, results[0])
        return results, (*self.doubts(values, operands), *notes.doubts)

    def keep_magnitude(self, values: Values, notes: Notes, result: Array) -> None:
        """Keep the largest magnitude of the result, where it was found, or is that of what was moved."""
        largest = notes.largest
        if self.copies and len(self.layer.bottoms) == 1:
            source = values.arrays[self.layer.bottoms[0].name]
            if source.size == result.size and np.may_share_memory(source, result):  # another view of the same numbers
                largest = values.magnitudes.get(self.layer.bottoms[0].name)
        if largest is not None:
            values.magnitudes[self.layer.results[0].name] = largest

    def results(self, operands: dict[str, Operand]) -> tuple[Array, ...]:
        """Return only the results, whatever the values make less sure."""
        return self.compute(operands, Notes())

    def operand(self, name: str, argument: Argument, values: Values) -> Operand:
        """Return an operand as the engine gets it."""
        if isinstance(argument, tuple):
            return tuple(
                self.array(one, values) if isinstance(one, Value) else self.constants[f"{name}.{number}"]
                for number, one in enumerate(argument)
            )
        if isinstance(argument, Value):
            return self.array(argument, values)
        return self.coded[name] if name in self.coded else self.constants[name]

    def array(self, value: Value, values: Values) -> Array:
        """Return a value: real numbers of other types than fp16 are passed by the host."""
        array = values.arrays[value.name]
        if self.given or array.dtype == np.float16 or not is_float(value.type.dtype):
            return array
        return cast("Array", round_operands({"x": array})["x"])

    def doubts(self, values: Values, operands: Mapping[str, Operand]) -> Iterable[Label]:
        """Return what the operands make less sure."""
        labels = self.labels
        if not labels.look:
            return ()
        magnitudes = [values.magnitude(one) if isinstance(one, str) else one for one in self.read]
        return labels.doubts(magnitudes, list(operands.values()))


def step_of(layer: Layer, program: Program, constants: Constants) -> Step:
    """Return a layer ready to run."""
    call = call_of_layer(layer)
    given = call is not None and call.op in TAKEN_AS_GIVEN
    if call is not None and is_product(layer):
        return product_step(layer, call, program.target, constants)
    held = held_constants(layer, constants, given=given)
    if call is None:
        return gain_offset_step(layer, program, held)
    return plain_step(layer, call, program, held)


def held_constants(
    layer: Layer, constants: Constants, *, given: bool, without: Collection[str] = ()
) -> dict[str, Array]:
    """Return the operands that are constants, those of a list by their places."""
    return {
        place: constants.array(ref, given=given)
        for place, ref in named_operands(layer)
        if not isinstance(ref, Value) and place not in without
    }


def named_operands(layer: Layer) -> Iterator[tuple[str, Ref]]:
    """Return every operand with its name; those of a list are numbered."""
    for name, argument in layer.operands.items():
        if isinstance(argument, tuple):
            yield from ((f"{name}.{number}", one) for number, one in enumerate(argument))
        else:
            yield name, argument


def gain_offset_step(layer: Layer, program: Program, held: Mapping[str, Array]) -> Step:
    """Return a gain and offset, which no operation of the table is."""
    affine, target = affine_of_layer(layer), program.target
    slot_stages = stages_of(layer.epilogue.stages, layer.core_types[0], target)
    stages = slot_stages.after(build_gain(affine, layer.core_types[0].rank), label_of_gain(affine, target))

    def compute(operands: dict[str, Operand], notes: Notes) -> tuple[Array, ...]:
        return (stages.run(cast("Array", operands["input"]), notes.doubts),)

    return Step(layer, held, compute, Labels(label_of_affine(layer, program, slot_stages)), (), None, given=False)


def label_of_affine(layer: Layer, program: Program, slot_stages: Stages) -> Label:
    """Return how sure a gain and offset and what is after it are."""
    affine = affine_of_layer(layer)
    lost = affine.gain is not None and loses_multiplier(layer, program)
    found = [label_of_gain(affine, program.target), *slot_stages.labels]
    return worst([*found, *([Label(Exactness.UNKNOWN, LOST_MULTIPLIER)] if lost else [])])


def product_step(layer: Layer, call: Call, target: Target, constants: Constants) -> Step:
    """Return a product and what is after it."""
    product = product_of(layer, call, target)
    first, second = list(layer.operands)
    weights = cast("Ref", layer.operands[second])
    codes = None if isinstance(weights, Value) or not product.takes_codes else constants.in_codes(weights)
    coded = {} if codes is None else {second: codes}
    held = held_constants(layer, constants, given=False, without=coded)
    known_operands = {**held, **coded}
    stages = stages_of(product.stages, layer.core_types[0], target)
    multiply, fused = product.multiplication(), Fused.of(product.ready, stages)

    def compute(operands: dict[str, Operand], notes: Notes) -> tuple[Array, ...]:
        left, right = cast("Array", operands[first]), cast("Weights", operands[second])
        found = None if fused is None else fused.run(left, right, notes)
        return (stages.run(multiply(left, right), notes.doubts) if found is None else found,)

    reach = Reach.of(call, weights.type.shape, known_operands.get(second), product.start, winograd=product.winograd)
    known = label_of_product(layer, call, product, stages, target)
    labels = Labels(known, special=True, reach=reach)
    return Step(layer, held, compute, labels, read_by(layer, known_operands), None, given=False, coded=coded)


@dataclass(frozen=True, slots=True)
class Fused:
    """A product or pairs with the slots that are done as results are stored, and those that are left."""

    operation: Run
    pointwise: Pointwise | None
    moved: bool
    rest: Stages

    @classmethod
    def of(cls, ready: Callable[[tuple[int, ...] | None], Run | None], stages: Stages) -> Fused | None:
        """Return what is ready in an order of axes with its slots; None where the kernels have it only step by step."""
        functions = stages.functions
        pointwise = functions[0] if functions and isinstance(functions[0], Pointwise) else None
        later = functions if pointwise is None else functions[1:]
        moved = later[0] if later and isinstance(later[0], Moved) else None
        operation = ready(None if moved is None else moved.order)
        if operation is None and moved is not None:
            moved, operation = None, ready(None)
        if operation is None:
            return None
        rest = Stages(later if moved is None else later[1:], stages.labels)
        return cls(operation, pointwise, moved is not None, rest)

    def run(self, left: Array, right: Weights, notes: Notes) -> Array | None:
        """Return the results; None where the slots have to be done one by one, because no table pays or values ask."""
        if not kernels.library.available():
            return None
        if self.pointwise is not None and not self.pointwise.paid:
            return None
        through = kernels.prepared.PLAIN if self.pointwise is None else self.pointwise.through
        found, seen = self.operation(left, right, through)
        raised: list[tuple[Label, ...] | None] = []
        if self.pointwise is not None:
            raised.append(self.pointwise.doubtful.labels_of_seen(seen.before, seen.zeros))
        if self.moved:
            raised.append(doubtful_numbers("", ()).labels_of_seen(seen.after, ()))
        if None in raised:
            return None
        notes.doubts += [label for labels in raised if labels for label in labels]
        notes.largest = None if self.rest.functions else seen.after
        return self.rest.run(found, notes.doubts)


def label_of_product(layer: Layer, call: Call, product: Product, stages: Stages, target: Target) -> Label:
    """Return how sure a product and what is after it are; the values of its weights decide nothing of that."""
    first = static_label(arithmetic(call.op, target), typed_operands(layer, call), call)
    return worst([first, *product.labels, *stages.labels])


def known_label(layer: Layer, program: Program) -> Label:
    """Return how sure a layer is before any value goes in, as its step knows it.

    What it multiplies by, nearly all bytes of a model, is not looked at.
    """
    call, target = call_of_layer(layer), program.target
    if call is None:
        slot_stages = stages_of(layer.epilogue.stages, layer.core_types[0], target)
        return label_of_affine(layer, program, slot_stages)
    if is_product(layer):
        product = product_of(layer, call, target)
        stages = stages_of(product.stages, layer.core_types[0], target)
        return label_of_product(layer, call, product, stages, target)
    return label_of_plain(layer, call, program, stages_of(plain_stages(layer), layer.core_types[0], target))


def rounds_once(layer: Layer) -> bool:
    """Return whether an operation on pairs of numbers is rounded once, with the gain and offset directly after it."""
    stages = layer.epilogue.stages
    return layer.kind.name in EXACT_PAIRS and bool(stages) and stages[0][0] is Slot.GAIN_OFFSET


def plain_stages(layer: Layer) -> tuple[tuple[Slot, Stage], ...]:
    """Return the slots after an operation that is not a product, less the one that is rounded with it."""
    return layer.epilogue.stages[1:] if rounds_once(layer) else layer.epilogue.stages


def label_of_plain(layer: Layer, call: Call, program: Program, slot_stages: Stages) -> Label:
    """Return how sure an operation that is not a product and what is after it are."""
    labels = [static_label(arithmetic(call.op, program.target), typed_operands(layer, call), call)]
    if layer.choices.get("contraction") == "parts":
        labels.append(Label(Exactness.MODELLED, SUM_OF_PARTS))
    if rounds_once(layer):
        labels.append(Label(Exactness.MODELLED, ONE_ROUNDING))
    warning = label_wrong_join(layer, program)
    if warning is not None:
        labels.append(warning)
    return worst([*labels, *slot_stages.labels])


def plain_step(layer: Layer, call: Call, program: Program, held: Mapping[str, Array]) -> Step:
    """Return any other operation of the table and what is after it."""
    target = program.target
    found = arithmetic(call.op, target)
    attributes = found.op.complete(call.attributes)
    rank, exact = layer.core_types[0].rank, None
    if rounds_once(layer):
        exact = Exact.of(affine_of_stage(layer.epilogue.stages[0][1], rank), rank)
    slot_stages = stages_of(plain_stages(layer), layer.core_types[0], target)
    pairs = None if exact is not None else fused_pairs(layer, call, slot_stages)

    def compute(operands: dict[str, Operand], notes: Notes) -> tuple[Array, ...]:
        renamed = cast("dict[str, Any]", call.renamed(operands))
        if pairs is not None:
            result = pairs.run(renamed["x"], renamed["y"], notes)
            if result is not None:
                return (result,)
        if exact is not None:
            numbers = (wide(renamed[name], magnitude_of(renamed[name])) for name in ("x", "y"))
            return (slot_stages.run(exact(EXACT_PAIRS[layer.kind.name](*numbers)), notes.doubts),)
        results = found.results(renamed, attributes)
        return (slot_stages.run(results[0], notes.doubts), *results[1:]) if slot_stages.functions else results

    labels = labels_by_values(
        label_of_plain(layer, call, program, slot_stages), found, call, typed_operands(layer, call)
    )
    warning = label_wrong_join(layer, program)
    text = None if warning is None else f"{layer.name}: {warning.reason}"
    copies = found.entry.copies and not slot_stages.functions
    return Step(layer, held, compute, labels, read_by(layer, held), text, call.op in TAKEN_AS_GIVEN, copies)


def fused_pairs(layer: Layer, call: Call, slot_stages: Stages) -> Fused | None:
    """Return an operation on pairs of real numbers with its slots, None for others."""
    if not all(is_float(ref.type.dtype) for _, ref in named_operands(layer)):
        return None
    run = kernels.prepared.ready_pairs(call.op, layer.core_types[0].shape)
    return Fused.of(lambda order: run if order is None else None, slot_stages)


def labels_by_values(known: Label, found: Arithmetic, call: Call, typed: dict[str, Any]) -> Labels:
    """Return the label of an operation with what the values that go in can add."""
    if found.entry.copies or not found.takes(typed):
        return Labels(known)
    attributes = found.op.complete(call.attributes)
    if call.op in UNARY:
        return Labels(known, doubtful=found.doubtful(attributes))
    among = CHOICES_AMONG_ZEROS.get(call.op)
    return Labels(known, special=True, among_zeros=None if among is None else partial(among, **attributes))


def read_by(layer: Layer, held: Mapping[str, Weights]) -> tuple[str | float, ...]:
    """Return what a layer reads: names of values, and the largest magnitudes of its constants."""
    return tuple(
        ref.name if isinstance(ref, Value) else magnitude_of(held[place]) for place, ref in named_operands(layer)
    )


def typed_operands(layer: Layer, call: Call) -> dict[str, Any]:
    """Return operands of the right types and shapes without values, under the names of the operation."""
    operands = {
        name: tuple(stand_in(ref.type) for ref in argument) if isinstance(argument, tuple) else stand_in(argument.type)
        for name, argument in layer.operands.items()
    }
    return call.renamed(cast("dict[str, object]", operands))


@lru_cache(maxsize=4096)
def stand_in(kind: TensorType) -> Array:
    """Return an array of a type and shape that has no memory of its own; nobody can write to it."""
    dtype = np.dtype(np.float16) if is_float(kind.dtype) else numpy_dtype(kind.dtype)
    return np.broadcast_to(np.zeros((), dtype), kind.shape)


def loses_multiplier(layer: Layer, program: Program) -> bool:
    """Return whether a product with a number follows a rounding directly, where the target drops the number."""
    if switch(program.target, "rounding_keeps_multiplier"):
        return False
    producers = [program.producers.get(value.name) for value in layer.bottoms]
    calls = [call_of_layer(one) for one in producers if one is not None and not one.epilogue.stages]
    return any(call is not None and Trait.ROUNDING in find_op(call.op).traits for call in calls)


def label_wrong_join(layer: Layer, program: Program) -> Label | None:
    """Return the label of a concat that joins several slices which begin inside the width, where that goes wrong."""
    if layer.kind.name != "concat" or not is_float(layer.result.type.dtype):
        return None
    producers = [program.producers.get(value.name) for value in layer.bottoms]
    return label_of_joined([one is not None and begins_inside_width(one) for one in producers], program.target)


def begins_inside_width(layer: Layer) -> bool:
    """Return whether a layer is a slice that begins inside the last axis."""
    match layer.kind.name:
        case "slice" | "strided_slice":
            return bool(layer.integers("begin")[-1:] > (0,))
        case "input_view":
            rank = layer.result.rank
            along = layer.integer("axis") % rank == rank - 1
            return along and layer.integer("offset") > 0
        case _:
            return False
