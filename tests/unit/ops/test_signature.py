"""Attributes and operands: what is accepted and as what, and one clear error for everything else."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.common import axis_attribute, dtype_attribute
from aneforge.ops.op import Category, Op, Work
from aneforge.ops.sampling import Chooser, Fill, Sample
from aneforge.ops.signature import REQUIRED, Attribute, AttributeKind, AttributeValue, Operand
from aneforge.ops.table import find_op, ops, ops_in
from aneforge.ops.types import TensorType

if TYPE_CHECKING:
    from types import ModuleType

    from aneforge.ops.types import Array

X = TensorType((2, 3))

ACCEPTED: list[tuple[AttributeKind, object, AttributeValue]] = [
    (AttributeKind.FLAG, True, True),
    (AttributeKind.FLAG, np.bool_(False), False),  # noqa: FBT003 - the value is the subject
    (AttributeKind.INTEGER, 3, 3),
    (AttributeKind.INTEGER, np.int8(-3), -3),
    (AttributeKind.INTEGER, np.uint64(2**63), 2**63),
    (AttributeKind.NUMBER, 0.5, 0.5),
    (AttributeKind.NUMBER, 2, 2.0),
    (AttributeKind.NUMBER, np.float16(0.5), 0.5),
    (AttributeKind.NUMBER, np.int32(2), 2.0),
    (AttributeKind.NUMBER, float("inf"), float("inf")),
    (AttributeKind.TEXT, "same", "same"),
    (AttributeKind.TEXT, np.str_("same"), "same"),
    (AttributeKind.INTEGERS, [1, np.int64(2)], (1, 2)),
    (AttributeKind.INTEGERS, np.array([1, 2]), (1, 2)),
    (AttributeKind.INTEGERS, (), ()),
    (AttributeKind.NUMBERS, (1, 0.5), (1.0, 0.5)),
    (AttributeKind.NUMBERS, np.array([1, 2], np.float32), (1.0, 2.0)),
    (AttributeKind.TEXTS, ["a", "b"], ("a", "b")),
    (AttributeKind.FLAGS, [True, False], (True, False)),
    (AttributeKind.FLAGS, (1, 0), (True, False)),
    (AttributeKind.FLAGS, np.array([1, 0]), (True, False)),
    (AttributeKind.FLAGS, np.array([True, False]), (True, False)),
]


@pytest.mark.parametrize(("kind", "given", "value"), ACCEPTED)
def test_a_value_is_taken_in_the_attributes_type(kind: AttributeKind, given: object, value: AttributeValue) -> None:
    checked = Attribute("a", kind).checked(given)
    assert checked == value
    assert repr(checked) == repr(value), "Python's own types"


REFUSED: list[tuple[AttributeKind, object, str]] = [
    (AttributeKind.FLAG, 1, "is not a flag (got 1)"),
    (AttributeKind.FLAG, "true", "is not a flag (got 'true')"),
    (AttributeKind.INTEGER, True, "is not an integer (got True)"),
    (AttributeKind.INTEGER, np.bool_(True), "is not an integer"),  # noqa: FBT003 - the value is the subject
    (AttributeKind.INTEGER, 2.0, "is not an integer (got 2.0)"),
    (AttributeKind.INTEGER, np.float32(2), "is not an integer"),
    (AttributeKind.INTEGER, "2", "is not an integer (got '2')"),
    (AttributeKind.INTEGER, [2], "is not an integer (got [2])"),
    (AttributeKind.NUMBER, True, "is not a number (got True)"),
    (AttributeKind.NUMBER, 1j, "is not a number (got 1j)"),
    (AttributeKind.NUMBER, "1", "is not a number (got '1')"),
    (AttributeKind.TEXT, 1, "is not a text (got 1)"),
    (AttributeKind.TEXT, b"same", "is not a text (got b'same')"),
    (AttributeKind.INTEGERS, 1, "is not a list of integers (got 1)"),
    (AttributeKind.INTEGERS, [1, 2.5], "is not a list of integers (got 2.5)"),
    (AttributeKind.INTEGERS, [True], "is not a list of integers (got True)"),
    (AttributeKind.INTEGERS, np.array([[1]]), "is not a list of integers"),
    (AttributeKind.INTEGERS, np.array(0), "is not a list of integers (got 0)"),
    (AttributeKind.FLAGS, np.array(True), "is not a list of flags (got True)"),  # noqa: FBT003 - the value is the subject
    (AttributeKind.NUMBER, 10**400, "is too large for a floating-point number (limit 1.79769e+308)"),
    (AttributeKind.NUMBERS, [1, -(10**400)], "is too large for a floating-point number"),
    (AttributeKind.NUMBERS, "12", "is not a list of numbers (got '12')"),
    (AttributeKind.NUMBERS, [False], "is not a list of numbers (got False)"),
    (AttributeKind.TEXTS, "ab", "is not a list of texts (got 'ab')"),
    (AttributeKind.TEXTS, [1], "is not a list of texts (got 1)"),
    (AttributeKind.FLAGS, True, "is not a list of flags (got True)"),
    (AttributeKind.FLAGS, [2], "is not a list of flags (got 2)"),
    (AttributeKind.FLAGS, [1.0], "is not a list of flags (got 1.0)"),
    (AttributeKind.FLAGS, ["true"], "is not a list of flags (got 'true')"),
]


@pytest.mark.parametrize(("kind", "given", "message"), REFUSED)
def test_another_type_is_refused(kind: AttributeKind, given: object, message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(f"attribute 'a' {message}")):
        Attribute("a", kind).checked(given)


@pytest.mark.parametrize("kind", AttributeKind)
def test_none_is_a_value_of_an_attribute_that_may_be_left_out_alone(kind: AttributeKind) -> None:
    assert Attribute("a", kind, None).checked(None) is None
    with pytest.raises(GraphError, match=rf"attribute 'a' is not an? {kind} \(got None\)"):
        Attribute("a", kind).checked(None)


def test_a_domain_holds_for_every_item() -> None:
    attribute = Attribute("a", AttributeKind.INTEGERS, least=0, most=3)
    assert attribute.checked([0, 3]) == (0, 3)
    with pytest.raises(GraphError, match=r"attribute 'a' is too small \(got -1, expected at least 0\)"):
        attribute.checked([2, -1])
    with pytest.raises(GraphError, match=r"attribute 'a' is too large \(got 4, expected at most 3\)"):
        attribute.checked([2, 4])


def test_what_is_no_number_is_in_no_domain() -> None:
    with pytest.raises(GraphError, match=r"is too small \(got nan, expected at least 0.5\)"):
        Attribute("a", AttributeKind.NUMBER, least=0.5).checked(float("nan"))


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), np.float16("inf")])
def test_what_must_be_finite_is(value: object) -> None:
    with pytest.raises(GraphError, match=r"attribute 'a' is not finite \(got (-?inf|nan)\)"):
        Attribute("a", AttributeKind.NUMBER, finite=True).checked(value)
    with pytest.raises(GraphError, match="attribute 'a' is not finite"):
        Attribute("a", AttributeKind.NUMBERS, finite=True).checked([0, value])


def test_choices_are_all_that_may_be_said() -> None:
    attribute = Attribute("a", AttributeKind.TEXT, choices=("same", "valid"))
    assert attribute.checked("same") == "same"
    with pytest.raises(GraphError, match=r"is not one of its choices \(got 'Same', expected same, valid\)"):
        attribute.checked("Same")
    with pytest.raises(GraphError, match=r"is not one of its choices \(got 'c', expected a, b\)"):
        Attribute("a", AttributeKind.TEXTS, choices=("a", "b")).checked(["a", "c"])


def test_shared_attributes() -> None:
    assert axis_attribute().default is REQUIRED
    assert axis_attribute(-1).checked(2) == 2
    assert dtype_attribute(None, "output_dtype").name == "output_dtype"
    with pytest.raises(GraphError, match="attribute 'dtype' is not one of its choices"):
        dtype_attribute().checked("float16")


# Calls of an operation.


def sum_of(x: TensorType, values: tuple[TensorType, ...], *_: object, **__: object) -> TensorType:
    if any(value != x for value in values):
        raise GraphError("the types differ")
    return x


def total(x: Array, values: tuple[Array, ...], *_: object, scale: float, **__: object) -> Array:
    return scale * sum(values, start=x)


def products(x: TensorType, values: tuple[TensorType, ...], *_: object, **__: object) -> int:
    return x.size * len(values)


def no_sample(_: Chooser) -> Sample:
    return Sample({"x": Fill(X)})


OP = Op(
    name="sum_of",
    in_mil=True,
    category=Category.ELEMENTWISE,
    summary="scale · (x + Σ values)",
    operands=(Operand("x"), Operand("values", variadic=True), Operand("unused", optional=True)),
    attributes=(
        Attribute("scale", AttributeKind.NUMBER),
        Attribute("limit", AttributeKind.NUMBER, None),
        Attribute("times", AttributeKind.INTEGER, 1, least=1),
    ),
    infer=sum_of,
    meaning=total,
    macs=products,
    sample=no_sample,
)
ATTRIBUTES = OP.complete({"scale": 2})


def test_defaults_are_filled_in() -> None:
    assert OP.complete({"scale": 2}) == {"scale": 2.0, "limit": None, "times": 1}
    assert OP.complete({"times": np.int16(3), "scale": 1, "limit": None})["times"] == 3


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"scale": 1, "scalle": 2}, "sum_of: there is no attribute 'scalle' (expected scale, limit, times)"),
        ({}, "sum_of: attribute 'scale' is missing"),
        ({"scale": None}, "sum_of: attribute 'scale' cannot be left out"),
        ({"scale": 1, "times": None}, "sum_of: attribute 'times' cannot be left out"),
        ({"scale": "1"}, "sum_of: attribute 'scale' is not a number (got '1')"),
        ({"scale": 1, "times": 0}, "sum_of: attribute 'times' is too small (got 0, expected at least 1)"),
    ],
)
def test_attributes_that_do_not_fit(attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        OP.complete(attributes)


def test_an_operation_without_attributes_says_so() -> None:
    with pytest.raises(GraphError, match=r"relu: there is no attribute 'alpha' \(expected no attributes\)"):
        find_op("relu").complete({"alpha": 1})


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ({"x": X, "values": (X,), "y": X}, "sum_of: there is no operand 'y' (expected x, values, unused)"),
        ({"values": (X,)}, "sum_of: operand 'x' is missing"),
        ({"x": X, "values": None}, "sum_of: operand 'values' is missing"),
        ({"x": X, "values": (X, TensorType((1,)))}, "sum_of: the types differ"),
    ],
)
def test_operands_that_do_not_fit(
    operands: dict[str, TensorType | tuple[TensorType, ...] | None], message: str
) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        OP.types(operands, ATTRIBUTES)
    with pytest.raises(GraphError, match=re.escape(message)):
        OP.work(operands, ATTRIBUTES)


def test_an_operation_without_operands_says_so() -> None:
    with pytest.raises(GraphError, match=r"fill: there is no operand 'x' \(expected no operands\)"):
        find_op("fill").types({"x": X}, find_op("fill").complete({"shape": [1]}))


def test_types_and_values_come_as_a_tuple() -> None:
    assert OP.types({"x": X, "values": (X,)}, ATTRIBUTES) == (X,)
    (result,) = OP.evaluate({"x": np.ones(2), "values": (np.ones(2), np.ones(2))}, ATTRIBUTES)
    assert result.tolist() == [6, 6]


def test_work_counts_constants_apart() -> None:
    operands = {"x": X, "values": (X, X), "unused": None}
    assert OP.work(operands, ATTRIBUTES) == Work(macs=12, bytes_in=36, bytes_out=12, bytes_weights=0)
    assert OP.work(operands, ATTRIBUTES, {"values": 5}) == Work(macs=12, bytes_in=12, bytes_out=12, bytes_weights=5)


def test_an_operation_without_a_meaning_says_why() -> None:
    with pytest.raises(GraphError, match="call: it has no meaning on its own: it calls a function"):
        find_op("call").evaluate({"values": (np.ones(1),)}, {})


def test_an_operand_by_its_name() -> None:
    assert OP.operand("values").variadic
    assert repr(OP) == "<op sum_of>"
    assert OP.mil_name == "sum_of"
    assert replace(OP, mil="add").mil_name == "add"
    assert replace(OP, in_mil=False).mil_name is None


def test_two_operations_of_one_name_are_an_error() -> None:
    modules: list[ModuleType] = []
    for place in (1, 2):
        module = type(re)(f"group_{place}")
        module.__dict__["SAME"] = Op(
            name="same",
            in_mil=True,
            category=Category.ELEMENTWISE,
            summary="x",
            operands=(Operand("x"),),
            infer=sum_of,
            meaning=None,
            sample=no_sample,
        )
        modules.append(module)
    assert list(ops_in([modules[0], modules[0]])) == ["same"], "one entry that two modules name is one"
    with pytest.raises(ValueError, match="two operations are called same"):
        ops_in(modules)


@pytest.mark.parametrize(("first", "second"), [((), ("one",)), (("both",), ("both",)), (("two",), ())])
def test_an_alias_is_a_name_too(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    module = type(re)("group")
    module.__dict__["ONE"] = replace(OP, name="one", aliases=first)
    module.__dict__["TWO"] = replace(OP, name="two", aliases=second)
    with pytest.raises(ValueError, match=r"two operations are called (one|two|both)"):
        ops_in([module])


def test_every_default_is_a_value_of_its_attribute() -> None:
    for op in ops().values():
        for attribute in op.attributes:
            if attribute.default is not REQUIRED:
                assert attribute.checked(attribute.default) == attribute.default, (op, attribute.name)
