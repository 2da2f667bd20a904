"""Units that are refused: types and parameters that are unknown, of the wrong kind, or of no known meaning."""

from __future__ import annotations

import math

import pytest

from aneforge.errors import AneforgeError, NotSupportedError, UnknownNameError
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.schema import layer_table
from aneforge.formats.netplist.sketch import Plain, Sketch

Extents = dict[str, int]


def error_of(kind: str, tensors: dict[str, Extents], params: dict[str, Plain], **others: Plain) -> AneforgeError:
    """Return the error that a unit is refused with."""
    sketch = Sketch()
    for symbol, extents in tensors.items():
        sketch.input(symbol, extents)
    sketch.unit("u", kind, list(tensors), params, **others)
    sketch.output("y", "u", str(others.get("OutputType", "Float16")))
    with pytest.raises(AneforgeError) as caught:
        parse_netplist(sketch.data(), sketch.weights)
    return caught.value


SQUARE: dict[str, Extents] = {"x": {"channel": 2, "height": 4, "width": 4}}
ROW: dict[str, Extents] = {"x": {"channel": 3, "width": 4}}
RANKED: dict[str, Plain] = {"SortDimension": "Width", "VectorDimension": "Channel", "SortIndices": [0]}


@pytest.mark.parametrize(
    ("kind", "tensors", "params", "message"),
    [
        (
            "Neuron",
            ROW,
            {"Type": "LeakyReLU", "ReluSlope": 1, "ReluOffset": 1},
            "what the offset of a leaky ReLU moves",
        ),
        ("Conv", ROW, {"KernelMutable": True}, "a kernel that may be exchanged is not a constant of a graph"),
        ("CrossCorrelation", {**ROW, "t": {"width": 1}}, {"NumGroups": 2}, "how several channels share templates"),
        ("KernelRasterizer", ROW, {"KernelWidth": 2}, "in which order the elements of a window become channels"),
        ("KernelRasterizer", ROW, {"KernelHeight": 3}, "in which order the elements of a window become channels"),
        ("LocalResponseNormalization", ROW, {"KernelWidth": 3}, "what a window of rows and columns does"),
        ("LocalResponseNormalization", ROW, {"KernelHeight": 3}, "what a window of rows and columns does"),
        ("LocalResponseNormalization", ROW, {"KernelChannel": 2}, "normalise only the first KernelChannel channels"),
        ("Dropout", ROW, {"DropoutRate": 0.5}, "how the engine draws the elements that are dropped"),
        ("PixelShuffle", SQUARE, {"FactorZ": 2}, "the depth is not rearranged"),
        ("CostVolume", {"a": {"width": 2}, "b": {"width": 4}}, {"DisparityDirection": 1}, "what the other directions"),
        ("CostVolume", {"a": {"width": 2}, "b": {"width": 4}}, {"ScaleFactorX": 2}, "what a scale factor does"),
        ("CostVolume", {"a": {"width": 2}, "b": {"width": 4}}, {"ScaleFactorY": 2}, "what a scale factor does"),
        ("ArgMinMax", SQUARE, {"PadTop": 1}, "how places are counted where there is padding"),
        (
            "Gather",
            {**SQUARE, "i": {}},
            {"GatherNDAxes": ["Height", "Width"]},
            "a gather over several dimensions is laid out",
        ),
        ("Conv", SQUARE, {"KernelGroupReuse": True}, "how groups share one dense kernel"),
        ("Conv", ROW, {"Type": "ChannelWiseDeConv"}, "whether a transposed kernel is reversed"),
        (
            "Conv",
            ROW,
            {"Type": "ChannelWiseDeConv", "KernelMode": "Unity", "PadTop": 1},
            "a padding before that is not smaller",
        ),
    ],
)
def test_what_no_source_gives_is_refused(
    kind: str, tensors: dict[str, Extents], params: dict[str, Plain], message: str
) -> None:
    error = error_of(kind, tensors, {**valid_params(kind), **params}, **valid_keys(kind, tensors))
    assert isinstance(error, NotSupportedError)
    assert message in error.message
    assert error.operation == kind
    assert error.location is not None
    assert error.location.node == "u"


