"""Reductions: what is refused and how, integers, ties, several axes, and values known by hand."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import GraphError
from aneforge.graph.node import build
from aneforge.ops.op import Below
from aneforge.ops.table import find_op
from aneforge.ops.types import DTYPES, TensorType, is_integer, numpy_dtype
from op_calls import type_of, value_of

REDUCTIONS = [
    "reduce_sum",
    "reduce_sum_square",
    "reduce_l1_norm",
    "reduce_max",
    "reduce_min",
    "reduce_prod",
    "reduce_mean",
    "reduce_l2_norm",
    "reduce_log_sum",
    "reduce_log_sum_exp",
]
OF_NUMBERS, OF_FLOATS = REDUCTIONS[:6], REDUCTIONS[6:]
INTEGERS = [name for name in DTYPES if is_integer(name)]


@pytest.mark.parametrize("name", OF_FLOATS)
def test_a_reduction_that_gives_fractions_refuses_whole_numbers(name: str) -> None:
    with pytest.raises(GraphError, match=rf"{name}.*floating-point numbers \(got int32\).*cast it to fp16"):
        type_of(name, TensorType((2, 3), "int32"))


@pytest.mark.parametrize("name", [*OF_NUMBERS, "reduce_argmax", "reduce_argmin", "cumsum", "global_arg_min_max"])
def test_truth_values_are_not_numbers(name: str) -> None:
    with pytest.raises(GraphError, match=rf"{name}: x must hold numbers \(got bool\).*cast it to int32 or fp16"):
        type_of(name, TensorType((2, 3), "bool"))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes_must_be_axes_and_named_once(name: str) -> None:
    with pytest.raises(GraphError, match=r"not an axis of a tensor of rank 2 \(got 2, limit -2 to 1\)"):
        type_of(name, TensorType((2, 3)), axes=[2])
    with pytest.raises(GraphError, match="names one axis twice"):
        type_of(name, TensorType((2, 3)), axes=[1, -1])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_nothing_cannot_be_reduced(name: str) -> None:
    with pytest.raises(GraphError, match="without elements cannot be reduced"):
        type_of(name, TensorType((2, 0)), axes=[1])
    assert type_of(name, TensorType((2, 0)), axes=[0]).shape == (0,)


@pytest.mark.parametrize("name", ["reduce_argmax", "reduce_argmin", "argmax"])
def test_nothing_cannot_be_searched(name: str) -> None:
    with pytest.raises(GraphError, match=r"without elements cannot be searched \(got \[2, 0\]\)"):
        type_of(name, TensorType((2, 0)), axis=1)


def test_nothing_cannot_be_searched_as_a_whole() -> None:
    with pytest.raises(GraphError, match="without elements cannot be searched"):
        type_of("global_arg_min_max", TensorType((2, 0)))


@pytest.mark.parametrize("name", ["reduce_argmax", "reduce_argmin", "argmax", "cumsum"])
def test_the_axis_must_be_an_axis(name: str) -> None:
    with pytest.raises(GraphError, match=r"axis is not an axis of a tensor of rank 2 \(got -3, limit -2 to 1\)"):
        type_of(name, TensorType((2, 3)), axis=-3)


def test_argmax_takes_a_matrix_of_floats() -> None:
    with pytest.raises(GraphError, match=r"wrong rank \(got 3, limit 2\)"):
        type_of("argmax", TensorType((2, 3, 4)), axis=1)
    with pytest.raises(GraphError, match="must hold floating-point numbers"):
        type_of("argmax", TensorType((2, 3), "int32"), axis=1)


def test_the_mode_is_one_of_two() -> None:
    with pytest.raises(GraphError, match=r"not one of its choices.*max, min"):
        find_op("global_arg_min_max").complete({"mode": "mean"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reduce_sum", [[3 + 5 - 1 - 2, 4 - 6 + 0 + 2]]),
        ("reduce_sum_square", [[9 + 25 + 1 + 4, 16 + 36 + 0 + 4]]),
        ("reduce_l1_norm", [[11, 12]]),
        ("reduce_max", [[5, 4]]),
        ("reduce_min", [[-2, -6]]),
        ("reduce_prod", [[30, 0]]),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "int32", "fp64"])
def test_several_axes_with_one_left_between(name: str, expected: list[list[int]], dtype: str) -> None:
    x = np.array([[[3, 5], [4, -6]], [[-1, -2], [0, 2]]]).astype(numpy_dtype(dtype))
    result = value_of(name, x, axes=[-1, 0], keep_dims=True)
    assert result.shape == (1, 2, 1)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result.reshape(1, 2), expected)
    np.testing.assert_array_equal(value_of(name, x, axes=[0, 2]), np.reshape(expected, 2))


def test_no_axes_at_all_leave_the_tensor_as_it_is() -> None:
    x = np.array([[1.0, -2.0]])
    np.testing.assert_array_equal(value_of("reduce_sum", x, axes=[]), x)
    assert type_of("reduce_sum", TensorType((1, 2)), axes=[]).shape == (1, 2)


@pytest.mark.parametrize("name", OF_NUMBERS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_whole_numbers_keep_their_type(name: str, dtype: str) -> None:
    x = np.array([[1, 2, 1], [3, 0, 1]]).astype(numpy_dtype(dtype))
    assert type_of(name, TensorType((2, 3), dtype), axes=[1]) == TensorType((2,), dtype)
    result = value_of(name, x, axes=[1])
    assert result.dtype == x.dtype
    expected = {
        "reduce_sum": [4, 4],
        "reduce_sum_square": [6, 10],
        "reduce_l1_norm": [4, 4],
        "reduce_max": [2, 3],
        "reduce_min": [1, 0],
        "reduce_prod": [2, 0],
    }[name]
    np.testing.assert_array_equal(result, np.array(expected).astype(x.dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_places_among_whole_numbers_are_int32(dtype: str) -> None:
    x = np.array([1, 3, 0, 3, 0]).astype(numpy_dtype(dtype))
    assert value_of("reduce_argmax", x) == 1
    assert value_of("reduce_argmin", x) == 2
    assert value_of("reduce_argmin", x).dtype == np.int32
    assert type_of("reduce_argmin", TensorType((5,), dtype)) == TensorType((), "int32")


def test_whole_sums_wrap_around() -> None:
    assert value_of("reduce_sum", np.array([100, 100], np.int8)) == -56
    assert value_of("reduce_prod", np.array([16, 16], np.uint8)) == 0
    np.testing.assert_array_equal(value_of("cumsum", np.array([100, 100], np.int8)), [100, -56])


def test_known_values_of_the_composites() -> None:
    x = np.array([3.0, 4.0])
    assert value_of("reduce_l2_norm", x) == 5.0
    assert value_of("reduce_mean", x) == 3.5
    assert value_of("reduce_log_sum", np.array([0.25, 0.75])) == 0.0
    np.testing.assert_allclose(value_of("reduce_log_sum_exp", np.zeros(8)), math.log(8), rtol=1e-15)


@pytest.mark.parametrize("scale", [1e200, 1e-200, 5e-324, 1.0])
def test_a_length_neither_overflows_nor_vanishes(scale: float) -> None:
    x = np.array([[3.0, -4.0], [0.0, 0.0]]) * scale
    np.testing.assert_allclose(value_of("reduce_l2_norm", x, axes=[1]), np.array([5 * scale, 0]), rtol=1e-15)


def test_a_length_that_is_no_number_stays_so() -> None:
    x = np.array([[np.inf, 1.0], [np.nan, 1e200], [-np.inf, 1e300]])
    lengths = value_of("reduce_l2_norm", x, axes=[-1])
    assert lengths[0] == lengths[2] == np.inf
    assert np.isnan(lengths[1])


def test_the_square_comes_after_the_sum() -> None:
    x = np.array([[1, 2, -5], [3, 0, 1]], np.int32)
    assert value_of("sq_after_reduce", x, axes=[1]).tolist() == [4, 16]
    assert value_of("sq_after_reduce", x, keep_dims=True).tolist() == [[4]]
    assert value_of("sq_after_reduce", np.array([2**16], np.int32)).item() == 0, "it wraps around"
    support = find_op("sq_after_reduce").support
    assert (support.floor, support.gate, support.below) == (3, "square_after_reduction", Below.DECOMPOSE)


@pytest.mark.parametrize("name", ["reduce_argmax", "reduce_argmin"])
def test_places_may_be_of_sixteen_bits(name: str) -> None:
    short = {"output_dtype": "uint16"}
    assert type_of(name, TensorType((2, 65536)), **short) == TensorType((2,), "uint16")
    assert value_of(name, np.array([[1.0, 1.0]]), **short).dtype == np.uint16
    with pytest.raises(GraphError, match=r"too long for places in uint16 \(got 65537, limit 65536\)"):
        type_of(name, TensorType((2, 65537)), **short)
    with pytest.raises(GraphError, match="'output_dtype' is not one of its choices"):
        type_of(name, TensorType((2, 3)), output_dtype="int8")


def test_log_sum_exp_does_not_overflow() -> None:
    np.testing.assert_allclose(value_of("reduce_log_sum_exp", np.array([1000.0, 1000.0])), 1000 + math.log(2))
    np.testing.assert_allclose(value_of("reduce_log_sum_exp", np.array([-1000.0, -1000.0])), -1000 + math.log(2))
    assert value_of("reduce_log_sum_exp", np.array([-np.inf, -np.inf])) == -np.inf
    assert value_of("reduce_log_sum_exp", np.array([-np.inf, 2.0])) == 2.0
    assert value_of("reduce_log_sum_exp", np.array([np.inf, 0.0])) == np.inf


def test_the_first_of_equals_is_taken() -> None:
    x = np.array([[1.0, 7.0, 7.0], [0.0, 0.0, -1.0]])
    np.testing.assert_array_equal(value_of("reduce_argmax", x), [1, 0])
    np.testing.assert_array_equal(value_of("reduce_argmin", x, axis=0, keep_dims=True), [[1, 1, 1]])
    np.testing.assert_array_equal(value_of("reduce_argmin", np.zeros((2, 3))), [0, 0])
    assert value_of("global_arg_min_max", x) == 1
    assert value_of("global_arg_min_max", x, mode="min") == 5


@pytest.mark.parametrize(("name", "place"), [("global_argmax", 1), ("global_argmin", 5)])
def test_a_name_that_says_the_extreme_means_it(name: str, place: int) -> None:
    """By the builder's door and by the text of a graph: an alias once lost its mode, and both were argmax."""
    x = np.array([[1.0, 7.0, 7.0], [0.0, 0.0, -1.0]])
    graph = af.Graph({"y": af.Tensor(build(name, {"x": af.input((2, 3))}))})
    assert af.reference(graph, [x])["y"] == place
    text = re.sub(r"global_arg_min_max(\(.*?\))( \{mode = .*?\})?", rf"{name}\1", str(graph))
    assert name in text
    assert af.reference(af.Graph.parse(text), [x])["y"] == place


