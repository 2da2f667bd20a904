"""Convolutions of the kernels, bit for bit against the golden model, on every path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import golden, quantised
from aneforge.engine.kernels.convolution import (
    apply_gain_to_convolution,
    apply_gain_to_winograd,
    convolution,
    convolution_total,
    int8_convolution,
    winograd_convolution,
    winograd_total,
)
from aneforge.engine.kernels.library import using
from aneforge.errors import GraphError, GraphTypeError
from kernel_checks import assert_same_bits, biases, needs_kernels, on_every_path, tensors

if TYPE_CHECKING:
    from aneforge.engine.golden import Window

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """Shapes of a convolution and its window."""

    images: tuple[int, ...]
    kernels: tuple[int, ...]
    window: Window


@st.composite
def cases(draw: st.DrawFn, *, axes: int, most_channels: int = 5) -> Case:
    """Draw a convolution over some axes: any stride, padding, dilation and grouping."""
    kernel = tuple(draw(st.integers(1, 4)) for _ in range(axes))
    dilations = [draw(st.integers(1, 3)) for _ in range(axes)]
    pads = [(draw(st.integers(0, 4)), draw(st.integers(0, 4))) for _ in range(axes)]
    extents: list[int] = []
    for length, dilation, pad in zip(kernel, dilations, pads, strict=True):
        least = max(dilation * (length - 1) + 1 - sum(pad), 1)
        extents.append(least + draw(st.one_of(st.integers(0, 6), st.integers(0, 40 if axes < 3 else 6))))
    groups, inner, outer = draw(st.integers(1, 3)), draw(st.integers(1, most_channels)), draw(st.integers(1, 12))
    window: Window = {
        "stride": [draw(st.integers(1, 4)) for _ in range(axes)],
        "pad": pads,
        "dilation": dilations,
        "groups": groups,
    }
    batch = draw(st.integers(1, 3))
    return Case((batch, groups * inner, *extents), (groups * outer, inner, *kernel), window)


def golden_convolution(x: Array, weight: Array, bias: Array | None, window: Window) -> Array:
    with np.errstate(all="ignore"):
        return golden.convolution(x, weight, bias, **window)


def random(generator: np.random.Generator, shape: tuple[int, ...], scale: float = 1.0) -> Array:
    return (generator.standard_normal(shape) * scale).astype(np.float16)


@on_every_path
@settings(max_examples=120, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_adversarial_images(path: str, data: st.DataObject, axes: int, threads: int) -> None:
    case = data.draw(cases(axes=axes))
    x, weight = data.draw(tensors(case.images, case.kernels))
    bias = data.draw(biases(case.kernels[:1]))
    with using(path=path, threads=threads), np.errstate(all="ignore"):
        found = convolution(x, weight, bias, **case.window)
        total = convolution_total(x, weight, bias, **case.window)
        expected = golden.convolution_sum(x, weight, bias, **case.window).total()
    assert_same_bits(found, golden.round_out(expected))
    np.testing.assert_array_equal(total, expected)


@on_every_path
@pytest.mark.parametrize(
    ("images", "kernels", "window"),
    [
        ((1, 64, 14, 14), (40, 64, 3, 3), {"pad": 1}),
        ((2, 32, 7, 7), (64, 32, 3, 3), {"pad": 1}),
        ((1, 3, 40, 40), (16, 3, 7, 7), {"stride": 2, "pad": 3}),
        ((1, 48, 9, 33), (48, 1, 3, 3), {"pad": 1, "groups": 48}),
        ((1, 24, 20, 20), (24, 1, 5, 5), {"stride": 2, "pad": [(1, 2), (2, 1)], "groups": 24}),
        ((1, 300, 6, 5), (70, 300, 1, 1), {}),
        ((5, 300, 1, 1), (70, 300, 1, 1), {}),
        ((1, 2, 3, 1100), (5, 2, 3, 3), {"pad": 1}),
        ((1, 2, 1, 700), (3, 2, 1, 9), {"dilation": [1, 40]}),
        ((1, 1, 33, 33), (2, 1, 31, 31), {"pad": 4}),
        ((1, 1200, 5, 5), (9, 1200, 3, 3), {"pad": 1}),
        ((1, 8, 4, 6), (8, 4, 2, 3), {"stride": [3, 2], "groups": 2}),
    ],
)
@pytest.mark.parametrize("scale", [0.05, 1.0, 40.0])
def test_shapes_of_networks(
    path: str, images: tuple[int, ...], kernels: tuple[int, ...], window: Window, scale: float
) -> None:
    generator = np.random.default_rng(len(path))
    x, weight, bias = (
        random(generator, images, scale),
        random(generator, kernels, scale),
        random(generator, kernels[:1]),
    )
    with using(path=path):
        assert_same_bits(convolution(x, weight, bias, **window), golden_convolution(x, weight, bias, window))


@on_every_path
def test_the_edge_is_passed_in_the_order_of_channels_then_taps(path: str) -> None:
    """Two channels of ±2^14: passing in the first and coming back in the second is infinite, not the other way."""
    half = np.full((1, 1, 5, 20), 2.0**7, np.float16)
    x = np.concatenate([half, half], axis=1)
    weight = np.zeros((3, 2, 1, 2), np.float16)
    weight[0, :, 0] = [[128, 128], [-128, -128]]
    weight[1, :, 0] = [[128, -128], [128, -128]]
    weight[2, :, 0] = [[64, 127.9375], [-64, -127.9375]]
    expected = golden_convolution(x, weight, None, {})
    assert expected[0, :, 0, 0].tolist() == [np.inf, 0.0, 0.0]
    with using(path=path):
        assert_same_bits(convolution(x, weight), expected)


@on_every_path
def test_channels_of_zeros_hide_no_edge(path: str) -> None:
    """Bounds of nothing times anything are nothing: what comes after them is still seen to pass the edge."""
    x = np.full((1, 8, 6, 6), 2.0**7, np.float16)
    weight = np.zeros((2, 8, 3, 3), np.float16)
    weight[:, 5], weight[:, 7] = 128, -128
    expected = golden_convolution(x, weight, None, {})
    assert np.isinf(expected).all()
    with using(path=path):
        assert_same_bits(convolution(x, weight), expected)


@needs_kernels
def test_taps_that_are_too_far_apart_find_no_memory() -> None:
    x, weight = np.ones((1, 1, 4, 4), np.float16), np.ones((1, 1, 2, 2), np.float16)
    with pytest.raises(MemoryError, match="ran out of memory"):
        convolution(x, weight, pad=100_000, dilation=200_000)


@on_every_path
@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(1, 12), st.integers(1, 40), st.integers(1, 6), st.integers(1, 20))
def test_adversarial_images_by_winograd(
    path: str, data: st.DataObject, height: int, width: int, channels: int, outer: int
) -> None:
    pad = data.draw(st.sampled_from([1, [(2, 1), (1, 3)], [(1, 1), (2, 2)]]))
    x, weight = data.draw(tensors((2, channels, height, width), (outer, channels, 3, 3)))
    bias = data.draw(biases((outer,)))
    with using(path=path), np.errstate(all="ignore"):
        found, total = winograd_convolution(x, weight, bias, pad=pad), winograd_total(x, weight, bias, pad=pad)
        expected = golden.winograd_total(x, weight, bias, pad=pad)
        assert_same_bits(found, golden.round_out(expected))
    np.testing.assert_array_equal(total, expected)


@on_every_path
@pytest.mark.parametrize("images", [(1, 64, 16, 32), (2, 40, 7, 7), (1, 400, 4, 6), (1, 2, 3, 1100)])
@pytest.mark.parametrize("scale", [0.05, 1.0, 40.0])
def test_winograd_on_shapes_of_networks(path: str, images: tuple[int, ...], scale: float) -> None:
    generator = np.random.default_rng(len(path))
    x, weight = random(generator, images, scale), random(generator, (33, images[1], 3, 3), scale)
    with using(path=path):
        assert_same_bits(winograd_convolution(x, weight), golden.winograd_convolution(x, weight))


@on_every_path
@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 3))
def test_bytes_add_exactly(path: str, data: st.DataObject, axes: int) -> None:
    case = data.draw(cases(axes=axes))
    generator = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    x = generator.integers(-128, 128, case.images).astype(np.int8)
    weight = generator.integers(-128, 128, case.kernels).astype(np.int8)
    scale = data.draw(st.sampled_from([1.0, np.full((case.kernels[0], *(1,) * axes), 2.0**-9)]))
    slides = golden.Slides.of(axes, **case.window)
    expected = quantised.int8_convolution(
        x,
        weight,
        scale,
        strides=tuple(slides.strides),
        dilations=tuple(slides.dilations),
        pad_type="custom",
        pad=tuple(side for pair in slides.pads for side in pair),
        groups=slides.groups,
    )
    with using(path=path):
        assert_same_bits(int8_convolution(x, weight, scale, **case.window), expected)


@st.composite
def gains_and_offsets(draw: st.DrawFn, channels: int) -> tuple[Array, Array | None]:
    """Draw a gain and perhaps an offset: any fp16 numbers as the engine reads them, zeros of both signs among them."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    wild = generator.integers(0, 65536, (2, channels)).astype(np.uint16).view(np.float16)
    few = generator.choice([0.0, -0.0, 1.0, -1.5, 2.0**-24, 2.0**15], (2, channels))
    gain, offset = np.where(generator.random((2, channels)) < 0.5, golden.bias_operand(wild), few)
    return gain, offset if draw(st.booleans()) else None


