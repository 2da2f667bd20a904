"""What could be changed in a model to make it faster, each change with its price on one target.

A change is compiled and priced like the model itself; an encoding of weights is priced by the bytes that are left, so
that no weight is encoded for it. What gains little is not named.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.analysis.cost import price
from aneforge.analysis.machine import machine_of
from aneforge.analysis.work import work_of
from aneforge.commands.sharing import Compiler
from aneforge.commands.timeline import round_time
from aneforge.report.model import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.analysis.cost import Cost
    from aneforge.analysis.work import LayerWork, ProgramWork
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.targets import Place

__all__ = ["Changes"]

WORTH = 0.9
"""A change is named where it takes at most this share of the time."""
ENCODINGS = {"int8": 0.5, "int4": 0.25}
"""Encodings of weights by what they leave of the bytes of fp16, the more exact first."""


class Changes:
    """Finds what could be changed in one graph; a changed graph is compiled once for all targets that share it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.lighter: dict[tuple[int, float], tuple[LayerWork, ...]] = {}
        """Layers with encoded weights, by the identity of those with dense ones and the share of bytes that is left."""
        self.dense: list[tuple[LayerWork, ...]] = []
        """The layers whose identities are in use."""

    @cached_property
    def without_attention(self) -> tuple[int, Compiler] | None:
        """The graph with attention of products and softmax, and how many layers of attention that concerns."""
        count = sum(node.op.name == "sdpa" and bool(node.attributes["native"]) for node in self.graph.nodes)
        if not count:
            return None
        from aneforge.optimise.forms.native_attention import without_native_attention  # noqa: PLC0415 - few models have it

        made = without_native_attention(self.graph)
        return None if made is None else (count, Compiler(made))

    def of(self, chosen: Place, program: Program, work: ProgramWork, priced: Cost) -> tuple[Change, ...]:
        """Return what is worth changing on a target, the largest gain first; encoded weights stay as they are."""
        dense = not any("weights" in layer.choices for layer in program.layers)
        found = [*self.decomposed(chosen, priced), *(self.encoded(chosen, work, priced) if dense else ())]
        worth = [one for one in found if 0 < one.after <= WORTH * one.before]
        return tuple(sorted(worth, key=lambda one: -one.gain))

    def decomposed(self, chosen: Place, priced: Cost) -> Iterator[Change]:
        """Yield the model without layers of attention, which are programs of their own."""
        if self.without_attention is None:
            return
        count, compiler = self.without_attention
        made = compiler.compile(chosen.target).compiled
        if made is not None:
            after = price(work_of(made), machine_of(chosen)).microseconds
            yield change(f"decompose {count} sdpa", "--opt 1", priced, after)

    def encoded(self, chosen: Place, work: ProgramWork, priced: Cost) -> Iterator[Change]:
        """Yield the model with weights of fewer bits, by the most exact encoding that streams on the target."""
        for encoding, left in ENCODINGS.items():
            stream = chosen.target.streams.get(encoding)
            if stream is None or not stream.streams:
                continue
            after = price(replace(work, layers=self.with_bytes(work.layers, left)), priced.machine).microseconds
            yield change(f"{encoding} weights", f"--compress {encoding}", priced, after)
            return

    def with_bytes(self, layers: tuple[LayerWork, ...], left: float) -> tuple[LayerWork, ...]:
        """Return layers with a share of the bytes of their weights; those that targets share are made once."""
        key = id(layers), left
        if key not in self.lighter:
            self.lighter[key] = tuple(replace(one, weight_bytes=int(one.weight_bytes * left)) for one in layers)
            self.dense.append(layers)
        return self.lighter[key]


def change(text: str, option: str, priced: Cost, after: float) -> Change:
    """Return a change with its price."""
    return Change(text, option, round_time(priced.microseconds), round_time(after))
