"""Joins two activations of which one does the work of both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from aneforge.compiler.ir.catalogue import find_kind
from aneforge.compiler.passes.base import Pass, Phase
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program

__all__ = ["CLIPS", "MergeActivations"]

INFINITY = float("inf")
CLIPS = {"relu": (0.0, INFINITY), "n_relu": (0.0, 6.0)}
"""Activations that hold a value between two bounds, in addition to clamped_relu, which names them."""


def bounds(layer: Layer) -> tuple[float, float] | None:
    """Return the bounds between which a layer holds its input, if that is all it does."""
    if layer.kind.name == "clamped_relu":
        return layer.number("alpha"), layer.number("beta")
    return CLIPS.get(layer.kind.name)


def is_never_negative(layer: Layer) -> bool:
    """Return whether a layer works on single elements and gives none below zero, nor −0."""
    codomain = layer.kind.codomain_for(layer.attributes)
    return layer.kind.is_elementwise and codomain.is_never_negative and not codomain.minus_zero


def merge(first: Layer, second: Layer) -> Layer | None:
    """Return one layer for two, the second reading the first; None where none does the work of both.

    Bounds of bounds are bounds. What is never negative passes through relu, and through the leaking side of leaky_relu,
    as it is. Doing abs or sign twice is doing it once.
    """
    names = (first.kind.name, second.kind.name)
    inner, outer = bounds(first), bounds(second)
    if inner is not None and outer is not None and inner[0] <= inner[1] and outer[0] <= outer[1]:
        low, high = (min(max(bound, outer[0]), outer[1]) for bound in inner)
        return clipping(first, second, low, high)
    if names[1] in ("relu", "leaky_relu", "abs") and is_never_negative(first):
        return replace(first, results=second.results)
    if names in (("abs", "abs"), ("sign", "sign")):
        return replace(first, results=second.results)
    return None


def clipping(first: Layer, second: Layer, low: float, high: float) -> Layer:
    """Return the layer that holds between two bounds, by its plainest name."""
    name = next((name for name, known in CLIPS.items() if known == (low, high)), "clamped_relu")
    kind = find_kind(name)
    attributes = {"alpha": low, "beta": high} if name == "clamped_relu" else {}
    return replace(first, kind=kind, attributes=kind.complete(attributes), results=second.results)


@dataclass(frozen=True)
class MergeActivations(Pass):
    """Merge fusable pairs of activations.

    Before:
        %t1 = PE anec.relu(x = %t0) : fp16[1, 4]
        %t2 = PE anec.clamped_relu(x = %t1) {alpha = -1.0, beta = 6.0} : fp16[1, 4]

    After:
        %t2 = PE anec.n_relu(x = %t0) : fp16[1, 4]
    """

    name: ClassVar[str] = "merge-activations"
    phase: ClassVar[Phase] = Phase.FUSION

    def rewritten(self, program: Program) -> Program:
        """Merge along chains, from their beginning on."""
        gone: set[str] = set()
        now: dict[str, Layer] = {}
        for layer in program.layers:
            source = program.producers.get(layer.bottoms[0].name) if len(layer.bottoms) == 1 else None
            if source is None or source.epilogue or layer.epilogue or program.only_reader(source.result) is not layer:
                continue
            made = merge(now.get(source.name, source), layer)
            if made is not None:
                gone.add(source.name)
                now[layer.name] = made
        if not now:
            return program
        return program.with_layers(now.get(layer.name, layer) for layer in program.layers if layer.name not in gone)
