"""Order, chance and state: top-k, arg-reductions, random numbers, ring buffers."""

from collections.abc import Iterator

from aneforge.ops.op import Trait
from aneforge.ops.shapes import normalise_axis
from aneforge.rules.facts import fact
from aneforge.rules.looking import argument, integer, number
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject


@rule("ANE-TOPK-003", Severity.REJECT, bound="topk_forbidden_k", relation=Relation.NONE_OF, ops={"topk"})
def forbidden_count(subject: Subject) -> Iterator[Seen]:
    """The {seen} largest pass the validator and fail to compile on {target}, as do all of {limit}.

    Remedy: ask for more and keep the first ones.
    """
    k = integer(subject, "k")
    if k is not None:
        yield Seen(k, "k")


@rule(
    "ANE-ARGMINMAX-002",
    Severity.REJECT,
    bound="arg_reduction_extent",
    relation=Relation.AT_MOST,
    trait=Trait.ARG_REDUCTION,
)
def searched_extent(subject: Subject) -> Iterator[Seen]:
    """The searched axis has {seen} elements; {target} searches at most {limit}.

    Remedy: search parts of the axis, then the results of the parts.

    Indices are returned as fp16 numbers, which are exact up to this limit.
    """
    x, axis = argument(subject, "x"), integer(subject, "axis")
    if x is not None and axis is not None and -x.rank <= axis < x.rank:
        yield Seen(x.shape[normalise_axis(axis, x.rank)], "axis")


@rule(
    "ANE-RANDOM-003",
    Severity.REJECT,
    bound=fact("random_range"),
    relation=Relation.NEVER,
    ops={"random", "random_uniform"},
)
def drawn_range(subject: Subject) -> Iterator[Seen]:
    """The upper end of the random numbers is {seen}; it must be above the lower end, {limit}.

    Remedy: give a lower end below the upper one; for a constant use a fill.

    The rule applies even where the host draws the numbers, so that a graph is refused on every target or on none.
    """
    low, high = number(subject, "low"), number(subject, "high")
    if low is not None and high is not None and not low < high:
        yield Seen(high, "high", low)


@rule(
    "ANE-RINGBUFFERWRITER-002",
    Severity.REJECT,
    bound=fact("ring_buffer"),
    relation=Relation.NEVER,
    ops={"tensor_to_circular_buffer"},
)
def writes_a_state(subject: Subject) -> Iterator[Seen]:
    """The ring buffer that is written is {seen}; it must be {limit}.

    Remedy: declare the buffer as a state of the program.

    The graph and the program set the attribute `live_state`; the operation itself does not show what the buffer is.
    """
    if subject.attributes.get("live_state") is False:
        yield Seen("no state of the program", "buffer")


@rule(
    "ANE-RINGBUFFERWRITER-003",
    Severity.REJECT,
    bound=fact("circular_buffers"),
    relation=Relation.PRESENT,
    ops={"tensor_to_circular_buffer"},
)
def writes_circular_buffers(subject: Subject) -> Iterator[Seen]:
    """{op} needs circular buffers, which {target} does not have.

    Remedy: keep the state in a plain tensor and shift it.
    """
    yield Seen(subject.op)


@rule(
    "ANE-RINGBUFFERREADER-001",
    Severity.REJECT,
    bound=fact("circular_buffers"),
    relation=Relation.PRESENT,
    ops={"circular_buffer_to_tensor"},
)
def reads_circular_buffers(subject: Subject) -> Iterator[Seen]:
    """{op} needs circular buffers, which {target} does not have.

    Remedy: keep the state in a plain tensor and shift it.
    """
    yield Seen(subject.op)
