"""A dialect: which operations something takes, in which form and with which limits.

MIL text of an opset, ML packages, network descriptions and every target's engine have one each. A dialect objects to
nodes; `convert` does the rest.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.errors import NotSupportedError
from aneforge.ops.decomposition import Limits
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.graph.node import Node

__all__ = ["Dialect", "Objection"]


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a node cannot stay as it is."""

    why: str
    remedy: str | None = None
    seen: object = None
    limit: object = None
    decomposition: str | None = None
    """The only decomposition that helps, where others of the operation do not."""
    final: bool = False
    """No decomposition helps: the node is refused."""
    restated: Mapping[str, object] | None = None
    """Attributes with which the same operation gives the same result and is taken."""
    detail: str = ""
    """What the list of changes says of a restatement that changes numbers."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What takes a graph: it objects to a node, or lets it pass."""

    name: str
    """How users know it, such as `MIL text`."""
    objection: Callable[[Node], Objection | None]
    limits: Limits = field(default_factory=Limits)
    preferred: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of operations with several decompositions, the one that is taken here."""

    def refusal(self, node: Node, objection: Objection) -> NotSupportedError:
        """Return the error for a node that nothing makes acceptable."""
        return NotSupportedError(
            objection.why,
            operation=node.op.name,
            location=node.location,
            seen=objection.seen,
            limit=objection.limit,
            remedy=objection.remedy,
        )
