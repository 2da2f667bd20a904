"""Which element types a port may have, which the engine can hold, and what becomes of weights stored in fewer bits."""

from collections.abc import Iterator

from aneforge.ops.op import Trait
from aneforge.ops.table import names
from aneforge.ops.types import is_integer
from aneforge.rules.facts import fact
from aneforge.rules.looking import text
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import PORT, Subject

PLACEHOLDERS = {"input", "state"}
FP8 = "fp8e4m3fn"


@rule("ANE-DTYPE-001", Severity.REJECT, bound="program_input_dtypes", relation=Relation.ONE_OF, ops={"input"})
def input_dtype(subject: Subject) -> Iterator[Seen]:
    """A program's input is {seen}; {target} takes {limit}.

    Remedy: feed floating-point numbers as fp16 and an image as uint8. Integers are exact in fp16 up to 2048: look
    up larger ones, such as token ids, on the host and feed the result.
    """
    for tensor in subject.results:
        yield Seen(tensor.dtype, "input")


@rule("ANE-DTYPE-002", Severity.REJECT, bound="program_output_dtypes", relation=Relation.ONE_OF, ops={PORT})
def output_dtype(subject: Subject) -> Iterator[Seen]:
    """A program's output is {seen}; {target} gives {limit}.

    Remedy: cast it to fp16 inside the program and convert on the host.
    """
    for tensor in subject.operands:
        if not leaves_through_a_cast(subject, tensor.dtype):
            yield Seen(tensor.dtype, "output")


@rule("ANE-DTYPE-005", Severity.DECOMPOSE, bound="program_output_dtypes", relation=Relation.ONE_OF, ops={PORT})
def cast_output(subject: Subject) -> Iterator[Seen]:
    """A program's output is {seen}; {target} returns it as {limit}, through a cast at the port.

    Remedy: not needed; indices are exact in fp16 up to 2048.
    """
    for tensor in subject.operands:
        if leaves_through_a_cast(subject, tensor.dtype):
            yield Seen(tensor.dtype, "output")


def leaves_through_a_cast(subject: Subject, dtype: str) -> bool:
    """Return whether an output is a boolean or an index, which the engine holds in another form anyway."""
    return dtype == "bool" or is_index(text(subject, "producer"), dtype)


def is_index(op: str, dtype: str) -> bool:
    """Return whether an integer is an index: MIL spells it in 32 bits, the engine holds it in 16."""
    entry = names().get(op)
    return is_integer(dtype) and entry is not None and Trait.INDICES in entry.traits


@rule("ANE-DTYPE-003", Severity.REJECT, bound="engine_dtypes", relation=Relation.ONE_OF)
def engine_dtype(subject: Subject) -> Iterator[Seen]:
    """{what} is {seen}; operations on {target} take {limit}.

    Remedy: cast integers of at most 2048 to fp16, which represents them exactly; compute with larger ones on the host.
    Cast floating-point tensors to fp16 (af.to_fp16 does it for a whole graph).

    A constant is written in the form in which the engine reads it, so the type in which it is stored does not matter.
    """
    if subject.op in PLACEHOLDERS or is_computed_beforehand(subject):
        return
    for what, dtype in tensor_dtypes(subject):
        becomes_index = any(is_index(reader, dtype) for reader in subject.consumers)
        if dtype != FP8 and not is_index(subject.op, dtype) and not becomes_index:
            yield Seen(dtype, what)


@rule("ANE-DTYPE-004", Severity.REJECT, bound="fp8_e4m3", relation=Relation.PRESENT)
def fp8_dtype(subject: Subject) -> Iterator[Seen]:
    """{what} is {seen}: E4M3 is not supported on {target}.

    Remedy: keep the tensor in fp16, or its weights in int8.
    """
    for what, dtype in (*tensor_dtypes(subject), *constant_dtypes(subject)):
        if dtype == FP8:
            yield Seen(dtype, what)


def is_computed_beforehand(subject: Subject) -> bool:
    """Return whether an operation reads only constants, so that the engine holds nothing of it."""
    return bool(subject.arguments) and not subject.operands


def constant_dtypes(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield every constant that is read together with a tensor."""
    for name, constants in () if is_computed_beforehand(subject) else subject.constants.items():
        for constant in constants:
            yield f"Constant {name}", constant.type.dtype


def tensor_dtypes(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield every tensor of an operation with its element type."""
    for number, tensor in enumerate(subject.operands):
        yield f"Operand {number}", tensor.dtype
    for number, tensor in enumerate(subject.results):
        yield f"Result {number}", tensor.dtype


BLOCKWISE = "blockwise"
BLOCKWISE_OPS = {"constexpr_blockwise_shift_scale", "constexpr_sparse_blockwise_shift_scale"}


@rule("ANE-WEIGHT-001", Severity.INFO, bound=BLOCKWISE, relation=Relation.PRESENT)
def blockwise_folds(subject: Subject) -> Iterator[Seen]:
    """Weights with one scale per block become dense fp16 on {target}: accuracy is lost and no bandwidth is saved.

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
    """Weights with one scale per block stream on {target}, and users report wrong results from them.

    Remedy: use one scale per channel (int8) or a palette (int4), or compare with the model's own numbers there.

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
