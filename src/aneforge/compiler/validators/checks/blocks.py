"""Gathers by coordinates, and moves of blocks between space, channels and batch."""

import math
from collections.abc import Iterator

from aneforge.compiler.validators.declare import layer_rule
from aneforge.rules.checks.movement_rules import block_factors, software_envelope
from aneforge.rules.looking import argument, integer, integers
from aneforge.rules.rule import Relation, Seen
from aneforge.rules.subject import Subject

SPATIAL_AXES = 2


@layer_rule("ANE-GATHER-002", Relation.PRESENT, "texture_engine")
def software_gather(subject: Subject) -> Iterator[Seen]:
    """A gather by coordinates has {seen} {what}; without a texture engine {target} gathers with {limit}.

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

    Remedy: move height and width alone.

    The authored form of the layer names the factor `factor_z`; an operation of a graph has none.
    """
    factor = integer(subject, "factor_z")
    if factor is not None:
        yield Seen(factor, "factor z")


@layer_rule("ANE-PIXELSHUFFLE-003", Relation.NEVER)
def shuffled_channels(subject: Subject) -> Iterator[Seen]:
    """There are {seen} channels, no multiple of {limit}, the factor's square.

    Remedy: pad the channels.
    """
    x = argument(subject, "x")
    for factor in block_factors(subject):
        if x is not None and x.rank > 1 and factor > 0 and x.shape[1] % factor**2:
            yield Seen(x.shape[1], "channels", factor**2)


@layer_rule("ANE-PIXELUNSHUFFLE-003", Relation.NEVER)
def unshuffled_extents(subject: Subject) -> Iterator[Seen]:
    """Height or width is {seen}, no multiple of {limit}, the factor.

    Remedy: pad the image.
    """
    x = argument(subject, "x")
    for factor in block_factors(subject):
        for extent in x.shape[-SPATIAL_AXES:] if x is not None else ():
            if factor > 0 and extent % factor:
                yield Seen(extent, "extent", factor)
