"""Loops: a scan worked out by hand, the types that its body must have, and what bodies say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.body import Body, Reference, call_in_body
from aneforge.ops.constant import Dense
from aneforge.ops.groups.scanning import SCAN
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType
from op_calls import evaluated, inferred, types_of

if TYPE_CHECKING:
    from collections.abc import Mapping

A = TensorType((2,))
ROWS = TensorType((3, 2))
HALF = Dense(np.array([0.5, 2], np.float16))


def summing(weight: Dense = HALF) -> Body:
    """Return a body that adds a row times a weight to a state, and gives the new state and twice it."""
    calls = [
        call_in_body(find_op("mul"), {"x": ("row0", A), "y": (weight, weight.type)}),
        call_in_body(find_op("add"), {"x": ("state0", A), "y": (Reference(0), A)}),
        call_in_body(find_op("add"), {"x": (Reference(1), A), "y": (Reference(1), A)}),
    ]
    return Body({"state0": A, "row0": A}, tuple(calls), (Reference(1), Reference(2)))


def test_every_turn_reads_a_slice_and_what_the_turn_before_it_left() -> None:
    states, rows = (np.array([1.0, 1.0]),), (np.array([[2.0, 1.0], [4.0, 2.0], [6.0, 3.0]]),)
    assert evaluated(SCAN, states, rows, (), body=summing()) == [
        [7.0, 13.0],
        [[4.0, 6.0], [8.0, 14.0], [14.0, 26.0]],
    ]
    assert evaluated(SCAN, states, rows, (), body=summing(), backward=[True], backward_outputs=[True]) == [
        [7.0, 13.0],
        [[14.0, 26.0], [12.0, 22.0], [8.0, 14.0]],
    ]
    assert evaluated(SCAN, states, (rows[0].T,), (), body=summing(), axes=[1]) == evaluated(
        SCAN, states, rows, (), body=summing()
    )


def test_results_are_the_states_and_the_rest_stacked() -> None:
    assert inferred(SCAN, (A,), (ROWS,), (), body=summing()) == "fp16[2], fp16[3, 2]"
    work = SCAN.work({"states": (A,), "rows": (ROWS,), "fixed": ()}, SCAN.complete({"body": summing()}))
    assert work.macs == 0


@pytest.mark.parametrize(
    ("states", "rows", "attributes", "message"),
    [
        ((A,), (), {}, "the rows must have one length, of 1 or more"),
        ((A,), (TensorType((0, 2)),), {}, "the rows must have one length, of 1 or more"),
        ((A,), (ROWS, TensorType((4, 2))), {}, "the rows must have one length"),
        ((A,), (ROWS,), {"axes": [2]}, "axis"),
        ((A,), (ROWS,), {"axes": [0, 0]}, "axes must have one item for each tensor"),
        ((A,), (ROWS,), {"backward": []}, "backward must have one item for each tensor"),
        ((A,), (ROWS,), {"backward_outputs": [True, True]}, "backward_outputs must have one item for each tensor"),
        ((), (ROWS,), {}, "input 'state0' of the body is not what it is given"),
        ((TensorType((3,)),), (ROWS,), {}, "input 'state0' of the body is not what it is given"),
        ((A,), (TensorType((3, 4)),), {}, "input 'row0' of the body is not what it is given"),
        ((A, A, A), (ROWS,), {}, "the body has too few results"),
        ((A, TensorType((5,))), (ROWS,), {}, "state 1 changes its type in an iteration"),
    ],
)
def test_what_does_not_fit_the_body(
    states: tuple[TensorType, ...], rows: tuple[TensorType, ...], attributes: Mapping[str, object], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        types_of(SCAN, states, rows, (), body=summing(), **attributes)


def test_a_body_is_nothing_else() -> None:
    with pytest.raises(GraphError, match="attribute 'body' is not a body of a loop"):
        SCAN.complete({"body": "graph {}"})


def test_bodies_are_equal_that_say_the_same() -> None:
    assert summing() == summing()
    assert hash(summing()) == hash(summing())
    assert repr(summing()) == repr(summing())
    other = summing(Dense(np.array([0.5, 1], np.float16)))
    assert other != summing()
    assert repr(other) != repr(summing()), "caches have it in their keys"
    assert replace(summing(), results=(Reference(2), Reference(1))) != summing()
    assert list(summing().constants()) == [HALF]
