"""Inputs, constants and states: their types are stated, and their values come from elsewhere."""

import pytest

from aneforge.errors import GraphError
from aneforge.ops.groups.placeholder import CONST, INPUT, STATE
from aneforge.ops.op import Op
from aneforge.ops.types import TensorType


@pytest.mark.parametrize(("op", "named"), [(CONST, {}), (INPUT, {"name": "x"}), (STATE, {"name": "kept"})])
def test_a_type_is_stated(op: Op, named: dict[str, object]) -> None:
    assert op.types({}, op.complete({"shape": [2, 3], "dtype": "int8", **named})) == (TensorType((2, 3), "int8"),)
    assert op.types({}, op.complete({"shape": [], **named})) == (TensorType(()),)
    with pytest.raises(GraphError, match="'shape' is too small"):
        op.complete({"shape": [-1], **named})
    with pytest.raises(GraphError, match="'dtype' is not one of its choices"):
        op.complete({"shape": [], "dtype": "float", **named})


@pytest.mark.parametrize(
    ("op", "why"), [(CONST, "the constant itself"), (INPUT, "given by the caller"), (STATE, "the last run wrote")]
)
def test_the_value_comes_from_elsewhere(op: Op, why: str) -> None:
    with pytest.raises(GraphError, match=f"no meaning on its own: .*{why}"):
        op.evaluate({}, {})


def test_a_state_has_a_name_and_an_input_may_have_one() -> None:
    assert INPUT.complete({"shape": []})["name"] is None
    with pytest.raises(GraphError, match="attribute 'name' is missing"):
        STATE.complete({"shape": []})


def test_a_promise_is_a_magnitude() -> None:
    with pytest.raises(GraphError, match="'max_abs' is too small"):
        INPUT.complete({"shape": [], "max_abs": -1.0})
