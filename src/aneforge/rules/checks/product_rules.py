"""Convolutions, matrix products and attention: what has no form, and what is rebuilt when it is made legal."""

from collections.abc import Iterator

from aneforge.ops.op import Trait
from aneforge.ops.types import TensorType, bits
from aneforge.rules.facts import fact
from aneforge.rules.looking import DEPTH_RANK, argument, depth_axis, integers, is_live
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject

MATRIX_AXES = 2
THREE = 3


def is_three_dimensional(subject: Subject) -> bool:
    """Return whether a convolution goes along the depth: with a depth of 1 all round it is a two-dimensional one."""
    x, kernel = argument(subject, "x"), integers(subject, "kernel_sizes")
    if x is None or len(kernel) < THREE or x.rank < DEPTH_RANK:
        return False
    return kernel[-THREE] > 1 or x.shape[-THREE] > 1


@rule(
    "ANE-CONV-005",
    Severity.REJECT,
    bound="three_dimensional_convolution_attested",
    relation=Relation.PRESENT,
    trait=Trait.CONVOLUTION,
)
def depth_is_attested(subject: Subject) -> Iterator[Seen]:
    """A three-dimensional convolution is not known to work on {target}: no source has seen one there.

    Remedy: convolve the planes separately and add the results.
    """
    if is_three_dimensional(subject):
        yield Seen("three-dimensional")


@rule(
    "ANE-CONV-006",
    Severity.REJECT,
    bound=fact("three_dimensional_convolution_lowers"),
    relation=Relation.PRESENT,
    trait=Trait.CONVOLUTION,
)
def depth_lowers(subject: Subject) -> Iterator[Seen]:
    """A three-dimensional convolution passes its validator and fails in backend lowering on {target}, as everywhere.

    Remedy: convolve the planes separately and add the results.
    """
    if is_three_dimensional(subject):
        yield Seen("three-dimensional")


@rule("ANE-CONV-007", Severity.REJECT, bound="dynamic_conv_batch", relation=Relation.AT_MOST, trait=Trait.CONVOLUTION)
def runtime_kernel_batch(subject: Subject) -> Iterator[Seen]:
    """A convolution with a kernel computed at run time has a batch of {seen}; {target} takes at most {limit}.

    Remedy: run the images one by one, or make the kernel a constant.
    """
    x = argument(subject, "x")
    if x is not None and x.rank > 0 and is_live(subject, "weight"):
        yield Seen(x.shape[0], "batch")


def matrices(subject: Subject) -> tuple[TensorType, TensorType] | None:
    """Return the two operands of a matrix product that has both, each with at least two axes."""
    x, y = argument(subject, "x"), argument(subject, "y")
    return None if x is None or y is None or min(x.rank, y.rank) < MATRIX_AXES else (x, y)


@rule(
    "ANE-MATRIXMULT-002",
    Severity.DECOMPOSE,
    bound="matmul_depth",
    relation=Relation.AT_MOST,
    trait=Trait.MATRIX_PRODUCT,
)
def product_depth(subject: Subject) -> Iterator[Seen]:
    """The {what} has a depth of {seen}; a matrix product takes {limit}.

    Remedy: not needed when compiled from a graph, where batch axes are merged; otherwise merge them with reshape.
    """
    for what, tensor in zip(("first operand", "second operand"), matrices(subject) or (), strict=False):
        axis = depth_axis(tensor)
        if axis is not None:
            yield Seen(tensor.shape[axis], what)


@rule(
    "ANE-MATRIXMULT-003",
    Severity.DECOMPOSE,
    bound="matmul_max_rank",
    relation=Relation.AT_MOST,
    trait=Trait.MATRIX_PRODUCT,
)
def product_rank(subject: Subject) -> Iterator[Seen]:
    """A matrix product of {seen} axes has no backend on {target}, which takes at most {limit}.

    Remedy: not needed when compiled from a graph, where batch axes are merged; otherwise merge them with reshape.
    """
    for tensor in matrices(subject) or ():
        if tensor.rank >= DEPTH_RANK:
            yield Seen(tensor.rank)


