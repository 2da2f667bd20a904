"""Control flow and lists: their errors, and lists worked out by hand."""

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.groups.control import (
    CALL,
    COND,
    LIST_GATHER,
    LIST_LENGTH,
    LIST_READ,
    LIST_SCATTER,
    LIST_WRITE,
    MAKE_LIST,
    WHILE_LOOP,
)
from aneforge.ops.op import Op
from aneforge.ops.types import TensorType
from op_calls import evaluated

A, B = TensorType((2,)), TensorType((3,), "int32")
BOOL, INDEX = TensorType((), "bool"), TensorType((), "int32")
LIST = TensorType((4, 2))


def test_a_branch_gives_its_values() -> None:
    one, other = (np.array([1.0]), np.array(2)), (np.array([3.0]), np.array(4))
    taken = COND.evaluate({"pred": np.ones((), np.bool_), "true_values": one, "false_values": other}, {})
    left = COND.evaluate({"pred": np.zeros((), np.bool_), "true_values": one, "false_values": other}, {})
    assert [value.tolist() for value in taken] == [[1.0], 2]
    assert [value.tolist() for value in left] == [[3.0], 4]


@pytest.mark.parametrize(
    ("pred", "yes", "no", "text"),
    [
        (A, (A,), (A,), r"condition is not one bool \(got fp16\[2\], expected bool\[\]\)"),
        (BOOL, (A,), (A, B), "different numbers of values"),
        (BOOL, (A, A), (A, B), "value 1 of the branches is of different types"),
        (BOOL, (), (), "there are no values"),
    ],
)
def test_branches_that_do_not_fit(
    pred: TensorType, yes: tuple[TensorType, ...], no: tuple[TensorType, ...], text: str
) -> None:
    with pytest.raises(GraphError, match=text):
        COND.types({"pred": pred, "true_values": yes, "false_values": no}, {})


@pytest.mark.parametrize(("op", "operand"), [(WHILE_LOOP, "loop_vars"), (CALL, "values")])
def test_functions_give_the_types_that_they_take(op: Op, operand: str) -> None:
    assert op.types({operand: (A, B)}, {}) == (A, B)
    with pytest.raises(GraphError, match="no meaning on its own"):
        op.evaluate({operand: (np.zeros(2),)}, {})


def test_a_list_is_read_as_it_was_written() -> None:
    (ls,) = MAKE_LIST.evaluate({}, MAKE_LIST.complete({"init_length": 3, "elem_shape": [2]}))
    (ls,) = LIST_WRITE.evaluate({"ls": ls, "index": np.array(1), "value": np.array([5.0, 6.0])}, {})
    assert LIST_READ.evaluate({"ls": ls, "index": np.array(1)}, {})[0].tolist() == [5.0, 6.0]
    assert LIST_READ.evaluate({"ls": ls, "index": np.array(0)}, {})[0].tolist() == [0.0, 0.0]
    assert LIST_LENGTH.evaluate({"ls": ls}, {})[0] == 3


def test_the_last_of_two_elements_for_one_place_stays() -> None:
    (ls,) = LIST_SCATTER.evaluate({"ls": np.zeros(3), "indices": np.array([1, 1]), "value": np.array([7.0, 8.0])}, {})
    assert ls.tolist() == [0, 8, 0]


def test_elements_are_gathered_in_the_order_of_the_indices() -> None:
    (elements,) = LIST_GATHER.evaluate({"ls": np.array([10, 11, 12]), "indices": np.array([2, 0, 2])}, {})
    assert elements.tolist() == [12, 10, 12]


@pytest.mark.parametrize("place", [-1, 3])
def test_a_place_that_the_list_does_not_have(place: int) -> None:
    with pytest.raises(GraphError, match=rf"no such place \(got {place}, limit 0 to 2\)"):
        LIST_READ.evaluate({"ls": np.zeros(3), "index": np.array(place)}, {})


def test_one_number_is_not_a_list() -> None:
    with pytest.raises(GraphError, match="one number is not a list"):
        LIST_LENGTH.types({"ls": TensorType(())}, {})


def test_an_index_is_a_whole_number() -> None:
    with pytest.raises(GraphError, match="index must hold integers"):
        LIST_READ.types({"ls": LIST, "index": TensorType(())}, {})


def test_an_index_is_one_number() -> None:
    with pytest.raises(GraphError, match=r"index of shape \[1\] has the wrong rank"):
        LIST_READ.types({"ls": LIST, "index": TensorType((1,), "int32")}, {})


def test_a_value_is_of_the_elements_type() -> None:
    with pytest.raises(GraphError, match="not of the elements' type"):
        LIST_WRITE.types({"ls": LIST, "index": INDEX, "value": TensorType((3,))}, {})


def test_there_is_an_element_for_each_index() -> None:
    with pytest.raises(GraphError, match="does not stack an element for each index"):
        LIST_SCATTER.types({"ls": LIST, "indices": TensorType((2,), "int32"), "value": TensorType((3, 2))}, {})


def test_a_list_keeps_its_length_though_it_may_grow() -> None:
    for dynamic in (True, False):
        assert evaluated("make_list", init_length=2, elem_shape=[1], dynamic_length=dynamic) == [[0], [0]]
