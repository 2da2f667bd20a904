"""The floor below which no program of any kind runs."""

from collections.abc import Iterator

from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject


@rule("ANE-FLOOR-001", Severity.REJECT, bound="mil_programs", relation=Relation.PRESENT)
def runs_mil(subject: Subject) -> Iterator[Seen]:
    """{op} cannot run: {target} is below the floor of MIL programs.

    Remedy: choose a target of tier {since} or later, or write a network description (`compile --emit netplist`).

    The front end asserts this before it looks at any operation, so every operation is rejected there.
    """
    yield Seen(subject.op)
