"""Activation tables: 64 halfwords that the neural engine interpolates in (hwx-programs, section 4.2).

A table that is one of the nine known ones is the operation that it was made for. Any other is kept as it is read:
bounds, knots, lines beyond them, grid and kind.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from aneforge.ops.signature import AttributeValue

__all__ = ["TABLE_BYTES", "ActivationTable", "NamedOperation", "read_table"]

TABLE_BYTES = 128
KNOTS = slice(4, 37)
NO_GRID = 0x40
"""What stands in the place of the grid's step where there is no grid: only the lines count."""


@dataclass(frozen=True, slots=True)
class NamedOperation:
    """An operation of the op table, with its attributes."""

    op: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict[str, "AttributeValue"])


KNOWN: Mapping[str, NamedOperation] = {
    "73f5680aa5f7b3833479e0ecd5a9dd0e3ec221e3aad5170e9db1e40e7a0c7469": NamedOperation("sigmoid"),
    "f4a38468b2a29430c8ffa4bb04cef84b8347394bbe2d6eb1081093ed4eaa57c6": NamedOperation("tanh"),
    "34540958c4c1928918d1f50b00a88a56a3b8291f13d0b010fe4646d1d7f89838": NamedOperation("gelu"),
    "0d48f9b9a9a791fcef312a765cd621e43acb2b56306b9bf491ee0957c5842897": NamedOperation("silu"),
    "b7b6085a1edc7def0f0bb2fc1fe345f1ba9d9a1a47e55b4516273149323b54d2": NamedOperation("exp2"),
    "d6889430e6ba96f59e9581b83919f7dd159c22229e8e9060b4c5518702c3d284": NamedOperation("log2"),
    "07dff4d87f5df889ef0981865b54a4253e00c12eb444430215be401fe2d69607": NamedOperation("sqrt"),
    "182158a2cbc0c3da91e3447d7afae8825d45a1e6396d611b4a48fb2ed8f0a6d3": NamedOperation("rsqrt", {"epsilon": 0.0}),
    "8a5840509d79c95c6e5a80bdb5938d55624a29211ab6f71f8c069191bef1538b": NamedOperation("inverse", {"epsilon": 0.0}),
}
"""Operations by the SHA-256 of their tables, published or computed from published halfwords."""


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
    known = KNOWN.get(hashlib.sha256(halves.astype("<u2").tobytes()).hexdigest())
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
    """Return a table of lines alone with the operation that lines are: a rectifier with a slope, or a bound."""
    (low, high), (left, right) = table.bounds, table.lines
    named: NamedOperation | None = None
    open_ended = low == -np.inf and high == np.inf
    if open_ended and left[1] == right[1] == 0 and right[0] == 1:
        named = NamedOperation("leaky_relu", {"alpha": left[0]})
    if left == right == (1.0, 0.0) and table.ends == (low, high) and not open_ended:
        named = NamedOperation("clip", {"alpha": low, "beta": high})
    return ActivationTable(table.bounds, table.ends, table.knots, table.lines, table.step, table.code, named)
