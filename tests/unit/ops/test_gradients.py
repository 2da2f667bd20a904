"""The gradient of every operation: against differences of its meaning, torch, documented edges, and every family."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.graph.node import build
from aneforge.ops.constant import Dense
from aneforge.ops.gradient import Gradient, NoGradient
from aneforge.ops.gradients import shifting
from aneforge.ops.op import Op, Trait
from aneforge.ops.table import find_op, ops
from aneforge.targets import Family
from aneforge.targets.queries import least_limit
from aneforge.testing.calls import Drawn, calls
from gradient_tools import backs_of, backward_graph, call_of, gradients_of, has_gradient, slope, torch_gradients
from torch_meanings import meanings

if TYPE_CHECKING:
    from aneforge.ops.types import Array

WITH_GRADIENT = [op for op in ops().values() if op.gradient and isinstance(op.gradient(), Gradient)]
UNTESTABLE = {
    "argmax": "its sample has equal elements, where differences are jumps",
    "cond": "its sample has no gradient in most draws",
    "dequantize": "its operand is an integer: see the test of quantisation",
    "dropout": "it draws anew at every evaluation",
    "global_arg_min_max": "its result is an integer",
    "quantize": "its result is an integer: see the test of quantisation",
    "topk": "its sample has equal elements of integers",
}
ON_KINKS = {"crop_resize": "boxes"}
"""Operands that are drawn so that places fall on elements, where interpolation has a kink; they are moved a little."""
FEW = settings(max_examples=3, deadline=None, derandomize=True)


def test_every_operation_has_a_gradient_or_says_why_not() -> None:
    silent = [name for name, op in ops().items() if op.gradient is None]
    assert not silent
    said = [op.gradient() for op in ops().values() if op.gradient]
    assert all(rule.why for rule in said if isinstance(rule, NoGradient))
    assert len(WITH_GRADIENT) >= 170


@pytest.mark.parametrize("op", [op for op in WITH_GRADIENT if op.name not in UNTESTABLE], ids=lambda op: op.name)
def test_a_gradient_is_how_fast_results_change(op: Op) -> None:
    """Along a drawn direction, for drawn operands, attributes and gradients that come back."""

    @FEW
    @given(calls(op), st.booleans(), st.integers(0, 2**32 - 1))
    def compare(drawn: Drawn, bake_integers: bool, seed: int) -> None:  # noqa: FBT001 - drawn
        known = bake_integers or Trait.SCATTERING in op.traits  # only some modes take indices that are computed
        generator = np.random.default_rng(seed)
        if op.name in ON_KINKS:
            moved = cast("Array", drawn.values[ON_KINKS[op.name]])
            drawn.values[ON_KINKS[op.name]] = moved + generator.uniform(-0.03, 0.03, moved.shape)
        call = call_of(drawn, bake_integers=known)
        assume(has_gradient(call))
        backs = backs_of(call.results, generator)
        along = {name: generator.uniform(-1, 1, call.feeds[name].shape) for name in call.params}
        found = gradients_of(call, backs)
        total = sum(float(np.sum(found[name] * along[name])) for name in call.params)
        expected = slope(call.results, call.feeds, along, backs)
        assert total == pytest.approx(expected, rel=2e-4, abs=2e-4)

    compare()


@pytest.mark.parametrize("name", sorted(meanings()))
def test_a_gradient_is_that_of_torch(name: str) -> None:
    op = find_op(name)

    @FEW
    @given(calls(op), st.integers(0, 2**32 - 1))
    def compare(drawn: Drawn, seed: int) -> None:
        call = call_of(drawn)
        assume(has_gradient(call))
        backs = backs_of(call.results, np.random.default_rng(seed))
        expected = torch_gradients(call, backs)
        for parameter, values in gradients_of(call, backs).items():
            np.testing.assert_allclose(values, expected[parameter], rtol=1e-7, atol=1e-9)

    compare()


def slopes_at(op: str, points: list[float], **attributes: object) -> list[float]:
    """Return the derivatives of a function of one element."""
    x = af.input((1, len(points)), name="x")
    y = af.Tensor(build(op, {"x": x}, attributes))
    graph = af.Graph({"dx": af.backward(y.sum(), [x])[x]})
    feeds = {"x": np.array([points])} if graph.inputs else {}
    return af.reference(graph, feeds)["dx"][0].tolist()


@pytest.mark.parametrize(
    ("op", "attributes", "points", "expected"),
    [
        ("relu", {}, [-1, 0, 1], [0, 0, 1]),
        ("relu6", {}, [0, 1, 6, 7], [0, 1, 1, 0]),
        ("clip", {"alpha": -1.0, "beta": 2.0}, [-2, -1, 0, 2, 3], [0, 0, 1, 1, 0]),
        ("clip", {"alpha": -np.inf, "beta": np.inf}, [-2, 3], [1, 1]),
        ("abs", {}, [-2, 0, 3], [-1, -1, 1]),
        ("leaky_relu", {"alpha": 0.25}, [-1, 0, 1], [0.25, 0.25, 1]),
        ("elu", {"alpha": 2.0}, [0, 1], [2, 1]),
        ("threshold", {"alpha": 1.0}, [0, 1, 2], [0, 0, 1]),
        ("thresholded_relu", {"alpha": 1.0}, [0, 1, 2], [0, 1, 1]),
        ("sigmoid_hard", {"alpha": 0.5, "beta": 0.5}, [-1, 0, 1, 2], [0, 0.5, 0.5, 0]),
        ("sign", {}, [-1, 0, 1], [0, 0, 0]),
        ("round", {}, [-1.5, 0, 1], [0, 0, 0]),
        ("square", {}, [0, 3], [0, 6]),
    ],
)
def test_edges_are_the_documented_ones(
    op: str, attributes: dict[str, object], points: list[float], expected: list[float]
) -> None:
    assert slopes_at(op, points, **attributes) == expected


def test_equal_elements_share_as_documented() -> None:
    x, y = af.input((1, 3), name="x"), af.input((1, 3), name="y")
    feeds = {"x": np.array([[1.0, 2.0, 5.0]]), "y": np.array([[1.0, 3.0, 4.0]])}
    found = af.backward(af.maximum(x, y).sum(), [x, y])
    larger = af.reference(af.Graph({"x": found[x], "y": found[y]}), feeds)
    assert larger["x"].tolist() == [[0.5, 0, 1]]
    assert larger["y"].tolist() == [[0.5, 1, 0]]
    tied = np.array([[1.0, 2.0, 2.0, 0.0]])
    row = af.input((1, 4), name="x")
    largest = af.Tensor(build("reduce_max", {"x": row}, {"axes": (1,), "keep_dims": True}))
    assert af.reference(af.backward(largest, [row])[row], [tied])["y"].tolist() == [[0, 0.5, 0.5, 0]]
    image = af.input((1, 1, 2, 2), name="x")
    pooled = af.backward(image.max_pool(2).sum(), [image])[image]
    assert af.reference(pooled, [tied.reshape(1, 1, 2, 2)])["y"].ravel().tolist() == [0, 1, 1, 0]


def test_a_length_of_zero_has_a_gradient_of_zero() -> None:
    x = af.input((1, 2), name="x")
    length = af.Tensor(build("reduce_l2_norm", {"x": x}, {"axes": (1,), "keep_dims": True}))
    assert af.reference(af.backward(length, [x])[x], [np.zeros((1, 2))])["y"].tolist() == [[0, 0]]


def test_quantisation_is_passed_straight_through() -> None:
    x = af.input((1, 4), name="x")
    scale, zero = Dense(np.array(0.5, np.float16)), Dense(np.array(3, np.int8))
    quantised = build("quantize", {"input": x, "scale": scale, "zero_point": zero}, {"output_dtype": "int8"})
    wide = af.Tensor(build("dequantize", {"input": af.Tensor(quantised), "scale": scale, "zero_point": zero}))
    loss = (wide * 3.0).sum()
    values = af.reference(af.backward(loss, [x])[x], [np.array([[-100.0, -1.3, 2.7, 100.0]])])["y"]
    assert values.tolist() == [[0, 3, 3, 0]]


def test_what_dropout_kept_gets_its_share() -> None:
    x = af.input((1, 64), name="x")
    y = af.dropout(x, 0.5, seed=3)
    graph = af.Graph({"y": y, "dx": af.backward(y.sum(), [x])[x]})
    results = af.reference(graph, [np.ones((1, 64))])
    assert np.array_equal(results["dx"], results["y"])
    assert set(results["dx"].ravel().tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("mode", ["mul", "max", "update"])
def test_scattering_that_replaces_needs_known_indices(mode: str) -> None:
    data, updates = af.input((4,)), af.input((2,))
    indices = af.Tensor(build("input", {}, {"shape": (2,), "dtype": "int32", "name": "indices"}))
    made = build("scatter", {"data": data, "indices": indices, "updates": updates}, {"mode": mode})
    with pytest.raises(af.errors.NotSupportedError, match="its indices must be constants"):
        af.backward(af.Tensor(made).sum(), [updates])


@pytest.mark.parametrize("name", ["conv", "conv_transpose", "matmul"])
def test_products_in_parts_have_the_same_gradient(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too long for an axis is multiplied in parts: here nearly everything is."""
    monkeypatch.setattr(shifting, "LONGEST_AXIS", 4)
    test_a_gradient_is_that_of_torch(name)


