"""Chooses the route of slices: a plain copy, or the crop mode of the transpose engine and the format of its copy.

A slice that begins inside the height or the width decodes to crop mode on every family; what the crop does to values is
the target's data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.axes import Axis, axis_of
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.ops.op import Trait
from aneforge.ops.types import is_float
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import Target

__all__ = ["ChooseSliceRoute"]

CLEAN_HEIGHT = "decodes to crop mode, measured clean"
FIXED_POINT, PLAIN, UNKNOWN = "q.4", "fp16", "unknown"
FIELDS = {Axis.WIDTH: "width_slice_crop_x16", Axis.HEIGHT: "height_slice_crop_x16"}


def begins_inside(layer: Layer) -> list[Axis]:
    """Return which of width and height a slice begins inside of, the width first."""
    begin = view_begin(layer) if layer.kind.name == "input_view" else layer.integers("begin")
    places = ((axis, axis_of(axis, len(begin))) for axis in FIELDS)
    return [axis for axis, place in places if place is not None and begin[place]]


def view_begin(layer: Layer) -> tuple[int, ...]:
    """Return where a view of an input begins along each axis."""
    rank = layer.operand("x").type.rank
    along = layer.integer("axis") % rank
    return tuple(layer.integer("offset") if axis == along else 0 for axis in range(rank))


def format_of(axes: Iterable[Axis], target: Target) -> str:
    """Return the format in which a crop along axes copies: fixed point where the target's data says so."""
    known = [target.datapath.get(FIELDS[axis]) for axis in axes]
    if True in known:
        return FIXED_POINT
    return UNKNOWN if None in known else PLAIN


def remark(axes: list[Axis], chosen: str, target: Target) -> str:
    """Return what a reader should know of a crop; nothing, where it is a copy."""
    if chosen == FIXED_POINT:
        most = target.limits.get("slice_saturation_magnitude")
        return (
            f"the slice begins inside the {axes[0].name.lower()} and is copied times 16 in fp16: "
            f"magnitudes above {most} become infinite"
        )
    if chosen == UNKNOWN:
        return "not known: the format of its crop here"
    return CLEAN_HEIGHT if axes == [Axis.HEIGHT] else ""


def route(layer: Layer, target: Target) -> tuple[Layer, str] | None:
    """Return a slice with its route and a remark; None for what is none, or says so already."""
    if Trait.SLICING not in layer.kind.entry.traits or "route" in layer.choices:
        return None
    axes = begins_inside(layer)
    if not axes:
        return layer.choosing(route="copy"), ""
    dtype = layer.result.type.dtype
    chosen = format_of(axes, target) if is_float(dtype) else dtype
    engine = Engine.TE if Engine.TE in layer.kind.engines else layer.engine
    text = remark(axes, chosen, target) if is_float(dtype) else ""
    return replace(layer.choosing(route="crop", format=chosen), engine=engine), text


@dataclass(frozen=True)
class ChooseSliceRoute(Pass):
    """Say how slices run, and which joins of slices go wrong.

    On a target whose crop along the width is in fixed point:

    Before:
        %t1 = DMA anec.slice(input = %t0) {begin = [0, 0, 0, 4], size = [1, 4, 8, 4]} : fp16[1, 4, 8, 4]

    After:
        %t1 = TE anec.slice(input = %t0) {begin = [0, 0, 0, 4], size = [1, 4, 8, 4]} : fp16[1, 4, 8, 4]
          chosen: {route = "crop", format = "q.4"}
        note "choose-slice-route" %t1 "the slice begins inside the width and is copied times 16 in fp16: magnitudes …"

    A slice that begins inside the height decodes to crop mode too and was measured clean. Integers keep their own
    format. Two or more fixed-point slices of the width that are joined give wrong elements on such targets: a note and
    the choice `elements` say so.
    """

    name: ClassVar[str] = "choose-slice-route"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Choose for every slice, and look at what joins them."""
        target = program.target
        wrong = target.datapath.get("concat_of_width_slices_wrong")
        notes: list[Note] = []
        cropped: set[str] = set()

        def chosen(layer: Layer) -> list[Layer] | None:
            found = route(layer, target)
            if found is not None:
                made, text = found
                if made.choices.get("format") in (FIXED_POINT, UNKNOWN):
                    cropped.add(layer.name)
                if text:
                    notes.append(Note(self.name, layer.name, text))
                return [made]
            joined = sum(value.name in cropped for value in layer.bottoms) if layer.kind.name == "concat" else 0
            if joined < 2 or wrong is False or "elements" in layer.choices:
                return None
            word = "wrong" if wrong is True else UNKNOWN
            text = "joins {count} cropped slices: its elements are {state} here"
            notes.append(Note.of(self.name, layer.name, text, count=joined, state=word))
            return [layer.choosing(elements=word)]

        return replace_layers(program, chosen, notes)
