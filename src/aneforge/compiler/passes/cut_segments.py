"""Cuts a program into segments: layers that need a program of their own, and the others between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.kind import DIALECT
from aneforge.compiler.ir.program import Note
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program

__all__ = ["CutSegments"]

BEFORE_ALL = -1
VIEW = "reshape"
OWN_PROGRAM = "{kind} needs a program of its own: a cut before and after it"


def levels(program: Program) -> Mapping[str, int]:
    """Return for every layer its level: how many segments of plain layers must have ended, less one.

    A plain layer is in the segment of its level. A bridge runs after the segment of its level and before the next, and
    what reads it is in a later segment. So there are as many segments as the longest chain of plain layers and bridges
    needs, and not one more.
    """
    found: dict[str, int] = {}
    for layer in program.layers:
        level = BEFORE_ALL if layer.kind.bridge else 0
        for value in layer.bottoms:
            producer = program.producers.get(value.name)
            if producer is not None:
                earlier = found[producer.name]
                level = max(level, earlier if layer.kind.bridge else earlier + producer.kind.bridge)
        found[layer.name] = level
    return found


def in_order(program: Program) -> list[Layer]:
    """Return the layers segment by segment, numbered; within a segment they stay in their order."""
    level = levels(program)
    # A bridge of a level comes after the plain layers of that level; sorting keeps the order of what is equal.
    ordered = sorted(program.layers, key=lambda layer: (level[layer.name], layer.kind.bridge))
    groups: list[list[Layer]] = []
    last = None
    for layer in ordered:
        here = (level[layer.name], layer.kind.bridge)
        if layer.kind.bridge or here != last:
            groups.append([])
        groups[-1].append(layer)
        last = here
    return [layer.in_segment(number) for number, group in enumerate(without_views(groups)) for layer in group]


def without_views(groups: Sequence[Sequence[Layer]]) -> list[list[Layer]]:
    """Return groups of layers, those that are nothing but reshapes joined with the bridge before or after them.

    A reshape gives a tensor other extents and computes nothing, so it is never worth a dispatch.
    """
    joined: list[list[Layer]] = []
    waiting: list[Layer] = []
    for group in groups:
        if all(layer.kind.name == VIEW for layer in group) and len(groups) > 1:
            (joined[-1] if joined else waiting).extend(group)
        else:
            joined.append([*waiting, *group])
            waiting = []
    return joined


@dataclass(frozen=True)
class CutSegments(Pass):
    """Cut a program before and after every layer that needs a program of its own.

    Before:
        segment 0:
        %t3 = PE anec.relu(x = %t0) : fp16[1, 2, 8, 4]
        %t4 = NE anec.sdpa(query = %t3, key = %t1, value = %t2) : fp16[1, 2, 8, 4]
        %t5 = PE anec.relu(x = %t4) : fp16[1, 2, 8, 4]

    After:
        segment 0:
        %t3 = PE anec.relu(x = %t0) : fp16[1, 2, 8, 4]
        segment 1:
        %t4 = NE anec.sdpa(query = %t3, key = %t1, value = %t2) : fp16[1, 2, 8, 4]
        segment 2:
        %t5 = PE anec.relu(x = %t4) : fp16[1, 2, 8, 4]
        note "cut-segments" %t4 "anec.sdpa needs a program of its own: a cut before and after it"

    Other layers move, where nothing that they read or write forbids it, so that there are as few segments as there can
    be.
    """

    name: ClassVar[str] = "cut-segments"
    phase: ClassVar[Phase] = Phase.LEGALISATION

    def rewritten(self, program: Program) -> Program:
        """Order and number the layers."""
        if not any(layer.kind.bridge for layer in program.layers):
            return program
        layers = in_order(program)
        if all(new is old for new, old in zip(layers, program.layers, strict=True)):
            return program
        notes = [
            Note.of(self.name, layer.name, OWN_PROGRAM, kind=f"{DIALECT}.{layer.kind.name}")
            for layer in layers
            if layer.kind.bridge
        ]
        return program.with_layers(layers, [note for note in notes if note not in program.notes])
