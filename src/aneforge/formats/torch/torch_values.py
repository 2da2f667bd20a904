"""What a node of a program stands for while it is read: a tensor, a number, a list of them, or nothing usable."""

from __future__ import annotations

from aneforge.formats.shared.interpretation import Lost
from aneforge.graph.node import Output, Value
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

__all__ = ["Complex", "Held", "Number", "is_number", "is_value"]

Number = bool | int | float


@dataclass(frozen=True, slots=True)
class Complex:
    """Complex numbers as two real tensors: they exist while the program is read, and no graph has one."""

    real: Value
    imaginary: Value


Held = Value | Complex | Number | str | Lost | None | tuple["Held", ...]
"""Numbers are lengths and the arithmetic on them: they exist while the program is read, and no graph has one."""


def is_value(held: object) -> bool:
    """Return whether something is a tensor, computed or constant."""
    return isinstance(held, Output | Constant)


def is_number(held: object) -> bool:
    """Return whether something is a plain number."""
    return isinstance(held, bool | int | float)
