"""Which arithmetic a layer has on a target, as far as targets differ in it.

The engine depends on the target in few places: slices that begin inside the width, the form of convolutions, the order
of sums, the way of int8 weights. Everything else of a layer is in the program. So two layers alike in the program give
the same bits for the same operands if their arithmetics are equal here. An operation of which this file knows nothing,
and whose arithmetic asks for the target, is taken to depend on all of the target's datapath.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, cast

from aneforge.compiler.ir.calls import call_of_kind, call_of_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.engine import attention, normalisation, pooling, reductions
from aneforge.engine.choices import choices, entry_of, switch
from aneforge.engine.crop import CROPPED_AXES, along, first_place
from aneforge.engine.crop import FOR_TARGET as CROPS
from aneforge.engine.dispatch import FOR_TARGET
from aneforge.engine.exactness import Exactness
from aneforge.engine.execution.layers import label_wrong_join
from aneforge.engine.execution.run_products import PRODUCT_KINDS, convolution_form, encodes_activations
from aneforge.engine.normalisation import BY_PRODUCTS, adds_products, find_added_epsilon
from aneforge.engine.products import FOR_TARGET as CONVOLUTIONS
from aneforge.ops.arithmetic import greatest_magnitude
from aneforge.ops.constant import Int8Affine
from aneforge.ops.groups.slicing import Region, region_index
from aneforge.ops.op import Trait
from aneforge.ops.table import find_op
from aneforge.ops.types import is_float
from aneforge.records import dataclass
from aneforge.targets import FP16_SLICE_SAT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.analysis.ranges.interval import Range
    from aneforge.compiler.ir.layer import Layer, Ref, Stage
    from aneforge.compiler.ir.program import Program
    from aneforge.engine.choices import ArithmeticEntry
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import TensorType
    from aneforge.targets import Target

    Attributes = Mapping[str, AttributeValue]

STAND_FOR_ROUTES = {"winograd_on_width", "width_slice_crop_x16", "height_slice_crop_x16"}
IN_ORDER = frozenset({*attention.FOR_TARGET, *normalisation.FOR_TARGET, *pooling.FOR_TARGET, *reductions.FOR_TARGET})
"""Operations that add in the order of the target."""

__all__ = ["FEW_TERMS", "Arithmetic", "arithmetic_of_layer", "crops", "terms_of", "unknown_arithmetic"]

SAFE_IN_CROP = FP16_SLICE_SAT
"""Largest magnitude that the crop leaves as it is."""
SQUARE_FIELD = "square_after_reduction"
"""The hardware field at 0x494: a square is fused into the reduction before it."""
SQUARES = ("sqr", "mult")
"""Layers that are squares, or can be."""
FEW_TERMS = 1
"""So few terms have one order, and are not rounded."""
EXPANDED_EXACTLY = ("dense", "palette", "sparse")
"""Encodings whose numbers are fp16 whether they stream or fold: nothing is rounded."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """What a layer's results depend on other than its program: what the engine computes, and what is known of silicon.

    Layers that agree in `on_engine` give the same bits on the engine. Those that also agree in `on_silicon` are not
    known to differ on chips either; where they do not, the engine models both alike.
    """

    route: str = ""
    """`crop` for a slice that passes the fixed-point crop with numbers that it can change."""
    form: str = ""
    """The form of a convolution."""
    adder: tuple[int, ...] = ()
    """How sums are added on the engine: neighbours in a group, leaves of a tree, bits of the window."""
    int8: str = ""
    """Whether activations that meet int8 weights pass the times-16 encoding with numbers that it can change."""
    epsilon: float | None = None
    """What a norm adds to the variance, as the target holds it."""
    other: str = ""
    """Everything of the datapath, for an arithmetic that asks for the target in a way unknown to this file."""
    elements: str = ""
    """Family and datapath, for a join of slices of which it is known that wrong elements come out, not which."""
    order: str = ""
    """The order of sums by its name: what differs on silicon and is modelled alike."""
    weights: str = ""
    """Whether the engine itself expands weights of a rounded encoding."""
    unknown: str = ""
    """Family and datapath, for an operation of which no source says how the engine computes it."""
    square: str = ""
    """Whether a square is fused into the sum before it (0x494), for sums of squares and squares of sums: what may
    differ on silicon, where the program has no layer for it."""
    data: tuple[tuple[str, str], ...] = ()
    """Further values of the datapath on which the arithmetic rests, such as the set of activation tables."""

    @property
    def on_engine(self) -> tuple[object, ...]:
        """What decides about bits on the engine; of elements that are not known, about whether it knows them at all."""
        return (self.route, self.form, self.adder, self.int8, self.epsilon, self.other, self.elements)

    @property
    def on_silicon(self) -> tuple[object, ...]:
        """What is known to decide about bits on chips."""
        return (*self.on_engine, self.order, self.weights, self.unknown, self.square, self.data)


def arithmetic_of_layer(layer: Layer, program: Program, ranges: Mapping[str, Range]) -> Arithmetic:
    """Return the arithmetic of a layer, given the ranges of the values that it reads."""
    target = program.target
    found = engine_arithmetic(layer, target, ranges)
    int8, streams = weights_of(layer, target, ranges)
    elements = "" if label_wrong_join(layer, program) is None else family_text(target)
    unknown = "" if unknown_arithmetic(layer) is None else family_text(target)
    data = data_of(layer, target)
    square = str(target.hal.get(SQUARE_FIELD)) if adds_squares(layer, program) else ""
    return replace(found, int8=int8, weights=streams, elements=elements, unknown=unknown, square=square, data=data)


def adds_squares(layer: Layer, program: Program) -> bool:
    """Return whether a layer adds up squares, or adds what nothing but squares and products read.

    >>> import aneforge as af
    >>> x, family = af.input((4, 300)), af.targets.Family.A13
    >>> programs = [af.build_program(y, family) for y in (x.sum(-1), x.sum(-1).square(), x.square().mean(-1))]
    >>> [[layer.kind.name for layer in program.layers if adds_squares(layer, program)] for program in programs]
    [[], ['reduce_sum'], ['reduce_avg']]
    """
    call = call_of_layer(layer)
    if call is None or call.op not in reductions.FOR_TARGET or terms_of(layer) <= 1:
        return False
    if Trait.SQUARING_SUM in find_op(call.op).traits:
        return True
    made = [program.producers.get(value.name) for value in layer.bottoms]
    readers = program.consumers.get(layer.results[0].name, ())
    squared = bool(readers) and all(one.kind.name in SQUARES for one in readers)
    return squared or any(one is not None and is_square(one) for one in made)


def is_square(layer: Layer) -> bool:
    """Return whether a layer gives squares: the operation, or a product of a value with itself."""
    values = {value.name for value in layer.bottoms}
    return layer.kind.name in SQUARES and len(values) == 1 and not list(layer.constants())


def unknown_arithmetic(layer: Layer) -> ArithmeticEntry | None:
    """Return the arithmetic of a layer if no source says how the engine computes it, else nothing."""
    call = call_of_layer(layer)
    entry = None if call is None else entry_of(call.op)
    return entry if entry is not None and entry.exactness is Exactness.UNKNOWN else None


def datapath_text(target: Target) -> str:
    """Return all of a target's datapath: what an arithmetic may depend on that is not known."""
    return repr(sorted((name, target.datapath.get(name)) for name in target.datapath))


