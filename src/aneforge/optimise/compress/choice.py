"""Which encoding a weight takes: the one that was asked for, or the first of a list that is close enough and safe.

An encoding that was asked for by its name is applied whatever its error and its hazard: the report and a warning say
them. `auto` takes one only if its error is within the bound, and if nothing that can meet the weight becomes infinite.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError, UnknownNameError
from aneforge.optimise.compress.encodings import (
    BLOCK_SIZE,
    blockwise,
    int4_palette,
    int8_per_channel,
    nonzero_share,
    sparse_bitmask,
)
from aneforge.optimise.compress.numbers import check_weight, relative_error
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.constant import Constant
    from aneforge.ops.types import Array
    from aneforge.optimise.compress.weighted_products import Axes

__all__ = ["MODES", "TOLERANCE", "Chosen", "Encoding", "Mode", "choose", "find_mode"]

MOST_NONZERO = 0.5
"""A bitmask is taken where at most this share of the elements is not zero."""
TOLERANCE = 0.05
"""Documented bound of the relative error."""


class Encoding(StrEnum):
    """An encoding, under the name that options and the table of streams have for it."""

    INT8 = "int8"
    INT4 = "int4"
    SPARSE = "sparse"
    BLOCKWISE = "blockwise"


NO_HAZARDS: Mapping[Encoding, str] = {}
MODES = (*(str(encoding) for encoding in Encoding), "auto")
AUTOMATIC = (Encoding.SPARSE, Encoding.INT4, Encoding.INT8)
"""What `auto` tries, in this order. Blockwise is not among them: no gain was measured (conflict S7)."""


@dataclass(frozen=True, slots=True)
class Mode:
    """Which encodings are tried on a weight, in order, and how close one must come."""

    encodings: tuple[Encoding, ...]
    atol: float = TOLERANCE
    block_size: int = BLOCK_SIZE
    left_out: tuple[Encoding, ...] = ()
    """Encodings that are not tried because they would not stream on the target."""
    named: bool = False
    """The one encoding was asked for by its name: it is applied whatever its error."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The encoding of one weight: the constant, or None where it stays as it was, and how it came to that."""

    constant: Constant | None
    error: float
    reason: str
    """Why each encoding that comes before the chosen one was not taken, or what speaks against the one that was asked
    for; empty where nothing does."""


def find_mode(name: object, streams: frozenset[str], *, atol: float = TOLERANCE, block_size: int = BLOCK_SIZE) -> Mode:
    """Return what a mode tries on a target where the encodings `streams` stream; a single one is always tried.

    >>> find_mode("auto", frozenset({"int4", "sparse"})).encodings
    (<Encoding.SPARSE: 'sparse'>, <Encoding.INT4: 'int4'>)
    >>> find_mode("int8", frozenset()).encodings
    (<Encoding.INT8: 'int8'>,)

    Raises:
        UnknownNameError: There is no such mode.
        GraphError: The bound of the error is negative or not a number, or the block size is not positive.
    """
    if not isinstance(name, str) or name not in MODES:
        raise UnknownNameError.of("mode of compression", name, MODES)
    if not is_number(atol) or not atol >= 0:
        raise GraphError("the bound of a weight's relative error is not 0 or more", seen=repr(atol))
    if type(block_size) is not int or block_size < 1:
        raise GraphError("the block size is not a positive integer", seen=repr(block_size), limit="1 or more")
    if name != "auto":
        return Mode((Encoding(name),), atol, block_size, named=True)
    tried = tuple(encoding for encoding in AUTOMATIC if encoding in streams)
    return Mode(tried, atol, block_size, tuple(encoding for encoding in AUTOMATIC if encoding not in streams))


def is_number(value: object) -> bool:
    """Return whether a value is a number; callers may be untyped."""
    return isinstance(value, int | float | np.floating | np.integer) and not isinstance(value, bool)


def choose(weight: Array, axes: Axes, dtype: str, mode: Mode, hazards: Mapping[Encoding, str] = NO_HAZARDS) -> Chosen:
    """Return the first encoding of a mode that is close enough to a weight, or the one that was asked for by name.

    `hazards` say of encodings what could become infinite with them: `auto` takes none of these.

    >>> import numpy as np
    >>> from aneforge.optimise.compress.weighted_products import Axes
    >>> chosen = choose(np.array([[0.0, 0.0, 3.0]]), Axes(0, 1), "fp16", find_mode("sparse", frozenset()))
    >>> chosen.constant.encoding, chosen.error
    ('sparse', 0.0)

    Raises:
        GraphTypeError: The weight is not an array of floating-point numbers.
        GraphError: It has no elements, or one that cannot be encoded.
    """
    check_weight(weight, dtype)
    reasons: list[str] = []
    for encoding in mode.encodings:
        refusal = beforehand(encoding, weight) or ("" if mode.named else hazards.get(encoding, ""))
        reasons += [f"{encoding}: {refusal}"] if refusal else []
        if refusal and not mode.named:
            continue
        constant = encode(encoding, weight, axes, dtype, mode.block_size)
        error = relative_error(constant.dense(), weight)
        reasons += [f"{encoding}: relative error {error:.4g} is over {mode.atol:g}"] if error > mode.atol else []
        if error <= mode.atol or mode.named:
            return Chosen(constant, error, "; ".join(reasons))
    reasons.extend(f"{encoding}: does not stream on this target" for encoding in mode.left_out)
    return Chosen(None, 0.0, "; ".join(reasons))


def beforehand(encoding: Encoding, weight: Array) -> str:
    """Return what speaks against an encoding before it is tried; empty if nothing does."""
    if encoding is not Encoding.SPARSE:
        return ""
    share = nonzero_share(weight)
    return f"{share:.1%} of the elements are not zero, over {MOST_NONZERO:.0%}" if share > MOST_NONZERO else ""


def encode(encoding: Encoding, weight: Array, axes: Axes, dtype: str, block_size: int) -> Constant:
    """Return a weight in an encoding, whose values decode to an element type."""
    match encoding:
        case Encoding.INT8:
            return int8_per_channel(weight, rows=axes.rows, dtype=dtype)
        case Encoding.INT4:
            return int4_palette(weight, dtype=dtype)
        case Encoding.SPARSE:
            return sparse_bitmask(weight, dtype=dtype)
        case Encoding.BLOCKWISE:
            return blockwise(weight, rows=axes.rows, columns=axes.columns, block_size=block_size, dtype=dtype)
