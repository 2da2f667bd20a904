"""Patterns that run and give wrong numbers."""

from collections.abc import Iterator

from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject

ROUNDINGS = {"floor", "ceil", "round"}


@rule("ANE-QUIRK-001", Severity.WARN, bound="rounding_keeps_multiplier", relation=Relation.PRESENT, ops=ROUNDINGS)
def multiplier_after_rounding(subject: Subject) -> Iterator[Seen]:
    """{op} is followed by a product with a number, which {target} loses.

    Remedy: put a clip that changes nothing between the two.
    """
    if "muls" in subject.consumers:
        yield Seen("muls", "consumer")