@on_every_path
@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 3))
def test_gain_and_offset_behind_sums(path: str, data: st.DataObject, axes: int, threads: int) -> None:
    case = data.draw(cases(axes=axes))
    x, weight = data.draw(tensors(case.images, case.kernels))
    gain, offset = data.draw(gains_and_offsets(case.kernels[0]))
    with using(path=path, threads=threads):
        found = apply_gain_to_convolution(x, weight, gain, offset, **case.window)
    with using(golden=True):
        wanted = apply_gain_to_convolution(x, weight, gain, offset, **case.window)
    np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


@on_every_path
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_gains_on_sums_that_lie_halfway_or_one_unit_beside(path: str, seed: int, alone: bool) -> None:  # noqa: FBT001 - drawn
    """Sums are 2^11 + 1 and less than a unit of 2^-16 more or less: neither float32 nor fp16 tells them from a tie."""
    generator = np.random.default_rng(seed)
    channels = 12
    x = np.empty((1, channels, 5, 9), np.float16)
    x[:, 0::4], x[:, 1::4] = 2048.0, generator.integers(-3, 4, (1, 3, 5, 9))
    x[:, 2::4], x[:, 3::4] = (
        generator.integers(-2, 3, (1, 3, 5, 9)) * 2.0**-8,
        generator.choice([0.0, -0.0], (1, 3, 5, 9)),
    )
    weight = np.where(np.arange(4) == 2, 2.0**-8, 1.0).astype(np.float16)
    gain = generator.choice([1.0, -1.0, 2.0**-12, -(2.0**-20), 0.7998046875, 48.0, 0.0, 1e-300, 1e300], 3)
    offset = generator.choice([0.0, -0.0, -2048.0, 2048.0, 2.0**-24, 0.33325, 1e-300], 3) * gain
    kernels = weight.reshape(1, 4, 1, 1).repeat(3, axis=0)
    with np.errstate(over="ignore"), using(path=path):
        found = apply_gain_to_convolution(x, kernels, gain, None if alone else offset, groups=3)
    with np.errstate(over="ignore"), using(golden=True):
        wanted = apply_gain_to_convolution(x, kernels, gain, None if alone else offset, groups=3)
    np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