def valid_params(kind: str) -> dict[str, Plain]:
    """Return parameters of a unit that would be read."""
    known: dict[str, dict[str, Plain]] = {
        "Conv": {"Type": "Conv", "KernelMode": "Dense", "KernelWidth": 1, "KernelHeight": 1},
        "CrossCorrelation": {"TemplateWidth": 1, "TemplateHeight": 1},
        "KernelRasterizer": {"RasterizerMode": "UnfoldedChannels", "KernelWidth": 1, "KernelHeight": 1},
        "LocalResponseNormalization": {"KernelChannel": 3, "Alpha": 0, "Beta": 1, "K": 1},
        "PixelShuffle": {"FactorX": 1, "FactorY": 1},
        "CostVolume": {"DisparityRange": 1},
        "FurthestPointSampling": {"CentroidCount": 1},
        "ArgMinMax": {"Mode": "SpatialArgMax", "KernelWidth": 4, "KernelHeight": 4},
    }
    return known.get(kind, {})


def valid_keys(kind: str, tensors: dict[str, Extents]) -> dict[str, Plain]:
    """Return further keys of a unit that would be read."""
    if kind == "Conv":
        channels = tensors["x"]["channel"]
        return {"OutputChannels": channels, "NumGroups": 2 if channels == 2 else 1}
    return {}


