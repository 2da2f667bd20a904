"""Operations whose form in MIL text differs from their entry in the op table, read into nodes.

Where MIL gives the element type of a result by the type of a literal, the op table has an attribute. A sum or a product
with a number is an operation of its own in a graph, as its builder makes it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

from aneforge.errors import GraphError, Location
from aneforge.formats.mil.conventions import CONVENTIONS, Form, Made, build_results, generic
from aneforge.formats.mil.mil_values import Encoded, Known
from aneforge.formats.mil.syntax import Immediate, Literal, ValueType
from aneforge.formats.mil.text_rules import NO_GRAPH_FORM
from aneforge.graph.tensor import Tensor
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.mil.calls import Call
    from aneforge.graph.node import Value

__all__ = ["FORMS", "TYPED_BY", "Form", "Made", "generic"]

TYPED_BY = {
    "fill": ("value",),
    "fill_like": ("value",),
    "one_hot": ("on_value", "off_value"),
    "random_bernoulli": ("prob",),
    "random_normal": ("mean", "stddev"),
    "random_uniform": ("low", "high"),
    "range_1d": ("start", "end", "step"),
}
"""Operations whose result has the element type of a parameter, which the op table gives as the attribute dtype."""
IMAGE_AXES = (-3, -2, -1)
L2_EPSILON = 1e-6
"""What MIL's l2_norm adds by default."""


def with_number(scalar_op: str) -> Form:
    """Return the form of a sum or a product, which is another operation where `y` is a number of the text."""

    def form(call: Call, place: Location) -> Made:
        x, y = (call.given[name].value if name in call.given else None for name in ("x", "y"))
        if isinstance(x, Encoded) and scalar_op == "adds" and keeps_blocks(x, y):
            return [x]
        if not isinstance(x, Tensor | Encoded | Known):
            return generic(call, place)
        operand = call.single(x, call.entry.operand("x"), call.given["x"].at)
        if not is_number(y, operand.type.dtype):
            return generic(call, place)
        call.check_names()
        return build_results(scalar_op, {"x": operand}, {"k": cast("Known", y).scalar()}, place)

    return form


def is_number(value: object, dtype: str) -> bool:
    """Return whether a value is one floating-point number that is in the text, of an element type."""
    return (
        isinstance(value, Known)
        and isinstance(value.value, Literal | Immediate)
        and value.kind.dtype == dtype
        and not value.kind.rank
        and is_float(dtype)
    )


def keeps_blocks(x: Encoded, y: object) -> bool:
    """Return whether a sum is that of weights in blocks with −0, which changes no number: the way they are fed."""
    if x.op != "constexpr_blockwise_shift_scale" or not is_number(y, x.constant.type.dtype):
        return False
    number = cast("Known", y).scalar()
    return number == 0 and math.copysign(1, float(number)) < 0


def type_by_parameter(call: Call, place: Location) -> Made:
    """Build an operation whose result has the element type of a parameter, or that which the statement states."""
    call.check_names()
    attributes = call.attributes()
    given = [call.given[name].value for name in TYPED_BY[call.name] if name in call.given]
    stated = [result.type.dtype for result in call.statement.results if isinstance(result.type, ValueType)]
    dtype = next((value.kind.dtype for value in given if isinstance(value, Known)), stated[0] if stated else "fp32")
    operands = call.operands()
    reference = operands.get("ref_tensor")
    if reference is None or cast("Value", reference).type.dtype != dtype:
        attributes["dtype"] = dtype
    return build_results(call.entry.name, operands, attributes, place)


def image_norm(call: Call, place: Location) -> Made:
    """Build MIL's l2_norm, x / √(Σ x² + epsilon) over the last three axes; the op table's is another one."""
    call.check_names()
    if "axes" in call.given:
        at = call.given["axes"].name_at
        raise NO_GRAPH_FORM.broken(
            at, op=call.name, found="axes", suggestion="use reduce_l2_norm, threshold and real_div"
        )
    operands, attributes = call.operands(), call.attributes()
    if cast("Value", operands["x"]).type.rank < len(IMAGE_AXES):
        raise GraphError(
            "it normalises over three axes", seen=cast("Value", operands["x"]).type, limit="3 axes or more"
        )
    epsilon = attributes.get("epsilon", L2_EPSILON)
    (squares,) = build_results("reduce_sum_square", operands, {"axes": IMAGE_AXES, "keep_dims": True}, place)
    (shifted,) = build_results("adds", {"x": squares}, {"k": epsilon}, place)
    (length,) = build_results("sqrt", {"x": shifted}, {}, place)
    return build_results("real_div", {**operands, "y": length}, {}, place)


def refuse_form(remedy: str) -> Form:
    """Return the form of an operation that no graph has."""

    def form(call: Call, place: Location) -> Made:  # noqa: ARG001 - the place is that of the statement
        raise NO_GRAPH_FORM.broken(call.statement.op_at, op=call.name, suggestion=remedy)

    return form


FORMS: dict[str, Form] = {
    **CONVENTIONS,
    **dict.fromkeys(TYPED_BY, type_by_parameter),
    "add": with_number("adds"),
    "call": refuse_form("replace it by the statements of the called function"),
    "cond": refuse_form("compute both branches and choose with select"),
    "l2_norm": image_norm,
    "mul": with_number("muls"),
    "while_loop": refuse_form("unroll a loop of a fixed count"),
}
"""Operations that are not built as the table has them, by their names in MIL."""
