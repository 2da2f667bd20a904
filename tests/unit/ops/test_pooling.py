"""Pooling: padding, ceil mode and what counts in an average, by hand and against torch."""

from itertools import product

import numpy as np
import pytest
from torch.nn import functional

from aneforge.errors import GraphError
from aneforge.ops.types import TensorType
from op_calls import type_of, value_of
from oracle_tools import array, tensor


def shape(name: str, x: list[int], dtype: str = "fp16", /, **attributes: object) -> list[int]:
    return list(type_of(name, TensorType(tuple(x), dtype), **attributes).shape)


LINE = np.arange(1.0, 6).reshape(1, 1, 5)


def test_windows_go_by_one_unless_strides_say_more() -> None:
    assert value_of("max_pool", LINE, kernel_sizes=[2]).tolist() == [[[2, 3, 4, 5]]]
    assert value_of("max_pool", LINE, kernel_sizes=[2], strides=[2]).tolist() == [[[2, 4]]]


def test_padding_is_never_the_largest() -> None:
    result = value_of("max_pool", -LINE, kernel_sizes=[2], strides=[2], pad_type="custom", pad=[1, 0])
    assert result.tolist() == [[[-1, -2, -4]]]
    whole = value_of("max_pool", -LINE.astype(np.int8), kernel_sizes=[2], pad_type="same_lower")
    assert whole.dtype == np.int8
    assert whole.tolist() == [[[-1, -1, -2, -3, -4]]]


def test_padding_counts_in_an_average_unless_it_is_excluded() -> None:
    padded: dict[str, object] = {"kernel_sizes": [3], "strides": [2], "pad_type": "custom", "pad": [1, 1]}
    assert value_of("avg_pool", LINE, **padded).tolist() == [[[1, 3, 3]]]
    assert value_of("avg_pool", LINE, **padded, exclude_padding_from_average=True).tolist() == [[[1.5, 3, 4.5]]]
    same = value_of("avg_pool", LINE, kernel_sizes=[2], pad_type="same", exclude_padding_from_average=True)
    assert same.tolist() == [[[1.5, 2.5, 3.5, 4.5, 5]]]


def test_what_lies_behind_the_padding_never_counts() -> None:
    result = value_of("avg_pool", LINE, kernel_sizes=[3], strides=[3], ceil_mode=True)
    assert result.tolist() == [[[2, 4.5]]]
    asymmetric = value_of(
        "avg_pool", LINE, kernel_sizes=[4], strides=[4], pad_type="custom", pad=[0, 1], ceil_mode=True
    )
    assert asymmetric.tolist() == [[[2.5, 2.5]]]


def test_no_window_begins_in_the_padding_behind() -> None:
    pads: dict[str, object] = {"kernel_sizes": [2], "strides": [2], "pad_type": "custom"}
    assert shape("max_pool", [1, 1, 4], **pads, pad=[1, 1], ceil_mode=True) == [1, 1, 3]
    assert shape("max_pool", [1, 1, 5], **pads, pad=[1, 1], ceil_mode=True) == [1, 1, 3]
    assert shape("max_pool", [1, 1, 5], kernel_sizes=[2], strides=[2], ceil_mode=True) == [1, 1, 3]


@pytest.mark.parametrize("name", ["max_pool", "avg_pool", "l2_pool"])
def test_a_last_window_without_padding_that_sees_nothing_is_refused(name: str) -> None:
    apart: dict[str, object] = {"kernel_sizes": [1], "strides": [4], "ceil_mode": True}
    with pytest.raises(GraphError, match=r"sees nothing \(got a window of 1 every 4 along an axis of 4\).*ceil_mode"):
        shape(name, [1, 1, 4], **apart)
    with pytest.raises(GraphError, match="sees nothing"):
        shape(name, [1, 1, 4], **apart, pad_type="custom", pad=[0, 0])
    half_padded: dict[str, object] = {"pad_type": "custom", "pad": [0, 0, 1, 1], "ceil_mode": True}
    with pytest.raises(GraphError, match="sees nothing"):
        shape(name, [1, 1, 4, 4], kernel_sizes=[1, 2], strides=[4, 4], **half_padded)
    assert shape(name, [1, 1, 5], **apart) == [1, 1, 2]
    padded: dict[str, object] = {"kernel_sizes": [2], "strides": [5], "pad_type": "custom", "ceil_mode": True}
    assert shape(name, [1, 1, 4], **padded, pad=[0, 1]) == [1, 1, 1], "where there is padding, it is left out"


def test_the_root_of_squares_rounds_up_too() -> None:
    assert value_of("l2_pool", LINE, kernel_sizes=[3], strides=[3], ceil_mode=True)[..., 1].item() == np.hypot(4, 5)
    assert value_of("l2_pool", np.array([[[3e200, -4e200]]]), kernel_sizes=[2]).item() == pytest.approx(5e200)


