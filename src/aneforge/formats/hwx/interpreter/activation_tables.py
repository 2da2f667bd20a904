"""Activation tables: 64 halfwords that the neural engine interpolates in (hwx-programs, section 4.2).

A table that is one of the nine known ones is the operation that it was made for. Any other is kept as it is read:
bounds, knots, lines beyond them, grid and kind.
"""

from __future__ import annotations

import hashlib
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.hwx.emission.activation_tables import NO_GRID, TABLE_BYTES, tables
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from aneforge.ops.signature import AttributeValue

__all__ = ["NO_GRID", "TABLE_BYTES", "ActivationTable", "NamedOperation", "read_table"]

KNOTS = slice(4, 37)


@dataclass(frozen=True, slots=True)
class NamedOperation:
    """An operation of the op table, with its attributes."""

    op: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict[str, "AttributeValue"])


SPELT: Mapping[str, NamedOperation] = {
    "reciprocal": NamedOperation("inverse", {"epsilon": 0.0}),
    "rsqrt": NamedOperation("rsqrt", {"epsilon": 0.0}),
}
"""Operations of tables whose name or attributes differ from theirs."""


@cache
def read_known_tables() -> Mapping[str, NamedOperation]:
    """Return the operations of the known tables, by the SHA-256 of the table."""
    return {entry.sha256: SPELT.get(name, NamedOperation(name)) for name, entry in tables().items()}


@dataclass(frozen=True, slots=True)
class ActivationTable:
    """A table as the engine reads it; numbers are fp16."""

    bounds: tuple[float, float]
    """Below the first and above the second the function is constant."""
    ends: tuple[float, float]
    """What it is there."""
    knots: tuple[float, ...]
    lines: tuple[tuple[float, float], tuple[float, float]]
    """Slope and intercept below the grid and above it."""
    step: float | None
    """From one knot to the next; None where there is no grid."""
    code: int
    """What kind of table it is: its symmetry and where its grid begins."""
    operation: NamedOperation | None
    """The operation that it is the table of, if it is a known one."""


def read_table(halves: NDArray[np.uint16]) -> ActivationTable:
    """Return a table, recognised or not.

    >>> halves = np.zeros(64, np.uint16)
    >>> halves[[1, 3, 37, 39, 41]] = 0x7C00, 0x7C00, 0x2E66, 0x3C00, NO_GRID
    >>> halves[[0, 2]] = 0xFC00, 0xFC00
    >>> read_table(halves).operation
    NamedOperation(op='leaky_relu', attributes={'alpha': 0.0999755859375})
    """
    numbers = [float(value) for value in halves.view(np.float16)]
    known = read_known_tables().get(hashlib.sha256(halves.astype("<u2").tobytes()).hexdigest())
    exponent = int(halves[41])
    table = ActivationTable(
        bounds=(numbers[0], numbers[1]),
        ends=(numbers[2], numbers[3]),
        knots=tuple(numbers[KNOTS]),
        lines=((numbers[37], numbers[38]), (numbers[39], numbers[40])),
        step=None if exponent >= NO_GRID else 2.0**-exponent,
        code=int(halves[42]),
        operation=known,
    )
    return table if known or table.step is not None else with_lines_named(table)


def with_lines_named(table: ActivationTable) -> ActivationTable:
    """Return a table of only lines with the operation that lines are: a rectifier with a slope, or a bound."""
    (low, high), (left, right) = table.bounds, table.lines
    named: NamedOperation | None = None
    open_ended = low == -np.inf and high == np.inf
    if open_ended and left[1] == right[1] == 0 and right[0] == 1:
        named = NamedOperation("leaky_relu", {"alpha": left[0]})
    if left == right == (1.0, 0.0) and table.ends == (low, high) and not open_ended:
        named = NamedOperation("clip", {"alpha": low, "beta": high})
    return ActivationTable(table.bounds, table.ends, table.knots, table.lines, table.step, table.code, named)
