"""Where the tasks of layers keep their sources on chip, and in which pieces they work: the planner's choice.

Rows are padded so that those that are read together are in different banks, a work unit has as many rows as its width
leaves, the planar engine's patch follows from the map, and a map that does not fit is worked on in tiles. The rules are
those of compiled programs (`aneforge.targets.work_units`). Chains of tasks that pass results on chip (softmax, norms,
reductions, products) have the buffers of the programs that they were read from (`aneforge.targets.task_chains`).
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from aneforge.compiler.axes import MOST_AXES, Axis, roles
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import extents_of
from aneforge.compiler.memory.spreading import (
    Spreading,
    are_rows_in_place,
    find_joining,
    find_spreading,
    is_within_line,
)
from aneforge.errors import NotSupportedError
from aneforge.ops.constant import Constant
from aneforge.records import dataclass

# Places are part of the plan, which is written to JSON and read back.
from aneforge.targets.task_chains import (
    KERNEL_ROWS,
    Chain,
    ReductionChain,
    RowPart,
    channel_softmax_chain,
    constant_product_chain,
    exchange_chain,
    find_repeated_places,
    layer_norm_chain,
    reduction_chain,
    row_parts,
    runtime_product_chain,
    softmax_chain,
)
from aneforge.targets.work_units import (
    TaskPlace,
    convolution_place,
    pass_place,
    planar_place,
    resident_place,
    strides_itself,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.memory.chip import OnChip
    from aneforge.compiler.memory.layout import Extents
    from aneforge.ops.types import TensorType

__all__ = [
    "Exchange",
    "LayerPlaces",
    "Matrices",
    "ProductPlaces",
    "ThinnedRows",
    "Thinning",
    "axis_names",
    "exchanged_axes",
    "matrices_of",
    "places_of",
    "reduced_axes",
]

HALF = "fp16"
OPERANDS = ("x", "y")
"""Names of the tensors of an operation on pairs of elements."""
AXIS_NAMES = {
    Axis.BATCH: "batch",
    Axis.CHANNEL: "channels",
    Axis.DEPTH: "depth",
    Axis.HEIGHT: "height",
    Axis.WIDTH: "width",
}
SQUARE = "sqr"
LEAST, LARGEST = "reduce_min", "reduce_max"


@dataclass(frozen=True, slots=True)
class Exchange:
    """The place of a copy that exchanges channels with another axis."""

    with_rows: TaskPlace | None = None
    """Where they are exchanged with rows, by strides only."""
    with_columns: Chain | None = None


@dataclass(frozen=True, slots=True)
class ProductPlaces:
    """Where the tasks of a product of two tensors work: one of them is the kernel, the other the map."""

    parts: tuple[RowPart, ...]
    """Rows of the kernel that are multiplied at a time; none where there are too few."""
    exchanges: tuple[Exchange | None, Exchange | None]
    """Copies that make kernel and map ready; None for one that is read as it is."""
    back: Exchange | None = None
    """The second tensor is the kernel, and the result of both is exchanged back."""


@dataclass(frozen=True, slots=True)
class ThinnedRows:
    """The places of the copies that keep every so many columns and rows of a map, for some rows of what is left."""

    first: int
    rows: int
    columns: Chain
    """Channels are exchanged with columns, of the rows that are kept."""
    back: Chain
    """And back again, of the columns that are kept."""


@dataclass(frozen=True, slots=True)
class Thinning:
    """Where a convolution works whose strides no program is known of: with strides of one, and then thinned."""

    whole: tuple[int, int]
    """Rows and columns of the convolution with strides of one."""
    streamed: TaskPlace
    """Its source."""
    resident: TaskPlace | None
    rows: tuple[ThinnedRows, ...]


@dataclass(frozen=True, slots=True)
class LayerPlaces:
    """Where the tasks of one layer work: its operation, and what comes after it."""

    neural: TaskPlace
    """A task of the neural cores that passes the operation's result through: a table, a relu, a copy."""
    planar: TaskPlace
    """A task of the planar engine on elements of the operation's result."""
    sources: tuple[TaskPlace, ...]
    """Copies of what the layer reads."""
    streamed: TaskPlace | None = None
    """The source of a convolution, which streams through."""
    resident: TaskPlace | None = None
    """The same where it stays on chip for several tasks; None where it does not fit."""
    thinning: Thinning | None = None
    """A convolution that is made of another one, with strides of one."""
    pair: TaskPlace | None = None
    """An operation on elements of two tensors."""
    repeated: TaskPlace | None = None
    """The copy of a tensor that is repeated for it; the operation is placed after what stays of it."""
    overlap: int = 0
    """Rows of a convolution's source that are read again, because tiles of the result share them."""
    chain: Chain | None = None
    """The tasks of a softmax, a norm or a product by a constant."""
    reduction: ReductionChain | None = None
    product: ProductPlaces | None = None
    exchanges: tuple[Exchange, ...] = ()
    """Copies that exchange axes, one after the other: of a transpose, a change of shape, or dropped axes."""
    turned: tuple[Exchange, ...] = ()
    """The same where a transpose comes last."""
    spreading: Spreading | None = None
    """A change of shape, a part or a join for which elements move within lines of memory."""
    negated: TaskPlace | None = None
    """The copy of a source with its sign turned."""


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
    return places_of_work(work_of(layer), memory.size)


