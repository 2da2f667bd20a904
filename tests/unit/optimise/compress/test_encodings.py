"""The encodings against plain loops over their formulas, and at their edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aneforge.errors import GraphError, GraphTypeError
from aneforge.formats.mil.elements import pack
from aneforge.ops.constant import Constant
from aneforge.optimise.compress.encodings import (
    blockwise,
    int4_palette,
    int8_per_channel,
    nearest_divisor,
    nonzero_share,
    sparse_bitmask,
)
from aneforge.optimise.compress.numbers import relative_error

Array = npt.NDArray[Any]
Encoder = Callable[..., Constant]
FLOATS = [np.float16, np.float32, np.float64]
ENCODERS: list[Encoder] = [int8_per_channel, int4_palette, sparse_bitmask, blockwise]


@st.composite
def weights(draw: st.DrawFn, least_rank: int = 2, most_rank: int = 4) -> Array:
    """Weights of every rank and element type: spread, constant, with zero rows, with ties, tiny."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=least_rank, max_size=most_rank)))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["normal", "constant", "zeros", "halves", "tiny", "large"]))
    drawn = {
        "normal": generator.standard_normal(shape),
        "constant": np.full(shape, generator.standard_normal()),
        "zeros": generator.standard_normal(shape) * (generator.random(shape) < 0.3),
        "halves": generator.integers(-254, 255, shape) / 2,
        "tiny": generator.standard_normal(shape) * 1e-7,
        "large": generator.uniform(-60000, 60000, shape),
    }[kind]
    return drawn.astype(draw(st.sampled_from(FLOATS)))


def int8_by_hand(row: list[float]) -> tuple[float, list[int]]:
    scale = max(max(abs(value) for value in row) / 127, 1e-8)
    return scale, [max(-127, min(127, round(value / scale))) for value in row]  # Python rounds ties to even


@given(weights(), st.data())
def test_int8_is_the_formula(weight: Array, data: st.DataObject) -> None:
    axis = data.draw(st.integers(-weight.ndim, weight.ndim - 1))
    made = int8_per_channel(weight, rows=axis)
    assert made.axis == axis % weight.ndim
    for channel in range(weight.shape[axis]):
        row = np.take(weight, channel, axis).astype(np.float64)
        scale, numbers = int8_by_hand([float(value) for value in row.reshape(-1)])
        assert made.scale[channel] == np.float16(scale)
        assert np.take(made.quantized, channel, axis).reshape(-1).tolist() == numbers