def longest_axis(graph: af.Graph) -> int:
    """Return the longest axis of a graph's tensors, the channels of rank 4 left out."""
    shapes = [kind.shape for node in graph.nodes for kind in node.types]
    return max(extent for shape in shapes for axis, extent in enumerate(shape) if not (len(shape) == 4 and axis == 1))


def test_no_gradient_has_a_longer_axis_than_every_family_takes() -> None:
    assert least_limit("max_tensor_dim") == shifting.LONGEST_AXIS
    for shape, strides in (((100, 1, 28, 28), (1, 1)), ((2, 3, 224, 224), (1, 1)), ((4, 3, 224, 224), (2, 2))):
        x = af.input(shape, name="x")
        weight = af.input((8, shape[1], 3, 3), name="w")
        y = af.Tensor(build("conv", {"x": x, "weight": weight}, {"strides": strides}))
        assert longest_axis(backward_graph([y], {"x": x, "w": weight})) <= shifting.LONGEST_AXIS
    image = af.input((16, 64, 112, 112), name="x")
    for made in (image.max_pool(2), image.avg_pool(2), image.max_pool(3, stride=2), image.upsample(2)):
        assert longest_axis(backward_graph([made], {"x": image})) <= shifting.LONGEST_AXIS


@pytest.mark.parametrize("target", ["m1", "m2"])
def test_scaled_gradients_of_borders_do_not_overflow_in_the_width(target: str) -> None:
    """A slice that begins inside of the width is multiplied by 16 there, and 16 · 8000 is no number of fp16."""
    x = af.input((1, 2, 4, 8), name="x")
    g = af.input((1, 2, 6, 10), name="g")
    wider = af.Tensor(build("pad", {"x": x}, {"pad": (1, 1, 1, 1), "mode": "constant", "constant_val": 0.0}))
    given = np.full(g.shape, 8000, np.float16)
    back = af.run(af.build_program(af.backward_from(g, wider, [x])[x], target), {"g": given}).outputs["y"]
    assert np.array_equal(back, given[:, :, 1:-1, 1:-1])
    inside = af.Tensor(build("slice_by_size", {"x": g}, {"begin": (0, 0, 1, 1), "size": x.shape}))
    assert np.isinf(af.run(af.build_program(inside, target), {"g": given}).outputs["y"]).any(), "the slice itself does"


BAKED = {name: frozenset({"weight"}) for name in ("conv", "conv_transpose", "ne_conv")}
"""Operands that no MIL program takes from a run."""
OF_INTEGERS = ("dequantize", "global_arg_min_max", "quantize")


@pytest.mark.parametrize("op", [op for op in WITH_GRADIENT if op.name not in OF_INTEGERS], ids=lambda op: op.name)
def test_a_gradient_compiles_wherever_its_operation_does(op: Op) -> None:
    @settings(max_examples=1, deadline=None, derandomize=True)
    @given(calls(op))
    def compile_both(drawn: Drawn) -> None:
        call = call_of(drawn, "fp16", BAKED.get(op.name, frozenset()))
        assume(has_gradient(call))
        backward = backward_graph(call.results, call.params)
        forward = af.Graph({f"y{number}": one for number, one in enumerate(call.results)})
        for family in Family:
            if af.preflight(forward, family).ok:
                af.build_program(backward, family)

    compile_both()
