"""Sums, extremes and pooling of the kernels, bit for bit against the golden model, on every path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import planar, pooling
from aneforge.engine import reductions as golden
from aneforge.engine.choices import AdderChoice, choices
from aneforge.engine.kernels import reductions
from aneforge.engine.kernels.library import using
from aneforge.engine.kernels.reductions import Of
from aneforge.errors import GraphError, GraphTypeError
from kernel_checks import assert_same_bits, needs_kernels, on_every_path, tensors

if TYPE_CHECKING:
    from aneforge.ops.groups.pooling import PoolAttributes

Array = npt.NDArray[Any]
EVIDENCE = choices().reduction.evidence
ADDERS = [
    AdderChoice(group=group, tree=tree, window=window, evidence=EVIDENCE)
    for group, tree, window in [(4, 16, 0), (1, 1, 0), (3, 2, 12), (4, 16, 12), (64, 64, 0), (2, 8, 11)]
] + [
    AdderChoice(chain=8, times=3, bits=12, evidence=EVIDENCE),
    AdderChoice(chain=3, times=1, bits=9, evidence=EVIDENCE),
]


@st.composite
def reduced(draw: st.DrawFn) -> tuple[Array, tuple[int, ...]]:
    """Draw a tensor and axes that go."""
    shape = tuple(draw(st.lists(st.one_of(st.integers(1, 5), st.integers(1, 90)), min_size=1, max_size=3)))
    axes = draw(st.sets(st.integers(0, len(shape) - 1), min_size=1).map(lambda chosen: tuple(sorted(chosen))))
    (x,) = draw(tensors(shape))
    return x, axes


@on_every_path
@settings(max_examples=150, deadline=None)
@given(reduced(), st.sampled_from(ADDERS), st.sampled_from([Of.VALUES, Of.MAGNITUDES, Of.SQUARES]))
def test_sums_in_the_order_that_is_given(
    path: str, case: tuple[Array, tuple[int, ...]], adder: AdderChoice, of: Of
) -> None:
    x, axes = case
    numbers = planar.read(x)
    summands = {Of.VALUES: numbers, Of.MAGNITUDES: np.abs(numbers), Of.SQUARES: golden.squares(numbers)}[of]
    with using(path=path), np.errstate(all="ignore"):
        assert reductions.accumulate(x, axes, adder, of).tolist() == golden.accumulate(summands, axes, adder).tolist()


@on_every_path
@settings(max_examples=100, deadline=None)
@given(reduced(), st.sampled_from(ADDERS))
def test_totals_and_means(path: str, case: tuple[Array, tuple[int, ...]], adder: AdderChoice) -> None:
    x, axes = case
    with using(path=path), np.errstate(all="ignore"):
        assert_same_bits(reductions.total(x, axes, adder), golden.total(x, axes, adder))
        assert_same_bits(reductions.mean(x, axes, adder), golden.mean(x, axes, adder))
        squares = golden.total_of_squares(x, axes, adder)
        assert_same_bits(reductions.total(x, axes, adder, Of.SQUARES), squares)


@on_every_path
@settings(max_examples=100, deadline=None)
@given(reduced(), st.booleans())
def test_extremes(path: str, case: tuple[Array, tuple[int, ...]], keep: bool) -> None:  # noqa: FBT001 - drawn
    x, axes = case
    with using(path=path):
        for kernel, model in [(reductions.largest, golden.largest), (reductions.smallest, golden.smallest)]:
            found, expected = kernel(x, axes=axes, keep_dims=keep), model(x, axes=axes, keep_dims=keep)
            assert_same_bits(found, np.asarray(expected))


@on_every_path
@pytest.mark.parametrize("count", [1, 2, 5, 64, 65, 4096])
def test_a_sum_of_negative_zeros(path: str, count: int) -> None:
    zeros = np.full((1, count), -0.0, np.float16)
    with using(path=path):
        for adder in ADDERS:
            assert_same_bits(reductions.total(zeros, (1,), adder), golden.total(zeros, (1,), adder))


@needs_kernels
def test_a_sum_too_long_to_be_exact_goes_the_golden_way() -> None:
    adder = AdderChoice(group=1, tree=1, window=0, evidence=EVIDENCE)
    x = np.random.default_rng(0).integers(0, 65536, (2, 9000)).astype(np.uint16).view(np.float16)
    assert_same_bits(reductions.total(x, (1,), adder), golden.total(x, (1,), adder))
    uneven = AdderChoice(group=4, tree=128, window=0, evidence=EVIDENCE)
    assert_same_bits(reductions.total(x, (1,), uneven), golden.total(x, (1,), uneven))


@needs_kernels
def test_a_long_row_on_several_threads() -> None:
    x = np.random.default_rng(0).standard_normal((300, 5000)).astype(np.float16)
    for axes in [(0,), (1,), (0, 1)]:
        assert_same_bits(reductions.total(x, axes, ADDERS[0]), golden.total(x, axes, ADDERS[0]))
        assert_same_bits(reductions.total(x.T, axes, ADDERS[0]), golden.total(x.T, axes, ADDERS[0]))


@st.composite
def pooled(draw: st.DrawFn) -> tuple[Array, PoolAttributes]:
    """Draw images and a window over one to three axes."""
    axes = draw(st.integers(1, 3))
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(axes))
    pad = tuple(draw(st.integers(0, length - 1)) for length in kernel for _ in range(2))
    extents = tuple(
        max(length - sum(pad[2 * axis : 2 * axis + 2]), 1) + draw(st.integers(0, 20 if axes < 3 else 4))
        for axis, length in enumerate(kernel)
    )
    attributes: PoolAttributes = {
        "kernel_sizes": kernel,
        "strides": tuple(draw(st.integers(1, 3)) for _ in range(axes)),
        "pad_type": "custom",
        "pad": pad,
        "exclude_padding_from_average": draw(st.booleans()),
    }
    (x,) = draw(tensors((draw(st.integers(1, 2)), draw(st.integers(1, 4)), *extents)))
    return x, attributes


@on_every_path
@settings(max_examples=100, deadline=None)
@given(pooled(), st.sampled_from(ADDERS))
def test_pools(path: str, case: tuple[Array, PoolAttributes], adder: AdderChoice) -> None:
    x, attributes = case
    with using(path=path), np.errstate(all="ignore"):
        assert_same_bits(reductions.max_pool(x, **attributes), pooling.largest(x, **attributes))
        assert_same_bits(reductions.average_pool(x, adder, **attributes), pooling.average(x, adder, attributes))


@on_every_path
@pytest.mark.parametrize("places", [15, 16, 17, 31, 33])
def test_the_last_places_of_a_row(path: str, places: int) -> None:
    x = np.random.default_rng(places).integers(0, 65536, (1, 2, 5, 2 * places + 1)).astype(np.uint16).view(np.float16)
    attributes: PoolAttributes = {"kernel_sizes": (3, 3), "strides": (2, 2), "pad_type": "valid", "pad": None}
    with using(path=path), np.errstate(all="ignore"):
        assert_same_bits(reductions.max_pool(x, **attributes), pooling.largest(x, **attributes))
        for adder in ADDERS:
            assert_same_bits(reductions.average_pool(x, adder, **attributes), pooling.average(x, adder, attributes))


@needs_kernels
def test_windows_that_reach_behind_the_padding() -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float16)
    attributes: PoolAttributes = {
        "kernel_sizes": (3, 3),
        "strides": (2, 2),
        "pad_type": "custom",
        "pad": (1, 0, 0, 1),
        "ceil_mode": True,
    }
    assert_same_bits(reductions.max_pool(x, **attributes), pooling.largest(x, **attributes))
    assert_same_bits(reductions.average_pool(x, ADDERS[0], **attributes), pooling.average(x, ADDERS[0], attributes))


def test_what_does_not_fit() -> None:
    with pytest.raises(GraphTypeError, match="kernels take fp16 numbers"):
        reductions.total(np.ones(3), (0,), ADDERS[0])
    with pytest.raises(GraphError, match="longer than"):
        reductions.max_pool(np.ones((1, 1, 2), np.float16), kernel_sizes=(3,), strides=None, pad_type="valid", pad=None)