def test_argmax_keeps_the_axis_and_the_type() -> None:
    assert type_of("argmax", TensorType((4, 7)), axis=-1) == TensorType((4, 1), "fp16")
    assert type_of("argmax", TensorType((4, 7)), axis=0) == TensorType((1, 7), "fp16")
    result = value_of("argmax", np.array([[1.0, 7.0, 7.0], [0.0, 0.0, -1.0]]), axis=1)
    np.testing.assert_array_equal(result, [[1.0], [0.0]])
    assert result.dtype == np.float64


@pytest.mark.parametrize(
    ("exclusive", "reverse", "expected"),
    [
        (False, False, [1, 3, 6]),
        (True, False, [0, 1, 3]),
        (False, True, [6, 5, 3]),
        (True, True, [5, 3, 0]),
    ],
)
def test_running_sums(expected: list[int], *, exclusive: bool, reverse: bool) -> None:
    x = np.array([1, 2, 3], np.int32)
    result = value_of("cumsum", x, exclusive=exclusive, reverse=reverse)
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == np.int32


@pytest.mark.parametrize("exclusive", [True, False])
def test_running_sums_of_nothing_and_of_one(*, exclusive: bool) -> None:
    assert value_of("cumsum", np.zeros((2, 0)), axis=1, exclusive=exclusive).shape == (2, 0)
    np.testing.assert_array_equal(value_of("cumsum", np.array([5.0]), exclusive=exclusive), [0.0 if exclusive else 5.0])


def test_an_exclusive_sum_does_not_round_by_taking_off_again() -> None:
    np.testing.assert_array_equal(value_of("cumsum", np.array([1.0, 1e300, np.inf]), exclusive=True), [0.0, 1.0, 1e300])