@on_every_path
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_gain_and_offset_behind_sums_of_winograd(path: str, data: st.DataObject) -> None:
    extents = data.draw(st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 6), st.integers(1, 40)))
    channels = data.draw(st.integers(1, 18))
    x, weight = data.draw(tensors(extents, (channels, extents[1], 3, 3)))
    gain, offset = data.draw(gains_and_offsets(channels))
    with using(path=path):
        found = apply_gain_to_winograd(x, weight, gain, offset)
    with using(golden=True):
        wanted = apply_gain_to_winograd(x, weight, gain, offset)
    np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


def test_a_gain_rounds_once_and_images_of_one_place_have_one_too() -> None:
    x = np.broadcast_to(np.array([2048.0, 0.5], np.float16).reshape(1, 2, 1, 1), (3, 2, 1, 1))
    weight = np.ones((1, 2, 1, 1), np.float16)
    for golden_model in (False, True):
        with using(golden=golden_model):
            assert (
                apply_gain_to_convolution(x, weight, np.array([1.0]), np.array([0.5])).ravel().tolist() == [2050.0] * 3
            )
            assert apply_gain_to_convolution(x, weight, np.array([0.0]), None).ravel().tolist() == [0.0] * 3
            beyond = apply_gain_to_convolution(x * 20, weight, np.array([0.0]), None)
            assert beyond.ravel().tolist() == [0.0] * 3, "0 times an infinite sum"
    with pytest.raises(GraphError, match="a gain has one number for every output channel"):
        apply_gain_to_convolution(x, weight, np.ones(2), None)
    with pytest.raises(GraphError, match="an offset has one number for every output channel"):
        apply_gain_to_convolution(x, weight, np.ones(1), np.ones(2))