class Work(NamedTuple):
    """What the places of a layer follow from: tensors, and what it does with them. Layers of one network share few."""

    tensors: tuple[TensorType, ...]
    """What the operation gives, what the layer gives, and what it reads."""
    convolution: Convolution | None
    """How the first tensor that it reads is convolved by constant weights."""
    pair: tuple[TensorType, TensorType] | None
    """The tensors of an operation on pairs of elements."""
    chain: ChainWork | None
    """What it does that takes a chain of tasks."""


class ChainWork(NamedTuple):
    """An operation that is a chain of tasks."""

    kind: str
    axes: frozenset[str] = frozenset()
    """What it reduces, normalises or joins along."""
    order: tuple[int, ...] = ()
    """How a transpose orders the axes, or where a part begins."""
    turned: tuple[int, ...] = ()
    """How a transpose after the operation orders them."""
    factors: tuple[Matrices, ...] = ()
    """The tensors of a product."""
    transposed: tuple[bool, bool] = (False, False)
    """Which tensors of a product are read with rows and columns exchanged."""


class Convolution(NamedTuple):
    """Sizes of a convolution, along the height and the width."""

    kernel: tuple[int, int]
    dilation: int
    """Along the height."""
    strides: tuple[int, int]
    pads: tuple[int, int]
    """Rows above, columns before."""
    groups: int


def work_of(layer: Layer) -> Work:
    """Return what the places of a layer follow from."""
    tensors = (layer.core_types[0], layer.result.type, *(one.type for one in layer.bottoms))
    first, second = (layer.operands.get(name) for name in OPERANDS)
    if layer.kind.name == SQUARE:
        second = first
    pair = (first.type, second.type) if isinstance(first, Value) and isinstance(second, Value) else None
    return Work(tensors, convolution_of(layer), pair, chain_of(layer))


def chain_of(layer: Layer) -> ChainWork | None:
    """Return what a layer does that takes a chain of tasks; None for other layers."""
    kind, stage = layer.kind.name, layer.epilogue.transpose
    turned = () if stage is None else stage.integers("perm")
    add = CHAINS.get(kind)
    if (add is None and not turned) or not layer.bottoms:  # what reads only constants has no tensor to place
        return None
    if any(value.rank > MOST_AXES for value in (*layer.bottoms, layer.result)):
        return None
    axes: frozenset[str] = frozenset()
    order: tuple[int, ...] = ()
    factors: tuple[Matrices, ...] = ()
    transposed = (False, False)
    if add is with_reduction:
        axes = reduced_axes(layer)
    elif add is with_softmax:
        axes = frozenset({axis_names(layer.result.rank)[layer.integer("axis")]})
    elif add is with_transpose:
        order = layer.integers("perm")
    elif add is with_part:
        order = layer.integers("begin")
    elif add is with_join:
        axes = frozenset({axis_names(layer.result.rank)[layer.integer("axis")]})
    elif add is with_product:
        given = layer.operand("lhs"), layer.operand("rhs")
        tensors = [one.type for one in given if isinstance(one, Value)]
        factors = tuple(map(matrices_of, tensors)) if len(tensors) == len(given) else ()
        transposed = layer.flag("transpose_lhs"), layer.flag("transpose_rhs")
    return ChainWork(kind, axes, order, turned, factors, transposed)


