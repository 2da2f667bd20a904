"""Grids and regions give onnxruntime's numbers, for batches, lengths and regions of every sort."""

from __future__ import annotations

import math
import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.shared.findings import InvalidModelError, UnsupportedModelError
from unit.formats.onnx.onnx_models import numbers, one_node, results
from unit.formats.onnx.runtime_results import of_runtime

IMAGES = numbers(2, 3, 9, 11)
LENGTHS = ((5, 5), (3, 7), (1, 4), (4, 1), (1, 1), (2, 3, 4), (1, 3, 5), (3, 1, 5), (3, 5, 1), (1, 1, 1))


@pytest.mark.parametrize(("batch", "lengths"), list(product((1, 2, 3), LENGTHS)))
def test_an_affine_grid_is_that_of_the_runtime(batch: int, lengths: tuple[int, ...]) -> None:
    axes = len(lengths)
    feeds = {"a": numbers(batch, axes, axes + 1)}
    for align in (0, 1):
        model = one_node("AffineGrid", feeds, {"b": np.array([batch, 3, *lengths])}, {"align_corners": align}, opset=20)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="AffineGrid at node")
            found = results(model, feeds)["y"]
        np.testing.assert_allclose(found, of_runtime(model, feeds)[0], rtol=1e-5, atol=1e-5)


def test_a_single_place_between_aligned_corners_is_told() -> None:
    model = one_node("AffineGrid", {"a": numbers(1, 2, 3)}, {"b": np.array([1, 1, 1, 4])}, {"align_corners": 1})
    with pytest.warns(UserWarning, match="aligns corners and has one place along an axis: it is read at 1"):
        from_onnx(model)


@pytest.mark.parametrize(
    ("transforms", "size"),
    [((2, 2, 3), [1, 1, 4, 4]), ((1, 3, 4), [1, 1, 4, 4]), ((1, 2, 3), [1, 1, 4]), ((1, 2, 3), [1, 1, 0, 4])],
)
def test_transforms_that_do_not_fit_are_told(transforms: tuple[int, ...], size: list[int]) -> None:
    with pytest.raises(InvalidModelError, match="the transforms do not fit the size"):
        from_onnx(one_node("AffineGrid", {"a": numbers(*transforms)}, {"b": np.array(size)}))


def test_a_grid_is_not_larger_than_memory() -> None:
    model = one_node("AffineGrid", {"a": numbers(1, 2, 3)}, {"b": np.array([1, 1, 2**20, 2**20])})
    with pytest.raises(UnsupportedModelError, match="it needs a table of"):
        from_onnx(model)


@settings(max_examples=30)
@given(st.data())
def test_regions_that_choose_their_places_are_those_of_the_runtime(data: st.DataObject) -> None:
    bound = st.integers(-4, 18)
    count = data.draw(st.integers(1, 4))
    corners = [sorted(data.draw(st.tuples(bound, bound))) for _ in range(2 * count)]
    # [R, x or y, first or last] as x, y, x, y; a region has a length, because the runtime fails at none.
    spans = np.array(corners, np.float32).reshape(count, 2, 2) + np.array([0, 0.5], np.float32)
    regions = (spans / 2).transpose(0, 2, 1).reshape(count, 4)
    attributes: dict[str, object] = {
        "output_height": data.draw(st.integers(1, 3)),
        "output_width": data.draw(st.integers(1, 3)),
        "spatial_scale": data.draw(st.sampled_from([1.0, 0.5, 0.3])),
        "mode": data.draw(st.sampled_from(["avg", "max"])),
        "coordinate_transformation_mode": data.draw(st.sampled_from(["half_pixel", "output_half_pixel"])),
    }
    images = np.array(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)))
    model = one_node("RoiAlign", {"a": IMAGES}, {"b": regions, "c": images}, attributes, opset=16)
    wanted = of_runtime(model, {"a": IMAGES})[0]
    np.testing.assert_allclose(results(model, {"a": IMAGES})["y"], wanted, rtol=1e-4, atol=1e-4)


def regions_of(*rows: list[float]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array(rows, np.float32).reshape(-1, 4)


def test_a_region_without_a_length_reads_nothing() -> None:
    constants = {"b": regions_of([5, 5, 5, 8], [0, 0, 4, 4]), "c": np.array([0, 1])}
    found = results(one_node("RoiAlign", {"a": IMAGES}, constants), {"a": IMAGES})["y"]
    assert not found[0].any()
    assert found[1].any()


def test_no_region_gives_an_empty_result() -> None:
    model = one_node("RoiAlign", {"a": IMAGES}, {"b": regions_of(), "c": np.zeros(0, np.int64)})
    assert from_onnx(model).outputs["y"].shape == (0, 3, 1, 1)


def test_regions_that_are_computed_need_a_number_of_places() -> None:
    model = one_node("RoiAlign", {"a": IMAGES, "b": regions_of([0, 0, 4, 4])}, {"c": np.array([0])})
    with pytest.raises(UnsupportedModelError, match="depends on the size of its region"):
        from_onnx(model)


@pytest.mark.parametrize(
    ("region", "attributes", "message"),
    [([0, 0, math.inf, 1], {}, "regions are not finite"), ([0, 0, 1, 1], {"sampling_ratio": -1}, "is negative")],
)
def test_regions_that_make_no_sense_are_told(region: list[float], attributes: dict[str, object], message: str) -> None:
    model = one_node("RoiAlign", {"a": IMAGES}, {"b": regions_of(region), "c": np.array([0])}, attributes)
    with pytest.raises(InvalidModelError, match=message):
        from_onnx(model)
