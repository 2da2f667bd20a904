"""The families that have an operation at all, as the op table gives them."""

from collections.abc import Iterator

from aneforge.ops.op import Below, Support
from aneforge.ops.table import ops
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject
from aneforge.targets import LegalityFamily

NO_FAMILY = 8
"""One past the last value of the compiler's family enumeration: the floor of an operation that no family has."""


@rule("ANE-FLOOR-002", Severity.REJECT, bound="family", relation=Relation.AT_MOST)
def operation_floor(subject: Subject) -> Iterator[Seen]:
    """{op} needs family {what}; {target} is of family {limit}.

    Remedy: choose a later target, or build the operation from others.

    An operation's floor is the lowest family that has it.
    """
    support = support_of(subject)
    if support and support.floor is not None and support.below is Below.REJECT:
        yield Seen(support.floor, LegalityFamily(support.floor).name)


@rule("ANE-FLOOR-003", Severity.DECOMPOSE, bound="family", relation=Relation.AT_MOST)
def decomposed_below_floor(subject: Subject) -> Iterator[Seen]:
    """{op} is native from family {what} on; on {target}, of family {limit}, it is built from other operations.

    Remedy: none is needed; expect more layers and the rounding of each.
    """
    support = support_of(subject)
    if support and support.floor is not None and support.below is Below.DECOMPOSE:
        yield Seen(support.floor, LegalityFamily(support.floor).name)


@rule("ANE-FLOOR-004", Severity.REJECT, bound="family", relation=Relation.AT_MOST)
def native_nowhere(subject: Subject) -> Iterator[Seen]:
    """{op} has no native form on {target}, nor on any other target.

    Remedy: build it from other operations, or keep it on the host.
    """
    support = support_of(subject)
    if support and support.floor is None:
        yield Seen(NO_FAMILY)


def support_of(subject: Subject) -> Support | None:
    """Return where the op table says that an operation runs; None for what is not in the table."""
    entry = ops().get(subject.op)
    return entry.support if entry else None
