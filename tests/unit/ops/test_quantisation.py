"""Quantisation: its errors, ranges, ties and tables worked out by hand, and agreement with the encoded constants."""

import ml_dtypes
import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.constant import Blockwise, Int8Affine, Palette, Sparse
from aneforge.ops.groups.quantisation import (
    CAST,
    CONSTEXPR_AFFINE_DEQUANTIZE,
    CONSTEXPR_BLOCKWISE_SHIFT_SCALE,
    CONSTEXPR_LUT_TO_DENSE,
    CONSTEXPR_LUT_TO_SPARSE,
    CONSTEXPR_SPARSE_BLOCKWISE_SHIFT_SCALE,
    CONSTEXPR_SPARSE_TO_DENSE,
    DEQUANTIZE,
    QUANTIZE,
)
from aneforge.ops.types import Array, TensorType


def cast(values: Array, dtype: str) -> list[object]:
    return CAST.evaluate({"x": values}, CAST.complete({"dtype": dtype}))[0].tolist()


def test_a_cast_to_whole_numbers_cuts_towards_zero() -> None:
    assert cast(np.array([1.9, -1.9, 0.5, -0.5]), "int32") == [1, -1, 0, 0]


def test_a_cast_past_the_range_gives_its_end() -> None:
    values = np.array([300.0, -300.0, np.inf, -np.inf, np.nan])
    assert cast(values, "int8") == [127, -128, 127, -128, 0]
    assert cast(values, "uint8") == [255, 0, 255, 0, 0]
    assert cast(np.array([1e30, -1e30]), "int64") == [2**63 - 1, -(2**63)]
    assert cast(np.array([1e30, -1e30, 7.5]), "uint64") == [2**64 - 1, 0, 7]
    assert cast(np.array([9.0, -9.0, 6.7]), "int4") == [7, -8, 6]


def test_a_cast_between_whole_numbers_wraps() -> None:
    assert cast(np.array([300, -1], np.int32), "uint8") == [44, 255]
    assert cast(np.array([7, -1], ml_dtypes.int4), "uint4") == [7, 15]
    assert cast(np.array([7, 15], ml_dtypes.uint4), "int4") == [7, -1]


def test_a_cast_to_bool_asks_for_not_zero() -> None:
    assert cast(np.array([0.0, 0.25, -1.0]), "bool") == [False, True, True]


def test_a_cast_between_floating_types_rounds_nothing() -> None:
    assert cast(np.array([1 / 3]), "fp16") == [1 / 3]


def test_a_cast_names_the_element_types() -> None:
    with pytest.raises(GraphError, match="'dtype' is not one of its choices"):
        CAST.complete({"dtype": "float"})


def quantized(values: list[float], zero: int | None, dtype: str = "int8") -> list[int]:
    operands = {
        "input": np.array(values),
        "scale": np.array(0.5),
        "zero_point": None if zero is None else np.array(zero, dtype),
    }
    return QUANTIZE.evaluate(operands, QUANTIZE.complete({"output_dtype": dtype}))[0].tolist()


def test_halves_round_to_even() -> None:
    assert quantized([0.25, 0.75, 1.25, -0.25, -0.75], None) == [0, 2, 2, 0, -2]


def test_the_zero_point_is_added_after_rounding_and_before_the_ends() -> None:
    assert quantized([1.0, 60.0, -100.0], 10) == [12, 127, -128]
    assert quantized([1.0, 200.0, -9.0], 10, "uint8") == [12, 255, 0]


X = TensorType((2, 3))
BYTES = X.with_dtype("int8")
SCALAR = TensorType(())
EIGHT = {"output_dtype": "int8"}


def test_a_list_of_scales_needs_an_axis() -> None:
    with pytest.raises(GraphError, match=r"scale of shape \[3\] is a list, and no axis is given"):
        QUANTIZE.types({"input": X, "scale": TensorType((3,))}, QUANTIZE.complete(EIGHT))


def test_a_list_of_scales_fits_the_axis() -> None:
    with pytest.raises(GraphError, match=r"scale does not fit the channels \(got \[3\], expected \[\] or \[2\]\)"):
        QUANTIZE.types({"input": X, "scale": TensorType((3,))}, QUANTIZE.complete({**EIGHT, "axis": 0}))


