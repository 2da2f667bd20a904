"""Chooses how transposes run: natively within the target's bounds, else in several passes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.axes import Axis, roles
from aneforge.compiler.decisions import decision
from aneforge.compiler.ir.edit import replace_layers
from aneforge.compiler.ir.kind import Engine, Slot
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.compiler.passes.epilogues import unfuse
from aneforge.compiler.passes.layer_maker import LayerMaker
from aneforge.compiler.passes.tiling import even_parts
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import Target

__all__ = ["LegaliseTranspose"]

ROUTE = "route"
SWAP = (0, 2, 1, 3)
"""Exchanges two neighbouring blocks of axes, with what is before and after them."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one pass of the transpose takes."""

    longest: Mapping[Axis, int]
    """The bound of an axis; 0 for height and width where nothing is transposed natively."""
    moving: int
    """How many of the last axes may move."""
    target: Target

    @classmethod
    def of(cls, target: Target) -> Bounds | None:
        """Return the bounds of a target; None where no source gives them."""
        names = {Axis.HEIGHT: "max_transpose_height", Axis.WIDTH: "max_transpose_width"}
        if any(name not in target.hal for name in names.values()):
            return None
        other = target.limits.known_integer("transpose_extent")
        others = {} if other is None else dict.fromkeys((Axis.BATCH, Axis.CHANNEL, Axis.DEPTH), other)
        longest = {**others, **{axis: target.hal.integer(name) for axis, name in names.items()}}
        return cls(longest, target.limits.integer("transpose_trailing_axes"), target)

    @property
    def native(self) -> bool:
        """There is a native transpose."""
        return self.longest[Axis.WIDTH] > 0

    def find_broken_limits(self, shape: Sequence[int], perm: Sequence[int]) -> list[tuple[int, int]]:
        """Return the axes of the source that are too long, in it or in the result, each with its bound."""
        found: dict[int, int] = {}
        places = roles(len(shape))
        for place, axis in enumerate(perm):
            for role in (places[place], places[axis]):
                bound = self.longest.get(role)
                if bound is not None and shape[axis] > bound:
                    found[axis] = min(bound, found.get(axis, bound))
        return sorted(found.items())

    def moves_too_many(self, perm: Sequence[int]) -> bool:
        """Return whether a transpose moves an axis that must stay."""
        fixed = len(perm) - self.moving
        return fixed > 0 and list(perm[:fixed]) != list(range(fixed))


def full_perm(perm: Sequence[int]) -> tuple[int, ...]:
    """Return an order of axes counted from the front."""
    return tuple(place % len(perm) for place in perm)