def test_l2_is_the_root_of_the_sum_of_squares() -> None:
    x = np.array([[[3.0, -4.0, 12.0]]])
    assert value_of("l2_pool", x, kernel_sizes=[2]).tolist() == [[[5, np.sqrt(160)]]]
    assert value_of("l2_pool", x, kernel_sizes=[3]).tolist() == [[[13]]]
    assert value_of("l2_pool", x, kernel_sizes=[2], pad_type="same").tolist() == [[[5, np.sqrt(160), 12]]]


@pytest.mark.parametrize("name", ["ne_pool", "pe_pool"])
def test_the_units_pool_as_their_mode_says(name: str) -> None:
    x = np.array([[[3.0, -4.0]]])
    results = {mode: value_of(name, x, mode=mode, kernel_sizes=[2]).item() for mode in ("average", "max", "l2")}
    assert results == {"average": -0.5, "max": 3, "l2": 5}
    assert shape(name, [1, 1, 2], "int32", mode="max", kernel_sizes=[2]) == [1, 1, 1]
    with pytest.raises(GraphError, match="floating-point"):
        shape(name, [1, 1, 2], "int32", mode="average", kernel_sizes=[2])


def test_nan_stays_where_it_is_seen() -> None:
    x = np.array([[[np.nan, 1.0, 2.0]]])
    result = value_of("max_pool", x, kernel_sizes=[2], pad_type="same")
    assert np.isnan(result).tolist() == [[[True, False, False]]]


@pytest.mark.parametrize(
    ("extent", "window", "stride", "pad"), list(product([4, 5, 6, 7, 8], [2, 3, 4], [1, 2, 3, 4], [0, 1]))
)
def test_ceil_mode_and_counts_are_those_of_torch(extent: int, window: int, stride: int, pad: int) -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, extent, 8))
    given: dict[str, object] = {
        "kernel_sizes": [window, 2],
        "strides": [stride, 3],
        "pad_type": "custom",
        "pad": [pad, pad, 1, 1],
    }
    sizes = (window, 2), (stride, 3), (pad, 1)
    # Where the last window would see nothing, torch leaves it out; that is refused here, and tested apart.
    sees_nothing = pad == 0 and -((window - extent) // stride) * stride >= extent
    for ceil in (False,) if sees_nothing else (False, True):
        largest = functional.max_pool2d(tensor(x), *sizes, ceil_mode=ceil)
        np.testing.assert_array_equal(value_of("max_pool", x, **given, ceil_mode=ceil), array(largest))
        for exclude in (False, True):
            average = functional.avg_pool2d(tensor(x), *sizes, ceil_mode=ceil, count_include_pad=not exclude)
            result = value_of("avg_pool", x, **given, ceil_mode=ceil, exclude_padding_from_average=exclude)
            np.testing.assert_allclose(result, array(average), rtol=1e-12)


@pytest.mark.parametrize("name", ["max_pool", "avg_pool", "l2_pool"])
@pytest.mark.parametrize(
    ("x", "attributes", "message"),
    [
        ([4, 4], {"kernel_sizes": []}, r"x of shape \[4, 4\] has the wrong rank"),
        ([1, 1, 4, 4], {"kernel_sizes": [2]}, r"kernel_sizes does not have one entry .*\(got 1, limit 2\)"),
        ([1, 1, 4, 4], {"kernel_sizes": [2, 2], "strides": [2]}, r"strides does not have one entry"),
        ([1, 1, 4], {}, r"attribute 'kernel_sizes' is missing"),
        ([1, 1, 4], {"kernel_sizes": [0]}, r"attribute 'kernel_sizes' is too small"),
        ([1, 1, 4], {"kernel_sizes": [5]}, r"the window is longer than the padded axis \(got 5, limit 4\)"),
        ([1, 1, 4], {"kernel_sizes": [2], "pad_type": "custom", "pad": [1]}, r"pad needs a value before"),
        ([1, 1, 4], {"kernel_sizes": [2], "pad": [1, 1]}, r"pad_type 'valid' does not use it"),
        (
            [1, 1, 4],
            {"kernel_sizes": [2], "pad_type": "custom", "pad": [0, 2]},
            r"contain only padding .*of 2, expected",
        ),
        ([1, 1, 0], {"kernel_sizes": [2], "pad_type": "custom", "pad": [1, 1]}, r"an axis without elements"),
        ([1, 1, 0], {"kernel_sizes": [1], "pad_type": "same"}, r"longer than the padded axis"),
    ],
)
def test_misuse_is_explained(name: str, x: list[int], attributes: dict[str, object], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        shape(name, x, **attributes)


def test_ceil_mode_does_not_go_with_computed_padding() -> None:
    with pytest.raises(GraphError, match=r"ceil_mode goes with padding that is given \(got same, expected valid or"):
        shape("max_pool", [1, 1, 4], kernel_sizes=[2], pad_type="same", ceil_mode=True)


def test_truth_values_and_averages_of_whole_numbers_are_refused() -> None:
    with pytest.raises(GraphError, match="x must hold numbers"):
        shape("max_pool", [1, 1, 4], "bool", kernel_sizes=[2])
    with pytest.raises(GraphError, match="floating-point"):
        shape("avg_pool", [1, 1, 4], "int32", kernel_sizes=[2])
