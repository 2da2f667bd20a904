"""Where the tasks of layers keep their sources on chip, and in which pieces they work: the planner's choice.

Rows are padded so that those that are read together lie in different banks, a work unit has as many rows as its width
leaves, the planar engine's patch follows from the map, and a map that does not fit is worked on in tiles. The rules are
those of compiled programs (`aneforge.targets.work_units`). Chains of tasks that hand over on chip (softmax, norms,
reductions, products) have the buffers of the programs that they were read from and no place here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import extents_of
from aneforge.errors import NotSupportedError
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

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
    found = places_of_work(work_of(layer), memory.size)
    return None if found is None else LayerPlaces(layer.name, *found)


class Work(NamedTuple):
    """What the places of a layer follow from: tensors, and what it does with them. Layers of one network share few."""

    tensors: tuple[TensorType, ...]
    """What the operation gives, what the layer gives, and what it reads."""
    convolution: Convolution | None
    """How the first tensor that it reads is convolved by constant weights."""
    pair: tuple[TensorType, TensorType] | None
    """The tensors of an operation on pairs of elements."""


class Convolution(NamedTuple):
    """Sizes of a convolution, along the height and the width."""

    kernel: tuple[int, int]
    dilation: int
    """Along the height."""
    step: int
    groups: int


class Places(NamedTuple):
    """The places of a layer, as `LayerPlaces` has them."""

    neural: TaskPlace
    planar: TaskPlace
    turned: TaskPlace
    sources: tuple[TaskPlace, ...]
    streamed: TaskPlace | None = None
    resident: TaskPlace | None = None
    pair: TaskPlace | None = None
    repeated: TaskPlace | None = None
    overlap: int = 0


def work_of(layer: Layer) -> Work:
    """Return what the places of a layer follow from."""
    tensors = (layer.core_types[0], layer.result.type, *(one.type for one in layer.bottoms))
    first, second = (layer.operands.get(name) for name in OPERANDS)
    pair = (first.type, second.type) if isinstance(first, Value) and isinstance(second, Value) else None
    return Work(tensors, convolution_of(layer), pair)


def convolution_of(layer: Layer) -> Convolution | None:
    """Return the sizes of a convolution by constant weights; None for other layers."""
    if layer.kind.name != "convolution" or not isinstance(layer.operand("weights"), Constant):
        return None
    strides = layer.integers("strides")
    kernel, (dilation, _) = ((1, 1, *layer.integers(name))[-2:] for name in ("kernel_sizes", "dilation_rates"))
    step = (1, 1, *strides)[-2 if len(strides) > 1 else -1]
    return Convolution((kernel[0], kernel[1]), dilation, step, layer.integer("groups"))


@lru_cache(maxsize=4096)
def places_of_work(work: Work, on_chip: int) -> Places | None:
    """Return where tasks work in so many bytes on chip; None where no rule for such tensors is known."""
    try:
        core, result, *read = (map_of(one) for one in work.tensors)
    except NotSupportedError:
        return None
    if core is None or result is None or None in read:
        return None
    sources = [one for one in read if one is not None]
    neural, turned, *copies = (
        pass_place(one.channels, one.rows, one.width, on_chip=on_chip) for one in (core, result, *sources)
    )
    planar = planar_place(core.channels, core.rows, core.width, on_chip=on_chip)
    places = Places(neural, planar, turned, tuple(copies))
    if work.convolution is not None:
        if not sources:  # of a constant
            return None
        places = with_convolution(places, work.convolution, sources[0], core, on_chip)
    return places if work.pair is None else with_pair(places, work.pair, core, on_chip)


def map_of(tensor: TensorType) -> Extents | None:
    """Return the extents of a tensor of fp16 numbers without a batch and a depth; None for others."""
    found = extents_of(tensor.shape)
    return found if tensor.dtype == HALF and found.batch == found.depth == 1 and tensor.size else None


def with_convolution(
    places: Places, convolution: Convolution, source: Extents, result: Extents, on_chip: int
) -> Places:
    """Add the places of a convolution by constant weights, and the rows of its source that are read twice."""
    kernel, step, groups = convolution.kernel, convolution.step, convolution.groups
    of_group = source.channels // groups
    channels = groups if 1 < groups == source.channels == result.channels else of_group
    maps = (source.rows, source.width), (result.rows, result.width), kernel, step
    streamed = convolution_place(channels, *maps, on_chip, reduced=of_group)
    tiles = -(-result.rows // streamed.tile)
    shared = max(convolution.dilation * (kernel[0] - 1) + 1 - step, 0)
    resident = resident_place(of_group, *maps, on_chip)
    return places._replace(streamed=streamed, resident=resident, overlap=(tiles - 1) * shared)


def with_pair(places: Places, pair: tuple[TensorType, TensorType], result: Extents, on_chip: int) -> Places:
    """Add the places of an operation on two tensors: of one shape, or with one of them repeated."""
    maps = [map_of(one) for one in pair]
    shape = result.channels, result.rows, result.width
    if maps == [result, result]:
        return places._replace(pair=planar_place(*shape, sources=2, on_chip=on_chip))
    repeated = next((one for one in maps if one != result), None)
    if repeated is None or result not in maps:
        return places
    kept = repeated.channels * channel_bytes(repeated.width, NEURAL_WIDTH) * repeated.rows
    beside = planar_place(*shape, kept=kept, on_chip=on_chip)
    copied = pass_place(repeated.channels, repeated.rows, repeated.width, kept, on_chip)
    return places._replace(pair=beside, repeated=copied)