@rule(
    "ANE-MATRIXMULT-006",
    Severity.OVERSIZE,
    bound="dense_kernel_memory",
    relation=Relation.AT_MOST,
    trait=Trait.MATRIX_PRODUCT,
)
def kernel_memory(subject: Subject) -> Iterator[Seen]:
    """One output channel of the first operand takes {seen} bytes; the kernel memory of {target} has {limit}.

    Remedy: split the product along its contracted axis and add the parts.

    The first of two operands that are both computed at run time is held there; a constant one may stream instead.
    """
    pair = matrices(subject)
    if pair is None or not (is_live(subject, "x") and is_live(subject, "y")):
        return
    inner = pair[0].shape[-2] if subject.attributes.get("transpose_x") else pair[0].shape[-1]
    yield Seen((inner * bits(pair[0].dtype) + 7) // 8, "output channel")


@rule(
    "ANE-MATRIXMULT-007",
    Severity.REJECT,
    bound=fact("matmul_unshared_axes"),
    relation=Relation.AT_MOST,
    trait=Trait.MATRIX_PRODUCT,
)
def unshared_axes(subject: Subject) -> Iterator[Seen]:
    """A matrix product has {seen} axes, the limit is {limit}, and no two neighbouring batch axes can be merged.

    Remedy: repeat each operand along the batch axes that it lacks, with tile.
    """
    x, y = argument(subject, "x"), argument(subject, "y")
    if x is None or y is None or max(x.rank, y.rank) < DEPTH_RANK or not subject.results:
        return
    if min(x.rank, y.rank) < MATRIX_AXES or not can_be_merged(x, y, subject.results[0]):
        yield Seen(max(x.rank, y.rank), "axes")


def can_be_merged(x: TensorType, y: TensorType, result: TensorType) -> bool:
    """Return whether two neighbouring batch axes of a product of five axes can be one, or one of them is of length 1.

    Two can where each operand has both in full, or neither.
    """
    batch = result.shape[:-MATRIX_AXES]
    owns = [((1,) * len(batch) + tensor.shape[:-MATRIX_AXES])[-len(batch) :] for tensor in (x, y)]
    long = [axis for axis, extent in enumerate(batch) if extent != 1]
    if len(long) < len(batch):
        return True
    return any(
        all((own[axis], own[axis + 1]) in ((batch[axis], batch[axis + 1]), (1, 1)) for own in owns)
        for axis in range(len(batch) - 1)
    )


@rule("ANE-LINEAR-002", Severity.DECOMPOSE, bound="linear_max_rank", relation=Relation.AT_MOST, ops={"linear"})
def linear_rank(subject: Subject) -> Iterator[Seen]:
    """The input of a linear layer has {seen} axes; {target} takes at most {limit}.

    Remedy: not needed when compiled from a graph, where leading axes are merged; otherwise merge them with reshape.
    """
    x = argument(subject, "x")
    if x is not None:
        yield Seen(x.rank, "input")


def is_native(subject: Subject) -> bool:
    """Return whether attention is the engine's own layer: a layer always is, an operation where it asks for that."""
    return subject.attributes.get("native", True) is True


def lengths(subject: Subject) -> tuple[int, int] | None:
    """Return the numbers of queries and keys of the engine's own attention layer."""
    query, key = argument(subject, "query"), argument(subject, "key")
    if not is_native(subject) or query is None or key is None or min(query.rank, key.rank) < MATRIX_AXES:
        return None
    return query.shape[-2], key.shape[-2]


@rule("ANE-SDPA-002", Severity.REJECT, bound=fact("attention_value"), relation=Relation.NEVER, ops={"sdpa"})
def key_and_value(subject: Subject) -> Iterator[Seen]:
    """The value has shape {seen}, the key {limit}: the attention layer needs equal shapes.

    Remedy: build attention from matmul and softmax, or pad the narrower of the two.
    """
    key, value = argument(subject, "key"), argument(subject, "value")
    if is_native(subject) and key is not None and value is not None and key.shape != value.shape:
        yield Seen(str(list(value.shape)), "value", str(list(key.shape)))


@rule("ANE-SDPA-003", Severity.REJECT, bound=fact("attention_mask"), relation=Relation.NEVER, ops={"sdpa"})
def mask_format(subject: Subject) -> Iterator[Seen]:
    """The mask is {seen}, the query {limit}: the attention layer needs a mask of the query's type.

    Remedy: make it an additive mask, 0 where a key is seen and a large negative number elsewhere.
    """
    query, mask = argument(subject, "query"), argument(subject, "attn_mask")
    if is_native(subject) and query is not None and mask is not None and mask.dtype != query.dtype:
        yield Seen(mask.dtype, "mask", query.dtype)


@rule("ANE-SDPA-006", Severity.REJECT, bound="sdpa_native_max_sequence", relation=Relation.AT_MOST, ops={"sdpa"})
def longer_sequence(subject: Subject) -> Iterator[Seen]:
    """The longer sequence of the attention layer has {seen} positions; it is correct up to {limit} and wrong at 4096.

    Remedy: omit native: attention is then built from matmul and softmax.
    """
    found = lengths(subject)
    if found is not None:
        yield Seen(max(found), "queries or keys")


@rule("ANE-SDPA-007", Severity.REJECT, bound="sdpa_native_min_sequence", relation=Relation.BELOW, ops={"sdpa"})
def shorter_sequence(subject: Subject) -> Iterator[Seen]:
    """The shorter sequence of the attention layer has {seen} positions; results are wrong from {limit} on.

    Remedy: omit native: attention is then built from matmul and softmax.
    """
    found = lengths(subject)
    if found is not None:
        yield Seen(min(found), "queries and keys")
