"""Cuts layers into parts where an axis is longer than the target computes on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.program import Note
from aneforge.compiler.moving import CHANNELS, SPATIAL, only_moves
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.cuts import cut_along, is_reduction, list_reduced_axes
from aneforge.compiler.passes.epilogues import UNDONE, axis_after_epilogue, fusion_undone, unfuse
from aneforge.compiler.passes.layer_maker import LayerMaker
from aneforge.compiler.passes.refusals import operation_name, refuse_layer
from aneforge.compiler.passes.tiling import Part, cut_layer, even_parts
from aneforge.display import number_of
from aneforge.records import dataclass
from aneforge.rules.catalogue import explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.passes.tiling import Cut
    from aneforge.errors import NotSupportedError
    from aneforge.targets import Target

__all__ = ["CHANNEL_AXIS", "Extents", "SplitExtents"]

WHOLE = "it works along its axis of {extent} as a whole"
IMAGE_RANK = 4
CHANNEL_AXIS = 1


@dataclass(frozen=True, slots=True)
class Extents:
    """How long an axis may be, by the rules for it."""

    spatial: int | None
    channels: int | None
    axes: int | None
    """How many axes a tensor may have."""
    target: Target

    @classmethod
    def of(cls, target: Target) -> Extents:
        """Return the bounds of a target; None for one that no source gives."""
        return cls(
            target.limits.known_integer(explain(SPATIAL).bound),
            target.limits.known_integer(explain(CHANNELS).bound),
            target.limits.known_integer("max_rank"),
            target,
        )

    @property
    def least(self) -> float:
        """What is legal along any axis."""
        return min(math.inf if bound is None else bound for bound in (self.spatial, self.channels))

    def bound(self, rank: int, axis: int) -> int | None:
        """Return how long an axis of a tensor may be."""
        return self.channels if rank == IMAGE_RANK and axis == CHANNEL_AXIS else self.spatial

    def rule(self, rank: int, axis: int) -> str:
        """Return the rule that says so."""
        return CHANNELS if rank == IMAGE_RANK and axis == CHANNEL_AXIS else SPATIAL

    def too_long(self, shape: Sequence[int]) -> int | None:
        """Return the first axis that is too long."""
        rank = len(shape)
        for axis, extent in enumerate(shape):
            bound = self.bound(rank, axis)
            if bound is not None and extent > bound:
                return axis
        return None

    def fits(self, layer: Layer) -> bool:
        """Return whether no live tensor of a layer is too long."""
        shapes = (*(value.shape for value in layer.bottoms), layer.core_types[0].shape, layer.result.shape)
        return all(self.too_long(shape) is None for shape in shapes)


def candidates(layer: Layer, extents: Extents) -> Iterator[tuple[int, Cut]]:
    """Yield the axes of a layer's result along which cutting it makes a tensor shorter that is too long."""
    shape = layer.core_types[0].shape
    result = extents.too_long(shape)
    for axis in range(len(shape)):
        cut = cut_along(layer, axis)
        if cut is None:
            continue
        operands = [
            name
            for name, ref in layer.refs()
            if (along := cut.operands.get(name)) is not None and extents.too_long(ref.type.shape) == along.axis
        ]
        if axis == result or operands:
            yield axis, cut


