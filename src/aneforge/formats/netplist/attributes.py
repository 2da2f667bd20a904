"""Attributes of a node in their types, for whatever writes or rebuilds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from aneforge.graph.node import Node

__all__ = ["Attributes"]


class Attributes:
    """What has a node: its attributes by name."""

    __slots__ = ()
    node: Node

    def number(self, name: str) -> float:
        """Return an attribute that is a number."""
        return cast("float", self.node.attributes[name])

    def whole(self, name: str) -> int:
        """Return an attribute that is an integer."""
        return cast("int", self.node.attributes[name])

    def flag(self, name: str) -> bool:
        """Return an attribute that is a boolean."""
        return cast("bool", self.node.attributes[name])

    def text(self, name: str) -> str:
        """Return an attribute that is text."""
        return cast("str", self.node.attributes[name])

    def wholes(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers, or None."""
        return cast("tuple[int, ...] | None", self.node.attributes[name])
