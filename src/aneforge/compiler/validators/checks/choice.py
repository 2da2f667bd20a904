"""Order and chance: top-k, boxes, dropout, random numbers."""

from collections.abc import Iterator

from aneforge.compiler.validators.declare import gate, layer_rule
from aneforge.rules.looking import argument, integer, number
from aneforge.rules.rule import Relation, Seen
from aneforge.rules.subject import Subject


@layer_rule("ANE-TOPK-002", Relation.NEVER)
def chosen_count(subject: Subject) -> Iterator[Seen]:
    """{seen} elements are selected from an axis that has {limit}.

    Remedy: choose fewer.
    """
    x, k, axis = argument(subject, "x"), integer(subject, "k"), integer(subject, "axis")
    if x is None or k is None or axis is None or not -x.rank <= axis < x.rank:
        return
    if not 1 <= k <= x.shape[axis]:
        yield Seen(k, "k", x.shape[axis])


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
    """{op} passes its validator but never runs on the engine, on {target} or any other target.

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

    Remedy: give a rate of at least 0.
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
