"""Layout: transposes, borders, repetition, blocks that move between axes, resizing, gathers by coordinates."""

import math
from collections.abc import Iterator

from aneforge.ops.op import Trait
from aneforge.ops.types import TensorType
from aneforge.rules.facts import fact
from aneforge.rules.looking import argument, depth_axis, first, integer, integers, is_live, leftover
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject
from aneforge.targets import database

CHANNELS_RANK = 4
"""Axes of a tensor whose second one holds channels."""
SPATIAL_AXES = 2
"""Height and width: the last two axes of any tensor; one of fewer axes leaves the others free."""


@rule(
    "ANE-TRANSPOSE-002",
    Severity.DECOMPOSE,
    bound="max_transpose_width",
    relation=Relation.AT_MOST,
    ops={"transpose"},
)
def transposes_at_all(_: Subject) -> Iterator[Seen]:
    """{target} does not run a transpose as one operation: its largest width is {limit}.

    Remedy: not needed when compiled from a graph, where the transpose is split automatically.
    """
    yield Seen(1, "width")


@rule(
    "ANE-TRANSPOSE-003",
    Severity.DECOMPOSE,
    bound="transpose_trailing_axes",
    relation=Relation.AT_MOST,
    ops={"transpose"},
)
def transposed_axes(subject: Subject) -> Iterator[Seen]:
    """A transpose moves the last {seen} axes; {target} moves at most the last {limit}.

    Remedy: not needed when compiled from a graph, where axes are exchanged one after the other; otherwise fold the
    batch into another axis before the transpose, and unfold it after it.
    """
    perm = integers(subject, "perm")
    moved = next((place for place, source in enumerate(perm) if source % len(perm) != place), None)
    if moved is not None:
        yield Seen(len(perm) - moved, "axes")


