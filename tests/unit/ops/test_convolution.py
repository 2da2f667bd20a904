"""Convolution: padding by type, groups, result shapes of the transpose, counts and messages."""

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType
from op_calls import type_of, value_of


def shape(
    name: str, x: list[int], weight: list[int], bias: list[int] | None = None, /, **attributes: object
) -> list[int]:
    operands = (None if extents is None else TensorType(tuple(extents)) for extents in (x, weight, bias))
    return list(type_of(name, *operands, **attributes).shape)


def macs(name: str, x: list[int], weight: list[int], **attributes: object) -> int:
    op = find_op(name)
    types = {"x": TensorType(tuple(x)), "weight": TensorType(tuple(weight))}
    return op.work(types, op.complete(attributes)).macs


LINE = np.arange(1.0, 5).reshape(1, 1, 4)
PAIR = np.array([[[1.0, 10.0]]])


def test_the_kernel_is_not_turned_round() -> None:
    assert value_of("conv", LINE, PAIR).tolist() == [[[21, 32, 43]]]


def test_an_even_kernel_pads_behind_for_same_and_before_for_same_lower() -> None:
    assert value_of("conv", LINE, PAIR, pad_type="same").tolist() == [[[21, 32, 43, 4]]]
    assert value_of("conv", LINE, PAIR, pad_type="same_lower").tolist() == [[[10, 21, 32, 43]]]


def test_same_with_a_stride_gives_the_length_over_the_stride_rounded_up() -> None:
    assert shape("conv", [1, 1, 7, 8], [1, 1, 3, 3], pad_type="same", strides=[2, 3]) == [1, 1, 4, 3]
    assert shape("conv", [1, 1, 5], [1, 1, 1], pad_type="same", strides=[3]) == [1, 1, 2]


def test_padding_is_before_and_after_axis_by_axis() -> None:
    x = np.ones((1, 1, 1, 1))
    result = value_of("conv", x, np.ones((1, 1, 1, 1)), pad_type="custom", pad=[1, 0, 0, 2])
    assert result.tolist() == [[[[0, 0, 0], [1, 0, 0]]]]


def test_custom_without_pad_and_zeros_with_another_type_pad_nothing() -> None:
    assert shape("conv", [1, 1, 4], [1, 1, 2], pad_type="custom") == [1, 1, 3]
    assert shape("conv", [1, 1, 4], [1, 1, 2], pad_type="same", pad=[0, 0]) == [1, 1, 4]


def test_dilation_spreads_the_kernel() -> None:
    assert value_of("conv", LINE, PAIR, dilations=[2]).tolist() == [[[31, 42]]]


def test_groups_keep_channels_apart_and_bias_is_added_by_channel() -> None:
    x = np.array([[[1.0], [2.0]]])
    weight = np.array([[[10.0]], [[100.0]]])
    assert value_of("conv", x, weight, np.array([0.5, 0.25]), groups=2).ravel().tolist() == [10.5, 200.25]


def test_whole_numbers_wrap_in_their_own_type() -> None:
    x = np.full((1, 2, 1), 100, np.int8)
    result = value_of("conv", x, np.ones((1, 2, 1), np.int8))
    assert result.dtype == np.int8
    assert result.item() == 200 - 256


def test_a_batch_without_images_gives_none() -> None:
    assert value_of("conv", np.ones((0, 1, 4)), PAIR).shape == (0, 1, 3)


def test_a_common_layer_has_its_known_shape_and_count() -> None:
    stem: dict[str, object] = {"strides": [2, 2], "pad_type": "custom", "pad": [3, 3, 3, 3]}
    assert shape("conv", [1, 3, 224, 224], [64, 3, 7, 7], **stem) == [1, 64, 112, 112]
    assert macs("conv", [1, 3, 224, 224], [64, 3, 7, 7], **stem) == 118_013_952
    assert macs("conv", [1, 32, 8, 8], [32, 1, 3, 3], pad_type="same", groups=32) == 32 * 64 * 9


def test_the_transpose_spreads_the_kernel() -> None:
    assert value_of("conv_transpose", LINE, PAIR).tolist() == [[[1, 12, 23, 34, 40]]]
    assert value_of("conv_transpose", LINE, PAIR, strides=[2]).tolist() == [[[1, 10, 2, 20, 3, 30, 4, 40]]]
    assert value_of("conv_transpose", LINE, PAIR, pad_type="custom", pad=[0, 2]).tolist() == [[[1, 12, 23]]]


def test_the_transpose_of_same_is_longer_by_the_stride() -> None:
    kernel = np.array([[[1.0, 10.0, 100.0]]])
    x = np.array([[[1.0, 2.0]]])
    assert value_of("conv_transpose", x, kernel, strides=[2], pad_type="same").tolist() == [[[1, 10, 102, 20]]]
    assert shape("conv_transpose", [1, 4, 7, 9], [4, 2, 3, 3], strides=[2, 3], pad_type="same") == [1, 2, 14, 27]


def test_the_transpose_has_no_same_lower() -> None:
    with pytest.raises(GraphError, match=r"'pad_type' is not one of its choices .*expected valid, same, custom"):
        shape("conv_transpose", [1, 1, 2], [1, 1, 3], pad_type="same_lower")


def test_output_shape_adds_what_no_element_of_x_reaches() -> None:
    x, kernel, bias = np.array([[[1.0, 2.0]]]), np.ones((1, 1, 1)), np.array([0.5])
    result = value_of("conv_transpose", x, kernel, bias, strides=[3], output_shape=[1, 1, 6])
    assert result.tolist() == [[[1.5, 0.5, 0.5, 2.5, 0.5, 0.5]]]


