"""Tasks: what every descriptor of real programs has and what most have, and which layers cannot be emitted as tasks.

The subject of a rule about descriptors is a task, whose attributes are fields of its header and registers; a generation
in which a relation was never checked leaves the attribute out. The subject of a rule about emission is a layer, with
the reason that was found: what no known program of Apple's compiler computes. The emitter names the rule's id.
"""

from collections.abc import Iterator

from aneforge.rules.facts import fact
from aneforge.rules.looking import integer
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import EMISSION, TASK, Subject

INVARIANT, PATTERN = fact("task_invariant"), fact("task_pattern")


def differing(subject: Subject, name: str, other: str) -> Iterator[Seen]:
    """Yield an attribute that differs from another one, where the subject has both."""
    seen, expected = integer(subject, name), integer(subject, other)
    if seen is not None and expected is not None and seen != expected:
        yield Seen(seen, name, expected)


def unusual(subject: Subject, name: str) -> Iterator[Seen]:
    """Yield a word that is not among the values that are usual at this place."""
    seen, usual = subject.attributes.get(name), subject.attributes.get(f"usual_{name}")
    if isinstance(seen, str) and isinstance(usual, tuple) and seen not in usual:
        yield Seen(seen, name, tuple(str(value) for value in usual))


@rule("ANE-TASK-001", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def task_number(subject: Subject) -> Iterator[Seen]:
    """The task has the number {seen} and must have {limit}: tasks are numbered in the order in which they run.

    Remedy: set TID in header word 0.
    """
    yield from differing(subject, "task_id", "index")


@rule("ANE-TASK-002", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def later_flag(subject: Subject) -> Iterator[Seen]:
    """LNID is {seen} and must be {limit}: it is set on every task but the first.

    Remedy: set bit 24 of header word 0.
    """
    yield from differing(subject, "later", "is_later")


@rule("ANE-TASK-003", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def last_flag(subject: Subject) -> Iterator[Seen]:
    """The mark of the last task is {seen} and must be {limit}: it is set only on the last task.

    Remedy: set EON, bit 25 of header word 0; in later generations bit 3 of the control word.
    """
    yield from differing(subject, "last", "is_last")


@rule("ANE-TASK-004", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def core_count(subject: Subject) -> Iterator[Seen]:
    """ENE is {seen} and must be {limit}: ActiveNE + 1, or 0 for a task of the planar engine.

    Remedy: set bits 24 to 26 of header word 8 from the common block's Cfg register.
    """
    yield from differing(subject, "neural_cores", "cores_of_config")


@rule("ANE-TASK-005", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def network_of_engine(subject: Subject) -> Iterator[Seen]:
    """NID of the common block is {seen} and must be {limit}: 1 for tasks of the neural engine, 0 for the planar one.

    Remedy: set bits 20 to 27 of TaskInfo.
    """
    yield from differing(subject, "info_network_id", "is_neural")


@rule("ANE-TASK-006", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def kernel_base_enable(subject: Subject) -> Iterator[Seen]:
    """KBE0 is {seen} and must be {limit}: equal to bit 6 of the master register of the kernel DMA.

    Remedy: enable the base register of coefficients exactly where coefficients are read.
    """
    yield from differing(subject, "kernel_bar_enable", "kernel_enable")


@rule("ANE-TASK-007", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def buffer_modes(subject: Subject) -> Iterator[Seen]:
    """L2BfrMode of the destination DMA is {seen} and must be {limit}: equal to that of the result in L2.

    Remedy: set bit 26 of the destination's DMAConfig and bit 3 of ResultCfg together.
    """
    yield from differing(subject, "result_buffer_mode", "result_streamed")


@rule("ANE-TASK-008", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def header_size(subject: Subject) -> Iterator[Seen]:
    """The first record writes at address {seen} and must write at {limit}: TDE does not agree with the header's size.

    Remedy: set TDE, bit 24 of header word 6, exactly where an eleventh header word follows.
    """
    yield from differing(subject, "first_record", "first_block")


@rule("ANE-TASK-009", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def source_flag(subject: Subject) -> Iterator[Seen]:
    """SrcLoc is {seen} and must be {limit}: equal to the enable bit of the source DMA.

    Remedy: set bit 28 of header word 6 exactly where the source is read from memory.
    """
    yield from differing(subject, "source_in_memory", "source1_enable")


@rule("ANE-TASK-010", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def result_flag(subject: Subject) -> Iterator[Seen]:
    """DstLoc is {seen} and must be {limit}: equal to the enable bit of the destination DMA.

    Remedy: set bit 29 of header word 6 exactly where the result is written to memory.
    """
    yield from differing(subject, "result_in_memory", "result_enable")


@rule("ANE-TASK-011", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def abort_flag(subject: Subject) -> Iterator[Seen]:
    """DisallowAbort is {seen} and must be {limit}: equal to bit 12 of the NE's KernelCfg.

    Remedy: set both on a planar task that passes its result to the next one.
    """
    yield from differing(subject, "disallow_abort", "hand_over_producer")


@rule("ANE-TASK-012", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def next_base_enable(subject: Subject) -> Iterator[Seen]:
    """TBE is {seen} and must be {limit}: it is set on every task but the last.

    Remedy: set bit 23 of header word 8 where a task follows.
    """
    yield from differing(subject, "next_bar_enable", "is_followed")


@rule("ANE-TASK-013", Severity.REJECT, bound=INVARIANT, relation=Relation.NEVER, ops={TASK})
def second_source(subject: Subject) -> Iterator[Seen]:
    """{what} is {seen} and must be {limit}: header, common block and L2 agree on a second source that is read by DMA.

    Remedy: set RBE1, bit 1 of Cfg and bit 24 of the L2 SourceCfg together.
    """
    yield from differing(subject, "source2_by_dma", "source2_bar_enable")
    yield from differing(subject, "source2_present", "source2_bar_enable")


@rule("ANE-TASK-014", Severity.WARN, bound=PATTERN, relation=Relation.NEVER, ops={TASK})
def flag_pattern(subject: Subject) -> Iterator[Seen]:
    """The flags SPL, TSR, SPC, DPC and TSE are {seen}; tasks at this place of real programs have one of {limit}.

    Remedy: compare header word 6 with a program of the same structure.

    Which of them a task needs depends on how it passes on its result; the rule is not known.
    """
    yield from unusual(subject, "flags")


@rule("ANE-TASK-015", Severity.WARN, bound=PATTERN, relation=Relation.NEVER, ops={TASK})
def event_pattern(subject: Subject) -> Iterator[Seen]:
    """The log events are {seen}; tasks at this place of real programs have one of {limit}.

    Remedy: compare header word 2 with a program that has the same number of tasks.
    """
    yield from unusual(subject, "log_events")


@rule("ANE-TASK-016", Severity.WARN, bound=PATTERN, relation=Relation.NEVER, ops={TASK})
def debug_event_pattern(subject: Subject) -> Iterator[Seen]:
    """The debug log events (without bit 13) are {seen}; tasks at this place of real programs have one of {limit}.

    Remedy: compare header word 4 with a program that has the same number of tasks.
    """
    yield from unusual(subject, "debug_log_events")


KNOWN = fact("emission_evidence")


def refuse(subject: Subject, identity: str) -> Iterator[Seen]:
    """Yield the reason for which a layer was refused by one rule."""
    reason = subject.attributes.get("refusal")
    if isinstance(reason, str) and reason.startswith(identity):
        yield Seen(reason.removeprefix(f"{identity}: "), "refusal")


@rule("ANE-EMIT-001", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_operation(subject: Subject) -> Iterator[Seen]:
    """No program of the operation is known: {seen}.

    Remedy: cut the model there: the parts before and after it are emitted as files of their own.
    """
    yield from refuse(subject, "ANE-EMIT-001")


@rule("ANE-EMIT-002", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_kernel(subject: Subject) -> Iterator[Seen]:
    """No program with such a kernel is known: {seen}.

    Remedy: use kernels of 1x1 and 3x3 without dilation.
    """
    yield from refuse(subject, "ANE-EMIT-002")


@rule("ANE-EMIT-003", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_stride(subject: Subject) -> Iterator[Seen]:
    """No program of one operation with such a stride is known: {seen}.

    Remedy: emit it as a model, whose convolution has strides of one and leaves out rows and columns afterwards.
    """
    yield from refuse(subject, "ANE-EMIT-003")


@rule("ANE-EMIT-004", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def kernel_memory(subject: Subject) -> Iterator[Seen]:
    """The kernel cannot be split between tasks: {seen}.

    Remedy: use fewer input channels, or no groups.
    """
    yield from refuse(subject, "ANE-EMIT-004")


@rule("ANE-EMIT-005", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def batch_or_depth(subject: Subject) -> Iterator[Seen]:
    """No program with a batch or a depth is known: {seen}.

    Remedy: emit the model for a batch of one, with tensors of at most four axes.
    """
    yield from refuse(subject, "ANE-EMIT-005")


@rule("ANE-EMIT-006", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_reduction(subject: Subject) -> Iterator[Seen]:
    """No program that reduces these axes is known: {seen}.

    Remedy: keep the axes that are reduced; normalise the last axis of one row; take no softmax over a batch or a depth.
    """
    yield from refuse(subject, "ANE-EMIT-006")


@rule("ANE-EMIT-007", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def on_chip_room(subject: Subject) -> Iterator[Seen]:
    """The buffers of a task do not fit the memory on chip, or its extents their registers: {seen}.

    Remedy: use smaller tensors.
    """
    yield from refuse(subject, "ANE-EMIT-007")


@rule("ANE-EMIT-008", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_product(subject: Subject) -> Iterator[Seen]:
    """No program of this product of tensors is known: {seen}.

    Remedy: multiply two tensors, one of which has at least 16 rows or columns in the result.
    """
    yield from refuse(subject, "ANE-EMIT-008")


@rule("ANE-EMIT-009", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_move(subject: Subject) -> Iterator[Seen]:
    """No program of this data movement is known: {seen}.

    Remedy: join tensors along channels, rows or columns, each once; transpose only channels with rows or columns.
    """
    yield from refuse(subject, "ANE-EMIT-009")


@rule("ANE-EMIT-010", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_generation(subject: Subject) -> Iterator[Seen]:
    """No program of the generation is known: {seen}.

    Remedy: emit for a target of generation 7, or single elementwise operations for later ones.
    """
    yield from refuse(subject, "ANE-EMIT-010")


@rule("ANE-EMIT-011", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_epilogue(subject: Subject) -> Iterator[Seen]:
    """No program with such a stage, gain or repeated operand is known: {seen}.

    Remedy: fold batch norms into the weights before they are rounded; add and multiply by one number at a time.
    """
    yield from refuse(subject, "ANE-EMIT-011")


@rule("ANE-EMIT-012", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def unknown_elements(subject: Subject) -> Iterator[Seen]:
    """No program with elements of this type, or compressed, is known: {seen}.

    Remedy: use fp16 tensors and weights without compression.
    """
    yield from refuse(subject, "ANE-EMIT-012")


@rule("ANE-EMIT-013", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def kept_states(subject: Subject) -> Iterator[Seen]:
    """No program that keeps states is known: {seen}.

    Remedy: make the state an input and an output.
    """
    yield from refuse(subject, "ANE-EMIT-013")


@rule("ANE-EMIT-014", Severity.REJECT, bound=KNOWN, relation=Relation.NEVER, ops={EMISSION})
def too_many_ports(subject: Subject) -> Iterator[Seen]:
    """The program does not fit base registers or scratch memory: {seen}.

    Remedy: cut the model into parts.
    """
    yield from refuse(subject, "ANE-EMIT-014")