@rule("ANE-PAD-002", Severity.DECOMPOSE, bound=fact("padded_axes"), relation=Relation.NEVER, ops={"pad"})
def padded_axes(subject: Subject) -> Iterator[Seen]:
    """Axis {seen} is padded; a layer pads {limit}.

    Remedy: not needed when compiled from a graph, where the axis is transposed to the height and back; otherwise
    concatenate with a constant.
    """
    x, pads = argument(subject, "x"), integers(subject, "pad")
    if x is None:
        return
    before = x.rank - len(pads) // 2
    for place in range(len(pads) // 2):
        if any(pads[2 * place : 2 * place + 2]) and before + place < x.rank - SPATIAL_AXES:
            yield Seen(before + place, "axis")


def resized_axes(subject: Subject) -> Iterator[int]:
    """Iterate over the axes other than height and width that resizing changes."""
    x = argument(subject, "x")
    if x is None or not subject.results or subject.results[0].rank != x.rank:
        return
    for axis, (old, new) in enumerate(zip(x.shape, subject.results[0].shape, strict=True)):
        if old != new and axis < x.rank - SPATIAL_AXES:
            yield axis


@rule("ANE-RESIZE-002", Severity.DECOMPOSE, bound=fact("resized_axes"), relation=Relation.NEVER, trait=Trait.RESIZING)
def only_height_and_width(subject: Subject) -> Iterator[Seen]:
    """Axis {seen} is resized; a layer resizes {limit}.

    Remedy: not needed when compiled from a graph, where the axis is transposed to the width and back; otherwise
    transpose it yourself.
    """
    for axis in resized_axes(subject):
        yield Seen(axis, "axis")


def is_broadcast(x: TensorType, result: TensorType) -> bool:
    """Return whether a repetition is a broadcast: only axes of length 1 are repeated, and not the depth."""
    depth = depth_axis(x)
    if result.rank != x.rank or (depth is not None and x.shape[depth] != result.shape[depth]):
        return False
    return all(old in (1, new) for old, new in zip(x.shape, result.shape, strict=True))


@rule("ANE-TILE-002", Severity.DECOMPOSE, bound="tile_factors", relation=Relation.ONE_OF, ops={"tile"})
def tile_counts(subject: Subject) -> Iterator[Seen]:
    """A tensor is repeated with the factor {seen}; counts on {target} must be products of {limit}.

    Remedy: not needed when compiled from a graph, where it is repeated along an axis of length 1 between reshapes;
    otherwise concatenate the tensor with itself.

    If only axes of length 1 are repeated it is a broadcast, which allows any count, except along the depth.
    """
    x = first(subject)
    if x is not None and any(is_broadcast(x, result) for result in subject.results[:1]):
        return
    for times in integers(subject, "reps"):
        if leftover(times) != 1:
            yield Seen(leftover(times), f"count {times}")


def block_factors(subject: Subject) -> Iterator[int]:
    """Iterate over the factors of a move between axes."""
    yield from integers(subject, "block_shape")
    one = integer(subject, "block_size", "upscale_factor", "downscale_factor")
    if one is not None:
        yield one


def unbuilt(subject: Subject) -> Iterator[Seen]:
    """Yield what is left of factors that are not products of 2, 3, 4 and 8."""
    for factor in block_factors(subject):
        if leftover(factor) != 1:
            yield Seen(leftover(factor), f"block of {factor}")


@rule(
    "ANE-SPACETOBATCH-002",
    Severity.REJECT,
    bound="space_to_batch_factors",
    relation=Relation.ONE_OF,
    ops={"space_to_batch"},
)
def space_to_batch_factors(subject: Subject) -> Iterator[Seen]:
    """A block has the factor {seen}; blocks on {target} must be products of {limit}.

    Remedy: reshape and transpose instead.
    """
    yield from unbuilt(subject)


@rule(
    "ANE-BATCHTOSPACE-002",
    Severity.REJECT,
    bound="space_to_batch_factors",
    relation=Relation.ONE_OF,
    ops={"batch_to_space"},
)
def batch_to_space_factors(subject: Subject) -> Iterator[Seen]:
    """A block has the factor {seen}; blocks on {target} must be products of {limit}.

    Remedy: reshape and transpose instead.
    """
    yield from unbuilt(subject)


@rule(
    "ANE-CHANNELTOSPACE-002",
    Severity.REJECT,
    bound=fact("channel_to_space_factors"),
    relation=Relation.ONE_OF,
    ops={"depth_to_space", "channel_to_space"},
)
def channel_to_space_factors(subject: Subject) -> Iterator[Seen]:
    """A block has the factor {seen}; blocks on {target} must be products of {limit}.

    Remedy: reshape and transpose instead.
    """
    yield from unbuilt(subject)


@rule(
    "ANE-SPACETOCHANNEL-002",
    Severity.REJECT,
    bound=fact("channel_to_space_factors"),
    relation=Relation.ONE_OF,
    ops={"space_to_depth", "space_to_channel"},
)
def space_to_channel_factors(subject: Subject) -> Iterator[Seen]:
    """A block has the factor {seen}; blocks on {target} must be products of {limit}.

    Remedy: reshape and transpose instead.
    """
    yield from unbuilt(subject)


@rule(
    "ANE-PIXELSHUFFLE-002",
    Severity.REJECT,
    bound="pixel_shuffle_factors",
    relation=Relation.ONE_OF,
    ops={"pixel_shuffle"},
)
def shuffle_factors(subject: Subject) -> Iterator[Seen]:
    """Pixels are shuffled by a factor of {seen}; it must be one of {limit}.

    Remedy: shuffle in two steps with these factors, or reshape and transpose.
    """
    for factor in block_factors(subject):
        yield Seen(factor, "factor")


@rule(
    "ANE-PIXELUNSHUFFLE-002",
    Severity.REJECT,
    bound="pixel_shuffle_factors",
    relation=Relation.ONE_OF,
    ops={"pixel_unshuffle"},
)
def unshuffle_factors(subject: Subject) -> Iterator[Seen]:
    """Pixels are unshuffled by a factor of {seen}; it must be one of {limit}.

    Remedy: unshuffle in two steps with these factors, or reshape and transpose.
    """
    for factor in block_factors(subject):
        yield Seen(factor, "factor")


def software_envelope(name: str) -> int:
    """Return a number of the tier for which the software gather is known, the only tier without another."""
    (tier,) = database().limits["gather_software_axes"].facts
    return int(str(database().limits[name].facts[tier].value))


@rule("ANE-GATHER-003", Severity.REJECT, bound="texture_engine", relation=Relation.PRESENT, ops={"gather_nd"})
def software_gather_form(subject: Subject) -> Iterator[Seen]:
    """A gather by coordinates has {seen} {what}; without a texture engine {target} takes {limit}.

    Remedy: gather along one axis, make the indices constants, or choose a target of the {since} family or a later one.

    Without a texture engine only one form is supported: three axes of one image, with coordinates for every axis. This
    operation cannot be rewritten to that form. Constant indices are rewritten so that each selects one element.
    """
    x, index = argument(subject, "x"), argument(subject, "indices")
    if x is None or index is None or index.rank == 0 or not subject.results:
        return
    lookups = subject.results[0].size
    if is_live(subject, "indices"):
        yield from unnamed_axes(x, index, integer(subject, "batch_dims") or 0)
        lookups = math.prod(index.shape[:-1])
    longest = software_envelope("tensor_height")
    if lookups > longest:
        yield Seen(lookups, "lookups", longest)


@rule(
    "ANE-GATHER-004",
    Severity.WARN,
    bound=fact("indices_in_fp16"),
    relation=Relation.AT_MOST,
    trait=Trait.GATHERING,
)
def rounded_indices(subject: Subject) -> Iterator[Seen]:
    """{op} selects from {seen} elements with indices that were fp16; above {limit} fp16 rounds them to other indices.

    Remedy: look the rows up on the host and feed them, or split the axis into parts that are not longer than the limit.
    """
    extent = integer(subject, "rounded_extent")
    if extent is not None:
        yield Seen(extent, "places")


@rule(
    "ANE-SCATTER-001",
    Severity.REJECT,
    bound="max_tensor_dim",
    relation=Relation.AT_MOST,
    trait=Trait.SCATTERING,
)
def scattered_places(subject: Subject) -> Iterator[Seen]:
    """{op} becomes a gather over {seen} elements along one axis; {target} takes at most {limit}.

    Remedy: write into parts of the tensor separately and concatenate them, or write along one axis.

    A scatter to constant indices is a gather from the tensor followed by the updates; updates that are added or
    multiplied are gathered without the tensor. Coordinates of several axes count every element that they can address.
    """
    data, index = argument(subject, "data"), argument(subject, "indices")
    if data is None or index is None or not data.rank:
        return
    axis = integer(subject, "axis")
    if axis is None:
        named = index.shape[-1] if index.rank else 0
        yield Seen(find_joined_axis(subject, math.prod(data.shape[:named]), math.prod(index.shape[:-1])), "places")
    elif not is_channel(axis % data.rank, data):
        along = axis % data.rank
        written = index.shape[along] if subject.op == "scatter_along_axis" else index.size
        yield Seen(find_joined_axis(subject, data.shape[along], written), "places")


def find_joined_axis(subject: Subject, places: int, written: int) -> int:
    """Return the longest axis of a scatter: updates that replace are joined to the tensor, others to a neutral one."""
    return places + written if subject.attributes.get("mode") in ("update", "max", "min") else max(places, written + 1)


def is_channel(axis: int, tensor: TensorType) -> bool:
    """Return whether an axis holds channels, which may be more."""
    return tensor.rank == CHANNELS_RANK and axis == 1


def unnamed_axes(x: TensorType, index: TensorType, batches: int) -> Iterator[Seen]:
    """Yield what keeps coordinates that are computed at run time from naming every axis of one image."""
    axes, most_images = software_envelope("gather_software_axes"), software_envelope("gather_software_data_extent")
    images, named = math.prod(x.shape[:batches]), x.rank - batches
    if images > most_images:
        yield Seen(images, "images", most_images)
    if named > axes:
        yield Seen(named, "axes", axes)
    if index.shape[-1] != named:
        yield Seen(index.shape[-1], "coordinates computed at run time", named)
