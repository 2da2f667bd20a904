"""Activation tables that are not known ones, read as the known ones are: three roundings between two knots.

Bounds count first, then the lines beyond the grid, then the grid. Evidence is what the known tables have in common
(hwx-programs, section 4.2); tables on a mantissa are left out, for their exponents are handled in ways of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.activations import SEGMENTS, Tail, between, outward
from aneforge.errors import HwxError

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.formats.hwx.interpreter.activation_tables import ActivationTable

    Array = npt.NDArray[Any]

__all__ = ["interpolate"]

PLAIN, CENTRED, ODD = 0x00, 0x01, 0x60
"""Kinds of tables: a grid from 0, one with 0 in its middle, and one of magnitudes."""


def interpolate(x: Array, table: ActivationTable, task: int) -> Array:
    """Return a table's function at fp16 values; NaN counts as an infinity of its sign.

    Raises:
        HwxError: The kind of the table is not known.
    """
    wide = np.asarray(x, np.float64)
    values = np.where(np.isnan(wide), np.copysign(np.inf, wide), wide)
    if table.step is None:
        return bounded(values, table, beyond(values, table))
    knots, half = np.array(table.knots), table.step * SEGMENTS / 2
    if table.code == CENTRED:
        inside = outward(np.clip(values, -half, half), knots, table.step)
        lines = beyond(values, table)
        return bounded(values, table, np.where((values >= -half) & (values < half), inside, lines))
    if table.code in {PLAIN, ODD}:
        magnitudes = np.abs(values) if table.code == ODD else values
        inside = from_zero(np.clip(magnitudes, 0.0, 2 * half) / table.step, knots)
        lines = beyond(magnitudes, table)
        found = bounded(magnitudes, table, np.where((magnitudes >= 0) & (magnitudes < 2 * half), inside, lines))
        return np.where(np.signbit(values), -found, found) if table.code == ODD else found
    raise HwxError(
        f"task {task}: ne.nonlinearity: the kind of the activation's table is not known", seen=f"{table.code:#x}"
    )


def from_zero(places: Array, knots: Array) -> Array:
    """Return a table whose first knot is at 0, at places between knots."""
    start = np.minimum(np.floor(places), SEGMENTS - 1).astype(np.int64)
    return between(knots, start, start + 1, places - start)


def beyond(values: Array, table: ActivationTable) -> Array:
    """Return the lines of a table, the first left of 0."""
    left, right = (Tail(slope, intercept, 0.0, 0.0) for slope, intercept in table.lines)
    finite = np.where(np.isfinite(values), values, 0.0)
    return np.where(values < 0, left.value(finite), right.value(finite))


def bounded(values: Array, table: ActivationTable, found: Array) -> Array:
    """Return a function that is constant beyond its bounds; at infinities it is the constant too."""
    low, high = table.bounds
    at_low, at_high = (values <= low) | (values == -np.inf), (values >= high) | (values == np.inf)
    return np.where(at_high, table.ends[1], np.where(at_low, table.ends[0], found))
