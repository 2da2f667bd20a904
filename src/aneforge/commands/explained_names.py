"""Operations that `explain` knows, by our name or that of MIL, ONNX or PyTorch; Apple's validators and their texts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from aneforge.commands.explanation import Explanation, Row
from aneforge.ops.op import Below
from aneforge.ops.table import find_op, names, ops
from aneforge.rules.catalogue import rules
from aneforge.rules.operations import catalogue, op_status
from aneforge.targets import Family, supports_mil
from aneforge.targets.schema import read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.ops.op import Op
    from aneforge.rules.rule import Rule

__all__ = [
    "explain_apple_text",
    "explain_op",
    "explain_operator",
    "explain_validator",
    "foreign_names",
    "mil_names",
    "operation_name",
]

PREFIXES = re.compile(
    r"^(torch\.ops\.|torch\.nn\.functional\.|torch\.|nn\.functional\.|nn\.|aten[.:]+|F\.|ai\.onnx[.:]+)"
)
"""What users write before the name of an operator."""
TORCH = ("torch", "aten", "nn.", "F.")
"""Prefixes that PyTorch's users write."""
FORM = re.compile(r"\.(default|out|Tensor|Scalar)$")
AXES = re.compile(r"[123]d$")
"""PyTorch's layers say how many axes they have; our operations do not."""
PAGES = {
    "ONNX operator": "docs/onnx.md and docs/reference/onnx.md",
    "PyTorch operator": "docs/torch.md and docs/reference/torch.md",
}
LEAST_TEXT = 8
"""Characters of a text of Apple's that are enough to look for it."""
DIRECTIVE = re.compile(r"%[-+ #0-9.]*[a-z]+")


