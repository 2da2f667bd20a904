"""Operations on the multiply-accumulate path, as the op table has them, and which form a convolution takes.

The sums are those of `golden`. A convolution has three forms: *scaling* for a 1×1 kernel on one input channel,
*winograd* for the kernels that the target's data and the choices name, *direct* for all others. The compiler chooses;
`form_of` is the choice by target and shape for code that runs an operation by itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from aneforge.engine import golden
from aneforge.engine.choices import choices, doubts_of, switch
from aneforge.engine.exactness import Exactness, Label
from aneforge.engine.rounding import decode_operand
from aneforge.ops.groups.convolution import conv_transpose_type
from aneforge.ops.labels import label_extents, labels_of
from aneforge.ops.types import TensorType
from aneforge.ops.windows import ConvAttributes, TransposeAttributes, slides, window_attributes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = [
    "BY_PRODUCTS",
    "DOUBTS",
    "DOUBTS_OF_VALUES",
    "FOR_TARGET",
    "FUNCTIONS",
    "Products",
    "convolution_by",
    "form_of",
    "matmul_by",
    "transposed_window",
]

ORDER_OF_SUMS = (
    "the magnitudes of a sum add to 2^15 or more: the order in which partial sums pass the edge is not known"
)
NOT_A_MEASURED_SHAPE = (
    "published figures of convolutions are for 1×1 and 3×3 kernels of stride 1 without groups and dilation; others are "
    "assumed to have the same direct sums"
)


# Matrices.


def matrices(x: Array, y: Array, *, transpose_x: bool, transpose_y: bool) -> tuple[Array, Array]:
    """Return the operands of a product as matrices: a vector is a row on the left and a column on the right."""
    left = x[None] if x.ndim == 1 else np.swapaxes(x, -1, -2) if transpose_x else x
    right = y[:, None] if y.ndim == 1 else np.swapaxes(y, -1, -2) if transpose_y else y
    return left, right


@dataclass(frozen=True, slots=True)
class Products:
    """The sums that operations are made of; the kernels have them too, rounded or not."""

    matmul: Callable[[Array, Array, Array | None], Array]
    convolution: Callable[..., Array]
    winograd: Callable[..., Array]
    scaling: Callable[[Array, Array, Array | None], Array]
    deconvolution: Callable[..., Array]


GOLDEN = Products(
    golden.matmul,
    golden.convolution,
    golden.winograd_convolution,
    golden.scaling_convolution,
    golden.deconvolution,
)


def matmul_by(products: Products) -> Callable[..., Array]:
    """Return the matrix product; it makes no difference which operand is constant."""

    def function(
        x: Array, y: Array, start: Array | None = None, *, transpose_x: bool = False, transpose_y: bool = False
    ) -> Array:
        left, right = matrices(x, y, transpose_x=transpose_x, transpose_y=transpose_y)
        result = products.matmul(left, right, start)
        result = result[..., 0, :] if x.ndim == 1 else result
        return result[..., 0] if y.ndim == 1 else result

    return function


def linear_by(products: Products) -> Callable[..., Array]:
    """Return x · weightᵀ + bias, the bias in the sum from its start."""

    def function(x: Array, weight: Array, bias: Array | None) -> Array:
        return products.matmul(x, weight.T, wide(bias))

    return function


def wide(values: Array | None) -> Array | None:
    """Return numbers in float64, where they are given."""
    return None if values is None else values.astype(np.float64)


def einsum(values: tuple[Array, ...], *, equation: str) -> Array:
    """Return the sum of products over the labels that the result does not have, one sum for each of its places."""
    first, second, result = labels_of(equation)
    types = [TensorType(tuple(value.shape)) for value in values]
    extents = label_extents(types, equation)
    summed = [label for label in extents if label not in result]
    order = [*result, *summed]
    a, b = (lay_out(value, labels, order) for value, labels in zip(values, (first, second), strict=True))
    shape = tuple(extents[label] for label in result)
    left, right = decode_operand(a), decode_operand(b)
    places = np.ndindex(*(extents[label] for label in summed))

    def terms() -> Iterator[Array]:
        for place in places:
            yield golden.product(one_term(left, place), one_term(right, place))

    return golden.Sum(np.zeros(shape), terms).result()


def lay_out(value: Array, labels: str, order: list[str]) -> Array:
    """Return an operand with one axis for every label in order, of length 1 where it has none; a label twice is one."""
    distinct = list(dict.fromkeys(labels))
    diagonal = np.einsum(value, [distinct.index(label) for label in labels], range(len(distinct)))
    present = [label for label in order if label in distinct]
    moved = diagonal.transpose([distinct.index(label) for label in present])
    return np.expand_dims(moved, [place for place, label in enumerate(order) if label not in distinct])


def one_term(operand: tuple[Array, Array], place: tuple[int, ...]) -> tuple[Array, Array]:
    """Return what an operand contributes at one place of the labels that are summed."""
    values, exponents = operand
    extents = values.shape[values.ndim - len(place) :]
    index = (..., *(one if extent > 1 else 0 for one, extent in zip(place, extents, strict=True)))
    return values[index], exponents[index]


def cross_correlation_by(products: Products) -> Callable[..., Array]:
    """Return the sums of products of a template with every window of an image."""

    def function(x: Array, template: Array) -> Array:
        return products.convolution(x[None, None], template[None, None])[0, 0]

    return function


# Convolutions.


def window_of(extents: tuple[int, ...], kernel: tuple[int, ...], attributes: ConvAttributes) -> golden.Window:
    """Return the window of a convolution with all that its attributes leave open."""
    along = slides(extents, kernel, window_attributes(attributes))
    return {
        "stride": [slide.stride for slide in along],
        "pad": pads_of(extents, kernel, attributes),
        "dilation": [slide.dilation for slide in along],
        "groups": attributes["groups"],
    }


def pads_of(extents: tuple[int, ...], kernel: tuple[int, ...], attributes: ConvAttributes) -> list[tuple[int, int]]:
    """Return the padding before and after each axis."""
    return [(slide.before, slide.after) for slide in slides(extents, kernel, window_attributes(attributes))]


def form_of(x: tuple[int, ...], weight: tuple[int, ...], attributes: ConvAttributes, target: Target) -> str:
    """Return the form of a convolution by the shapes of its operands: direct, winograd or scaling."""
    choice = choices().convolution
    along = slides(x[2:], weight[2:], window_attributes(attributes))
    plain = attributes["groups"] == 1 and all(slide.stride == slide.dilation == 1 for slide in along)
    if choice.one_channel_scales and plain and weight[1] == 1 and set(weight[2:]) == {1}:
        return "scaling"
    if plain and tuple(weight[2:]) in choice.winograd_kernels and switch(target, "winograd_on_width"):
        return "winograd"
    return "direct"


def convolution_by(
    form: str, x: tuple[int, ...], weight: tuple[int, ...], attributes: ConvAttributes, products: Products
) -> Callable[[Array, Array, Array | None], Array]:
    """Return a convolution in one of its forms, for images and kernels of given shapes and a bias."""
    pads = pads_of(x[2:], weight[2:], attributes)
    if form == "winograd":
        return partial(products.winograd, pad=pads)
    if form == "direct":
        return partial(products.convolution, **window_of(x[2:], weight[2:], attributes))

    def scaled(x: Array, weight: Array, bias: Array | None) -> Array:
        return products.scaling(np.pad(x, [(0, 0), (0, 0), *pads]) if np.any(pads) else x, weight, bias)

    return scaled


def conv_on(target: Target, products: Products = GOLDEN) -> Callable[..., Array]:
    """Return convolution on a target, in the form that its data and the shapes choose."""

    def function(x: Array, weight: Array, bias: Array | None, **attributes: Unpack[ConvAttributes]) -> Array:
        form = form_of(x.shape, weight.shape, attributes, target)
        return convolution_by(form, x.shape, weight.shape, attributes, products)(x, weight, wide(bias))

    return function


def conv_transpose_by(products: Products) -> Callable[..., Array]:
    """Return the transposed convolution."""

    def function(x: Array, weight: Array, bias: Array | None, **attributes: Unpack[TransposeAttributes]) -> Array:
        extents, window = transposed_window(x.shape, weight.shape, attributes)
        return products.deconvolution(x, weight, wide(bias), extents=extents, **window)

    return function


def transposed_window(
    x: tuple[int, ...], weight: tuple[int, ...], attributes: TransposeAttributes
) -> tuple[list[int], golden.Window]:
    """Return the extents of the result of a transposed convolution and its window."""
    extents = conv_transpose_type(TensorType(x), TensorType(weight), None, **attributes).shape[2:]
    return list(extents), window_of(extents, weight[2:], attributes)


# What makes a result less sure than its operation: found from shapes and values.


def edge(reach: float) -> Iterator[Label]:
    """Say that the order of partial sums matters, where it can."""
    if reach >= golden.EDGE:
        yield Label(Exactness.MODELLED, ORDER_OF_SUMS)


def most(total: golden.Sum) -> float:
    """Return the largest sum of magnitudes."""
    return float(total.reach().max(initial=0.0))


def edge_of_matmul(
    _: Target, x: Array, y: Array, *, transpose_x: bool = False, transpose_y: bool = False
) -> Iterator[Label]:
    """Doubt sums that can pass the edge."""
    left, right = matrices(x, y, transpose_x=transpose_x, transpose_y=transpose_y)
    yield from edge(most(golden.matmul_sum(left, right)))


def edge_of_linear(_: Target, x: Array, weight: Array, bias: Array | None) -> Iterator[Label]:
    """Doubt sums that can pass the edge."""
    yield from edge(most(golden.matmul_sum(x, weight.T, wide(bias))))


def edge_of_conv(
    target: Target, x: Array, weight: Array, bias: Array | None, **attributes: Unpack[ConvAttributes]
) -> Iterator[Label]:
    """Doubt sums that can pass the edge; a scaling has none."""
    form = form_of(x.shape, weight.shape, attributes, target)
    if form == "winograd":
        pads = pads_of(x.shape[2:], weight.shape[2:], attributes)
        yield from edge(golden.winograd_reach(x, weight, wide(bias), pad=pads))
    if form == "direct":
        window = window_of(x.shape[2:], weight.shape[2:], attributes)
        yield from edge(most(golden.convolution_sum(x, weight, wide(bias), **window)))


def edge_of_conv_transpose(
    _: Target, x: Array, weight: Array, bias: Array | None, **attributes: Unpack[TransposeAttributes]
) -> Iterator[Label]:
    """Doubt sums that can pass the edge."""
    extents, window = transposed_window(x.shape, weight.shape, attributes)
    yield from edge(most(golden.deconvolution_sum(x, weight, wide(bias), extents=extents, **window)))


def doubts_of_conv(
    target: Target, x: Array, weight: Array, bias: Array | None, **attributes: Unpack[ConvAttributes]
) -> Iterator[Label]:
    """Doubt forms and shapes of a convolution without a figure."""
    form = form_of(x.shape, weight.shape, attributes, target)
    if bias is not None:
        yield from doubts_of("bias_starts_sum", target)
    if form == "scaling":
        yield Label(Exactness.MODELLED, "one input channel under a 1×1 kernel runs as a scaling, seen on one chip")
    if form == "winograd":
        pads = pads_of(x.shape[2:], weight.shape[2:], attributes)
        if x.shape[3] % 2 or bias is not None or pads != [(1, 1), (1, 1)]:
            yield Label(Exactness.MODELLED, "not measured: Winograd on odd widths, with a bias or other padding")
    if form == "direct" and not is_measured_shape(x.shape, weight.shape, attributes):
        yield Label(Exactness.MODELLED, NOT_A_MEASURED_SHAPE)


def is_measured_shape(x: tuple[int, ...], weight: tuple[int, ...], attributes: ConvAttributes) -> bool:
    """Return whether figures are published of convolutions in the direct form with such a kernel and such steps."""
    along = slides(x[2:], weight[2:], window_attributes(attributes))
    plain = attributes["groups"] == 1 and all(slide.stride == slide.dilation == 1 for slide in along)
    return plain and tuple(weight[2:]) in choices().convolution.measured_kernels


def doubts_of_linear(target: Target, _x: Array, _weight: Array, bias: Array | None) -> Iterator[Label]:
    """Doubt where a bias enters a sum."""
    if bias is not None:
        yield from doubts_of("bias_starts_sum", target)


BY_PRODUCTS: Mapping[str, Callable[[Products], Callable[..., Array]]] = {
    "bmm": matmul_by,
    "bmm_w": matmul_by,
    "conv_transpose": conv_transpose_by,
    "cross_correlation": cross_correlation_by,
    "linear": linear_by,
    "matmul": matmul_by,
    "ne_matmul": matmul_by,
}
"""Operations as functions of the products that they are made of."""
FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "einsum": einsum,
    **{name: function(GOLDEN) for name, function in BY_PRODUCTS.items()},
}
"""The arithmetic of operations by their names."""
FOR_TARGET: Mapping[str, Callable[..., Callable[..., Array]]] = {
    "conv": conv_on,
    "dynamic_conv": conv_on,
    "ne_conv": conv_on,
}
"""Operations whose form depends on the target: functions of it and of the products, golden if none are given."""
DOUBTS: Mapping[str, Callable[..., Iterator[Label]]] = {
    "conv": doubts_of_conv,
    "dynamic_conv": doubts_of_conv,
    "linear": doubts_of_linear,
    "ne_conv": doubts_of_conv,
}
"""What makes a result less sure by shapes: functions of the target, the operands in order and the attributes."""
DOUBTS_OF_VALUES: Mapping[str, Callable[..., Iterator[Label]]] = {
    "bmm": edge_of_matmul,
    "bmm_w": edge_of_matmul,
    "conv": edge_of_conv,
    "conv_transpose": edge_of_conv_transpose,
    "dynamic_conv": edge_of_conv,
    "linear": edge_of_linear,
    "matmul": edge_of_matmul,
    "ne_conv": edge_of_conv,
    "ne_matmul": edge_of_matmul,
}
"""What makes a result less sure by the values of its operands, in the same form."""
