"""Activation tables: the nine that were read from programs, and those of which two lines are the whole."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from aneforge.errors import HwxError, UnknownNameError
from aneforge.evidence import Evidence  # noqa: TC001 - msgspec reads the types of fields
from aneforge.targets import schema

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TABLE_BYTES", "LineTable", "line_table", "table_bytes", "tables"]

TABLE_BYTES = 128
NO_GRID = 0x40
"""Step of a table without a grid: only the lines beyond it are used."""
INFINITY = float("inf")


class TableEntry(schema.Entry, frozen=True):
    """A table as the file has it."""

    sha256: str
    published: bool
    """Someone else published this hash of the table."""
    halfwords: str


class TablesFile(schema.Entry, frozen=True):
    """The file of tables."""

    evidence: Evidence
    tables: dict[str, TableEntry]


@cache
def tables() -> Mapping[str, TableEntry]:
    """Return the tables that were read from programs, by name.

    >>> sorted(tables())
    ['exp2', 'gelu', 'log2', 'reciprocal', 'rsqrt', 'sigmoid', 'silu', 'sqrt', 'tanh']
    """
    return schema.read(Path(__file__).parent / "activation_tables.toml", TablesFile).tables


def table_bytes(name: str) -> bytes:
    """Return a table as a task reads it.

    Raises:
        UnknownNameError: No table of that name is known.
    """
    if name not in tables():
        raise UnknownNameError.of("activation table", name, tables())
    return np.array([int(word, 16) for word in tables()[name].halfwords.split()], "<u2").tobytes()


class LineTable(msgspec.Struct, frozen=True):
    """A function of two lines through 0, cut at thresholds. That tables without a grid are so read is inferred."""

    below_slope: float = 1.0
    above_slope: float = 1.0
    least: float = -INFINITY
    """Arguments below it give it."""
    most: float = INFINITY


def line_table(operation: str, number: float) -> LineTable:
    """Return the lines of an operation with a scalar.

    >>> line_table("leaky_relu", 0.125).below_slope
    0.125

    Raises:
        HwxError: The operation is not one of lines.
    """
    match operation:
        case "leaky_relu":
            return LineTable(below_slope=number)
        case "maximum":
            return LineTable(least=number)
        case "minimum":
            return LineTable(most=number)
        case _:
            raise HwxError("ANE-EMIT-001: no table of this operation is known", seen=operation)


def line_bytes(lines: LineTable) -> bytes:
    """Return a table without a grid."""
    halves = np.zeros(TABLE_BYTES // 2, np.float16)
    halves[:4] = (lines.least, lines.most, lines.least, lines.most)
    halves[37], halves[39] = lines.below_slope, lines.above_slope
    words = halves.view(np.uint16)
    words[41] = NO_GRID
    return words.astype("<u2").tobytes()