ONE: dict[str, Extents] = {"x": {}}
DEEP: dict[str, Extents] = {"x": {"depth": 2}}
FLAT: dict[str, Plain] = {"ReshapedBatch": 1, "ReshapedChannel": 1, "ReshapedHeight": 1, "ReshapedWidth": 1}
UNITY: dict[str, Plain] = {"Type": "Conv", "KernelMode": "Unity", "KernelWidth": 1, "KernelHeight": 1}
DENSE: dict[str, Plain] = {**UNITY, "KernelMode": "Dense"}
UPSAMPLING: dict[str, Plain] = {**UNITY, "Type": "ChannelWiseDeConv"}
POOL: dict[str, Plain] = {"Type": "Max", "KernelWidth": 2, "KernelHeight": 1, "PadLeft": 1}
MOVED: Plain = {"TransposeSourceDimension": "Width", "TransposeDestinationDimension": "Height"}
WIDER: Plain = {"Dimension": "Width", "Size": 5}
TEMPLATE: dict[str, Plain] = {"TemplateWidth": 2, "TemplateHeight": 1}
RELU: dict[str, Plain] = {"Type": "ReLU"}
WIDTH: dict[str, Plain] = {"Coordinate": "Width"}
SLICE: dict[str, Plain] = {
    "CoordinateInfo": [{**WIDTH, "CoordinateMode": "NonNormalized"}],
    "CoordinateMode": "NonNormalized",
    "DynamicSliceAxisOrder": ["Width"],
    "DynamicSliceInfo": [{**WIDTH, "SliceSize": 1}],
    "PaddingInfo": [{**WIDTH, "PaddingMode": "Background"}],
}
ASCENDING: dict[str, Plain] = {**RANKED, "Direction": "Ascending"}
Case = tuple[str, dict[str, Extents], dict[str, Plain], dict[str, Plain], str]
MISFITS: list[Case] = [
    ("ElementWise", {"x": {"width": 3}, "z": {}}, {"Type": "Add"}, {}, "the two tensors differ in shape"),
    ("ElementWise", ONE, {"Type": "Add"}, {}, "Add reads another number of tensors"),
    ("ElementWise", {"x": {}, "z": {}}, {"Type": "Abs"}, {}, "Abs reads another number of tensors"),
    ("ScaledElementWise", {"x": {"width": 2}, "z": {}}, {"Type": "Add", "Scale": 0}, {}, "differ in shape"),
    ("DynamicGOC", {"x": {"channel": 2}, "g": {"width": 2}}, {}, {}, "a gain or an offset has more than one along"),
    ("DynamicGOC", {"x": {"channel": 2}, "g": {"channel": 3}}, {}, {}, "a gain or an offset has other channels than x"),
    ("DynamicGOC", {"x": {}, "g": {}, "o": {}}, {"BiasOnly": True}, {}, "BiasOnly goes with two bottoms"),
    ("MatrixMultiplication", {"a": {"width": 2}, "b": {"channel": 3}}, {}, {}, "the two tensors do not multiply"),
    ("MatrixMultiplication", {"a": {"depth": 2}, "b": {}}, {}, {}, "the first tensor has more than one along Depth"),
    ("Concat", {"x": {"width": 2}, "z": {"height": 2}}, {"Dimension": "Width"}, {}, "tensor 1 differs from the first"),
    ("Reshape", DEEP, FLAT, {}, "the tensor has more than one along Depth"),
    ("Reshape", {"x": {"width": 2}}, FLAT, {}, "a tensor has another number of elements"),
    ("Transpose", ROW, {"TransposeDimensions": [MOVED]}, {}, "does not give every dimension a place of its own"),
    ("Transpose", ROW, {"TransposeDimensions": [MOVED, MOVED]}, {}, "does not give every dimension a place"),
    ("Broadcast", ROW, {"BroadcastInfo": [WIDER]}, {}, "Width is repeated and does not have length 1"),
    ("Broadcast", ONE, {"BroadcastInfo": [WIDER, WIDER]}, {}, "BroadcastInfo names a dimension twice"),
    ("InputView", ROW, {"Dimension": "Width", "Offset": 3, "Size": 2}, {}, "the view passes the end of the axis"),
    ("DynamicSlice", {**ROW, "i": {"width": 2}}, SLICE, {}, "the index is not one number"),
    ("Flatten", ROW, {}, {"OutputChannels": 5}, "OutputChannels does not say where the elements go"),
    ("Flatten", {"x": {"batch": 2}}, {}, {"OutputChannels": 1}, "the tensor has more than one along Batch"),
    ("PixelShuffle", ROW, {"FactorX": 2, "FactorY": 1}, {}, "the factors do not divide the tensor"),
    ("PixelShuffle", DEEP, {"FactorX": 1, "FactorY": 1}, {}, "the tensor has more than one along Depth"),
    ("Sort", ROW, {**ASCENDING, "SortIndices": [3]}, {}, "SortIndices names no channel"),
    ("Sort", SQUARE, ASCENDING, {}, "the tensor has more than one along Height"),
    ("TopK", ROW, {**RANKED, "Type": "Max", "K": 5}, {}, "there are fewer columns than K"),
    ("Conv", ROW, UNITY, {}, "a convolution needs OutputChannels"),
    ("Conv", ROW, UNITY, {"OutputChannels": 2, "NumGroups": 2}, "channels should be divisible by num group"),
    ("Conv", ROW, DENSE, {"OutputChannels": 2}, "a dense kernel needs KernelIndex"),
    ("Conv", ROW, {**DENSE, "KernelIndex": 1}, {"OutputChannels": 2}, "a dense kernel needs KernelOffset"),
    ("Conv", ROW, UPSAMPLING, {"OutputChannels": 2}, "a ChannelWiseDeConv has the channels of its tensor"),
    ("Conv", ROW, UPSAMPLING, {"OutputChannels": 3, "NumGroups": 2}, "has the channels of its tensor"),
    ("Pooling", ROW, {**POOL, "Type": "Avg", "PaddingMode": "Negative"}, {}, "an average has no Negative padding"),
    ("Pooling", ROW, POOL, {}, "padding of a Max pooling needs PaddingMode"),
    ("CrossCorrelation", {"x": {"height": 3}, "t": {"width": 3}}, TEMPLATE, {}, "has another number of elements"),
    ("CrossCorrelation", {"x": {"channel": 2}, "t": {"width": 2}}, TEMPLATE, {}, "the image has more than one along"),
    ("CrossProduct", {"a": {"channel": 2}, "b": {"channel": 2}}, {}, {}, "must hold vectors of three numbers"),
    ("CrossProduct", {"a": {"batch": 2, "channel": 3}, "b": {}}, {}, {}, "the first tensor has more than one along"),
    ("CostVolume", {"a": {"channel": 2}, "b": {}}, {"DisparityRange": 1}, {}, "aux has more than one along Channel"),
    ("FurthestPointSampling", {"x": {"channel": 2}}, {"CentroidCount": 1}, {}, "do not have three coordinates each"),
    ("MatrixDecomposition", {"x": {"channel": 8}}, {"Type": "NonQRGivens"}, {}, "does not take a tensor of shape"),
    ("Neuron", ROW, RELU, {"OutputType": "UInt16"}, "OutputType is not what the unit gives"),
    ("Neuron", ROW, RELU, {"InputType": ["UInt16"]}, "InputType of 'x' is not what it holds"),
]


