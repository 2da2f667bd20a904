"""Ranges of layers: the operation, then the slots after it, as the engine runs them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.analysis.divergence.arithmetic import crops
from aneforge.analysis.ranges.constant_facts import compute_once
from aneforge.analysis.ranges.geometry import GEOMETRY
from aneforge.analysis.ranges.interval import RESULTS, Range, hull, of_type, of_values, round_interval
from aneforge.analysis.ranges.lengths import NO_LENGTHS, limit_by_length
from aneforge.analysis.ranges.pointwise import PAIRS, affine_range, multiply_ranges, single
from aneforge.analysis.ranges.product_ranges import leaving, total_of
from aneforge.analysis.ranges.situation import Found, Known, Situation
from aneforge.analysis.ranges.sums import SUMS
from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import Affine, affine_of_layer, affine_of_stage
from aneforge.compiler.ir.calls import call_of_kind, call_of_layer
from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.engine.crop import FOR_TARGET as CROPS
from aneforge.engine.crop import through_crop
from aneforge.engine.execution.layers import EXACT_PAIRS
from aneforge.engine.execution.run_products import PRODUCT_KINDS, convolution_form, encodes_activations
from aneforge.engine.planar import host_fp16, number, read
from aneforge.ops.declared import Declared
from aneforge.ops.numbers import FP16_MAX
from aneforge.ops.op import Trait
from aneforge.ops.results import Taking
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType, is_float, is_integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.analysis.ranges.lengths import Length
    from aneforge.analysis.ranges.product_ranges import Total
    from aneforge.compiler.ir.calls import Call
    from aneforge.compiler.ir.layer import Argument, Layer, Ref, Stage
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = [
    "Found",
    "exact_pair",
    "get_known_ref",
    "range_of_layer",
    "reads_absent",
    "shares_along",
    "situation_of",
    "situation_of_slot",
]

NO_SHARES: Mapping[str, int] = {}
NO_VALUES: Mapping[str, Array] = {}
NO_RANGES: Mapping[str, Range] = {}


def range_of_layer(
    layer: Layer,
    ranges: Mapping[str, Range],
    target: Target,
    shares: Mapping[str, int] = NO_SHARES,
    lengths: Mapping[str, Length] = NO_LENGTHS,
) -> Found:
    """Return what a layer can give, given the ranges of the values that it reads, and which are shares or lengths.

    Of weights without values nothing is known, nor of what is computed with them.
    """
    if reads_absent(layer):
        return unknown_layer(layer, target)
    if layer.kind.name == GAIN_OFFSET:
        core = get_known_ref(layer.operand("input"), ranges).range
        affine = affine_of_layer(layer)
        return through(layer, affine_range(core, affine.gain, affine.offset), layer.epilogue.stages, target)
    call = call_of_layer(layer)
    assert call is not None, "only gain and offset is not a call"  # noqa: S101 - handled above
    situation = situation_of(layer, call, ranges, target, shares)
    if layer.kind.name in PRODUCT_KINDS:
        return product(layer, call, situation, target)
    most = limit_by_length(situation, lengths)
    found = [within(one, round_interval(-most, most)) for one in ranges_of(situation)]
    stages = layer.epilogue.stages
    if len(found) > 1 or not stages:
        return Found(tuple(found), found[0])
    exact = exact_pair(layer, situation, most) if stages[0][0] is Slot.GAIN_OFFSET else None
    if exact is not None:
        affine = affine_of_stage(stages[0][1], layer.core_types[0].rank)
        rounded = round_once(np.array([exact.low]), np.array([exact.high]), affine)
        return through(layer, rounded, stages[1:], target, core=found[0])
    return through(layer, found[0], stages, target)


def unknown_layer(layer: Layer, target: Target) -> Found:
    """Return what a layer gives of which nothing is known but its slots, which may bound it."""
    if len(layer.results) > 1:
        return Found(tuple(fit(None, result.type) for result in layer.results), RESULTS)
    return through(layer, fit(None, layer.core_types[0]), layer.epilogue.stages, target)


def reads_absent(layer: Layer) -> bool:
    """Return whether a layer or a slot after it reads a weight without values."""
    return any(isinstance(constant, Declared) for _, constant in layer.constants())


def shares_along(layer: Layer) -> int | None:
    """Return the axis along which a layer's results are shares of a whole; None for all but a softmax without slots."""
    call = None if layer.kind.name == GAIN_OFFSET else call_of_layer(layer)
    if call is None or call.op != "softmax" or layer.epilogue:
        return None
    return call.integer("axis") % layer.core_types[0].rank