def axis_names(rank: int) -> tuple[str, ...]:
    """Return what the axes of a tensor are on the engine, by name.

    >>> axis_names(3)
    ('batch', 'channels', 'width')
    """
    return tuple(AXIS_NAMES[role] for role in roles(rank))


def reduced_axes(layer: Layer) -> frozenset[str]:
    """Return the axes that a layer reduces, by name; all of them where none is named."""
    names = axis_names(layer.bottoms[0].rank)
    axes = layer.optional_integers("axes")
    reduced = names if axes is None else [names[axis] for axis in axes]
    return frozenset(reduced) - {"batch", "depth"}


def convolution_of(layer: Layer) -> Convolution | None:
    """Return the sizes of a convolution by constant weights; None for other layers."""
    if layer.kind.name != "convolution" or not isinstance(layer.operand("weights"), Constant):
        return None
    strides = layer.integers("strides")
    kernel, (dilation, _) = ((1, 1, *layer.integers(name))[-2:] for name in ("kernel_sizes", "dilation_rates"))
    down, across = strides[-2:] if len(strides) > 1 else (*strides, *strides)
    top, _, left, _ = (0, 0, *layer.integers("explicit_padding"))[-4:]
    return Convolution((kernel[0], kernel[1]), dilation, (down, across), (top, left), layer.integer("groups"))


@lru_cache(maxsize=4096)
def places_of_work(work: Work, on_chip: int) -> LayerPlaces | None:
    """Return where tasks work in so many bytes on chip; None where no rule for such tensors is known."""
    try:
        core, result, *read = (map_of(one) for one in work.tensors)
    except NotSupportedError:
        return None
    if core is None or result is None or None in read:
        return None
    sources = [one for one in read if one is not None]
    neural, *copies = (pass_place(*sizes_of(one), on_chip=on_chip) for one in (core, *sources))
    planar = planar_place(*sizes_of(core), on_chip=on_chip)
    places = LayerPlaces(neural, planar, tuple(copies))
    if work.convolution is not None:
        if not sources:  # of a constant
            return None
        places = with_convolution(places, work.convolution, sources[0], core, on_chip)
    if work.pair is not None:
        places = with_pair(places, work.pair, core, on_chip)
    return (
        places if work.chain is None or not sources else with_chain(places, work.chain, sources, core, result, on_chip)
    )


def map_of(tensor: TensorType) -> Extents | None:
    """Return the extents of a tensor of fp16 numbers without a batch and a depth; None for others."""
    found = extents_of(tensor.shape)
    return found if tensor.dtype == HALF and found.batch == found.depth == 1 and tensor.size else None