def test_the_transpose_counts_what_its_elements_meet() -> None:
    assert macs("conv_transpose", [2, 4, 5, 5], [4, 3, 2, 2], strides=[2, 2], groups=2) == 2 * 4 * 25 * 3 * 4


@pytest.mark.parametrize("name", ["conv", "conv_transpose"])
@pytest.mark.parametrize(
    ("x", "weight", "attributes", "message"),
    [
        ([4, 4], [4, 4], {}, r"x of shape \[4, 4\] has the wrong rank"),
        ([1, 4, 8, 8], [4, 4, 3], {}, r"weight of shape \[4, 4, 3\] has the wrong rank \(got 3, limit 4\)"),
        ([1, 8, 4], [3, 2, 1], {"groups": 3}, r"groups do not divide the input channels \(got 8 channels"),
        ([1, 4, 4], [4, 4, 0], {}, r"the kernel has no elements"),
        ([1, 4, 8, 8], [4, 4, 3, 3], {"strides": [2]}, r"strides does not have one entry for each spatial axis"),
        (
            [1, 4, 8, 8],
            [4, 4, 3, 3],
            {"dilations": [1, 1, 1]},
            r"dilations does not .*\(got 3, limit 2\)",
        ),
        (
            [1, 4, 8, 8],
            [4, 4, 3, 3],
            {"pad_type": "custom", "pad": [1, 1]},
            r"pad needs .* 4 values.* top, bottom",
        ),
        ([1, 4, 8, 8], [4, 4, 3, 3], {"pad": [1, 1, 1, 1]}, r"pad_type 'valid' does not use it.*custom"),
        ([1, 4, 8], [4, 4, 3], {"strides": [0]}, r"attribute 'strides' is too small"),
        ([1, 4, 8], [4, 4, 3], {"pad_type": "full"}, r"attribute 'pad_type' is not one of its choices"),
    ],
)
def test_misuse_is_explained(
    name: str, x: list[int], weight: list[int], attributes: dict[str, object], message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        shape(name, x, weight, **attributes)


def test_channels_of_the_kernel_must_fit() -> None:
    with pytest.raises(GraphError, match=r"KernelChannels \(2\) != InputChannels \(8\) / groups \(2\).*, 4, \*kernel"):
        shape("conv", [1, 8, 4, 4], [6, 2, 3, 3], groups=2)
    with pytest.raises(GraphError, match=r"KernelChannels \(2\) != InputChannels \(8\).*\[8, output channels"):
        shape("conv_transpose", [1, 8, 4, 4], [2, 6, 3, 3])


def test_groups_must_divide_the_output_channels() -> None:
    with pytest.raises(
        GraphError, match=r"groups do not divide the output channels \(got 3 channels, expected .* of 2"
    ):
        shape("conv", [1, 4, 4], [3, 2, 1], groups=2)


def test_the_kernel_must_fit_the_padded_input() -> None:
    with pytest.raises(GraphError, match=r"conv: the window is longer than the padded axis \(got 5, limit 4\)"):
        shape("conv", [1, 1, 3], [1, 1, 3], dilations=[2], pad_type="custom", pad=[0, 1])


def test_bias_must_have_one_value_for_every_channel() -> None:
    with pytest.raises(GraphError, match=r"bias must hold .* for each output channel \(got \[4\], expected \[6\]\)"):
        shape("conv", [1, 4, 4], [6, 4, 1], [4])
    with pytest.raises(GraphError, match=r"bias must hold one number for each output channel \(got \[6, 1\]"):
        shape("conv_transpose", [1, 4, 4], [4, 3, 1], [6, 1], groups=2)


def test_output_shape_must_be_one_that_a_convolution_takes_back() -> None:
    with pytest.raises(GraphError, match=r"no convolution takes output_shape back .*expected \[1, 2, 9 to 10\]"):
        shape("conv_transpose", [1, 4, 4], [4, 2, 3], strides=[2], output_shape=[1, 2, 11])
    with pytest.raises(GraphError, match=r"no convolution takes output_shape back"):
        shape("conv_transpose", [1, 4, 4], [4, 2, 3], output_shape=[6])


def test_padding_must_leave_something_of_the_transpose() -> None:
    with pytest.raises(GraphError, match=r"the padding leaves nothing of the result"):
        shape("conv_transpose", [1, 1, 2], [1, 1, 1], pad_type="custom", pad=[1, 1])
    given: dict[str, object] = {"strides": [2], "pad_type": "custom", "pad": [2, 1], "output_shape": [1, 1, 1]}
    assert value_of("conv_transpose", LINE[..., :2], np.ones((1, 1, 1)), **given).tolist() == [[[2]]]


def test_an_empty_output_shape_and_an_empty_x_are_refused() -> None:
    with pytest.raises(GraphError, match="no convolution takes output_shape back"):
        shape("conv_transpose", [1, 1, 2], [1, 1, 1], output_shape=[])
    with pytest.raises(GraphError, match="leaves nothing"):
        shape("conv_transpose", [1, 1, 0], [1, 1, 1])


def test_truth_values_and_mixed_types_are_refused() -> None:
    conv = find_op("conv")
    attributes = conv.complete({})
    flags = TensorType((1, 1, 1), "bool")
    with pytest.raises(GraphError, match="x must hold numbers"):
        conv.types({"x": flags, "weight": flags}, attributes)
    with pytest.raises(GraphError, match="different element types"):
        conv.types({"x": TensorType((1, 1, 1)), "weight": TensorType((1, 1, 1), "fp32")}, attributes)
