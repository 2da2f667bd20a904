"""Layers that move, order or search elements: what is read means what an independent computation gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.errors import GraphError
from aneforge.formats.netplist.parameters import bits_of
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.schema import DIMENSIONS, layer_table
from aneforge.formats.netplist.sketch import Plain, Sketch, one_unit
from aneforge.graph.reference import reference
from aneforge.testing.descriptions import DRAWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.types import Array

Extents = dict[str, int]
RNG = np.random.default_rng(7)


def numbers(extents: Extents) -> Array:
    """Draw values of five axes that fp16 has."""
    shape = [extents.get(name.lower(), 1) for name in DIMENSIONS]
    return RNG.uniform(-4, 4, shape).astype(np.float16).astype(np.float64)


def run(
    kind: str,
    tensors: Mapping[str, Array],
    params: Mapping[str, Plain] | None = None,
    *,
    constants: Mapping[str, Array] | None = None,
    kernel: Array | None = None,
    **others: Plain,
) -> Array:
    """Return what a unit gives, with five axes; inputs and constants are given so, in the order of the bottoms."""
    shapes = {symbol: values.shape for symbol, values in tensors.items()}
    sketch = one_unit(kind, shapes, params, constants=constants, kernel=kernel, **others)
    graph = parse_netplist(sketch.data(), sketch.weights)
    feed = {name: tensors[name].reshape(node.types[0].shape) for name, node in graph.inputs.items()}
    result = reference(graph, feed)["y"]
    return result if result.ndim == 5 else result[:, :, None]


# Movement


@pytest.mark.parametrize("name", DIMENSIONS)
def test_concat(name: str) -> None:
    common = {"batch": 2, "channel": 3, "height": 2, "width": 4}
    parts = [numbers({**common, name.lower(): extent}) for extent in (1, 3, 2)]
    given = run("Concat", {f"x{place}": part for place, part in enumerate(parts)}, {"Dimension": name})
    np.testing.assert_array_equal(given, np.concatenate(parts, axis=DIMENSIONS.index(name)))


def test_reshape() -> None:
    x = numbers({"batch": 2, "channel": 3, "height": 4, "width": 5})
    params: dict[str, Plain] = {"ReshapedBatch": 1, "ReshapedChannel": 8, "ReshapedHeight": 3, "ReshapedWidth": 5}
    np.testing.assert_array_equal(run("Reshape", {"x": x}, params), x.reshape(1, 8, 1, 3, 5))


@pytest.mark.parametrize(
    "places",
    [
        {"Channel": "Height", "Height": "Channel"},
        {"Batch": "Width", "Width": "Channel", "Channel": "Batch"},
        {"Depth": "Width", "Width": "Depth"},
        {"Width": "Width"},
        {},
    ],
)
@pytest.mark.parametrize("depth", [1, 2])
def test_transpose(places: dict[str, str], depth: int) -> None:
    x = numbers({"batch": 2, "channel": 3, "depth": depth, "height": 4, "width": 5})
    records: list[Plain] = [
        {"TransposeSourceDimension": here, "TransposeDestinationDimension": there} for here, there in places.items()
    ]
    sources = {there: here for here, there in places.items()}
    perm = [DIMENSIONS.index(sources.get(name, name)) for name in DIMENSIONS]
    np.testing.assert_array_equal(run("Transpose", {"x": x}, {"TransposeDimensions": records}), x.transpose(perm))


@pytest.mark.parametrize("sizes", [{"Channel": 3}, {"Batch": 2, "Width": 5}, {"Depth": 4}, {"Height": 1}])
def test_broadcast(sizes: dict[str, int]) -> None:
    extents = {"channel": 2, "height": 3, "width": 2} | {name.lower(): 1 for name in sizes}
    x = numbers(extents)
    records: list[Plain] = [{"Dimension": name, "Size": size} for name, size in sizes.items()]
    shape = [sizes.get(name, extents.get(name.lower(), 1)) for name in DIMENSIONS]
    np.testing.assert_array_equal(run("Broadcast", {"x": x}, {"BroadcastInfo": records}), np.broadcast_to(x, shape))


@pytest.mark.parametrize("name", DIMENSIONS)
@pytest.mark.parametrize("step", [None, 1, 2])
def test_input_view(name: str, step: int | None) -> None:
    x = numbers({"batch": 2, "channel": 3, "height": 2, "width": 4} | {name.lower(): 7})
    params: dict[str, Plain] = {"Dimension": name, "Offset": 1, "Size": 3}
    given = run("InputView", {"x": x}, params if step is None else {**params, "Step": step})
    places = [1, 2, 3] if step in (None, 1) else [1, 3, 5]
    np.testing.assert_array_equal(given, x.take(places, axis=DIMENSIONS.index(name)))


@pytest.mark.parametrize("name", DIMENSIONS)
def test_gather(name: str) -> None:
    x = numbers({"batch": 2, "channel": 3, "height": 2, "width": 4} | {name.lower(): 5})
    indices = np.array([4, 0, 0, 2], np.uint16)
    given = run("Gather", {"x": x}, {"GatherNDAxes": [name]}, constants={"i": indices.reshape(1, 1, 1, 1, 4)})
    np.testing.assert_array_equal(given, x.take(indices, axis=DIMENSIONS.index(name)))


@pytest.mark.parametrize("begin", [0, 2, 3, 4])
@pytest.mark.parametrize("element_type", [np.uint16, np.float16])
@pytest.mark.parametrize("background", [None, 0, 1.5])
def test_dynamic_slice(begin: int, element_type: type[np.generic], background: float | None) -> None:
    x = numbers({"channel": 2, "width": 4})
    width: dict[str, Plain] = {"Coordinate": "Width"}
    params: dict[str, Plain] = {
        "CoordinateInfo": [{**width, "CoordinateMode": "NonNormalized"}],
        "CoordinateMode": "NonNormalized",
        "DynamicSliceAxisOrder": ["Width"],
        "DynamicSliceInfo": [{**width, "SliceSize": 2}],
        "PaddingInfo": [{**width, "PaddingMode": "Background"}],
    }
    params |= {} if background is None else {"BackgroundValue": background}
    index = np.full((1,) * 5, begin, element_type)
    given = run("DynamicSlice", {"x": x}, params, constants={"i": index})
    behind = np.pad(x, [(0, 0)] * 4 + [(0, 2)], constant_values=background or 0)
    np.testing.assert_array_equal(given, behind[..., begin : begin + 2])


@pytest.mark.parametrize("channels", [24, 1])
def test_flatten(channels: int) -> None:
    x = numbers({"channel": 2, "height": 3, "width": 4})
    given = run("Flatten", {"x": x}, {"FlattenType": "NCHW", "Mode": "NCHW"}, OutputChannels=channels)
    np.testing.assert_array_equal(given, x.reshape((1, 24, 1, 1, 1) if channels == 24 else (1, 1, 1, 1, 24)))


def blocks(kind: str, x: Array, fx: int, fy: int) -> Array:
    """Move blocks element by element."""
    n, c, _, h, w = x.shape
    match kind:
        case "PixelShuffle" | "ChannelToSpace":
            result = np.zeros((n, c // (fx * fy), 1, h * fy, w * fx))
        case "PixelUnshuffle" | "SpaceToChannel":
            result = np.zeros((n, c * fx * fy, 1, h // fy, w // fx))
        case "SpaceToBatch":
            result = np.zeros((n * fx * fy, c, 1, h // fy, w // fx))
        case _:
            result = np.zeros((n // (fx * fy), c, 1, h * fy, w * fx))
    large, small = (result, x) if result.shape[3:] == (h * fy, w * fx) else (x, result)
    count = large.shape[1]
    for image, channel, row, column in np.ndindex(large.shape[0], count, large.shape[3], large.shape[4]):
        i, j = row % fy, column % fx
        place = (image, channel)
        if kind in ("PixelShuffle", "PixelUnshuffle"):
            place = (image, (channel * fy + i) * fx + j)
        elif kind in ("ChannelToSpace", "SpaceToChannel"):
            place = (image, (i * fx + j) * count + channel)
        else:
            place = ((image * fy + i) * fx + j, channel)
        here = (*place, 0, row // fy, column // fx)
        if large is result:
            large[image, channel, 0, row, column] = small[here]
        else:
            small[here] = large[image, channel, 0, row, column]
    return result


@pytest.mark.parametrize("kind", [kind for kind in DRAWN if "FactorX" in layer_table().layers[kind].params])
@pytest.mark.parametrize(("fx", "fy"), [(2, 2), (3, 2), (1, 4), (1, 1)])
@pytest.mark.parametrize("batch", [1, 2])
def test_blocks(kind: str, fx: int, fy: int, batch: int) -> None:
    from_channels, from_batch = kind in ("PixelShuffle", "ChannelToSpace"), kind == "BatchToSpace"
    small = from_channels or from_batch
    x = numbers(
        {
            "batch": batch * (fx * fy if from_batch else 1),
            "channel": 3 * (fx * fy if from_channels else 1),
            "height": 2 * (1 if small else fy),
            "width": 3 * (1 if small else fx),
        }
    )
    given = run(kind, {"x": x}, {"FactorX": fx, "FactorY": fy, "FactorZ": 1})
    np.testing.assert_array_equal(given, blocks(kind, x, fx, fy))
    np.testing.assert_array_equal(run(kind, {"x": x}, {"FactorX": fx, "FactorY": fy}), given)


# Order and choice


@pytest.mark.parametrize("direction", ["Ascending", "Descending"])
@pytest.mark.parametrize(("channels", "lane"), [(1, 0), (3, 0), (3, 2)])
def test_sort(direction: str, channels: int, lane: int) -> None:
    x = numbers({"channel": channels, "width": 6})
    order = np.argsort(x[0, lane, 0, 0], kind="stable")
    order = order if direction == "Ascending" else order[::-1]
    params: dict[str, Plain] = {"Direction": direction, "SortDimension": "Width", "VectorDimension": "Channel"}
    params |= {"SortIndices": [lane]}
    np.testing.assert_array_equal(run("Sort", {"x": x}, params), x[..., order])
    places = run("Sort", {"x": x}, {**params, "Indices": True})
    np.testing.assert_array_equal(places.ravel(), order)
    whole = run("Sort", {"x": x}, {**params, "Indices": True}, OutputType="UInt16")
    assert whole.dtype == np.uint16
    np.testing.assert_array_equal(whole.ravel(), order)


@pytest.mark.parametrize("kind", ["Max", "Min"])
@pytest.mark.parametrize(("channels", "lane"), [(1, 0), (3, 1)])
def test_topk(kind: str, channels: int, lane: int) -> None:
    x = numbers({"channel": channels, "width": 7})
    order = np.argsort(x[0, lane, 0, 0], kind="stable")
    order = order[:2] if kind == "Min" else order[::-1][:2]
    params: dict[str, Plain] = {"Type": kind, "K": 2, "SortDimension": "Width", "VectorDimension": "Channel"}
    params |= {"SortIndices": [lane]}
    np.testing.assert_array_equal(run("TopK", {"x": x}, params), x[..., order])
    np.testing.assert_array_equal(run("TopK", {"x": x}, {**params, "Indices": True}).ravel(), order)


@pytest.mark.parametrize("mode", ["SpatialArgMax", "ChannelArgMax", "SpatialArgMin", "ChannelArgMin"])
@pytest.mark.parametrize(("height", "width"), [(3, 4), (1, 4), (4, 1)])
@pytest.mark.parametrize("output_type", ["Float16", "UInt16"])
def test_arg_extreme(mode: str, height: int, width: int, output_type: str) -> None:
    x = numbers({"batch": 2, "channel": 3, "height": height, "width": width})
    spatial = mode.startswith("Spatial")
    find = np.argmax if mode.endswith("Max") else np.argmin
    params: dict[str, Plain] = {
        "Mode": mode,
        "KernelHeight": height if spatial else 1,
        "KernelWidth": width if spatial else 1,
        **{f"Pad{side}": 0 for side in ("Top", "Bot", "Left", "Right", "Front", "Back")},
    }
    given = run("ArgMinMax", {"x": x}, params, OutputType=output_type)
    other = run("ArgMinMax", {"x": x}, {**params, "KernelHeight": 2, "KernelWidth": 5}, OutputType=output_type)
    np.testing.assert_array_equal(given, other, "the kernel changes nothing")
    expected = find(x.reshape(2, 3, -1), axis=2) if spatial else find(x, axis=1)
    np.testing.assert_array_equal(given.ravel(), expected.ravel())
    assert given.shape == ((2, 3, 1, 1, 1) if spatial else (2, 1, 1, height, width))


@pytest.mark.parametrize("kind", ["Max", "Min"])
@pytest.mark.parametrize("name", ["Width", "Height", "Channel"])
def test_global_arg_extreme(kind: str, name: str) -> None:
    x = numbers({"batch": 2, "channel": 3, "height": 4, "width": 5})
    find = np.argmax if kind == "Max" else np.argmin
    given = run("GlobalArgMinMax", {"x": x}, {"Type": kind, "Dimension": name})
    np.testing.assert_array_equal(given, find(x, axis=DIMENSIONS.index(name), keepdims=True))


# Geometry


def test_cross_product() -> None:
    a, b = (numbers({"channel": 3, "depth": 2, "width": 4}) for _ in range(2))
    expected = np.cross(a, b, axisa=1, axisb=1, axisc=1)
    np.testing.assert_allclose(run("CrossProduct", {"a": a, "b": b}, {}), expected, rtol=1e-12, atol=1e-12)


def test_cost_volume() -> None:
    aux, ref = numbers({"width": 4}), numbers({"width": 8})
    params: dict[str, Plain] = {"DisparityDirection": 0, "DisparityRange": 3, "ScaleFactorX": 1, "ScaleFactorY": 1}
    given = run("CostVolume", {"aux": aux, "ref": ref}, params)
    a, r = aux.ravel(), ref.ravel()
    np.testing.assert_array_equal(given[0, :, 0, 0], [np.abs(a - r[d : d + 4]) for d in range(4)])
    np.testing.assert_array_equal(run("CostVolume", {"aux": aux, "ref": ref}, {"DisparityRange": 3}), given)


def test_furthest_points() -> None:
    points = np.array([[0, 0, 0], [1, 0, 0], [5, 0, 0], [0, 9, 0]], np.float64).T.reshape(1, 3, 1, 1, 4)
    params: dict[str, Plain] = {"CentroidCount": 3, "DistanceMetric": "L2"}
    given = run("FurthestPointSampling", {"x": points}, params, OutputChannels=3)
    np.testing.assert_array_equal(given[0, :, 0, 0], points[0, :, 0, 0][:, [0, 3, 2]])
    np.testing.assert_array_equal(run("FurthestPointSampling", {"x": points}, {"CentroidCount": 3}), given)
    with pytest.warns(UserWarning, match="DistanceMetric L1 computes L2"):
        by_sums = run("FurthestPointSampling", {"x": points}, {**params, "DistanceMetric": "L1"})
    np.testing.assert_array_equal(by_sums, given)


CHANNELS: list[tuple[str, dict[str, Extents], dict[str, Plain], int]] = [
    ("GlobalArgMinMax", {"x": {"channel": 3, "width": 4}}, {"Type": "Max", "Dimension": "Channel"}, 3),
    ("CrossProduct", {"a": {"channel": 3}, "b": {"channel": 3}}, {}, 1),
    ("CostVolume", {"a": {"width": 4}, "b": {"width": 8}}, {"DisparityRange": 3}, 1),
]


@pytest.mark.parametrize(("kind", "tensors", "params", "stated"), CHANNELS, ids=[case[0] for case in CHANNELS])
def test_stated_channels_are_not_binding(
    kind: str, tensors: dict[str, Extents], params: dict[str, Plain], stated: int
) -> None:
    arrays = {name: numbers(extents) for name, extents in tensors.items()}
    plain = run(kind, arrays, params)
    with pytest.warns(UserWarning, match=f"unit 'u': OutputChannels is {stated}, and the result has {plain.shape[1]}"):
        given = run(kind, arrays, params, OutputChannels=stated)
    np.testing.assert_array_equal(given, plain)


def test_radius_search() -> None:
    centroids = np.array([[0, 0, 0], [9, 0, 0]], np.float64).T.reshape(1, 3, 1, 1, 2)
    points = np.array([[0, 0, 2], [0, 3, 0], [8, 0, 0]], np.float64).T.reshape(1, 3, 1, 1, 3)
    given = run("RadiusSearch", {"c": centroids, "p": points}, {"Radius": 2.5}, OutputChannels=1)
    np.testing.assert_array_equal(given[0, 0, 0], [[1, 0], [0, 0], [0, 1]])


def test_matrix_decomposition_is_the_operation_without_a_meaning() -> None:
    sketch = Sketch()
    sketch.input("x", {"channel": 9, "width": 2})
    params: dict[str, Plain] = {"Type": "NonQRGivens", "Epsilon": bits_of(0.5), "RotationAxis": [7]}
    sketch.unit("u", "MatrixDecomposition", ["x"], params, OutputChannels=4)
    sketch.output("y", "u")
    graph = parse_netplist(sketch.data(), sketch.weights)
    (node,) = (node for node in graph.nodes if node.op.name == "matrix_decomposition")
    assert dict(node.attributes) == {"type": "NonQRGivens", "epsilon": 0.5, "rotation_axis": (7,)}
    with pytest.raises(GraphError, match="no source gives the mathematics of its two types"):
        reference(graph, [np.zeros((1, 9, 1, 2))])
