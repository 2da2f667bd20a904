"""What rules look at most: an operand by its name, an attribute by its type, factors, the depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aneforge.ops.types import TensorType
    from aneforge.rules.subject import Subject

__all__ = [
    "CHANNELS",
    "argument",
    "depth_axis",
    "first",
    "integer",
    "integers",
    "is_live",
    "leftover",
    "number",
    "power_of",
    "text",
    "texts",
]

PRIMES = (2, 3)
"""The primes of the factors 2, 3, 4 and 8."""
CHANNELS = 1
"""The axis of the channels."""
DEPTH_RANK, DEPTH_AXIS = 5, 2
"""Five axes are batch, channels, depth, height and width; with fewer there is no depth."""


def argument(subject: Subject, name: str) -> TensorType | None:
    """Return the type of an operand by its name, or none."""
    found = subject.arguments.get(name)
    return found[0] if found else None


def first(subject: Subject) -> TensorType | None:
    """Return the type of the first operand, or none."""
    return next((types[0] for types in subject.arguments.values() if types), None)


def is_live(subject: Subject, name: str) -> bool:
    """Return whether an operand is given and computed at run time."""
    return name in subject.arguments and name not in subject.constants and name not in subject.known


def integer(subject: Subject, *names: str) -> int | None:
    """Return the first of several attributes that is an integer."""
    for name in names:
        value = subject.attributes.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def number(subject: Subject, name: str) -> float | None:
    """Return an attribute that is a number."""
    value = subject.attributes.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def integers(subject: Subject, name: str) -> tuple[int, ...]:
    """Return an attribute that is a list of integers; an empty list where it is not given."""
    value = subject.attributes.get(name)
    return tuple(int(item) for item in value) if isinstance(value, tuple) else ()


def text(subject: Subject, name: str) -> str:
    """Return an attribute that is a text; an empty one where it is not given."""
    value = subject.attributes.get(name)
    return value if isinstance(value, str) else ""


def texts(subject: Subject, name: str) -> tuple[str, ...]:
    """Return an attribute that is a list of texts; an empty list where it is not given."""
    value = subject.attributes.get(name)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, tuple) else ()


def depth_axis(tensor: TensorType) -> int | None:
    """Return which axis of a tensor is the engine's depth, if it has one."""
    return DEPTH_AXIS if tensor.rank == DEPTH_RANK else None


def power_of(prime: int, factor: int) -> int:
    """Return how often a prime divides a factor.

    >>> power_of(2, 48), power_of(3, 48), power_of(2, 0)
    (4, 1, 0)
    """
    count = 0
    while factor > 0 and factor % prime == 0:
        factor //= prime
        count += 1
    return count


def leftover(factor: int) -> int:
    """Return what is left of a factor once 2, 3, 4 and 8 are divided out.

    >>> leftover(48), leftover(10)
    (1, 5)
    """
    for prime in PRIMES:
        factor //= prime ** power_of(prime, factor)
    return factor
