"""Convolutions and matrix products.

A bias becomes an addition of its own, as it arrives at the compiler from MIL; fusion puts it behind the product.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.ops.constant import Constant, Dense
from aneforge.ops.groups.matmul import labels_of
from aneforge.ops.types import numpy_dtype
from aneforge.ops.windows import one_each, pad_pairs, same_padding, slides

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.compiler.ir.layer import Ref, Value
    from aneforge.compiler.lowering.emitter import Emitter, Rule
    from aneforge.ops.signature import AttributeValue
from aneforge.ops.windows import WindowAttributes

__all__ = ["RULES"]

LAYOUTS = {3: "OIW", 4: "OIHW", 5: "OIDHW"}
TRANSPOSED_LAYOUTS = {3: "IOW", 4: "IOHW", 5: "IODHW"}


def convolution(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a convolution with its padding made explicit."""
    x, weight = emit.ref("x"), emit.ref("weight")
    kernel = weight.type.shape[2:]
    window = cast("WindowAttributes", emit.node.attributes)
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


def einsum(emit: Emitter) -> tuple[Ref, ...]:
    """Lower a product of labels to a matrix product between transposes.

    Labels of both operands and the result are a batch; those of both operands alone are contracted; those of one
    operand alone are summed before the product if the result has them not.
    """
    first, second, result = labels_of(str(emit.node.attributes["equation"]))
    lhs, rhs = emit.refs("values")
    lhs, first = without_diagonals(emit, lhs, first, "lhs")
    rhs, second = without_diagonals(emit, rhs, second, "rhs")
    batch = [label for label in result if label in first and label in second]
    contracted = [label for label in first if label in second and label not in result]
    rows = [label for label in result if label in first and label not in second]
    columns = [label for label in result if label in second and label not in first]
    left, left_extents = arranged(emit, lhs, first, (batch, rows, contracted), "lhs")
    right, right_extents = arranged(emit, rhs, second, (batch, contracted, columns), "rhs")
    extents = {**right_extents, **left_extents}
    extents.update({label: max(left_extents[label], right_extents[label]) for label in batch})
    product = emit.add("matmul", {"lhs": left, "rhs": right}, step="matmul")
    order = [*batch, *rows, *columns]
    spread = emit.reshape(product, tuple(extents[label] for label in order), step="spread")
    perm = tuple(order.index(label) for label in result)
    if perm == tuple(range(len(perm))):
        return (spread,)
    return (emit.add("transpose", {"x": spread}, {"perm": perm}),)


def without_diagonals(emit: Emitter, x: Ref, labels: str, step: str) -> tuple[Ref, str]:
    """Return an operand in which no label stands twice: a diagonal is what a mask leaves, summed along one axis."""
    while len(set(labels)) < len(labels):
        last = max(place for place, label in enumerate(labels) if labels.index(label) < place)
        first = labels.index(labels[last])
        shape = tuple(extent if place in (first, last) else 1 for place, extent in enumerate(x.type.shape))
        mask = Dense(np.eye(x.type.shape[last], dtype=numpy_dtype(x.type.dtype)).reshape(shape))
        masked = emit.add("mult", {"x": x, "y": mask}, step=f"{step}_mask{last}")
        x = emit.add("reduce_sum", {"x": masked}, {"axes": (last,), "keep_dims": False}, step=f"{step}_diagonal{last}")
        labels = labels[:last] + labels[last + 1 :]
    return x, labels


def arranged(
    emit: Emitter, x: Ref, labels: str, groups: Sequence[Sequence[str]], step: str
) -> tuple[Ref, dict[str, int]]:
    """Return an operand as batches of matrices, with the length of each of its labels."""
    kept = [label for group in groups for label in group]
    extents = dict(zip(labels, x.type.shape, strict=True))
    gone = tuple(place for place, label in enumerate(labels) if label not in kept)
    if gone:
        x = emit.add("reduce_sum", {"x": x}, {"axes": gone, "keep_dims": False}, step=f"{step}_sum")
    left = [label for label in labels if label in kept]
    perm = tuple(left.index(label) for label in kept)
    if perm != tuple(range(len(perm))):
        x = transposed(emit, x, perm, f"{step}_order")
    batch, *matrix = groups
    shape = (
        *(extents[label] for label in batch),
        *(int(np.prod([extents[label] for label in group], initial=1)) for group in matrix),
    )
    return emit.reshape(x, shape, step=f"{step}_matrix"), {label: extents[label] for label in kept}


def transposed(emit: Emitter, x: Ref, perm: tuple[int, ...], step: str) -> Ref:
    """Return a tensor with its axes in another order; a constant's are changed beforehand."""
    if isinstance(x, Constant):
        return Dense(np.asarray(np.transpose(x.dense(), perm), order="C"))
    return emit.add("transpose", {"x": x}, {"perm": perm}, step=step)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("conv", "dynamic_conv", "ne_conv"), convolution),
    "conv_transpose": deconvolution,
    **dict.fromkeys(("matmul", "ne_matmul", "bmm", "bmm_w"), matmul),
    "linear": linear,
    "einsum": einsum,
}
