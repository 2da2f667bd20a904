"""Windows that are too long: kernels on phases, averages in turn, and the rule that is broken where neither helps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.compiler.ir.layer import Epilogue
from aneforge.compiler.passes.split_windows import SplitWindows
from aneforge.errors import IllegalGraphError
from legalisation_tools import (
    assert_same_meaning,
    changed,
    constant,
    convolution,
    inputs_of,
    layer,
    legalised,
    program_of,
    stage,
    value,
)
from program_tools import kinds_of

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer


def average(*shape: int, epilogue: Epilogue | None = None, **attributes: object) -> Layer:
    """Return an average pooling."""
    return layer("average_pool", {"x": value("x", *shape)}, "y", epilogue=epilogue, **attributes)


def test_an_epilogue_that_moves_axes_becomes_layers() -> None:
    epilogue = Epilogue(post_activation=stage("tanh"), transpose=stage("transpose", perm=(0, 3, 1, 2)))
    before = program_of("h13", convolution(value("x", 1, 2, 4, 32), constant(4, 2, 1, 15), epilogue=epilogue))
    after = SplitWindows()(before).program
    assert kinds_of(after)[-1] == "transpose"
    assert after.notes[-1].text == "a fusion is undone: stages of its epilogue became layers"
    assert_same_meaning(before, after, inputs_of(before))


def test_a_gain_along_another_axis_becomes_a_layer() -> None:
    gain = stage("gain_offset_control", {"gain": constant(18)}, axis=3)
    before = program_of(
        "h13", convolution(value("x", 1, 2, 4, 32), constant(4, 2, 1, 15), epilogue=Epilogue(gain_offset=gain))
    )
    after = SplitWindows()(before).program
    assert kinds_of(after)[-1] == "gain_offset_control"
    assert_same_meaning(before, after, inputs_of(before))


def test_the_limit_is_the_targets() -> None:
    one = convolution(value("x", 1, 2, 4, 32), constant(4, 2, 1, 15))
    assert SplitWindows()(program_of("h13", one)).modified
    assert not SplitWindows()(program_of("h16g", one)).modified
    assert not SplitWindows()(program_of(changed("h13", conv_kw_max=15), one)).modified
    unknown = SplitWindows()(program_of(changed("h13", conv_kw_max=None), one)).program
    assert dict(unknown.layers[0].choices) == {"window": "unknown"}
    assert not SplitWindows()(unknown).modified


def test_numbers_of_phases_are_products_of_as_many_factors_as_there_may_be() -> None:
    one = convolution(value("x", 1, 1, 1, 200), constant(1, 1, 1, 150))
    assert SplitWindows()(program_of("h13", one)).modified
    with pytest.raises(IllegalGraphError, match="no number of phases"):
        SplitWindows()(program_of(changed("h13", stride_factor_count=1), one))


def test_what_cannot_be_rearranged_is_the_rules_error() -> None:
    live = convolution(value("x", 1, 2, 4, 32), value("w", 4, 2, 1, 15))
    with pytest.raises(IllegalGraphError, match=r"ANE-KERNEL-001 oversize: conv on h13: .* 15 columns .* at run time"):
        SplitWindows()(program_of("h13", live))
    tall = convolution(value("x", 1, 1, 40, 4, 4), constant(1, 1, 20, 1, 1))
    with pytest.raises(IllegalGraphError, match=r"ANE-KERNEL-003 .* one or two axes"):
        SplitWindows()(program_of("h13", tall))
    huge = convolution(value("x", 1, 1, 1, 3000), constant(1, 1, 1, 2000))
    with pytest.raises(IllegalGraphError, match=r"ANE-KERNEL-001 .* no number of phases"):
        SplitWindows()(program_of("h13", huge))
    transposed = layer(
        "deconvolution",
        {"input": value("x", 1, 1, 4, 4), "weights": constant(1, 1, 1, 15)},
        "y",
        strides=(1, 1),
        dilation_rates=(1, 1),
        explicit_padding=(0, 0, 0, 0),
        kernel_sizes=(1, 15),
        output_sizes=(4, 18),
    )
    with pytest.raises(IllegalGraphError, match="ANE-KERNEL-001 oversize: conv_transpose"):
        SplitWindows()(program_of("h13", transposed))


@pytest.mark.parametrize(
    ("attributes", "kinds"),
    [
        ({"kernel_sizes": (30, 2), "strides": (30, 1)}, ["average_pool", "average_pool", "average_pool"]),
        (
            {"kernel_sizes": (60, 3), "strides": (1, 2), "pad_type": "custom", "pad": (0, 0, 1, 1)},
            ["reduce_avg", "average_pool"],
        ),
        ({"kernel_sizes": (60, 1)}, ["reduce_avg"]),
    ],
)
def test_other_averages_are_taken_in_turn(attributes: dict[str, Any], kinds: list[str]) -> None:
    for exclude in (True, False):
        one = average(1, 2, 60, 5, exclude_padding_from_average=exclude, **attributes)
        before = program_of("h13", one)
        after = SplitWindows()(before).program
        assert kinds_of(after) == kinds
        assert_same_meaning(before, after, inputs_of(before))


def test_the_epilogue_of_an_average_stands_behind_it() -> None:
    before = program_of(
        "h13", average(1, 4, 56, 56, kernel_sizes=(56, 56), epilogue=Epilogue(post_activation=stage("relu")))
    )
    after = SplitWindows()(before).program
    assert kinds_of(after) == ["reduce_avg", "relu"]
    assert_same_meaning(before, after, inputs_of(before))


@pytest.mark.parametrize("attributes", [{"kernel_sizes": (31, 1)}, {"kernel_sizes": (60, 1), "pad_type": "same"}])
def test_an_average_of_a_prime_is_the_rules_error(attributes: dict[str, Any]) -> None:
    with pytest.raises(IllegalGraphError, match=r"ANE-KERNEL-004 .* neither covers all of an axis"):
        SplitWindows()(program_of("h13", average(1, 2, 60, 5, **attributes)))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=st.data(), axes=st.integers(1, 2), groups=st.integers(1, 2))
def test_every_convolution_means_the_same(data: st.DataObject, axes: int, groups: int) -> None:
    target = changed("h13", conv_kw_max=2, conv_kernel_height_large=3)

    def one_each(low: int, high: int) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(low, high)) for _ in range(axes))

    kernel, strides, dilations = one_each(1, 7), one_each(1, 3), one_each(1, 2)
    pads = tuple(data.draw(st.integers(0, 3)) for _ in range(2 * axes))
    reach = [dilation * (length - 1) + 1 for length, dilation in zip(kernel, dilations, strict=True)]
    one = convolution(
        value("x", 1, 2 * groups, *(least + data.draw(st.integers(0, 9)) for least in reach)),
        constant(2 * groups, 2, *kernel),
        strides=strides,
        dilation_rates=dilations,
        explicit_padding=pads,
        groups=groups,
        epilogue=Epilogue(gain_offset=stage("gain_offset_control", {"offset": constant(2 * groups)}, axis=1)),
    )
    before = program_of(target, one)
    after = legalised(before, [SplitWindows()])
    if after is not None:
        assert_same_meaning(before, after, inputs_of(before))
        assert not SplitWindows()(after).modified
