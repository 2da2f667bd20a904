"""Strides: what the descriptor holds stays, products of the target's factors are taken apart, others are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.passes.factor_strides import FactorStrides
from aneforge.compiler.passes.phases import factors_of
from aneforge.errors import NotSupportedError
from aneforge.ops.constant import Int8Affine
from legalisation_tools import (
    assert_same_meaning,
    changed,
    constant,
    convolution,
    inputs_of,
    legalised,
    program_of,
    stage,
    value,
)
from program_tools import kinds_of


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_what_the_descriptor_holds_stays(stride: int) -> None:
    one = convolution(value("x", 1, 4, 9, 9), constant(6, 4, 3, 3), strides=(stride, stride))
    assert not FactorStrides()(program_of("h13", one)).modified


def test_the_list_of_factors_is_the_targets() -> None:
    def sequence(**data: tuple[int, ...] | int) -> list[str]:
        one = convolution(value("x", 1, 2, 24, 24), constant(2, 2, 8, 8), strides=(8, 8))
        return kinds_of(FactorStrides()(program_of(changed("h13", **data), one)).program)

    assert sequence() == ["pixel_unshuffle", "convolution"]
    assert sequence(stride_factors=(2, 4)) == ["pixel_unshuffle", "pixel_unshuffle", "convolution"]
    assert sequence(conv_stride_native=8) == ["convolution"]
    with pytest.raises(NotSupportedError, match="a product of at most 1 of the factors"):
        sequence(stride_factors=(2, 4), stride_factor_count=1)


@pytest.mark.parametrize("stride", [5, 7, 10, 11, 128])
def test_other_strides_are_one_clear_error(stride: int) -> None:
    one = convolution(value("x", 1, 1, 200, 200), constant(1, 1, 3, 3), strides=(stride, 1))
    with pytest.raises(NotSupportedError, match="a stride must be at most 3, or a product of at most 2") as caught:
        FactorStrides()(program_of("h13", one))
    error = caught.value
    assert (error.operation, error.seen, error.limit, error.target) == ("conv", stride, "2, 3, 4, 8", "h13")
    assert error.remedy is not None


def test_a_live_kernel_cannot_be_rearranged_but_slices_need_not() -> None:
    x = value("x", 1, 2, 12, 12)
    with pytest.raises(NotSupportedError, match="a kernel computed at run time cannot be rearranged"):
        FactorStrides()(program_of("h13", convolution(x, value("w", 2, 2, 3, 3), strides=(4, 4))))
    made = FactorStrides()(program_of("h13", convolution(x, value("w", 2, 2, 1, 1), strides=(4, 4)))).program
    assert kinds_of(made) == ["strided_slice", "convolution"]


def test_three_axes_and_padding_alone_are_refused() -> None:
    volume = convolution(value("x", 1, 1, 8, 8, 8), constant(1, 1, 2, 2, 2), strides=(4, 4, 4))
    with pytest.raises(NotSupportedError, match="three-dimensional convolution"):
        FactorStrides()(program_of("h13", volume))
    border = convolution(value("x", 1, 1, 1, 1), constant(1, 1, 3, 1), strides=(4, 1), explicit_padding=(5, 0, 0, 0))
    with pytest.raises(NotSupportedError, match="all that the kernel sees along an axis is padding"):
        FactorStrides()(program_of("h13", border))


def test_encoded_weights_become_dense_and_it_is_said() -> None:
    weights = Int8Affine(np.ones((2, 2, 4, 4), np.int8), np.ones(2, np.float16))
    made = FactorStrides()(program_of("h13", convolution(value("x", 1, 2, 8, 8), weights, strides=(4, 4)))).program
    assert made.notes[0].text.endswith("; its int8 weights became dense")


def test_strides_of_unknown_targets_are_marked() -> None:
    one = convolution(value("x", 1, 2, 20, 20), constant(2, 2, 3, 3), strides=(5, 5))
    made = FactorStrides()(program_of(changed("h13", conv_stride_native=None), one)).program
    assert dict(made.layers[0].choices) == {"stride": "unknown"}
    assert not FactorStrides()(made).modified


@given(number=st.integers(1, 200), most=st.integers(1, 3))
def test_factors_multiply_to_the_number(number: int, most: int) -> None:
    allowed = (2, 3, 4, 8)
    found = factors_of(number, allowed, most)
    products = {1} if most else set[int]()
    for _ in range(most):
        products |= {one * factor for one in products for factor in allowed}
    assert (found is not None) == (number in products)
    if found is not None:
        assert math.prod(found) == number
        assert len(found) <= most


@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data(), axes=st.integers(1, 2), groups=st.integers(1, 3))
def test_every_convolution_means_the_same(data: st.DataObject, axes: int, groups: int) -> None:
    def one_each(low: int, high: int) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(low, high)) for _ in range(axes))

    kernel, strides, dilations = one_each(1, 5), one_each(1, 12), one_each(1, 2)
    pads = tuple(data.draw(st.integers(0, 3)) for _ in range(2 * axes))
    extents = tuple(
        max(1, dilation * (length - 1) + 1) + data.draw(st.integers(0, 14))
        for length, dilation in zip(kernel, dilations, strict=True)
    )
    inner, outer = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    epilogue = Epilogue(
        pre_activation=stage("tanh") if data.draw(st.booleans()) else None,
        gain_offset=stage("gain_offset_control", {"gain": constant(groups * outer)}, axis=1),
        transpose=stage("transpose", perm=tuple(reversed(range(axes + 2)))) if data.draw(st.booleans()) else None,
    )
    one = convolution(
        value("x", 2, groups * inner, *extents),
        constant(groups * outer, inner, *kernel),
        strides=strides,
        dilation_rates=dilations,
        explicit_padding=pads,
        groups=groups,
        epilogue=epilogue,
    )
    before = program_of("h13", one)
    after = legalised(before, [FactorStrides()])
    if after is None:
        return
    products = [made for made in after.layers if made.kind.name == "convolution"]
    assert max(stride for made in products for stride in made.integers("strides")) <= 3
    assert_same_meaning(before, after, inputs_of(before))
    assert not FactorStrides()(after).modified
