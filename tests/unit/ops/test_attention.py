"""Attention: its errors, and cases worked out by hand."""

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.groups.attention import SDPA
from aneforge.ops.types import TensorType


def types_of(
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    mask: TensorType | None = None,
    *,
    causal: bool = False,
) -> tuple[TensorType, ...]:
    operands = {"query": TensorType(query), "key": TensorType(key), "value": TensorType(value), "attn_mask": mask}
    return SDPA.types(operands, SDPA.complete({"is_causal": causal}))


def test_the_result_has_a_row_of_the_values_width_per_query() -> None:
    assert types_of((1, 8, 5, 16), (1, 8, 7, 16), (1, 8, 7, 3)) == (TensorType((1, 8, 5, 3)),)


def test_leading_axes_broadcast() -> None:
    assert types_of((1, 8, 5, 16), (1, 1, 7, 16), (1, 1, 7, 3))[0].shape == (1, 8, 5, 3)


@pytest.mark.parametrize(
    ("query", "key", "value", "text"),
    [
        ((4,), (3, 4), (3, 4), "query of shape .* has too few axes"),
        ((2, 4), (3, 5), (3, 4), "rows of different lengths"),
        ((2, 4), (3, 4), (2, 4), "different numbers of rows"),
        ((2, 4), (0, 4), (0, 4), "no key to attend to"),
        ((2, 2, 4), (3, 3, 4), (3, 3, 4), "do not broadcast"),
    ],
)
def test_shapes_that_do_not_fit(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], text: str
) -> None:
    with pytest.raises(GraphError, match=text):
        types_of(query, key, value)


def test_whole_numbers_are_refused() -> None:
    whole = TensorType((2, 2), "int32")
    with pytest.raises(GraphError, match="query must hold floating-point numbers"):
        SDPA.types({"query": whole, "key": whole, "value": whole}, SDPA.complete({}))


def test_a_causal_mask_stands_alone() -> None:
    with pytest.raises(GraphError, match="a mask and is causal as well"):
        types_of((2, 4), (2, 4), (2, 4), TensorType((2, 2), "bool"), causal=True)


def test_a_causal_mask_is_square() -> None:
    with pytest.raises(GraphError, match="as many keys as queries"):
        types_of((2, 4), (3, 4), (3, 4), causal=True)


def test_a_mask_is_not_larger_than_the_scores() -> None:
    with pytest.raises(GraphError, match="larger than the scores"):
        types_of((2, 4), (3, 4), (3, 4), TensorType((5, 2, 3)))


def test_a_mask_of_other_numbers_is_refused() -> None:
    with pytest.raises(GraphError, match="different element types"):
        types_of((2, 4), (3, 4), (3, 4), TensorType((2, 3), "fp32"))


def test_equal_scores_average_the_values() -> None:
    (result,) = SDPA.evaluate(
        {"query": np.zeros((1, 2)), "key": np.ones((4, 2)), "value": np.array([[0.0], [1.0], [2.0], [5.0]])},
        SDPA.complete({}),
    )
    assert result.tolist() == [[2.0]]


def test_a_causal_query_sees_no_later_key() -> None:
    (result,) = SDPA.evaluate(
        {"query": np.zeros((2, 1)), "key": np.zeros((2, 1)), "value": np.array([[1.0], [3.0]])},
        SDPA.complete({"is_causal": True}),
    )
    assert result.tolist() == [[1.0], [2.0]]


def test_a_bool_mask_keeps_where_it_is_true() -> None:
    (result,) = SDPA.evaluate(
        {
            "query": np.zeros((1, 1)),
            "key": np.zeros((2, 1)),
            "value": np.array([[1.0], [3.0]]),
            "attn_mask": np.array([[False, True]]),
        },
        SDPA.complete({}),
    )
    assert result.tolist() == [[3.0]]


def test_the_default_scale_is_one_over_the_root_of_the_width() -> None:
    operands = {"query": np.full((1, 4), 2.0), "key": np.array([[1.0] * 4, [0.0] * 4]), "value": np.eye(2)}
    (result,) = SDPA.evaluate(operands, SDPA.complete({}))
    assert result[0, 0] / result[0, 1] == pytest.approx(np.exp(4.0))


def test_work_counts_both_products() -> None:
    operands = {"query": TensorType((2, 3, 5)), "key": TensorType((2, 4, 5)), "value": TensorType((2, 4, 7))}
    assert SDPA.work(operands, SDPA.complete({})).macs == 2 * 3 * 4 * (5 + 7)
