"""One operation on its way into a description: the node, and its operands as they are held."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.formats.netplist.emitter import Emitter
    from aneforge.formats.netplist.netplist_values import Held
    from aneforge.graph.node import Node

    Writer = Callable[["Call"], Held | tuple[Held, ...]]

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """A node, what its operands are, and where it is written."""

    to: Emitter
    node: Node
    operands: Mapping[str, Held | tuple[Held, ...]]

    @property
    def x(self) -> Held:
        """The operand that most operations have."""
        return self.operand("x")

    def operand(self, name: str) -> Held:
        """Return an operand that must be there."""
        return cast("Held", self.operands[name])

    def optional(self, name: str) -> Held | None:
        """Return an operand that may have been left out."""
        return cast("Held | None", self.operands.get(name))

    def several(self, name: str) -> tuple[Held, ...]:
        """Return a list of operands."""
        return cast("tuple[Held, ...]", self.operands[name])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.node.types[0].shape

    def axis(self, name: str = "axis") -> int:
        """Return an attribute that names an axis of x, counted from the front."""
        return self.node.integer(name) % len(self.x.shape)
