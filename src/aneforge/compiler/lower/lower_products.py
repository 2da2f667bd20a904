"""Convolutions and matrix products.

A bias becomes an addition of its own, as it arrives at the compiler from MIL; fusion puts it after the product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.ops.windows import one_each, pad_pairs, same_padding, slides

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Ref, Value
    from aneforge.compiler.lower.emitter import Emitter, Rule
    from aneforge.ops.signature import AttributeValue
from aneforge.ops.windows import WindowAttributes

__all__ = ["RULES"]

LAYOUTS = {3: "OIW", 4: "OIHW", 5: "OIDHW"}
TRANSPOSED_LAYOUTS = {3: "IOW", 4: "IOHW", 5: "IODHW"}


def convolution(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a convolution with its padding made explicit."""
    x, weight = emit.ref("x"), emit.ref("weight")
    kernel = weight.type.shape[2:]
    window = emit.node.attributes_as(WindowAttributes)
    along = slides(x.type.shape[2:], kernel, window)
    attributes: Mapping[str, AttributeValue] = {
        "strides": tuple(slide.stride for slide in along),
        "dilation_rates": tuple(slide.dilation for slide in along),
        "groups": emit.node.attributes["groups"],
        "explicit_padding": tuple(pad for slide in along for pad in (slide.before, slide.after)),
        "kernel_sizes": kernel,
        "weights_layout": LAYOUTS[weight.type.rank],
    }
    bias = emit.operands.get("bias")
    step = "" if bias is None else "conv"
    result = emit.add("convolution", {"input": x, "weights": weight}, attributes, step=step)
    return (with_bias(emit, result, axis=1),)


def deconvolution(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a transposed convolution with padding and size of the result made explicit."""
    x, weight = emit.ref("x"), emit.ref("weight")
    count, kernel = weight.type.rank - 2, weight.type.shape[2:]
    given = emit.node.attributes
    strides = one_each("strides", cast("tuple[int, ...] | None", given["strides"]), count)
    dilations = one_each("dilations", cast("tuple[int, ...] | None", given["dilations"]), count)
    sizes = emit.node.types[0].shape[2:]
    pairs = pad_pairs(str(given["pad_type"]), cast("tuple[int, ...] | None", given["pad"]), count)
    spans = [dilation * (length - 1) + 1 for dilation, length in zip(dilations, kernel, strict=True)]
    explicit = [
        pair if pair is not None else same_padding(places, size, stride, span, str(given["pad_type"]))
        for pair, places, size, stride, span in zip(pairs, x.type.shape[2:], sizes, strides, spans, strict=True)
    ]
    attributes: Mapping[str, AttributeValue] = {
        "strides": strides,
        "dilation_rates": dilations,
        "groups": given["groups"],
        "explicit_padding": tuple(pad for pair in explicit for pad in pair),
        "kernel_sizes": kernel,
        "weights_layout": TRANSPOSED_LAYOUTS[weight.type.rank],
        "output_sizes": sizes,
    }
    step = "" if emit.operands.get("bias") is None else "deconv"
    result = emit.add("deconvolution", {"input": x, "weights": weight}, attributes, step=step)
    return (with_bias(emit, result, axis=1),)


def with_bias(emit: Emitter, result: Value, axis: int) -> Value:
    """Add the bias of an operation, one number for every place of an axis."""
    bias = cast("Ref | None", emit.operands.get("bias"))
    if bias is None:
        return result
    shape = tuple(extent if place == axis % result.rank else 1 for place, extent in enumerate(result.shape))
    return emit.add("add", {"x": result, "y": emit.reshape(bias, shape, step="bias")})


def matmul(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a matrix product."""
    given = emit.node.attributes
    attributes = {
        "transpose_lhs": given.get("transpose_x", False),
        "transpose_rhs": given.get("transpose_y", False),
    }
    return (emit.add("matmul", {"lhs": emit.ref("x"), "rhs": emit.ref("y")}, attributes),)


def linear(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a linear layer."""
    step = "" if emit.operands.get("bias") is None else "linear"
    result = emit.add("linear", {"x": emit.ref("x"), "weight": emit.ref("weight")}, step=step)
    return (with_bias(emit, result, axis=-1),)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("conv", "dynamic_conv", "ne_conv"), convolution),
    "conv_transpose": deconvolution,
    **dict.fromkeys(("matmul", "ne_matmul", "bmm", "bmm_w"), matmul),
    "linear": linear,
}