@on_every_path
def test_a_bias_of_exponent_31_is_beyond_the_edge_and_never_nan(path: str) -> None:
    bits = np.array([0x7C00, 0xFC00, 0x7E00, 0xFE00, 0x7FFF, 0xFFFF, 0x7C01], np.uint16)
    bias = bits.view(np.float16).astype(np.float64)
    x, weight = np.full((1, 2, 3, 4), -100.0, np.float16), np.full((7, 2, 3, 3), 2.0, np.float16)
    signs = np.where(bits >> 15, -np.inf, np.inf)
    with using(path=path):
        for found in (convolution(x, weight, bias, pad=1), winograd_convolution(x, weight, bias)):
            np.testing.assert_array_equal(found[0, :, 1, 1], signs)


@needs_kernels
def test_bits_strided_images_and_no_images() -> None:
    generator = np.random.default_rng(0)
    x, weight = random(generator, (2, 4, 9, 9)), random(generator, (3, 4, 3, 3))
    turned = x.transpose(0, 1, 3, 2)[:, :, ::2]
    assert_same_bits(convolution(turned, weight), golden_convolution(turned, weight, None, {}))
    assert convolution(x.view(np.uint16), weight).dtype == np.uint16
    assert convolution(x[:0], weight).shape == (0, 3, 7, 7)
    assert winograd_convolution(x[:0], weight).shape == (0, 3, 9, 9)


def test_operands_that_do_not_go_together() -> None:
    x, weight = np.ones((1, 4, 5, 5), np.float16), np.ones((6, 2, 3, 3), np.float16)
    with pytest.raises(GraphError, match="different channels in 1 groups"):
        convolution(x, weight)
    with pytest.raises(GraphError, match="different channels in 4 groups"):
        convolution(np.ones((1, 8, 5, 5), np.float16), weight, groups=4)
    with pytest.raises(GraphError, match="the kernel is longer than the padded images"):
        convolution(x, weight, groups=2, dilation=3)
    with pytest.raises(GraphError, match=r"one number for every output channel \(got 5, limit 6\)"):
        convolution(x, weight, np.ones(5), groups=2)
    with pytest.raises(GraphError, match="the kernels are empty"):
        convolution(x, np.ones((6, 4, 0, 3), np.float16))
    for wrong in ({"stride": 0}, {"dilation": -1}, {"groups": 0}, {"pad": [(0, 1), (-1, 0)]}):
        with pytest.raises(GraphError, match=r"strides, dilations and groups are positive.*Slides\("):
            convolution(x, weight, **cast("Window", wrong))
    with pytest.raises(GraphError, match="one stride, dilation and pair of padding for every axis"):
        convolution(x, weight, stride=[1])
    with pytest.raises(GraphError, match="a padded axis is too long"):
        convolution(x, weight, groups=2, pad=2**30)
    with pytest.raises(GraphError, match="one to three spatial axes"):
        convolution(x[0], weight, groups=2)
    with pytest.raises(GraphError, match="Winograd takes 3×3 kernels"):
        winograd_convolution(x, weight[..., :2])
    with pytest.raises(GraphTypeError, match="kernels take fp16 numbers"):
        convolution(x.astype(np.float64), weight)
    with pytest.raises(GraphTypeError, match="an operand is not int8"):
        int8_convolution(x, weight)
