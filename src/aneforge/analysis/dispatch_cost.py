"""Whether a program is worth its dispatch: the documented cost model with its measured anchors, and no more of it.

It warns of programs that are mostly dispatch, and tells two forms of one graph apart. `data/dispatch.toml` holds the
anchors with their evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from aneforge.compiler.ir.catalogue import is_bridge
from aneforge.evidence import Evidence  # noqa: TC001 - msgspec reads it
from aneforge.graph.graph import PLACEHOLDERS, work_of

if TYPE_CHECKING:
    from aneforge.graph.graph import Graph
    from aneforge.targets import Target

__all__ = ["DispatchCost", "anchors", "dispatch_cost"]


class Anchor(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The figures of a family."""

    floor_us: float
    bandwidth_bytes_per_us: float
    peak_flops_per_us: float
    evidence: Evidence
    ramp_flops: float | None = None
    ramp_power: float | None = None

    def microseconds(self, nbytes: int, flops: int) -> float:
        """Return how long an operation takes after the dispatch."""
        used = 1.0
        if self.ramp_flops is not None and self.ramp_power is not None and flops:
            used = min(1.0, (flops / self.ramp_flops) ** self.ramp_power)
        return max(nbytes / self.bandwidth_bytes_per_us, flops / (self.peak_flops_per_us * used))


class Anchors(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The data file."""

    warn_below: float
    cut_us: float
    families: dict[str, Anchor]


@cache
def anchors() -> Anchors:
    """Return the data file."""
    return msgspec.toml.decode(files("aneforge.analysis").joinpath("data/dispatch.toml").read_bytes(), type=Anchors)


@dataclass(frozen=True, slots=True)
class DispatchCost:
    """What the documented model predicts for a graph on a target."""

    floor_us: float
    """Of one dispatch."""
    programs: int
    cuts: int
    work_us: float
    """Of all operations, after the dispatches."""

    @property
    def microseconds(self) -> float:
        """The prediction."""
        return self.floor_us * self.programs + self.work_us + anchors().cut_us * self.cuts


def dispatch_cost(graph: Graph, target: Target) -> DispatchCost | None:
    """Return what the documented model predicts; None for a target of a family without an anchor."""
    anchor = anchors().families.get(target.family.name) if target.family is not None else None
    if anchor is None:
        return None
    nodes = [node for node in graph.nodes if node.op.name not in PLACEHOLDERS]
    cuts = sum(is_bridge(node) for node in nodes)
    works = [work_of(node) for node in nodes]
    spent = sum(
        anchor.microseconds(work.bytes_in + work.bytes_out + work.bytes_weights, 2 * work.macs) for work in works
    )
    return DispatchCost(anchor.floor_us, cuts + 1, cuts, spent)
