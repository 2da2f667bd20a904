"""Layouts on chip and in DRAM, the model of banks, and the arena that gives out room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.compiler.axes import Axis
from aneforge.compiler.memory.arena import Arena
from aneforge.compiler.memory.layout import (
    Banks,
    Extents,
    Layout,
    Strides,
    bank_requests,
    dram_layout,
    extents_of,
    on_chip_layout,
    restride_row,
    same_places,
)
from aneforge.errors import GraphError, NotSupportedError
from aneforge.ops.types import TensorType

BANKS = Banks(64, 16)


@pytest.mark.parametrize(
    ("shape", "dtype", "strides", "size"),
    [
        # Compiled programs: 16 bytes for a channel of one element, 0xa0 for 77 of them.
        ((1, 64, 1, 1), "fp16", Strides(1024, 1024, 16, 16), 1024),
        ((1, 2, 1, 77), "fp16", Strides(0x140, 0x140, 0xA0, 0xA0), 0x140),
        ((2, 3, 4, 5), "fp16", Strides(192, 192, 64, 16), 384),
        ((2, 3, 4, 5, 6), "int8", Strides(960, 240, 80, 16), 1920),
        ((7,), "fp32", Strides(32, 32, 32, 32), 32),
        ((), "fp16", Strides(16, 16, 16, 16), 16),
        ((1, 1, 1, 33), "int4", Strides(32, 32, 32, 32), 32),
    ],
)
def test_on_chip(shape: tuple[int, ...], dtype: str, strides: Strides, size: int) -> None:
    layout = on_chip_layout(TensorType(shape, dtype), BANKS)
    assert (layout.strides, layout.size) == (strides, size)


@pytest.mark.parametrize(
    ("shape", "strides", "size"),
    [
        ((1, 3, 8, 40), Strides(3072, 3072, 1024, 128), 3072),
        ((1, 3, 224, 224), Strides(301056, 301056, 100352, 448), 301056),
        ((5, 7), Strides(320, 320, 64, 64), 320),
        ((), Strides(64, 64, 64, 64), 64),
    ],
)
def test_in_dram(shape: tuple[int, ...], strides: Strides, size: int) -> None:
    layout = dram_layout(TensorType(shape))
    assert (layout.strides, layout.size) == (strides, size)


def test_a_tensor_of_more_axes_than_the_engine_has() -> None:
    with pytest.raises(NotSupportedError, match="the engine has five axes"):
        extents_of((1, 1, 1, 1, 1, 1))


@pytest.mark.parametrize(
    ("rows", "stride", "requests"),
    [
        (64, 0x400, 64),  # a stride of all banks: every row in the same one
        (64, 0x410, 1),
        (64, 0x420, 2),
        (32, 0x420, 1),  # the stride of a compiled program: 32 rows in 32 banks
        (64, 0x40, 4),
        (65, 0x10, 2),
        (1, 0x400, 1),
    ],
)
def test_how_often_banks_are_asked(rows: int, stride: int, requests: int) -> None:
    assert bank_requests(rows, stride, BANKS) == requests


@settings(deadline=None)
@given(rows=st.integers(1, 600), units=st.integers(1, 600))
def test_no_shorter_stride_is_better(rows: int, units: int) -> None:
    row = restride_row(16 * units, rows, BANKS)
    least = -(-rows // 64)
    assert bank_requests(rows, row, BANKS) == least
    assert all(bank_requests(rows, shorter, BANKS) > least for shorter in range(16 * units, row, 16))


def test_banks_as_addresses_would_have_it() -> None:
    # The model against its definition: the fullest bank among the first bytes of all rows.
    for stride in range(16, 2049, 16):
        for rows in (1, 3, 32, 64, 100):
            banks = (np.arange(rows) * stride // 16) % 64
            assert bank_requests(rows, stride, BANKS) == np.bincount(banks).max()


def test_rows_that_are_there_at_a_time() -> None:
    layout = on_chip_layout(TensorType((2, 8, 100, 16)), BANKS, rows=6)
    assert (layout.extents, layout.size) == (Extents(1, 8, 1, 6, 16), 8 * 6 * 32)


def test_a_part_of_a_tensor_has_its_strides() -> None:
    whole = on_chip_layout(TensorType((1, 8, 4, 16)), BANKS)
    part = whole.inside(Extents(1, 2, 1, 4, 8))
    assert (part.strides, part.size) == (whole.strides, 128 + 3 * 32 + 16)
    assert [whole.stride_of(axis) for axis in Axis] == [1024, 128, 1024, 32, 2]


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ((1, 64, 56, 56), (1, 64, 3136), True),
        ((1, 64, 56, 56), (64, 3136), True),
        ((1, 4, 14, 14), (1, 4, 196), False),  # rows of 28 bytes have gaps
        ((128, 384), (1, 128, 12, 32), True),
        ((1, 512, 1, 1), (1, 512), False),  # channels are 16 bytes apart
        ((1, 512, 1, 1), (1, 512, 1), True),
        ((2, 3, 4, 8), (6, 4, 8), True),
        ((1, 2, 3, 4, 8), (1, 6, 4, 8), False),  # on chip the depth is outside the channels
    ],
)
def test_which_shapes_share_their_bytes(first: tuple[int, ...], second: tuple[int, ...], *, alike: bool) -> None:
    layouts = [on_chip_layout(TensorType(shape), BANKS) for shape in (first, second)]
    assert same_places(*layouts) is alike


def places(layout: Layout) -> list[int]:
    """Return the bit of every element, in the order of the axes."""
    extents, strides = layout.extents, layout.strides
    found = np.array([0])
    axes = (
        (extents.batch, strides.batch * 8),
        (extents.channels, strides.channel * 8),
        (extents.depth, strides.depth * 8),
        (extents.rows, strides.row * 8),
        (extents.width, layout.bits),
    )
    for count, stride in axes:
        found = np.add.outer(found, np.arange(count) * stride).ravel()
    return found.tolist()


shapes = st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=1, max_size=5).map(tuple)


@settings(deadline=None, max_examples=200)
@given(first=shapes, second=shapes, dram=st.booleans())
def test_same_places_by_definition(first: tuple[int, ...], second: tuple[int, ...], *, dram: bool) -> None:
    layouts = [
        dram_layout(TensorType(shape)) if dram else on_chip_layout(TensorType(shape), BANKS)
        for shape in (first, second)
    ]
    if TensorType(first).size == TensorType(second).size:
        assert same_places(*layouts) is (places(layouts[0]) == places(layouts[1]))


@settings(deadline=None, max_examples=100)
@given(shape=shapes, dtype=st.sampled_from(["fp16", "int8", "fp32"]), dram=st.booleans(), restrided=st.booleans())
def test_no_two_elements_share_a_byte(shape: tuple[int, ...], dtype: str, *, dram: bool, restrided: bool) -> None:
    tensor = TensorType(shape, dtype)
    layout = dram_layout(tensor) if dram else on_chip_layout(tensor, BANKS, restrided=restrided)
    found = places(layout)
    assert len(set(found)) == tensor.size
    assert max(found) + layout.bits <= 8 * layout.size


# The arena.


def test_the_smallest_gap_that_fits_is_taken() -> None:
    arena = Arena(1000)
    offsets = [arena.take(100) for _ in range(10)]
    assert offsets == list(range(0, 1000, 100))
    arena.give_back(100, 100)
    arena.give_back(300, 100)
    arena.give_back(400, 100)
    arena.give_back(600, 100)
    assert arena.take(100) == 100  # the lowest of those of its size
    assert arena.take(150) == 300
    assert arena.take(100) == 600
    assert arena.take(100) is None
    assert arena.highest == 1000


def test_gaps_join() -> None:
    arena = Arena(300)
    assert [arena.take(100) for _ in range(3)] == [0, 100, 200]
    for begin in (0, 200, 100):
        arena.give_back(begin, 100)
    assert arena.take(300) == 0


@pytest.mark.parametrize(("begin", "size"), [(0, 100), (200, 100), (250, 100), (-16, 16)])
def test_room_that_is_free_cannot_be_given_back(begin: int, size: int) -> None:
    arena = Arena(300)
    assert [arena.take(100) for _ in range(3)] == [0, 100, 200]
    arena.give_back(0, 100)
    arena.give_back(200, 100)
    with pytest.raises(GraphError, match="memory is freed twice"):
        arena.give_back(begin, size)


def test_an_arena_without_room() -> None:
    assert Arena(0).take(1) is None


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 40)), max_size=80))
def test_no_byte_is_given_out_twice(steps: list[tuple[bool, int]]) -> None:
    arena, held = Arena(200), dict[int, int]()
    for takes, number in steps:
        if takes:
            offset = arena.take(number)
            taken = sorted((begin, begin + size) for begin, size in held.items())
            if offset is not None:
                assert all(offset + number <= begin or end <= offset for begin, end in taken)
                held[offset] = number
            else:
                edges = [0, *(edge for pair in taken for edge in pair), 200]
                assert all(after - before < number for before, after in zip(edges[::2], edges[1::2], strict=True))
        elif held:
            begin = sorted(held)[number % len(held)]
            arena.give_back(begin, held.pop(begin))
