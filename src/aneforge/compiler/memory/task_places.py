"""Where the tasks of layers keep their sources on chip, and in which pieces they work: the planner's choice.

Rows are padded so that those that are read together lie in different banks, a work unit has as many rows as its width
leaves, the planar engine's patch follows from the map, and a map that does not fit is worked on in tiles. The rules are
those of compiled programs (`aneforge.targets.work_units`). Chains of tasks that hand over on chip (softmax, norms,
reductions, products) have the buffers of the programs that they were read from and no place here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import extents_of
from aneforge.errors import NotSupportedError
from aneforge.ops.constant import Constant

# Places are part of the plan, which is written to JSON and read back.
from aneforge.targets.work_units import (
    NEURAL_WIDTH,
    TaskPlace,
    channel_bytes,
    convolution_place,
    pass_place,
    planar_place,
    resident_place,
)

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.memory.chip import OnChip
    from aneforge.compiler.memory.layout import Extents
    from aneforge.ops.types import TensorType

__all__ = ["LayerPlaces", "places_of"]

HALF = "fp16"
OPERANDS = ("x", "y")
"""Names of the tensors of an operation on pairs of elements."""


@dataclass(frozen=True, slots=True)
class LayerPlaces:
    """Where the tasks of one layer work: its operation, and what comes after it."""

    layer: str
    neural: TaskPlace
    """A task of the neural cores that passes the operation's result through: a table, a relu, a copy."""
    planar: TaskPlace
    """A task of the planar engine on elements of the operation's result."""
    turned: TaskPlace
    """A copy into the extents of the layer's result, where a transpose comes last."""
    sources: tuple[TaskPlace, ...]
    """Copies of what the layer reads."""
    streamed: TaskPlace | None = None
    """The source of a convolution, which streams through."""
    resident: TaskPlace | None = None
    """The same where it stays on chip for several tasks; None where it does not fit."""
    pair: TaskPlace | None = None
    """An operation on elements of two tensors."""
    repeated: TaskPlace | None = None
    """The copy of a tensor that is repeated for it; the operation is placed after what stays of it."""
    overlap: int = 0
    """Rows of a convolution's source that are read again, because tiles of the result share them."""


def places_of(layer: Layer, memory: OnChip) -> LayerPlaces | None:
    """Return where the tasks of a layer work; None where no rule for such tensors is known.

    >>> import aneforge as af
    >>> from aneforge.compiler.compile import compile_graph
    >>> (layer,) = compile_graph(af.input((1, 64, 16, 16)).relu(), af.targets.Family.A13).program.layers
    >>> from aneforge.compiler.memory.chip import on_chip
    >>> from aneforge.compiler.schedule.rules import rules
    >>> found = places_of(layer, on_chip(af.targets.resolve(af.targets.Family.A13), rules()))
    >>> found and (found.neural.row, found.planar.patch)
    (2096, (4, 4))
    """
    try:
        core, result, *read = (
            map_of(one) for one in (layer.core_types[0], layer.result.type, *(one.type for one in layer.bottoms))
        )
    except NotSupportedError:
        return None
    if core is None or result is None or None in read:
        return None
    size = memory.size
    neural, turned, *sources = (
        pass_place(one.channels, one.rows, one.width, on_chip=size) for one in (core, result, *filter(None, read))
    )
    planar = planar_place(core.channels, core.rows, core.width, on_chip=size)
    places = LayerPlaces(layer.name, neural, planar, turned, tuple(sources))
    return with_pair(with_convolution(places, layer, core, size), layer, core, size)


def map_of(tensor: TensorType) -> Extents | None:
    """Return the extents of a tensor of fp16 numbers without a batch and a depth; None for others."""
    found = extents_of(tensor.shape)
    return found if tensor.dtype == HALF and found.batch == found.depth == 1 and tensor.size else None


def with_convolution(places: LayerPlaces, layer: Layer, result: Extents, on_chip: int) -> LayerPlaces:
    """Add the places of a convolution by constant weights, and the rows of its source that are read twice."""
    if layer.kind.name != "convolution" or not isinstance(layer.operand("weights"), Constant):
        return places
    source = map_of(layer.bottoms[0].type)
    if source is None:
        return places
    kernel, strides, dilations = (
        (1, 1, *layer.integers(name))[-2:] for name in ("kernel_sizes", "strides", "dilation_rates")
    )
    step = strides[0] if len(layer.integers("strides")) > 1 else strides[1]
    groups = layer.integer("groups")
    of_group = source.channels // groups
    channels = groups if 1 < groups == source.channels == result.channels else of_group
    maps = (source.rows, source.width), (result.rows, result.width), (kernel[0], kernel[1]), step
    streamed = convolution_place(channels, *maps, on_chip, reduced=of_group)
    tiles = -(-result.rows // streamed.tile)
    shared = max(dilations[0] * (kernel[0] - 1) + 1 - step, 0)
    resident = resident_place(of_group, *maps, on_chip)
    return replace(places, streamed=streamed, resident=resident, overlap=(tiles - 1) * shared)


def with_pair(places: LayerPlaces, layer: Layer, result: Extents, on_chip: int) -> LayerPlaces:
    """Add the places of an operation on two tensors: of one shape, or with one of them repeated."""
    given = [layer.operands.get(name) for name in OPERANDS]
    values = [one for one in given if isinstance(one, Value)]
    if len(values) != len(OPERANDS):
        return places
    maps = [map_of(one.type) for one in values]
    shape = result.channels, result.rows, result.width
    if maps == [result, result]:
        return replace(places, pair=planar_place(*shape, sources=2, on_chip=on_chip))
    repeated = next((one for one in maps if one != result), None)
    if repeated is None or result not in maps:
        return places
    kept = repeated.channels * channel_bytes(repeated.width, NEURAL_WIDTH) * repeated.rows
    pair = planar_place(*shape, kept=kept, on_chip=on_chip)
    copied = pass_place(repeated.channels, repeated.rows, repeated.width, kept, on_chip)
    return replace(places, pair=pair, repeated=copied)
