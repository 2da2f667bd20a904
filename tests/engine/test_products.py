"""Products of any shape: against whole-number arithmetic, tap by tap, and in the forms that a convolution takes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aneforge.engine import golden, products
from aneforge.engine.dispatch import arithmetic
from aneforge.engine.exactness import Exactness
from aneforge.engine.kernels.library import using
from aneforge.ops.table import find_op
from aneforge.targets import resolve
from aneforge.testing.calls import Drawn, calls
from op_calls import value_of

Array = npt.NDArray[Any]
PLAIN: Any = {"strides": None, "pad_type": "valid", "pad": None, "dilations": None, "groups": 1}


def whole(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return small integers: no product or sum of them rounds."""
    return generator.integers(-6, 7, shape).astype(np.float16)


def widened(value: Any) -> Any:  # noqa: ANN401 - an array, a tuple of arrays or None
    if isinstance(value, tuple):
        return tuple(widened(one) for one in cast("tuple[Array, ...]", value))
    return None if value is None else value.astype(np.float64)


def whole_operands(drawn: Drawn) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for name, value in drawn.values.items():
        if isinstance(value, tuple):
            found[name] = tuple(whole(generator, one.shape) for one in value)
        else:
            found[name] = None if value is None else whole(generator, value.shape)
    return found


