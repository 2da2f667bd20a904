"""How large the window of a convolution or a pooling may be, and how far a convolution's may move."""

from collections.abc import Iterator

from aneforge.ops.op import Trait
from aneforge.rules.looking import integers, is_live, leftover, power_of
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject


@rule("ANE-KERNEL-001", Severity.OVERSIZE, bound="conv_kw_max", relation=Relation.AT_MOST, trait=Trait.CONVOLUTION)
def convolution_kernel_width(subject: Subject) -> Iterator[Seen]:
    """The kernel is {seen} columns wide; {target} runs at most {limit} in fp16.

    Remedy: move columns into channels with space_to_depth, or split the kernel into two convolutions and add them.
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
    sizes = subject.attributes.get("kernel_sizes")
    if isinstance(sizes, tuple) and len(sizes) >= -axis:
        yield Seen(int(sizes[axis]), f"window axis {axis}")


# Strides are factored of forward convolutions; what a transposed one takes no source says.


@rule(
    "ANE-STRIDE-001",
    Severity.REJECT,
    bound="stride_factors",
    relation=Relation.ONE_OF,
    trait=Trait.FORWARD_CONVOLUTION,
)
def stride_factor(subject: Subject) -> Iterator[Seen]:
    """{op} has a stride with the factor {seen}; on {target} strides are built of {limit}.

    Remedy: use a stride that is such a product; or stride 1 and a slice with that stride after it, which gives the
    same numbers for more work.

    Reported in: apple/coremltools#2173
    """
    for stride in integers(subject, "strides"):
        if leftover(stride) != 1:
            yield Seen(leftover(stride), f"stride {stride}")


@rule(
    "ANE-STRIDE-002",
    Severity.REJECT,
    bound="stride_factor_count",
    relation=Relation.AT_MOST,
    trait=Trait.FORWARD_CONVOLUTION,
)
def stride_factors(subject: Subject) -> Iterator[Seen]:
    """{op} has a stride of {seen} factors; {target} combines at most {limit} along an axis.

    Remedy: use a smaller stride; or stride 1 and a slice with that stride after it, which gives the same numbers for
    more work.

    Reported in: apple/coremltools#2173

    The factors are 2, 3, 4 and 8, as large as they can be.
    """
    for stride in integers(subject, "strides"):
        if stride > 1 and leftover(stride) == 1:
            yield Seen(-(-power_of(2, stride) // 3) + power_of(3, stride), f"stride {stride}")


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

    A larger stride is taken apart by rearranging the kernel, which must be known for that.
    """
    if not is_live(subject, "weight") or is_one_element(subject):
        return
    for stride in integers(subject, "strides"):
        yield Seen(stride, "stride")


def is_one_element(subject: Subject) -> bool:
    """Tell whether a kernel sees one element at every place and pads nothing: it reads a strided slice instead."""
    padded = subject.attributes.get("pad_type") == "custom" and any(integers(subject, "pad"))
    return set(integers(subject, "kernel_sizes")) == {1} and not padded
