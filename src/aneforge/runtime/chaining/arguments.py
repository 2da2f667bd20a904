"""Checks of what callers give, who may be untyped: integers of a width, kinds of objects, lists of one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from aneforge.errors import GraphError, GraphTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_instance", "check_integer", "check_items", "check_quality"]

Kind = TypeVar("Kind")

LEAST_QUALITY, MOST_QUALITY = 0, 63
"""Levels of the quality of service (maderix repository, class map)."""


def check_integer(value: object, what: str, bits: int = 64) -> int:
    """Return an unsigned integer of so many bits.

    >>> check_integer(3, "the value")
    3

    Raises:
        GraphTypeError: It is something else, such as a boolean or a float.
        GraphError: It does not fit.
    """
    if type(value) is not int:
        raise GraphTypeError(f"{what} must be an integer", seen=repr(value))
    if not 0 <= value < 1 << bits:
        raise GraphError(
            f"{what} must fit into {bits} bits without a sign", seen=value, limit=f"0 to {(1 << bits) - 1}"
        )
    return value


def check_instance(value: object, kind: type[Kind], what: str, remedy: str | None = None) -> Kind:
    """Return an object of a kind.

    Raises:
        GraphTypeError: It is something else.
    """
    if not isinstance(value, kind):
        name = kind.__name__
        raise GraphTypeError(f"{what} must be of type {name}", seen=type(value).__name__, limit=name, remedy=remedy)
    return value


def check_items(values: object, kind: type[Kind], what: str, remedy: str | None = None) -> tuple[Kind, ...]:
    """Return a list whose members are of one kind.

    Raises:
        GraphTypeError: It is not a list or a tuple, or a member is something else.
    """
    if not isinstance(values, list | tuple):
        raise GraphTypeError(f"{what} must be a list", seen=type(values).__name__, remedy=remedy)
    listed = cast("Sequence[object]", values)
    return tuple(check_instance(value, kind, f"{what}[{place}]", remedy) for place, value in enumerate(listed))


def check_quality(value: object) -> int:
    """Return a level of the quality of service.

    Raises:
        GraphTypeError: It is not an integer.
        GraphError: There is no such level.
    """
    level = check_integer(value, "the quality of service", bits=32)
    if not LEAST_QUALITY <= level <= MOST_QUALITY:
        raise GraphError(
            "the quality of service must be a known level", seen=level, limit=f"{LEAST_QUALITY} to {MOST_QUALITY}"
        )
    return level
