"""What a tensor that stays on the device may be."""

from collections.abc import Iterator

from aneforge.rules.facts import fact
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject


@rule(
    "ANE-STATE-001",
    Severity.REJECT,
    bound=fact("state_width_step"),
    relation=Relation.MULTIPLE_OF,
    ops={"state"},
)
def state_width(subject: Subject) -> Iterator[Seen]:
    """A state is {seen} wide; states that load on {target} are a multiple of {limit} wide.

    Remedy: pad the last axis of the state to the next multiple, and slice what is read.

    Reported in: apple/coremltools#2631
    """
    for tensor in subject.results:
        if tensor.rank:
            yield Seen(tensor.shape[-1], "last axis")
