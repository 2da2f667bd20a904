"""Products before their last rounding: the sums that gain and offset behind a product work on.

The form of a convolution is the compiler's choice (`winograd` among the layer's choices); where a program was not made
legal and holds none, the target's data and the shapes choose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.engine import golden
from aneforge.engine.products import form_of, matrices, pads_of, transposed_sum, window_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.compiler.ir.calls import Call
    from aneforge.compiler.ir.layer import Layer
    from aneforge.ops.groups.convolution import ConvAttributes, TransposeAttributes
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["convolution_form", "total_of"]


def convolution_form(layer: Layer, x: Array, weight: Array, attributes: ConvAttributes, target: Target) -> str:
    """Return the form of a convolution: direct, winograd or scaling."""
    chosen = layer.choices.get("winograd")
    form = form_of(x.shape, weight.shape, attributes, target)
    if chosen is None or form == "scaling":
        return form
    return "winograd" if chosen is True else "direct"


def total_of(layer: Layer, operands: Mapping[str, Array], call: Call, target: Target, start: Array | None) -> Array:
    """Return the sums of a product, begun at `start` (one for every output channel, or one for all), in float64."""
    match call.op:
        case "conv":
            return convolved(layer, operands, cast("ConvAttributes", call.attributes), target, start)
        case "conv_transpose":
            attributes = cast("TransposeAttributes", call.attributes)
            bias = one_each(start, layer.core_types[0].shape[1])
            return transposed_sum(operands["x"], operands["weight"], bias, attributes).total()
        case "linear":
            return golden.matmul_sum(operands["x"], operands["weight"].T, start).total()
        case _:
            return multiplied(operands, call, start)


def convolved(
    layer: Layer, operands: Mapping[str, Array], attributes: ConvAttributes, target: Target, start: Array | None
) -> Array:
    """Return the sums of a convolution."""
    x, weight = operands["x"], operands["weight"]
    bias = one_each(start, weight.shape[0])
    match convolution_form(layer, x, weight, attributes, target):
        case "winograd":
            return golden.winograd_total(x, weight, bias, pad=pads_of(x.shape[2:], weight.shape[2:], attributes))
        case "scaling":
            pads = pads_of(x.shape[2:], weight.shape[2:], attributes)
            return golden.scaling_convolution(np.pad(x, [(0, 0), (0, 0), *pads]), weight, bias)
        case _:
            window = window_of(x.shape[2:], weight.shape[2:], attributes)
            return golden.convolution_sum(x, weight, bias, **window).total()


def multiplied(operands: Mapping[str, Array], call: Call, start: Array | None) -> Array:
    """Return the sums of a matrix product; a vector is a row on the left and a column on the right."""
    x, y = operands["x"], operands["y"]
    flags = {name: bool(call.attributes[name]) for name in ("transpose_x", "transpose_y")}
    left, right = matrices(x, y, **flags)
    total = golden.matmul_sum(left, right, start).total()
    total = total[..., 0, :] if x.ndim == 1 else total
    return total[..., 0] if y.ndim == 1 else total


def one_each(start: Array | None, channels: int) -> Array | None:
    """Return a start for every output channel."""
    return None if start is None else np.broadcast_to(start.reshape(-1), (channels,))
