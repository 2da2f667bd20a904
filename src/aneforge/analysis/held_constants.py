"""Constants that hold the same bits: a program holds them once, however many layers read them."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from aneforge.ops.declared import Declared
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Hashable

    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array

__all__ = ["HeldConstants", "sample_array"]

SAMPLED = 64
"""Elements of a constant that are looked at before all of them are."""


def sample_array(values: Array) -> bytes:
    """Return the bits of some elements, spread evenly; of all where they are few.

    >>> import numpy as np
    >>> sample_array(np.full(4, 64, np.int8)), len(sample_array(np.zeros((64, 64), np.int8)))
    (b'@@@@', 64)
    """
    return values.flat[:: max(1, values.size // SAMPLED)].tobytes()


@dataclass(slots=True)
class HeldConstants:
    """Numbers constants: equal numbers are equal bits in one encoding.

    >>> import numpy as np
    >>> from aneforge.ops.constant import Dense
    >>> held = HeldConstants()
    >>> [held.number(Dense(np.array([value]))) for value in (1.0, 2.0, 1.0)]
    [0, 1, 0]
    """

    numbers: dict[int, tuple[Constant, int]] = field(default_factory=dict[int, "tuple[Constant, int]"])
    """By the identity of constants, which are kept so that no other gets it."""
    alike: dict[Hashable, list[Constant]] = field(default_factory=dict["Hashable", "list[Constant]"])
    """Constants that differ, by what a sample of them shows."""

    def number(self, constant: Constant) -> int:
        """Return the number of a constant; whole ones are compared only where samples of them are equal."""
        if id(constant) not in self.numbers:
            alike = self.alike.setdefault(look_at(constant), [])
            same = next((one for one in alike if one == constant), None)
            number = len(self.numbers) if same is None else self.numbers[id(same)][1]
            if same is None:
                alike.append(constant)
            self.numbers[id(constant)] = constant, number
        return self.numbers[id(constant)][1]


def look_at(constant: Constant) -> Hashable:
    """Return what a sample of a constant shows; what has no values is distinguished by whose it is."""
    if isinstance(constant, Declared):
        return constant.digest
    parts = tuple((name, part.shape, sample_array(part)) for name, part in constant.parts.items())
    return constant.encoding, constant.type, parts
