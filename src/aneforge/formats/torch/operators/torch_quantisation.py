"""Numbers made multiples of a scale and back at once, as quantisation-aware training leaves them in a program.

Where the steps are those of eight bits and scales and zero points are known, the op table's own operations stand for
it; a narrower range, or a scale that is computed, is done by arithmetic. PyTorch holds scales in single precision,
whatever the element type of the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.torch.registry import operator
from aneforge.ops.constant import Constant
from aneforge.ops.types import value_range

if TYPE_CHECKING:
    from aneforge.formats.torch.call import Call
    from aneforge.graph.node import Value

EIGHT_BITS = ("int8", "uint8")
ENABLED = "fake_quant_enabled"


@operator(
    "fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine_cachemask",
    "fake_quantize_per_channel_affine_cachemask", "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
)  # fmt: skip
def fake_quantised(call: Call) -> Value | tuple[Value, Value]:
    """Convert numbers rounded to steps of a scale; with a mask, also which of them are within the range."""
    x, emit = call.value("self"), call.emit
    masked = "cachemask" in call.operator
    if ENABLED in call.arguments and not np.all(call.expect_known(ENABLED, "whether it is enabled")):
        return x, emit.filled(x.type.shape, 1, "bool")
    axis = call.axis("axis", x.type.rank) if "axis" in call.arguments else None
    scale, zero = parameter(call, "scale", x, axis), parameter(call, "zero_point", x, axis)
    low, high = call.integer("quant_min"), call.integer("quant_max")
    dtype = next((one for one in EIGHT_BITS if value_range(one) == (low, high)), None)
    if dtype and not masked and isinstance(scale, Constant) and isinstance(zero, Constant) and fits(zero, dtype):
        return in_eight_bits(call, x, scale, zero, dtype, axis)
    steps = emit.add(emit.unary("round", emit.div(x, scale)), zero)
    kept = emit.unary("clip", steps, alpha=float(low), beta=float(high))
    result = emit.mul(emit.sub(kept, zero), scale)
    return (result, emit.binary("equal", steps, kept)) if masked else result


def parameter(call: Call, name: str, x: Value, axis: int | None) -> Value:
    """Return a scale or zero point in the element type of the numbers, in a shape that broadcasts to theirs.

    Raises:
        GraphError: It must have one number for each channel.
    """
    emit = call.emit
    given = call.arguments.get(name)
    found = emit.constant(np.float32(given), x.type.dtype) if isinstance(given, int | float) else call.value(name)
    found = emit.cast(found, x.type.dtype)
    if axis is None:
        return emit.reshape(found, ())
    if found.type.size != x.type.shape[axis]:
        raise GraphError(
            f"{name} must have one number for each channel", seen=found.type.size, limit=x.type.shape[axis]
        )
    return emit.reshape(found, [found.type.size if one == axis else 1 for one in range(x.type.rank)])


def fits(zero: Constant, dtype: str) -> bool:
    """Return whether zero points are integers of an element type."""
    low, high = value_range(dtype)
    numbers = zero.dense().astype(np.float64)
    return bool(np.all((numbers >= low) & (numbers <= high) & (numbers == np.rint(numbers))))


def in_eight_bits(call: Call, x: Value, scale: Constant, zero: Constant, dtype: str, axis: int | None) -> Value:
    """Return numbers quantised to eight bits and back."""
    emit = call.emit
    shape = () if axis is None else (scale.type.size,)
    steps = emit.reshape(scale, shape)
    start = emit.cast(emit.reshape(zero, shape), dtype)
    small = emit.apply("quantize", {"input": x, "scale": steps, "zero_point": start}, output_dtype=dtype, axis=axis)
    return emit.apply("dequantize", {"input": small, "scale": steps, "zero_point": start}, axis=axis)
