"""Patterns that run and give wrong numbers, or fail for no reason that a shape shows."""

import math
from collections.abc import Iterator
from functools import cache

from aneforge.ops import table
from aneforge.ops.numbers import FP16_MAX
from aneforge.ops.op import Category, Trait
from aneforge.rules.facts import fact
from aneforge.rules.looking import number
from aneforge.rules.rule import Relation, Seen, Severity, rule
from aneforge.rules.subject import PORT, Subject

SOFTPLUS_SAFE = 10.0
"""Softplus is reported to jump to 0 somewhere between 10.4 and 11.1; its exponential overflows at 11.094 (measured)."""
AFFINE = {"gamma", "beta"}
ROW = 128
"""Elements; squares are reported to fail where the width modulo this number is above half of it."""


@rule(
    "ANE-QUIRK-001", Severity.WARN, bound="rounding_keeps_multiplier", relation=Relation.PRESENT, trait=Trait.ROUNDING
)
def multiplier_after_rounding(subject: Subject) -> Iterator[Seen]:
    """{op} is followed by a multiplication by a constant, which {target} drops.

    Remedy: put a clip that changes nothing between the two.
    """
    if "muls" in subject.consumers:
        yield Seen("muls", "consumer")


@rule(
    "ANE-QUIRK-002",
    Severity.WARN,
    bound=fact("softplus_of_large_numbers"),
    relation=Relation.PRESENT,
    ops={"softplus", "softplus_parametric"},
)
def softplus_of_large_numbers(subject: Subject) -> Iterator[Seen]:
    """The input of {op} may reach {what}; above {limit} the result jumps to 0 on {target}.

    Remedy: use softplus(min(x, 10)) + relu(x − 10), or promise a smaller range (max_abs of the input, clip).

    Reported in: apple/coremltools#2687, apple/coremltools#2359

    The exponential inside it overflows before the logarithm is taken. Mish and log-softmax built on softplus jump too.
    """
    reach = number(subject, "reach")
    reach = float("inf") if reach is None else reach
    if reach > SOFTPLUS_SAFE:
        yield Seen(reach, "any size" if math.isinf(reach) else f"{reach:g}", limit=SOFTPLUS_SAFE)


@rule(
    "ANE-QUIRK-003",
    Severity.WARN,
    bound=fact("masks_beyond_fp16"),
    relation=Relation.PRESENT,
    trait=Trait.MASKING,
)
def mask_beyond_fp16(subject: Subject) -> Iterator[Seen]:
    """A mask before a softmax contains {seen}; beyond {limit} it is infinite on {target}.

    Remedy: mask with −10000, which has the same effect.

    Reported in: apple/coremltools#2669, cactus-compute/cactus#734

    A row that is masked completely has no defined result then.
    """
    largest = number(subject, "largest_mask")
    if largest is not None and largest > FP16_MAX:
        yield Seen(largest, "magnitude of the mask", limit=FP16_MAX)


@rule(
    "ANE-QUIRK-004",
    Severity.INFO,
    bound=fact("affine_layer_norm_always_compiles"),
    relation=Relation.PRESENT,
    ops={"layer_norm"},
)
def affine_layer_norm(subject: Subject) -> Iterator[Seen]:
    """Users report that a layer normalisation with some values of {seen} fails to compile; it may fail on {target}.

    Remedy: if it fails, normalise without them, then multiply and add.

    Reported in: sbryngelson/ANEForge#149
    """
    if subject.constants.keys() >= AFFINE:
        yield Seen("gamma and beta", "affine constants")


@rule(
    "ANE-QUIRK-005",
    Severity.WARN,
    bound=fact("activated_square_compiles_at_any_width"),
    relation=Relation.PRESENT,
    ops={"square"},
)
def activated_square(subject: Subject) -> Iterator[Seen]:
    """Users report that {op} followed by an activation fails to compile at width {seen}; it may fail on {target}.

    Remedy: pad the last axis so that its length modulo 128 is at most 64, or write x * x.
    """
    width = subject.results[0].shape[-1] if subject.results and subject.results[0].rank else 0
    if width % ROW > ROW // 2 and subject.consumers & activations():
        yield Seen(width, "last axis")


@rule(
    "ANE-QUIRK-006",
    Severity.REJECT,
    bound=fact("scaled_reduction_compiles_for_zero"),
    relation=Relation.PRESENT,
    ops={"mul", "muls"},
)
def reduction_times_zero(subject: Subject) -> Iterator[Seen]:
    """A {seen} is multiplied by 0, which does not compile on {target}.

    Remedy: use a constant of zeros, which is the result.
    """
    reduction = subject.attributes.get("scaled_reduction")
    if isinstance(reduction, str):
        yield Seen(reduction, "operation before it")


@rule(
    "ANE-QUIRK-007",
    Severity.WARN,
    bound=fact("program_without_operations_compiles"),
    relation=Relation.PRESENT,
    ops={PORT},
)
def output_is_an_input(subject: Subject) -> Iterator[Seen]:
    """An output is an unchanged input; a program with no other outputs crashes the compiler's front end on {target}.

    Remedy: use the input directly, without a program, or compute something from it.
    """
    if subject.attributes.get("producer") == "input":
        yield Seen("input", "producer")


@rule(
    "ANE-QUIRK-008",
    Severity.WARN,
    bound=fact("silu_is_as_exact_as_its_parts"),
    relation=Relation.PRESENT,
    ops={"silu"},
    bounded=True,
)
def coarse_silu(subject: Subject) -> Iterator[Seen]:
    """{op} is one table on {target}: its error is up to {seen}, 0.0017 at 0; x · sigmoid(x) is better for small values.

    Remedy: write x * x.sigmoid(), as an ONNX file does; opt="max" and tune_precision try that form.

    The errors of networks with many such layers differ by a factor of 13 to 20 between the two forms. The largest error
    is that of the table against the mathematics; x times the table of sigmoid has an error of at most 0.006 up to 4.
    """
    if subject.op == "silu":
        yield Seen(0.015, "largest error of the table")


@cache
def activations() -> frozenset[str]:
    """Return the names of the activations in the op table."""
    return frozenset(name for name, op in table.ops().items() if op.category is Category.ACTIVATION)
