# ruff: noqa: D401 - a rule's docstring is its message
"""Convolutions, matrix products and attention."""

from collections.abc import Iterator

from aneforge.compiler.axes import MOST_AXES
from aneforge.compiler.validators.declare import gate, layer_rule
from aneforge.compiler.validators.looking import argument, depth_axis, integer, integers, pad_pairs
from aneforge.ops.constant import Constant
from aneforge.ops.types import TensorType, bits
from aneforge.rules.rule import Relation, Seen, Severity
from aneforge.rules.subject import Subject

CHANNELS = 1
THREE = 3


@layer_rule("ANE-CONV-002", Relation.NEVER)
def group_channels(subject: Subject) -> Iterator[Seen]:
    """The {what} has {seen} channels, which {limit} groups do not divide.

    Remedy: choose groups that divide both the input's and the output's channels, or pad the channels.
    """
    groups = integer(subject, "groups")
    if groups is None or groups < 1:
        return
    given = [("input", argument(subject, "x")), *(("output", result) for result in subject.results[:1])]
    for what, tensor in given:
        if tensor is not None and tensor.rank > CHANNELS and tensor.shape[CHANNELS] % groups:
            yield Seen(tensor.shape[CHANNELS], what, groups)


@layer_rule("ANE-CONV-003", Relation.NEVER)
def kernel_channels(subject: Subject) -> Iterator[Seen]:
    """The kernel reads {seen} channels a group; the input gives {limit}.

    Remedy: give weights of [output channels, input channels / groups, ...].
    """
    groups, x, weight = integer(subject, "groups"), argument(subject, "x"), argument(subject, "weight")
    if not groups or x is None or weight is None or min(x.rank, weight.rank) <= CHANNELS:
        return
    transposed = subject.op == "conv_transpose"
    given, read = x.shape[CHANNELS], weight.shape[0] // groups if transposed else weight.shape[CHANNELS]
    if read * groups != given:
        yield Seen(read, "kernel", given // groups, (given, groups))


@layer_rule("ANE-CONV-004", Relation.NEVER)
def kernel_in_input(subject: Subject) -> Iterator[Seen]:
    """The kernel spans {seen} along its axis {what}; the padded input has {limit}.

    Remedy: pad the input, or use a smaller kernel.
    """
    x, kernel = argument(subject, "x"), integers(subject, "kernel_sizes")
    if x is None or subject.op == "conv_transpose" or subject.attributes.get("pad_type") not in ("custom", "valid"):
        return
    dilations = integers(subject, "dilations") or (1,) * len(kernel)
    extents = x.shape[x.rank - len(kernel) :]
    pads = pad_pairs(subject, len(kernel))
    for axis, (extent, length, dilation, pad) in enumerate(zip(extents, kernel, dilations, pads, strict=False)):
        span = dilation * (length - 1) + 1
        if span > extent + sum(pad):
            yield Seen(span, str(axis), extent + sum(pad))


def is_three_dimensional(subject: Subject) -> bool:
    """Tell whether a convolution goes along the depth: with a depth of 1 all round it is a two-dimensional one."""
    x, kernel = argument(subject, "x"), integers(subject, "kernel_sizes")
    if x is None or len(kernel) < THREE or x.rank < MOST_AXES:
        return False
    return kernel[-THREE] > 1 or x.shape[-THREE] > 1


@layer_rule("ANE-CONV-005", Relation.PRESENT, "three_dimensional_convolution_attested")
def depth_is_attested(subject: Subject) -> Iterator[Seen]:
    """A three-dimensional convolution is beyond {target}: nothing attests it there.

    Remedy: convolve every plane by itself and add the results.
    """
    if is_three_dimensional(subject):
        yield Seen("three-dimensional")


@layer_rule("ANE-CONV-006", Relation.PRESENT, gate("three_dimensional_convolution_lowers"))
def depth_lowers(subject: Subject) -> Iterator[Seen]:
    """A three-dimensional convolution passes its validator and fails in backend lowering on {target}, as everywhere.

    Remedy: convolve every plane by itself and add the results.
    """
    if is_three_dimensional(subject):
        yield Seen("three-dimensional")


@layer_rule("ANE-CONV-007", Relation.AT_MOST, "dynamic_conv_batch")
def runtime_kernel_batch(subject: Subject) -> Iterator[Seen]:
    """A convolution with a kernel computed at run time has a batch of {seen}; {target} takes at most {limit}.

    Remedy: run the images one by one, or make the kernel a constant.
    """
    x, weight = argument(subject, "x"), argument(subject, "weight")
    if x is not None and weight is not None and "weight" not in subject.constants and x.rank > 0:
        yield Seen(x.shape[0], "batch")


def operands(subject: Subject) -> tuple[TensorType, TensorType] | None:
    """Return the two operands of a matrix product that has both, each with at least two axes."""
    x, y = argument(subject, "x"), argument(subject, "y")
    return None if x is None or y is None or min(x.rank, y.rank) < 2 else (x, y)


def turned(tensor: TensorType, *, flag: object) -> tuple[int, int]:
    """Return rows and columns of a matrix, exchanged if it is to be transposed."""
    rows, columns = tensor.shape[-2:]
    return (columns, rows) if flag else (rows, columns)


@layer_rule("ANE-MATRIXMULT-002", Relation.AT_MOST, "matmul_depth")
def product_depth(subject: Subject) -> Iterator[Seen]:
    """The {what} has a depth of {seen}; a matrix product takes {limit}.

    Remedy: fold the depth into the batch with reshape.
    """
    for what, tensor in zip(("first operand", "second operand"), operands(subject) or (), strict=False):
        axis = depth_axis(tensor)
        if axis is not None:
            yield Seen(tensor.shape[axis], what)


@layer_rule("ANE-MATRIXMULT-003", Relation.AT_MOST, "matmul_max_rank")
def product_rank(subject: Subject) -> Iterator[Seen]:
    """A matrix product of {seen} axes has no backend on {target}, which takes at most {limit}.

    Remedy: fold batch axes into one with reshape.
    """
    for tensor in operands(subject) or ():
        if tensor.rank >= MOST_AXES:
            yield Seen(tensor.rank)


@layer_rule("ANE-MATRIXMULT-004", Relation.NEVER)
def contracted_lengths(subject: Subject) -> Iterator[Seen]:
    """The second operand is {seen} long where the two are contracted; the first is {limit}.

    Remedy: give operands that agree there, or set transpose_x or transpose_y.
    """
    pair = operands(subject)
    if pair is None:
        return
    _, inner = turned(pair[0], flag=subject.attributes.get("transpose_x"))
    other, _ = turned(pair[1], flag=subject.attributes.get("transpose_y"))
    if inner != other:
        yield Seen(other, "contraction", inner)


@layer_rule("ANE-MATRIXMULT-005", Relation.NEVER)
def result_rows(subject: Subject) -> Iterator[Seen]:
    """The result has {seen} rows; the first operand gives {limit}.

    Remedy: let the result's type follow from the operands.
    """
    pair = operands(subject)
    if pair is None or not subject.results or subject.results[0].rank < 2:
        return
    rows, _ = turned(pair[0], flag=subject.attributes.get("transpose_x"))
    if subject.results[0].shape[-2] != rows:
        yield Seen(subject.results[0].shape[-2], "result", rows)


@layer_rule("ANE-MATRIXMULT-006", Relation.AT_MOST, "dense_kernel_memory")
def kernel_memory(subject: Subject) -> Iterator[Seen]:
    """One output channel of the first operand takes {seen} bytes; the kernel memory of {target} holds {limit}.

    Remedy: split the product along its contracted axis and add the parts.
    """
    pair = operands(subject)
    if pair is not None:
        _, inner = turned(pair[0], flag=subject.attributes.get("transpose_x"))
        yield Seen((inner * bits(pair[0].dtype) + 7) // 8, "output channel")


@layer_rule("ANE-LINEAR-002", Relation.AT_MOST, "linear_max_rank")
def linear_rank(subject: Subject) -> Iterator[Seen]:
    """The input of a linear layer has {seen} axes; {target} takes at most {limit}.

    Remedy: fold leading axes into one with reshape.
    """
    x = argument(subject, "x")
    if x is not None:
        yield Seen(x.rank, "input")


@layer_rule("ANE-SDPA-002", Relation.NEVER)
def key_and_value(subject: Subject) -> Iterator[Seen]:
    """The value is {seen}, the key {limit}: the attention layer takes both in one shape.

    Remedy: build attention from matmul and softmax, or pad the narrower of the two.
    """
    key, value = argument(subject, "key"), argument(subject, "value")
    if key is not None and value is not None and key.shape != value.shape:
        yield Seen(str(list(value.shape)), "value", str(list(key.shape)))


@layer_rule("ANE-SDPA-003", Relation.NEVER)
def mask_format(subject: Subject) -> Iterator[Seen]:
    """The mask is {seen}, the query {limit}: the attention layer adds a mask of the query's own elements.

    Remedy: make it an additive mask, 0 where a key is seen and a large negative number elsewhere.
    """
    query, mask = argument(subject, "query"), argument(subject, "attn_mask")
    if query is not None and mask is not None and mask.dtype != query.dtype:
        yield Seen(mask.dtype, "mask", query.dtype)


@layer_rule("ANE-SDPA-004", Relation.NEVER)
def query_and_key(subject: Subject) -> Iterator[Seen]:
    """Rows of the key are {seen} long, those of the query {limit}: they do not contract.

    Remedy: project both to one width.
    """
    query, key = argument(subject, "query"), argument(subject, "key")
    if query is not None and key is not None and query.shape[-1:] != key.shape[-1:]:
        yield Seen(str(list(key.shape[-1:])), "key", str(list(query.shape[-1:])))


@layer_rule("ANE-SDPA-005", Relation.NEVER)
def mask_extent(subject: Subject) -> Iterator[Seen]:
    """The mask is {seen} and does not broadcast to the scores, {limit}.

    Remedy: give a mask whose axes are 1 or those of the scores.
    """
    query, key, mask = (argument(subject, name) for name in ("query", "key", "attn_mask"))
    if query is None or key is None or mask is None or min(query.rank, key.rank) < 2:
        return
    scores = (*query.shape[:-1], key.shape[-2])
    pairs = zip(reversed(mask.shape), reversed(scores), strict=False)
    if mask.rank > len(scores) or any(extent not in (1, whole) for extent, whole in pairs):
        yield Seen(str(list(mask.shape)), "mask", str(list(scores)))


def kernels(subject: Subject) -> Iterator[tuple[str, Constant]]:
    """Iterate over the constants that are multiplied with, by the names of their operands."""
    for name in ("weight", "x", "y"):
        for constant in subject.constants.get(name, ()):
            yield name, constant


@layer_rule("ANE-COMPRESSION-001", Relation.AT_LEAST, gate("compressible_kernel_bits"), Severity.WARN)
def compressible(subject: Subject) -> Iterator[Seen]:
    """The {what} is sparse with elements of {seen} bits; only kernels of {limit} bits or more are compressed.

    Remedy: none is needed; the kernel is stored without compression.
    """
    for name, constant in kernels(subject):
        if constant.encoding == "sparse":
            yield Seen(bits(constant.type.dtype), name)