class OperatorNames(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The data file."""

    onnx: dict[str, tuple[str, ...]]
    torch: dict[str, tuple[str, ...]]


@cache
def operator_names() -> OperatorNames:
    """Return what frameworks call operations, and ours that stand for them."""
    return read(Path(__file__).with_name("data") / "operator_names.toml", OperatorNames)


def foreign_names() -> Iterator[str]:
    """Yield every name of an operator that the importers take."""
    known = operator_names()
    yield from known.onnx
    yield from (f"aten.{name}" for name in known.torch)


@cache
def mil_names() -> Mapping[str, str]:
    """Return operations by what MIL calls them, where that is another name."""
    return {op.mil_name: op.name for op in ops().values() if op.mil_name and op.mil_name not in ops()}


def operation_name(word: str) -> str | None:
    """Return the operation that is called so, here or in MIL."""
    if word in names():
        return word
    return mil_names().get(word)


def explain_op(name: str) -> Explanation:
    """Return what is known of an operation."""
    op = find_op(name)
    rows = [Row("operands", ", ".join(operand.name for operand in op.operands) or "none")]
    rows += [Row("category", str(op.category)), Row("MIL", op.mil_name or "no single operation there")]
    rows += [Row(f"{family.name} family", op_status(op.name, family)) for family in Family if supports_mil(family)]
    if op.support.below is Below.DECOMPOSE:
        rows.append(Row("decomposed", str(op.decompositions()[0])))
    if op.gradient is not None:
        rows.append(Row("gradient", str(op.gradient())))
    if op.name in catalogue():
        status = catalogue()[op.name].status
        rows += [Row(f"MIL front end, {family.name} family", word) for family, word in status.items()]
    rows += [Row(rule.id, rule.statement) for rule in rules().values() if looks_at(rule, op)]
    return Explanation("operation", op.name, op.summary, tuple(rows))


def looks_at(rule: Rule, op: Op) -> bool:
    """Return whether a rule looks at an operation in particular, and not at all of them."""
    special = rule.ops is not None or rule.gated or rule.trait is not None
    return special and rule.concerns(op.name)


def explain_operator(word: str) -> Explanation | None:
    """Return what is known of an operator by the name that ONNX or PyTorch has for it; None where neither has it.

    >>> found = explain_operator("Gemm")
    >>> found is not None and found.kind
    'ONNX operator'
    """
    known = operator_names()
    with_form = PREFIXES.sub("", word)
    bare = FORM.sub("", with_form)
    tables = [("ONNX operator", known.onnx), ("PyTorch operator", known.torch)]
    for kind, table in reversed(tables) if word.startswith(TORCH) else tables:
        folded = {name.casefold(): name for name in table}
        for asked in (with_form, bare, word):
            if asked.casefold() in folded:
                name = folded[asked.casefold()]
                return describe(kind, name, table[name])
    axes = AXES.sub("", bare.casefold())
    if axes != bare.casefold() and axes in ops():
        return describe("PyTorch operator", bare, (axes,))
    return None


def describe(kind: str, name: str, used: tuple[str, ...]) -> Explanation:
    """Return what is known of an operator that an importer takes."""
    summary = f"The importer takes this {kind}."
    if used:
        summary += f" Its converter uses {', '.join(used)}; `aneforge explain op NAME` prints more of each."
    else:
        summary += " It is built from several operations; `aneforge check` of a model lists them with their verdicts."
    rows = [Row(one, f"{ops()[one].summary} ({statuses(one)})") for one in used]
    return Explanation(kind, name, summary, (*rows, Row("see", PAGES[kind])))


def statuses(name: str) -> str:
    """Return what becomes of an operation on each family."""
    return ", ".join(f"{family.name} {op_status(name, family)}" for family in Family if supports_mil(family))


def explain_validator(word: str) -> Explanation | None:
    """Return what is known of one of Apple's validators, by its name or that of an export; None where there is none.

    >>> found = explain_validator("_ANECValidateSoftmaxLayer")
    >>> found is not None and found.name
    'Softmax'
    """
    from aneforge.compiler.validators.catalogue import exports, validators  # noqa: PLC0415 - few explanations need it

    for known in validators().values():
        names = [one.casefold() for one in (known.name, known.symbol, known.constructor) if one]
        if word.casefold() in (*names, *(one.lstrip("_") for one in names)):
            rows = [Row("export", known.symbol)] if known.symbol else []
            rows += [Row("operations", ", ".join(known.ops))] if known.ops else []
            rows += [Row(check.rule, check.text or "no text is known", str(check.evidence)) for check in known.checks]
            rows += [Row("see", "docs/reference/validators.md")]
            summary = f"A validator of Apple's compiler for one kind of layer, rebuilt here ({known.standing})."
            return Explanation("validator", known.name, summary, tuple(rows))
    for export in exports():
        if word.casefold().lstrip("_") == export.symbol.casefold().lstrip("_"):
            rows = (Row("here", export.here), Row("see", "docs/reference/validators.md"))
            return Explanation("export of Apple's compiler", export.symbol, export.role, rows)
    return None


def explain_apple_text(text: str) -> Explanation | None:
    """Return the rule with which Apple's compiler says something, by a part of what it says; None where none does.

    >>> found = explain_apple_text("affine transform is not supported on this architecture")
    >>> found is not None and found.rows[0].value
    'ANE-GATE-001'
    """
    if len(text) < LEAST_TEXT:
        return None
    from aneforge.compiler.validators.catalogue import validators  # noqa: PLC0415 - few explanations need it

    for known in validators().values():
        for check in known.checks:
            if check.text and says(check.text, text):
                rows = (
                    Row("rule", check.rule),
                    Row("validator", known.name),
                    Row("stage", str(check.stage)),
                    Row("evidence", str(check.evidence)),
                    Row("see", f"aneforge explain {check.rule}"),
                )
                return Explanation(
                    "message of Apple's compiler", check.text, "The compiler refuses a layer with it.", rows
                )
    return None


def says(known: str, text: str) -> bool:
    """Return whether a text is, or is part of, what the compiler says, whatever it puts in for numbers.

    >>> says("kernel %d is too large", "Kernel 33 is too large"), says("kernel %d is too large", "is too large")
    (True, True)
    """
    if text.casefold() in known.casefold():
        return True
    form = ".*?".join(re.escape(part) for part in DIRECTIVE.split(known))
    return re.search(form, text, re.IGNORECASE) is not None
