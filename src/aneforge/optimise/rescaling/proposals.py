"""What a strategy proposes: a change of some nodes, what they read for it to be tried with, or why there is none."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from aneforge.optimise.rescaling.graph_edits import Edit
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node, Output
    from aneforge.optimise.rescaling.engine_errors import Reading
    from aneforge.optimise.rescaling.graph_edits import Change
    from aneforge.optimise.rescaling.operand_sizes import Observed
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Seen = Mapping[tuple[Node, int], Array]

__all__ = [
    "GRID_COSTS_NOTHING", "NO_ROOM", "Member", "Proposal", "SharedTensor", "Situation", "Strategy",
    "measure_channels",
]  # fmt: skip

GRID_COSTS_NOTHING = "the grid of the accumulator costs it nothing"
NO_ROOM = "the edges leave no room"


@dataclass(frozen=True, slots=True)
class Situation:
    """What all proposals and trials share: the graph as it is now, and what is known of its operands."""

    graph: Graph
    target: Target
    names: Mapping[Node, str]
    """What reports call the nodes."""
    observed: Observed
    """What exponents are chosen by, seen or proven."""
    safety: int
    """Bits that are left free below the edges."""
    by_samples: bool
    """Sizes of single channels are known, for samples were given."""
    small: Callable[[], Sequence[Seen]]
    """What operands are for inputs far smaller than their declared ranges; runs the graph when it is first asked."""


@dataclass(frozen=True, slots=True)
class Member:
    """A product or norm of a proposal."""

    node: Node
    operand: str = ""
    """The operand that is multiplied."""
    reading: Reading | None = None
    """What it is tried with; None where there is nothing to try."""
    margins: tuple[float, float] = (float("nan"), float("nan"))
    """Bits to the nearest edge, as it is and rescaled."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that a strategy proposes, or the reason why it proposes none."""

    members: tuple[Member, ...]
    reason: str = ""
    exponents: tuple[int, ...] = (0,)
    change: Change = field(default_factory=dict["Node", Edit])
    axis: int | None = None
    """The axis of channels of the result, where their errors count too."""
    longer: bool = False
    """It costs a layer, which only a large gain is worth."""
    may_help_others: bool = True
    """What is scaled down and loses nothing may stay for the sake of other inputs."""
    keeps_small: bool = False
    """It must not lose rows far smaller than declared ranges."""
    otherwise: Callable[[], Proposal | None] | None = None
    """Makes what is tried in its place where it costs a layer."""

    @classmethod
    def refuse(cls, nodes: Sequence[Node], reason: str) -> Proposal:
        """Return the proposal of nothing, for a reason that was known before anything was measured."""
        return cls(tuple(map(Member, nodes)), reason)


class Strategy(Protocol):
    """Some nodes that are rescaled together, and what it proposes for them."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The products or norms."""
        ...

    def propose(self, situation: Situation) -> Iterator[Proposal]:
        """Return one proposal or more, the best first: the first that is worth it is taken."""
        ...


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """A tensor that is multiplied for all that read it."""

    shared: Output
    members: tuple[tuple[Node, str], ...]
    """Nodes that read it, and as which operand."""
    host: Node | None
    """The operation after which the factor goes; None where it becomes a layer."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that read it."""
        return tuple(node for node, _ in self.members)

    def multiply(self, exponent: int, edits: Change) -> Change:
        """Return edits of all that read the tensor, and the factor on it."""
        if self.host is not None:
            return {**edits, self.host: Edit(after=(exponent,))}
        return {node: replace(edits[node], multiplied=(operand, exponent)) for node, operand in self.members}


def measure_channels(values: Array, axis: int) -> Array:
    """Return the root mean square of every place of an axis."""
    others = tuple(place for place in range(values.ndim) if place != axis)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sqrt(np.mean(np.square(values), axis=others))
