"""Layers that are emitted as tasks: what no known program of Apple's compiler computes, by the reason.

The emitter refuses a layer with the id of one of these rules; a subject is such a layer with the reason that was found.
"""

from collections.abc import Iterator

from aneforge.rules.facts import fact
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import EMISSION, Subject

KNOWN = fact("emission_evidence")


def refused(subject: Subject, identity: str) -> Iterator[Seen]:
    """Yield the reason for which a layer was refused by one rule."""
    reason = subject.attributes.get("refusal")
    if isinstance(reason, str) and reason.startswith(identity):
        yield Seen(reason.removeprefix(f"{identity}: "), "refusal")


@rule("ANE-EMIT-001", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_operation(subject: Subject) -> Iterator[Seen]:
    """No program of the operation is known: {seen}.

    Remedy: cut the model there: the parts before and after it are emitted as files of their own.
    """
    yield from refused(subject, "ANE-EMIT-001")


@rule("ANE-EMIT-002", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_kernel(subject: Subject) -> Iterator[Seen]:
    """No program with such a kernel is known: {seen}.

    Remedy: use kernels of 1x1 and 3x3 without dilation.
    """
    yield from refused(subject, "ANE-EMIT-002")


@rule("ANE-EMIT-003", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_stride(subject: Subject) -> Iterator[Seen]:
    """No program with such a stride is known: {seen}.

    Remedy: use stride 1, or stride 2 with a 1x1 kernel without groups.
    """
    yield from refused(subject, "ANE-EMIT-003")


@rule("ANE-EMIT-004", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def kernel_memory(subject: Subject) -> Iterator[Seen]:
    """The kernel cannot be shared out between tasks: {seen}.

    Remedy: use fewer input channels, or no groups.
    """
    yield from refused(subject, "ANE-EMIT-004")


@rule("ANE-EMIT-005", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def batch_or_depth(subject: Subject) -> Iterator[Seen]:
    """No program with a batch or a depth is known: {seen}.

    Remedy: emit the model for a batch of one, with tensors of at most four axes.
    """
    yield from refused(subject, "ANE-EMIT-005")


@rule("ANE-EMIT-006", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_reduction(subject: Subject) -> Iterator[Seen]:
    """No program that reduces these axes is known: {seen}.

    Remedy: keep the axes that are reduced; normalise the last axis of one row; take no softmax over a batch or a depth.
    """
    yield from refused(subject, "ANE-EMIT-006")


@rule("ANE-EMIT-007", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def on_chip_room(subject: Subject) -> Iterator[Seen]:
    """The buffers of a task do not fit the memory on chip: {seen}.

    Remedy: use smaller tensors.
    """
    yield from refused(subject, "ANE-EMIT-007")


@rule("ANE-EMIT-008", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_product(subject: Subject) -> Iterator[Seen]:
    """No program of this product of tensors is known: {seen}.

    Remedy: multiply two tensors, one of which has at least 16 rows or columns in the result.
    """
    yield from refused(subject, "ANE-EMIT-008")


@rule("ANE-EMIT-009", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_move(subject: Subject) -> Iterator[Seen]:
    """No program of this change of place is known: {seen}.

    Remedy: join along channels or rows, cut at multiples of 32 columns, exchange channels with rows.
    """
    yield from refused(subject, "ANE-EMIT-009")


@rule("ANE-EMIT-010", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_generation(subject: Subject) -> Iterator[Seen]:
    """No program of the generation is known: {seen}.

    Remedy: emit for a target of generation 7, or single elementwise operations for later ones.
    """
    yield from refused(subject, "ANE-EMIT-010")


@rule("ANE-EMIT-011", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_epilogue(subject: Subject) -> Iterator[Seen]:
    """No program with such a stage, gain or repeated operand is known: {seen}.

    Remedy: fold batch norms into the weights before they are rounded; add and multiply by one number at a time.
    """
    yield from refused(subject, "ANE-EMIT-011")


@rule("ANE-EMIT-012", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_elements(subject: Subject) -> Iterator[Seen]:
    """No program with elements of this type, or compressed, is known: {seen}.

    Remedy: use fp16 tensors and weights without compression.
    """
    yield from refused(subject, "ANE-EMIT-012")


@rule("ANE-EMIT-013", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def kept_states(subject: Subject) -> Iterator[Seen]:
    """No program that keeps states is known: {seen}.

    Remedy: make the state an input and an output.
    """
    yield from refused(subject, "ANE-EMIT-013")


@rule("ANE-EMIT-014", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def too_many_ports(subject: Subject) -> Iterator[Seen]:
    """The program does not fit base registers or scratch memory: {seen}.

    Remedy: cut the model into parts.
    """
    yield from refused(subject, "ANE-EMIT-014")
