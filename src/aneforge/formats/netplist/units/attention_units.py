"""Products of matrices and attention: rows along channels, columns along width, batches along height."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.callsite import warn
from aneforge.errors import PrecisionWarning
from aneforge.formats.netplist.layer import dims_of
from aneforge.formats.netplist.schema import Dim
from aneforge.formats.netplist.units.read_row import read_row
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.formats.netplist.layer import Layer, LayerReader
    from aneforge.graph.node import Value

__all__ = ["ATTENTION"]

ROWS_LAST = (0, 2, 1, 3)
"""[N, C, H, W] as a batch [N, H] of matrices [C, W], and back."""


def matrix_product(layer: Layer) -> Value:
    """Return the products of matrices."""
    for what, value in zip(("the first tensor", "the second tensor"), layer.bottoms, strict=True):
        layer.expect_one(Dim.DEPTH, value=value, what=what)
    a, b = map(dims_of, layer.bottoms)
    if (a.batch, a.height, a.width) != (b.batch, b.height, b.channel):
        raise layer.error(
            "the two tensors do not multiply: the width of the first is the channels of the second, "
            "batch and height are the same",
            seen=f"{a} and {b}",
        )
    return read_row(layer)


def attention(layer: Layer) -> Value:
    """Return attention; where the largest score is not subtracted, in steps whose exponentials overflow in fp16."""
    names = ("query", "key", "value", "scale", "mask")
    for name, value in zip(names, layer.bottoms, strict=False):
        layer.expect_one(Dim.BATCH, Dim.DEPTH, value=value, what=name)
    query, key, value, scale, *mask = layer.bottoms
    check_attention(layer)
    operands = {
        name: layer.transposed(one, ROWS_LAST) for name, one in (("query", query), ("key", key), ("value", value))
    }
    added = layer.transposed(mask[0], ROWS_LAST) if mask else None
    number = constant_scale(layer, scale)
    if layer.params.flag("SubtractMax"):
        result = layer.build("sdpa", {**operands, "attn_mask": added}, scale=number, native=True)
    else:
        result = plain_attention(layer, operands, added, number)
    return layer.transposed(result, ROWS_LAST)


def plain_attention(layer: Layer, operands: Mapping[str, Value], added: Value | None, scale: float) -> Value:
    """Return attention whose exponentials are those of the scores themselves, divided by their sum."""
    message = (
        f"unit {layer.unit.name!r}: SubtractMax is off, so exponentials of scores above 11.09 are infinite in fp16. "
        "Assumed: the steps are rounded one by one. Not measured."
    )
    warn(message, PrecisionWarning)
    scores = layer.build("matmul", {"x": operands["query"], "y": operands["key"]}, transpose_y=True)
    scores = layer.build("muls", {"x": scores}, k=scale)
    if added is not None:
        scores = layer.build("add", {"x": scores, "y": added})
    grown = layer.build("exp", {"x": scores})
    total = layer.build("reduce_sum", {"x": grown}, axes=(-1,), keep_dims=True)
    return layer.build("matmul", {"x": layer.build("real_div", {"x": grown, "y": total}), "y": operands["value"]})


def check_attention(layer: Layer) -> None:
    """Check that query, key, value and mask fit together, as the compiler does it.

    Raises:
        GraphError: They do not.
    """
    query, key, value, _, *mask = map(dims_of, layer.bottoms)
    if key != value:
        raise layer.error("key and value differ in shape", seen=f"{key} and {value}")
    if (query.height, query.width) != (key.height, key.width):
        raise layer.error("query and key differ in heads (height) or width", seen=f"{query} and {key}")
    if not mask:
        return
    if (mask[0].channel, mask[0].width) != (query.channel, key.channel) or mask[0].height != 1:
        raise layer.error(
            "the mask does not cover the scores of all heads",
            seen=mask[0],
            limit=f"channel {query.channel}, height 1, width {key.channel}",
            remedy="give one plane for all heads, over every query",
        )


def constant_scale(layer: Layer, scale: Value) -> float:
    """Return the scale of attention, which must be one constant number.

    Raises:
        GraphError: It is computed at run time, or is several numbers.
    """
    if not isinstance(scale, Constant):
        raise layer.error("the scale is not a constant", remedy="list it in Constants")
    if scale.type.size != 1:
        raise layer.error("the scale is several numbers", seen=dims_of(scale), limit="one element")
    return float(scale.dense().item())


ATTENTION: dict[str, LayerReader] = {
    "MatrixMultiplication": matrix_product,
    "SDPA": attention,
}