def with_convolution(
    places: LayerPlaces, convolution: Convolution, source: Extents, result: Extents, on_chip: int
) -> LayerPlaces:
    """Add the places of a convolution by constant weights, and the rows of its source that are read twice."""
    kernel, strides, groups = convolution.kernel, convolution.strides, convolution.groups
    step = strides[0]
    of_group = source.channels // groups
    channels = groups if 1 < groups == source.channels == result.channels else of_group
    maps = (source.rows, source.width), (result.rows, result.width), kernel
    streamed = convolution_place(channels, *maps, step, on_chip, reduced=of_group)
    tiles = -(-result.rows // streamed.tile)
    shared = max(convolution.dilation * (kernel[0] - 1) + 1 - step, 0)
    resident = resident_place(of_group, *maps, step, on_chip)
    places = replace(places, streamed=streamed, resident=resident, overlap=(tiles - 1) * shared)
    if strides_itself(kernel, strides, groups):
        return places
    sides = zip(maps[0], maps[1], kernel, strides, convolution.pads, strict=True)
    rows, columns = (find_whole_side(*side) for side in sides)
    thinning = Thinning(
        (rows, columns),
        convolution_place(channels, maps[0], (rows, columns), kernel, 1, on_chip, reduced=of_group),
        resident_place(of_group, maps[0], (rows, columns), kernel, 1, on_chip),
        thin_rows(sizes_of(result), columns, on_chip),
    )
    return replace(places, thinning=thinning)


def find_whole_side(source: int, result: int, kernel: int, stride: int, pad: int) -> int:
    """Return how far a window moves in steps of one: up to the last place that is kept, and over all of the source.

    >>> find_whole_side(16, 8, 3, 2, 1), find_whole_side(8, 3, 3, 2, 0), find_whole_side(12, 4, 3, 3, 1)
    (15, 6, 11)
    """
    return max((result - 1) * stride + 1, source + pad - kernel + 1)


def thin_rows(result: Sizes, columns: int, on_chip: int) -> tuple[ThinnedRows, ...]:
    """Return the places of the copies that thin a map of so many columns, for as many rows at a time as fit the chip.

    >>> [(part.first, part.rows) for part in thin_rows((64, 112, 112), 223, 1 << 21)]
    [(0, 28), (28, 28), (56, 28), (84, 28)]
    """
    channels, rows, width = result

    def chains(count: int) -> tuple[Chain, Chain]:
        return exchange_chain(channels, count, columns), exchange_chain(width, count, channels)

    count = rows
    while count > 1 and max(chain.needed for chain in chains(count)) >= on_chip:
        count = -(-count // 2)
    parts = [(first, min(count, rows - first)) for first in range(0, rows, count)]
    return tuple(ThinnedRows(first, some, *chains(some)) for first, some in parts)


def with_pair(places: LayerPlaces, pair: tuple[TensorType, TensorType], result: Extents, on_chip: int) -> LayerPlaces:
    """Add the places of an operation on two tensors: of one shape, or with one of them repeated."""
    maps = [map_of(one) for one in pair]
    shape = result.channels, result.rows, result.width
    if maps == [result, result]:
        return replace(places, pair=planar_place(*shape, sources=2, on_chip=on_chip))
    repeated = next((one for one in maps if one != result), None)
    if repeated is None or result not in maps:
        return places
    copied, joined = find_repeated_places(shape, sizes_of(repeated), on_chip)
    return replace(places, pair=joined, repeated=copied)


def sizes_of(extents: Extents) -> Sizes:
    """Return channels, rows and columns."""
    return extents.channels, extents.rows, extents.width


Sizes = tuple[int, int, int]
"""Channels, rows and columns of a tensor."""


def with_chain(
    places: LayerPlaces, chain: ChainWork, sources: Sequence[Extents], core: Extents, result: Extents, on_chip: int
) -> LayerPlaces:
    """Add the places of an operation that is a chain of tasks, and of a transpose after any."""
    add = CHAINS.get(chain.kind)
    if add is not None:
        places = add(places, chain, sources, core, on_chip)
    if chain.turned:
        return replace(places, turned=exchanges_of(sizes_of(core), sizes_of(result), chain.turned, on_chip))
    return places


def with_reduction(
    places: LayerPlaces, chain: ChainWork, sources: Sequence[Extents], core: Extents, on_chip: int
) -> LayerPlaces:
    """Add the places of a reduction: also of what it does with signs, and with the axes that it drops."""
    source = sizes_of(sources[0])
    least = chain.kind == LEAST
    found = reduction_chain(*source, chain.axes, on_chip, maximum=least or chain.kind == LARGEST)
    channels, rows, width = (1 if name in chain.axes else size for name, size in zip(REDUCED, source, strict=True))
    negated = planar_place(*source, on_chip=on_chip) if least else None
    moved = with_other_shape(places, (channels, rows, width), sizes_of(core), on_chip)
    return replace(moved, reduction=found, negated=negated)


def with_softmax(
    places: LayerPlaces, chain: ChainWork, _: Sequence[Extents], core: Extents, on_chip: int
) -> LayerPlaces:
    """Add the places of a softmax: over the width on chip, over channels and rows through memory."""
    channels, rows, width = sizes_of(core)
    if "width" in chain.axes:
        return replace(places, chain=softmax_chain(channels, rows, width, on_chip))
    seen = (rows, channels) if "height" in chain.axes else (channels, rows)
    return replace(places, chain=channel_softmax_chain(*seen, width, on_chip))


def with_norm(places: LayerPlaces, _: ChainWork, __: Sequence[Extents], core: Extents, ___: int) -> LayerPlaces:
    """Add the places of a layer norm of one row of each channel."""
    return replace(places, chain=layer_norm_chain(core.channels, core.width))


def with_constant_product(
    places: LayerPlaces, _: ChainWork, sources: Sequence[Extents], __: Extents, ___: int
) -> LayerPlaces:
    """Add the places of a product by a constant; rows of all channels are rows of one matrix."""
    channels, rows, width = sizes_of(sources[0])
    return replace(places, chain=constant_product_chain(channels * rows, width))


def with_product(places: LayerPlaces, chain: ChainWork, _: Sequence[Extents], __: Extents, ___: int) -> LayerPlaces:
    """Add the places of a product of two tensors."""
    return replace(places, product=product_of(chain.factors, chain.transposed)) if chain.factors else places


def with_transpose(
    places: LayerPlaces, chain: ChainWork, sources: Sequence[Extents], core: Extents, on_chip: int
) -> LayerPlaces:
    """Add the places of a transpose."""
    return replace(places, exchanges=exchanges_of(sizes_of(sources[0]), sizes_of(core), chain.order, on_chip))


def with_shape(
    places: LayerPlaces, _: ChainWork, sources: Sequence[Extents], core: Extents, on_chip: int
) -> LayerPlaces:
    """Add the places of a change of shape."""
    return with_other_shape(places, sizes_of(sources[0]), sizes_of(core), on_chip)


def with_other_shape(places: LayerPlaces, source: Sizes, result: Sizes, on_chip: int) -> LayerPlaces:
    """Add the places of copies that give a tensor another shape; none where its elements stay where they are."""
    if exchanged_axes(source, result, ()) is None and not are_rows_in_place(source[-1], result[-1]):
        return replace(places, spreading=find_spreading(source, result, on_chip))
    return replace(places, exchanges=exchanges_of(source, result, (), on_chip))


def with_part(
    places: LayerPlaces, chain: ChainWork, sources: Sequence[Extents], core: Extents, on_chip: int
) -> LayerPlaces:
    """Add the places of a part that begins within a line of memory; rows of a channel follow one another there."""
    if not is_within_line(chain.order[-1]):
        return places
    rows = core.channels * core.rows
    read = rows if core.rows == sources[0].rows else core.rows
    return replace(places, spreading=find_joining((read, rows), [sources[0].width], core.width, on_chip))


def with_join(
    places: LayerPlaces, chain: ChainWork, sources: Sequence[Extents], core: Extents, on_chip: int
) -> LayerPlaces:
    """Add the places of tensors that are joined along columns, where one of them begins within a line of memory."""
    widths = [one.width for one in sources]
    starts = itertools.accumulate(widths[:-1])
    if chain.axes != frozenset({"width"}) or not any(map(is_within_line, starts)):
        return places
    rows = core.channels * core.rows
    return replace(places, spreading=find_joining((rows, rows), widths, core.width, on_chip))


CHAINS: Mapping[str, Callable[[LayerPlaces, ChainWork, Sequence[Extents], Extents, int], LayerPlaces]] = {
    "reduce_sum": with_reduction,
    "reduce_avg": with_reduction,
    LEAST: with_reduction,
    LARGEST: with_reduction,
    "softmax": with_softmax,
    "layer_norm": with_norm,
    "linear": with_constant_product,
    "matmul": with_product,
    "transpose": with_transpose,
    "reshape": with_shape,
    "flatten": with_shape,
    "identity": with_shape,
    "slice": with_part,
    "concat": with_join,
}
"""What adds the places of operations that are chains of tasks, by their kind."""
REDUCED = ("channels", "height", "width")
"""Axes that reductions reduce."""


class Matrices(NamedTuple):
    """A tensor as matrices: one, whose rows are channels, or one for each channel."""

    matrices: int
    rows: int
    columns: int
    of_channels: bool
    """Each is a channel of the tensor."""

    @property
    def turned(self) -> Matrices:
        """The matrices with rows and columns exchanged."""
        return self._replace(rows=self.columns, columns=self.rows)


def matrices_of(tensor: TensorType) -> Matrices:
    """Return the matrices of a tensor: rows and columns are its last two axes.

    >>> from aneforge.ops.types import TensorType
    >>> matrices_of(TensorType((1, 64, 32))), matrices_of(TensorType((1, 4, 1, 32)))
    (Matrices(matrices=1, rows=64, columns=32, of_channels=False), \
Matrices(matrices=4, rows=1, columns=32, of_channels=True))
    """
    channels, height, width = sizes_of(extents_of(tensor.shape))
    if "height" in axis_names(tensor.rank):
        return Matrices(channels, height, width, of_channels=True)
    return Matrices(1, channels, width, of_channels=False)


def product_of(factors: Sequence[Matrices], transposed: tuple[bool, bool]) -> ProductPlaces:
    """Return where a product of two tensors works.

    Where the first has too few rows for a kernel, the second is it, and both are multiplied the other way round: the
    products and their sums are the same.
    """
    given = list(factors)
    read = [one.turned if turned else one for one, turned in zip(given, transposed, strict=True)]
    swapped = read[0].rows < KERNEL_ROWS[-1] <= read[1].columns
    if swapped:
        given, read = given[::-1], [one.turned for one in read[::-1]]
        transposed = not transposed[1], not transposed[0]
    kernel, of = read
    parts = tuple(
        RowPart(first, rows, runtime_product_chain(rows, kernel.columns, of.columns))
        for first, rows in row_parts(kernel.rows)
    )
    ready = [
        Exchange(with_columns=exchange_chain(one.rows, 1, one.columns)) if turned else None
        for one, turned in zip(given, transposed, strict=True)
    ]
    back = Exchange(with_columns=exchange_chain(kernel.rows, 1, of.columns)) if swapped else None
    return ProductPlaces(parts, (ready[0], ready[1]), back)


def exchanges_of(source: Sizes, result: Sizes, order: tuple[int, ...], on_chip: int) -> tuple[Exchange, ...]:
    """Return the places of the copies that give a tensor another order of axes, or another shape."""
    found: list[Exchange] = []
    channels, rows, width = source
    for axis in exchanged_axes(source, result, order) or ():
        if axis == "width":
            found.append(Exchange(with_columns=exchange_chain(channels, rows, width)))
            channels, width = width, channels
        else:
            found.append(Exchange(with_rows=pass_place(rows, channels, width, on_chip=on_chip)))
            channels, rows = rows, channels
    return tuple(found)


def exchanged_axes(source: Sizes, result: Sizes, order: tuple[int, ...]) -> tuple[str, ...] | None:
    """Return with which axes channels are exchanged, one after the other, to transpose a tensor or change its shape.

    Tensors are given by channels, rows and columns; without an order only the shape changes. None where no
    exchanges do that.

    >>> exchanged_axes((6, 10, 40), (6, 40, 10), (0, 1, 3, 2)), exchanged_axes((6, 1, 1), (1, 1, 6), ())
    (('height', 'width', 'height'), ('width',))
    """
    flat = source[1] == result[1] == 1 and (source[0], source[2]) == (result[2], result[0])
    if not order:
        return () if source == result else ("width",) if flat and 1 in {source[0], source[2]} else None
    moved = tuple(place - len(order) for place in order)
    return ("width",) if flat and moved[-2:] == (-1, -2) else EXCHANGES.get(moved)


EXCHANGES: Mapping[tuple[int, ...], tuple[str, ...]] = {
    (-4, -2, -3, -1): ("height",),
    (-4, -1, -2, -3): ("width",),
    (-4, -3, -1, -2): ("height", "width", "height"),
    (-4, -2, -1, -3): ("width", "height"),
    (-4, -1, -3, -2): ("height", "width"),
}
"""Transposes of four axes as exchanges of the channels with another axis, one after the other."""
