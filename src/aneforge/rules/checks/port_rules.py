"""What a program reads, of which there must be something, and what it keeps on the device between runs."""

from collections.abc import Iterator

from aneforge.rules.facts import fact
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import PORT, Subject


@rule(
    "ANE-PORT-001",
    Severity.REJECT,
    bound=fact("program_without_inputs_runs"),
    relation=Relation.PRESENT,
    ops={PORT},
)
def graph_without_inputs(subject: Subject) -> Iterator[Seen]:
    """The graph has no inputs; a program on {target} needs at least one.

    Remedy: start it from af.input, or compute constant results on the host.
    """
    if subject.attributes.get("fed") is False:
        yield Seen("no inputs", "graph")


@rule(
    "ANE-PORT-002",
    Severity.REJECT,
    bound=fact("constant_without_numbers_runs"),
    relation=Relation.PRESENT,
    ops={"const"},
)
def constant_without_numbers(subject: Subject) -> Iterator[Seen]:
    """{op} is declared without values: no layer on {target} computes it.

    Remedy: give the values as an operand of the operation that reads them.
    """
    yield Seen(subject.op)


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
