"""Elements of a few bits: bytes without gaps, whole and in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as stn

from aneforge.ops import packing
from aneforge.ops.packing import Packed

if TYPE_CHECKING:
    from collections.abc import Iterator

Array = npt.NDArray[Any]
WIDTHS = st.integers(1, 8)


@pytest.fixture(autouse=True, scope="module")
def few_at_once() -> Iterator[None]:
    """Small arrays are packed in several parts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "AT_ONCE", 16)
        yield


def elements(data: st.DataObject, bits: int, shape: tuple[int, ...]) -> Array:
    return data.draw(stn.arrays(np.uint8, shape, elements=st.integers(0, (1 << bits) - 1)))


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("count", [0, 1, 7, 8, 1000])
def test_the_first_element_is_in_the_lowest_bits(bits: int, count: int) -> None:
    given_elements = np.random.default_rng(count).integers(0, 1 << bits, count).astype(np.uint8)
    stored = packing.pack_bits(given_elements, bits)
    assert stored.size == packing.count_packed_bytes(count, bits)
    whole = sum(int(element) << (place * bits) for place, element in enumerate(given_elements))
    assert int.from_bytes(stored.tobytes(), "little") == whole
    assert np.array_equal(packing.unpack_bits(stored, bits, count), given_elements)


@given(st.data(), WIDTHS, stn.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9))
def test_what_is_packed_comes_back(data: st.DataObject, bits: int, shape: tuple[int, ...]) -> None:
    numbers = elements(data, bits, shape)
    packed = Packed.of(numbers, bits)
    assert packed.stored.nbytes == packing.count_packed_bytes(numbers.size, bits)
    assert not packed.stored.flags.writeable
    assert not packed.unpacked().flags.writeable
    np.testing.assert_array_equal(packed.unpacked(), numbers, strict=True)
    np.testing.assert_array_equal(packed.T.unpacked(), numbers.T, strict=True)
    np.testing.assert_array_equal(packed.reshape(numbers.size, 1).unpacked(), numbers.reshape(-1, 1), strict=True)
    runs = list(packed.runs())
    assert all(run.size <= packing.AT_ONCE for run in runs)
    assert [one for run in runs for one in run.tolist()] == numbers.ravel().tolist()


@given(st.data(), WIDTHS, stn.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=20))
def test_parts_are_those_of_the_array(data: st.DataObject, bits: int, shape: tuple[int, ...]) -> None:
    numbers = elements(data, bits, shape)
    axis = data.draw(st.integers(0, len(shape) - 1))
    begin = data.draw(st.integers(0, shape[axis]))
    size = data.draw(st.integers(0, shape[axis] - begin))
    part = Packed.of(numbers, bits).part(axis, begin, size)
    np.testing.assert_array_equal(part.unpacked(), np.take(numbers, range(begin, begin + size), axis), strict=True)
    assert part.stored.nbytes == packing.count_packed_bytes(part.size, bits)


def test_rows_of_whole_bytes_and_other_shapes_are_the_same_memory() -> None:
    packed = Packed.of(np.arange(32, dtype=np.uint8).reshape(8, 4) % 16, 4)
    for same in (packed.part(0, 3, 2), packed.reshape(1, 8, 2, 2), packed.reshape(1, 8, 4).part(1, 0, 7)):
        assert np.shares_memory(same.stored, packed.stored)
    assert not np.shares_memory(packed.part(1, 0, 1).stored, packed.stored)


def test_bytes_that_nobody_can_write_are_kept_without_a_copy() -> None:
    numbers = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert not np.shares_memory(Packed.of(numbers, 8).stored, numbers)
    numbers.flags.writeable = False
    assert np.shares_memory(Packed.of(numbers, 8).stored, numbers)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (np.zeros(3, np.uint8), r"uint8 \[3\] are not 3 elements of 4 bits in bytes"),
        (np.zeros(2, np.int8), r"int8 \[2\] are not 3 elements"),
        (np.zeros((1, 2), np.uint8), r"uint8 \[1, 2\] are not 3 elements"),
        (np.array([0, 0x10], np.uint8), "bits after its last element are set"),
    ],
)
def test_other_bytes_are_refused(stored: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Packed(stored, (3,), 4)
