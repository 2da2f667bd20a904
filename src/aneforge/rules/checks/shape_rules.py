"""How many axes a tensor may have, and how long an axis may be: that cap depends on operation and axis.

Axis 1 of a rank-4 tensor holds channels and has the widest cap except for transposes, which work on whole rows; every
other axis is spatial or contracted. Only results are looked at: an operand is the result of another operation. Layers
that take only a few channels are here too: local response normalisation, gain and offset computed at run time.
"""

from collections.abc import Iterator
from functools import cache

from aneforge.ops.op import Trait
from aneforge.ops.table import ops
from aneforge.rules.looking import CHANNELS, argument
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject


@rule(
    "ANE-RANK-001",
    Severity.REJECT,
    bound="max_rank",
    relation=Relation.AT_MOST,
)
def rank(subject: Subject) -> Iterator[Seen]:
    """{what} has {seen} axes; {target} takes at most {limit}.

    Remedy: merge axes with reshape, or use the operation that does the rearrangement whole, such as pixel_shuffle.

    Reported in: microsoft/onnxruntime#14212
    """
    for number, tensor in enumerate(subject.operands):
        yield Seen(len(tensor.shape), f"Operand {number}")
    for number, tensor in enumerate(subject.results):
        yield Seen(len(tensor.shape), f"Result {number}")


@rule(
    "ANE-EXTENT-001",
    Severity.OVERSIZE,
    bound="max_tensor_dim",
    relation=Relation.AT_MOST,
)
def spatial_extent(subject: Subject) -> Iterator[Seen]:
    """{what} is {seen} long; {target} takes at most {limit} along a spatial or contracted axis.

    Remedy: split the tensor along that axis, or move the long axis to the channels (axis 1 of a rank-4 tensor).

    Reported in: ncdrone/rustane#13, sbryngelson/ANEForge#181
    """
    if is_transpose_wide(subject):
        return
    for axis, extent in result_axes(subject):
        if not axis.is_channel:
            yield Seen(extent, str(axis))


@rule("ANE-EXTENT-002", Severity.OVERSIZE, bound="channel_extent", relation=Relation.AT_MOST)
def channel_extent(subject: Subject) -> Iterator[Seen]:
    """{what} is {seen} long; {target} takes at most {limit} channels.

    Remedy: split the channels into groups and concatenate the results.
    """
    if is_transpose_wide(subject):
        return
    for axis, extent in result_axes(subject):
        if axis.is_channel:
            yield Seen(extent, str(axis))


@rule(
    "ANE-EXTENT-003",
    Severity.OVERSIZE,
    bound="transpose_extent",
    relation=Relation.AT_MOST,
)
def transpose_extent(subject: Subject) -> Iterator[Seen]:
    """{what} is {seen} long; {target} transposes at most {limit} elements along one axis.

    Remedy: transpose in several parts along that axis.

    Reported in: pytorch/executorch#7907

    The cap holds for a transpose and for the operation whose result it reads.
    """
    if is_transpose_wide(subject):
        for axis, extent in result_axes(subject):
            yield Seen(extent, str(axis))


@rule("ANE-EXTENT-004", Severity.REJECT, bound="min_tensor_dim", relation=Relation.AT_LEAST)
def empty_axis(subject: Subject) -> Iterator[Seen]:
    """{what} is {seen} long; {target} takes no axis shorter than {limit}.

    Remedy: remove the operation: a tensor without elements has no effect.
    """
    for axis, extent in result_axes(subject):
        yield Seen(extent, str(axis))


@rule(
    "ANE-EXTENT-005",
    Severity.OVERSIZE,
    bound="group_norm_extent",
    relation=Relation.AT_MOST,
    ops={"group_norm"},
)
def group_norm_extent(subject: Subject) -> Iterator[Seen]:
    """{what} of group_norm is {seen} long; {target} takes at most {limit}.

    Remedy: use more groups, or tile the image.

    The operation is lowered as [1, groups, channels per group, height times width], whose last two axes must fit.
    """
    groups = subject.attributes.get("num_groups")
    if not subject.operands or not isinstance(groups, int) or groups < 1:
        return
    _, channels, *spatial = subject.operands[0].shape
    pixels = 1
    for extent in spatial:
        pixels *= extent
    yield Seen(channels // groups, "The inner axis of channels per group")
    yield Seen(pixels, "The inner axis of height times width")


class Axis:
    """One axis of one result, as messages name it."""

    def __init__(self, result: int, axis: int, rank: int) -> None:
        self.is_channel = rank == 4 and axis == 1
        self.name = f"Axis {axis} of result {result}" + (" (channels)" if self.is_channel else "")

    def __str__(self) -> str:
        return self.name


def result_axes(subject: Subject) -> Iterator[tuple[Axis, int]]:
    """Yield every axis of every result with its extent."""
    for number, tensor in enumerate(subject.results):
        for axis, extent in enumerate(tensor.shape):
            yield Axis(number, axis, len(tensor.shape)), extent


def is_transpose_wide(subject: Subject) -> bool:
    """Return whether the wide cap of transposes holds: for a transpose, and for what a transpose reads.

    Where an operation compares the elements of the same tensor, its own cap holds: its result is too short to show it.
    """
    transposes = subject.op == "transpose" or "transpose" in subject.consumers
    return transposes and not any(map(compares_elements, subject.consumers))


@cache
def compares_elements(name: str) -> bool:
    """Return whether an operation compares elements along a whole axis and gives few of them, or their places.

    >>> [compares_elements(name) for name in ("transpose", "gather", "topk", "reduce_argmax")]
    [False, False, True, True]
    """
    op = ops().get(name)
    return op is not None and Trait.INDICES in op.traits and op.movement is None


@rule(
    "ANE-LRN-002",
    Severity.REJECT,
    bound="lrn_channels",
    relation=Relation.AT_MOST,
    ops={"local_response_norm", "lrn"},
)
def response_channels(subject: Subject) -> Iterator[Seen]:
    """A local response normalisation of {seen} channels passes its validator and fails in code generation on {target}.

    Remedy: build it from square, avg_pool over channels, pow and mul.
    """
    x, axis = argument(subject, "x"), 0 if subject.op == "lrn" else CHANNELS
    if x is not None and x.rank > axis:
        yield Seen(x.shape[axis], "channels")


@rule(
    "ANE-DYNAMICGOC-002",
    Severity.REJECT,
    bound="dynamic_gain_offset_channels",
    relation=Relation.ONE_OF,
    ops={"dynamic_goc"},
)
def runtime_gain_channels(subject: Subject) -> Iterator[Seen]:
    """A gain and offset computed at run time has {seen} channels; the number must be one of {limit}.

    Remedy: make gain and offset constants, or use mul and add.
    """
    x = argument(subject, "x")
    if x is not None and x.rank > CHANNELS:
        yield Seen(x.shape[CHANNELS], "channels")