def situation_of(
    layer: Layer,
    call: Call,
    ranges: Mapping[str, Range],
    target: Target,
    shares: Mapping[str, int] = NO_SHARES,
    values: Mapping[str, Array] = NO_VALUES,
) -> Situation:
    """Return a layer as an operation of the table with what is known of its operands; `values` are those seen."""
    operands = {name: known_of(argument, ranges, shares, values) for name, argument in layer.operands.items()}
    renamed = cast("dict[str, Known | tuple[Known, ...]]", call.renamed(operands))
    return Situation(call.op, call.attributes, renamed, layer.core_types, target)


def known_of(
    argument: Argument, ranges: Mapping[str, Range], shares: Mapping[str, int], seen: Mapping[str, Array]
) -> Known | tuple[Known, ...]:
    """Return what is known of an operand."""
    if isinstance(argument, tuple):
        return tuple(get_known_ref(ref, ranges, shares, seen) for ref in argument)
    return get_known_ref(argument, ranges, shares, seen)


def get_known_ref(
    ref: Ref,
    ranges: Mapping[str, Range],
    shares: Mapping[str, int] = NO_SHARES,
    seen: Mapping[str, Array] = NO_VALUES,
) -> Known:
    """Return what is known of a value or a constant."""
    if isinstance(ref, Value):
        return Known(ref.type, ranges[ref.name], seen.get(ref.name), shares.get(ref.name), ref.name)
    if isinstance(ref, Declared):
        return Known(ref.type, fit(None, ref.type))
    values = ref.dense()
    return Known(ref.type, compute_once(values, "interval", of_values), values)


def product(layer: Layer, call: Call, situation: Situation, target: Target) -> Found:
    """Return the range of a product: an offset without a gain after it starts the sum, a gain there works on the sum.

    Activations beyond the times-16 encoding, where int8 weights need it, make any sum infinite.
    """
    stages, rank = layer.epilogue.stages, layer.core_types[0].rank
    form = convolution_form(layer, call, target) if situation.op == "conv" else "direct"
    affine = Affine(None, None, 0)
    if stages and stages[0][0] is Slot.GAIN_OFFSET:
        affine, stages = affine_of_stage(stages[0][1], rank), stages[1:]
    total = total_of(situation, form, read_constants(affine.offset) if affine.gain is None else None, affine.axis)
    if encodes_activations(layer, target) and not through_the_crop(situation.look_up("x").range).finite:
        # The sum is infinite for the gain after it, not the number that the engine reads.
        low, high = np.array([-np.inf]), np.array([np.inf])
        total = replace(total, low=low, high=high)
        return through(layer, round_once(low, high, affine), stages, target, core=RESULTS, total=total)
    if affine.gain is None:
        return through(layer, leaving(total), stages, target, total=total)
    low, high = total.low, total.high
    if affine.vector and ((affine.axis - total.axis) % rank or low.size == 1):
        low, high = low.min(keepdims=True), high.max(keepdims=True)
    return through(layer, round_once(low, high, affine), stages, target, core=leaving(total), total=total)


def read_constants(values: Array | None) -> Array | None:
    """Return constants as the engine reads them: one that fp16 cannot hold is 2^16."""
    return None if values is None else read(host_fp16(values))


def round_once(low: Array, high: Array, affine: Affine) -> Range:
    """Return the range of gain · x + offset of sums that were not rounded before.

    A gain of 0 leaves the offset of finite sums; times an infinite one it is not a number, which leaves as 0.
    """
    gain = np.ones(()) if affine.gain is None else read(host_fp16(affine.gain))
    offset = np.zeros(()) if affine.offset is None else read(host_fp16(affine.offset))
    with np.errstate(invalid="ignore", over="ignore"):
        ends = np.stack([gain * low + offset, gain * high + offset])
    ends = np.stack([np.where(np.isnan(ends), one, ends) for one in (0.0, offset)])
    return round_interval(float(ends.min()), float(ends.max()))


def within(found: Range, limit: Range) -> Range:
    """Return what two ranges of the same values share; at an infinite end the first is left as it is."""
    low = found.low if not limit.finite else max(found.low, min(limit.low, found.high))
    high = found.high if not limit.finite else min(found.high, max(limit.high, found.low))
    return Range(low, high)


def exact_pair(layer: Layer, situation: Situation, most: float = math.inf) -> Range | None:
    """Return the exact range of an elementwise layer whose result is not rounded before gain and offset.

    `most` is a magnitude that is known not to be passed.
    """
    if layer.kind.name not in EXACT_PAIRS:
        return None
    x, y = situation.range("x"), situation.range("y")
    match layer.kind.name:
        case "add":
            return Range(x.low + y.low, x.high + y.high)
        case "sub":
            return Range(x.low - y.high, x.high - y.low)
        case _:
            return within(multiply_ranges(situation), Range(-most, most))


