"""The dialect of network descriptions: what has a layer there, and in which form.

An operation has a layer if `emit` writes it, or if it ends a pattern of several that are one. What has neither is
decomposed, or refused with the nearest form that has one (`forms.toml`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.formats.netplist.emit import WRITERS
from aneforge.formats.netplist.emit.emit_attention import EINSUM
from aneforge.formats.netplist.parameters import bits_of, number_of
from aneforge.formats.netplist.refusals import forms_table
from aneforge.formats.netplist.rows import row_of_node
from aneforge.graph.dialect import Dialect, Objection
from aneforge.ops.constant import Constant
from aneforge.ops.decompositions.products import transposed_padding
from aneforge.ops.windows import slides

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from aneforge.graph.node import Node, Value
    from aneforge.ops.windows import WindowAttributes

__all__ = ["netplist_dialect"]

Check = Callable[["Node"], Objection | None]
ENGINE_TYPE = "fp16"


def netplist_dialect(patterns: Container[Node] = ()) -> Dialect:
    """Return the dialect of network descriptions; nodes that end a pattern are written with what they end."""

    def objection(node: Node) -> Objection | None:
        check = CHECKS.get(node.op.name)
        found = check(node) if check else None
        if found is not None:
            return narrow_arithmetic(node) or found
        if node.op.name in WRITERS:
            return rounded_numbers(node)
        return None if node in patterns else no_layer(node)

    return Dialect("network descriptions", objection)


def rounded_numbers(node: Node) -> Objection | None:
    """Object to numbers that fp16 does not hold where the layer has them as bit patterns of fp16."""
    row = row_of_node(node.op.name, node.attributes)
    if row is None or not row.numbers:
        return None
    changed: dict[str, object] = {}
    details: list[str] = []
    for name, entry in row.numbers.items():
        value = node.attributes[name]
        if not isinstance(value, float) or not math.isfinite(value):
            continue
        rounded = number_of(bits_of(value))
        if rounded != value and math.isfinite(rounded):
            changed[name] = rounded
            details.append(f"{entry.words or name} {value!r} is rounded to {rounded!r}, its fp16")
    if not changed:
        return None
    return Objection("a description holds numbers in fp16", restated=changed, detail="; ".join(details))


def no_layer(node: Node) -> Objection:
    """Return why an operation has no layer, and the nearest form that has one."""
    table = forms_table()
    entry = table.forms.get(node.op.name)
    composite = entry is None and any(not one.supplies for one in node.op.decompositions())
    reason = table.groups[entry.group].reason if entry else "no source says how a description writes it"
    return Objection(
        f"a network description cannot express it: {reason}",
        remedy=f"nearest form: {entry.nearest if entry else 'not known'}",
        final=not composite,
    )


def narrow_arithmetic(node: Node) -> Objection | None:
    """Refuse to compute in a different element type than the layers have; what rounds nothing moves any elements."""
    if node.types[0].dtype == ENGINE_TYPE or all(one.same_bits for one in node.op.decompositions()):
        return None
    return Objection(
        "layers of a description compute in Float16",
        seen=node.types[0].dtype,
        remedy="nearest form: the same in fp16",
        final=True,
    )


def always(node: Node) -> Objection | None:
    """Object to an operation that has no layer of its own."""
    return Objection(f"there is no layer for {node.op.name}")


def only(decomposition: str) -> Check:
    """Return the check of an operation without a layer, of whose decompositions one has layers."""
    return lambda node: Objection(f"there is no layer for {node.op.name}", decomposition=decomposition)


def of_images(decomposition: str) -> Check:
    """Return the check of a normalisation by channels: three axes are as one image, whose channels would be rows."""

    def check(node: Node) -> Objection | None:
        sequence = node.types[0].rank == 3
        return Objection(f"there is no layer for {node.op.name}", decomposition="image" if sequence else decomposition)

    return check


def approximation(node: Node) -> Objection | None:
    """Object to the approximations of gelu: the layer is the exact form."""
    return None if node.text("mode") == "EXACT" else Objection("the layer of gelu is the exact form")


def with_epsilon(node: Node) -> Objection | None:
    """Object to an epsilon, for which the layer has no parameter."""
    if not node.attributes["epsilon"]:
        return None
    return Objection("the layer adds no epsilon", decomposition="epsilon before")


def with_bias(node: Node) -> Objection | None:
    """Object to a bias: the layer is a plain convolution."""
    if node.operands.get("bias") is None:
        return None
    return Objection("a Conv unit adds no bias", decomposition="bias added")


def transposed_convolution(node: Node) -> Objection | None:
    """Object to any transposed convolution but one of ones for every channel by itself, with no negative padding."""
    x, weight = (cast("Value", node.operands[name]) for name in ("x", "weight"))
    if not isinstance(weight, Constant) or node.operands.get("bias") is not None:
        return Objection("a Deconv unit has a kernel of ones, and no bias", decomposition="zeros")
    given: WindowAttributes = {
        "strides": node.optional_integers("strides"),
        "pad_type": node.text("pad_type"),
        "pad": node.optional_integers("pad"),
        "dilations": node.optional_integers("dilations"),
    }
    along = slides(node.types[0].shape[2:], weight.type.shape[2:], given)
    pads = [transposed_padding(slide, extent) for slide, extent in zip(along, x.type.shape[2:], strict=True)]
    single = weight.type.shape[1] == 1 and node.attributes["groups"] == x.type.shape[1]
    plain = all(slide.dilation == 1 for slide in along) and min(map(min, pads)) >= 0
    if single and plain and bool(np.all(weight.dense() == 1)):
        return None
    return Objection("a Deconv unit has a kernel of ones", decomposition="zeros")


def other_equation(node: Node) -> Objection | None:
    """Object to any equation but the layer's own."""
    equation = node.text("equation").replace(" ", "")
    return None if equation == EINSUM else Objection("a description has only one equation", seen=equation, limit=EINSUM)


