"""What attention of every format needs: masks as numbers that are added to scores, and heads that are shared.

The attention layer adds a mask of the query's own element type and takes no booleans, so a mask of booleans
becomes one of 0 and a number that leaves no weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value
    from aneforge.ops.types import Array

__all__ = ["HIDDEN", "add_mask", "leaves_a_key", "repeat_heads"]

HIDDEN = -1e4
"""What is added to the score of a key that is not seen. Its weight, at most e to this power, is 0 in every element type
as long as scores are not nearly as far apart; and half precision holds it, where −infinity makes a row NaN that
sees no key."""


def add_mask(emit: Emitter, mask: Value, dtype: str) -> Value:
    """Return a mask as what is added to scores of an element type."""
    if mask.type.dtype != "bool":
        return emit.cast(mask, dtype)
    return emit.select(mask, emit.constant(0, dtype), emit.constant(HIDDEN, dtype))


def leaves_a_key(mask: Array) -> bool:
    """Return whether a mask lets every query see a key."""
    return bool(np.all(np.any(mask if mask.dtype == np.bool_ else mask > -np.inf, axis=-1)))


def repeat_heads(emit: Emitter, x: Value, times: int) -> Value:
    """Return keys or values with every head repeated for the queries that share it."""
    if times == 1:
        return x
    *lead, heads, length, width = x.type.shape
    spread = emit.spread(emit.expand(x, -3), (*lead, heads, times, length, width))
    return emit.reshape(spread, (*lead, heads * times, length, width))
