"""A statement that calls an operation, its parameters found: what checks look at, and what nodes are built from."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from aneforge.errors import nearest_names
from aneforge.formats.mil.diagnostics import list_names
from aneforge.formats.mil.folding import fold_tensor
from aneforge.formats.mil.mil_values import Bound, Encoded, Known, State, describe_bound, get_known_value
from aneforge.formats.mil.text_rules import (
    LIST,
    MISSING_PARAMETER,
    NOT_CONSTANT,
    NOT_FITTING,
    PARAMETER_SORT,
    PARAMETER_TWICE,
    SCALAR,
    STATE_AS_TENSOR,
    TRUTH_VALUE,
    UNKNOWN_OP,
    UNKNOWN_PARAMETER,
)
from aneforge.graph.tensor import Tensor
from aneforge.ops.signature import REQUIRED, Attribute, AttributeKind, Operand, OperandKind
from aneforge.ops.table import ops
from aneforge.ops.types import is_float, is_integer
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.errors import AneforgeError
    from aneforge.formats.mil.diagnostics import MilError
    from aneforge.formats.mil.syntax import Argument, Statement
    from aneforge.graph.node import Argument as NodeArgument
    from aneforge.graph.node import Value as NodeValue
    from aneforge.ops.op import Op

__all__ = ["FLATTENED", "TUPLED", "Call", "Parameter", "collect_parameters", "mil_ops", "not_fitting", "op_called"]

FLATTENED = {("batch_to_space", "crops"), ("space_to_batch", "paddings")}
"""Attributes that MIL gives as a matrix and the op table as a list, row by row."""
TUPLED = {("make_list", "elem_shape"), *(("reshape_like", name) for name in ("begins", "ends", "end_masks"))}
"""Lists that MIL takes as several scalars."""
EXAMPLES = {
    AttributeKind.FLAG: "bool(false)",
    AttributeKind.INTEGER: "int32(0)",
    AttributeKind.NUMBER: "fp16(0x0p+0)",
    AttributeKind.TEXT: 'string("…")',
    AttributeKind.INTEGERS: "tensor<int32, [2]>([0, 1])",
    AttributeKind.NUMBERS: "tensor<fp16, [2]>([0x0p+0, 0x1p+0])",
    AttributeKind.TEXTS: 'tensor<string, [2]>(["a", "b"])',
    AttributeKind.FLAGS: "tensor<bool, [2]>([false, true])",
}
ELEMENT_KIND = {
    AttributeKind.INTEGERS: AttributeKind.INTEGER,
    AttributeKind.NUMBERS: AttributeKind.NUMBER,
    AttributeKind.TEXTS: AttributeKind.TEXT,
    AttributeKind.FLAGS: AttributeKind.FLAG,
}


@cache
def mil_ops() -> Mapping[str, Op]:
    """Return the operations of the table by their names in MIL.

    Where several have one name, it is the general one: `matmul` of `bmm` and itself, `add` of `adds` and itself.
    """
    found: dict[str, Op] = {}
    for entry in ops().values():
        if entry.mil_name is not None and (entry.name == entry.mil_name or entry.mil_name not in found):
            found[entry.mil_name] = entry
    return found


def op_called(statement: Statement) -> Op:
    """Return the operation that a statement calls.

    Raises:
        MilError: There is none of that name.
    """
    entry = mil_ops().get(statement.op)
    if entry is None:
        close = nearest_names(statement.op, mil_ops())
        raise UNKNOWN_OP.broken(
            statement.op_at, name=statement.op, expected=list_names(close) if close else None, suggestion=meant(close)
        )
    return entry


def not_fitting(statement: Statement, error: AneforgeError) -> MilError:
    """Return the error for a statement that the op table refuses."""
    return NOT_FITTING.broken(
        statement.op_at,
        name=error.message,
        op=statement.op,
        found=error.seen,
        expected=error.limit,
        suggestion=error.remedy or "",
    )


def collect_parameters(statement: Statement, resolve: Callable[[Argument], Bound | tuple[Bound, ...]]) -> Parameters:
    """Return the parameters of a statement by name; those in brackets too, except for its own name.

    Raises:
        MilError: One is given twice, or its value is not defined.
    """
    given: dict[str, Parameter] = {}
    attributes = [attribute for attribute in statement.attributes if attribute.name != "name"]
    for argument in (*statement.arguments, *attributes):
        if argument.name in given:
            raise PARAMETER_TWICE.broken(argument.at, name=argument.name, op=statement.op)
        given[argument.name] = Parameter(resolve(argument), argument.value.at, argument.at)
    return given


@dataclass(frozen=True, slots=True)
class Parameter:
    """The value of a parameter, where it is, and where its name is."""

    value: Bound | tuple[Bound, ...]
    at: int
    name_at: int


Parameters = dict[str, Parameter]


@dataclass(slots=True)
class Call:
    """A statement that calls an operation."""

    statement: Statement
    entry: Op
    given: Parameters

    @property
    def name(self) -> str:
        """Name of the operation in MIL."""
        return self.statement.op

    def operands(self) -> dict[str, NodeArgument | None]:
        """Return the operands for a node, in the order of the op table.

        Raises:
            MilError: One is missing, or of the wrong sort.
        """
        return {operand.name: self.operand(operand) for operand in self.entry.operands}

    def operand(self, operand: Operand) -> NodeArgument | None:
        """Return one operand for a node; None for one that is left out."""
        parameter = self.given.get(operand.name)
        if parameter is None:
            if operand.optional:
                return None
            example = f"{operand.name} = {'(a, b)' if operand.variadic else 'x'}"
            raise MISSING_PARAMETER.broken(self.statement.op_at, name=operand.name, op=self.name, expected=example)
        value = parameter.value
        if operand.variadic != isinstance(value, tuple):
            wanted = "several values, as (a, b)" if operand.variadic else "one value"
            raise PARAMETER_SORT.broken(
                parameter.at, name=operand.name, op=self.name, found=describe_bound(value), expected=wanted
            )
        if isinstance(value, tuple):
            return tuple(self.single(one, operand, parameter.at) for one in value)
        return self.single(value, operand, parameter.at)

    def single(self, value: Bound, operand: Operand, at: int) -> NodeValue:
        """Return one value for an operand."""
        match value:
            case State():
                raise STATE_AS_TENSOR.broken(
                    at, name=value.name, op=self.name, found=describe_bound(value), expected="a tensor"
                )
            case Tensor() if operand.kind is OperandKind.CONSTANT:
                constant = fold_tensor(value)
                if constant is not None:
                    return constant
                raise NOT_CONSTANT.broken(
                    at, name=operand.name, op=self.name, found=describe_bound(value), expected="a const"
                )
            case Tensor():
                return value
            case Encoded():
                return value.constant
            case Known() if value.is_text:
                raise PARAMETER_SORT.broken(
                    at, name=operand.name, op=self.name, found=describe_bound(value), expected="a tensor"
                )
            case _:
                return value.constant()

    def attributes(self) -> dict[str, object]:
        """Return the attributes that are given, as Python's values.

        Raises:
            MilError: One is missing, is not known when the program is compiled, or has the wrong type.
        """
        found: dict[str, object] = {}
        for attribute in self.entry.attributes:
            if attribute.name in self.given:
                found[attribute.name] = self.attribute(attribute)
            elif attribute.default is REQUIRED:
                example = f"{attribute.name} = {EXAMPLES[attribute.kind]}"
                raise MISSING_PARAMETER.broken(
                    self.statement.op_at, name=attribute.name, op=self.name, expected=example
                )
        return found

    def attribute(self, attribute: Attribute) -> object:
        """Return one attribute."""
        parameter = self.given[attribute.name]
        value, at = parameter.value, parameter.at
        if attribute.kind in ELEMENT_KIND:
            if isinstance(value, tuple):
                return [self.element(attribute, ELEMENT_KIND[attribute.kind], one, at) for one in value]
            return self.elements(attribute, value, at)
        if isinstance(value, tuple):
            raise self.wrong_sort(attribute, value, at)
        return self.element(attribute, attribute.kind, value, at)

    def element(self, attribute: Attribute, kind: AttributeKind, value: Bound, at: int) -> object:
        """Return one number, boolean or text."""
        known = self.expect_known(attribute, value, at)
        if not of_kind(known, kind):
            raise self.wrong_sort(attribute, value, at)
        if known.kind.rank:
            expected = f"{known.kind.dtype}(…)"
            raise SCALAR.broken(at, name=attribute.name, op=self.name, found=describe_bound(value), expected=expected)
        scalar = known.scalar()
        return float(scalar) if kind is AttributeKind.NUMBER else scalar

    def elements(self, attribute: Attribute, value: Bound, at: int) -> list[object]:
        """Return a list of numbers, booleans or texts."""
        known = self.expect_known(attribute, value, at)
        if not of_kind(known, ELEMENT_KIND[attribute.kind]):
            raise self.wrong_sort(attribute, value, at)
        axes = 2 if (self.name, attribute.name) in FLATTENED else 1
        if known.kind.rank != axes:
            expected = EXAMPLES[attribute.kind]
            raise LIST.broken(at, name=attribute.name, op=self.name, found=describe_bound(value), expected=expected)
        return list(known.items())

    def expect_known(self, attribute: Attribute, value: Bound, at: int) -> Known:
        """Return a value that must be known when the program is compiled."""
        if isinstance(value, Known):
            return value
        constant = fold_tensor(value) if isinstance(value, Tensor) else None
        if constant is not None:
            return get_known_value(constant)
        raise NOT_CONSTANT.broken(
            at, name=attribute.name, op=self.name, found=describe_bound(value), expected="a const"
        )

    def wrong_sort(self, attribute: Attribute, value: Bound | tuple[Bound, ...], at: int) -> MilError:
        """Return the error for a value that is of another sort than an attribute."""
        rule = TRUTH_VALUE if attribute.kind is AttributeKind.FLAG else PARAMETER_SORT
        expected = EXAMPLES[attribute.kind]
        return rule.broken(at, name=attribute.name, op=self.name, found=describe_bound(value), expected=expected)

    def check_names(self, also: tuple[str, ...] = ()) -> None:
        """Check that the operation has every parameter that is given.

        Raises:
            MilError: It does not have one.
        """
        names = [one.name for one in (*self.entry.operands, *self.entry.attributes)] + list(also)
        for name, parameter in self.given.items():
            if name not in names:
                expected = ", ".join(names) or "no parameters"
                close = meant(nearest_names(name, names))
                raise UNKNOWN_PARAMETER.broken(
                    parameter.name_at, name=name, op=self.name, expected=expected, suggestion=close
                )


def meant(names: list[str]) -> str:
    """Return the suggestion of the names nearest to the one that was written."""
    return f"did you mean {list_names(names)}?" if names else ""


def of_kind(known: Known, kind: AttributeKind) -> bool:
    """Return whether a constant's elements are of the sort that an attribute takes."""
    dtype = known.kind.dtype
    match kind:
        case AttributeKind.FLAG:
            return dtype == "bool"
        case AttributeKind.INTEGER:
            return is_integer(dtype)
        case AttributeKind.NUMBER:
            return is_float(dtype) or is_integer(dtype) or dtype == "bool"
        case _:
            return known.is_text
