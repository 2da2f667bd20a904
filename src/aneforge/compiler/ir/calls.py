"""Layers as calls of the op table: what a layer of the compiler's own form is the same as.

Code that has an arithmetic or a spelling for operations of the table has one for layers too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.meanings.regions import ALIGNED_HALF_PIXELS
from aneforge.ops.attributed import Attributed, AttributeReader
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.compiler.ir.kind import Kind
    from aneforge.compiler.ir.layer import Layer
    from aneforge.ops.signature import AttributeValue

__all__ = ["Call", "call_of_kind", "call_of_layer", "op_of_layer"]


@dataclass(frozen=True, slots=True)
class Call(Attributed):
    """An operation of the table with its attributes."""

    op: str
    names: Mapping[str, str]
    """The operation's name of each operand of the layer that is called otherwise."""
    attributes: Mapping[str, AttributeValue]

    def renamed(self, operands: Mapping[str, object]) -> dict[str, object]:
        """Return operands under the names that the operation has for them."""
        return {self.names.get(name, name): operand for name, operand in operands.items()}


def convolution(layer: Layer) -> Call:
    """Return the call of a convolution."""
    return Call("conv", {"input": "x", "weights": "weight"}, window(layer))


def deconvolution(layer: Layer) -> Call:
    """Return the call of a deconvolution."""
    (result,) = layer.core_types
    attributes = {**window(layer), "output_shape": result.shape}
    return Call("conv_transpose", {"input": "x", "weights": "weight"}, attributes)


def window(layer: Layer) -> dict[str, AttributeValue]:
    """Return how a kernel goes, as the op table spells it."""
    given = layer.attributes
    return {
        "strides": given["strides"],
        "pad_type": "custom",
        "pad": given["explicit_padding"],
        "dilations": given["dilation_rates"],
        "groups": given["groups"],
    }


def matmul(layer: Layer) -> Call:
    """Return the call of a matrix product."""
    given = layer.attributes
    attributes = {"transpose_x": given["transpose_lhs"], "transpose_y": given["transpose_rhs"]}
    return Call("matmul", {"lhs": "x", "rhs": "y"}, attributes)


def block(layer: Layer) -> Call:
    """Return the call of a slice of step 1."""
    return Call("slice_by_size", {"input": "x"}, dict(layer.attributes))


def stride_block(layer: Layer) -> Call:
    """Return the call of a slice of any step."""
    begin, size, step = (layer.integers(name) for name in ("begin", "size", "step"))
    end = tuple(first + (count - 1) * by + 1 for first, count, by in zip(begin, size, step, strict=True))
    return Call("slice_by_index", {"input": "x"}, {"begin": begin, "end": end, "stride": step})


def resize(kind_attributes: Mapping[str, AttributeValue], extents: tuple[int, ...]) -> Call:
    """Return the call of a resizing."""
    size = AttributeReader(kind_attributes).integers("size")
    if kind_attributes["sampling"] == ALIGNED_HALF_PIXELS:
        factors = [new / old for new, old in zip(size, extents[-2:], strict=True)]
        flags: dict[str, AttributeValue] = {"align_corners": True, "half_pixel_centers": True}
        scales = {"scale_factor_height": factors[0], "scale_factor_width": factors[1]}
        return Call("upsample_bilinear", {"input": "x"}, {**scales, **flags})
    attributes: dict[str, AttributeValue] = {
        "shape": size,
        "resized_dims": len(size),
        "interpolation_mode": "LINEAR" if kind_attributes["mode"] == "LINEAR" else "NEAREST_NEIGHBOR",
        "sampling_mode": kind_attributes["sampling"],
    }
    return Call("resize", {"input": "x"}, attributes)


def resized(layer: Layer) -> Call:
    """Return the call of a resizing; what it reads may be a constant."""
    return resize(layer.attributes, layer.operand("input").type.shape)


OWN_FORMS: Mapping[str, Callable[[Layer], Call]] = {
    "convolution": convolution,
    "deconvolution": deconvolution,
    "matmul": matmul,
    "resize": resized,
    "slice": block,
    "strided_slice": stride_block,
}


def call_of_layer(layer: Layer) -> Call | None:
    """Return the call that a layer without its epilogue is; None for gain and offset, which no operation is."""
    if layer.kind.name in OWN_FORMS:
        return OWN_FORMS[layer.kind.name](layer)
    return call_of_kind(layer.kind, layer.attributes, ())


def op_of_layer(layer: Layer) -> str:
    """Return the operation of the table that a layer is, or its kind where it is none."""
    call = call_of_layer(layer)
    return layer.kind.name if call is None else call.op


def call_of_kind(kind: Kind, attributes: Mapping[str, AttributeValue], extents: tuple[int, ...]) -> Call | None:
    """Return the call of a kind on a tensor of given extents, as it is in a slot; None for gain and offset.

    Extents matter only to a resizing.
    """
    if kind.name == "resize":
        return resize(attributes, extents)
    return Call(kind.op, {}, attributes) if kind.op else None
