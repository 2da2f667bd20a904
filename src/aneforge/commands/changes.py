"""What could be changed in a model to make it faster, each change with its price on one target.

A change is compiled and priced like the model itself; an encoding of weights is priced by the bytes that are left, so
that no weight is encoded for it. What gains little is not named, unless the model runs as it is written for it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.analysis.cost import price
from aneforge.analysis.machine import machine_of
from aneforge.analysis.work import work_of
from aneforge.commands.placed import predict_placement
from aneforge.commands.sharing import Compiler
from aneforge.commands.timeline import round_time
from aneforge.records import dataclass
from aneforge.report.model import COREML, Change
from aneforge.rules.preflight import preflight

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from aneforge.analysis.cost import Cost
    from aneforge.analysis.work import LayerWork, ProgramWork
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.targets import Place, Target

__all__ = ["Changes"]

WORTH = 0.9
"""A change is named where it takes at most this share of the time."""
ENCODINGS = {"int8": 0.5, "int4": 0.25}
"""Encodings of weights by what they leave of the bytes of fp16, the more exact first."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The graph in another form, and how to ask for that."""

    text: str
    option: str
    compiler: Compiler
    fits: bool = False
    """What the compiler has to split in the graph is legal as it is written in this form."""


class Changes:
    """Finds what could be changed in one graph; a changed graph is compiled once for all targets that share it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.with_blocks: dict[tuple[str, ...], Rewritten] = {}
        """The graph with patches as channels, by what was rearranged: that depends on the target."""
        self.lighter: dict[tuple[int, float], tuple[LayerWork, ...]] = {}
        """Layers with encoded weights, by the identity of those with dense ones and the share of bytes that is left."""
        self.dense: list[tuple[LayerWork, ...]] = []
        """The layers whose identities are in use."""

    @cached_property
    def without_attention(self) -> Rewritten | None:
        """The graph with attention of products and softmax, if it has layers of attention."""
        count = sum(node.op.name == "sdpa" and node.flag("native") for node in self.graph.nodes)
        if not count:
            return None
        from aneforge.optimise.forms.native_attention import without_native_attention  # noqa: PLC0415 - few models have it

        made = without_native_attention(self.graph)
        return None if made is None else Rewritten(f"decompose {count} sdpa", "--opt 1", Compiler(made))

    def with_patches(self, target: Target) -> Rewritten | None:
        """Return the graph with patches as channels, if the whole of it is legal on a target then."""
        from aneforge.optimise.forms.patches import patches_as_blocks  # noqa: PLC0415 - few models are oversize

        made, rearranged = patches_as_blocks(self.graph, target)
        if not rearranged:
            return None
        if rearranged not in self.with_blocks:
            self.with_blocks[rearranged] = Rewritten("patches as channels", "--opt 1", Compiler(made), fits=True)
        found = self.with_blocks[rearranged]
        return found if preflight(found.compiler.graph, target).ok else None

    def rewritten(self, target: Target, *, split: bool) -> Iterator[Rewritten]:
        """Yield other forms of the graph; `split` says that the target cannot take all of it as it is written."""
        found = (self.without_attention, self.with_patches(target) if split else None)
        yield from (one for one in found if one is not None)

    def of(
        self, chosen: Place, program: Program, work: ProgramWork, priced: Cost, *, split: bool
    ) -> tuple[Change, ...]:
        """Return what is worth changing on a target; weights that are encoded already stay as they are."""
        found: list[Change] = []
        for one in self.rewritten(chosen.target, split=split):
            made = one.compiler.compile(chosen.target).compiled
            if made is not None:
                found.append(change(one, priced.microseconds, price(work_of(made), machine_of(chosen)).microseconds))
        if not any("weights" in layer.choices for layer in program.layers):
            found += self.encoded(chosen, work, priced)
        return worth_making(found)

    def through_coreml(self, chosen: Place, microseconds: float, *, split: bool) -> tuple[Change, ...]:
        """Return what is worth changing where Core ML runs a part of the graph outside of the engine."""
        found = (
            change(one, microseconds, predict_placement(one.compiler.graph, chosen, COREML)[1].microseconds or 0.0)
            for one in self.rewritten(chosen.target, split=split)
        )
        return worth_making(found)

    def encoded(self, chosen: Place, work: ProgramWork, priced: Cost) -> Iterator[Change]:
        """Yield the model with weights of fewer bits, by the most exact encoding that streams on the target."""
        for encoding, left in ENCODINGS.items():
            stream = chosen.target.streams.get(encoding)
            if stream is None or not stream.streams:
                continue
            after = price(replace(work, layers=self.with_bytes(work.layers, left)), priced.machine).microseconds
            times = round_time(priced.microseconds), round_time(after)
            yield Change(f"{encoding} weights", f"--compress {encoding}", *times)
            return

    def with_bytes(self, layers: tuple[LayerWork, ...], left: float) -> tuple[LayerWork, ...]:
        """Return layers with a share of the bytes of their weights; those that targets share are made once."""
        key = id(layers), left
        if key not in self.lighter:
            self.lighter[key] = tuple(replace(one, weight_bytes=int(one.weight_bytes * left)) for one in layers)
            self.dense.append(layers)
        return self.lighter[key]


def change(rewritten: Rewritten, before: float, after: float) -> Change:
    """Return another form of the graph with its price."""
    times = round_time(before), round_time(after)
    return Change(rewritten.text, rewritten.option, *times, fits=rewritten.fits)


def worth_making(found: Iterable[Change]) -> tuple[Change, ...]:
    """Return the changes that gain something, the largest gain first; before them what makes a model fit."""
    worth = [one for one in found if one.fits or 0 < one.after <= WORTH * one.before]
    return tuple(sorted(worth, key=lambda one: (not one.fits, -one.gain)))
