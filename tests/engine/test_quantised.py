"""Whole-number products, expanded weights, casts and images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aneforge.engine import golden, quantised
from aneforge.engine.dispatch import arithmetic
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

Array = npt.NDArray[Any]
INF = float("inf")
PLAIN: Any = {"strides": None, "pad_type": "valid", "pad": None, "dilations": None, "groups": 1}


def on_engine(name: str, operands: Mapping[str, Array | None], **attributes: object) -> Array:
    found = arithmetic(name, resolve("m6"))
    return found.compute(operands, found.op.complete(attributes))[0]


def number(value: float) -> Array:
    return np.array(value, np.float16)


def test_the_largest_result_that_was_seen() -> None:
    x, w = np.full((1, 4), 127, np.int8), np.full((4, 1), 127, np.int8)
    assert quantised.int8_matmul(x, w).item() == 64512.0
    assert quantised.int8_matmul(x[:, :3], -w[:3]).item() == -48384.0, "beyond 2^15, where a sum of fp16 is infinite"


def test_whole_sums_are_exact_to_2_31() -> None:
    scale = 2.0**-16
    assert quantised.leaving(np.array([2**30]), scale).tolist() == [2.0**14]
    assert quantised.leaving(np.array([2**31 - 1, 2**31, -(2**31)]), scale).tolist() == [2.0**15, INF, -INF]


@given(st.lists(st.tuples(st.integers(-128, 127), st.integers(-128, 127)), min_size=1, max_size=200))
def test_whole_products_add_exactly(pairs: list[tuple[int, int]]) -> None:
    x = np.array([[first for first, _ in pairs]], np.int8)
    w = np.array([[second] for _, second in pairs], np.int8)
    total = sum(first * second for first, second in pairs)
    assert quantised.int8_matmul(x, w, 2.0**-12).item() == float(golden.elementwise(np.array(total * 2.0**-12)))


def test_a_convolution_of_bytes() -> None:
    x = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 4, 4)
    w = np.ones((2, 1, 2, 2), np.int8)
    scale = np.array([0.5, 2.0]).reshape(1, 2, 1, 1)
    found = quantised.int8_convolution(x, w, scale, **PLAIN)
    sums = np.lib.stride_tricks.sliding_window_view(x[0, 0].astype(int), (2, 2)).sum(axis=(2, 3))
    assert found.tolist() == [[(sums * 0.5).tolist(), (sums * 2.0).tolist()]]


@pytest.mark.parametrize("call", [quantised.int8_matmul, quantised.int8_convolution])
def test_other_operands_are_refused(call: Any) -> None:  # noqa: ANN401 - two functions of different signatures
    with pytest.raises(ValueError, match="an operand is uint8, not int8"):
        call(np.ones((1, 1, 1), np.uint8), np.ones((1, 1, 1), np.int8))


def folded(q: Array, scale: Array) -> Array:
    """Return weights as the numbers that they stand for."""
    return quantised.fold_weights(q, scale, np.zeros((), np.int8), axis=-1)


def meeting(x: Array, q: Array, scale: Array) -> Array:
    """Return the product of activations and int8 weights with one scale for each column."""
    return quantised.meeting_int8(golden.matmul, x, folded(q, scale))


def test_activations_meet_int8_weights_through_the_crop() -> None:
    q, scale = np.array([[1], [-1]], np.int8), np.array([2.0**-3])
    assert meeting(np.array([[4094.0, 0.0]]), q, scale).item() == 4094 / 8
    assert meeting(np.array([[4096.0, 0.0]]), q, scale).item() == INF
    assert meeting(np.array([[4096.0, 1.0]]), np.array([[0], [2]], np.int8), scale).item() == 0.25, "a weight of zero"
    assert meeting(np.array([[-4096.0, 4096.0]]), np.array([[1], [0]], np.int8), scale * 2.0**-9).item() == -INF
    assert meeting(np.array([[0.0, 5000.0]]), q, np.array([1.0])).item() == -INF


def test_without_the_crop_activations_enter_as_they_are() -> None:
    x, q, scale = np.array([[8192.0]]), np.array([[2]], np.int8), np.array([0.5])
    assert golden.matmul(x, folded(q, scale)).item() == 8192.0


def test_weights_enter_as_the_numbers_that_they_stand_for() -> None:
    q, scale, x = np.array([[3]], np.int8), np.array([2.0**-20]), np.array([[1.0]])
    assert meeting(x, q, scale).item() == 0.0, "the product falls below the grid"
    many = np.full((512, 1), 127, np.int8)
    assert meeting(np.ones((1, 512)), many, np.array([0.5 / 127])).item() == 256.0


def test_weights_fold_by_the_rounding_of_the_host() -> None:
    q = np.array([[3], [-3]], np.int8)
    tie = np.float16(2.0**-24)  # half of it has no fp16
    folded = quantised.fold_weights(q, np.array([0.5]) * float(tie), np.zeros((), np.int8), axis=1)
    assert folded.ravel().tolist() == [2 * float(tie), -2 * float(tie)], "1.5 steps go to the even 2"
    found = on_engine(
        "constexpr_affine_dequantize",
        {"quantized_data": q, "scale": number(0.25), "zero_point": np.array(1, np.int8)},
        axis=0,
    )
    assert found.ravel().tolist() == [0.5, -1.0]


def test_palettes_and_masks_are_copies() -> None:
    table = np.array([0.1, -2.0, np.inf, 2.0**-24], np.float16)
    indices = np.array([[3, 0], [2, 1]], np.uint8)
    found = on_engine("constexpr_lut_to_dense", {"indices": indices, "lut": table})
    np.testing.assert_array_equal(found, table[indices])
    mask = np.array([[1, 0], [0, 1]], np.uint8)
    sparse = on_engine("constexpr_sparse_to_dense", {"mask": mask, "nonzero_data": table[:2]})
    np.testing.assert_array_equal(sparse, np.array([[0.1, 0], [0, -2.0]], np.float16))


def test_quantising_rounds_halves_away_from_zero() -> None:
    x = np.array([0.5, -0.5, 1.5, 2.5, 100.0, -INF], np.float16)
    found = on_engine("quantize", {"input": x, "scale": number(1), "zero_point": None}, output_dtype="int8")
    assert found.tolist() == [1, -1, 2, 3, 100, -128]
    shifted = on_engine(
        "quantize", {"input": x, "scale": number(1), "zero_point": np.array(10, np.uint8)}, output_dtype="uint8"
    )
    assert shifted.tolist() == [11, 9, 12, 13, 110, 0]


def test_dequantising_rounds_once() -> None:
    q = np.array([127, -128], np.int8)
    scale = number(0.1)
    found = on_engine("dequantize", {"input": q, "scale": scale, "zero_point": np.array(-1, np.int8)})
    expected = golden.elementwise(np.array([128.0, -127.0]) * float(scale))
    np.testing.assert_array_equal(found.astype(np.float64), expected)


@pytest.mark.parametrize(
    ("values", "dtype", "result"),
    [
        (np.array([1.9, -1.9, 300.0, np.inf, -np.inf], np.float16), "int8", [1, -1, 127, 127, -128]),
        (np.array([0.0, -0.0, 2.0**-24], np.float16), "bool", [False, False, True]),
        (np.array([2049, -2051], np.int32), "fp16", [2050.0, -2052.0]),
        (np.array([2049.0, 1e9, 2.0**-25], np.float32), "fp16", [2050.0, INF, 2.0**-24]),
        (np.array([300, -1], np.int32), "uint8", [44, 255]),
        (np.array([True, False]), "int32", [1, 0]),
        (np.array([1.5], np.float16), "fp32", [1.5]),
        (np.array([1.5], ml_dtypes.bfloat16), "fp16", [1.5]),
        (np.array([-3], ml_dtypes.int4), "fp16", [-3.0]),
        (np.array([3], np.int8), "int4", [3]),
    ],
)
def test_casts(values: Array, dtype: str, result: list[Any]) -> None:
    assert on_engine("cast", {"x": values}, dtype=dtype).tolist() == result


def test_the_type_of_a_cast_is_the_one_asked_for() -> None:
    kinds = {"fp16": np.float16, "fp32": np.float32, "int8": np.int8, "bool": np.bool_, "bf16": ml_dtypes.bfloat16}
    kinds |= {"fp64": np.float64}
    for name, kind in kinds.items():
        assert on_engine("cast", {"x": np.array([1.0], np.float16)}, dtype=name).dtype == kind


def test_bytes_of_an_image_are_whole_numbers() -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    tensor = on_engine("pixel_buffer_to_tensor", {"x": pixels})
    assert tensor.dtype == np.float16
    assert tensor.ravel().tolist() == list(range(256))
    np.testing.assert_array_equal(on_engine("tensor_to_pixel_buffer", {"x": tensor}), pixels)
    ends = np.array([[[[-3.0, 0.5, 254.5, 300.0, np.inf]]]], np.float16)
    assert on_engine("tensor_to_pixel_buffer", {"x": ends}).ravel().tolist() == [0, 1, 255, 255, 255]
