"""The dialect of ML packages: MIL in the forms that Core ML takes, which are fewer than those of the text.

Source of truth: what coremltools says when it reads a program, and what the documentation of MIL's operations allows:
parameters of a normalisation have the element type of what is normalised, the bias of a convolution is constant, every
one of several boxes names its image, what is chosen has the shape of the result, `matmul` takes matrices, `einsum`
multiplies along the axes −1 and −3, attention has the same axes before the last two in queries, keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.mil.dialect import mil_objection
from aneforge.graph.dialect import Dialect, Objection
from aneforge.graph.node import build
from aneforge.ops.constant import Constant
from aneforge.ops.labels import labels_of
from aneforge.ops.types import value_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Node, Value

__all__ = ["COREML"]

LEAST, MOST = value_range("int32")
NORMS = ("batch_norm", "instance_norm", "layer_norm")
Check = Callable[["Node"], Objection | None]


def objection_of_package(node: Node) -> Objection | None:
    """Return what Core ML has against a node."""
    check = CHECKS.get(node.op.name)
    found = check(node) if check else None
    # A normalisation that MIL text would bring to one type of parameters is brought to one type throughout.
    return found or (None if node.op.name in NORMS else mil_objection(node))


def operand(node: Node, name: str) -> Value:
    """Return an operand that is one value."""
    return cast("Value", node.operands[name])


# Normalisation


def one_type(node: Node) -> Objection | None:
    """Object to parameters in other element types than x, and to gamma or beta without the other."""
    given = {name for name, _ in node.values()}
    dtypes = {value.type.dtype for _, value in node.values()}
    if len(dtypes) == 1 and ("gamma" in given) == ("beta" in given):
        return None
    return Objection("Core ML takes x, gamma and beta together, in one element type", decomposition="one type")


def named_axes(node: Node) -> Objection | None:
    """Object to a normalisation over all axes that does not name them."""
    if node.attributes["axes"] is None:
        return Objection("Core ML requires axes", restated={"axes": tuple(range(node.types[0].rank))})
    return one_type(node)


# Convolution and pooling


def constant_bias(node: Node) -> Objection | None:
    """Object to a bias that is computed."""
    bias = node.operands.get("bias")
    if bias is None or isinstance(bias, Constant):
        return None
    return Objection("Core ML takes a constant bias", decomposition="bias added")


def convolved(node: Node) -> Objection | None:
    """Refuse dilations of a convolution with computed weights, and object to a computed bias."""
    dilations = node.optional_integers("dilations") or ()
    if not isinstance(operand(node, "weight"), Constant) and any(count > 1 for count in dilations):
        return Objection(
            "Core ML does not take dilations where the weights are computed",
            seen=list(dilations),
            limit=1,
            remedy="give constant weights",
            final=True,
        )
    return constant_bias(node)


def dynamic_transpose(node: Node) -> Objection | None:
    """Refuse a transposed convolution with computed weights, and object to a computed bias."""
    if not isinstance(operand(node, "weight"), Constant):
        return Objection("Core ML does not take weights that are computed", final=True)
    return constant_bias(node)


def pooled(node: Node) -> Objection | None:
    """Object to `ceil_mode` over three axes, or with unequal padding; it is left out where that changes nothing."""
    kernel, pad = node.integers("kernel_sizes"), node.optional_integers("pad") or ()
    if node.op.name == "l2_pool" and len(kernel) > 2:
        return Objection("Core ML does not take it over three axes", final=True)
    if not node.flag("ceil_mode") or (len(kernel) < 3 and pad[::2] == pad[1::2]):
        return None
    try:
        without = build(node.op, node.operands, {**node.attributes, "ceil_mode": False}, node.location)
    except GraphError:  # without it, no window is left
        without = None
    return Objection(
        "Core ML does not take ceil_mode over three axes, or with unequal padding",
        seen=f"{len(kernel)} axes, padding {list(pad)}",
        remedy="pad further at the ends, and leave ceil_mode out",
        final=True,
        restated={"ceil_mode": False} if without is not None and without.types == node.types else None,
    )


# Products


def matrices(node: Node) -> Objection | None:
    """Object to vectors, except for a product of two, which is one number."""
    ranks = [operand(node, name).type.rank for name in ("x", "y")]
    if min(ranks) > 1 or not node.types[0].rank:
        return None
    return Objection("Core ML multiplies matrices", decomposition="matrices")


def public_equation(node: Node) -> Objection | None:
    """Object to any equation but the one that Core ML takes."""
    return None if is_public(*labels_of(node.text("equation"))) else Objection("Core ML takes one equation")


def is_public(left: str, right: str, result: str) -> bool:
    """Return whether an equation is one that Core ML takes: "nchw,nwhu->nchu" or "chw,whr->chr" by other letters.

    >>> is_public("bhqd", "bdqk", "bhqk"), is_public("ij", "jk", "ik")
    (True, False)
    """
    if len({len(left), len(right), len(result)}) != 1 or len(left) not in (3, 4):
        return False
    (c, h, w), (w_again, h_again, u) = left[-3:], right[-3:]
    same_batch = left[:-3] == right[:-3] == result[:-3]
    labels = left[:-3] + c + h + w + u
    return same_batch and (w, h) == (w_again, h_again) and result[-3:] == c + h + u and len(set(labels)) == len(labels)


def alike_axes(node: Node) -> Objection | None:
    """Object to a scale of its own first, then to queries, keys and values of different axes."""
    found = mil_objection(node)
    batch = node.types[0].shape[:-2] or (1,)
    if found is not None or all(operand(node, name).type.shape[:-2] == batch for name in ("query", "key", "value")):
        return found
    return Objection("Core ML takes queries, keys and values with equal batch axes", decomposition="alike")


# Elements and places


def slope_of_images(node: Node) -> Objection | None:
    """Object to prelu of a different rank than 4, for which Core ML takes only one slope."""
    rank = operand(node, "x").type.rank
    return None if rank == 4 or rank < 3 else Objection("Core ML takes images of four axes", decomposition="relu")


def boxes(node: Node) -> Objection | None:
    """Object to several boxes that are cut from an only image and do not name it."""
    several = operand(node, "x").type.shape[0] < operand(node, "boxes").type.shape[0]
    unnamed = node.operands.get("box_indices") is None and several
    return Objection("Core ML requires the image of every box", decomposition="images") if unnamed else None


def chosen(node: Node) -> Objection | None:
    """Object to a choice whose shape comes from the condition: coremltools takes it from a and b."""
    shapes = [operand(node, name).type.shape for name in ("a", "b")]
    if np.broadcast_shapes(*shapes) == node.types[0].shape:
        return None
    return Objection("Core ML takes the shape of a select from a and b, not from cond", decomposition="one shape")


def mirrored(node: Node) -> Objection | None:
    """Object to a border that repeats the edge as it mirrors."""
    if node.attributes["mode"] != "symmetric":
        return None
    return Objection("Core ML's pad has no symmetric mode", decomposition="gather")


def stated_lengths(node: Node) -> Objection | None:
    """Object to a resize that MIL would not read so, and to lengths that do not change."""
    found = mil_objection(node)
    shape, count = node.integers("shape"), node.integer("resized_dims")
    if found is not None or len(shape) <= count:
        return found
    return Objection("Core ML takes only the lengths of the resized axes", restated={"shape": shape[-count:]})


def stated_slice(node: Node) -> Objection | None:
    """Object to a slice in numbers that Core ML does not take.

    The end of one that runs backwards past the first element, which coremltools counts from the last, is marked. A
    begin or an end beyond 32 bits, by which files say "to the end", is the largest of 32 bits: both are beyond the
    axis.
    """
    shape = operand(node, "x").type.shape
    begin, end = node.integers("begin"), node.integers("end")
    stride, mask = node.optional_integers("stride"), node.optional_flags("end_mask")
    marks, steps = mask or (False,) * len(end), stride or (1,) * len(end)
    past = [step < 0 and stop < -extent for step, stop, extent in zip(steps, end, shape, strict=True)]
    short_begin, short_end = in_32_bits(begin), in_32_bits(end)
    if not any(past) and (short_begin, short_end) == (begin, end):
        return None
    ends = tuple(0 if passed else stop for passed, stop in zip(past, short_end, strict=True))
    end_mask = tuple(map(any, zip(past, marks, strict=True))) if any(past) else mask
    return Objection(
        "Core ML takes indices within 32 bits", restated={"begin": short_begin, "end": ends, "end_mask": end_mask}
    )


def in_32_bits(places: Sequence[int]) -> tuple[int, ...]:
    """Return places with those beyond 32 bits brought to their ends."""
    return tuple(min(max(place, LEAST), MOST) for place in places)


def stated_shape(node: Node) -> Objection | None:
    """Object to lengths that a reshape takes over from its operand, which Core ML allows only at the same rank."""
    if 0 not in node.integers("shape"):
        return None
    return Objection("Core ML takes explicit lengths instead of 0 in a shape", restated={"shape": node.types[0].shape})


def counted_axis(node: Node) -> Objection | None:
    """Object to the axis of a running sum that is counted from the end."""
    axis = node.integer("axis")
    if axis >= 0:
        return None
    return Objection("Core ML counts the axis from the front", restated={"axis": axis % node.types[0].rank})


def border_of_zeros(node: Node) -> Objection | None:
    """Refuse an affine transform that reads a number beyond the image that is not 0."""
    if node.attributes["padding_mode"] != "constant" or node.attributes["padding_value"] == 0:
        return None
    return Objection("Core ML does not take it with a different padding value than 0", final=True)


def without_asinh(_: Node) -> Objection | None:
    """Object to asinh, which Core ML does not have."""
    return Objection("Core ML has no asinh", decomposition="atanh")


def encoded_constant(_: Node) -> Objection | None:
    """Refuse a compressed weight that is a node of its own."""
    return Objection("Core ML does not take it as a node: give an encoded constant", final=True)


CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(
        (
            "constexpr_affine_dequantize",
            "constexpr_blockwise_shift_scale",
            "constexpr_cast",
            "constexpr_lut_to_dense",
            "constexpr_lut_to_sparse",
            "constexpr_sparse_blockwise_shift_scale",
            "constexpr_sparse_to_dense",
        ),
        encoded_constant,
    ),
    "affine": border_of_zeros,
    "asinh": without_asinh,
    "batch_norm": one_type,
    **dict.fromkeys(("avg_pool", "l2_pool", "max_pool"), pooled),
    **dict.fromkeys(("conv", "dynamic_conv"), convolved),
    "conv_transpose": dynamic_transpose,
    "crop_resize": boxes,
    "cumsum": counted_axis,
    "einsum": public_equation,
    "instance_norm": one_type,
    "layer_norm": named_axes,
    "matmul": matrices,
    "pad": mirrored,
    "prelu": slope_of_images,
    "reshape": stated_shape,
    "resize": stated_lengths,
    "sdpa": alike_axes,
    "select": chosen,
    "slice_by_index": stated_slice,
}
"""Operations that Core ML takes only in some forms, by the check of a node."""
COREML = Dialect("ML packages", objection_of_package)