@pytest.mark.parametrize(
    "name",
    [
        "bmm",
        "bmm_w",
        "conv",
        "conv_transpose",
        "cross_correlation",
        "dynamic_conv",
        "einsum",
        "linear",
        "matmul",
        "ne_conv",
        "ne_matmul",
    ],
)
@pytest.mark.parametrize("target", ["m1", "m5"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_products_of_whole_numbers_are_exact(name: str, target: str, data: st.DataObject) -> None:
    """Every shape, stride, padding, dilation and number of groups gives what the mathematics says."""
    op = find_op(name)
    drawn = data.draw(calls(op))
    operands = whole_operands(drawn)
    (found,) = arithmetic(name, resolve(target)).compute(operands, drawn.sample.attributes)
    wide = {key: widened(value) for key, value in operands.items()}
    (meant,) = op.evaluate(wide, op.complete(drawn.sample.attributes))
    np.testing.assert_array_equal(found, meant)


def taps_one_by_one(x: Array, w: Array, strides: list[int], pads: list[int], dilations: list[int]) -> Array:
    """Return the grouped 2-D convolution by loops over output places, one sum of golden products for each."""
    groups = x.shape[1] // w.shape[1]
    around = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[1]), (pads[2], pads[3])))
    spans = [dilation * (extent - 1) + 1 for dilation, extent in zip(dilations, w.shape[2:], strict=True)]
    places = [(n - span) // stride + 1 for n, span, stride in zip(around.shape[2:], spans, strides, strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *places))
    for n, o, i, j in np.ndindex(*result.shape):
        first = (o // (w.shape[0] // groups)) * w.shape[1]
        top, left = i * strides[0], j * strides[1]
        seen = around[n, first : first + w.shape[1], top : top + spans[0], left : left + spans[1]]
        seen = seen[:, :: dilations[0], :: dilations[1]]
        result[n, o, i, j] = golden.matmul(seen.reshape(1, -1), w[o].reshape(-1, 1)).item()
    return result


@pytest.mark.parametrize(
    ("groups", "strides", "pads", "dilations"),
    [
        (1, [1, 1], [0, 0, 0, 0], [1, 1]),
        (1, [2, 1], [1, 0, 2, 1], [1, 1]),
        (2, [1, 2], [0, 1, 1, 0], [2, 1]),
        (4, [1, 1], [1, 1, 1, 1], [1, 2]),
    ],
)
def test_convolutions_have_the_sums_of_matrix_products(
    groups: int, strides: list[int], pads: list[int], dilations: list[int]
) -> None:
    generator = np.random.default_rng(4)
    x = (generator.standard_normal((2, 4, 6, 7)) / 16).astype(np.float16)
    w = (generator.standard_normal((8, 4 // groups, 3, 2)) / 16).astype(np.float16)
    pairs = [(pads[0], pads[1]), (pads[2], pads[3])]
    found = golden.convolution(x, w, stride=strides, pad=pairs, dilation=dilations, groups=groups)
    np.testing.assert_array_equal(found, taps_one_by_one(x, w, strides, pads, dilations))


def test_one_axis_is_two_axes_of_which_one_is_short() -> None:
    generator = np.random.default_rng(5)
    x, w = generator.standard_normal((2, 3, 9)), generator.standard_normal((4, 3, 2))
    x, w = x.astype(np.float16), w.astype(np.float16)
    flat = golden.convolution(x, w, stride=2, pad=[(1, 0)], dilation=3)
    deep = golden.convolution(x[:, :, None], w[:, :, None], stride=[1, 2], pad=[(0, 0), (1, 0)], dilation=[1, 3])
    np.testing.assert_array_equal(flat, deep[:, :, 0])


def test_a_transposed_convolution_adds_what_overlaps_on_the_grid() -> None:
    tiny = np.full((1, 1, 3), 2.0**-8, np.float16)
    found = golden.deconvolution(tiny, np.full((1, 1, 2), 2.0**-8, np.float16), bias=np.array([1.0]))
    steps = (found - 1) * 2**16
    assert golden.deconvolution(tiny, tiny[:, :, :2]).ravel().tolist() == [2.0**-16, 2.0**-15, 2.0**-15, 2.0**-16]
    assert steps.ravel().tolist() == [0.0] * 4, "the sums start at the bias and leave as fp16"


def test_a_transposed_convolution_whose_padding_takes_all_has_the_extents_asked_for() -> None:
    x, weight = np.ones((2, 1, 1), np.float16), np.ones((1, 1, 1), np.float16)
    found = golden.deconvolution(x, weight, extents=[1], stride=3, pad=[(2, 0)])
    assert found.shape == (2, 1, 1)
    assert not found.any()


def test_channels_that_do_not_fit_are_refused() -> None:
    x = np.zeros((1, 4, 3), np.float16)
    with pytest.raises(ValueError, match="different channels in 2 groups"):
        golden.convolution(x, np.zeros((3, 2, 1), np.float16), groups=2)
    with pytest.raises(ValueError, match="different channels in 1 groups"):
        golden.deconvolution(x, np.zeros((3, 2, 1), np.float16))
    with pytest.raises(ValueError, match="different channels in 3 groups"):
        golden.deconvolution(x, np.zeros((4, 2, 1), np.float16), groups=3)
    with pytest.raises(TypeError, match="strides"):
        golden.convolution(x, np.zeros((3, 4, 1), np.float16), strides=2)  # pyright: ignore[reportCallIssue] - wrong on purpose


def test_batches_broadcast() -> None:
    generator = np.random.default_rng(6)
    x = generator.standard_normal((2, 1, 3, 4)).astype(np.float16)
    y = generator.standard_normal((5, 4, 2)).astype(np.float16)
    found = golden.matmul(x, y)
    assert found.shape == (2, 5, 3, 2)
    for a, b in np.ndindex(2, 5):
        np.testing.assert_array_equal(found[a, b], golden.matmul(x[a, 0], y[b]))


def test_the_reach_of_a_sum() -> None:
    x = np.array([[20000.0, -20000.0]])
    total = golden.matmul_sum(x, np.ones((2, 1)), np.array([5.0]))
    assert total.reach().item() == 40005.0
    assert total.result().item() == 5.0


# Forms of a convolution.


@pytest.mark.parametrize(
    ("target", "x", "weight", "changed", "form"),
    [
        ("m1", (1, 4, 8, 8), (4, 4, 3, 3), {}, "direct"),
        ("m5", (1, 4, 8, 8), (4, 4, 3, 3), {}, "winograd"),
        ("m5", (1, 1, 8, 8), (4, 1, 3, 3), {}, "winograd"),
        ("m5", (1, 4, 8, 8), (4, 4, 3, 3), {"strides": (2, 2)}, "direct"),
        ("m5", (1, 4, 8, 8), (4, 4, 3, 3), {"dilations": (2, 2)}, "direct"),
        ("m5", (1, 4, 8, 8), (4, 2, 3, 3), {"groups": 2}, "direct"),
        ("m5", (1, 4, 8, 8), (4, 4, 5, 3), {}, "direct"),
        ("m5", (1, 4, 8), (4, 4, 3), {}, "direct"),
        ("m1", (1, 1, 8, 8), (4, 1, 1, 1), {}, "scaling"),
        ("m1", (1, 2, 8, 8), (4, 2, 1, 1), {}, "direct"),
        ("m1", (1, 2, 8, 8), (2, 1, 1, 1), {"groups": 2}, "direct"),
        ("h11", (1, 4, 8, 8), (4, 4, 3, 3), {}, "direct"),
    ],
)
def test_the_form_of_a_convolution(
    target: str, x: tuple[int, ...], weight: tuple[int, ...], changed: dict[str, Any], form: str
) -> None:
    attributes: Any = {**PLAIN, **changed}
    assert products.form_of(x, weight, attributes, resolve(target)) == form


def test_one_channel_under_one_tap_keeps_the_full_range() -> None:
    x, w = np.full((1, 1, 1, 2), 30000, np.float16), np.full((2, 1, 1, 1), 2, np.float16)
    found = arithmetic("conv", resolve("m1")).compute({"x": x, "weight": w}, PLAIN)[0]
    assert found.ravel().tolist() == [60000.0] * 4
    with_bias = {"x": x, "weight": w, "bias": np.array([1000, -16], np.float16)}
    padded = {**PLAIN, "pad_type": "custom", "pad": (0, 0, 1, 0)}
    found = arithmetic("conv", resolve("m1")).compute(with_bias, padded)[0]
    assert found.ravel().tolist() == [1000.0, 60992.0, 60992.0, -16.0, 60000.0, 60000.0]
    infinite = np.array([np.inf, np.nan], np.float16)
    for golden_model in (False, True):
        with using(golden=golden_model):
            found = arithmetic("conv", resolve("m1")).compute({"x": -x, "weight": w, "bias": infinite}, PLAIN)[0]
            assert found.ravel().tolist() == [5536.0, 5536.0, 38304.0, 38304.0], "2^16 and 1.5 · 2^16, less 60,000"
    two = arithmetic("conv", resolve("m1")).compute(
        {"x": np.tile(x, (1, 2, 1, 1)), "weight": np.tile(w, (1, 2, 1, 1))}, PLAIN
    )
    assert np.isinf(two[0]).all()


@pytest.mark.parametrize("pad", [[(1, 1), (1, 1)], [(0, 0), (0, 0)], [(2, 0), (0, 3)]])
@pytest.mark.parametrize("width", [8, 9])
def test_winograd_takes_bias_and_any_padding(pad: list[tuple[int, int]], width: int) -> None:
    generator = np.random.default_rng(7)
    x = whole(generator, (2, 3, 6, width))
    w = 2 * whole(generator, (4, 3, 3, 3))
    bias = np.arange(4.0)
    found = golden.winograd_convolution(x, w, bias, pad=pad)
    np.testing.assert_array_equal(found, golden.convolution(x, w, bias, pad=pad))


def test_winograd_passes_the_edge_in_its_combined_sums() -> None:
    x, w = np.full((1, 1, 3, 4), 8000, np.float16), np.ones((1, 1, 3, 3), np.float16)
    assert np.isinf(golden.winograd_convolution(x, w)[0, 0, 1, 1])
    assert golden.winograd_reach(x, w) > 2**15
    assert golden.winograd_reach(x[:, :, :, :1] * 0, w, np.array([-3.0])) == 3.0


# Doubts.


def exactness(name: str, target: str, operands: dict[str, Any], **attributes: object) -> Exactness:
    found = arithmetic(name, resolve(target))
    return found.label_of(operands, found.op.complete(attributes)).exactness


def ones(*shape: int, value: float = 1.0) -> Array:
    return np.full(shape, value, np.float16)


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("matmul", {"x": (1, 4), "y": (4, 1)}),
        ("bmm", {"x": (2, 1, 4), "y": (2, 4, 1)}),
        ("linear", {"x": (1, 4), "weight": (1, 4), "bias": (1,)}),
        ("conv", {"x": (1, 4, 1, 1), "weight": (1, 4, 1, 1), "bias": (1,)}),
        ("conv", {"x": (1, 4, 3, 3), "weight": (1, 4, 3, 3)}),
    ],
)
def test_sums_are_exact_until_their_magnitudes_reach_the_edge(name: str, operands: dict[str, tuple[int, ...]]) -> None:
    small = {key: ones(*shape) for key, shape in operands.items()}
    large = {key: ones(*shape, value=128.0) for key, shape in operands.items()}
    chip = "m6" if "bias" in operands else "m1"  # where a bias enters was measured on the one alone
    assert exactness(name, chip, small) is Exactness.EXACT
    assert exactness(name, chip, large) is Exactness.MODELLED


@pytest.mark.parametrize("chip", ["m1", "m2", "m4", "m5"])
def test_a_bias_is_exact_only_where_it_was_measured(chip: str) -> None:
    biased = {"x": ones(1, 4), "weight": ones(1, 4), "bias": ones(1)}
    assert exactness("linear", chip, biased) is Exactness.MODELLED
    assert exactness("linear", chip, {**biased, "bias": None}) is Exactness.EXACT


@pytest.mark.parametrize("chip", ["m1", "m2", "m4"])
def test_convolutions_of_which_no_figure_is_published_are_modelled(chip: str) -> None:
    x, kernel = ones(1, 4, 16, 16), ones(4, 4, 3, 3)
    assert exactness("conv", chip, {"x": x, "weight": kernel}) is Exactness.EXACT
    assert exactness("conv", chip, {"x": x, "weight": ones(4, 4, 7, 7)}) is Exactness.MODELLED
    assert exactness("conv", chip, {"x": x, "weight": kernel}, strides=(2, 2)) is Exactness.MODELLED
    assert exactness("conv", chip, {"x": x, "weight": kernel}, dilations=(2, 2)) is Exactness.MODELLED
    assert exactness("conv", chip, {"x": x, "weight": ones(4, 1, 3, 3)}, groups=4) is Exactness.MODELLED


def test_shapes_without_a_figure_are_modelled() -> None:
    conv = {"x": ones(1, 2, 4, 4), "weight": ones(2, 2, 3, 3)}
    same = {"pad_type": "same"}
    assert exactness("conv", "m5", conv, **same) is Exactness.EXACT
    assert exactness("conv", "m5", conv) is Exactness.MODELLED, "no padding"
    assert exactness("conv", "m5", {**conv, "bias": ones(2)}, **same) is Exactness.MODELLED
    assert exactness("conv", "m5", {**conv, "x": ones(1, 2, 4, 5)}, **same) is Exactness.MODELLED
    assert exactness("conv", "m5", {**conv, "x": ones(1, 2, 4, 4, value=3000.0)}, **same) is Exactness.MODELLED
    assert exactness("conv", "m5", {**conv, "weight": ones(2, 2, 2, 2)}) is Exactness.MODELLED
    assert exactness("conv", "m5", {**conv, "weight": ones(2, 2, 1, 1)}) is Exactness.EXACT
    assert exactness("conv", "m1", {**conv, "weight": ones(2, 2, 2, 2)}) is Exactness.MODELLED
    assert exactness("conv", "m1", {"x": ones(1, 1, 2, 2), "weight": ones(1, 1, 1, 1)}) is Exactness.MODELLED
    transposed = {"x": ones(1, 1, 2, 2), "weight": ones(1, 1, 2, 2)}
    assert exactness("conv_transpose", "m1", transposed) is Exactness.MODELLED


def test_einsum_adds_products_on_the_grid() -> None:
    x = np.full((2, 3), 2.0**-8, np.float16)
    for equation, count in (("ij,kj->ik", 3), ("ij,ij->", 6), ("ij,kl->ik", 9), ("ij,ij->ij", 1)):
        found = arithmetic("einsum", resolve("m1")).compute({"values": (x, x)}, {"equation": equation})[0]
        assert set(found.ravel().tolist()) == {count * 2.0**-16}, equation
    square = np.arange(9, dtype=np.float16).reshape(3, 3)
    trace = arithmetic("einsum", resolve("m1")).compute({"values": (square, square)}, {"equation": "ii,jj->"})[0]
    assert trace.item() == value_of("einsum", (square.astype(float), square.astype(float)), equation="ii,jj->").item()
