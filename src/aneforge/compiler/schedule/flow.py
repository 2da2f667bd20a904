"""What flows between the layers of one segment: who writes a value, who reads it or may write over it, what leaves."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Value
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.ir.program import Program, Segment
    from aneforge.compiler.schedule.rules import Rules

__all__ = ["Flow", "flow_of", "rewritable", "ring_values"]


@dataclass(frozen=True, eq=False)
class Flow:
    """The layers of a segment by their number in it, and the edges between them."""

    program: Program
    segment: int
    layers: tuple[Layer, ...]
    writers: Mapping[str, int]
    """The layer of this segment that writes a value."""
    readers: Mapping[str, tuple[int, ...]]
    """The layers of this segment that read a value, each once."""
    leaving: frozenset[str]
    """Values of this segment that other segments, outputs or states take."""

    @cached_property
    def successors(self) -> tuple[tuple[int, ...], ...]:
        """The layers that read a result of each layer, each once, in order."""
        return tuple(
            tuple(sorted({reader for result in layer.results for reader in self.readers.get(result.name, ())}))
            for layer in self.layers
        )

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """The layers of this segment whose results each layer reads, each once, in order."""
        return tuple(
            tuple(sorted({self.writers[value.name] for value in layer.bottoms if value.name in self.writers}))
            for layer in self.layers
        )

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The longest path to each layer from the beginning of the segment."""
        found: list[int] = []
        for before in self.predecessors:
            found.append(1 + max((found[layer] for layer in before), default=-1))
        return tuple(found)


def flow_of(program: Program, segment: Segment) -> Flow:
    """Return what flows between the layers of a segment."""
    layers = segment.layers
    writers = {result.name: number for number, layer in enumerate(layers) for result in layer.results}
    readers: dict[str, list[int]] = {}
    for number, layer in enumerate(layers):
        for name in dict.fromkeys(value.name for value in layer.bottoms):
            readers.setdefault(name, []).append(number)
    leaving = {
        name
        for name in writers
        if name in program.kept or any(reader.segment != segment.number for reader in program.consumers.get(name, ()))
    }
    return Flow(
        program,
        segment.number,
        layers,
        writers,
        {name: tuple(numbers) for name, numbers in readers.items()},
        frozenset(leaving),
    )


def ring_values(layers: Iterable[Layer], rules: Rules) -> frozenset[str]:
    """Return the names of the ring buffers: what ring layers take first, and what the rewriting ones give."""
    found: set[str] = set()
    for layer in layers:
        if layer.kind.name not in rules.ring_kinds:
            continue
        buffer = layer.operand(layer.kind.operands[0].name)
        if isinstance(buffer, Value):
            found.add(buffer.name)
        if layer.kind.name in rules.rewriting_kinds:
            found.add(layer.name)
    return frozenset(found)


def rewritable(layer: Layer, rules: Rules) -> tuple[str, ...]:
    """Return the names of the operands over which a layer may write its result.

    A layer that makes each element from those in its place may rewrite any operand of the result's type; one that
    changes a part of its first operand may rewrite that one. An epilogue that moves elements forbids it.
    """
    moving = layer.epilogue.texture or layer.epilogue.broadcast or layer.epilogue.transpose
    if moving or len(layer.results) > 1:
        return ()
    refs: tuple[object, ...] = ()
    if layer.kind.name in rules.pointwise_kinds:
        refs = layer.bottoms
    elif layer.kind.name in rules.rewriting_kinds:
        refs = (layer.operand(layer.kind.operands[0].name),)
    return tuple(ref.name for ref in refs if isinstance(ref, Value) and ref.type == layer.result.type)
