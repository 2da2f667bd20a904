"""What the rules over layers look at most: an operand by its name, numbers of an attribute, factors, axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.axes import MOST_AXES, Axis, axis_of
from aneforge.ops.constant import Blockwise, Int8Affine, Palette, Sparse
from aneforge.ops.types import bits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.ops.constant import Constant
    from aneforge.ops.types import TensorType
    from aneforge.rules.subject import Subject

__all__ = ["argument", "depth_axis", "first", "integer", "integers", "leftover", "number", "pad_pairs", "stored_bits"]

PRIMES = (2, 3)
"""The primes of the factors 2, 3, 4 and 8."""


def argument(subject: Subject, name: str) -> TensorType | None:
    """Return the type of an operand by its name, or none."""
    found = subject.arguments.get(name)
    return found[0] if found else None


def first(subject: Subject) -> TensorType | None:
    """Return the type of the first operand, or none."""
    return next((types[0] for types in subject.arguments.values() if types), None)


def integer(subject: Subject, *names: str) -> int | None:
    """Return the first of several attributes that is a whole number."""
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
    """Return an attribute that is a list of whole numbers; an empty list where it is not given."""
    value = subject.attributes.get(name)
    return tuple(int(item) for item in value) if isinstance(value, tuple) else ()


def pad_pairs(subject: Subject, count: int) -> Iterator[tuple[int, int]]:
    """Iterate over the padding before and after each of the last axes; none but for explicit padding."""
    explicit = subject.attributes.get("pad_type") == "custom"
    pads = integers(subject, "pad") if explicit else ()
    for place in range(count):
        yield (pads[2 * place], pads[2 * place + 1]) if len(pads) >= 2 * count else (0, 0)


def depth_axis(tensor: TensorType) -> int | None:
    """Return which axis of a tensor is the engine's depth, if it has one."""
    return axis_of(Axis.DEPTH, tensor.rank) if 0 < tensor.rank <= MOST_AXES else None


def leftover(factor: int) -> int:
    """Return what is left of a factor once 2, 3, 4 and 8 are divided out.

    >>> leftover(48), leftover(10)
    (1, 5)
    """
    for prime in PRIMES:
        while factor > 0 and factor % prime == 0:
            factor //= prime
    return factor


def stored_bits(constant: Constant) -> int:
    """Return the bits in which one element of a constant is stored."""
    match constant:
        case Palette():
            return constant.bits
        case Sparse():
            return bits(constant.type.dtype)
        case Int8Affine():
            return 8
        case Blockwise():
            return bits(str(constant.data.dtype))
        case _:
            return bits(constant.type.dtype)
