"""Convolution, deconvolution and matrix product in the compiler's form: listings 22.1 and 22.2 of the guide.

A convolution has no bias of its own: it arrives as an addition and is fused into the gain and offset after the layer.
Padding is explicit, two numbers for every spatial axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict, Unpack

from aneforge.compiler.ir.kind import LayerForm
from aneforge.errors import GraphError
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.types import Array, TensorType

__all__ = ["FORMS"]

WINDOW = (
    Attribute("strides", AttributeKind.INTEGERS, least=1),
    Attribute("dilation_rates", AttributeKind.INTEGERS, least=1),
    Attribute("groups", AttributeKind.INTEGER, 1, least=1),
    Attribute("explicit_padding", AttributeKind.INTEGERS, least=0),
    Attribute("padding_style", AttributeKind.TEXT, "EXPLICIT", choices=("EXPLICIT",)),
    Attribute("kernel_sizes", AttributeKind.INTEGERS, least=1),
)
LAYOUT = Attribute("weights_layout", AttributeKind.TEXT, "OIHW", choices=("OIHW", "OIW", "OIDHW"))
TRANSPOSED_LAYOUT = Attribute("weights_layout", AttributeKind.TEXT, "IOHW", choices=("IOHW", "IOW", "IODHW"))
OUTPUT_SIZES = Attribute("output_sizes", AttributeKind.INTEGERS, least=1)
TRANSPOSES = (
    Attribute("transpose_lhs", AttributeKind.FLAG, default=False),
    Attribute("transpose_rhs", AttributeKind.FLAG, default=False),
)


class Window(TypedDict):
    """How the kernel goes."""

    strides: tuple[int, ...]
    dilation_rates: tuple[int, ...]
    groups: int
    explicit_padding: tuple[int, ...]
    padding_style: str
    kernel_sizes: tuple[int, ...]
    weights_layout: str


class TransposedWindow(Window):
    """How the kernel of a deconvolution goes, and how large the result is."""

    output_sizes: tuple[int, ...]


def own_attributes(window: Window, weights: tuple[int, ...]) -> dict[str, AttributeValue]:
    """Return the attributes as the op table spells them.

    Raises:
        GraphError: The kernel or its layout is not that of the weights.
    """
    if window["kernel_sizes"] != weights[2:]:
        raise GraphError("kernel_sizes are not those of the weights", seen=window["kernel_sizes"], limit=weights[2:])
    if len(window["weights_layout"]) != len(weights):
        raise GraphError("weights_layout does not fit the weights", seen=window["weights_layout"], limit=len(weights))
    return {
        "strides": window["strides"],
        "pad_type": "custom",
        "pad": window["explicit_padding"],
        "dilations": window["dilation_rates"],
        "groups": window["groups"],
    }


def convolution_type(x: TensorType, weights: TensorType, **window: Unpack[Window]) -> TensorType:
    """Return the type of a convolution's result."""
    (result,) = find_op("conv").types({"x": x, "weight": weights}, own_attributes(window, weights.shape))
    return result


def convolution(x: Array, weights: Array, **window: Unpack[Window]) -> Array:
    """Convolve."""
    (result,) = find_op("conv").evaluate({"x": x, "weight": weights}, own_attributes(window, weights.shape))
    return result


def deconvolution_type(x: TensorType, weights: TensorType, **window: Unpack[TransposedWindow]) -> TensorType:
    """Return the type of a deconvolution's result."""
    (result,) = find_op("conv_transpose").types({"x": x, "weight": weights}, transpose(x.shape, weights, window))
    return result


def deconvolution(x: Array, weights: Array, **window: Unpack[TransposedWindow]) -> Array:
    """Convolve the other way round."""
    attributes = transpose(x.shape, weights, window)
    (result,) = find_op("conv_transpose").evaluate({"x": x, "weight": weights}, attributes)
    return result


def transpose(
    shape: tuple[int, ...], weights: Array | TensorType, window: TransposedWindow
) -> dict[str, AttributeValue]:
    """Return the attributes of a deconvolution as the op table spells them."""
    own = own_attributes(window, weights.shape)
    return {**own, "output_shape": (shape[0], weights.shape[1] * window["groups"], *window["output_sizes"])}


def matmul_type(lhs: TensorType, rhs: TensorType, *, transpose_lhs: bool, transpose_rhs: bool) -> TensorType:
    """Return the type of a matrix product."""
    attributes: dict[str, AttributeValue] = {"transpose_x": transpose_lhs, "transpose_y": transpose_rhs}
    (result,) = find_op("matmul").types({"x": lhs, "y": rhs}, attributes)
    return result


def matmul(lhs: Array, rhs: Array, *, transpose_lhs: bool, transpose_rhs: bool) -> Array:
    """Multiply matrices."""
    attributes: dict[str, AttributeValue] = {"transpose_x": transpose_lhs, "transpose_y": transpose_rhs}
    (result,) = find_op("matmul").evaluate({"x": lhs, "y": rhs}, attributes)
    return result


SOURCE_AND_WEIGHTS = (Operand("input"), Operand("weights"))
FORMS = {
    "convolution": LayerForm(
        operands=SOURCE_AND_WEIGHTS, attributes=(*WINDOW, LAYOUT), infer=convolution_type, meaning=convolution
    ),
    "deconvolution": LayerForm(
        operands=SOURCE_AND_WEIGHTS,
        attributes=(*WINDOW, TRANSPOSED_LAYOUT, OUTPUT_SIZES),
        infer=deconvolution_type,
        meaning=deconvolution,
    ),
    "matmul": LayerForm(
        operands=(Operand("lhs"), Operand("rhs")), attributes=TRANSPOSES, infer=matmul_type, meaning=matmul
    ),
}