def family_text(target: Target) -> str:
    """Return family and datapath: on targets alike in both, what is not known is taken to be alike."""
    return f"{target.family}: {datapath_text(target)}"


def engine_arithmetic(layer: Layer, target: Target, ranges: Mapping[str, Range]) -> Arithmetic:
    """Return what a layer's bits depend on, on the engine."""
    call = call_of_layer(layer)
    if call is not None and find_op(call.op).meaning is None:
        return Arithmetic(other=family_text(target))
    if call is None or call.op not in FOR_TARGET:
        return Arithmetic()
    if call.op in CROPS:
        (x,) = layer.bottoms[:1] or (None,)
        touched = x is None or ranges[x.name].magnitude > SAFE_IN_CROP
        kind = layer.operand("input" if "input" in layer.operands else "x").type
        return Arithmetic(route="crop" if touched and crops(call.op, call.attributes, kind, target) else "")
    if call.op in CONVOLUTIONS:
        return Arithmetic(form=convolution_form(layer, call, target))
    if call.op in IN_ORDER:
        return arithmetic_of_sums(layer, target)
    return Arithmetic(other=datapath_text(target))


def arithmetic_of_sums(layer: Layer, target: Target) -> Arithmetic:
    """Return what the bits of sums depend on."""
    call = call_of_layer(layer)
    if call is not None and call.op == "softmax":
        _, read = next(iter(layer.refs()))
        if adds_products(target, call.integer("axis"), read.type.rank):
            return Arithmetic(order=BY_PRODUCTS)
    standardises = call is not None and Trait.STANDARDISING in find_op(call.op).traits
    epsilon = find_added_epsilon(target, layer.number("epsilon")) if standardises else None
    if terms_of(layer) <= FEW_TERMS:
        return Arithmetic(epsilon=epsilon)
    order = str(switch(target, "reduction_order"))
    adder = choices().reduction.orders[order]
    numbers = (adder.group, adder.tree, adder.window, adder.chain, adder.times, adder.bits)
    return Arithmetic(adder=numbers, order=order, epsilon=epsilon)