@given(weights(least_rank=2), st.integers(1, 8), st.data())
def test_blockwise_is_the_formula(weight: Array, block_size: int, data: st.DataObject) -> None:
    row, column = data.draw(st.permutations(range(weight.ndim)))[:2]
    made = blockwise(weight, rows=row, columns=column, block_size=block_size)
    block = nearest_divisor(weight.shape[column], block_size)
    lying, numbers = (np.moveaxis(part, (row, column), (0, 1)) for part in (weight, made.data))
    scales = np.moveaxis(made.scale, (row, column), (0, 1))
    assert scales.shape == (lying.shape[0], lying.shape[1] // block, *(1,) * (weight.ndim - 2))
    for channel, number in np.ndindex(*scales.shape[:2]):
        part = slice(number * block, (number + 1) * block)
        scale, expected = int8_by_hand([float(value) for value in lying[channel, part].reshape(-1)])
        assert scales[channel, number].item() == np.float16(scale)
        assert numbers[channel, part].reshape(-1).tolist() == expected


@given(weights(least_rank=1))
def test_sparse_loses_nothing_but_what_fp16_does_not_hold(weight: Array) -> None:
    made = sparse_bitmask(weight)
    assert np.array_equal(made.dense(), weight.astype(np.float16))
    assert made.nonzero.size == round(nonzero_share(weight) * weight.size)


@given(weights(least_rank=2))
def test_the_error_of_int8_is_bounded(weight: Array) -> None:
    """Half a step per element, and the rounding of the scale: 127 half steps of 2^-11, where fp16 is normal."""
    made = int8_per_channel(weight, dtype="fp32")
    rows = weight.reshape(weight.shape[0], -1).astype(np.float64)
    steps = np.maximum(np.abs(rows).max(axis=1, keepdims=True) / 127, 1e-8)
    apart = np.abs(made.dense().reshape(rows.shape) - rows)
    assert (apart <= steps * (0.5 + 127 * 2.0**-23)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_ties_go_to_even(dtype: type[np.floating[Any]]) -> None:
    weight = np.array([[127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5]], dtype)
    assert int8_per_channel(weight).quantized.tolist() == [[127, 0, 2, 2, 0, -2, -2]]
    assert blockwise(weight, block_size=7).data.tolist() == [[127, 0, 2, 2, 0, -2, -2]]


def test_a_row_of_zeros_has_the_least_scale_and_decodes_to_zeros() -> None:
    weight = np.array([[0.0, 0.0], [2.0, -1.0]])
    made = int8_per_channel(weight, dtype="fp64")
    assert made.scale.tolist() == [1e-8, 2 / 127]
    assert made.dense()[0].tolist() == [0.0, 0.0]
    assert blockwise(weight, dtype="fp64").scale.tolist() == [[1e-8], [2 / 127]]


def test_the_most_negative_number_is_not_used() -> None:
    assert int8_per_channel(np.array([[-1.0, 1.0]])).quantized.tolist() == [[-127, 127]]


@pytest.mark.parametrize(
    ("extent", "wanted", "nearest"),
    [
        (64, 32, 32),
        (48, 32, 24),
        (96, 32, 32),
        (37, 32, 37),
        (6, 32, 6),
        (1, 32, 1),
        (100, 32, 25),
        (3, 2, 1),
        (9, 2, 1),
    ],
)
def test_blocks_take_the_nearest_divisor(extent: int, wanted: int, nearest: int) -> None:
    assert nearest_divisor(extent, wanted) == nearest


@given(st.integers(1, 5000), st.integers(1, 100))
def test_the_nearest_divisor_is_that_of_a_search(extent: int, wanted: int) -> None:
    divisors = [one for one in range(1, extent + 1) if extent % one == 0]
    assert nearest_divisor(extent, wanted) == min(divisors, key=lambda one: (abs(one - wanted), one))


def test_one_element() -> None:
    weight = np.array([[3.0]])
    assert [encoder(weight).dense().item() for encoder in ENCODERS] == [
        pytest.approx(3.0, rel=1e-3),
        3.0,
        3.0,
        pytest.approx(3.0, rel=1e-3),
    ]


@pytest.mark.parametrize("dtype", ["fp16", "fp32", "fp64"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_decoded_values_have_the_element_type_that_was_asked_for(encoder: Encoder, dtype: str) -> None:
    constant = encoder(np.linspace(-1, 1, 64).reshape(8, 8), dtype=dtype)
    assert constant.type.dtype == dtype
    assert relative_error(constant.dense(), np.linspace(-1, 1, 64).reshape(8, 8)) < 1 / 16  # sixteen even steps


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(
    ("weight", "error", "text"),
    [
        (np.array([[1.0, np.nan]]), GraphError, r"is not finite \(got nan at \[0, 1\]\). Remedy: fix or mask"),
        (np.array([[-np.inf, 1.0]]), GraphError, r"is not finite \(got -inf at \[0, 0\]\)"),
        (np.array([[1e5]]), GraphError, r"is beyond fp16 \(got 100000.0, limit 65504.0\). Remedy: scale it down"),
        (np.zeros((0, 3)), GraphError, r"has no elements \(got \[0, 3\]\)"),
        (
            np.ones((2, 2), np.int32),
            GraphTypeError,
            r"not an array of floating-point numbers \(got int32, expected float16",
        ),
        ([[1.0]], GraphTypeError, r"not an array of floating-point numbers \(got list"),
    ],
)
def test_what_cannot_be_encoded(encoder: Encoder, weight: object, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        encoder(weight)


def test_wrong_options() -> None:
    weight = np.ones((2, 4))
    with pytest.raises(GraphError, match=r"the block size is not a positive integer \(got 0, limit 1 or more\)"):
        blockwise(weight, block_size=0)
    with pytest.raises(GraphError, match=r"the block size is not a positive integer \(got 2.0"):
        blockwise(weight, block_size=2.0)  # pyright: ignore[reportArgumentType] - what an untyped caller may do
    with pytest.raises(GraphError, match=r"rows and columns of a weight are one axis \(got 1\)"):
        blockwise(weight, rows=1, columns=-1)
    with pytest.raises(GraphError, match="axis"):
        int8_per_channel(weight, rows=2)
    with pytest.raises(GraphError, match="a single number has no channels"):
        int8_per_channel(np.array(1.0))
    with pytest.raises(GraphError, match=r"decode to floating-point numbers \(got int8"):
        int4_palette(weight, dtype="int8")


def test_storage_is_low_nibble_and_lowest_bit_first() -> None:
    palette = int4_palette(np.arange(16.0).reshape(2, 8))
    assert palette.table.tolist() == list(range(16))
    assert pack(palette.indices, "uint4").tobytes().hex() == "1032547698badcfe"
    sparse = sparse_bitmask(np.array([[1.0, 0, 0, 0, 0, 0, 0, 0, 0, 2.0]]))
    assert pack(sparse.mask, "uint1").tobytes().hex() == "0102"


def test_weights_that_lie_otherwise_in_memory_encode_alike() -> None:
    weight = np.random.default_rng(1).standard_normal((6, 8)).astype(np.float16)
    for encoder in ENCODERS:
        assert encoder(np.asfortranarray(weight)) == encoder(weight)


@pytest.mark.parametrize("factor", [1e-300, 1.0, 1e300])
def test_the_relative_error_is_that_of_the_norms_at_every_magnitude(factor: float) -> None:
    assert relative_error(np.array([3.0, 5.0]) * factor, np.array([3.0, 4.0]) * factor) == pytest.approx(0.2)


def test_the_relative_error_of_zeros() -> None:
    assert relative_error(np.zeros(3), np.zeros(3)) == 0
    assert relative_error(np.ones(3), np.zeros(3)) == math.inf
    assert relative_error(np.array([np.inf]), np.ones(1)) == math.inf


def test_the_relative_error_of_a_weight_in_several_parts() -> None:
    weight = np.ones((1 << 20) + 7, np.float16)
    decoded = weight.copy()
    decoded[-7:] = 2
    assert relative_error(decoded, weight) == pytest.approx(math.sqrt(7 / weight.size))
