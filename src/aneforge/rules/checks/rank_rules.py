"""How many axes a tensor may have."""

from collections.abc import Iterator

from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject


@rule(
    "ANE-RANK-001",
    Severity.REJECT,
    bound="max_rank",
    relation=Relation.AT_MOST,
)
def rank(subject: Subject) -> Iterator[Seen]:
    """{what} has {seen} axes; {target} takes at most {limit}.

    Remedy: merge axes with reshape, or use the operation that does the rearrangement whole, such as pixel_shuffle.

    Reported in: microsoft/onnxruntime#14212
    """
    for number, tensor in enumerate(subject.operands):
        yield Seen(len(tensor.shape), f"Operand {number}")
    for number, tensor in enumerate(subject.results):
        yield Seen(len(tensor.shape), f"Result {number}")
