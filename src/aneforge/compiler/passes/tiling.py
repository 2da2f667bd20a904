"""Cutting layers into parts along an axis: how long the parts are, what each reads, and how they are joined again.

A layer is cut along an axis of what its engine operation gives. Every part reads its part of the operands that go with
that axis, carries the epilogue with its part of the constants there, and the parts are joined along the axis where the
epilogue leaves it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Layer, Value
from aneforge.compiler.passes.epilogues import axis_after_epilogue, epilogue_part
from aneforge.compiler.passes.layer_maker import LayerMaker
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.compiler.ir.layer import Argument
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.windows import Slide
    from aneforge.targets import Target

__all__ = ["Along", "Cut", "Part", "Reach", "cut_layer", "even_parts", "full_parts", "sum_parts"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of an axis."""

    begin: int
    size: int


@dataclass(frozen=True, slots=True)
class Along:
    """The axis of an operand that goes with an axis of the result: `own` of its places go with every `of` there."""

    axis: int
    own: int = 1
    of: int = 1

    def part(self, part: Part) -> Part:
        """Return the operand's part for a part of the result.

        >>> Along(1, own=2, of=3).part(Part(6, 3))
        Part(begin=4, size=2)
        """
        return Part(part.begin // self.of * self.own, part.size // self.of * self.own)

    def most(self, bound: int) -> int:
        """Return how long a part of the result may be if the operand's part is to be at most so long."""
        return bound // self.own * self.of


@dataclass(frozen=True, slots=True)
class Reach:
    """The places of an axis that windows see: those of a part of the windows, without the padding."""

    axis: int
    slide: Slide

    def part(self, part: Part) -> Part:
        """Return what the windows of a part see."""
        begin = max(0, part.begin * self.slide.stride - self.slide.before)
        return Part(begin, max(0, min(self.slide.extent, self.end(part)) - begin))

    def most(self, bound: int) -> int:
        """Return how many windows a part may have if what they see is to be at most so long."""
        return max(0, (bound - self.slide.span) // self.slide.stride + 1)

    def end(self, part: Part) -> int:
        """Return the place after the last that a part's windows reach, padding counted."""
        return (part.begin + part.size - 1) * self.slide.stride - self.slide.before + self.slide.span

    def padding(self, part: Part) -> tuple[int, int]:
        """Return the padding before and after what a part's windows see."""
        before = max(0, self.slide.before - part.begin * self.slide.stride)
        return before, max(0, self.end(part) - self.slide.extent)


@dataclass(frozen=True, slots=True)
class Cut:
    """How a layer is cut along an axis of what its operation gives."""

    axis: int
    operands: Mapping[str, Along | Reach]
    """The operands that are cut with it; every part reads the others whole."""
    granule: int = 1
    """Parts begin and end at multiples of it."""
    attributes: Callable[[Part], Mapping[str, AttributeValue]] | None = None
    """The attributes that differ from part to part."""


def even_parts(extent: int, count: int) -> tuple[Part, ...]:
    """Return so many parts of an axis, as equal as they can be.

    >>> [part.size for part in even_parts(7, 3)]
    [3, 2, 2]
    """
    short, longer = divmod(extent, count)
    sizes = [short + (number < longer) for number in range(count)]
    return tuple(Part(begin, size) for begin, size in zip(accumulate(sizes, initial=0), sizes, strict=False))


def full_parts(extent: int, most: int) -> tuple[Part, ...]:
    """Return parts of an axis of which all but the last have the greatest length.

    >>> [part.size for part in full_parts(7, 3)]
    [3, 3, 1]
    """
    return tuple(Part(begin, min(most, extent - begin)) for begin in range(0, extent, most))


def cut_layer(layer: Layer, cut: Cut, parts: Sequence[Part], word: str, target: Target) -> list[Layer]:
    """Return a layer in parts, called by a word and their number, and what joins them.

    The axis must be one that `axis_after_epilogue` finds again after the epilogue.
    """
    make = LayerMaker(layer, target)
    if len(parts) == 1:  # a window that does not read all of a long operand
        make.keep(replace(one_part(make, cut, parts[0], f"{word}0"), results=layer.results))
        return make.layers
    pieces = [make.keep(one_part(make, cut, part, f"{word}{number}")) for number, part in enumerate(parts)]
    joined_axis = axis_after_epilogue(layer, cut.axis)
    assert joined_axis is not None, "the caller asked for the axis after it"  # noqa: S101 - a programmer's error
    make.join(pieces, joined_axis)
    return make.layers


SUM_OF_PARTS: Mapping[str, AttributeValue] = {"contraction": "parts"}


def sum_parts(layer: Layer, cut: Cut, parts: Sequence[Part], word: str, target: Target) -> list[Layer]:
    """Return a layer in parts of what it sums over, and what adds them; the epilogue goes after the last addition.

    The cut says which operands have the parts; its axis is not an axis of the result. Only the first part has a bias.
    """
    make = LayerMaker(layer, target)
    total: Value | None = None
    for number, part in enumerate(parts):
        step = f"{word}{number}"
        operands = {
            name: operand_part(make, name, argument, cut, part, step)
            for name, argument in layer.operands.items()
            if name != "bias" or number == 0
        }
        attributes = {**layer.attributes, **(cut.attributes(part) if cut.attributes else {})}
        piece = make.add(layer.kind, operands, attributes, step=step, engine=layer.engine, choices=layer.choices)
        if total is None:
            total = piece
            continue
        last = number == len(parts) - 1
        epilogue = layer.epilogue if last else None
        addends = {"x": total, "y": piece}
        # The engine is informed of a sum that was cut: nothing shows how silicon rounds between its parts.
        total = make.add("add", addends, step="" if last else f"{step}.sum", epilogue=epilogue, choices=SUM_OF_PARTS)
    return make.layers


def operand_part(make: LayerMaker, name: str, argument: Argument, cut: Cut, part: Part, step: str) -> Argument:
    """Return the part of an operand that goes with a part of a layer."""
    along = cut.operands.get(name)
    if along is None or isinstance(argument, tuple):
        return argument
    own = along.part(part)
    return make.part(argument, along.axis, own.begin, own.size, step=f"{step}.{name}")


def one_part(make: LayerMaker, cut: Cut, part: Part, step: str) -> Layer:
    """Return the layer of one part, after the layers that take its operands' parts."""
    layer = make.layer
    operands = {name: operand_part(make, name, argument, cut, part, step) for name, argument in layer.operands.items()}
    attributes = {**layer.attributes, **(cut.attributes(part) if cut.attributes else {})}
    made = replace(
        layer,
        operands=operands,
        attributes=attributes,
        epilogue=epilogue_part(layer, cut.axis, part.begin, part.size),
        results=(Value(make.name_step(step), layer.result.type),),
    )
    return replace(made, results=(Value(make.name_step(step), made.computed_types[0]),))
