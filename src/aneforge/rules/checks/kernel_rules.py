"""How large the window of a convolution or a pooling may be, and how far a convolution's may move."""

import math
from collections.abc import Iterator

from aneforge.ops.op import Trait
from aneforge.ops.table import find_op
from aneforge.rules.looking import CHANNELS, argument, integers, is_live, leftover, power_of
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject
from aneforge.targets.queries import least_limit


@rule("ANE-KERNEL-001", Severity.OVERSIZE, bound="conv_kw_max", relation=Relation.AT_MOST, trait=Trait.CONVOLUTION)
def convolution_kernel_width(subject: Subject) -> Iterator[Seen]:
    """The kernel is {seen} columns wide; {target} runs at most {limit} in fp16.

    Remedy: move columns into channels with space_to_depth, or split the kernel into two convolutions and add them.
    Where the stride is the kernel, as for 16x16 patches of a vision transformer, --opt 1 does that and keeps all bits.
    """
    yield from window(subject, -1)


@rule(
    "ANE-KERNEL-002",
    Severity.OVERSIZE,
    bound="conv_kernel_height_large",
    relation=Relation.AT_MOST,
    trait=Trait.CONVOLUTION,
)
def convolution_kernel_height(subject: Subject) -> Iterator[Seen]:
    """The kernel is {seen} rows high; {target} runs at most {limit}.

    Remedy: move rows into channels with space_to_depth, or split the kernel into two convolutions and add them.
    """
    yield from window(subject, -2)


@rule(
    "ANE-KERNEL-003",
    Severity.OVERSIZE,
    bound="conv_kernel_depth_large",
    relation=Relation.AT_MOST,
    trait=Trait.CONVOLUTION,
)
def convolution_kernel_depth(subject: Subject) -> Iterator[Seen]:
    """The kernel is {seen} planes deep; {target} runs at most {limit}.

    Remedy: split the kernel along its depth and add the results.
    """
    yield from window(subject, -3)


@rule(
    "ANE-KERNEL-004",
    Severity.OVERSIZE,
    bound="avg_pool_window",
    relation=Relation.AT_MOST,
    trait=Trait.AVERAGING,
)
def averaging_window(subject: Subject) -> Iterator[Seen]:
    """The averaging window is {seen} long; {target} averages at most {limit} along one axis.

    Remedy: use two smaller poolings in turn, or reduce_mean over the whole plane.

    Reported in: hollance/neural-engine#2
    """
    yield from window(subject, -1)
    yield from window(subject, -2)


def window(subject: Subject, axis: int) -> Iterator[Seen]:
    """Yield the extent of the window along one axis, counted from the last, if the window has that axis."""
    sizes = windows(subject)
    if len(sizes) >= -axis:
        yield Seen(sizes[axis], f"window axis {axis}")


