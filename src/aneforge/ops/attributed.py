"""What has attributes gives them in their types: a node of a graph, a layer, a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.signature import AttributeValue

__all__ = ["Attributed"]

INTEGERS = frozenset({int, bool})
"""Types of the items of a list of integers."""


class Attributed:
    """Reads attributes by name and type.

    The signature of the operation has checked them, so a wrong type is a mistake of whoever reads: a TypeError.
    """

    __slots__ = ()
    attributes: Mapping[str, AttributeValue]

    def integer(self, name: str) -> int:
        """Return an attribute that is an integer."""
        value = self.attributes[name]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise mistaken(name, value, "an integer")

    def number(self, name: str) -> float:
        """Return an attribute that is a number."""
        value = self.attributes[name]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise mistaken(name, value, "a number")

    def text(self, name: str) -> str:
        """Return an attribute that is a text."""
        value = self.attributes[name]
        if isinstance(value, str):
            return value
        raise mistaken(name, value, "a text")

    def flag(self, name: str) -> bool:
        """Return an attribute that is true or false."""
        value = self.attributes[name]
        if isinstance(value, bool):
            return value
        raise mistaken(name, value, "a flag")

    def integers(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a list of integers."""
        found = self.optional_integers(name)
        if found is None:
            raise mistaken(name, found, "a list of integers")
        return found

    def optional_integers(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of integers, or None where it is left out."""
        value = self.attributes[name]
        if value is None or (isinstance(value, tuple) and INTEGERS.issuperset(map(type, value))):
            return cast("tuple[int, ...] | None", value)
        raise mistaken(name, value, "a list of integers")

    def optional_flags(self, name: str) -> tuple[bool, ...] | None:
        """Return an attribute that is a list of booleans, or None where it is left out."""
        value = self.attributes[name]
        if value is None or (isinstance(value, tuple) and all(isinstance(one, bool) for one in value)):
            return cast("tuple[bool, ...] | None", value)
        raise mistaken(name, value, "a list of flags")


def mistaken(name: str, value: object, wanted: str) -> TypeError:
    """Return the error of one who reads an attribute as what it is not."""
    return TypeError(f"attribute {name!r} is {value!r} and not {wanted}")