@pytest.mark.parametrize(("kind", "tensors", "params", "others", "message"), MISFITS)
def test_what_does_not_fit_is_refused(
    kind: str, tensors: dict[str, Extents], params: dict[str, Plain], others: dict[str, Plain], message: str
) -> None:
    error = error_of(kind, tensors, params, **others)
    assert message in error.message
    assert error.location is not None
    assert error.location.node == "u"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "unit 'u': key 'Type' is missing"),
        ({"Type": "Relu"}, "unit 'u': unknown Type 'Relu'; nearest: ReLU"),
        ({"Type": 3}, "unit 'u': Type is not a text (got 3)"),
        ({"Type": "ELU"}, "unit 'u': a ELU neuron needs EluAlpha"),
        ({"Type": "ReLU", "EluAlpha": 0}, "unit 'u': a ReLU neuron has no EluAlpha (expected no parameters)"),
        ({"Type": "ELU", "EluAlfa": 0}, "unit 'u': unknown key 'EluAlfa'; nearest: EluAlpha"),
        ({"Type": "ELU", "EluAlpha": 0.5}, "EluAlpha is a bit pattern of fp16, and is given as a number (got 0.5)"),
        ({"Type": "ELU", "EluAlpha": 0x7E00}, "unit 'u': EluAlpha is not a number (got 0x7e00)"),
        ({"Type": "ELU", "EluAlpha": 1 << 16}, "unit 'u': EluAlpha is not a bit pattern of fp16 (got 65536"),
        ({"Type": "ELU", "EluAlpha": "1"}, "unit 'u': EluAlpha is not an integer (got '1')"),
        ({"Type": "ELU", "EluAlpha": 0x7C00}, "attribute 'alpha' is not finite"),
    ],
)
def test_parameters_of_an_activation(params: dict[str, Plain], message: str) -> None:
    assert message in str(error_of("Neuron", ROW, params))


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("Softmax", {"Dimension": "Time"}, "unknown Dimension 'Time'; known: Batch, Channel, Depth, Height, Width"),
        ("Softmax", {"Dimension": []}, "Dimension has another number of entries (got 0, limit 1)"),
        ("Softmax", {"Dimension": 4}, "Dimension is not a list (got 4)"),
        ("Reduction", {"Type": "Sum", "Dimension": ["Width", "Width"]}, "Dimension names a dimension twice"),
        (
            "Reduction",
            {"Type": "Sum", "Dimension": []},
            "Dimension has another number of entries (got 0, limit 1 to 5)",
        ),
        ("Reduction", {"Type": "Product", "Dimension": ["Width"]}, "unknown Type 'Product'"),
        ("InputView", {"Dimension": "Width", "Offset": -1, "Size": 1}, "Offset is out of range (got -1, limit 0 to"),
        ("InputView", {"Dimension": "Width", "Offset": 0, "Size": 0}, "Size is out of range (got 0, limit 1 to"),
        ("InputView", {"Dimension": "Width", "Offset": True, "Size": 1}, "Offset is not an integer (got True)"),
        ("Dropout", {"DropoutRate": "none"}, "DropoutRate is not a number (got 'none')"),
        ("RadiusSearch", {"Radius": 1 << 63}, "Radius is out of range (got 9223372036854775808"),
        ("Dropout", {"DropoutRate": math.nan}, "DropoutRate is not a finite number (got nan)"),
        ("Dropout", {"DropoutRate": False}, "DropoutRate is not a number (got False)"),
        ("SDPA", {"SubtractMax": "yes"}, "SubtractMax is not a flag (got 'yes')"),
        ("SDPA", {"SubtractMax": 2}, "SubtractMax is not a flag (got 2)"),
        ("SDPA", {"Causal": True}, "unknown key 'Causal'"),
        ("Broadcast", {"BroadcastInfo": {"Dimension": "Width"}}, "BroadcastInfo is not a list"),
        ("Broadcast", {"BroadcastInfo": ["Width"]}, "BroadcastInfo is not a dictionary (got 'Width')"),
        ("Broadcast", {"BroadcastInfo": [{"Dimension": "Width"}]}, "key 'Size' is missing"),
        ("Broadcast", {"BroadcastInfo": [{"Dimension": "Width", "Size": 2, "Axis": 1}]}, "unknown key 'Axis'"),
        ("Pooling", {"Type": "Max", "KernelWidth": 1, "KernelHeight": 1, "Step": [1]}, "Step has another number"),
        ("Pooling", {"Type": "Max", "KernelWidth": 1, "KernelHeight": 1, "Step": [0, 1]}, "Step is out of range"),
        ("Pooling", {"Type": "Min", "KernelWidth": 1, "KernelHeight": 1}, "unknown Type 'Min'"),
        ("ScaledElementWise", {"Type": "Sub", "Scale": 0}, "unknown Type 'Sub'"),
        ("CrossProduct", {"Axis": 1}, "unknown key 'Axis'"),
    ],
)
def test_parameters_of_the_wrong_kind(kind: str, params: dict[str, Plain], message: str) -> None:
    count = layer_table().layers[kind].bottoms[0]
    sketch = Sketch()
    names = [f"x{number}" for number in range(count)]
    for name in names:
        sketch.input(name)
    sketch.unit("u", kind, names, params)
    sketch.output("y", "u")
    with pytest.raises(AneforgeError) as caught:
        parse_netplist(sketch.data(), sketch.weights, file="net.plist")
    assert f"unit 'u': {message}" in str(caught.value)
    assert "net.plist:" in str(caught.value)


