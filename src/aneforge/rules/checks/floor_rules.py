"""The floors: below which no program runs, and below which an operation does not, as the op table gives them."""

from collections.abc import Iterator

from aneforge.ops.decomposition import Decomposition
from aneforge.ops.op import Below, Category, Support, Trait
from aneforge.ops.table import ops
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject
from aneforge.targets import LegalityFamily

NO_FAMILY = 8
"""One past the last value of the compiler's family enumeration: the floor of an operation that no family has."""


@rule("ANE-FLOOR-001", Severity.REJECT, bound="mil_programs", relation=Relation.PRESENT)
def runs_mil(subject: Subject) -> Iterator[Seen]:
    """{op} cannot run: {target} is below the floor of MIL programs.

    Remedy: choose a target of the {since} family or a later one, or write a network description
    (`compile --emit netplist`).

    The front end asserts this before it looks at any operation, so every operation is rejected there.
    """
    yield Seen(subject.op)


@rule("ANE-FLOOR-002", Severity.REJECT, bound="family", relation=Relation.AT_MOST)
def operation_floor(subject: Subject) -> Iterator[Seen]:
    """{op} needs the {what} family or a later one; {target} is of the {limit} family.

    Remedy: choose a later target, or build it from other operations.

    An operation's floor is the lowest family that has it. The operation `floor` of a product with constants is exempt:
    it is a division (guide app. B: floor_divide), which every family probably has.
    """
    support = support_of(subject)
    if subject.attributes.get("quotient"):
        return
    if support and support.floor is not None and support.below is Below.REJECT:
        yield Seen(support.floor, LegalityFamily(support.floor).name)


@rule("ANE-FLOOR-003", Severity.DECOMPOSE, bound="family", relation=Relation.AT_MOST)
def decomposed_below_floor(subject: Subject) -> Iterator[Seen]:
    """{op} is native from the {what} family on; on {target} ({limit} family) it is built from other operations.

    Remedy: not needed; expect more layers and the rounding of each.
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
    if support and support.floor is None and support.below is Below.REJECT and not has_data_shape(subject):
        yield Seen(NO_FAMILY)


@rule("ANE-FLOOR-005", Severity.DECOMPOSE, bound="family", relation=Relation.AT_MOST)
def decomposed_everywhere(subject: Subject) -> Iterator[Seen]:
    """{op} has no native form on any target; on {target} it becomes {what}.

    Remedy: not needed; expect more layers and the rounding of each.
    """
    found = decomposition_of(subject)
    if found and not find_computed_operands(found, subject) and not is_recurrent(subject):
        yield Seen(NO_FAMILY, str(found))


@rule("ANE-FLOOR-006", Severity.REJECT, bound="family", relation=Relation.AT_MOST)
def computed_places(subject: Subject) -> Iterator[Seen]:
    """{op} has no native form on any target; it is built from other operations only where {what} is a constant.

    Remedy: give a constant, or keep the operation on the host. A cache that takes one row at every step needs no
    scatter: keep it as a state, or write cache * (1 - mask) + row * mask with a one-hot mask.
    """
    found = decomposition_of(subject)
    if found and (computed := find_computed_operands(found, subject)):
        yield Seen(NO_FAMILY, computed[0])


@rule("ANE-FLOOR-007", Severity.REJECT, bound="family", relation=Relation.AT_MOST, trait=Trait.DATA_SHAPE)
def data_shape(_: Subject) -> Iterator[Seen]:
    """{op} gives a result whose shape depends on the values; the shapes of a program on {target} are fixed.

    Remedy: keep it on the host, or multiply by a mask of the same shape.
    """
    yield Seen(NO_FAMILY)


@rule("ANE-FLOOR-008", Severity.DECOMPOSE, bound="family", relation=Relation.AT_MOST)
def unrolled(subject: Subject) -> Iterator[Seen]:
    """{op} has no native form on any target; on {target} it becomes {what}, so its time grows with the sequence.

    Remedy: a short sequence needs no change. For a long one use convolutions, which compute all steps at once; where
    data arrives step by step, run one step per call and keep the hidden values as states.
    """
    found = decomposition_of(subject)
    if found and is_recurrent(subject):
        yield Seen(NO_FAMILY, str(found))


def is_recurrent(subject: Subject) -> bool:
    """Return whether an operation computes the steps of a sequence one after another."""
    return ops()[subject.op].category is Category.RECURRENT


def has_data_shape(subject: Subject) -> bool:
    """Return whether the shape of an operation's result depends on the values, of which another rule speaks."""
    return Trait.DATA_SHAPE in ops()[subject.op].traits


def decomposition_of(subject: Subject) -> Decomposition | None:
    """Return how an operation that no family has is written in others; None for any other operation."""
    entry = ops().get(subject.op)
    if entry is None or entry.support.floor is not None or entry.support.below is Below.REJECT:
        return None
    return entry.decompositions()[0]


def find_computed_operands(decomposition: Decomposition, subject: Subject) -> list[str]:
    """Return the operands that must be constants for a decomposition, and are not."""
    return [name for name in decomposition.constants if name not in subject.constants]


def support_of(subject: Subject) -> Support | None:
    """Return where the op table says that an operation runs; None for what is not in the table."""
    entry = ops().get(subject.op)
    return entry.support if entry else None
