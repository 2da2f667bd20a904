"""Along which axes a layer can be cut, and which axes of its operands are cut with it.

A layer can be cut along an axis of its result when no element of the result needs operands from beyond its own place
there; the windows of convolutions and poolings reach a little further, so that their parts read what they need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.passes.tiling import Along, Cut, Part, Reach
from aneforge.ops.op import Trait
from aneforge.ops.shapes import reduced_axes
from aneforge.ops.windows import WindowAttributes, slides

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.compiler.ir.kind import Kind
    from aneforge.compiler.ir.layer import Layer
    from aneforge.ops.signature import AttributeValue
    from aneforge.ops.windows import Slide

__all__ = ["convolution_slides", "cut_along", "is_reduction", "list_reduced_axes"]


def is_reduction(kind: Kind) -> bool:
    """Return whether a kind of layer makes one element of all along some axes."""
    return kind.name.startswith("reduce_") or kind.name == "square_after_reduction"


def list_reduced_axes(layer: Layer) -> tuple[int, ...]:
    """Return the axes that a reduction reduces, in order."""
    rank = layer.operand("x").type.rank
    return tuple(sorted(reduced_axes(rank, layer.optional_integers("axes"))))


def cut_along(layer: Layer, axis: int) -> Cut | None:
    """Return how a layer is cut along an axis of what its operation gives; None where it cannot be."""
    kind = layer.kind
    if kind.bridge or len(layer.results) > 1:
        return None
    if kind.is_elementwise:
        return elementwise_cut(layer, axis)
    if is_reduction(kind):
        return reduction_cut(layer, axis, list_reduced_axes(layer))
    if Trait.POOLING in kind.entry.traits:
        return pooling_cut(layer, axis)
    found = CUTS.get(kind.name)
    return found(layer, axis) if found else None


def elementwise_cut(layer: Layer, axis: int) -> Cut:
    """Cut operands that reach over the axis; those of one place there are broadcast and read whole."""
    shape = layer.core_types[0].shape
    operands: dict[str, Along] = {}
    for name, ref in layer.refs():
        place = axis - (len(shape) - ref.type.rank)
        if place >= 0 and ref.type.shape[place] == shape[axis]:
            operands[name] = Along(place)
    return Cut(axis, operands)


def reduction_cut(layer: Layer, axis: int, gone: tuple[int, ...]) -> Cut | None:
    """Cut along an axis that stays."""
    rank = layer.operand("x").type.rank
    if layer.flag("keep_dims"):
        return None if axis in gone else Cut(axis, {"x": Along(axis)})
    stays = [place for place in range(rank) if place not in gone]
    return Cut(axis, {"x": Along(stays[axis])})


def arg_reduction_cut(layer: Layer, axis: int) -> Cut | None:
    """Cut along an axis that is not searched."""
    return reduction_cut(layer, axis, (layer.integer("axis") % layer.operand("x").type.rank,))


def one_axis_cut(layer: Layer, axis: int) -> Cut | None:
    """Cut along any axis but the one along which the layer works."""
    x = layer.operand("x")
    return None if layer.integer("axis") % x.type.rank == axis else Cut(axis, {"x": Along(axis)})


def norm_cut(layer: Layer, axis: int) -> Cut | None:
    """Cut a normalisation along an axis that it does not normalise."""
    x = layer.operand("x")
    normalised = reduced_axes(x.type.rank, layer.optional_integers("axes"))
    return None if axis in normalised else Cut(axis, {"x": Along(axis)})


def channel_cut(layer: Layer, axis: int) -> Cut:
    """Cut a layer with numbers for every channel, which is axis 1."""
    others = [name for name in layer.operands if name != "x"] if axis == 1 else []
    return Cut(axis, {"x": Along(axis), **{name: Along(0) for name in others}})


def instance_norm_cut(layer: Layer, axis: int) -> Cut | None:
    """Cut along batch or channels."""
    return channel_cut(layer, axis) if axis < 2 else None


def response_norm_cut(layer: Layer, axis: int) -> Cut | None:
    """Cut along any axis but the channels, whose neighbours are summed."""
    return None if axis == 1 else Cut(axis, {layer.kind.flowing: Along(axis)})


def vector_cut(layer: Layer, axis: int) -> Cut:
    """Cut a layer with numbers along one axis of its input: gain and offset, scale and zero point."""
    operands = {"input": Along(axis)}
    along = layer.optional_integer("axis")
    if along is not None and along % layer.core_types[0].rank == axis:
        operands |= {name: Along(0) for name, ref in layer.refs() if name != "input" and ref.type.rank}
    return Cut(axis, operands)


def resize_cut(layer: Layer, axis: int) -> Cut | None:
    """Cut along an axis that keeps its length."""
    first = layer.core_types[0].rank - len(layer.integers("size"))
    return None if axis >= first else Cut(axis, {"input": Along(axis)})


def linear_cut(layer: Layer, axis: int) -> Cut:
    """Cut along the rows of the input, or along those of the weights."""
    if axis < layer.core_types[0].rank - 1:
        return Cut(axis, {"x": Along(axis)})
    return Cut(axis, {"weight": Along(0), **({"bias": Along(0)} if "bias" in layer.operands else {})})


def matmul_cut(layer: Layer, axis: int) -> Cut:
    """Cut along the rows of the left matrix, the columns of the right one, or a batch axis of either."""
    lhs, rhs = layer.operand("lhs"), layer.operand("rhs")
    rank = layer.core_types[0].rank
    columns = rank - 1 if rhs.type.rank > 1 else None
    rows = rank - 1 - (columns is not None) if lhs.type.rank > 1 else None
    if axis == columns:
        return Cut(axis, {"rhs": Along(rhs.type.rank - (2 if layer.flag("transpose_rhs") else 1))})
    if axis == rows:
        return Cut(axis, {"lhs": Along(lhs.type.rank - (1 if layer.flag("transpose_lhs") else 2))})
    batch = rank - (columns is not None) - (rows is not None)
    extent = layer.core_types[0].shape[axis]
    operands: dict[str, Along] = {}
    for name, ref in (("lhs", lhs), ("rhs", rhs)):
        place = axis - batch + max(ref.type.rank - 2, 0)
        if place >= 0 and ref.type.rank > 2 and ref.type.shape[place] == extent:
            operands[name] = Along(place)
    return Cut(axis, operands)


# Windows.


def window_cut(
    axis: int,
    operand: str,
    along: tuple[Slide, ...],
    attributes: Callable[[tuple[int, ...]], Mapping[str, AttributeValue]],
) -> Cut:
    """Cut along a spatial axis: a part of the windows sees a part of the source, at the ends with padding."""
    reach = Reach(axis, along[axis - 2])
    pads = [pad for slide in along for pad in (slide.before, slide.after)]

    def of_part(part: Part) -> Mapping[str, AttributeValue]:
        place = 2 * (axis - 2)
        return attributes((*pads[:place], *reach.padding(part), *pads[place + 2 :]))

    return Cut(axis, {operand: reach}, attributes=of_part)


def convolution_slides(layer: Layer) -> tuple[Slide, ...]:
    """Return how the kernel of a convolution goes along each spatial axis."""
    window: WindowAttributes = {
        "strides": layer.integers("strides"),
        "pad_type": "custom",
        "pad": layer.integers("explicit_padding"),
        "dilations": layer.integers("dilation_rates"),
    }
    return slides(layer.operand("input").type.shape[2:], layer.integers("kernel_sizes"), window)


def convolution_cut(layer: Layer, axis: int) -> Cut | None:
    """Cut along the batch, the output channels or a spatial axis."""
    if axis == 0:
        return Cut(0, {"input": Along(0)})
    if axis == 1:
        return output_channel_cut(layer, 0)
    return window_cut(axis, "input", convolution_slides(layer), lambda pads: {"explicit_padding": pads})


def deconvolution_cut(layer: Layer, axis: int) -> Cut | None:
    """Cut along the batch or the output channels."""
    if axis > 1:
        return None
    return Cut(0, {"input": Along(0)}) if axis == 0 else output_channel_cut(layer, 1)


def output_channel_cut(layer: Layer, axis: int) -> Cut:
    """Cut along the output channels, which are an axis of the weights.

    Groups stay whole, and each part reads only the channels of its groups.
    """
    groups = layer.integer("groups")
    if groups == 1:
        return Cut(1, {"weights": Along(axis)})
    outer = layer.core_types[0].shape[1] // groups
    inner = layer.operand("input").type.shape[1] // groups

    def of_part(part: Part) -> Mapping[str, AttributeValue]:
        return {"groups": part.size // outer}

    # A deconvolution's weights have the input channels of all groups in front.
    along = Along(0) if axis == 0 else Along(0, own=inner, of=outer)
    return Cut(1, {"input": Along(1, own=inner, of=outer), "weights": along}, outer, of_part)


def pooling_cut(layer: Layer, axis: int) -> Cut | None:
    """Cut along batch, channels or a spatial axis; not where the last window may reach after the padding."""
    if axis < 2:
        return Cut(axis, {"x": Along(axis)})
    if layer.flag("ceil_mode"):
        return None
    along = slides(
        layer.operand("x").type.shape[2:], layer.integers("kernel_sizes"), layer.attributes_as(WindowAttributes)
    )
    return window_cut(axis, "x", along, lambda pads: {"pad_type": "custom", "pad": pads})


CUTS: Mapping[str, Callable[[Layer, int], Cut | None]] = {
    **dict.fromkeys(("arg_max", "arg_min"), arg_reduction_cut),
    **dict.fromkeys(("softmax", "cumulative_sum"), one_axis_cut),
    **dict.fromkeys(("layer_norm", "l2_norm"), norm_cut),
    "instance_norm": instance_norm_cut,
    "local_response_norm": response_norm_cut,
    **dict.fromkeys(("prelu", "softplus_parametric"), channel_cut),
    **dict.fromkeys(("gain_offset_control", "quant", "dequant"), vector_cut),
    "resize": resize_cut,
    "linear": linear_cut,
    "matmul": matmul_cut,
    "convolution": convolution_cut,
    "deconvolution": deconvolution_cut,
}
