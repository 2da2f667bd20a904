"""Changes of element type: by value, and by bits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.errors import GraphError
from aneforge.formats.onnx.onnx_values import Foreign
from aneforge.formats.onnx.registry import operator
from aneforge.formats.shared.elementary import has_sign
from aneforge.formats.shared.findings import UnsupportedNodeError
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import bits, is_float, numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.formats.onnx.call import Call
    from aneforge.formats.onnx.onnx_values import Value
    from aneforge.formats.shared.emitter import Emitter

LARGEST = {"fp8e4m3fn": 448.0, "fp8e5m2": 57344.0}
"""The largest numbers of types whose casts keep within them unless asked otherwise."""


@operator("Cast", since=6)
def cast(call: Call) -> Value:
    """Convert a change of element type."""
    return cast_to(call, call.value(0), call.dtype("to"))


@operator("CastLike", takes_all=True)
def cast_like(call: Call) -> Value:
    """Convert a change to the element type of another tensor."""
    like = call.held_at(1)
    if isinstance(like, Foreign):
        raise UnsupportedNodeError(like.reason, f"its result is {like.what}")
    return cast_to(call, call.value(0), call.value(1).type.dtype)


def cast_to(call: Call, x: Value, dtype: str) -> Value:
    """Return a tensor in another element type; a small floating type keeps what is too large at its end, by default."""
    saturates = "saturate" not in call.rules.attributes or call.flag("saturate")
    if dtype in ("int4", "uint4") and is_float(x.type.dtype):  # past the range the higher bits go, as onnx does it
        x = call.emit.cast(x, "int32")
    return call.emit.cast(keep_within(call.emit, x, dtype) if saturates else x, dtype)


def keep_within(emit: Emitter, x: Value, dtype: str) -> Value:
    """Return numbers moved into the range of a small floating type; of any other type nothing is done."""
    if dtype not in LARGEST or x.type.dtype == dtype or not is_float(x.type.dtype):
        return x
    return emit.unary("clip", x, alpha=-LARGEST[dtype], beta=LARGEST[dtype])


@dataclass(frozen=True, slots=True)
class Layout:
    """The bits of a floating type, as IEEE 754 lays them out."""

    width: int
    fraction: int

    @property
    def bias(self) -> int:
        """What is added to an exponent to store it."""
        return (1 << (self.width - self.fraction - 2)) - 1

    @property
    def infinite(self) -> int:
        """The bits of infinity, without a sign."""
        return ((1 << (self.width - self.fraction - 1)) - 1) << self.fraction


LAYOUTS = {"fp16": Layout(16, 10), "bf16": Layout(16, 7), "fp32": Layout(32, 23), "fp64": Layout(64, 52)}


@operator("BitCast")
def bit_cast(call: Call) -> Value:
    """Convert bits read as another type: a constant's as they are, others by the arithmetic of their layout."""
    x, dtype, emit = call.value(0), call.dtype("to"), call.emit
    own = x.type.dtype
    if bits(own) != bits(dtype):
        raise GraphError("the two element types have different widths", seen=f"{own} and {dtype}")
    if own == dtype:
        return x
    if isinstance(x, Constant) and numpy_dtype(own).itemsize * 8 == bits(own):
        return Dense(x.dense().view(numpy_dtype(dtype)))
    for one in (own, dtype):
        if is_float(one) and one not in LAYOUTS:
            raise GraphError(f"the bit layout of {one} is not that of IEEE 754")
    if is_float(own):
        whole = float_to_bits(emit, x, LAYOUTS[own])
        return bits_to_float(emit, whole, LAYOUTS[dtype], dtype) if is_float(dtype) else emit.cast(whole, dtype)
    return bits_to_float(emit, x, LAYOUTS[dtype], dtype) if is_float(dtype) else emit.cast(x, dtype)


def exponent_of(emit: Emitter, size: Value, layout: Layout) -> Value:
    """Return the exponent under which a magnitude is stored, within those of a layout."""
    exponent = emit.unary("floor", emit.unary("log2", size))
    # The logarithm of what is just below a power of two may round up to it.
    exponent = emit.sub(exponent, emit.cast(emit.binary("less", size, emit.unary("exp2", exponent)), size.type.dtype))
    return emit.unary("clip", exponent, alpha=1.0 - layout.bias, beta=float(layout.bias))


def round_to(emit: Emitter, x: Value, dtype: str) -> Value:
    """Return finite numbers rounded to a floating type, which the mathematics of the op table does not do by itself."""
    layout = LAYOUTS[dtype]
    step = emit.unary("exp2", emit.sub(exponent_of(emit, emit.unary("abs", x), layout), float(layout.fraction)))
    return emit.mul(emit.unary("round", emit.div(x, step)), step)


def float_to_bits(emit: Emitter, x: Value, layout: Layout) -> Value:
    """Return the bits of real numbers as unsigned integers; what is not a number has the bits of the usual one."""
    real = emit.cast(x, "fp64")
    size = emit.unary("abs", real)
    exponent = exponent_of(emit, size, layout)
    steps = emit.unary("round", emit.div(size, emit.unary("exp2", emit.sub(exponent, float(layout.fraction)))))
    stored = emit.cast(emit.add(exponent, layout.bias - 1.0), "uint64")
    finite = emit.add(emit.mul(stored, 1 << layout.fraction), emit.cast(steps, "uint64"))
    unsigned = emit.select(emit.binary("equal", size, math.inf), layout.infinite, finite)
    quiet = layout.infinite | 1 << (layout.fraction - 1)
    unsigned = emit.select(emit.binary("not_equal", real, real), quiet, unsigned)
    sign = emit.mul(emit.cast(has_sign(emit, real), "uint64"), 1 << (layout.width - 1))
    return emit.cast(emit.add(unsigned, sign), f"uint{layout.width}")


def bits_to_float(emit: Emitter, x: Value, layout: Layout, dtype: str) -> Value:
    """Return the real numbers that integers are the bits of."""
    whole = emit.cast(emit.cast(x, f"uint{layout.width}"), "uint64")
    unsigned = emit.binary("mod", whole, 1 << (layout.width - 1))
    stored = emit.binary("floor_div", unsigned, 1 << layout.fraction)
    steps = emit.cast(emit.binary("mod", unsigned, 1 << layout.fraction), "fp64")
    exponent = emit.cast(stored, "fp64")
    small = emit.binary("equal", stored, 0)
    steps = emit.select(small, steps, emit.add(steps, float(1 << layout.fraction)))
    power = emit.sub(emit.select(small, 1.0, exponent), float(layout.bias + layout.fraction))
    size = emit.mul(steps, emit.unary("exp2", power))
    size = emit.select(emit.binary("equal", unsigned, layout.infinite), math.inf, size)
    size = emit.select(emit.binary("greater", unsigned, layout.infinite), math.nan, size)
    negative = emit.binary("greater_equal", whole, 1 << (layout.width - 1))
    return emit.cast(emit.select(negative, emit.negative(size), size), dtype)
