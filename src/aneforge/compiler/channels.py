"""Which axis of a value is the engine's channel axis: the one along which gain and offset can differ.

The axis of a plain tensor follows from its rank (`axes.roles`). A product with constant weights has its output channels
where the weights put them, and layers that keep elements in their places keep that axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.axes import MOST_AXES, Axis, axis_of, unit_axis
from aneforge.compiler.ir.kind import Slot
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program

__all__ = ["channel_axes", "core_channel_axis"]

FOLLOWING = {Slot.PRE_ACTIVATION, Slot.POST_ACTIVATION, Slot.GAIN_OFFSET}


def channel_axes(program: Program) -> Mapping[str, int | None]:
    """Return the channel axis of every value, by its name; None where it has none."""
    found: dict[str, int | None] = {}
    for port in program.inputs:
        found[port.value.name] = by_rank(port.value)
    for state in program.states:
        found[state.read.name] = by_rank(state.read)
    for layer in program.layers:
        axis = following(layer, found)
        transpose = layer.epilogue.transpose
        if transpose is not None and axis is not None:
            axis = find_permuted_axis(axis, transpose.attributes["perm"])
        for result in layer.results:
            found[result.name] = axis if result is layer.result else by_rank(result)
    return found


def following(layer: Layer, known: Mapping[str, int | None]) -> int | None:
    """Return the channel axis of what a layer's engine operation gives."""
    if layer.kind.name == "transpose":
        source = known[layer.bottoms[0].name] if layer.bottoms else None
        return None if source is None else find_permuted_axis(source, layer.attributes["perm"])
    if layer.kind.name == "reshape" and layer.bottoms:
        (value,) = layer.bottoms
        source, shape = known[value.name], layer.result.shape
        moved = None if source is None else unit_axis(source, shape, value.shape)
        return by_rank(layer.result) if moved is None else moved
    pointwise = FOLLOWING.intersection(layer.kind.fills) or layer.kind.is_elementwise
    if pointwise and layer.bottoms:
        shape = layer.core_types[0].shape
        axes = {known[value.name] for value in layer.bottoms if value.shape == shape}
        return axes.pop() if len(axes) == 1 else by_rank(layer.result)
    return core_channel_axis(layer)


def core_channel_axis(layer: Layer) -> int | None:
    """Return the axis of a layer's output channels, before its epilogue, from only the layer."""
    rank = layer.core_types[0].rank
    match layer.kind.name:
        case "convolution" | "deconvolution":
            return 1
        case "linear":
            return rank - 1
        case "matmul" if isinstance(layer.operand("rhs"), Constant) and rank:
            return rank - 1
        case _:
            return axis_of(Axis.CHANNEL, rank) if rank <= MOST_AXES else None


def by_rank(value: Value) -> int | None:
    """Return the channel axis that the rank gives."""
    return axis_of(Axis.CHANNEL, value.rank) if value.rank <= MOST_AXES else None


def find_permuted_axis(axis: int, perm: object) -> int:
    """Return where an axis goes in a transpose."""
    assert isinstance(perm, tuple)  # noqa: S101 - a transpose's attribute is a list
    places = [int(place) % len(perm) for place in perm]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - integers
    return places.index(axis)
