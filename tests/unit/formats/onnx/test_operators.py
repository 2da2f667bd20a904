"""Operators against other implementations: NumPy, torch, and loops that say what a window is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.ops.constant import Constant
from unit.formats.onnx.onnx_models import made, node, numbers, one_node, results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.ops.types import Array

FEW = settings(max_examples=40, deadline=None)


def close(found: Array, wanted: Array, tolerance: float = 1e-5) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


# Windows.


@dataclass(frozen=True)
class Window:
    """A window, and the lengths of the axes that it goes along."""

    lengths: list[int]
    strides: list[int]
    dilations: list[int]
    pads: list[int]
    extents: list[int]

    @property
    def attributes(self) -> dict[str, object]:
        """What convolution and pooling share."""
        return {"strides": self.strides, "dilations": self.dilations, "pads": self.pads}


@st.composite
def windows(draw: st.DrawFn, *, most_pad: int = 1) -> Window:
    count = draw(st.integers(1, 2))

    def each(low: int, high: int, times: int = count) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=times, max_size=times))

    return Window(each(1, 3), each(1, 3), each(1, 2), each(0, most_pad, 2 * count), each(5, 8))


def seen_by(x: Array, window: Window, *, ceil: bool, combine: Callable[[list[Array], int], Array]) -> Array | None:
    """Pool by loops; nothing if a window sees no element."""
    count, pads = len(window.lengths), window.pads
    places: list[int] = []
    for axis in range(count):
        span = window.dilations[axis] * (window.lengths[axis] - 1) + 1
        room = x.shape[2 + axis] + pads[axis] + pads[axis + count] - span
        steps = (math.ceil if ceil else math.floor)(room / window.strides[axis]) + 1
        beyond = ceil and (steps - 1) * window.strides[axis] >= x.shape[2 + axis] + pads[axis]
        places.append(steps - beyond)
    result = np.zeros((*x.shape[:2], *places))
    for place in np.ndindex(*places):
        elements: list[Array] = []
        padded = 0
        for tap in np.ndindex(*window.lengths):
            at = [place[i] * window.strides[i] + tap[i] * window.dilations[i] - pads[i] for i in range(count)]
            if all(0 <= one < extent for one, extent in zip(at, x.shape[2:], strict=True)):
                elements.append(x[(slice(None), slice(None), *at)].astype(np.float64))
            elif all(-pads[i] <= one < x.shape[2 + i] + pads[i + count] for i, one in enumerate(at)):
                padded += 1
        if not elements:
            return None
        result[(slice(None), slice(None), *place)] = combine(elements, padded)
    return result


def largest(seen: list[Array], _: int) -> Array:
    return np.max(seen, axis=0)


def average(seen: list[Array], _: int) -> Array:
    return np.mean(seen, axis=0)


def padded_average(seen: list[Array], padded: int) -> Array:
    return np.sum(seen, axis=0) / (len(seen) + padded)


def euclidean(seen: list[Array], _: int) -> Array:
    return np.sqrt(np.sum(np.square(seen), axis=0))


def cubic(seen: list[Array], _: int) -> Array:
    return np.cbrt(np.sum(np.abs(seen) ** 3, axis=0))


POOLS: dict[str, tuple[str, dict[str, int], Callable[[list[Array], int], Array]]] = {
    "max": ("MaxPool", {}, largest),
    "average": ("AveragePool", {"count_include_pad": 0}, average),
    "padded": ("AveragePool", {"count_include_pad": 1}, padded_average),
    "length": ("LpPool", {"p": 2}, euclidean),
    "cubes": ("LpPool", {"p": 3}, cubic),
}


@pytest.mark.parametrize("name", POOLS)
@given(window=windows(), ceil=st.booleans())
@FEW
def test_pooling_is_what_loops_give(name: str, window: Window, *, ceil: bool) -> None:
    operator, extra, combine = POOLS[name]
    x = numbers(1, 2, *window.extents)
    wanted = seen_by(x, window, ceil=ceil, combine=combine)
    if wanted is None:
        return
    attributes = {**window.attributes, **extra, "kernel_shape": window.lengths, "ceil_mode": int(ceil)}
    close(results(one_node(operator, {"a": x}, None, attributes), {"a": x})["y"], wanted)


@given(window=windows())
@FEW
def test_the_places_of_largest_elements_lead_back_to_them(window: Window) -> None:
    x = numbers(2, 2, *window.extents)
    if seen_by(x, window, ceil=False, combine=largest) is None:
        return
    attributes = {**window.attributes, "kernel_shape": window.lengths}
    found = results(one_node("MaxPool", {"a": x}, None, attributes, outputs=2), {"a": x})
    assert np.array_equal(x.reshape(-1)[found["y1"]], found["y"])


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "VALID"])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool"])
def test_padding_by_itself(operator: str, auto_pad: str) -> None:
    x = numbers(1, 2, 7, 8)
    model = one_node(operator, {"a": x}, None, {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": auto_pad})
    count = (4, 3) if auto_pad == "SAME_UPPER" else (3, 3)
    assert results(model, {"a": x})["y"].shape == (1, 2, *count)


@given(window=windows(most_pad=2), groups=st.integers(1, 2), constant=st.booleans())
@FEW
def test_convolution_is_torchs(window: Window, groups: int, *, constant: bool) -> None:
    x, bias = numbers(2, 2 * groups, *window.extents), numbers(3 * groups)
    weight = numbers(3 * groups, 2, *window.lengths, seed=1)
    feeds = {"a": x} if constant else {"a": x, "b": weight, "c": bias}
    weights = {"b": weight, "c": bias} if constant else {}
    found = results(one_node("Conv", feeds, weights, {**window.attributes, "group": groups}), feeds)["y"]
    count = len(window.lengths)
    around = [width for axis in reversed(range(count)) for width in (window.pads[axis], window.pads[axis + count])]
    padded = torch.nn.functional.pad(torch.tensor(x), around)
    run = torch.nn.functional.conv1d if count == 1 else torch.nn.functional.conv2d
    wanted = run(padded, torch.tensor(weight), torch.tensor(bias), window.strides, 0, window.dilations, groups)
    close(found, wanted.numpy(), 1e-4)


@given(
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    length=st.integers(1, 3),
    extra=st.integers(0, 2),
    pad=st.integers(0, 1),
    groups=st.integers(1, 2),
)
@FEW
def test_transposed_convolution_is_torchs(
    stride: int, dilation: int, length: int, extra: int, pad: int, groups: int
) -> None:
    extra = min(extra, max(stride, dilation) - 1)  # torch takes no more
    if 4 * stride + dilation * (length - 1) + 1 + extra <= 2 * pad:
        return
    x, weight, bias = numbers(1, 2 * groups, 5), numbers(2 * groups, 3, length, seed=1), numbers(3 * groups)
    attributes = {"strides": [stride], "dilations": [dilation], "pads": [pad, pad], "output_padding": [extra]}
    found = results(
        one_node("ConvTranspose", {"a": x}, {"b": weight, "c": bias}, {"group": groups, **attributes}), {"a": x}
    )
    wanted = torch.nn.functional.conv_transpose1d(
        torch.tensor(x), torch.tensor(weight), torch.tensor(bias), stride, pad, extra, groups, dilation
    )
    close(found["y"], wanted.numpy(), 1e-4)


def test_a_transposed_convolution_of_a_given_size_puts_the_bias_behind_the_last_window() -> None:
    x, weight, bias = np.ones((1, 1, 2), np.float32), np.ones((1, 1, 1), np.float32), np.array([5], np.float32)
    model = one_node("ConvTranspose", {"a": x}, {"b": weight, "c": bias}, {"strides": [3], "output_shape": [6]})
    assert results(model, {"a": x})["y"].tolist() == [[[6, 5, 5, 6, 5, 5]]]


@given(mode=st.sampled_from(["linear", "nearest", "cubic"]), seed=st.integers(0, 5), align=st.booleans())
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@FEW
def test_grids_are_read_as_torch_reads_them(padding: str, mode: str, seed: int, *, align: bool) -> None:
    x, grid = numbers(2, 2, 2 + seed % 4, 3 + seed % 3, seed=seed), numbers(2, 3, 4, 2, seed=seed)
    model = one_node(
        "GridSample", {"a": x, "b": grid}, None, {"mode": mode, "padding_mode": padding, "align_corners": int(align)}
    )
    names = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
    image, places = (torch.tensor(array.astype(np.float64)) for array in (x, grid))
    wanted = torch.nn.functional.grid_sample(image, places, names[mode], padding, align)
    close(results(model, {"a": x, "b": grid})["y"], wanted.numpy(), 1e-4)


@pytest.mark.parametrize("size", range(1, 7))
def test_neighbouring_channels_are_those_of_the_specification(size: int) -> None:
    x = numbers(2, 5, 3, 3)
    wanted = np.empty(x.shape)
    for channel in range(5):
        first, last = max(0, channel - (size - 1) // 2), min(4, channel + math.ceil((size - 1) / 2))
        total = np.sum(np.square(x[:, first : last + 1].astype(np.float64)), axis=1)
        wanted[:, channel] = x[:, channel] / (1.2 + 0.1 / size * total) ** 0.7
    close(
        results(one_node("LRN", {"a": x}, None, {"size": size, "alpha": 0.1, "beta": 0.7, "bias": 1.2}), {"a": x})["y"],
        wanted,
    )


# Recurrent layers.


def torch_layer(kind: str, features: int, hidden: int) -> torch.nn.RNNBase:
    layers = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU, "RNN": torch.nn.RNN}
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType] - torch's stub leaves its argument open
    return layers[kind](features, hidden, bidirectional=True)


def onnx_order(kind: str, weight: Array) -> Array:
    """Return rows of torch's gates in ONNX's order: i, f, g, o as i, o, f, c; r, z, n as z, r, h."""
    order = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}[kind]
    parts = np.split(weight, len(order))
    return np.concatenate([parts[place] for place in order])


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_torchs_in_both_directions(kind: str, *, batch_first: bool) -> None:
    steps, batch, features, hidden = 4, 2, 3, 5
    layer = torch_layer(kind, features, hidden)
    parts = {name: value.detach().numpy() for name, value in layer.named_parameters()}

    def both(name: str) -> Array:
        return np.stack([onnx_order(kind, parts[name + suffix]) for suffix in ("", "_reverse")])

    weights = {
        "b": both("weight_ih_l0"),
        "c": both("weight_hh_l0"),
        "d": np.concatenate([both("bias_ih_l0"), both("bias_hh_l0")], axis=1),
    }
    x = numbers(steps, batch, features)
    fed = np.ascontiguousarray(x.transpose(1, 0, 2)) if batch_first else x
    extra = {"linear_before_reset": 1} if kind == "GRU" else {}
    model = one_node(
        kind,
        {"a": fed},
        weights,
        {"hidden_size": hidden, "direction": "bidirectional", "layout": int(batch_first), **extra},
        outputs=2,
    )
    found = results(model, {"a": fed})
    sequence, state = layer(torch.tensor(x))
    last = (state[0] if kind == "LSTM" else state).detach().numpy()
    wanted = sequence.detach().numpy().reshape(steps, batch, 2, hidden)
    if batch_first:
        close(found["y"], wanted.transpose(1, 0, 2, 3))
        close(found["y1"], last.transpose(1, 0, 2))
    else:
        close(found["y"], wanted.transpose(0, 2, 1, 3))
        close(found["y1"], last)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_all_steps_read_the_same_weights(kind: str) -> None:
    steps, hidden, gates = 6, 5, {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    weights = {"b": numbers(1, gates * hidden, 3), "c": numbers(1, gates * hidden, hidden, seed=1)}
    graph = from_onnx(one_node(kind, {"a": numbers(steps, 1, 3)}, weights, {"hidden_size": hidden}))
    held = {id(value): value for one in graph.nodes for _, value in one.values() if isinstance(value, Constant)}
    matrices = [value.nbytes for value in held.values() if value.type.rank == 2 and value.type.shape[0] > 1]
    assert sum(matrices) == sum(weight.nbytes for weight in weights.values())


@pytest.mark.parametrize("direction", ["forward", "reverse"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_known_weights_make_one_operation_that_means_what_the_steps_do(kind: str, direction: str) -> None:
    hidden, gates = 3, {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    x = numbers(4, 2, 5)
    weights = {
        "w": numbers(1, gates * hidden, 5, seed=1),
        "r": numbers(1, gates * hidden, hidden, seed=2),
        "b": numbers(1, 2 * gates * hidden, seed=3),
        "p": numbers(1, 3 * hidden, seed=4),
    }
    given = ["x", "w", "r", "b", "", "", "", "p"][: 8 if kind == "LSTM" else 4]
    used = {name: value for name, value in weights.items() if name in given}
    nodes = [node(kind, given, ["y", "h"], {"hidden_size": hidden, "direction": direction})]
    known = made(nodes, {"x": ("fp32", x.shape)}, ["y", "h"], used)
    fed = made(nodes, {name: ("fp32", value.shape) for name, value in {"x": x, **used}.items()}, ["y", "h"])
    assert kind.lower() in {one.op.name for one in from_onnx(known).nodes}
    assert kind.lower() not in {one.op.name for one in from_onnx(fed).nodes}
    for name, value in results(known, {"x": x}).items():
        close(value, results(fed, {"x": x, **used})[name])


def test_a_short_sequence_keeps_its_state_and_gives_zeros() -> None:
    x, weight, recurrent = numbers(3, 2, 1), numbers(1, 2, 1, seed=1), numbers(1, 2, 2, seed=2)
    lengths = np.array([3, 1], np.int32)
    nodes = [node("RNN", ["x", "w", "r", "", "n"], ["y", "h"], {"hidden_size": 2})]
    model = made(nodes, {"x": ("fp32", x.shape)}, ["y", "h"], {"w": weight, "r": recurrent, "n": lengths})
    found = results(model, {"x": x})
    assert not found["y"][1:, 0, 1].any()
    assert np.array_equal(found["h"][0, 1], found["y"][0, 0, 1])
    assert np.array_equal(found["h"][0, 0], found["y"][2, 0, 0])


def activated(name: str, x: Array) -> Array:
    return {
        "Affine": 0.5 * x + 0.25,
        "LeakyRelu": np.where(x >= 0, x, 0.1 * x),
        "ThresholdedRelu": np.where(x >= 0.5, x, 0),
        "ScaledTanh": 0.5 * np.tanh(0.25 * x),
        "HardSigmoid": np.clip(0.2 * x + 0.5, 0, 1),
        "Elu": np.where(x > 0, x, np.exp(x) - 1),
        "Softsign": x / (1 + np.abs(x)),
        "Softplus": np.log1p(np.exp(x)),
        "Relu": np.maximum(x, 0),
    }[name]


@pytest.mark.parametrize(
    ("name", "alpha", "beta"),
    [
        ("Affine", 0.5, 0.25),
        ("LeakyRelu", 0.1, None),
        ("ThresholdedRelu", 0.5, None),
        ("ScaledTanh", 0.5, 0.25),
        ("HardSigmoid", None, None),
        ("Elu", None, None),
        ("Softsign", None, None),
        ("Softplus", None, None),
        ("Relu", None, None),
    ],
)
def test_activations_of_a_recurrent_layer(name: str, alpha: float | None, beta: float | None) -> None:
    x, weight, recurrent = numbers(1, 2, 3), numbers(1, 4, 3, seed=1), numbers(1, 4, 4, seed=2)
    attributes: dict[str, object] = {"hidden_size": 4, "activations": [name]}
    if alpha is not None:
        attributes["activation_alpha"] = [alpha]
    if beta is not None:
        attributes["activation_beta"] = [beta]
    model = one_node("RNN", {"a": x}, {"b": weight, "c": recurrent}, attributes)
    wanted = activated(name, x[0].astype(np.float64) @ weight[0].T.astype(np.float64))
    close(results(model, {"a": x})["y"][0, 0], wanted)


def test_a_long_short_memory_with_peepholes_and_coupled_gates() -> None:
    x, weight, recurrent, peephole = numbers(2, 1, 2), numbers(1, 4, 2, seed=1), numbers(1, 4, 1, seed=2), numbers(1, 3)
    nodes = [
        node(
            "LSTM",
            ["x", "w", "r", "", "", "", "", "p"],
            ["", "h", "c"],
            {"hidden_size": 1, "input_forget": 1, "clip": 0.8},
        )
    ]
    model = made(nodes, {"x": ("fp32", x.shape)}, ["h", "c"], {"w": weight, "r": recurrent, "p": peephole})
    found = results(model, {"x": x})

    def sigmoid(value: Array) -> Array:
        return 1 / (1 + np.exp(-np.clip(value, -0.8, 0.8)))

    h = c = np.zeros((1, 1))
    for step in x.astype(np.float64):
        i, o, _, g = np.split(step @ weight[0].T + h @ recurrent[0].T, 4, axis=1)
        enters = sigmoid(i + peephole[0, 0] * c)
        c = (1 - enters) * c + enters * np.tanh(np.clip(g, -0.8, 0.8))
        h = sigmoid(o + peephole[0, 1] * c) * np.tanh(c)
    close(found["h"][0], h)
    close(found["c"][0], c)


# Places.


@given(data=st.data())
@FEW
def test_slices_are_pythons(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    x = numbers(*shape)
    axes = data.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    edge = st.one_of(st.integers(-8, 8), st.sampled_from([-(2**63), 2**63 - 1]))
    bounds = [data.draw(st.tuples(edge, edge, st.sampled_from([-3, -2, -1, 1, 2, 3]))) for _ in axes]
    index = [slice(None)] * len(shape)
    for axis, (start, end, step) in zip(axes, bounds, strict=True):
        index[axis] = slice(start, end, step)
    lists = [*(list(column) for column in zip(*bounds, strict=True))]
    starts, ends, steps = (np.array(one, np.int64) for one in lists)
    model = one_node("Slice", {"a": x}, {"b": starts, "c": ends, "d": np.array(axes, np.int64), "e": steps})
    found = results(model, {"a": x})["y"]
    assert np.array_equal(found, onnx_slice(x, axes, bounds))


def onnx_slice(x: Array, axes: Sequence[int], bounds: Sequence[tuple[int, int, int]]) -> Array:
    """Take a region as ONNX says it: negative places are counted from the end once, then cut to the axis."""
    result = x
    for axis, (start, end, step) in zip(axes, bounds, strict=True):
        extent = x.shape[axis]
        low, high = (0, extent) if step > 0 else (-1, extent - 1)
        first, last = (
            min(max(one + extent if one < 0 else one, low if which else max(low, 0)), high)
            for which, one in enumerate((start, end))
        )
        result = np.take(result, np.arange(first, last, step), axis)
    return result


PadMode = Literal["constant", "reflect", "edge", "wrap"]
PAD_MODES: tuple[PadMode, ...] = ("constant", "reflect", "edge", "wrap")


@given(data=st.data(), mode=st.sampled_from(PAD_MODES))
@FEW
def test_padding_is_numpys(data: st.DataObject, mode: PadMode) -> None:
    shape = data.draw(st.lists(st.integers(2, 5), min_size=1, max_size=3))
    widths = data.draw(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=len(shape), max_size=len(shape))
    )
    x = numbers(*shape)
    flat = np.array([pair[side] for side in (0, 1) for pair in widths], np.int64)
    model = one_node("Pad", {"a": x}, {"b": flat}, {"mode": mode})
    assert np.array_equal(results(model, {"a": x})["y"], np.pad(x, widths, mode))


@given(data=st.data(), mode=st.sampled_from(["none", "add", "mul", "max", "min"]))
@FEW
def test_scattered_elements_are_written_one_by_one(data: st.DataObject, mode: str) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    small = [data.draw(st.integers(1, extent)) for extent in shape]
    axis = data.draw(st.integers(0, len(shape) - 1))
    x, updates = numbers(*shape), numbers(*small, seed=1)
    if mode == "none":  # written twice, ONNX leaves open which stays
        index = np.broadcast_to(
            np.arange(small[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))]), small
        )
    else:
        index = np.random.default_rng(0).integers(-shape[axis], shape[axis], small)
    wanted = x.astype(np.float64)
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.get(mode)
    for place in np.ndindex(*small):
        at = (*place[:axis], int(index[place]), *place[axis + 1 :])
        wanted[at] = combine(wanted[at], updates[place]) if combine else updates[place]
    feeds = {"a": x, "b": index.astype(np.int64), "c": updates}
    close(results(one_node("ScatterElements", feeds, None, {"axis": axis, "reduction": mode}), feeds)["y"], wanted)


# Bits.


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int64", "uint64"])
def test_logic_on_bits_is_numpys(dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([0, 1, limits.max, limits.min, 5, limits.max // 3], dtype)
    y = x[::-1].copy()
    for operator, function in (
        ("BitwiseAnd", np.bitwise_and),
        ("BitwiseOr", np.bitwise_or),
        ("BitwiseXor", np.bitwise_xor),
    ):
        assert np.array_equal(results(one_node(operator, {"a": x, "b": y}), {"a": x, "b": y})["y"], function(x, y))
    assert np.array_equal(results(one_node("BitwiseNot", {"a": x}), {"a": x})["y"], ~x)


@pytest.mark.parametrize(
    ("own", "other"), [("float16", "uint16"), ("float32", "int32"), ("float64", "int64"), ("float32", "uint32")]
)
def test_bits_read_as_another_type(own: str, other: str) -> None:
    limits = np.finfo(own)
    edges = [limits.max, limits.tiny, limits.smallest_subnormal, 1 - limits.epsneg, 2 - 2 * limits.epsneg]
    x = np.array([0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, *edges], own)
    forward = one_node("BitCast", {"a": x}, None, {"to": {"uint16": 4, "int32": 6, "int64": 7, "uint32": 12}[other]})
    assert np.array_equal(results(forward, {"a": x})["y"], x.view(other))
    back = one_node("BitCast", {"a": x.view(other)}, None, {"to": {"float16": 10, "float32": 1, "float64": 11}[own]})
    assert np.array_equal(results(back, {"a": x.view(other)})["y"].view(other), x.view(other))


def test_the_bits_of_what_is_no_number_are_those_of_a_quiet_one() -> None:
    x = np.array([math.nan], np.float32)
    assert results(one_node("BitCast", {"a": x}, None, {"to": 12}), {"a": x})["y"].tolist() == [0x7FC00000]
    bits = np.array([0x7F800001], np.uint32)
    assert np.isnan(results(one_node("BitCast", {"a": bits}, None, {"to": 1}), {"a": bits})["y"]).all()


# Numbers.


@given(count=st.integers(1, 6), seed=st.integers(0, 20))
@FEW
def test_determinants_are_numpys(count: int, seed: int) -> None:
    x = numbers(2, count, count, dtype="float64", seed=seed)
    close(results(one_node("Det", {"a": x}), {"a": x})["y"], np.linalg.det(x), 1e-9)


def test_a_matrix_without_a_pivot_has_a_determinant() -> None:
    x = np.array([[0, 1], [1, 0]], np.float32)
    assert results(one_node("Det", {"a": x}), {"a": x})["y"] == -1


@given(length=st.integers(1, 9), wanted=st.integers(1, 9), inverse=st.booleans(), parts=st.sampled_from([1, 2]))
@FEW
def test_transforms_are_numpys(length: int, wanted: int, parts: int, *, inverse: bool) -> None:
    x = numbers(2, length, parts, dtype="float64")
    nodes = [node("DFT", ["a", "n", "axis"], ["y"], {"inverse": int(inverse)})]
    weights = {"n": np.array(wanted, np.int64), "axis": np.array(1, np.int64)}
    found = results(made(nodes, {"a": ("fp64", x.shape)}, weights=weights), {"a": x})["y"]
    signal = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    spectrum = (np.fft.ifft if inverse else np.fft.fft)(signal, wanted, axis=1)
    close(found, np.stack([spectrum.real, spectrum.imag], -1))


@given(count=st.integers(2, 9))
@FEW
def test_the_real_inverse_of_a_spectrum(count: int) -> None:
    signal = numbers(2, count, dtype="float64")
    spectrum = np.fft.rfft(signal, axis=1)
    x = np.stack([spectrum.real, spectrum.imag], -1)
    nodes = [node("DFT", ["a", "n", "axis"], ["y"], {"inverse": 1, "onesided": 1})]
    weights = {"n": np.array(count, np.int64), "axis": np.array(1, np.int64)}
    close(results(made(nodes, {"a": ("fp64", x.shape)}, weights=weights), {"a": x})["y"][..., 0], signal)


@pytest.mark.parametrize(
    "operator", ["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSum", "ReduceSumSquare"]
)
def test_a_reduction_over_no_axis_keeps_what_it_does_to_elements(operator: str) -> None:
    x = np.abs(numbers(2, 3)) + 0.5
    wanted = {"ReduceLogSum": np.log(x), "ReduceSumSquare": x * x}.get(operator, x)
    close(results(one_node(operator, {"a": x}, None, {"noop_with_empty_axes": 1}), {"a": x})["y"], wanted)


def test_a_mean_of_whole_numbers_is_cut_towards_zero() -> None:
    x = np.array([1, 2, 2], np.int32)
    assert results(one_node("ReduceMean", {"a": x}), {"a": x})["y"].tolist() == [1]


def test_regions_pooled_by_their_largest_element() -> None:
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    regions = np.array([[0, 0, 0, 5, 5], [0, 2, 1, 4, 3], [0, 7, 7, 9, 9]], np.float32)
    found = results(one_node("MaxRoiPool", {"a": x}, {"b": regions}, {"pooled_shape": [2, 2]}), {"a": x})["y"]
    assert found.reshape(3, 4).tolist() == [[14, 17, 32, 35], [15, 16, 21, 22], [0, 0, 0, 0]]


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("transform", ["half_pixel", "align_corners", "asymmetric"])
def test_a_resize_of_other_axes_than_height_and_width(mode: str, transform: str) -> None:
    x = numbers(3, 4)
    attributes = {"mode": mode, "coordinate_transformation_mode": transform}
    image = one_resize(x[None, None], [5, 6], **attributes)
    turned = one_resize(np.ascontiguousarray(x.T)[:, None, :, None], [6, 1, 5, 1], **attributes)
    close(turned[:, 0, :, 0].T, image[0, 0])


def one_resize(x: Array, sizes: list[int], **attributes: object) -> Array:
    whole = [*x.shape[: x.ndim - len(sizes)], *sizes]
    nodes = [node("Resize", ["a", "", "", "n"], ["y"], {**attributes})]
    model = made(nodes, {"a": ("fp32", x.shape)}, weights={"n": np.array(whole, np.int64)})
    return results(model, {"a": x})["y"]


def test_the_length_of_a_resize_is_a_product_in_single_precision() -> None:
    x = numbers(1, 1, 10, 10)
    nodes = [node("Resize", ["a", "", "s"], ["y"], {"mode": "nearest"})]
    scales = np.array([1, 1, 0.7, 0.7], np.float32)  # 0.7 is below 7/10 there, and its product with 10 is 7
    assert results(made(nodes, {"a": ("fp32", x.shape)}, weights={"s": scales}), {"a": x})["y"].shape == (1, 1, 7, 7)


def test_numbers_drawn_at_random() -> None:
    nodes = [
        node("RandomUniform", [], ["u"], {"shape": [1000], "low": 2.0, "high": 3.0, "seed": 1.0}),
        node("RandomNormal", [], ["n"], {"shape": [1000], "mean": 5.0, "scale": 0.5, "dtype": 11}),
        node("Multinomial", ["p"], ["m"], {"sample_size": 50, "dtype": 7}),
    ]
    logits = np.log(np.array([[0.5, 0.5, 0.0]], np.float32) + 1e-9)
    found = results(made(nodes, {"p": ("fp32", [1, 3])}, ["u", "n", "m"]), {"p": logits})
    assert found["u"].min() >= 2
    assert found["u"].max() < 3
    assert found["n"].dtype == np.float64
    assert abs(found["n"].mean() - 5) < 0.2
    assert set(found["m"].reshape(-1).tolist()) == {0, 1}
