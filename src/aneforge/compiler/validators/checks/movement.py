"""Layout: transposes, joins, broadcasts, reshapes, views, gathers by coordinates, blocks between axes."""

import math
from collections.abc import Iterator

from aneforge.compiler.validators.declare import gate, layer_rule
from aneforge.rules.checks.movement_rules import block_factors, software_envelope
from aneforge.rules.looking import argument, first, integer, integers
from aneforge.rules.rule import Relation, Seen
from aneforge.rules.subject import Subject


@layer_rule("ANE-TRANSPOSE-004", Relation.NEVER)
def every_axis_once(subject: Subject) -> Iterator[Seen]:
    """The order of axes is {seen}; it must name {limit}.

    Remedy: give a permutation of the axes.
    """
    perm, x = integers(subject, "perm"), argument(subject, "x")
    if perm and x is not None and sorted(axis % len(perm) for axis in perm) != list(range(x.rank)):
        yield Seen(str(list(perm)), "perm")


@layer_rule("ANE-CONCAT-002", Relation.NEVER)
def joined_axis(subject: Subject) -> Iterator[Seen]:
    """Tensors are joined along axis {seen}, which they do not have.

    Remedy: name an axis of the tensors by a constant.
    """
    value, axis = first(subject), integer(subject, "axis")
    if value is not None and (axis is None or not -value.rank <= axis < value.rank):
        yield Seen("one that is not given" if axis is None else axis, "axis")


@layer_rule("ANE-CONCAT-003", Relation.NEVER)
def joined_layouts(subject: Subject) -> Iterator[Seen]:
    """The inputs of a concat have the layouts {seen}; they must have {limit}.

    Remedy: convert them to one layout first.

    A layer of a program has no layout of its own; the authored form of one names each input's as `layouts`.
    """
    layouts = subject.attributes.get("layouts")
    if isinstance(layouts, tuple) and len(set(layouts)) > 1:
        yield Seen(", ".join(map(str, layouts)), "layouts")


@layer_rule("ANE-CONCAT-004", Relation.NEVER)
def joined_extents(subject: Subject) -> Iterator[Seen]:
    """An input of a concat is {seen}; except for the joined axis it must equal the first, {limit}.

    Remedy: pad or slice it first.
    """
    values, axis = subject.arguments.get("values", ()), integer(subject, "axis")
    if not values or axis is None or not -values[0].rank <= axis < values[0].rank:
        return
    along = axis % values[0].rank
    for value in values[1:]:
        pairs = zip(value.shape, values[0].shape, strict=False)
        differs = any(place != along and one != other for place, (one, other) in enumerate(pairs))
        if value.rank != values[0].rank or differs:
            yield Seen(str(list(value.shape)), "input", str(list(values[0].shape)))


@layer_rule("ANE-BROADCAST-002", Relation.NEVER)
def spread_axes(subject: Subject) -> Iterator[Seen]:
    """An axis of length {seen} cannot be broadcast to {limit}; only axes of length 1 can.

    Remedy: use tile.
    """
    x = first(subject)
    if x is None or not subject.results:
        return
    pairs = zip(reversed(x.shape), reversed(subject.results[0].shape), strict=False)
    for old, new in pairs:
        if old not in (1, new):
            yield Seen(old, "axis", new)


@layer_rule("ANE-RESHAPE-002", Relation.NEVER)
def elements_kept(subject: Subject) -> Iterator[Seen]:
    """A reshape makes {seen} elements from {limit}.

    Remedy: give a shape with the same number of elements.
    """
    x = first(subject)
    if x is not None and subject.results and subject.results[0].size != x.size:
        yield Seen(subject.results[0].size, "elements", x.size)


@layer_rule("ANE-UNFLATTEN-002", Relation.PRESENT, gate("unflatten_lowers"))
def unflatten_lowers(subject: Subject) -> Iterator[Seen]:
    """{op} passes its validator and fails in backend lowering on {target}, as everywhere.

    Remedy: use reshape.
    """
    yield Seen(subject.op)


@layer_rule("ANE-INPUTVIEW-002", Relation.NEVER)
def viewed_axis(subject: Subject) -> Iterator[Seen]:
    """A view is along axis {seen}; the tensor has {limit}.

    Remedy: name an axis of the tensor.
    """
    x, axis = first(subject), integer(subject, "axis")
    if x is not None and axis is not None and not -x.rank <= axis < x.rank:
        yield Seen(axis, "axis", x.rank)


def viewed_extent(subject: Subject) -> int | None:
    """Return the length of the axis that a view is along, if it has one."""
    x, axis = first(subject), integer(subject, "axis")
    return None if x is None or axis is None or not -x.rank <= axis < x.rank else x.shape[axis]


@layer_rule("ANE-INPUTVIEW-003", Relation.NEVER)
def viewed_offset(subject: Subject) -> Iterator[Seen]:
    """A view begins at {seen}; the axis has {limit} elements.

    Remedy: begin within the axis.
    """
    extent, offset = viewed_extent(subject), integer(subject, "offset")
    if extent is not None and offset is not None and not 0 <= offset < extent:
        yield Seen(offset, "offset", extent)


