"""Numbers by the length of the row that they are in: what norms give that were taken apart into operations.

An interval of numbers times one of reciprocal roots knows nothing of where the roots come from, so a norm of small
numbers looks as if it could overflow. No number is larger than the length of its row, nor than √n times the root of the
mean square. So the sums of squares of a tensor are followed to the root, and what the tensor is there multiplied with
or divided by bounds the result.
"""

from __future__ import annotations

import math
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from aneforge.analysis.ranges.pointwise import reciprocals
from aneforge.analysis.ranges.sums import TABLE_SLACK
from aneforge.compiler.affine import KIND as GAIN_OFFSET
from aneforge.compiler.affine import affine_of_layer, affine_of_stage
from aneforge.compiler.ir.calls import call_of_kind, call_of_layer
from aneforge.compiler.ir.layer import Value
from aneforge.ops.attributed import AttributeReader
from aneforge.ops.numbers import FP16_MAX
from aneforge.ops.shapes import reduced_axes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.analysis.ranges.interval import Range
    from aneforge.analysis.ranges.situation import Situation
    from aneforge.compiler.affine import Affine
    from aneforge.compiler.ir.calls import Call
    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import TensorType

__all__ = ["NO_LENGTHS", "Length", "follow_length", "limit_by_length"]

HELD_FROM = 2.0**-10
"""From here on a number, by its share of the length, keeps more than nine tenths of its square: squares, their sum or
mean, and what is added to it are multiples of 2^-24, each off by half of that at most."""
HELD = 1.1
"""Above this many times its share of the length no such number is: what squares and sums lose, and their slack."""
LARGEST_SQUARED = 255.0
"""From the next number on a square overflows, and goes on as 2^16."""


class Form(Enum):
    """What is known of the length."""

    SQUARES = "squares of the numbers, not yet added"
    SUM = "their sum or mean, or more"
    LENGTH = "the root of it, or more"
    INVERSE = "one over that, or less"


@dataclass(frozen=True, slots=True)
class Length:
    """A tensor that holds the lengths of the rows of another, in some form."""

    source: str
    """The other tensor."""
    form: Form
    share: float = 1.0
    """How much of a number the length is at least: all of it, or 1 / √n where a mean was taken."""


NO_LENGTHS: Mapping[str, Length] = {}


def follow_length(layer: Layer, known: Mapping[str, Length]) -> Length | None:
    """Return what the result of a layer has to do with the length of rows, given that of what it reads."""
    found = begin_length(layer, known)
    kind = layer.core_types[0]
    for _, stage in layer.epilogue.stages:
        found = found and length_after_slot(found, stage, kind)
        kind = stage.type_of(kind)
    return found


def begin_length(layer: Layer, known: Mapping[str, Length]) -> Length | None:
    """Return the same of the operation, before the slots after it."""
    if layer.kind.name == GAIN_OFFSET:
        read = layer.operand("input")
        held = known.get(read.name) if isinstance(read, Value) else None
        return held and shift(held, affine_of_layer(layer))
    call = call_of_layer(layer)
    if call is None or not layer.bottoms:
        return None
    first = layer.bottoms[0]
    if call.op == "square" or (call.op == "mul" and [one.name for one in layer.bottoms] == [first.name] * 2):
        return Length(first.name, Form.SQUARES)
    if call.op == "reduce_l2_norm":
        return Length(first.name, Form.LENGTH) if call.flag("keep_dims") else None
    held = known.get(first.name)
    if held is None or len(layer.bottoms) > 1:
        return None
    return (
        add_squares(held, call, first.type)
        if held.form is Form.SQUARES
        else by_function(held, call.op, call.attributes)
    )


def add_squares(held: Length, call: Call, kind: TensorType) -> Length | None:
    """Return the sum or mean of squares."""
    if call.op not in ("reduce_sum", "reduce_mean") or not call.flag("keep_dims"):
        return None
    axes = reduced_axes(kind.rank, call.optional_integers("axes"))
    count = math.prod(kind.shape[axis] for axis in axes)
    return replace(held, form=Form.SUM, share=1 / math.sqrt(max(count, 1)) if call.op == "reduce_mean" else 1.0)


def length_after_slot(held: Length, stage: Stage, kind: TensorType) -> Length | None:
    """Return what leaves a slot."""
    if stage.kind.name == GAIN_OFFSET:
        return shift(held, affine_of_stage(stage, kind.rank))
    call = call_of_kind(stage.kind, stage.attributes, kind.shape)
    return None if call is None else by_function(held, call.op, call.attributes)


def shift(held: Length, affine: Affine) -> Length | None:
    """Return a sum or length with an epsilon added, which makes it no smaller."""
    larger = affine.gain is None and (affine.offset is None or bool((affine.offset >= 0).all()))
    return held if larger and held.form in (Form.SUM, Form.LENGTH) else None


def by_function(held: Length, op: str, attributes: Mapping[str, AttributeValue]) -> Length | None:
    """Return what a function of single elements makes of a sum or length; an epsilon adds to it."""
    read = AttributeReader(attributes)
    match held.form, op:
        case Form.SUM, "sqrt":
            return replace(held, form=Form.LENGTH)
        case (Form.SUM, "rsqrt") | (Form.LENGTH, "inverse"):
            return replace(held, form=Form.INVERSE) if read.number("epsilon") >= 0 else None
        case ((Form.SUM | Form.LENGTH), "threshold"):
            return held
        case ((Form.SUM | Form.LENGTH), "clip"):
            return held if read.number("beta") > FP16_MAX else None
        case _:
            return None


def limit_by_length(situation: Situation, known: Mapping[str, Length]) -> float:
    """Return what the magnitude of numbers by the length of their row cannot pass; infinite for anything else.

    A number that is large for its row is held by the length; one whose square is lost there, by the range of the
    length only.
    """
    if situation.op not in ("mul", "real_div"):
        return math.inf
    x, y = situation.look_up("x"), situation.look_up("y")
    pairs = [(x, y)] if situation.op == "real_div" else [(x, y), (y, x)]
    wanted = Form.LENGTH if situation.op == "real_div" else Form.INVERSE
    for number, length in pairs:
        held = known.get(length.name) if length.name is not None else None
        if held is not None and held.form is wanted and held.source == number.name:
            most = reciprocals(length.range).magnitude if wanted is Form.LENGTH else length.range.magnitude
            return limit(held, number.range, most)
    return math.inf


def limit(held: Length, numbers: Range, most: float) -> float:
    """Return the limit, given the range of the numbers and the largest reciprocal of a length."""
    large = HELD * max(1.0, numbers.magnitude / LARGEST_SQUARED)
    small = min(HELD_FROM, numbers.magnitude * held.share) * most
    return max(large, small) / held.share * (1 + TABLE_SLACK) ** 3
