"""Which element types a port may have, and which the engine can hold."""

from collections.abc import Iterator

from aneforge.ops.types import is_integer
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import Subject

PORTS = {"input", "output", "state"}
FP8 = "fp8e4m3fn"
INDEX_OPERATIONS = {
    "argsort", "dynamic_slice", "gather", "gather_along_axis", "gather_hw", "gather_nd", "global_arg_min_max",
    "reduce_argmax", "reduce_argmin", "topk",
}  # fmt: skip
"""Operations that read or make indices: MIL spells them as whole numbers, the engine holds them in 16 bits."""


@rule("ANE-DTYPE-001", Severity.REJECT, bound="program_input_dtypes", relation=Relation.ONE_OF, ops={"input"})
def input_dtype(subject: Subject) -> Iterator[Seen]:
    """A program's input is {seen}; {target} takes {limit}.

    Remedy: declare the input as fp16 and cast on the host, or as uint8 for an image.
    """
    for tensor in subject.results:
        yield Seen(tensor.dtype, "input")


@rule("ANE-DTYPE-002", Severity.REJECT, bound="program_output_dtypes", relation=Relation.ONE_OF, ops={"output"})
def output_dtype(subject: Subject) -> Iterator[Seen]:
    """A program's output is {seen}; {target} gives {limit}.

    Remedy: cast to fp16 inside the program and convert on the host.
    """
    for tensor in subject.operands:
        is_index = subject.attributes.get("producer") in INDEX_OPERATIONS and is_integer(tensor.dtype)
        if not is_index:
            yield Seen(tensor.dtype, "output")


@rule("ANE-DTYPE-003", Severity.REJECT, bound="engine_dtypes", relation=Relation.ONE_OF)
def engine_dtype(subject: Subject) -> Iterator[Seen]:
    """{what} is {seen}; an operation on {target} holds {limit}.

    Remedy: cast to fp16, or keep the operation on the host.
    """
    if subject.op in PORTS:
        return
    for what, dtype in tensor_dtypes(subject):
        is_index = subject.op in INDEX_OPERATIONS and is_integer(dtype)
        if dtype != FP8 and not is_index:
            yield Seen(dtype, what)


@rule("ANE-DTYPE-004", Severity.REJECT, bound="fp8_e4m3", relation=Relation.PRESENT)
def fp8_dtype(subject: Subject) -> Iterator[Seen]:
    """{what} is {seen}: E4M3 is not supported on {target}.

    Remedy: keep the tensor in fp16, or its weights in int8.
    """
    for what, dtype in tensor_dtypes(subject):
        if dtype == FP8:
            yield Seen(dtype, what)


def tensor_dtypes(subject: Subject) -> Iterator[tuple[str, str]]:
    """Yield every tensor of an operation with its element type."""
    for number, tensor in enumerate(subject.operands):
        yield f"Operand {number}", tensor.dtype
    for number, tensor in enumerate(subject.results):
        yield f"Result {number}", tensor.dtype
