"""Logic on the bits of integers and shifts of them, by the arithmetic of the op table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.types import bits, value_range

if TYPE_CHECKING:
    from aneforge.formats.shared.emitter import Emitter
    from aneforge.graph.node import Value

__all__ = ["combine_bits", "invert_bits", "shift_bits"]


def invert_bits(emit: Emitter, x: Value) -> Value:
    """Return all bits turned round: −1 − x, or the greatest value − x where there is no sign."""
    if x.type.dtype == "bool":
        return emit.unary("logical_not", x)
    low, high = value_range(x.type.dtype)
    return emit.binary("sub", emit.constant(high if low == 0 else -1, x.type.dtype), x)


def shift_bits(emit: Emitter, x: Value, y: Value, *, left: bool) -> Value:
    """Return bits shifted: a product with, or a quotient by, a power of two.

    What is shifted out of all bits, or by a negative number, leaves copies of the sign to the right and 0 to the left.
    """
    dtype = x.type.dtype
    signed = dtype.startswith("int")
    powers = emit.binary("pow", emit.constant(2, dtype), y)
    shifted = emit.mul(x, powers) if left else emit.binary("floor_div", x, powers)
    # The highest power of a signed type is negative; a shift to the right by it leaves the sign alone.
    inside = emit.binary("less", y, bits(dtype) - (1 if signed and not left else 0))
    if not signed:
        return emit.select(inside, shifted, 0)
    inside = emit.binary("logical_and", inside, emit.binary("greater_equal", y, 0))
    fill = emit.number(0, x) if left else emit.select(emit.binary("less", x, 0), emit.number(-1, x), 0)
    return emit.select(inside, shifted, fill)


def separate_bits(emit: Emitter, x: Value) -> tuple[Value, Value]:
    """Return the bits of unsigned integers along a further last axis, and what each counts."""
    weights = emit.constant(1 << np.arange(bits(x.type.dtype), dtype=np.uint64), x.type.dtype)
    return emit.binary("mod", emit.binary("floor_div", emit.expand(x, -1), weights), 2), weights


def combine_bits(emit: Emitter, kind: str, x: Value, y: Value) -> Value:
    """Return "and", "or" or "xor" of bits.

    x and y share the bits whose product is 1; "or" and "xor" follow from that and the sum.
    """
    dtype = x.type.dtype
    unsigned = dtype if dtype.startswith("u") else f"u{dtype}"
    x, y = emit.cast(x, unsigned), emit.cast(y, unsigned)
    (x_bits, weights), (y_bits, _) = separate_bits(emit, x), separate_bits(emit, y)
    both = emit.reduce("reduce_sum", emit.mul(emit.mul(x_bits, y_bits), weights), (-1,), keep=False)
    if kind == "and":
        return emit.cast(both, dtype)
    result = emit.sub(emit.add(x, y), both)
    return emit.cast(result if kind == "or" else emit.sub(result, both), dtype)