def terms_of(layer: Layer) -> int:
    """Return how many numbers at most a layer adds into one result."""
    sizes = [ref.type.size for _, ref in layer.refs()]
    least = max(min((result.type.size for result in layer.results), default=1), 1)
    if layer.kind.name.startswith(("reduce", "square")):
        return max(sizes, default=0) // least
    return max(sizes, default=0)


def weights_of(layer: Layer, target: Target, ranges: Mapping[str, Range]) -> tuple[str, str]:
    """Return how weights of a rounded encoding enter a product: what activations pass, and what streams.

    The numbers are the same: the engine expands a scale itself as it is folded. Activations that are small enough for
    the times-16 encoding pass it as they are.
    """
    if layer.kind.name not in PRODUCT_KINDS:
        return "", ""
    rounded = any(constant.encoding not in EXPANDED_EXACTLY for _, constant in layer.constants())
    streams = "streams" if rounded and layer.choices.get("weights") == "streams" else ""
    if not encodes_activations(layer, target):
        return "", streams
    activations = [ref for _, ref in layer.refs() if not isinstance(ref, Int8Affine)]
    return "times 16" if any(largest(ref, ranges) > SAFE_IN_CROP for ref in activations) else "", streams


def largest(ref: Ref, ranges: Mapping[str, Range]) -> float:
    """Return the largest magnitude of an operand."""
    return ranges[ref.name].magnitude if isinstance(ref, Value) else greatest_magnitude(ref.dense())


def data_of(layer: Layer, target: Target) -> tuple[tuple[str, str], ...]:
    """Return the values of the datapath on which a layer and its slots rest, except for those that routes stand for."""
    calls = (call_of_layer(layer), *(call_of_kind(stage.kind, stage.attributes, ()) for stage in pointwise(layer)))
    names = {name for call in calls if call is not None for name in entry_of(call.op).switches}
    return tuple((name, str(target.datapath.get(name))) for name in sorted(names - STAND_FOR_ROUTES))


def pointwise(layer: Layer) -> list[Stage]:
    """Return the slots after a layer that hold functions of single elements."""
    return [stage for slot, stage in layer.epilogue if slot in (Slot.PRE_ACTIVATION, Slot.POST_ACTIVATION)]


def crops(op: str, attributes: Attributes, x: TensorType, target: Target) -> bool:
    """Return whether a slice passes the fixed-point crop on a target.

    >>> from aneforge.ops.types import TensorType
    >>> from aneforge.targets import Family, resolve
    >>> cut = {"begin": (0, 2), "size": (1, 2)}
    >>> [crops("slice_by_size", cut, TensorType((1, 4)), resolve(family)) for family in (Family.A14, Family.A16)]
    [True, False]
    """
    if not is_float(x.dtype):
        return False
    names = [
        name
        for begins in begins_of(op, attributes, x)
        for name, begin in zip(CROPPED_AXES, reversed(begins), strict=False)
        if begin
    ]
    return any(switch(target, name) for name in names)


def begins_of(op: str, attributes: Attributes, x: TensorType) -> list[Sequence[int]]:
    """Return where a slice begins along each axis of what it is cut from; every part of a split has its own."""
    complete = find_op(op).complete(attributes)
    match op:
        case "slice_by_size":
            return [cast("tuple[int, ...]", complete["begin"])]
        case "slice_by_index":
            index = region_index(x.shape, cast("Region", complete))
            return [[first_place(one, extent) for one, extent in zip(index, x.shape, strict=True)]]
        case "crop":
            first = [cast("tuple[int, ...]", complete[name])[0] for name in ("crop_height", "crop_width")]
            return [first]
        case "input_view":
            return [along(x.rank, cast("int", complete["axis"]), cast("int", complete["offset"]))]
        case _:
            axis = cast("int", complete["axis"])
            parts = find_op(op).types({"x": x}, complete)
            firsts = accumulate((part.shape[axis] for part in parts[:-1]), initial=0)
            return [along(x.rank, axis, first) for first in firsts]
