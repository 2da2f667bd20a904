"""Constants: every encoding against a plain loop, its bytes by hand, its digest, and that it never changes."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from aneforge.errors import GraphError, GraphTypeError
from aneforge.ops import packing
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.packing import Packed
from aneforge.ops.types import DTYPES, Array, TensorType, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FP16 = np.float16
SHAPES = stn.array_shapes(min_dims=1, max_dims=3, max_side=4)
FRACTIONS = st.sampled_from([-2.0, -0.125, 0.5, 1.0, 3.0])


def fp16(*values: float) -> Array:
    return np.array(values, FP16)


def int8(*values: int) -> Array:
    return np.array(values, np.int8)


# Values against plain loops.


@given(stn.arrays(FP16, SHAPES, elements=FRACTIONS))
def test_dense_is_what_was_given(values: Array) -> None:
    constant = Dense(values)
    np.testing.assert_array_equal(constant.dense(), values, strict=True)
    assert constant.type == TensorType(values.shape)


@given(st.data())
def test_affine_scales_each_channel(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.int8, np.uint8]))
    quantized = data.draw(stn.arrays(dtype, SHAPES))
    axis = data.draw(st.integers(-quantized.ndim, quantized.ndim - 1))
    channels: int = quantized.shape[axis]
    scale = data.draw(stn.arrays(np.float32, st.sampled_from([channels, 1]), elements=FRACTIONS))
    zero_point = data.draw(st.none() | stn.arrays(dtype, st.sampled_from([channels, 1])))
    constant = Int8Affine(quantized, scale, zero_point, axis)
    expected = np.empty(quantized.shape, np.float32)
    for place in np.ndindex(quantized.shape):
        channel = place[axis]
        zero = 0 if zero_point is None else int(zero_point[channel if zero_point.size > 1 else 0])
        expected[place] = (int(quantized[place]) - zero) * float(scale[channel if scale.size > 1 else 0])
    np.testing.assert_array_equal(constant.dense(), expected, strict=True)
    assert constant.type == TensorType(quantized.shape, "fp32")


@given(st.data())
def test_a_palette_looks_every_index_up(data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from([1, 2, 3, 4, 6, 8]))
    table = data.draw(stn.arrays(FP16, st.integers(1, 1 << bits), elements=FRACTIONS))
    indices = data.draw(stn.arrays(np.uint8, SHAPES, elements=st.integers(0, len(table) - 1)))
    constant = Palette(indices, table, bits)
    expected = np.array([table[index] for index in indices.ravel()], FP16).reshape(indices.shape)
    np.testing.assert_array_equal(constant.dense(), expected, strict=True)
    assert constant.type == TensorType(indices.shape)
    assert constant.encoding == f"palette{bits}"


@given(st.data())
def test_a_palette_holds_its_indices_in_their_bits(data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from([1, 2, 3, 4, 6, 8]))
    indices = data.draw(stn.arrays(np.uint8, SHAPES, elements=st.integers(0, (1 << bits) - 1)))
    table = np.arange(1 << bits).astype(FP16)
    constant = Palette(indices, table, bits)
    assert constant.packed.stored.nbytes == (indices.size * bits + 7) // 8
    assert constant.nbytes == constant.packed.stored.nbytes + 2 * len(table)
    np.testing.assert_array_equal(constant.indices, indices, strict=True)
    packed = Palette(constant.packed, table, bits)
    assert packed.packed is constant.packed
    assert packed == constant
    other = constant.with_table(2 * table)
    assert other.packed is constant.packed
    np.testing.assert_array_equal(other.dense(), 2 * constant.dense(), strict=True)


def test_the_hash_of_a_palette_is_that_of_its_indices_as_bytes() -> None:
    """Files have such hashes; how indices are held in memory must not change them."""
    constant = Palette(np.array([[0, 1, 1], [1, 0, 1]], np.uint8), fp16(1, 2), 1)
    text = "palette1 fp16[2, 3] indices |u1 (2, 3) "
    content = (text.encode(), bytes([0, 1, 1, 1, 0, 1]), b" table <f2 (2,) ", fp16(1, 2).tobytes())
    stated = b"".join((*content, b" bits <i8 () ", np.array(1).tobytes()))
    assert constant.digest == hashlib.sha256(stated).hexdigest()


def test_packed_indices_are_checked_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "AT_ONCE", 16)
    packed = Packed.of(np.array([0] * 40 + [3], np.uint8), 2)
    assert Palette(packed, fp16(1, 2, 3, 4), 2).dense()[-1] == 4
    with pytest.raises(GraphError, match=r"an index is past the palette \(got 3, limit 2\)"):
        Palette(packed, fp16(1, 2, 3), 2)
    with pytest.raises(GraphError, match=r"palette indices have another width \(got 2, limit 4\)"):
        Palette(packed, fp16(1, 2, 3, 4), 4)


@given(st.data())
def test_sparse_puts_values_where_bits_are_set(data: st.DataObject) -> None:
    mask = data.draw(stn.arrays(np.bool_, SHAPES))
    nonzero = data.draw(stn.arrays(FP16, int(mask.sum()), elements=FRACTIONS))
    left = iter(nonzero.tolist())
    expected = [next(left) if bit else 0.0 for bit in mask.ravel()]
    constant = Sparse(mask, nonzero)
    np.testing.assert_array_equal(constant.dense(), np.array(expected, FP16).reshape(mask.shape), strict=True)
    assert constant.type == TensorType(mask.shape)


@given(st.data())
def test_blocks_have_a_scale_each(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([np.int8, np.uint8]))
    counts = data.draw(SHAPES)
    blocks = [data.draw(st.integers(1, 3)) for _ in counts]
    whole = data.draw(stn.arrays(dtype, tuple(a * b for a, b in zip(counts, blocks, strict=True))))
    scale = data.draw(stn.arrays(np.float32, counts, elements=FRACTIONS))
    offset = data.draw(st.none() | stn.arrays(dtype, counts))
    expected = np.empty(whole.shape, np.float32)
    for place in np.ndindex(whole.shape):
        block = tuple(one // length for one, length in zip(place, blocks, strict=True))
        shift = 0 if offset is None else int(offset[block])
        expected[place] = (int(whole[place]) - shift) * float(scale[block])
    constant = Blockwise(whole, scale, offset)
    np.testing.assert_array_equal(constant.dense(), expected, strict=True)
    assert constant.type == TensorType(whole.shape, "fp32")


def test_products_are_rounded_once() -> None:
    assert Int8Affine(int8(127), fp16(0.1)).dense().tolist() == [float(FP16(127 * float(FP16(0.1))))]
    assert Blockwise(int8(127), fp16(0.1)).dense().tolist() == [float(FP16(127 * float(FP16(0.1))))]


@pytest.mark.parametrize("zero", [None, np.int8(-128), np.float16(0.1)], ids=str)
def test_products_with_every_scale_are_those_of_float64(zero: np.generic | None) -> None:
    scales = np.arange(0x7C00, dtype=np.uint16).view(FP16)
    whole = np.tile(np.array([[-128, -127, -3, 0, 1, 85, 127]], np.int8), (scales.size, 1))
    shift = None if zero is None else np.full(scales.shape, zero)
    with np.errstate(over="ignore"):
        exact = whole.astype(np.float64) - (0.0 if zero is None else float(zero))
        expected = (exact * scales.astype(np.float64)[:, None]).astype(FP16)
        given = Int8Affine(whole, scales, shift).dense()
    np.testing.assert_array_equal(given.view(np.uint16), expected.view(np.uint16), strict=True)


def test_blocks_of_four_bits() -> None:
    constant = Blockwise(np.array([[-8, 7, 1]], ml_dtypes.int4), np.array([[0.5]], FP16))
    assert constant.dense().tolist() == [[-4.0, 3.5, 0.5]]


# Bytes by hand.


@pytest.mark.parametrize(
    ("constant", "nbytes"),
    [
        (Dense(np.zeros((3, 5), FP16)), 30),
        (Dense(np.zeros((3, 5), np.bool_)), 15),
        (Dense(np.zeros((3, 5), ml_dtypes.int4)), 8),
        (Dense(np.zeros((3, 5), ml_dtypes.bfloat16)), 30),
        (Int8Affine(np.zeros((3, 5), np.int8), np.ones(3, FP16)), 15 + 6),
        (Int8Affine(np.zeros((3, 5), np.int8), np.ones(3, FP16), np.zeros(3, np.int8)), 15 + 6 + 3),
        (Palette(np.zeros((3, 5), np.uint8), fp16(1), 1), 2 + 4),
        (Palette(np.zeros((3, 5), np.uint8), fp16(1, 2), 4), 8 + 32),
        (Palette(np.zeros((3, 5), np.uint8), fp16(1, 2), 6), 12 + 128),
        (Palette(np.zeros((3, 5), np.uint8), fp16(1, 2), 8), 15 + 512),
        (Palette(np.zeros((3, 5), np.uint8), int8(1), 3), 6 + 8),
        (Sparse(np.eye(3, dtype=np.bool_), fp16(1, 2, 3)), 2 + 6),
        (Blockwise(np.zeros((2, 4), np.int8), np.ones((2, 2), FP16)), 8 + 8),
        (Blockwise(np.zeros((2, 3), ml_dtypes.uint4), np.ones((2, 1), FP16), np.ones((2, 1), ml_dtypes.uint4)), 3 + 5),
    ],
    ids=str,
)
def test_bytes_in_storage(constant: Constant, nbytes: int) -> None:
    assert constant.nbytes == nbytes


# Equality and digests.

SAME: list[Callable[[], Constant]] = [
    lambda: Dense(fp16(1, 2)),
    lambda: Dense(fp16(1, 3)),
    lambda: Dense(fp16(1, 2)[None]),
    lambda: Dense(np.array([1, 2], np.float32)),
    lambda: Dense(np.array([1, 2], ml_dtypes.bfloat16)),
    lambda: Dense(np.array([1, 2], ml_dtypes.int4)),
    lambda: Dense(np.array([1, 2], ml_dtypes.uint4)),
    lambda: Int8Affine(int8(1, 2), fp16(1)),
    lambda: Int8Affine(int8(1, 2), fp16(1, 1)),
    lambda: Int8Affine(int8(1, 2), fp16(1), int8(0)),
    lambda: Int8Affine(np.array([1, 2], np.uint8), fp16(1)),
    lambda: Int8Affine(int8(1, 2)[None], fp16(1), axis=0),
    lambda: Int8Affine(int8(1, 2)[None], fp16(1), axis=1),
    lambda: Palette(np.array([0, 1], np.uint8), fp16(1, 2), 1),
    lambda: Palette(np.array([0, 1], np.uint8), fp16(1, 2), 2),
    lambda: Palette(np.array([0, 1], np.uint8), fp16(1, 2), 4),
    lambda: Palette(np.array([0, 1], np.uint8), fp16(1, 2, 3), 4),
    lambda: Sparse(np.array([True, True]), fp16(1, 2)),
    lambda: Sparse(np.array([True, True, False]), fp16(1, 2)),
    lambda: Blockwise(int8(1, 2), fp16(1)),
    lambda: Blockwise(int8(1, 2), fp16(1), int8(0)),
    lambda: Blockwise(np.array([1, 2], ml_dtypes.int4), fp16(1)),
    lambda: Blockwise(np.array([1, 2], ml_dtypes.uint4), fp16(1)),
]
"""Constants that differ in values, shape, element type or encoding, many with one dense form."""


def test_what_is_stored_equally_is_equal() -> None:
    for make in SAME:
        assert make() == make()
        assert hash(make()) == hash(make())
        assert make().digest == make().digest


def test_what_is_stored_differently_is_not() -> None:
    assert len({make().digest for make in SAME}) == len(SAME)
    assert len({make() for make in SAME}) == len(SAME)


def test_the_order_in_memory_is_not_the_value() -> None:
    values = np.arange(6, dtype=FP16).reshape(2, 3)
    assert Dense(values) == Dense(np.asfortranarray(values)) == Dense(np.ascontiguousarray(values.T).T)


def test_an_axis_is_the_same_from_either_end() -> None:
    assert Int8Affine(np.ones((2, 3), np.int8), fp16(1, 2, 3), axis=-1) == Int8Affine(
        np.ones((2, 3), np.int8), fp16(1, 2, 3), axis=1
    )


def test_a_constant_is_no_other_thing() -> None:
    assert Dense(fp16(1)) != 1.0


def test_text_form() -> None:
    constant = Palette(np.array([[0, 1]], np.uint8), fp16(1, 2), 4)
    assert str(constant) == f"fp16[1, 2] palette4 sha256:{constant.digest[:12]}"


# Nothing changes.

PARTS: dict[str, tuple[Array, ...]] = {
    "dense": (fp16(1, 2),),
    "int8": (int8(1, 2), fp16(1, 2), int8(0, 0)),
    "palette": (np.array([0, 1], np.uint8), fp16(1, 2)),
    "sparse": (np.array([True, False]), fp16(1)),
    "blockwise": (int8(1, 2), fp16(1, 2), int8(0, 0)),
}


def made(encoding: str, parts: tuple[Array, ...]) -> Constant:
    match encoding:
        case "dense":
            return Dense(*parts)
        case "int8":
            return Int8Affine(parts[0], parts[1], parts[2])
        case "palette":
            return Palette(*parts, bits=8)
        case "sparse":
            return Sparse(*parts)
        case _:
            return Blockwise(*parts)


@pytest.mark.parametrize("encoding", PARTS)
def test_the_callers_arrays_stay_writable_and_the_constant_stays_the_same(encoding: str) -> None:
    given_parts = tuple(part.copy() for part in PARTS[encoding])
    constant = made(encoding, given_parts)
    before = made(encoding, PARTS[encoding])
    for part in given_parts:
        assert part.flags.writeable
        part[...] = 0
    assert constant == before
    np.testing.assert_array_equal(constant.dense(), before.dense())


@pytest.mark.parametrize("encoding", PARTS)
def test_the_constants_arrays_cannot_be_written(encoding: str) -> None:
    constant = made(encoding, PARTS[encoding])
    stored = [part for name, part in constant.parts.items() if name not in ("axis", "bits")]
    assert len(stored) == len(PARTS[encoding])
    for part in stored:
        with pytest.raises(ValueError, match="read-only"):
            part[...] = 0


@pytest.mark.parametrize("encoding", PARTS)
def test_arrays_that_nobody_can_write_are_kept_without_a_copy(encoding: str) -> None:
    frozen = tuple(part.copy() for part in PARTS[encoding])
    for part in frozen:
        part.flags.writeable = False
    stored = list(made(encoding, frozen).parts.values())
    assert all(any(np.shares_memory(one, part) for one in stored) for part in frozen)


def test_a_file_mapped_for_reading_is_kept_without_a_copy(tmp_path: Path) -> None:
    file = tmp_path / "weights.npy"
    np.save(file, fp16(1, 2, 3))
    mapped = np.load(file, mmap_mode="r")
    assert np.shares_memory(Dense(mapped).dense(), mapped)


def test_an_array_made_for_the_constant_is_not_copied() -> None:
    fresh = fp16(1, 2)
    constant = Dense.owning(fresh)
    assert constant.values is fresh
    assert not fresh.flags.writeable


def test_an_array_that_looks_into_another_is_copied_even_if_it_is_given_away() -> None:
    whole = fp16(1, 2, 3)
    constant = Dense.owning(whole[:2])
    whole[0] = 9
    assert constant.values.tolist() == [1, 2]
    assert whole.flags.writeable


def test_an_array_that_may_be_written_is_copied_once() -> None:
    class Counted(np.ndarray[tuple[int], np.dtype[np.float16]]):
        copies = 0

        def copy(self, *_: object, **__: object) -> Array:  # pyright: ignore[reportIncompatibleMethodOverride]
            Counted.copies += 1
            return np.array(self)

    Dense(fp16(1, 2).view(Counted))
    assert Counted.copies == 1


# One clear error for each misuse.

BITS = np.array([True, True])
NO_ARRAYS: list[tuple[Callable[..., Constant], tuple[object, ...], str]] = [
    (Dense, ([1, 2],), "values of a constant is not a NumPy array (got list). Remedy: convert it with np.array"),
    (Dense, (1.5,), "values of a constant is not a NumPy array (got float)"),
    (Dense, (np.float16(1),), "values of a constant is not a NumPy array (got float16)"),
    (Dense, (None,), "values of a constant is not a NumPy array (got NoneType)"),
    (Dense.owning, ([1, 2],), "values of a constant is not a NumPy array (got list)"),
    (Int8Affine, ([1, 2], fp16(1)), "quantized of a constant is not a NumPy array (got list)"),
    (Int8Affine, (int8(1, 2), 0.5), "scale of a constant is not a NumPy array (got float)"),
    (Int8Affine, (int8(1, 2), None), "scale of a constant is not a NumPy array (got NoneType)"),
    (Int8Affine, (int8(1, 2), fp16(1), 0), "zero_point of a constant is not a NumPy array (got int)"),
    (Palette, ([0], fp16(1), 1), "indices of a constant is not a NumPy array (got list)"),
    (Palette, (np.zeros(2, np.uint8), [1.0], 1), "table of a constant is not a NumPy array (got list)"),
    (Sparse, ([True, True], fp16(1, 2)), "mask of a constant is not a NumPy array (got list)"),
    (Sparse, (BITS, [1.0, 2.0]), "nonzero of a constant is not a NumPy array (got list)"),
    (Blockwise, ([1], fp16(1)), "data of a constant is not a NumPy array (got list)"),
    (Blockwise, (int8(1), fp16(1), [0]), "offset of a constant is not a NumPy array (got list)"),
]


@pytest.mark.parametrize(("make", "parts", "message"), NO_ARRAYS, ids=[message for *_, message in NO_ARRAYS])
def test_what_is_no_array_is_refused(make: Callable[..., Constant], parts: tuple[object, ...], message: str) -> None:
    with pytest.raises(GraphTypeError, match=re.escape(message)):
        make(*parts)


WRONG: list[tuple[Callable[[], Constant], str]] = [
    (lambda: Dense(np.zeros(2, np.complex64)), "no tensor holds elements of this type (got complex64, expected fp16"),
    (lambda: Int8Affine(np.zeros(2, np.int16), fp16(1)), "affine weights are not int8 or uint8 (got int16)"),
    (lambda: Int8Affine(int8(1, 2), fp16(1), axis=1), "axis is not an axis of a tensor of rank 1 (got 1, limit -1 to"),
    (lambda: Int8Affine(int8(1, 2), fp16(1, 1, 1)), "the scale does not fit the channels (got 3, limit 1 or 2)"),
    (
        lambda: Int8Affine(int8(1, 2), fp16(1), int8(0, 0, 0)),
        "the zero point does not fit the channels (got 3, limit 1 or 2)",
    ),
    (
        lambda: Palette(np.zeros(2, np.uint8), fp16(1), 5),
        "a palette has no such index width (got 5, limit 1, 2, 3, 4, 6, 8)",
    ),
    (lambda: Palette(int8(0, 0), fp16(1), 4), "palette indices are not uint8 (got int8)"),
    (
        lambda: Palette(np.zeros(2, np.uint8), fp16(1, 2, 3), 1),
        "the palette is too long for its indices (got (3,), limit 2)",
    ),
    (
        lambda: Palette(np.zeros(2, np.uint8), fp16(1)[None], 1),
        "the palette is too long for its indices (got (1, 1), limit 2)",
    ),
    (lambda: Palette(np.array([0, 2], np.uint8), fp16(1, 2), 4), "an index is past the palette (got 2, limit 1)"),
    (lambda: Palette(np.zeros(0, np.uint8), fp16(), 4), "the palette is empty (got (0,), expected one value or more)"),
    (lambda: Int8Affine(int8(1, 2), int8(1)), "the scale must hold floating-point numbers (got int8"),
    (lambda: Int8Affine(int8(1, 2), fp16(1), BITS), "the zero point must hold numbers (got bool)"),
    (lambda: Int8Affine(np.array(1, np.int8), fp16(1)), "affine weights have no axis of channels (got one number)"),
    (lambda: Blockwise(fp16(1, 2), fp16(1)), "the data of blocks must hold integers (got fp16)"),
    (lambda: Blockwise(BITS, fp16(1)), "the data of blocks must hold integers (got bool)"),
    (lambda: Blockwise(int8(1, 2), int8(1)), "the scale must hold floating-point numbers (got int8"),
    (lambda: Blockwise(int8(1, 2), fp16(1), np.array([True])), "the offset must hold numbers (got bool)"),
    (lambda: Sparse(np.array([1, 0], np.uint8), fp16(1)), "a sparse mask is not bool (got uint8)"),
    (lambda: Sparse(fp16(1, 0), fp16(1)), "a sparse mask is not bool (got float16)"),
    (lambda: Sparse(np.array([True, True]), fp16(1)), "values and mask do not match (got 1, limit 2)"),
    (
        lambda: Blockwise(int8(1, 2, 3), fp16(1, 2)),
        "the scale does not divide the data into blocks (got (2,), expected (3,))",
    ),
    (lambda: Blockwise(int8(1, 2), fp16(1)[None]), "the scale does not divide the data into blocks"),
    (
        lambda: Blockwise(int8(1, 2, 3), fp16(1), int8(0, 0)),
        "the offset does not divide the data into blocks (got (2,), expected (3,))",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[message for _, message in WRONG])
def test_misuse_is_explained(make: Callable[[], Constant], message: str) -> None:
    with pytest.raises(GraphError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_type_can_be_dense(dtype: str) -> None:
    assert Dense(np.zeros(3, numpy_dtype(dtype))).type == TensorType((3,), dtype)


def test_constants_without_elements() -> None:
    assert Palette(np.zeros((0, 2), np.uint8), fp16(1), 4).dense().shape == (0, 2)
    assert Sparse(np.zeros((2, 0), np.bool_), fp16()).dense().shape == (2, 0)
    assert Dense(np.zeros(0, FP16)).nbytes == 0
    assert Blockwise(np.zeros((0, 2), np.int8), np.ones((1, 2), FP16)).dense().shape == (0, 2)
