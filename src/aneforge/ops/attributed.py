"""What has attributes gives them in their types: a node of a graph, a layer, a call."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NotRequired, TypeVar, cast, get_origin, get_type_hints

from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.signature import AttributeValue

__all__ = ["AttributeReader", "Attributed", "axis_order", "plain_attributes"]

Form = TypeVar("Form")

INTEGERS = frozenset({int, bool})
"""Types of the items of a list of integers."""


class Attributed:
    """Reads attributes by name and type.

    The signature of the operation has checked them, so a wrong type is a mistake of the reading code: a TypeError.
    """

    __slots__ = ()
    attributes: Mapping[str, AttributeValue]

    def integer(self, name: str) -> int:
        """Return an attribute that is an integer."""
        value = self.attributes[name]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise mistaken(name, value, "an integer")

    def optional_integer(self, name: str) -> int | None:
        """Return an attribute that is an integer, or None where it is left out."""
        return None if self.attributes[name] is None else self.integer(name)

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

    def optional_text(self, name: str) -> str | None:
        """Return an attribute that is a text, or None where it is left out."""
        return None if self.attributes[name] is None else self.text(name)

    def flag(self, name: str) -> bool:
        """Return an attribute that is true or false."""
        value = self.attributes[name]
        if isinstance(value, bool):
            return value
        raise mistaken(name, value, "a flag")

    def is_set(self, name: str) -> bool:
        """Return whether a flag is true; it is not where it is left out, or where the operation has none."""
        return self.attributes.get(name) is not None and self.flag(name)

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

    def attributes_as(self, form: type[Form]) -> Form:
        """Return the attributes as a typed dictionary, which names those that several operations have."""
        missing = required_names(form) - self.attributes.keys()
        if missing:
            raise TypeError(f"attributes {sorted(missing)} are missing, so these are not {form.__name__}")
        return cast("Form", self.attributes)


@dataclass(frozen=True, slots=True)
class AttributeReader(Attributed):
    """Reads attributes that come by themselves, without the node, layer or call that has them."""

    attributes: Mapping[str, AttributeValue]


def axis_order(transpose: Attributed) -> tuple[int, ...]:
    """Return the order of axes of a transpose, counted from the first."""
    perm = transpose.integers("perm")
    return tuple(axis % len(perm) for axis in perm)


def plain_attributes(form: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Return the attributes of a typed dictionary in a plain one, which further attributes may join."""
    return cast("dict[str, AttributeValue]", dict(form))


@cache
def required_names(form: type) -> frozenset[str]:
    """Return the names that a typed dictionary must have: its own set of them takes no note of deferred annotations."""
    hints = get_type_hints(form, include_extras=True)
    return frozenset(name for name, hint in hints.items() if get_origin(hint) is not NotRequired)


def mistaken(name: str, value: object, wanted: str) -> TypeError:
    """Return the error for an attribute that is read as a different kind than it has."""
    return TypeError(f"attribute {name!r} is {value!r} and not {wanted}")
