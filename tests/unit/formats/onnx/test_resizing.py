"""Resize picks the elements that onnxruntime picks, by scales and by sizes; where it does not, the import warns."""

# pyright: reportMissingTypeStubs=false
# onnxruntime has no types.

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
import pytest

from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.onnx.operators.onnx_resizing import NEAREST_MODES
from aneforge.formats.shared.findings import InvalidModelError
from unit.formats.onnx.onnx_models import made, node, results
from unit.formats.onnx.runtime_results import of_runtime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx

    from aneforge.ops.types import Array

OPSET = 11
"""The first one that has the modes, and the last but one that has all of them."""
TRANSFORMS = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "tf_half_pixel_for_nn")
SYMMETRIC, SYMMETRIC_OPSET = "half_pixel_symmetric", 19
SCALES = (0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.9, 1.1, 1.2, 1.3, 1.4, 1.7, 2.2, 2.6, 3.3, 2 / 3, 4 / 3)
SIZES = (1, 5, 6, 7, 9, 12, 18, 21, 35, 42, 45, 49, 74)
LENGTHS = (10, 12, 14, 20, 30)
TIES_SINCE = (1, 31)
"""The release of onnxruntime whose ties were measured; older ones miss some of them by a rounding (its issue 28291)."""
OLD_TIES = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < TIES_SINCE


def column(length: int) -> Array:
    return np.arange(length, dtype=np.float32).reshape(1, 1, length, 1)


def resizes(
    length: int,
    attributes: Mapping[str, object],
    *,
    scales: Sequence[float] = (),
    sizes: Sequence[int] = (),
    opset: int = OPSET,
) -> onnx.ModelProto:
    """Return a model whose input is resized by every scale, and to every size."""
    weights: dict[str, Array] = {f"s{place}": np.array([1, 1, one, 1], np.float32) for place, one in enumerate(scales)}
    weights |= {f"n{place}": np.array([1, 1, one, 1], np.int64) for place, one in enumerate(sizes)}
    weights["r"] = np.zeros(0, np.float32)
    outputs = [name for name in weights if name != "r"]
    nodes: list[onnx.NodeProto] = []
    for name in outputs:
        inputs = ["x", "r", name] if name.startswith("s") else ["x", "r", "r", name]
        nodes.append(node("Resize", ["x", name] if opset < OPSET else inputs, [f"{name}y"], attributes))
    ports = {"x": ("fp32", (1, 1, length, 1))}
    return made(nodes, ports, [f"{name}y" for name in outputs], weights, opset=opset)


def check_model(model: onnx.ModelProto, length: int, tolerance: float = 0) -> None:
    x = column(length)
    found = results(model, {"x": x})
    wanted = of_runtime(model, {"x": x})
    for (name, one), other in zip(found.items(), wanted, strict=True):
        assert one.shape == other.shape, name
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance, err_msg=f"{name} of {length}")


def scales_for(transform: str, length: int) -> list[float]:
    """Return the scales that give a result and, where corners are aligned, one of whole length."""
    lengths = [(one, float(np.float32(length) * np.float32(one))) for one in SCALES]
    return [one for one, result in lengths if result >= 1 and (transform != "align_corners" or result.is_integer())]


@pytest.mark.parametrize("nearest", NEAREST_MODES)
@pytest.mark.parametrize("transform", [*TRANSFORMS, SYMMETRIC])
def test_the_nearest_elements_are_those_of_onnxruntime(transform: str, nearest: str) -> None:
    if OLD_TIES and nearest.startswith("round"):
        pytest.skip("this onnxruntime misses ties by a rounding")
    attributes = {"mode": "nearest", "coordinate_transformation_mode": transform, "nearest_mode": nearest}
    opset = SYMMETRIC_OPSET if transform == SYMMETRIC else OPSET
    for length in LENGTHS:
        scales = scales_for(transform, length)
        check_model(
            resizes(length, attributes, scales=scales, sizes=[one for one in SIZES if one != length], opset=opset),
            length,
        )


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("transform", ["asymmetric", "half_pixel", "align_corners"])
def test_what_lies_between_elements_is_as_in_onnxruntime(mode: str, transform: str) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    for length in (10, 20):
        check_model(resizes(length, attributes, scales=scales_for(transform, length), sizes=SIZES), length, 1e-4)


def test_a_place_that_is_whole_in_single_precision_alone() -> None:
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    found = results(resizes(10, attributes, scales=[0.6]), {"x": column(10)})["s0y"]
    assert found.ravel().tolist() == [0, 1, 3, 5, 6, 8]


@pytest.mark.parametrize(("nearest", "picked"), [("round_prefer_ceil", 15), ("round_prefer_floor", 14)])
def test_a_tie_is_one_though_it_is_missed_by_a_rounding(nearest: str, picked: int) -> None:
    """The place (4 + ½) · 20 / 6 − ½ is 14.5, and 14.499999 in single precision."""
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": nearest}
    found = results(resizes(20, attributes, sizes=[6]), {"x": column(20)})["n0y"]
    assert found.ravel()[4] == picked