def parts_of(layer: Layer, cut: Cut, extents: Extents) -> tuple[Part, ...] | None:
    """Return the fewest even parts of an axis that make every tensor short enough along it; None if none do."""
    shape = layer.core_types[0].shape
    bounds = [extents.bound(len(shape), cut.axis)]
    for name, ref in layer.refs():
        along = cut.operands.get(name)
        own = None if along is None else extents.bound(ref.type.rank, along.axis)
        bounds.append(None if along is None or own is None else along.most(own))
    most = min(bound for bound in bounds if bound is not None) // cut.granule
    if most == 0:
        return None
    granules = shape[cut.axis] // cut.granule
    even = even_parts(granules, -(-granules // most))
    parts = tuple(Part(part.begin * cut.granule, part.size * cut.granule) for part in even)
    # A window that sees only padding has no part of the source to read.
    seen = (along.part(part).size for along in cut.operands.values() for part in parts)
    return parts if all(size > 0 for size in seen) else None


def fold(layer: Layer, extents: Extents) -> list[Layer] | None:
    """Return a reduction over long axes as one over two for each; None where it is none, or a length has no factors."""
    if not is_reduction(layer.kind) or layer.epilogue:
        return None
    x, gone = layer.operand("x"), list_reduced_axes(layer)
    shape: list[int] = []
    axes: list[int] = []
    for axis, extent in enumerate(x.type.shape):
        bound = extents.bound(x.type.rank, axis)
        # With more axes what was a channel is none.
        most = min((one for one in (bound, extents.spatial) if one is not None), default=extent)
        too_long = axis in gone and bound is not None and extent > bound
        parts = two_factors(extent, most) if too_long else (extent,)
        if parts is None:
            return None
        axes += range(len(shape), len(shape) + len(parts)) if axis in gone else ()
        shape += parts
    if len(shape) == x.type.rank or extents.axes is None or len(shape) > extents.axes:
        return None
    make = LayerMaker(layer, extents.target)
    view = make.reshape(x, tuple(shape), step="folded")
    attributes = {**layer.attributes, "axes": tuple(axes)}
    made = make.add(layer.kind, {"x": view}, attributes, step="both", engine=layer.engine, choices=layer.choices)
    if made.shape != layer.result.shape:
        make.reshape(made, layer.result.shape, step="shaped")
    return make.finish()


def two_factors(extent: int, most: int) -> tuple[int, int] | None:
    """Return a length as a product of two, the second as large as it may be; None where the first is too large then.

    >>> two_factors(20_000, 16_384), two_factors(16_411, 16_384)
    ((2, 10000), None)
    """
    inner = next(one for one in range(min(most, extent), 0, -1) if extent % one == 0)
    return None if extent // inner > most else (extent // inner, inner)


def cut_short(layer: Layer, extents: Extents) -> list[Layer]:
    """Return a layer in parts that are short enough, cut again where another axis is too long.

    Raises:
        IllegalGraphError: It cannot be cut along an axis that is too long; the rule is the one that preflight names.
    """
    if only_moves(layer) or extents.fits(layer):
        return [layer]
    if layer.epilogue and is_only_after(layer, extents):
        return [made for piece in unfuse(layer) for made in cut_short(piece, extents)]
    for axis, cut in candidates(layer, extents):
        if axis_after_epilogue(layer, axis) is None:
            return [made for piece in unfuse(layer) for made in cut_short(piece, extents)]
        parts = parts_of(layer, cut, extents)
        if parts is not None:
            pieces = cut_layer(layer, cut, parts, "tile", extents.target)
            return [made for piece in pieces for made in cut_short(piece, extents)]
    made = fold(layer, extents)
    if made is not None:
        return [one for piece in made for one in cut_short(piece, extents)]
    raise refusal(layer, extents)


def is_only_after(layer: Layer, extents: Extents) -> bool:
    """Return whether nothing is too long but what the epilogue makes of it."""
    shapes = (*(value.shape for value in layer.bottoms), layer.core_types[0].shape)
    return all(extents.too_long(shape) is None for shape in shapes)


def refusal(layer: Layer, extents: Extents) -> NotSupportedError:
    """Return the error for a layer that cannot be cut, by the rule for the first axis that is too long."""
    shapes = (layer.core_types[0].shape, *(value.shape for value in layer.bottoms))
    long = ((shape, axis) for shape in shapes if (axis := extents.too_long(shape)) is not None)
    shape, axis = next(long)
    reason = WHOLE.format(extent=shape[axis])
    return refuse_layer(layer, extents.target, extents.rule(len(shape), axis), reason, length=shape[axis])


def feeds_a_transpose(layer: Layer, program: Program) -> bool:
    """Return whether the wide cap of transposes holds, as the rules have it: for one, and for what one reads."""
    if layer.kind.name == "transpose" or layer.epilogue.transpose is not None:
        return True
    return any(reader.kind.name == "transpose" for reader in program.consumers.get(layer.name, ()))


@dataclass(frozen=True)
class SplitExtents(Pass):
    """Cut layers whose tensors are longer than the target computes on, and join the parts.

    Where an axis is at most 16,384 long:

    Before:
        %t1 = PE anec.relu(x = %t0) : fp16[1, 18000, 4]

    After:
        %t1.tile0.x = DMA anec.slice(input = %t0) {begin = [0, 0, 0], size = [1, 9000, 4]} : fp16[1, 9000, 4]
        %t1.tile0 = PE anec.relu(x = %t1.tile0.x) : fp16[1, 9000, 4]
        %t1.tile1.x = DMA anec.slice(input = %t0) {begin = [0, 9000, 0], size = [1, 9000, 4]} : fp16[1, 9000, 4]
        %t1.tile1 = PE anec.relu(x = %t1.tile1.x) : fp16[1, 9000, 4]
        %t1 = DMA anec.concat(values = [%t1.tile0, %t1.tile1]) {axis = 1} : fp16[1, 18000, 4]
          chosen: {in_place = true}

    What only moves data may be longer: descriptors address parts of tensors. Windows read what they reach beyond their
    part. A reduction along a long axis becomes one along two. What works along an axis as a whole is an error, of the
    rule that preflight names.
    """

    name: ClassVar[str] = "split-extents"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Cut what is too long."""
        extents = Extents.of(program.target)
        notes = [note for note in self.unchecked(extents) if note not in program.notes]
        least, changed = extents.least, bool(notes)
        layers: list[Layer] = []
        for layer in program.layers:
            pieces = [layer]
            if longest(layer) > least and not only_moves(layer) and not feeds_a_transpose(layer, program):
                pieces = cut_short(layer, extents)
                notes += [Note(self.name, layer.name, parts_text(layer, pieces))] if pieces != [layer] else []
                notes += [Note(self.name, layer.name, UNDONE)] if fusion_undone(layer, pieces) else []
            changed = changed or pieces != [layer]
            layers += pieces
        return program.with_layers(layers, notes) if changed else program

    def unchecked(self, extents: Extents) -> list[Note]:
        """Return what is to be said where no source gives a bound."""
        bounds = {explain(SPATIAL).bound: extents.spatial, explain(CHANNELS).bound: extents.channels}
        unknown = [name for name, bound in bounds.items() if bound is None]
        text = "no source gives {limit} of {target}: not checked"
        return [Note.of(self.name, "", text, limit=name, target=extents.target.name) for name in unknown]


def parts_text(layer: Layer, pieces: Sequence[Layer]) -> str:
    """Return what a layer that was too long became."""
    same = [piece for piece in pieces if piece.kind is layer.kind]
    moves = [piece for piece in pieces if only_moves(piece)]
    moved = sum(piece.result.type.nbytes for piece in moves)
    if len(same) == 1 and is_reduction(layer.kind):
        axes = len(list_reduced_axes(same[0]))
        around = number_of(len(pieces) - 1, "layer")
        return f"became one {operation_name(layer)} of {axes} shorter axes, with {around} around it ({moved} bytes)"
    parts = f"{len(same)} parts" if len(same) > 1 else number_of(len(pieces) - len(moves), "layer")
    joining = "1 layer that cuts or joins" if len(moves) == 1 else f"{len(moves)} layers that cut and join"
    return f"became {parts}, with {joining} ({moved} bytes)"


def longest(layer: Layer) -> int:
    """Return the length of the longest axis that a layer reads or writes."""
    shapes = (*(value.shape for value in layer.bottoms), *(value.shape for value in layer.results))
    return max((extent for shape in shapes for extent in shape), default=0)
