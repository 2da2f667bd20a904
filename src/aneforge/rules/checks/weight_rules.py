"""What becomes of weights that are stored in fewer bits."""

from collections.abc import Iterator

from aneforge.rules.facts import fact
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject

BLOCKWISE = "blockwise"
BLOCKWISE_OPS = {"constexpr_blockwise_shift_scale", "constexpr_sparse_blockwise_shift_scale"}


@rule("ANE-WEIGHT-001", Severity.INFO, bound=BLOCKWISE, relation=Relation.PRESENT)
def blockwise_folds(subject: Subject) -> Iterator[Seen]:
    """Weights with a scale for each block fold to dense fp16 on {target}: they take the accuracy and give no bandwidth.

    Remedy: use an encoding that streams there; `aneforge.targets.native_streams` lists them.
    """
    yield from blockwise_weights(subject)


@rule(
    "ANE-WEIGHT-002",
    Severity.WARN,
    bound=fact("blockwise_weights_are_right"),
    relation=Relation.PRESENT,
)
def blockwise_is_wrong(subject: Subject) -> Iterator[Seen]:
    """Weights with a scale for each block stream on {target}, and users report wrong numbers from them.

    Remedy: use one scale for each channel (int8) or a palette (int4), or compare with the model's own numbers there.

    Reported in: apple/coreai-models#279

    The report gives a cosine of 0.37 between the engine's answer and the right one, and names no chip.
    """
    yield from blockwise_weights(subject)


def blockwise_weights(subject: Subject) -> Iterator[Seen]:
    """Yield the operand that holds weights in blocks, or the operation that stands for them."""
    if subject.op in BLOCKWISE_OPS:
        yield Seen(BLOCKWISE, "weight")
    for name, constants in subject.constants.items():
        if any(constant.encoding == BLOCKWISE for constant in constants):
            yield Seen(BLOCKWISE, name)