@layer_rule("ANE-INPUTVIEW-004", Relation.NEVER)
def viewed_size(subject: Subject) -> Iterator[Seen]:
    """A view ends at element {seen}; the axis has {limit}.

    Remedy: take fewer elements.
    """
    extent = viewed_extent(subject)
    offset, size, step = (integer(subject, name) for name in ("offset", "size", "step"))
    if extent is None or offset is None or size is None:
        return
    last = offset + (size - 1) * max(step or 1, 1) + 1
    if size < 1 or last > extent:
        yield Seen(last, "size", extent)


@layer_rule("ANE-INPUTVIEW-005", Relation.NEVER)
def viewed_step(subject: Subject) -> Iterator[Seen]:
    """A view has a step of {seen}; it must be {limit}.

    Remedy: reverse the tensor first, or step forward.
    """
    step = integer(subject, "step")
    if step is not None and step < 1:
        yield Seen(step, "step")


SPATIAL_AXES = 2


@layer_rule("ANE-GATHER-002", Relation.PRESENT, "texture_engine")
def software_gather(subject: Subject) -> Iterator[Seen]:
    """A gather by coordinates has {seen} {what}; without a texture engine {target} takes {limit}.

    Remedy: gather along one axis at a time, or flatten the tensor and compute one index.

    It is the one gate that the compiler names after a family (IsValidForH13): three axes, data without batch and depth,
    an index of three channels without width and depth.
    """
    x, index = argument(subject, "x"), argument(subject, "indices")
    if subject.op != "gather_nd" or x is None or index is None or index.rank == 0:
        return
    axes, channels = software_envelope("gather_software_axes"), software_envelope("gather_software_index_channels")
    extent = software_envelope("gather_software_data_extent")
    batches = integer(subject, "batch_dims") or 0
    if index.shape[-1] != axes:
        yield Seen(index.shape[-1], "axes", axes)
    if index.shape[-1] != channels:
        yield Seen(index.shape[-1], "channels of the index", channels)
    outside = math.prod(x.shape[:batches]) * math.prod(x.shape[batches + index.shape[-1] :])
    if outside != extent:
        yield Seen(outside, "places of batch and depth of the data", extent)
    lead = sorted(index.shape[:-1])
    if any(length != extent for length in lead[:-1]):
        yield Seen(math.prod(lead[:-1]), "places of width and depth of the index", extent)


@layer_rule("ANE-SPACETOBATCH-003", Relation.AT_MOST, "space_to_batch_batch")
def space_to_batch_batch(subject: Subject) -> Iterator[Seen]:
    """The batch becomes {seen}; {target} takes at most {limit}.

    Remedy: move the images in several parts.
    """
    for tensor in subject.results[:1]:
        yield Seen(tensor.shape[0] if tensor.rank else 1, "batch")


@layer_rule("ANE-BATCHTOSPACE-003", Relation.AT_MOST, "space_to_batch_batch")
def batch_to_space_batch(subject: Subject) -> Iterator[Seen]:
    """The batch is {seen}; {target} takes at most {limit}.

    Remedy: move the images in several parts.
    """
    x = argument(subject, "x")
    if x is not None and x.rank:
        yield Seen(x.shape[0], "batch")


@layer_rule("ANE-BATCHTOSPACE-004", Relation.NEVER)
def batch_divides(subject: Subject) -> Iterator[Seen]:
    """The batch of {seen} is not a multiple of {limit}, the product of the factors.

    Remedy: pad the batch.
    """
    x, factors = argument(subject, "x"), integers(subject, "block_shape")
    if x is not None and x.rank and len(factors) == 2 and x.shape[0] % math.prod(factors):
        yield Seen(x.shape[0], "batch", math.prod(factors), (factors[1], factors[0]))


@layer_rule("ANE-CHANNELTOSPACE-003", Relation.AT_MOST, "channel_to_space_depth_factor")
def channel_to_space_depth(subject: Subject) -> Iterator[Seen]:
    """Channels become space with a factor of {seen} along the depth; {target} takes {limit}.

    Remedy: move only height and width.

    The authored form of the layer names the factor `factor_z`; an operation of a graph has none.
    """
    factor = integer(subject, "factor_z")
    if factor is not None:
        yield Seen(factor, "factor z")


@layer_rule("ANE-PIXELSHUFFLE-003", Relation.NEVER)
def shuffled_channels(subject: Subject) -> Iterator[Seen]:
    """There are {seen} channels; the number must be a multiple of {limit}, the square of the factor.

    Remedy: pad the channels.
    """
    x = argument(subject, "x")
    for factor in block_factors(subject):
        if x is not None and x.rank > 1 and factor > 0 and x.shape[1] % factor**2:
            yield Seen(x.shape[1], "channels", factor**2)


@layer_rule("ANE-PIXELUNSHUFFLE-003", Relation.NEVER)
def unshuffled_extents(subject: Subject) -> Iterator[Seen]:
    """Height or width is {seen}; it must be a multiple of the factor, {limit}.

    Remedy: pad the image.
    """
    x = argument(subject, "x")
    for factor in block_factors(subject):
        for extent in x.shape[-SPATIAL_AXES:] if x is not None else ():
            if factor > 0 and extent % factor:
                yield Seen(extent, "extent", factor)
