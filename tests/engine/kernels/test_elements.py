"""Conversions, tables and pairs of elements, bit for bit against the golden model, on every path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import planar
from aneforge.engine.activations import ACTIVATIONS
from aneforge.engine.kernels import elements
from aneforge.engine.kernels.library import using
from aneforge.engine.rounding import to_fp16
from aneforge.errors import GraphError, GraphTypeError
from kernel_checks import assert_same_bits, needs_kernels, on_every_path, tensors

if TYPE_CHECKING:
    from collections.abc import Callable

Array = npt.NDArray[Any]
ALL_NUMBERS = np.arange(65536, dtype=np.uint16).view(np.float16)
PAIRS: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Array, Array], Array]]] = {
    "add": (elements.add, planar.add),
    "sub": (elements.sub, planar.sub),
    "mul": (elements.mul, planar.mul),
    "maximum": (elements.maximum, planar.maximum),
    "minimum": (elements.minimum, planar.minimum),
}


def around_every_boundary(dtype: type[np.floating[Any]]) -> Array:
    """Return all fp16 numbers, what lies halfway between neighbours, and the next wide numbers on both sides."""
    finite = np.sort(ALL_NUMBERS[np.isfinite(ALL_NUMBERS)].astype(np.float64))
    middles = (finite[1:] + finite[:-1]) / 2
    exact = np.concatenate([finite, middles, [65519.99, 65520.0, 65536.0, 1e30, -65520.0]]).astype(dtype)
    up, down = np.nextafter(exact, dtype(np.inf)), np.nextafter(exact, dtype(-np.inf))
    tiny = np.finfo(dtype).smallest_subnormal
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, tiny, -tiny, np.finfo(dtype).max], dtype)
    return np.concatenate([exact, up, down, special])


@on_every_path
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_conversion_around_every_number_and_tie(path: str, dtype: type[np.floating[Any]]) -> None:
    values = around_every_boundary(dtype)
    with using(path=path), np.errstate(all="ignore"):
        assert_same_bits(elements.to_fp16(values), to_fp16(values.astype(np.float64)))


@on_every_path
@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([np.float32, np.float64]))
def test_conversion_of_any_bits(path: str, seed: int, dtype: type[np.floating[Any]]) -> None:
    raw = np.random.default_rng(seed).bytes(8 * 4003)
    values = np.frombuffer(raw, dtype)
    with using(path=path), np.errstate(all="ignore"):
        assert_same_bits(elements.to_fp16(values), to_fp16(values.astype(np.float64)))


@on_every_path
def test_what_a_host_hands_over_is_rounded_as_numpy_rounds(path: str) -> None:
    drawn = np.random.default_rng(0).integers(0, 2**32, 300_003, np.uint32).view(np.float32)
    signalling = np.array([0x7F800001, 0xFF812345], np.uint32).view(np.float32)
    for every in (around_every_boundary(np.float32), drawn, signalling):
        small = every[np.abs(every) < 65520]  # the others are NumPy's
        for values in (every, small, small[:0], small[::2]):
            with using(path=path), np.errstate(all="ignore"):
                given = elements.hand_over(values)
            with np.errstate(all="ignore"):
                assert np.array_equal(given.view(np.uint16), values.astype(np.float16).view(np.uint16))


@on_every_path
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_a_table_is_the_function_for_every_number(path: str, name: str) -> None:
    function = ACTIVATIONS[name]
    with np.errstate(all="ignore"):
        expected = function(ALL_NUMBERS.astype(np.float64))
    with using(path=path):
        assert_same_bits(elements.lookup(ALL_NUMBERS, elements.table_of(function)), expected)


@on_every_path
@pytest.mark.parametrize("name", PAIRS)
def test_every_number_meets_all_sorts_of_partners(path: str, name: str) -> None:
    kernel, model = PAIRS[name]
    generator = np.random.default_rng(9)
    partners = np.concatenate([generator.integers(0, 65536, 30), np.arange(0, 65536, 4096), np.arange(4), [0x7FFF]])
    y = partners.astype(np.uint16).view(np.float16)[:, None]
    with using(path=path), np.errstate(all="ignore"):
        assert_same_bits(kernel(ALL_NUMBERS, y), model(ALL_NUMBERS, y))
        assert_same_bits(kernel(y, ALL_NUMBERS), model(y, ALL_NUMBERS))


@on_every_path
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_any_bits(path: str, name: str) -> None:
    kernel, model = PAIRS[name]
    x, y = np.random.default_rng(3).integers(0, 65536, (2, 1_000_003)).astype(np.uint16).view(np.float16)
    with using(path=path), np.errstate(all="ignore"):
        assert_same_bits(kernel(x, y), model(x, y))


SHAPES = [
    ((), ()),
    ((5,), ()),
    ((2, 3, 50), (3, 1)),
    ((2, 3, 50), (50,)),
    ((4, 1, 7), (3, 7)),
    ((1, 40), (40, 1)),
    ((0, 3), (3,)),
]


@on_every_path
@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(SHAPES), st.sampled_from(sorted(PAIRS)))
def test_shapes_are_broadcast(
    path: str, data: st.DataObject, shapes: tuple[tuple[int, ...], tuple[int, ...]], name: str
) -> None:
    kernel, model = PAIRS[name]
    x, y = data.draw(tensors(*shapes))
    with using(path=path), np.errstate(all="ignore"):
        assert_same_bits(kernel(x, y), np.asarray(model(x, y)))
        assert_same_bits(kernel(y, x), np.asarray(model(y, x)))
        assert_same_bits(kernel(x.T, x.T), np.asarray(model(x.T, x.T)))


@needs_kernels
def test_strided_operands_and_bits() -> None:
    x = np.arange(120, dtype=np.float16).reshape(4, 30)
    assert_same_bits(elements.add(x[:, ::2], x[::-1, 1::2]), planar.add(x[:, ::2], x[::-1, 1::2]))
    odd = np.zeros(9, np.dtype([("number", np.float16), ("byte", np.int8)]))["number"]
    shifted = np.frombuffer(bytes(9), np.float16, offset=1)
    assert_same_bits(elements.add(odd, odd + 1), np.ones(9))
    assert_same_bits(elements.add(shifted, shifted + 1), np.ones(4))
    assert elements.add(x.view(np.uint16), x).dtype == np.uint16
    assert elements.lookup(x.view(np.uint16), elements.table_of(np.negative)).dtype == np.uint16
    assert_same_bits(elements.lookup(x[::2, ::3], elements.table_of(np.negative)), -x[::2, ::3])
    assert elements.to_fp16(x.astype(np.float64)[::2, ::3]).tolist() == x[::2, ::3].tolist()
    assert elements.to_fp16(np.array(2049.0)).item() == 2050.0


def test_what_does_not_fit() -> None:
    x = np.ones((2, 3), np.float16)
    with pytest.raises(GraphError, match=r"add: the shapes do not match \(got \(2, 3\) and \(2,\)\)"):
        elements.add(x, x[:, 0])
    with pytest.raises(GraphError, match="one entry for every bit pattern"):
        elements.lookup(x, np.zeros(7, np.uint16))
    with pytest.raises(GraphTypeError, match=r"takes wide numbers \(got float16, expected float32 or float64\)"):
        elements.to_fp16(x)
    with pytest.raises(GraphTypeError, match="mul: kernels take fp16 numbers"):
        elements.mul(x, x.astype(np.int16))
