"""Products: convolutions, deconvolutions and matrix products with what is directly behind their sums.

An offset alone directly behind a product is where its sum starts (measured). A gain there works on the sum before it is
rounded. Behind anything else gain and offset work on fp16.

The form of a convolution is the compiler's choice (`winograd` among the layer's choices); where a program was not made
legal and holds none, the target's data and the shapes choose. int8 weights that stream enter as whole numbers and their
scale is the gain behind the sum; the activations that meet them pass the times-16 encoding (`engine.quantised`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.compiler.affine import Affine, affine_of_stage
from aneforge.compiler.ir.kind import Slot
from aneforge.engine.choices import switch
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.execution.epilogue import ONE_ROUNDING, Exact, along
from aneforge.engine.kernels.operations import PRODUCTS, TOTALS, through_crop
from aneforge.engine.planar import host_fp16
from aneforge.engine.products import convolution_by, form_of, matmul_by, transposed_window
from aneforge.ops.arithmetic import laid_along
from aneforge.ops.constant import Int8Affine

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from aneforge.compiler.ir.calls import Call
    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.engine.products import Products
    from aneforge.ops.groups.convolution import ConvAttributes, TransposeAttributes
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["PRODUCT_KINDS", "Product", "product_of"]

PRODUCT_KINDS = frozenset({"convolution", "deconvolution", "matmul", "linear"})
FOLDED_BYTES = "int8 weights enter as fp16 numbers, and activations are taken to pass the times-16 encoding"
STREAMED_SCALE = "int8 weights stream as whole numbers, and their scale is taken to be the gain behind the sum"


@dataclass(frozen=True, slots=True)
class Int8Weights:
    """int8 weights as they enter the multiplier."""

    values: Array
    scale: Array | None
    """The gain behind the sum, one for all or for every output channel; None for weights that were folded."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product ready to run."""

    multiply: Callable[[Array, Array], Array]
    """Rounded to fp16, gain and offset directly behind it included."""
    weights: Array | None
    """What enters in the place of an encoded operand."""
    start: Array | None
    """Where sums start."""
    stages: tuple[tuple[Slot, Stage], ...]
    """The slots that are left."""
    labels: tuple[Label, ...]
    winograd: bool


def product_of(layer: Layer, call: Call, target: Target) -> Product:
    """Return the product of a layer with what is directly behind its sum."""
    stages, rank = layer.epilogue.stages, layer.core_types[0].rank
    weights = int8_weights(layer, call)
    channels = 1 if call.op in {"conv", "conv_transpose"} else rank - 1
    affine = Affine(None if weights is None else weights.scale, None, channels)
    if stages and stages[0][0] is Slot.GAIN_OFFSET:
        affine, stages = affine.then(affine_of_stage(stages[0][1], rank)), stages[1:]
    exact = Exact.of(affine, rank) if affine.gain is not None else None
    start = along(affine.offset, rank, affine.axis) if exact is None else None
    form = convolution_form(layer, call, target) if call.op == "conv" else ""
    sums = sums_of(layer, call, form, start, PRODUCTS if exact is None else TOTALS)
    labels = [] if exact is None else [Label(Exactness.MODELLED, ONE_ROUNDING)]
    if weights is not None:
        labels.append(Label(Exactness.MODELLED, FOLDED_BYTES if weights.scale is None else STREAMED_SCALE))
    crops = weights is not None and bool(switch(target, "int8_weight_activation_x16"))

    def multiply(x: Array, weight: Array) -> Array:
        found = sums(through_crop(x) if crops else x, weight)
        return found if exact is None else exact(found)

    held = None if weights is None else weights.values
    return Product(multiply, held, start, stages, tuple(labels), winograd=form == "winograd")


def int8_weights(layer: Layer, call: Call) -> Int8Weights | None:
    """Return the second operand of a product where it is held in int8, else None.

    Where the encoding streams, the weights are whole numbers and the scale stands behind the sum; a scale along another
    axis than the output channels cannot, and folds.
    """
    constant = next(one for name, one in layer.operands.items() if call.names.get(name, name) != "x")
    if not isinstance(constant, Int8Affine):
        return None
    scale = constant.scale.astype(np.float64).ravel()
    if layer.choices.get("weights") != "streams" or (scale.size > 1 and constant.axis != channel_axis(constant, call)):
        return Int8Weights(host_fp16(constant.dense()), None)
    steps = constant.quantized.astype(np.float64)
    if constant.zero_point is not None:
        zero = constant.zero_point.astype(np.float64).ravel()
        steps -= laid_along(zero, steps.ndim, constant.axis) if zero.size > 1 else zero[0]
    return Int8Weights(host_fp16(steps), scale[0] if scale.size == 1 else scale)


def channel_axis(weights: Int8Affine, call: Call) -> int | None:
    """Return which axis of weights is that of the output channels; None for one that is not one axis."""
    match call.op:
        case "conv" | "linear":
            return 0
        case "conv_transpose":
            return 1 if call.attributes["groups"] == 1 else None
        case _:
            return weights.quantized.ndim - (2 if call.attributes["transpose_y"] else 1)


def convolution_form(layer: Layer, call: Call, target: Target) -> str:
    """Return the form of a convolution: direct, winograd or scaling."""
    x, weight = (layer.operand(name).type.shape for name in ("input", "weights"))
    form = form_of(x, weight, cast("ConvAttributes", call.attributes), target)
    chosen = layer.choices.get("winograd")
    if chosen is None or form == "scaling":
        return form
    return "winograd" if chosen is True else "direct"


def sums_of(
    layer: Layer, call: Call, form: str, start: Array | None, products: Products
) -> Callable[[Array, Array], Array]:
    """Return the function that multiplies, its sums begun at `start`: one for every output channel, or one for all."""
    (_, first), (_, second) = layer.refs()
    x, weight = first.type.shape, second.type.shape
    outer = layer.core_types[0].shape[1] if layer.core_types[0].rank > 1 else 1
    convolves = call.op in {"conv", "conv_transpose"}
    channels = None
    if convolves and start is not None:
        channels = np.ascontiguousarray(np.broadcast_to(start.ravel(), (outer,)))
    match call.op:
        case "conv":
            attributes = cast("ConvAttributes", call.attributes)
            convolve = convolution_by(form, x, weight, attributes, products)
            return lambda images, kernels: convolve(images, kernels, channels)
        case "conv_transpose":
            extents, window = transposed_window(x, weight, cast("TransposeAttributes", call.attributes))
            return lambda images, kernels: products.deconvolution(images, kernels, channels, extents=extents, **window)
        case "linear":
            return lambda left, right: products.matmul(left, right.T, start)
        case _:
            flags = {name: bool(call.attributes[name]) for name in ("transpose_x", "transpose_y")}
            matmul = matmul_by(products)
            return lambda left, right: matmul(left, right, start, **flags)
