"""Decides for a program which layers only bring elements to other places, and what elements pass there.

A passage counts as a copy where it changes nothing that can come in, and where nothing after it shows what it
changes. The first is decided for the program as it is. Then passages are looked at in the order of the program, and one
that is exchanged for a copy may put other numbers into those after it: `Possible` without ranges knows of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from aneforge.analysis.divergence.arithmetic import arithmetic_of_layer
from aneforge.analysis.divergence.gathering import MOST_ELEMENTS, gather_of, list_resized_places
from aneforge.analysis.divergence.hiding import Downstream
from aneforge.analysis.divergence.passages import EVERY, Passage, find_kept
from aneforge.analysis.divergence.possible import Possible
from aneforge.analysis.ranges.interval import RESULTS, of_type
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.engine.dispatch import arithmetic
from aneforge.ops.op import Trait
from aneforge.ops.table import find_op
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from aneforge.analysis.divergence.arithmetic import Arithmetic
    from aneforge.analysis.divergence.gathering import Gather
    from aneforge.analysis.divergence.hiding import Hiding
    from aneforge.analysis.ranges.interval import Range
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program
    from aneforge.targets import Target

    Places = npt.NDArray[np.int32]
    Mask = npt.NDArray[np.bool_]

__all__ = ["Judged", "judge_program"]


@dataclass(frozen=True, slots=True)
class Judged:
    """The layers of a program: the arithmetic of each, and which gather elements."""

    arithmetics: Mapping[str, Arithmetic]
    gathers: Mapping[str, Gather]
    textures: Mapping[str, tuple[Places, Passage]]
    """Resizes in the slots of layers: the places that they read, and what elements pass."""
    ones: frozenset[str]
    """Layers that give ones, whatever they read."""
    idle: frozenset[str]
    """Layers that leave everything that they can read as it is."""


def judge_program(program: Program, ranges: Mapping[str, Range], hiding: Hiding, *, weights: bool) -> Judged:
    """Return what is decided of a program, given the ranges of its values; only with `weights` are those read."""
    arithmetics = {layer.name: arithmetic_of_layer(layer, program, ranges) for layer in program.layers}
    found = {layer.name: gather_of(layer, program.target, weights=weights) for layer in program.layers}
    gathers = {name: gather for name, gather in found.items() if gather is not None}
    passages = {name: gather.passage for name, gather in gathers.items()}
    as_it_is = Possible(program, arithmetics, passages, ranges, follows_ranges=True)
    for name, gather in gathers.items():
        if passages[name] is not Passage.COPY and not changes(passages[name], as_it_is.of(gather.source)):
            passages[name] = Passage.COPY
    exchanged = Possible(program, arithmetics, passages, ranges, follows_ranges=False)
    for layer in program.layers:
        passage = Passage.CROP if arithmetics[layer.name].route else passages.get(layer.name, Passage.COPY)
        if passage is Passage.COPY or not is_hidden(layer, passage, exchanged, hiding):
            continue
        arithmetics[layer.name] = replace(arithmetics[layer.name], route="")
        if layer.name in passages:
            passages[layer.name] = Passage.COPY
    textures = {layer.name: texture for layer in program.layers if (texture := texture_of(layer, program)) is not None}
    ones = frozenset(layer.name for layer in program.layers if gives_ones(layer, program.target))
    left = {name: replace(gather, passage=passages[name]) for name, gather in gathers.items()}
    idle = frozenset(layer.name for layer in program.layers if is_idle(layer, exchanged))
    return Judged(arithmetics, left, textures, ones, idle)


def changes(passage: Passage, entering: Mask) -> bool:
    """Return whether a passage changes one of the numbers that enter."""
    return bool((entering & ~find_kept(passage)).any())


def is_hidden(layer: Layer, passage: Passage, exchanged: Possible, hiding: Hiding) -> bool:
    """Return whether nothing after a layer shows what its passage changes."""
    source = layer.bottoms[0] if len(layer.bottoms) == 1 else None
    if source is None or source.type.dtype != "fp16":
        return False
    downstream = Downstream(hiding, exchanged.program, exchanged.arithmetics, exchanged.passages)
    return hiding.hidden(layer, passage, exchanged.of(source), downstream)


def texture_of(layer: Layer, program: Program) -> tuple[Places, Passage] | None:
    """Return the places that a resize in a slot reads, and what elements pass; None where there is none."""
    stage, kind = layer.epilogue.texture, layer.core_types[0]
    if stage is None or stage.kind.name != "resize" or kind.dtype != "fp16":
        return None
    if max(kind.size, stage.type_of(kind).size) > MOST_ELEMENTS:
        return None
    from aneforge.analysis.ranges.layer_ranges import range_of_layer  # noqa: PLC0415 - few programs have such a slot

    places = list_resized_places(stage, kind.shape)
    anything = {one.name: of_type(one.type.dtype) for one in layer.bottoms}
    core = range_of_layer(layer, anything, program.target).core
    # What computes never gives NaN, the one thing that a resize changes.
    passage = Passage.COPY if core.magnitude <= RESULTS.magnitude else Passage.COMPUTED
    return None if places is None else (places, passage)


def gives_ones(layer: Layer, target: Target) -> bool:
    """Return whether a layer is a softmax of single elements, of which each is the whole."""
    call = call_of_layer(layer)
    if call is None or call.op != "softmax" or layer.core_types[0].dtype != "fp16":
        return False
    return layer.core_types[0].shape[call.integer("axis")] == 1 and share_of_one_is_one(target)


@cache
def share_of_one_is_one(target: Target) -> bool:
    """Return whether the softmax of one element is one for every fp16 number."""
    (shares,) = arithmetic("softmax", target).compute({"x": EVERY.reshape(-1, 1)}, {"axis": 1})
    return bool((shares == 1).all())


def is_idle(layer: Layer, exchanged: Possible) -> bool:
    """Return whether a layer that only bounds numbers, its slots left out, changes none that can come in."""
    call, source = call_of_layer(layer), layer.bottoms[0] if layer.bottoms else None
    if call is None or source is None or Trait.BOUNDING not in find_op(call.op).traits or source.type.dtype != "fp16":
        return False
    entering = EVERY[exchanged.of(source)]
    (bounded,) = arithmetic(call.op, exchanged.program.target).compute({"x": entering}, call.attributes)
    return bounded.tobytes() == entering.tobytes()