def swaps(perm: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return exchanges of neighbouring blocks that make up a transpose.

    Each is (first, second, after): the axes from the first on, up to the second, change places with those from the
    second on, up to the one after.

    >>> swaps((0, 2, 3, 1))
    [(1, 2, 4)]
    >>> swaps((2, 1, 0))
    [(0, 2, 3), (1, 2, 3)]
    """
    order, found = list(range(len(perm))), list[tuple[int, int, int]]()
    for place, axis in enumerate(perm):
        here = order.index(axis)
        if here == place:
            continue
        end = here + 1
        while end < len(order) and order[end] == perm[place + end - here]:
            end += 1
        found.append((place, here, end))
        order[place:end] = order[here:end] + order[place:here]
    return found


def in_passes(make: LayerMaker, x: Ref, perm: Sequence[int], engine: Engine, step: str) -> Ref:
    """Return a transpose as exchanges of two blocks, one pass each."""
    shape = list(x.type.shape)
    found = swaps(perm)
    for number, (first, second, end) in enumerate(found):
        blocks = (shape[:first], shape[first:second], shape[second:end], shape[end:])
        viewed = make.reshape(x, tuple(map(math.prod, blocks)), step=f"{step}{number}.blocks")
        shape = [*blocks[0], *blocks[2], *blocks[1], *blocks[3]]
        choices = {ROUTE: "multi-pass", "passes": len(found)}
        turned = make.add(
            "transpose", {"x": viewed}, {"perm": SWAP}, step=f"{step}{number}.turned", engine=engine, choices=choices
        )
        x = make.reshape(turned, tuple(shape), step=f"{step}{number}")
    return x


def turn(make: LayerMaker, x: Ref, perm: tuple[int, ...], bounds: Bounds, step: str) -> Ref:
    """Return a transpose within the bounds: in parts along axes that are too long, in passes where need be."""
    if not bounds.native:
        return in_passes(make, x, perm, Engine(decision("multi_pass_engine").text()), f"{step}pass")
    broken = bounds.find_broken_limits(x.type.shape, perm)
    if broken:
        axis, bound = broken[0]
        count = -(-x.type.shape[axis] // bound)
        parts = [
            turn(
                make,
                make.part(x, axis, part.begin, part.size, step=f"{step}part{number}.source"),
                perm,
                bounds,
                f"{step}part{number}.",
            )
            for number, part in enumerate(even_parts(x.type.shape[axis], count))
        ]
        return make.join(parts, perm.index(axis), step=f"{step}joined")
    if bounds.moves_too_many(perm):
        return in_passes(make, x, perm, Engine.TE, f"{step}pass")
    return make.add("transpose", {"x": x}, {"perm": perm}, step=f"{step}turned", choices={ROUTE: "native"})


def is_native(layer: Layer, bounds: Bounds) -> bool:
    """Return whether a transpose runs as it is."""
    perm = full_perm(layer.integers("perm"))
    shape = layer.operand("x").type.shape
    return bounds.native and not bounds.find_broken_limits(shape, perm) and not bounds.moves_too_many(perm)


def legal(layer: Layer, bounds: Bounds | None) -> list[Layer] | None:
    """Return a transpose as the target runs it; None where it says so already."""
    if ROUTE in layer.choices:
        return None
    if bounds is None:
        return [layer.choosing(route="unknown")]
    if is_native(layer, bounds):
        return [layer.choosing(route="native")]
    make = LayerMaker(layer, bounds.target)
    x, perm = layer.operand("x"), full_perm(layer.integers("perm"))
    if list(perm) == sorted(perm):
        make.add("identity", {"x": x})
        return make.layers
    turn(make, x, perm, bounds, "")
    return make.finish()


@dataclass(frozen=True)
class LegaliseTranspose(Pass):
    """Run transposes natively within the bounds of the target, else in several passes.

    Where a width of at most 16,384 is transposed:

    Before:
        %t1 = TE anec.transpose(x = %t0) {perm = [0, 1, 3, 2]} : fp16[1, 2, 64, 20000]

    After:
        %t1.part0.source = DMA anec.slice(input = %t0) {begin = [0, 0, 0, 0], size = [1, 2, 10000, 64]}
            : fp16[1, 2, 10000, 64]
        %t1.part0.turned = TE anec.transpose(x = %t1.part0.source) {perm = [0, 1, 3, 2]} : fp16[1, 2, 64, 10000]
          chosen: {route = "native"}
        %t1.part1.source = DMA anec.slice(input = %t0) {begin = [0, 0, 10000, 0], size = [1, 2, 10000, 64]}
            : fp16[1, 2, 10000, 64]
        %t1.part1.turned = TE anec.transpose(x = %t1.part1.source) {perm = [0, 1, 3, 2]} : fp16[1, 2, 64, 10000]
          chosen: {route = "native"}
        %t1 = DMA anec.concat(values = [%t1.part0.turned, %t1.part1.turned]) {axis = 3} : fp16[1, 2, 64, 20000]
          chosen: {in_place = true}

    Where nothing is transposed natively, and where an axis moves that must stay, neighbouring blocks of axes change
    places one after the other, each exchange a pass. Bounds that no source gives leave the route `unknown`. A transpose
    in an epilogue that is out of bounds becomes a layer.
    """

    name: ClassVar[str] = "legalise-transpose"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Choose the route of every transpose."""
        bounds = Bounds.of(program.target)
        notes: list[Note] = []

        def routed(layer: Layer) -> list[Layer] | None:
            if layer.kind.name == "transpose":
                return legal(layer, bounds)
            if layer.epilogue.transpose is None or bounds is None:
                return None
            pieces = unfuse(layer, [Slot.TRANSPOSE])
            if is_native(next(piece for piece in pieces if piece.kind.name == "transpose"), bounds):
                return None
            notes.append(Note(self.name, layer.name, "its transpose became a layer again: it is out of bounds"))
            return [made for piece in pieces for made in (legalised(piece, bounds) or [piece])]

        def legalised(piece: Layer, within: Bounds) -> list[Layer] | None:
            return legal(piece, within) if piece.kind.name == "transpose" else None

        return replace_layers(program, routed, notes)
