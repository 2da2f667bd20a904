"""Every layer type and every parameter: what is read means what an independent computation on five axes gives."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.errors import DataFileError, GraphError, PrecisionWarning
from aneforge.formats.netplist.parameters import bits_of
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.schema import DIMENSIONS, layer_table
from aneforge.formats.netplist.sketch import Plain, Sketch, one_unit
from aneforge.formats.netplist.units import READERS
from aneforge.graph.reference import reference
from aneforge.targets import database
from aneforge.testing.descriptions import DRAWN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

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


def test_every_layer_type_of_the_table_is_read_and_drawn() -> None:
    assert set(READERS) == set(DRAWN) == set(layer_table().layers)
    assert set(layer_table().layers) <= set(layer_table().unit_types)


# Activations, pairs, gain and offset


def neuron(kind: str, x: Array) -> Array:
    """Compute the activations without parameters."""
    plain = {"Tanh": np.tanh, "Sqrt": np.sqrt, "Exp2": np.exp2, "Log2": np.log2, "Sin": np.sin, "Cos": np.cos}
    rounded = {"Ceil": np.ceil, "Floor": np.floor, "RoundNearest": np.rint}
    if kind in plain or kind in rounded:
        return (plain | rounded)[kind](x)
    match kind:
        case "ReLU":
            return np.maximum(x, 0)
        case "SigmoidHighPrecision":
            return 1 / (1 + np.exp(-x))
        case "GELU":
            return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
        case _:
            return 1 / (np.sqrt(x) if kind == "Rsqrt" else x)


@pytest.mark.parametrize("kind", [row.params["Type"] for row in layer_table().layers["Neuron"].rows if not row.keys])
@pytest.mark.parametrize("depth", [1, 2])
def test_neurons_without_parameters(kind: str, depth: int) -> None:
    x = numbers({"channel": 2, "depth": depth, "height": 3, "width": 4})
    x = np.abs(x) + 0.5 if kind in ("Sqrt", "Rsqrt", "Log2", "Inv") else x
    np.testing.assert_allclose(run("Neuron", {"x": x}, {"Type": kind}), neuron(kind, x), rtol=1e-12)


def test_neurons_with_parameters() -> None:
    x = numbers({"width": 32})
    half, three = bits_of(0.5), bits_of(3.0)
    elu = run("Neuron", {"x": x}, {"Type": "ELU", "EluAlpha": half})
    np.testing.assert_allclose(elu, np.where(x > 0, x, 0.5 * np.expm1(x)))
    leaky = run("Neuron", {"x": x}, {"Type": "LeakyReLU", "ReluSlope": half, "ReluOffset": 0})
    np.testing.assert_array_equal(leaky, np.where(x >= 0, x, 0.5 * x))
    assert np.array_equal(leaky, run("Neuron", {"x": x}, {"Type": "LeakyReLU", "ReluSlope": half}))
    clamped = run("Neuron", {"x": x}, {"Type": "ClampedReLU", "ReluMin": bits_of(-1.0), "ReluMax": three})
    np.testing.assert_array_equal(clamped, np.clip(x, -1, 3))
    unbounded = run("Neuron", {"x": x}, {"Type": "ClampedReLU", "ReluMin": 0xFC00, "ReluMax": three})
    np.testing.assert_array_equal(unbounded, np.minimum(x, 3))


def test_a_bit_pattern_may_have_a_sign() -> None:
    x = numbers({"width": 8})
    signed = bits_of(-2.0) - (1 << 16)
    np.testing.assert_array_equal(run("GOC", {"x": x}, {"ScaleScalar": signed, "BiasScalar": 0}), -2 * x)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Add", np.add),
        ("Mult", np.multiply),
        ("Sub", np.subtract),
        ("Min", np.minimum),
        ("Max", np.maximum),
        ("GreaterThan", np.greater),
        ("LessThan", np.less),
        ("Equal", np.equal),
        ("NotEqual", np.not_equal),
    ],
)
def test_pairs(kind: str, expected: np.ufunc) -> None:
    extents = {"batch": 2, "channel": 3, "width": 5}
    x, z = np.round(numbers(extents)), np.round(numbers(extents))
    np.testing.assert_array_equal(run("ElementWise", {"x": x, "z": z}, {"Type": kind}), expected(x, z))


def test_a_pair_of_one_tensor_and_a_constant() -> None:
    x, c = numbers({"width": 5}), numbers({"width": 5})
    given = run("ElementWise", {"x": x}, {"Type": "Sub"}, constants={"c": c.astype(np.float16)})
    np.testing.assert_array_equal(given, x - c)


def test_magnitude_reads_one_tensor() -> None:
    x = numbers({"width": 9})
    np.testing.assert_array_equal(run("ElementWise", {"x": x}, {"Type": "Abs"}), np.abs(x))


@pytest.mark.parametrize(
    ("kind", "expected"), [("Add", np.add), ("Min", np.minimum), ("Max", np.maximum), ("Mult", np.multiply)]
)
def test_scaled_pairs_and_the_product_that_is_not(kind: str, expected: np.ufunc) -> None:
    x, z = numbers({"width": 6}), numbers({"width": 6})
    scale = 1.0 if kind == "Mult" else 0.25
    given = run("ScaledElementWise", {"x": x, "z": z}, {"Type": kind, "Scale": bits_of(0.25)})
    np.testing.assert_array_equal(given, scale * expected(x, z))


@pytest.mark.parametrize(("scale", "offset"), [(2.0, 0.0), (1.0, -0.5), (-1.5, 3.0), (1.0, 0.0)])
def test_gain_and_offset(scale: float, offset: float) -> None:
    x = numbers({"channel": 2, "width": 6})
    params: dict[str, Plain] = {"ScaleScalar": bits_of(scale), "BiasScalar": bits_of(offset)}
    np.testing.assert_array_equal(run("GOC", {"x": x}, params), scale * x + offset)


def test_gain_and_offset_by_default() -> None:
    x = numbers({"width": 6})
    np.testing.assert_array_equal(run("GOC", {"x": x}), x)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("form", ["gain", "offset", "both"])
def test_dynamic_gain_and_offset(form: str, constant: bool) -> None:  # noqa: FBT001 - a parameter of the test
    x = numbers({"channel": 3, "height": 2, "width": 4})
    gain, offset = numbers({"channel": 3}), numbers({"channel": 3})
    vectors = {"gain": {"g": gain}, "offset": {"o": offset}, "both": {"g": gain, "o": offset}}[form]
    tensors = {"x": x} if constant else {"x": x, **vectors}
    halves = {name: values.astype(np.float16) for name, values in vectors.items()} if constant else None
    given = run("DynamicGOC", tensors, {"BiasOnly": form == "offset"}, constants=halves)
    expected = (x * gain if form != "offset" else x) + (offset if form != "gain" else 0)
    np.testing.assert_array_equal(given, expected)


def test_dropout_of_nothing() -> None:
    x = numbers({"channel": 2, "width": 6})
    np.testing.assert_array_equal(run("Dropout", {"x": x}, {"DropoutRate": 0, "Seed": 3}), x)
    np.testing.assert_array_equal(run("Dropout", {"x": x}, {"DropoutRate": 0.0}), x)


# Windows


def padded(x: Array, params: Mapping[str, Plain], value: float) -> Array:
    """Put padding around depth, height and width."""
    sides = [("Front", "Back"), ("Top", "Bot"), ("Left", "Right")]
    widths = [tuple(int(cast("int", params.get(f"Pad{side}", 0))) for side in pair) for pair in sides]
    return np.pad(x, [(0, 0), (0, 0), *widths], constant_values=value)


def windows(x: Array, params: Mapping[str, Plain]) -> tuple[list[tuple[int, int, int]], tuple[int, ...], list[int]]:
    """Return the corner of every window, the extents of the result, and the kernel's."""
    kernel = [int(cast("int", params.get(f"Kernel{name}", 1))) for name in ("Depth", "Height", "Width")]
    steps = [*cast("list[int]", params.get("Step", [1, 1, 1])), 1][:3][::-1]
    counts = tuple((extent - k) // step + 1 for extent, k, step in zip(x.shape[2:], kernel, steps, strict=True))
    deep, high, wide = counts
    places = itertools.product(range(deep), range(high), range(wide))
    return [(d * steps[0], h * steps[1], w * steps[2]) for d, h, w in places], counts, kernel


def convolved(x: Array, weight: Array, params: Mapping[str, Plain], groups: int) -> Array:
    """Convolve by loops."""
    around = padded(x, params, 0)
    corners, counts, kernel = windows(around, params)
    outer, inner = weight.shape[0] // groups, weight.shape[1]
    result = np.zeros((x.shape[0], weight.shape[0], len(corners)))
    for place, (d, h, w) in enumerate(corners):
        seen = around[:, :, d : d + kernel[0], h : h + kernel[1], w : w + kernel[2]]
        for channel in range(weight.shape[0]):
            first = channel // outer * inner
            result[:, channel, place] = (seen[:, first : first + inner] * weight[channel]).sum(axis=(1, 2, 3, 4))
    return result.reshape(x.shape[0], weight.shape[0], *counts)


CONVOLUTIONS: list[tuple[Extents, dict[str, Plain], int, int]] = [
    ({"channel": 3, "height": 5, "width": 6}, {"KernelHeight": 3, "KernelWidth": 2}, 2, 1),
    ({"channel": 4, "height": 5, "width": 6}, {"KernelHeight": 1, "KernelWidth": 3, "Step": [2, 1]}, 6, 2),
    ({"batch": 2, "channel": 2, "height": 4, "width": 4}, {"KernelHeight": 2, "KernelWidth": 2, "PadTop": 1}, 2, 2),
    ({"channel": 1, "height": 4, "width": 5}, {"KernelHeight": 2, "KernelWidth": 3, "PadLeft": 2, "PadBot": 1}, 3, 1),
    ({"channel": 2, "height": 3, "width": 3}, {"KernelHeight": 1, "KernelWidth": 1, "PadRight": 1, "PadTop": 2}, 1, 1),
    (
        {"channel": 2, "depth": 4, "height": 3, "width": 5},
        {"KernelDepth": 2, "KernelHeight": 2, "KernelWidth": 3, "Step": [2, 1, 2], "PadFront": 1, "PadBack": 1},
        2,
        1,
    ),
]


@pytest.mark.parametrize(("extents", "window", "channels", "groups"), CONVOLUTIONS)
@pytest.mark.parametrize("mode", ["Dense", "Unity"])
def test_convolution(extents: Extents, window: dict[str, Plain], channels: int, groups: int, mode: str) -> None:
    x = numbers(extents)
    sizes = [int(cast("int", window.get(f"Kernel{name}", 1))) for name in ("Depth", "Height", "Width")]
    weight = RNG.uniform(-2, 2, (channels, extents["channel"] // groups, *sizes)).astype(np.float16)
    weight = weight if mode == "Dense" else np.ones_like(weight)
    params: dict[str, Plain] = {"Type": "Conv", "KernelMode": mode, "KernelType": "Float16", "PaddingMode": "Zero"}
    params |= {"KernelMutable": False, "KernelGroupReuse": mode == "Unity", **window}
    kernel = weight if mode == "Dense" else None
    given = run("Conv", {"x": x}, params, kernel=kernel, OutputChannels=channels, NumGroups=groups)
    np.testing.assert_allclose(given, convolved(x, weight.astype(np.float64), window, groups), rtol=1e-12, atol=1e-12)


def test_the_published_upsampling_by_two() -> None:
    x = numbers({"channel": 2, "height": 2, "width": 3})
    params: dict[str, Plain] = {
        "Type": "ChannelWiseDeConv",
        "KernelMode": "Unity",
        "KernelType": "Float16",
        "KernelGroupReuse": True,
        "KernelHeight": 2,
        "KernelWidth": 2,
        "PadTop": 1,
        "PadBot": 0,
        "PadLeft": 1,
        "PadRight": 0,
        "PaddingMode": "Zero",
        "Step": [2, 2],
    }
    given = run("Conv", {"x": x}, params, OutputChannels=2, NumGroups=1)
    np.testing.assert_array_equal(given, x.repeat(2, axis=3).repeat(2, axis=4))


@pytest.mark.parametrize(
    ("kernel", "step", "before", "behind"), [(3, 2, 2, 0), (3, 2, 1, 1), (2, 3, 1, 0), (3, 2, 2, 2), (1, 2, 0, 0)]
)
def test_upsampling_with_other_kernels(kernel: int, step: int, before: int, behind: int) -> None:
    x = numbers({"width": 4})
    stuffed = np.zeros((1, 1, 1, 1, 4 * step))
    stuffed[..., ::step] = x
    around = np.pad(stuffed, [(0, 0)] * 4 + [(before, behind)])
    expected = np.lib.stride_tricks.sliding_window_view(around, kernel, axis=4).sum(axis=-1)
    params: dict[str, Plain] = {"Type": "ChannelWiseDeConv", "KernelMode": "Unity", "KernelHeight": 1}
    params |= {"KernelWidth": kernel, "PadLeft": before, "PadRight": behind, "Step": [step, 1, 1]}
    np.testing.assert_allclose(run("Conv", {"x": x}, params, OutputChannels=1), expected)


POOLS: list[tuple[Extents, dict[str, Plain]]] = [
    ({"channel": 2, "height": 5, "width": 6}, {"KernelHeight": 3, "KernelWidth": 2, "Step": [2, 1]}),
    ({"batch": 2, "height": 4, "width": 5}, {"KernelHeight": 2, "KernelWidth": 3, "PadTop": 1, "PadRight": 2}),
    ({"height": 4, "width": 5}, {"KernelHeight": 3, "KernelWidth": 3, "PadBot": 2, "PadLeft": 1, "Step": [3, 2, 1]}),
    (
        {"depth": 3, "height": 3, "width": 4},
        {"KernelDepth": 2, "KernelHeight": 2, "KernelWidth": 2, "PadFront": 1, "PadBack": 1, "Step": [1, 2, 2]},
    ),
]


@pytest.mark.parametrize(("extents", "window"), POOLS)
@pytest.mark.parametrize("mode", ["Negative", "Zero"])
def test_max_pooling(extents: Extents, window: dict[str, Plain], mode: str) -> None:
    x = numbers(extents) - 5  # all below zero, so that a padding of zeros is the largest
    around = padded(x, window, -np.inf if mode == "Negative" else 0)
    corners, counts, kernel = windows(around, window)
    seen = [around[:, :, d : d + kernel[0], h : h + kernel[1], w : w + kernel[2]] for d, h, w in corners]
    expected = np.stack([one.max(axis=(2, 3, 4)) for one in seen], axis=-1).reshape(*x.shape[:2], *counts)
    given = run("Pooling", {"x": x}, {"Type": "Max", "PaddingMode": mode, **window})
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize(("extents", "window"), POOLS)
@pytest.mark.parametrize("excluding", [False, True])
def test_average_pooling(extents: Extents, window: dict[str, Plain], excluding: bool) -> None:  # noqa: FBT001 - a parameter of the test
    x = numbers(extents)
    around, counted = padded(x, window, 0), padded(np.ones_like(x), window, 0 if excluding else 1)
    corners, counts, kernel = windows(around, window)
    means: list[Array] = []
    for d, h, w in corners:
        part = (..., slice(d, d + kernel[0]), slice(h, h + kernel[1]), slice(w, w + kernel[2]))
        means.append(around[part].sum(axis=(2, 3, 4)) / counted[part].sum(axis=(2, 3, 4)))
    expected = np.stack(means, axis=-1).reshape(*x.shape[:2], *counts)
    params: dict[str, Plain] = {"Type": "Avg", "PaddingMode": "Zero", "AverageCountExcludePadding": excluding}
    np.testing.assert_allclose(run("Pooling", {"x": x}, {**params, **window}), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 0, 2, 1)])
def test_cross_correlation(pads: tuple[int, int, int, int]) -> None:
    x, template = numbers({"height": 5, "width": 6}), numbers({"width": 6})
    params: dict[str, Plain] = {"TemplateHeight": 2, "TemplateWidth": 3, "NumGroups": 1}
    params |= {f"Pad{side}": pad for side, pad in zip(("Top", "Bot", "Left", "Right"), pads, strict=True)}
    around = np.pad(x[0, 0, 0], [pads[:2], pads[2:]])
    seen = np.lib.stride_tricks.sliding_window_view(around, (2, 3))
    expected = np.einsum("hwij,ij->hw", seen, template.reshape(2, 3))
    given = run("CrossCorrelation", {"x": x, "t": template}, params)
    np.testing.assert_allclose(given[0, 0, 0], expected, rtol=1e-12, atol=1e-12)


def test_a_rasteriser_of_one_element() -> None:
    x = numbers({"channel": 3, "width": 4})
    params: dict[str, Plain] = {"RasterizerMode": "UnfoldedChannels", "KernelWidth": 1, "KernelHeight": 1}
    np.testing.assert_array_equal(run("KernelRasterizer", {"x": x}, {**params, "NumGroups": 3}), x)


# Products and attention


def test_matrix_product() -> None:
    a = numbers({"batch": 2, "channel": 3, "height": 2, "width": 4})
    b = numbers({"batch": 2, "channel": 4, "height": 2, "width": 5})
    given = run("MatrixMultiplication", {"a": a, "b": b}, OutputChannels=3)
    np.testing.assert_allclose(given, np.einsum("ncdhk,nkdhw->ncdhw", a, b), rtol=1e-12)


@pytest.mark.parametrize("name", DIMENSIONS)
@pytest.mark.parametrize("depth", [1, 3])
def test_softmax(name: str, depth: int) -> None:
    x = numbers({"batch": 2, "channel": 3, "depth": depth, "height": 2, "width": 4})
    powers = np.exp(x)
    expected = powers / powers.sum(axis=DIMENSIONS.index(name), keepdims=True)
    np.testing.assert_allclose(run("Softmax", {"x": x}, {"Dimension": name}), expected, rtol=1e-12)


def test_one_dimension_may_be_a_list_of_one() -> None:
    x = numbers({"channel": 3, "width": 4})
    np.testing.assert_array_equal(
        run("Softmax", {"x": x}, {"Dimension": ["Channel"]}), run("Softmax", {"x": x}, {"Dimension": "Channel"})
    )


@pytest.mark.parametrize("masked", [False, True])
def test_attention(masked: bool) -> None:  # noqa: FBT001 - a parameter of the test
    query = numbers({"channel": 3, "height": 2, "width": 4})
    key, value = (numbers({"channel": 5, "height": 2, "width": 4}) for _ in range(2))
    mask = numbers({"channel": 3, "width": 5})
    scale = np.full((1,) * 5, 0.375, np.float16)
    scores = 0.375 * np.einsum("nqdhw,nkdhw->nqdhk", query, key) + (mask if masked else 0)
    weights = np.exp(scores) / np.exp(scores).sum(axis=4, keepdims=True)
    expected = np.einsum("nqdhk,nkdhw->nqdhw", weights, value)
    sketch = Sketch()
    tensors = {"q": query, "k": key, "v": value, **({"m": mask} if masked else {})}
    for symbol, values in tensors.items():
        sketch.input(symbol, {name.lower(): extent for name, extent in zip(DIMENSIONS, values.shape, strict=True)})
    sketch.constant("s", scale)
    bottoms = ["q", "k", "v", "s", *(["m"] if masked else [])]
    sketch.unit("u", "SDPA", bottoms, {"SubtractMax": True}, OutputChannels=3)
    sketch.output("y", "u")
    graph = parse_netplist(sketch.data(), sketch.weights)
    feed = {name: values[:, :, 0] for name, values in tensors.items()}
    np.testing.assert_allclose(reference(graph, feed)["y"], expected[:, :, 0], rtol=1e-12)
    assert [node.op.name for node in graph.nodes].count("sdpa") == 1


@pytest.mark.parametrize("params", [{}, {"SubtractMax": False}, {"SubtractMax": 0}])
def test_attention_without_the_subtraction_warns_and_overflows(params: dict[str, Plain]) -> None:
    sketch, plain = attention_sketch({"SubtractMax": True}), attention_sketch(params)
    whole = parse_netplist(sketch.data(), sketch.weights)
    with pytest.warns(PrecisionWarning, match=r"SubtractMax is off, so exponentials of scores above 11\.09"):
        graph = parse_netplist(plain.data(), plain.weights)
    feed = {name: np.full(node.types[0].shape, 1.5) for name, node in graph.inputs.items()}
    np.testing.assert_allclose(reference(graph, feed)["y"], reference(whole, feed)["y"], rtol=1e-12)
    large = {name: (4 * values).astype(np.float16) for name, values in feed.items()}
    assert np.all(af.run(af.build_program(whole, "m4"), large).outputs["y"] == 6)
    assert not np.any(af.run(af.build_program(graph, "m4"), large).outputs["y"]), "each is divided by infinity"


def attention_sketch(params: Mapping[str, Plain], **extents: Extents) -> Sketch:
    """Return attention of two heads, with some tensors of other extents."""
    sketch = Sketch()
    common = {"channel": 3, "height": 2, "width": 4}
    for symbol in ("q", "k", "v"):
        sketch.input(symbol, extents.get(symbol, common))
    sketch.constant("s", np.ones((1,) * 5, np.float16))
    if "m" in extents:
        sketch.input("m", extents["m"])
    sketch.unit("u", "SDPA", ["q", "k", "v", "s", *(["m"] if "m" in extents else [])], params)
    sketch.output("y", "u")
    return sketch


@pytest.mark.parametrize(
    ("extents", "message"),
    [
        ({"k": {"channel": 2, "height": 2, "width": 4}}, "key and value differ in shape"),
        ({"q": {"channel": 3, "height": 1, "width": 4}}, "query and key differ in heads (height) or width"),
        ({"q": {"channel": 3, "height": 2, "width": 5}}, "query and key differ in heads (height) or width"),
        ({"m": {"channel": 3, "height": 2, "width": 3}}, "the mask does not cover the scores of all heads"),
        ({"m": {"channel": 1, "width": 3}}, "the mask does not cover the scores of all heads"),
        ({"q": {"batch": 2, "channel": 3, "height": 2, "width": 4}}, "query has more than one along Batch"),
        ({"m": {"depth": 2, "channel": 3, "width": 3}}, "mask has more than one along Depth"),
    ],
)
def test_attention_that_does_not_fit(extents: dict[str, Extents], message: str) -> None:
    sketch = attention_sketch({"SubtractMax": True}, **extents)
    with pytest.raises(GraphError) as caught:
        parse_netplist(sketch.data(), sketch.weights)
    assert message in caught.value.message


def test_the_scale_of_attention_is_one_constant() -> None:
    sketch = attention_sketch({"SubtractMax": True})
    cast("dict[str, Plain]", sketch.network["u"])["Bottom"] = ["q", "k", "v", "q"]
    with pytest.raises(GraphError, match="the scale is not a constant"):
        parse_netplist(sketch.data(), sketch.weights)
    sketch = attention_sketch({"SubtractMax": True})
    sketch.constant("two", np.ones((1, 1, 1, 1, 2), np.float16))
    cast("dict[str, Plain]", sketch.network["u"])["Bottom"] = ["q", "k", "v", "two"]
    with pytest.raises(GraphError, match="the scale is several numbers"):
        parse_netplist(sketch.data(), sketch.weights)


# Reductions and normalisations


@pytest.mark.parametrize(("kind", "expected"), [("Sum", np.sum), ("Avg", np.mean), ("Max", np.max), ("Min", np.min)])
@pytest.mark.parametrize("names", [["Width"], ["Batch", "Depth"], ["Channel", "Height", "Width"], list(DIMENSIONS)])
@pytest.mark.parametrize("depth", [1, 2])
def test_reduction(kind: str, expected: object, names: list[str], depth: int) -> None:
    x = numbers({"batch": 2, "channel": 3, "depth": depth, "height": 2, "width": 4})
    axes = tuple(DIMENSIONS.index(name) for name in names)
    given = run("Reduction", {"x": x}, {"Type": kind, "Dimension": cast("list[Plain]", names)})
    wanted = cast("np.ufunc", expected)(x, axis=axes, keepdims=True)
    np.testing.assert_allclose(given, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", ["Width", "Height", "Channel"])
@pytest.mark.parametrize("batch", [1, 2])
def test_range_normalisation(name: str, batch: int) -> None:
    x = numbers({"batch": batch, "channel": 3, "height": 4, "width": 5})
    axis = DIMENSIONS.index(name)
    least, most = x.min(axis=axis, keepdims=True), x.max(axis=axis, keepdims=True)
    given = run("MinMaxNormalization", {"x": x}, {"Dimension": name, "Epsilon": bits_of(0.5)})
    np.testing.assert_allclose(given, (x - least) / (most - least + 0.5), rtol=1e-12, atol=1e-15)
    without = run("MinMaxNormalization", {"x": x}, {"Dimension": name})
    np.testing.assert_allclose(without, (x - least) / (most - least), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_response_normalisation(channels: int) -> None:
    x = numbers({"batch": 2, "channel": channels, "height": 2, "width": 3})
    before, behind = (channels - 1) // 2, channels // 2
    total = np.stack([(x[:, max(0, c - before) : c + behind + 1] ** 2).sum(axis=1) for c in range(channels)], axis=1)
    alpha = float(np.float16(0.3))
    params: dict[str, Plain] = {"Type": "Channel", "KernelWidth": 1, "KernelHeight": 1, "KernelChannel": channels}
    params |= {"Alpha": bits_of(0.3), "Beta": 0.75, "K": 2}
    given = run("LocalResponseNormalization", {"x": x}, params)
    np.testing.assert_allclose(given, x / (2 + alpha / channels * total) ** 0.75, rtol=1e-12)


def test_places_of_the_tables() -> None:
    table = layer_table()
    assert [entry.axis for entry in table.dimensions.values()] == [0, 1, 2, 3, 4]
    assert len(table.unit_types) == 79
    assert sorted(table.unit_types.values()) == list(range(1, 80))
    given = [table.evidence, table.dimensions_evidence, table.unit_types_evidence]
    given += [layer.evidence for layer in table.layers.values() if layer.evidence]
    assert {entry.source.partition(" ")[0] for entry in given} <= set(database().sources)
    assert all(str(table.evidence_of(name)) for name in table.layers)


def test_a_table_in_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "layers.toml"
    path.write_text("version = 1")
    with pytest.raises(DataFileError, match=r"layers\.toml: Expected `str`, got `int` - at `\$\.version`"):
        layer_table(path)
    path.write_text("version = ")
    with pytest.raises(DataFileError, match=r"layers\.toml: "):
        layer_table(path)
