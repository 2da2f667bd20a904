"""Pooling and the window of an arg-reduction."""

from collections.abc import Iterator

from aneforge.compiler.validators.declare import layer_rule
from aneforge.compiler.validators.looking import pad_pairs
from aneforge.rules.looking import argument, integers
from aneforge.rules.rule import Relation, Seen
from aneforge.rules.subject import Subject

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
    """The right padding is {seen}, the left {limit}: an arg-reduction pads both sides alike.

    Remedy: pad with a layer of its own.
    """
    pads = integers(subject, "pad")
    if len(pads) >= 2 and pads[-2] != pads[-1]:
        yield Seen(pads[-1], "right padding", pads[-2])


@layer_rule("ANE-ARGMINMAX-005", Relation.ONE_OF, "arg_reduction_strides")
def arg_strides(subject: Subject) -> Iterator[Seen]:
    """A windowed arg-reduction has a stride of {seen}, none of {limit}.

    Remedy: search with one of these strides and slice the result.
    """
    for stride in integers(subject, "strides"):
        yield Seen(stride, "stride")
