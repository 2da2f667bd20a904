"""State and buffers: their errors, and a buffer that goes round."""

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.groups.state import (
    CIRCULAR_BUFFER_TO_TENSOR,
    READ_STATE,
    TENSOR_TO_CIRCULAR_BUFFER,
    WRITE_STATE,
)
from aneforge.ops.types import TensorType

BUFFER = np.array([10, 11, 12, 13], np.int32)


def test_a_state_reads_as_what_was_written() -> None:
    (state,) = WRITE_STATE.evaluate({"input": np.zeros(2), "data": np.array([1.0, 2.0])}, {})
    assert READ_STATE.evaluate({"input": state}, {})[0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("data", [TensorType((3,)), TensorType((2,), "fp32")])
def test_what_is_written_is_of_the_states_type(data: TensorType) -> None:
    with pytest.raises(GraphError, match=r"not of the state's type .*expected fp16\[2\]"):
        WRITE_STATE.types({"input": TensorType((2,)), "data": data}, {})


def test_a_circular_buffer_is_read_round_its_end() -> None:
    (read,) = CIRCULAR_BUFFER_TO_TENSOR.evaluate({"buffer": BUFFER}, CIRCULAR_BUFFER_TO_TENSOR.complete({"offset": 3}))
    assert read.tolist() == [13, 10, 11, 12]


def test_a_circular_buffer_is_written_round_its_end() -> None:
    operands = {"buffer": BUFFER, "x": np.array([1, 2], np.int32)}
    (now,) = TENSOR_TO_CIRCULAR_BUFFER.evaluate(operands, TENSOR_TO_CIRCULAR_BUFFER.complete({"offset": 3}))
    assert now.tolist() == [2, 11, 12, 1]
    assert BUFFER.tolist() == [10, 11, 12, 13]


def test_what_is_written_last_is_read_last() -> None:
    (now,) = TENSOR_TO_CIRCULAR_BUFFER.evaluate(
        {"buffer": BUFFER, "x": np.array([7], np.int32)}, TENSOR_TO_CIRCULAR_BUFFER.complete({"offset": 2})
    )
    (read,) = CIRCULAR_BUFFER_TO_TENSOR.evaluate({"buffer": now}, CIRCULAR_BUFFER_TO_TENSOR.complete({"offset": 3}))
    assert read[-1] == 7


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (TensorType((3, 2), "fp32"), "different element types"),
        (TensorType((3,)), "different ranks"),
        (TensorType((5, 2)), "does not fit the buffer"),
        (TensorType((3, 1)), "does not fit the buffer"),
    ],
)
def test_what_does_not_fit_a_buffer(x: TensorType, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        TENSOR_TO_CIRCULAR_BUFFER.types({"buffer": TensorType((4, 2)), "x": x}, TENSOR_TO_CIRCULAR_BUFFER.complete({}))


def test_a_buffer_without_that_axis() -> None:
    with pytest.raises(GraphError, match="axis is not an axis"):
        CIRCULAR_BUFFER_TO_TENSOR.types({"buffer": TensorType((4,))}, CIRCULAR_BUFFER_TO_TENSOR.complete({"axis": 1}))
