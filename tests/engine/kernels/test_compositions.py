"""Distances, transposed convolutions, norms and magnitudes, bit for bit against the golden model, on every path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import golden, normalisation, planar, pooling
from aneforge.engine.choices import choices
from aneforge.engine.kernels import norms
from aneforge.engine.kernels.deconvolution import deconvolution, deconvolution_total
from aneforge.engine.kernels.distances import compute_scaled_distances, largest_magnitude
from aneforge.engine.kernels.library import using
from aneforge.engine.kernels.operations import euclidean
from aneforge.engine.rounding import to_fp16
from kernel_checks import assert_same_bits, biases, on_every_path, tensors

if TYPE_CHECKING:
    from aneforge.ops.groups.pooling import PoolAttributes

Array = npt.NDArray[Any]
EARLY = choices().reduction.orders["early"]


@on_every_path
@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([(1, 1), (3, 1), (1, 70), (3, 70)]), st.sampled_from([(1, 1), (3, 70)]))
def test_distances(path: str, data: st.DataObject, shift: tuple[int, int], factor: tuple[int, int]) -> None:
    (x, first, second) = data.draw(tensors((3, 70), shift, factor))
    wide = planar.read(first.view(np.float16)), planar.read(second.view(np.float16)) / 3
    numbers = planar.read(x.view(np.float16)) - wide[0]
    with using(path=path):
        assert_same_bits(compute_scaled_distances(x, *wide), to_fp16(numbers * wide[1]))
        assert largest_magnitude(x) == np.abs(planar.read(x.view(np.float16))).max()


@on_every_path
def test_magnitudes_of_long_arrays(path: str) -> None:
    x = np.zeros(3_000_001, np.float16)
    with using(path=path, threads=3):
        assert largest_magnitude(x[:0]) == 0.0
        for place, value in ((0, -7.5), (1_500_000, 9.0), (3_000_000, -np.inf)):
            x[place] = value
            assert largest_magnitude(x) == min(abs(value), 65536.0)


@on_every_path
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_transposed_convolutions(path: str, data: st.DataObject) -> None:
    def draw(least: int, most: int) -> int:
        return data.draw(st.integers(least, most))

    groups, axes = draw(1, 2), draw(1, 2)
    kernel, places = [draw(1, 4) for _ in range(axes)], [draw(1, 6) for _ in range(axes)]
    stride, dilation = [draw(1, 4) for _ in range(axes)], [draw(1, 3) for _ in range(axes)]
    full = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(places, stride, dilation, kernel, strict=True)]
    pad = [(draw(0, length // 3), draw(0, length // 3)) for length in full]
    extents = [max(length - sum(cut) + draw(0, 2), 1) for length, cut in zip(full, pad, strict=True)]
    x, weight = data.draw(tensors((2, 2 * groups, *places), (2 * groups, 3, *kernel)))
    images, kernels = x.view(np.float16), weight.view(np.float16)
    bias = data.draw(biases((3 * groups,)))
    window: golden.Window = {"stride": stride, "dilation": dilation, "pad": pad, "groups": groups}
    with np.errstate(all="ignore"), using(path=path):
        wanted = golden.deconvolution_sum(images, kernels, bias, extents=extents, **window)
        assert_same_bits(deconvolution(images, kernels, bias, extents=extents, **window), wanted.result())
        found = deconvolution_total(images, kernels, bias, extents=extents, **window)
        np.testing.assert_array_equal(found.view(np.uint64), wanted.total().view(np.uint64))


@on_every_path
@pytest.mark.parametrize("order", ["early", "late"])
@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(0, 2))
def test_softmax_and_norms(path: str, order: str, data: st.DataObject, axis: int) -> None:
    adder = choices().reduction.orders[order]
    (bits,) = data.draw(tensors((3, 5, 37)))
    x = bits.view(np.float16)
    with np.errstate(all="ignore"), using(path=path):
        assert_same_bits(norms.softmax(x, axis, adder), normalisation.softmax(x, axis, adder))
        for axes in ((axis,), (1, 2)):
            wanted = normalisation.standardise(x, axes, 1e-5, adder)
            assert_same_bits(norms.standardise(x, axes, 1e-5, adder), wanted)
            assert_same_bits(norms.by_length(x, axes, 1e-3, adder), normalisation.by_length(x, axes, 1e-3, adder))


@on_every_path
@pytest.mark.parametrize("order", ["early", "late"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((37, 40), (1,)), ((2, 19, 35), (1,)), ((3, 4, 5, 6), (2, 3)), ((33, 1), (1,))]
)
def test_layer_norm_with_gain_and_offset_of_every_place(
    path: str, order: str, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    adder, generator = choices().reduction.orders[order], np.random.default_rng(len(shape))
    x, gamma, beta = (
        generator.standard_normal(one).astype(np.float16) * np.float16(scale)
        for one, scale in ((shape, 30), ([shape[axis] for axis in axes], 1), ([shape[axis] for axis in axes], 1))
    )
    x[0] = -0.0  # a row without a deviation
    wanted = normalisation.GOLDEN.standardised_affine(x, axes, 1e-5, adder, gamma, beta)
    with using(path=path, threads=2):
        assert_same_bits(norms.layer_norm(x, axes, 1e-5, adder, gamma, beta), wanted)
        assert_same_bits(
            norms.layer_norm(x, axes, 1e-5, adder, None, beta),
            normalisation.GOLDEN.standardised_affine(x, axes, 1e-5, adder, None, beta),
        )


@on_every_path
def test_sums_whose_order_could_matter_go_the_golden_way(path: str) -> None:
    late = choices().reduction.orders["late"]
    bits = np.random.default_rng(0).integers(0, 65536, (3, 12000)).astype(np.uint16)
    x = bits.view(np.float16)
    with np.errstate(all="ignore"), using(path=path):
        assert_same_bits(norms.standardise(x, (1,), 1e-5, late), normalisation.standardise(x, (1,), 1e-5, late))
        assert_same_bits(norms.softmax(x, 1, late), normalisation.softmax(x, 1, late))


@on_every_path
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_euclidean_pooling(path: str, data: st.DataObject) -> None:
    (bits,) = data.draw(tensors((1, 2, 7, 9)))
    window: PoolAttributes = {"kernel_sizes": (3, 2), "strides": (2, 1), "pad_type": "custom", "pad": (1, 1, 0, 1)}
    x = bits.view(np.float16)
    with np.errstate(all="ignore"), using(path=path):
        assert_same_bits(euclidean(x, EARLY, window), pooling.euclidean(x, EARLY, window))