def of_constants(node: Node) -> Objection | None:
    """Object to an operation on constants only, which are computed beforehand."""
    known = all(isinstance(value, Constant) for _, value in node.values())
    return Objection("a description has no compressed constants") if known else None


def built_attention(node: Node) -> Objection | None:
    """Object to attention that does not ask for the layer, which runs as a program of its own."""
    if node.flag("native"):
        return None
    return Objection("the SDPA unit is written only where native is set", decomposition="products")


def padded_blocks(node: Node) -> Objection | None:
    """Object to borders around blocks."""
    if not any(node.optional_integers("paddings") or ()):
        return None
    return Objection("the layer pads nothing", decomposition="pad first")


def cropped_blocks(node: Node) -> Objection | None:
    """Object to borders that are cut off."""
    if not any(node.optional_integers("crops") or ()):
        return None
    return Objection("the layer crops nothing", decomposition="crop after")


CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(
        (
            *("channel_layer_norm", "clamped_relu", "crop", "fill", "fill_like", "group_norm", "l2_norm", "linear"),
            *("ne_conv", "ne_pool", "pe_elementwise", "pe_goc", "pe_pool", "reduce_l1_norm", "reduce_l2_norm"),
            *("reduce_sum_square", "relu6", "reshape_like", "rms_norm", "scaled_tanh", "sigmoid_hard", "silu"),
            *("slice_by_index", "slice_by_size", "softsign", "split", "sq_after_reduce", "square", "stack"),
            *("threshold", "tile", "upsample"),
        ),
        always,
    ),
    **dict.fromkeys(("constexpr_affine_dequantize", "constexpr_blockwise_shift_scale", "constexpr_cast"), of_constants),
    **dict.fromkeys(("constexpr_lut_to_dense", "constexpr_lut_to_sparse", "constexpr_sparse_to_dense"), of_constants),
    **dict.fromkeys(("constexpr_sparse_blockwise_shift_scale", "dequantize", "range_1d"), of_constants),
    "instance_norm": of_images("means"),
    "layer_norm": only("means"),
    **dict.fromkeys(("real_div", "floor_div"), only("inverse")),
    "batch_norm": of_images("gain"),
    "batch_to_space": cropped_blocks,
    "conv": with_bias,
    "conv_transpose": transposed_convolution,
    "einsum": other_equation,
    "gelu": approximation,
    "inverse": with_epsilon,
    "pad": only("concat"),
    "prelu": only("clip"),
    "rsqrt": with_epsilon,
    "sdpa": built_attention,
    "space_to_batch": padded_blocks,
}
"""Operations that have a layer only in some forms, or none, by the check of a node."""