def through(
    layer: Layer,
    flowing: Range,
    stages: tuple[tuple[Slot, Stage], ...],
    target: Target,
    *,
    core: Range | None = None,
    total: Total | None = None,
) -> Found:
    """Take a range through the slots that are left."""
    first = flowing if core is None else core
    kind, entering = layer.core_types[0], list[Range]()
    for _, stage in layer.epilogue.stages:
        before, kind = kind, stage.type_of(kind)
        if all(stage is not one for _, one in stages):
            continue
        entering.append(flowing)
        flowing = range_after_slot(flowing, before, kind, stage, target)
    return Found((flowing,), first, total, tuple(entering))


def range_after_slot(flowing: Range, before: TensorType, after: TensorType, stage: Stage, target: Target) -> Range:
    """Return the range that leaves a slot."""
    if stage.kind.name == GAIN_OFFSET:
        affine = affine_of_stage(stage, before.rank)
        return RESULTS if affine.unknown else affine_range(flowing, affine.gain, affine.offset)
    return ranges_of(situation_of_slot(Known(before, flowing), after, stage, target))[0]


def situation_of_slot(entering: Known, after: TensorType, stage: Stage, target: Target) -> Situation:
    """Return a slot that is a call as an operation of the table."""
    call = call_of_kind(stage.kind, stage.attributes, entering.type.shape)
    assert call is not None, "only gain and offset is not a call"  # noqa: S101 - the caller looked
    constants = {name: get_known_ref(one, NO_RANGES) for name, one in stage.operands.items()}
    operands = call.renamed({stage.kind.flowing: entering, **constants})
    return Situation(call.op, call.attributes, cast("dict[str, Known]", operands), (after,), target)


# Operations.


def ranges_of(situation: Situation) -> list[Range]:
    """Return the ranges of an operation's results; what nothing is known of can be anything that its type holds."""
    if situation.op == "topk":
        x = situation.range("x")
        return [x if place == 0 else indices(situation) for place, _ in enumerate(situation.results)]
    found = range_of(situation)
    return [fit(found, kind) for kind in situation.results]


def fit(found: Range | None, kind: TensorType) -> Range:
    """Return a range within what an element type holds."""
    if found is None:
        return RESULTS if is_float(kind.dtype) else of_type(kind.dtype)
    return found


MORE: Mapping[str, Callable[[Situation], Range]] = {**SUMS, **GEOMETRY}


def range_of(situation: Situation) -> Range | None:
    """Return the range of an operation that gives one sort of results; None where nothing is known of it."""
    op, entry = situation.op, find_op(situation.op)
    if entry.is_function_of_one:
        return single(situation)
    if Trait.PLACES in entry.traits:
        return indices(situation)
    whole = any(is_integer(one.dtype) for one in situation.results)
    if op in PAIRS and not (whole and op not in ("quantize", "select")):
        return PAIRS[op](situation)
    if op in MORE and not whole:
        return MORE[op](situation)
    return move(situation) or get_stated_range(situation)


def indices(situation: Situation) -> Range:
    """Return the range of places along an axis."""
    shape = situation.shape("x")
    return Range(0.0, float(max(np.prod(shape, dtype=np.int64) - 1, 0)))


def get_stated_range(situation: Situation) -> Range | None:
    """Return the range that the op table states; None where it states none."""
    codomain = find_op(situation.op).codomain_for(situation.attributes)
    if codomain.magnitude == math.inf:
        return None
    return round_interval(number(codomain.low), number(codomain.high))


def move(situation: Situation) -> Range | None:
    """Return the range of an operation that moves elements or reads between them; None for any other."""
    movement = find_op(situation.op).movement
    if movement is None:
        return None
    if situation.op in CROPS:
        return crop(situation)
    real = is_float(situation.results[0].dtype)
    added = [number(one) if real else one for one in movement.added(situation.attributes)]
    found = hull([*situation.ranges(movement.operands), *(Range(one, one) for one in added)])
    return round_interval(found.low, found.high) if real and movement.taking is not Taking.PLACED else found


def crop(situation: Situation) -> Range:
    """Return the range of a slice: that of what it is cut from, or what the fixed-point crop makes of it."""
    x = situation.range("x")
    if not crops(situation.op, situation.attributes, situation.look_up("x").type, situation.target):
        return x
    return through_the_crop(x)


def through_the_crop(x: Range) -> Range:
    """Return what the times-16 encoding makes of a range: what is above 4,094 is infinite."""
    ends = np.array([x.low, x.high])
    numbers = np.where(np.abs(ends) > FP16_MAX, np.copysign(np.inf, ends), ends)
    found = read(host_fp16(through_crop(numbers)))
    return Range(float(found[0]), float(found[1]))