def test_the_zero_point_is_of_the_quantised_type() -> None:
    zero = TensorType((), "uint8")
    with pytest.raises(GraphError, match="zero point is not of the quantised type"):
        QUANTIZE.types({"input": X, "scale": SCALAR, "zero_point": zero}, QUANTIZE.complete(EIGHT))
    with pytest.raises(GraphError, match="zero point is not of the quantised type"):
        DEQUANTIZE.types({"input": BYTES, "scale": SCALAR, "zero_point": zero}, DEQUANTIZE.complete({}))


def test_only_floating_numbers_are_quantised() -> None:
    with pytest.raises(GraphError, match="input must hold floating-point"):
        QUANTIZE.types({"input": BYTES, "scale": SCALAR}, QUANTIZE.complete(EIGHT))


def test_only_eight_bits_are_dequantised() -> None:
    with pytest.raises(GraphError, match="must have eight bits"):
        DEQUANTIZE.types({"input": X, "scale": SCALAR}, DEQUANTIZE.complete({}))


def test_affine_weights_name_an_axis_of_theirs() -> None:
    with pytest.raises(GraphError, match="axis is not an axis"):
        CONSTEXPR_AFFINE_DEQUANTIZE.types(
            {"quantized_data": BYTES, "scale": SCALAR, "zero_point": TensorType((), "int8")},
            CONSTEXPR_AFFINE_DEQUANTIZE.complete({"axis": 2}),
        )


@pytest.mark.parametrize(
    ("indices", "lut", "attributes", "text"),
    [
        (TensorType((2,), "int32"), TensorType((4,)), {}, "palette indices have the wrong element type"),
        (TensorType((2,), "uint8"), TensorType((4, 1)), {}, "has the wrong rank"),
        (TensorType((2,), "uint8"), TensorType((3,)), {}, "not a power of two"),
        (TensorType((2,), "uint4"), TensorType((32,)), {}, r"that the indices reach \(got 32, expected up to 16\)"),
        (TensorType((4,), "uint8"), TensorType((3, 4, 1)), {}, "table does not divide the data into blocks"),
        (TensorType((4,), "uint8"), TensorType((2, 4, 2)), {}, "needs an axis to place them along"),
        (TensorType((4,), "uint8"), TensorType((2, 4, 2)), {"vector_axis": 1}, "vector_axis is not an axis"),
    ],
)
def test_tables_that_do_not_fit(indices: TensorType, lut: TensorType, attributes: dict[str, object], text: str) -> None:
    with pytest.raises(GraphError, match=text):
        CONSTEXPR_LUT_TO_DENSE.types({"indices": indices, "lut": lut}, CONSTEXPR_LUT_TO_DENSE.complete(attributes))


def test_an_index_past_the_table() -> None:
    with pytest.raises(GraphError, match=r"past the table \(got 2, limit 0 to 1\)"):
        CONSTEXPR_LUT_TO_DENSE.evaluate(
            {"indices": np.array([2], np.uint8), "lut": np.array([0.0, 1.0])}, CONSTEXPR_LUT_TO_DENSE.complete({})
        )


def test_each_block_has_its_table() -> None:
    lut = np.array([[[1.0], [2.0]], [[3.0], [4.0]]])
    (dense,) = CONSTEXPR_LUT_TO_DENSE.evaluate(
        {"indices": np.array([0, 1, 0, 1], np.uint8), "lut": lut}, CONSTEXPR_LUT_TO_DENSE.complete({})
    )
    assert dense.tolist() == [1, 2, 3, 4]


def test_vectors_are_laid_along_their_axis() -> None:
    lut = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    operands = {"indices": np.array([[0, 1]], np.uint8), "lut": lut}
    (across,) = CONSTEXPR_LUT_TO_DENSE.evaluate(operands, CONSTEXPR_LUT_TO_DENSE.complete({"vector_axis": -1}))
    (down,) = CONSTEXPR_LUT_TO_DENSE.evaluate(operands, CONSTEXPR_LUT_TO_DENSE.complete({"vector_axis": 0}))
    assert across.tolist() == [[1, 2, 3, 4]]
    assert down.tolist() == [[1, 3], [2, 4]]