@pytest.mark.parametrize("length", [7, 10, 20])
def test_version_10_rounds_up_along_an_axis_that_gets_shorter(length: int) -> None:
    check_model(resizes(length, {"mode": "nearest"}, scales=[0.3, 0.6, 0.7, 1.3, 2.2], opset=10), length)


def test_the_case_that_version_10_had() -> None:
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    weights = {"s": np.array([1, 1, 0.6, 0.6], np.float32)}
    model = made([node("Resize", ["x", "s"], ["y"])], {"x": ("fp32", x.shape)}, weights=weights, opset=10)
    assert results(model, {"x": x})["y"].ravel().tolist() == [1, 3]


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize(("extents", "sizes"), [((20, 30), (3, 4)), ((10, 9), (9, 21)), ((13, 11), (42, 17))])
def test_proportions_that_are_kept(policy: str, extents: tuple[int, int], sizes: tuple[int, int]) -> None:
    attributes = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
        "keep_aspect_ratio_policy": policy,
        "axes": [2, 3],
    }
    x = np.arange(extents[0] * extents[1], dtype=np.float32).reshape(1, 1, *extents)
    weights = {"n": np.array(sizes, np.int64)}
    model = made(
        [node("Resize", ["x", "", "", "n"], ["y"], attributes)], {"x": ("fp32", x.shape)}, weights=weights, opset=18
    )
    np.testing.assert_array_equal(results(model, {"x": x})["y"], of_runtime(model, {"x": x})[0])


@pytest.mark.parametrize("nearest", NEAREST_MODES)
@pytest.mark.parametrize("region", [(0.1, 0.9), (-0.1, 1.1), (0.9, 0.1), (1 / 3, 2 / 3)], ids=str)
def test_a_part_that_is_cropped_is_read_as_in_onnxruntime(nearest: str, region: tuple[float, float]) -> None:
    if OLD_TIES and nearest.startswith("round"):
        pytest.skip("this onnxruntime misses ties by a rounding")
    attributes = {
        "mode": "nearest",
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "nearest_mode": nearest,
        "extrapolation_value": -1.0,
    }
    start, end = region
    for length, size in ((5, 3), (5, 25), (7, 3), (12, 1), (31, 24)):
        bounds = np.array([0, 0, start, 0, 1, 1, end, 1], np.float32)
        weights = {"r": bounds, "e": np.zeros(0, np.float32), "n": np.array([1, 1, size, 1], np.int64)}
        nodes = [node("Resize", ["x", "r", "e", "n"], ["y"], attributes)]
        check_model(made(nodes, {"x": ("fp32", (1, 1, length, 1))}, weights=weights, opset=OPSET), length)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(("scale", "transform"), [(1.1, "asymmetric"), (1.15, "half_pixel")])
def test_a_shape_that_stays_is_copied_and_told(mode: str, scale: float, transform: str) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    model = resizes(6, attributes, scales=[scale])
    with pytest.warns(UserWarning, match=rf"Resize by {scale} \({transform}\) leaves the shape as it is"):
        check_model(model, 6)


def test_a_shape_that_stays_is_told_where_the_formula_would_move_by_one() -> None:
    attributes = {
        "mode": "nearest",
        "coordinate_transformation_mode": "tf_half_pixel_for_nn",
        "nearest_mode": "round_prefer_ceil",
    }
    model = resizes(6, attributes, sizes=[6])
    with pytest.warns(UserWarning, match=r"Resize by 1 \(tf_half_pixel_for_nn\) leaves the shape as it is"):
        check_model(model, 6)


def test_a_shape_that_stays_by_its_sizes_is_copied_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_model(resizes(6, {"mode": "linear"}, sizes=[6]), 6)


def test_aligned_corners_are_told_of_a_fraction_alone() -> None:
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "align_corners"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_onnx(resizes(30, attributes, scales=[0.3]))  # 9.0000004 in double precision
    with pytest.warns(UserWarning, match=r"aligns corners at a length of 48\.999997, fraction included"):
        from_onnx(resizes(49, attributes, scales=[float(np.nextafter(np.float32(1), np.float32(0)))]))


@pytest.mark.parametrize("factor", [2, 3, 4, 5, 7, 8, 16, 31])
def test_whole_factors_are_the_operation_of_the_table(factor: int) -> None:
    for attributes in (
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_floor"},
    ):
        graph = from_onnx(resizes(12, attributes, scales=[factor], sizes=[12 * factor]))
        assert {one.op.name for one in graph.nodes} == {"input", "resize_nearest_neighbor"}


@pytest.mark.parametrize("bound", [np.nan, np.inf, 1e300], ids=str)
def test_a_region_at_no_place_is_refused(bound: float) -> None:
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    weights = {"r": np.array([0, 0, 0, 0, 1, 1, bound, 1]), "e": np.zeros(0, np.float32), "n": np.array([1, 1, 3, 1])}
    nodes = [node("Resize", ["x", "r", "e", "n"], ["y"], attributes)]
    model = made(nodes, {"x": ("fp32", (1, 1, 6, 1))}, weights=weights, opset=OPSET)
    with pytest.raises(InvalidModelError, match="the region is not at a place that can be computed"):
        from_onnx(model)
