# ruff: noqa: D401 - a rule's docstring is its message
"""Order, chance and state: top-k, boxes, dropout, random numbers, ring buffers."""

from collections.abc import Iterator

from aneforge.compiler.validators.declare import gate, layer_rule
from aneforge.compiler.validators.looking import argument, integer, number
from aneforge.rules.rule import Relation, Seen
from aneforge.rules.subject import Subject


@layer_rule("ANE-TOPK-002", Relation.NEVER)
def chosen_count(subject: Subject) -> Iterator[Seen]:
    """Of the axis {seen} elements are chosen; it has {limit}.

    Remedy: choose fewer.
    """
    x, k, axis = argument(subject, "x"), integer(subject, "k"), integer(subject, "axis")
    if x is None or k is None or axis is None or not -x.rank <= axis < x.rank:
        return
    if not 1 <= k <= x.shape[axis]:
        yield Seen(k, "k", x.shape[axis])


@layer_rule("ANE-TOPK-003", Relation.NONE_OF, "topk_forbidden_k")
def forbidden_count(subject: Subject) -> Iterator[Seen]:
    """The {seen} largest pass the validator and fail to compile on {target}, as do all of {limit}.

    Remedy: ask for more and keep the first ones.
    """
    k = integer(subject, "k")
    if k is not None:
        yield Seen(k, "k")


@layer_rule("ANE-NMS-002", Relation.ONE_OF)
def box_coordinates(subject: Subject) -> Iterator[Seen]:
    """A box has {seen} coordinates; it is given by {limit}.

    Remedy: give boxes as [batch, 4, boxes].
    """
    boxes = argument(subject, "boxes")
    if boxes is not None and boxes.rank > 1:
        yield Seen(boxes.shape[1], "boxes")


@layer_rule("ANE-NMS-003", Relation.PRESENT, gate("non_maximum_suppression_lowers"))
def suppression_lowers(subject: Subject) -> Iterator[Seen]:
    """{op} passes its validator and never runs on the engine, of {target} or any other.

    Remedy: keep it on the host.
    """
    yield Seen(subject.op)


@layer_rule("ANE-DROPOUT-002", Relation.BELOW, "dropout_rate_below")
def dropout_rate(subject: Subject) -> Iterator[Seen]:
    """A dropout drops {seen} of all elements; the rate must be below {limit}.

    Remedy: keep some of them.
    """
    rate = number(subject, "rate")
    if rate is not None:
        yield Seen(rate, "rate")


@layer_rule("ANE-DROPOUT-003", Relation.NEVER)
def negative_dropout_rate(subject: Subject) -> Iterator[Seen]:
    """A dropout drops {seen} of all elements; the rate must be {limit}.

    Remedy: give a rate from 0 on.
    """
    rate = number(subject, "rate")
    if rate is not None and rate < 0:
        yield Seen(rate, "rate")


@layer_rule("ANE-RANDOM-002", Relation.ONE_OF, "random_output_dtypes")
def drawn_elements(subject: Subject) -> Iterator[Seen]:
    """Random numbers are drawn as {seen}; the generator writes {limit}.

    Remedy: draw fp16 and cast.
    """
    for result in subject.results:
        yield Seen(result.dtype, "result")


@layer_rule("ANE-RANDOM-003", Relation.NEVER)
def drawn_range(subject: Subject) -> Iterator[Seen]:
    """Random numbers are drawn up to {seen}, which must lie above the low end, {limit}.

    Remedy: give a low end below the high one; a range without width is a fill.
    """
    low, high = number(subject, "low"), number(subject, "high")
    if low is not None and high is not None and not low < high:
        yield Seen(high, "high", low)


@layer_rule("ANE-RINGBUFFERWRITER-002", Relation.NEVER)
def writes_a_state(subject: Subject) -> Iterator[Seen]:
    """A ring buffer is written that is {seen}; it must be {limit}.

    Remedy: declare the buffer as a state of the program.

    Only the program knows what a buffer is; it says so in the attribute `live_state`.
    """
    if subject.attributes.get("live_state") is False:
        yield Seen("no state of the program", "buffer")


@layer_rule("ANE-RINGBUFFERWRITER-003", Relation.PRESENT, gate("circular_buffers"))
def writes_circular_buffers(subject: Subject) -> Iterator[Seen]:
    """{op} needs circular buffers, which {target} has not.

    Remedy: keep the state in a plain tensor and shift it.
    """
    yield Seen(subject.op)


@layer_rule("ANE-RINGBUFFERREADER-001", Relation.PRESENT, gate("circular_buffers"))
def reads_circular_buffers(subject: Subject) -> Iterator[Seen]:
    """{op} needs circular buffers, which {target} has not.

    Remedy: keep the state in a plain tensor and shift it.
    """
    yield Seen(subject.op)