def test_a_sparse_table_repeats_its_mask() -> None:
    operands = {
        "indices_mask": np.array([True, False]),
        "indices_nonzero_data": np.array([1], np.uint8),
        "lut": np.array([[[1.0, 2.0], [3.0, 4.0]]]),
    }
    mask, values = CONSTEXPR_LUT_TO_SPARSE.evaluate(operands, CONSTEXPR_LUT_TO_SPARSE.complete({"vector_axis": 0}))
    assert mask.tolist() == [True, True, False, False]
    assert values.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("mask", "values", "text"),
    [
        (TensorType((2, 2), "fp16"), TensorType((2,)), "a mask is not of bits"),
        (TensorType((2, 2), "bool"), TensorType((5,)), "values and mask do not match"),
        (TensorType((2, 2), "bool"), TensorType((2, 1)), "values and mask do not match"),
    ],
)
def test_sparse_parts_that_do_not_fit(mask: TensorType, values: TensorType, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        CONSTEXPR_SPARSE_TO_DENSE.types({"mask": mask, "nonzero_data": values}, {})


def test_there_are_as_many_values_as_bits_set() -> None:
    with pytest.raises(GraphError, match=r"values and mask do not match \(got 1, limit 2\)"):
        CONSTEXPR_SPARSE_TO_DENSE.evaluate({"mask": np.array([True, True]), "nonzero_data": np.ones(1)}, {})


@pytest.mark.parametrize(
    ("scale", "offset", "text"),
    [
        (TensorType((2,)), None, "scale does not divide the data into blocks"),
        (TensorType((2, 3)), None, "scale does not divide the data into blocks"),
        (TensorType((2, 2)), TensorType((2, 1), "int8"), "different blocks"),
        (TensorType((2, 2)), TensorType((2, 2), "int32"), "neither the data's nor the scale's type"),
        (TensorType((2, 2), "int8"), None, "scale must hold floating-point"),
    ],
)
def test_blocks_that_do_not_fit(scale: TensorType, offset: TensorType | None, text: str) -> None:
    operands = {"data": TensorType((2, 4), "int8"), "scale": scale, "offset": offset}
    with pytest.raises(GraphError, match=text):
        CONSTEXPR_BLOCKWISE_SHIFT_SCALE.types(operands, {})


def test_blocks_hold_numbers() -> None:
    with pytest.raises(GraphError, match="data must hold numbers"):
        CONSTEXPR_BLOCKWISE_SHIFT_SCALE.types({"data": TensorType((2,), "bool"), "scale": TensorType((1,))}, {})


def test_sparse_blocks_scale_the_values_of_their_places() -> None:
    mask, values = CONSTEXPR_SPARSE_BLOCKWISE_SHIFT_SCALE.evaluate(
        {
            "data_mask": np.array([False, True, True, False]),
            "nonzero_data": np.array([3, 5], np.int8),
            "scale": np.array([0.5, 2.0]),
            "offset": np.array([1, -1], np.int8),
        },
        {},
    )
    assert mask.tolist() == [False, True, True, False]
    assert values.tolist() == [1.0, 12.0]


def test_affine_agrees_with_the_constant() -> None:
    data = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)
    constant = Int8Affine(data, np.array([0.5, 0.25, 2.0], np.float16), np.array([1, 0, -1], np.int8), axis=1)
    (values,) = CONSTEXPR_AFFINE_DEQUANTIZE.evaluate(
        {"quantized_data": data, "scale": constant.scale, "zero_point": constant.zero_point},
        CONSTEXPR_AFFINE_DEQUANTIZE.complete({"axis": 1}),
    )
    np.testing.assert_array_equal(values, constant.dense())


def test_a_palette_agrees_with_the_constant() -> None:
    constant = Palette(np.array([[0, 3], [2, 1]], np.uint8), np.array([0.5, 1, -2, 4], np.float16), 2)
    (values,) = CONSTEXPR_LUT_TO_DENSE.evaluate(
        {"indices": constant.indices.astype(ml_dtypes.uint4), "lut": constant.table},
        CONSTEXPR_LUT_TO_DENSE.complete({}),
    )
    np.testing.assert_array_equal(values, constant.dense())


def test_sparse_agrees_with_the_constant() -> None:
    constant = Sparse(np.array([[True, False], [True, True]]), np.array([1, 2, 3], np.float16))
    (values,) = CONSTEXPR_SPARSE_TO_DENSE.evaluate({"mask": constant.mask, "nonzero_data": constant.nonzero}, {})
    np.testing.assert_array_equal(values, constant.dense())


def test_blocks_agree_with_the_constant() -> None:
    data = np.arange(8, dtype=np.int8).reshape(2, 4)
    constant = Blockwise(data, np.array([[0.5, 1.0]], np.float16), np.array([[1, 2]], np.int8))
    (values,) = CONSTEXPR_BLOCKWISE_SHIFT_SCALE.evaluate(
        {"data": data, "scale": constant.scale, "offset": constant.offset}, {}
    )
    np.testing.assert_array_equal(values, constant.dense())