def windows(subject: Subject) -> tuple[int, ...]:
    """Return the extents of the window; a convolution that is taken apart for its stride has one over blocks."""
    blocks = blocks_along(subject)
    return tuple(-(-span // stride) for span, stride in blocks) if blocks else integers(subject, "kernel_sizes")


def blocks_along(subject: Subject) -> tuple[tuple[int, int], ...]:
    """Return how far the kernel of a convolution reaches along every axis, and the blocks that its strides make of it.

    They are none where the engine has the strides; along an axis of stride 1 the kernel stays as it is.
    """
    sizes, strides = integers(subject, "kernel_sizes"), integers(subject, "strides")
    if Trait.FORWARD_CONVOLUTION not in find_op(subject.op).traits or not any(map(is_unbuilt, strides)):
        return ()
    gaps = integers(subject, "dilations") or (1,) * len(sizes)
    return tuple(
        (length if stride == 1 else gap * (length - 1) + 1, stride)
        for length, stride, gap in zip(sizes, strides, gaps, strict=False)
    )


def is_unbuilt(stride: int) -> bool:
    """Return whether a stride has other factors than the engine's, or more of them than it combines."""
    return leftover(stride) != 1 or count_factors(stride) > least_limit("stride_factor_count")


def count_factors(stride: int) -> int:
    """Return how many factors make a stride, each as large as it can be.

    >>> count_factors(1), count_factors(24), count_factors(128)
    (0, 2, 3)
    """
    return -(-power_of(2, stride) // 3) + power_of(3, stride)


# Strides are factored of forward convolutions; what a transposed one takes no source says.


@rule(
    "ANE-STRIDE-001",
    Severity.DECOMPOSE,
    bound="stride_factors",
    relation=Relation.ONE_OF,
    trait=Trait.FORWARD_CONVOLUTION,
)
def stride_factor(subject: Subject) -> Iterator[Seen]:
    """{op} has a stride with the factor {seen}; strides on {target} must be products of {limit}.

    Remedy: not needed when compiled from a graph, where blocks of elements become channels of a convolution of stride
    1; otherwise use a stride that is such a product.

    Reported in: apple/coremltools#2173
    """
    for stride in integers(subject, "strides"):
        if leftover(stride) != 1:
            yield Seen(leftover(stride), f"stride {stride}")


@rule(
    "ANE-STRIDE-002",
    Severity.DECOMPOSE,
    bound="stride_factor_count",
    relation=Relation.AT_MOST,
    trait=Trait.FORWARD_CONVOLUTION,
)
def stride_factors(subject: Subject) -> Iterator[Seen]:
    """{op} has a stride of {seen} factors; {target} combines at most {limit} along an axis.

    Remedy: not needed when compiled from a graph, where blocks of elements become channels of a convolution of stride
    1; otherwise use a smaller stride.

    Reported in: apple/coremltools#2173

    The stride is written as a product of 2, 3, 4 and 8 with the largest possible factors.
    """
    for stride in integers(subject, "strides"):
        if stride > 1 and leftover(stride) == 1:
            yield Seen(count_factors(stride), f"stride {stride}")


@rule(
    "ANE-STRIDE-003",
    Severity.REJECT,
    bound="conv_stride_native",
    relation=Relation.AT_MOST,
    trait=Trait.FORWARD_CONVOLUTION,
)
def runtime_kernel_stride(subject: Subject) -> Iterator[Seen]:
    """A kernel computed at run time moves by {seen}; {target} moves it by at most {limit}.

    Remedy: use a smaller stride and a strided slice after it, or make the kernel a constant.

    A larger stride is decomposed by rearranging the kernel, which must be a constant for that.
    """
    if not is_live(subject, "weight") or is_one_element(subject):
        return
    for stride in integers(subject, "strides"):
        yield Seen(stride, "stride")


def is_one_element(subject: Subject) -> bool:
    """Return whether a kernel covers one element and does not pad: it then reads a strided slice instead."""
    padded = subject.attributes.get("pad_type") == "custom" and any(integers(subject, "pad"))
    return set(integers(subject, "kernel_sizes")) == {1} and not padded


@rule(
    "ANE-STRIDE-004",
    Severity.REJECT,
    bound="channel_extent",
    relation=Relation.AT_MOST,
    trait=Trait.FORWARD_CONVOLUTION,
)
def channels_of_blocks(subject: Subject) -> Iterator[Seen]:
    """{op} has a stride that moves elements into channels on {target}: {seen} channels, at most {limit} are allowed.

    Remedy: use a smaller stride, or split the channels into groups and add the results.
    """
    x, blocks = argument(subject, "x"), blocks_along(subject)
    if x is None or x.rank <= CHANNELS:
        return
    if blocks:
        yield Seen(math.prod((x.shape[CHANNELS], *(min(span, stride) for span, stride in blocks))), "channels")
    elif not is_one_element(subject):
        native = least_limit("conv_stride_native")
        moved = [stride for stride in integers(subject, "strides") if stride > native]
        if moved:
            yield Seen(math.prod((x.shape[CHANNELS], *moved)), "channels")