@pytest.mark.parametrize("kind", sorted(set(layer_table().unit_types) - set(layer_table().layers)))
def test_types_without_known_parameters_are_named(kind: str) -> None:
    error = error_of(kind, ROW, {})
    assert isinstance(error, NotSupportedError)
    assert f"no source gives the parameters of a {kind} unit" in str(error)


def test_an_unknown_type_lists_the_nearest() -> None:
    error = error_of("SoftMax", ROW, {})
    assert isinstance(error, UnknownNameError)
    assert "unknown layer type 'SoftMax'; nearest: Softmax" in str(error)


@pytest.mark.parametrize("kind", sorted(set(layer_table().layers) - {"Concat"}))
def test_too_many_tensors(kind: str) -> None:
    most = layer_table().layers[kind].bottoms[1]
    error = error_of(kind, {f"x{number}": {} for number in range(most + 1)}, {})
    assert f"a {kind} unit reads another number of tensors (got {most + 1}" in str(error)


@pytest.mark.parametrize("kind", sorted(layer_table().layers))
def test_too_few_tensors(kind: str) -> None:
    fewest = layer_table().layers[kind].bottoms[0]
    error = error_of(kind, {f"x{number}": {} for number in range(fewest - 1)}, {})
    assert f"a {kind} unit reads another number of tensors (got {fewest - 1}" in str(error)
