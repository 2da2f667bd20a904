"""The operands of a node as its converter asks for them: a tensor, one that may be left out, one that must be known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from aneforge.errors import GraphError
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from aneforge.graph.node import Value
    from aneforge.ops.types import Array

__all__ = ["Operands"]

Key = TypeVar("Key", int, str)
"""A format names operands by their places, or by their names."""


class Operands(ABC, Generic[Key]):
    """What a node reads."""

    __slots__ = ()

    @abstractmethod
    def held_at(self, key: Key) -> object:
        """Return an operand of any kind; None where it is left out."""

    @abstractmethod
    def describe_key(self, key: Key) -> str:
        """Return how a message names an operand."""

    @abstractmethod
    def no_tensor(self, key: Key, held: object) -> GraphError:
        """Return the error of an operand that is not a tensor."""

    @abstractmethod
    def computed(self, value: Output, message: str) -> GraphError:
        """Return the error of a value that would have to be known when the model is read."""

    def optional(self, key: Key) -> Value | None:
        """Return a tensor, or None where it is left out.

        Raises:
            GraphError: It is something else; the format may have a reason for it.
        """
        found = self.held_at(key)
        if found is None or isinstance(found, Output | Constant):
            return found
        raise self.no_tensor(key, found)

    def value(self, key: Key) -> Value:
        """Return a tensor that must be there.

        Raises:
            GraphError: It is left out, or something else.
        """
        found = self.optional(key)
        if found is None:
            raise GraphError(f"{self.describe_key(key)} is missing")
        return found

    def expect_known(self, key: Key, what: str) -> Array:
        """Return the numbers of a tensor that must be known when the model is read.

        Raises:
            UnsupportedNodeError: It is computed at run time.
        """
        found = self.value(key)
        if isinstance(found, Constant):
            return found.dense()
        raise self.computed(found, f"{what} is computed at run time")
