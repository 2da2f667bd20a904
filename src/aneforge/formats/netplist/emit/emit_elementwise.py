"""Operations on every element by itself: activations, pairs, comparisons and logic, gain and offset, casts.

Booleans are kept as 1 and 0, which is what comparisons give.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.netplist.emit.write_row import row_of, write_row
from aneforge.formats.netplist.netplist_values import IMAGE, Held, Known, Placed, Places, Reshaped, Truncated
from aneforge.formats.netplist.schema import Dim
from aneforge.ops.table import find_op
from aneforge.ops.types import is_float, numpy_dtype

if TYPE_CHECKING:
    from aneforge.formats.netplist.call import Call, Writer
    from aneforge.formats.netplist.emitter import Emitter

__all__ = ["ELEMENTWISE", "compare", "gain_offset"]

DYNAMIC_CHANNELS = (1, 2, 3, 4, 8)
"""Channels with which a DynamicGOC unit was accepted."""
WHOLE = ("int32", "uint16")


# Gain and offset


def gain_offset(to: Emitter, x: Held, scale: float, offset: float) -> Placed:
    """Write a product with a number and a sum with one."""
    params = {"ScaleScalar": to.number(scale, "the factor"), "BiasScalar": to.number(offset, "the summand")}
    placed = to.floats(x)
    return to.unit("GOC", [placed], params, placed)


def dynamic_goc(call: Call) -> Held:
    """Write a gain and an offset for every channel, or their product and sum where the layer takes no such channels."""
    to, x = call.to, call.to.floats(call.x)
    given = {name: value for name in ("gain", "offset") if (value := call.optional(name)) is not None}
    channels, others = call.shape[1], len(call.shape) - 2
    if channels in DYNAMIC_CHANNELS and others <= 2:
        x = to.place(x, (*IMAGE[:2], *IMAGE[4 - others :]))
        vectors = [to.place(value, (Dim.CHANNEL,)) for value in given.values()]
        return to.unit("DynamicGOC", [x, *vectors], {"BiasOnly": list(given) == ["offset"]}, x)
    to.note(f"{channels} channels: a product and a sum with what is repeated, for DynamicGOC takes 1, 2, 3, 4 or 8")
    result: Held = x
    for name, value in given.items():
        vector = value.reshaped((channels, *(1,) * others))
        result = pair_of(to, "Mult" if name == "gain" else "Add", result, vector, call.shape)
    return result


def dropout(call: Call) -> Held:
    """Write a dropout that drops nothing.

    Raises:
        NotSupportedError: It drops something.
    """
    if call.node.number("rate"):
        raise call.to.refuse(
            "no source says how a layer gets a dropout rate, or what it draws",
            seen=call.node.number("rate"),
            limit=0,
            nearest="a product with a mask that the caller gives",
        )
    return write_row(call, seed=max(call.node.integer("seed"), 0))


# Pairs


def pair_of(to: Emitter, kind: str, x: Held, y: Held, shape: tuple[int, ...]) -> Placed:
    """Write a function of pairs of elements."""
    to.expect_floats(x, y)
    bottoms = to.pair(x, y, shape)
    return to.unit("ElementWise", bottoms, {"Type": kind}, bottoms[0])


# Comparisons and logic


def compare(to: Emitter, kind: str, x: Held, y: Held, shape: tuple[int, ...]) -> Placed:
    """Write a comparison, which gives booleans."""
    return replace(pair_of(to, kind, as_numbers(x), as_numbers(y), shape), dtype="bool")


def as_numbers(value: Held) -> Held:
    """Return booleans as the numbers 1 and 0 that they are kept as, and anything else as it is."""
    if value.dtype != "bool" or isinstance(value, Places | Truncated):
        return value
    if isinstance(value, Known):
        return Known(value.values.astype(np.float16), "fp16")
    if isinstance(value, Reshaped):
        return replace(value, base=replace(value.base, dtype="fp16"))
    return replace(value, dtype="fp16")


def comparison(call: Call) -> Held:
    """Write a comparison that has a layer."""
    row, _ = row_of(call)
    return compare(call.to, str(row.entry.params["Type"]), call.x, call.operand("y"), call.shape)


def or_equal(call: Call) -> Held:
    """Write a comparison that includes equality: the larger of two."""
    strict = {"less_equal": "LessThan", "greater_equal": "GreaterThan"}[call.node.op.name]
    to, x, y = call.to, call.x, call.operand("y")
    parts = [as_numbers(compare(to, kind, x, y, call.shape)) for kind in (strict, "Equal")]
    return replace(pair_of(to, "Max", parts[0], parts[1], call.shape), dtype="bool")


LOGIC = {"logical_and": "Mult", "logical_or": "Max", "logical_xor": "NotEqual"}


def logic(call: Call) -> Held:
    """Write logic of two booleans."""
    x, y = as_numbers(call.x), as_numbers(call.operand("y"))
    return replace(pair_of(call.to, LOGIC[call.node.op.name], x, y, call.shape), dtype="bool")


def logical_not(call: Call) -> Held:
    """Write the contrary of a boolean."""
    return replace(gain_offset(call.to, as_numbers(call.x), -1.0, 1.0), dtype="bool")


# Casts


def cast_to(call: Call) -> Held:
    """Write a cast, of which there is none: booleans and places are numbers already.

    Raises:
        NotSupportedError: Elements would have to change.
    """
    to, x, dtype = call.to, call.x, call.node.text("dtype")
    if x.dtype == dtype:
        return x
    if isinstance(x, Known):
        return cast_constant(x, dtype)
    if dtype == "fp16" and x.dtype == "bool":
        return as_numbers(x)
    if dtype == "bool" and x.dtype == "fp16":
        return compare(to, "NotEqual", x, to.add_known(np.zeros((1,) * len(x.shape))), tuple(x.shape))
    if isinstance(x, Places):
        return x.write_as("Float16") if dtype == "fp16" else replace(x, dtype=dtype)
    if x.dtype == "fp16" and dtype in WHOLE and isinstance(x, Placed | Reshaped):
        return Truncated(x, dtype)
    raise to.refuse(
        "no layer converts elements of one type into another",
        seen=f"{x.dtype} to {dtype}",
        limit="bool and places of elements to fp16",
        nearest="an input of the other type, converted by the caller",
    )


def cast_constant(value: Known, dtype: str) -> Known:
    """Return a constant in another element type."""
    given = value.values.astype(np.float64) if is_float(value.dtype) else value.values
    (result,) = find_op("cast").evaluate({"x": given}, {"dtype": dtype})
    return Known(result.astype(numpy_dtype(dtype)), dtype)


ELEMENTWISE: dict[str, Writer] = {
    **dict.fromkeys(("greater", "less", "equal", "not_equal"), comparison),
    **dict.fromkeys(("less_equal", "greater_equal"), or_equal),
    **dict.fromkeys(LOGIC, logic),
    "cast": cast_to,
    "dropout": dropout,
    "dynamic_goc": dynamic_goc,
    "logical_not": logical_not,
}
