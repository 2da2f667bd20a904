"""How large the window of a convolution or a pooling may be."""

from collections.abc import Iterator

from aneforge.ops.op import Trait
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
    """
    yield from window(subject, -1)
    yield from window(subject, -2)


def window(subject: Subject, axis: int) -> Iterator[Seen]:
    """Yield the extent of the window along one axis, counted from the last, if the window has that axis."""
    sizes = subject.attributes.get("kernel_sizes")
    if isinstance(sizes, tuple) and len(sizes) >= -axis:
        yield Seen(int(sizes[axis]), f"window axis {axis}")
