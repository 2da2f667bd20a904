"""Convolutions, matrix products, attention, pooling and the window of an arg-reduction."""

from collections.abc import Iterator

from aneforge.compiler.validators.declare import gate, layer_rule
from aneforge.compiler.validators.looking import pad_pairs
from aneforge.ops.constant import Constant
from aneforge.ops.types import TensorType, bits
from aneforge.rules.checks.product_rules import matrices
from aneforge.rules.looking import CHANNELS, argument, integer, integers
from aneforge.rules.rule import Relation, Seen, Severity
from aneforge.rules.subject import Subject


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
    """The kernel reads {seen} channels per group; the input has {limit}.

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


def turn(tensor: TensorType, *, flag: object) -> tuple[int, int]:
    """Return rows and columns of a matrix, exchanged if it is to be transposed."""
    rows, columns = tensor.shape[-2:]
    return (columns, rows) if flag else (rows, columns)


@layer_rule("ANE-MATRIXMULT-004", Relation.NEVER)
def contracted_lengths(subject: Subject) -> Iterator[Seen]:
    """The second operand is {seen} long where the two are contracted; the first is {limit}.

    Remedy: give operands that agree there, or set transpose_x or transpose_y.
    """
    pair = matrices(subject)
    if pair is None:
        return
    _, inner = turn(pair[0], flag=subject.attributes.get("transpose_x"))
    other, _ = turn(pair[1], flag=subject.attributes.get("transpose_y"))
    if inner != other:
        yield Seen(other, "contraction", inner)


@layer_rule("ANE-MATRIXMULT-005", Relation.NEVER)
def result_rows(subject: Subject) -> Iterator[Seen]:
    """The result has {seen} rows; the first operand gives {limit}.

    Remedy: let the result's type follow from the operands.
    """
    pair = matrices(subject)
    if pair is None or not subject.results or subject.results[0].rank < 2:
        return
    rows, _ = turn(pair[0], flag=subject.attributes.get("transpose_x"))
    if subject.results[0].shape[-2] != rows:
        yield Seen(subject.results[0].shape[-2], "result", rows)


@layer_rule("ANE-SDPA-004", Relation.NEVER)
def query_and_key(subject: Subject) -> Iterator[Seen]:
    """Rows of the key have length {seen}, those of the query {limit}; the lengths must be equal.

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

    Remedy: not needed; the kernel is stored without compression.
    """
    for name, constant in kernels(subject):
        if constant.encoding == "sparse":
            yield Seen(bits(constant.type.dtype), name)


MODES = {"avg_pool": "Avg", "max_pool": "Max", "l2_pool": "L2"}
MODE_WORDS = {"average": "Avg", "avg": "Avg", "max": "Max", "l2": "L2"}


@layer_rule("ANE-POOL-002", Relation.NEVER)
def window_in_input(subject: Subject) -> Iterator[Seen]:
    """The window is {seen} long along its axis {what}; the padded input has {limit}.

    Remedy: use a smaller window, or reduce over the whole axis.
    """
    x, window = argument(subject, "x"), integers(subject, "kernel_sizes")
    if x is None or subject.attributes.get("pad_type") not in ("custom", "valid"):
        return
    extents = x.shape[x.rank - len(window) :]
    pads = pad_pairs(subject, len(window))
    for axis, (extent, length, pad) in enumerate(zip(extents, window, pads, strict=False)):
        if length > extent + sum(pad):
            yield Seen(length, str(axis), extent + sum(pad))


@layer_rule("ANE-POOL-003", Relation.NEVER)
def padding_in_window(subject: Subject) -> Iterator[Seen]:
    """The padding is {seen} along axis {what}; it must be less than the window's length of {limit}.

    Remedy: pad by less, or with a layer of its own.
    """
    window = integers(subject, "kernel_sizes")
    for axis, (length, pad) in enumerate(zip(window, pad_pairs(subject, len(window)), strict=True)):
        if max(pad) >= length:
            yield Seen(max(pad), str(axis), length)


@layer_rule("ANE-POOL-004", Relation.ONE_OF)
def pooling_mode(subject: Subject) -> Iterator[Seen]:
    """Pooling of mode {seen} is not one of {limit}.

    Remedy: pool by one of these modes.
    """
    mode = subject.attributes.get("mode")
    word = MODES.get(subject.op) if mode is None else MODE_WORDS.get(str(mode), str(mode))
    if word is not None:
        yield Seen(word, "mode")


@layer_rule("ANE-ARGMINMAX-003", Relation.NEVER)
def arg_padding(subject: Subject) -> Iterator[Seen]:
    """The left padding is {seen}; it must be smaller than the window's width of {limit}.

    Remedy: pad by less.
    """
    window, pads = integers(subject, "kernel_sizes"), integers(subject, "pad")
    if window and len(pads) >= 2 and pads[-2] >= window[-1]:
        yield Seen(pads[-2], "left padding", window[-1])


@layer_rule("ANE-ARGMINMAX-004", Relation.NEVER)
def arg_even_padding(subject: Subject) -> Iterator[Seen]:
    """The right padding is {seen}, the left {limit}: an arg-reduction needs equal padding on both sides.

    Remedy: pad with a layer of its own.
    """
    pads = integers(subject, "pad")
    if len(pads) >= 2 and pads[-2] != pads[-1]:
        yield Seen(pads[-1], "right padding", pads[-2])


@layer_rule("ANE-ARGMINMAX-005", Relation.ONE_OF, "arg_reduction_strides")
def arg_strides(subject: Subject) -> Iterator[Seen]:
    """A windowed arg-reduction has a stride of {seen}; it must be one of {limit}.

    Remedy: search with one of these strides and slice the result.
    """
    for stride in integers(subject, "strides"):
        yield Seen(stride, "stride")
