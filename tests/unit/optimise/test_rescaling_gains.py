"""Rescaling: gains that a whole hides, of one output, one channel, some inputs, or one size of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import aneforge as af
from aneforge.optimise.rescaling.engine_errors import GraphErrors, evaluate_exactly
from aneforge.optimise.rescaling.sample_inputs import draw_integers, fit_inputs
from aneforge.optimise.rescaling.trial_loop import find_reached_outputs
from aneforge.targets import resolve

Array = npt.NDArray[Any]


def drawn(*shape: int, seed: int = 7, scale: float = 1.0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def errors(graph: af.Graph, sets: list[dict[str, Array]], target: str = "h13") -> dict[str, float]:
    """Return the largest error of every output."""
    given = [fit_inputs(graph, one) for one in sets]
    found = GraphErrors.measure(graph, resolve(target), given, [evaluate_exactly(graph, one) for one in given])
    return {name: max(one) for name, one in found.errors.items()}


def test_an_output_that_cannot_gain_forbids_nothing_of_another() -> None:
    x = af.input((8, 1024), name="x")
    head, other = drawn(32, 1024, scale=1 / 32), drawn(16, 1024, seed=8, scale=1 / 32)
    graph = af.Graph({"head": x.linear(head), "other": x.linear(other).silu() + 4.0, "copy": x.relu()})
    found = af.rescale(graph, inputs={"x": drawn(8, 1024, seed=9, scale=1 / 32)}, target="h13")
    before, after = {one.name: one.before for one in found.outputs}, {one.name: one.after for one in found.outputs}
    assert before["head"] > 0.005
    assert after["head"] < 0.0005
    assert all(after[name] <= 1.02 * before[name] for name in before)


def test_outputs_that_depend_on_a_node() -> None:
    x = af.input((2, 4), name="x")
    y = x.relu()
    graph = af.Graph({"a": y.sqrt(), "b": y, "c": x.abs()}, states={})
    names = {node.op.name: sorted(found) for node, found in find_reached_outputs(graph).items()}
    assert names == {"input": ["a", "b", "c"], "relu": ["a", "b"], "sqrt": ["a"], "abs": ["c"]}


def test_small_channels_that_a_slice_makes_visible_are_rescaled() -> None:
    weight = drawn(32, 256, scale=1 / 4)
    weight[16:] = (weight[16:].astype(np.float64) * 2.0**-11).astype(np.float16)
    joined = af.input((8, 256), name="x").linear(weight)
    graph = af.Graph({"large": joined.slice_by_size([0, 0], [8, 16]), "small": joined.slice_by_size([0, 16], [8, 16])})
    found = af.rescale(graph, inputs={"x": drawn(8, 256, seed=8)}, target="h13")
    (report,) = found.applied
    assert report.error_after > 0.95 * report.error_before  # of all channels together, no gain that counts
    small = next(one for one in found.outputs if one.name == "small")
    assert small.before > 0.02
    assert small.after < 0.001


def test_an_outlier_channel_that_small_weights_read_takes_no_room() -> None:
    weight, sample = drawn(16, 257, scale=1 / 64), drawn(32, 257, seed=8, scale=1 / 64)
    weight[:, 0], sample[:, 0] = np.float16(2.0**-20), sample[:, 0] * np.float16(4000)
    graph = af.Graph({"y": af.input((32, 257), name="x").linear(weight)})
    found = af.rescale(graph, inputs={"x": sample}, target="h13")
    assert found.outputs[0].before > 0.005
    assert max(found.outputs[0].after, found.outputs[0].fresh_after) < 0.0005
    unseen = drawn(32, 257, seed=9, scale=1 / 64)
    unseen[:, 0] *= np.float16(4000)
    assert errors(found.graph, [{"x": unseen}])["y"] < 0.0005


def test_bytes_are_drawn_as_pixels_and_indices_stay_small() -> None:
    weight = np.abs(drawn(4, 192, scale=1 / 64))
    graph = af.Graph({"y": af.image_input((1, 3, 8, 8)).reshape(1, 192).linear(weight)})
    (name,) = graph.inputs
    pixels = draw_integers(graph, graph.inputs[name], np.random.default_rng(0))
    assert (pixels.dtype, int(pixels.max()) > 200) == (np.uint8, True)
    white = {name: np.full((1, 3, 8, 8), 255, np.uint8)}
    found = af.rescale(graph, target="h13")
    before, after = (errors(one, [white])["y"] for one in (graph, found.graph))
    assert after <= 1.02 * before < np.inf
    table, index = af.input((4, 8), name="x"), af.input((3,), dtype="uint8", name="i")
    chosen = af.Graph({"y": table.apply("gather", {"x": table, "indices": index}, axis=0)})
    assert draw_integers(chosen, chosen.inputs["i"], np.random.default_rng(0)).max() <= 1


def test_float_pixels_do_not_overflow_where_nothing_was_said_of_them() -> None:
    graph = af.Graph({"y": af.input((1, 147), name="x").linear(np.abs(drawn(16, 147, scale=1 / 255)))})
    found = af.rescale(graph, target="h13")
    assert errors(found.graph, [{"x": np.full((1, 147), 255.0)}])["y"] < 0.001


def test_sums_that_pass_the_edge_for_some_inputs_only_are_mended() -> None:
    weight = np.exp2(np.random.default_rng(3).integers(0, 6, (32, 256))).astype(np.float16)
    weight *= np.random.default_rng(4).choice(np.array([-1, 1], np.float16), weight.shape)
    graph = af.Graph({"y": af.input((4, 256), name="x").linear(weight) * 2.0**-6})
    samples = [{"x": drawn(4, 256, seed=place, scale=size)} for place, size in enumerate((8.0, 60.0))]
    assert [errors(graph, [one])["y"] < np.inf for one in samples] == [True, False]
    found = af.rescale(graph, inputs=samples, target="h13")
    assert found.applied
    assert errors(found.graph, samples)["y"] < 0.001


@pytest.mark.parametrize("biased", [False, True])
def test_what_is_read_is_scaled_down_where_weights_would_lose_bits(*, biased: bool) -> None:
    weight, bias = drawn(16, 256), drawn(16, seed=5, scale=64.0)
    weight[0, 0] = np.float16(3 * 2.0**-24)  # three quarters of it are no number of fp16
    graph = af.Graph({"y": af.input((4, 256), name="x").linear(weight, bias if biased else None)})
    sample = {"x": drawn(4, 256, seed=8, scale=1000.0)}
    assert errors(graph, [sample])["y"] == np.inf
    found = af.rescale(graph, inputs=sample, target="h13")
    (report,) = found.applied
    assert (report.operand, report.exponents[0] < 0) == ("x", True)
    assert errors(found.graph, [sample])["y"] < 0.001
    given = fit_inputs(graph, sample)
    np.testing.assert_array_equal(evaluate_exactly(found.graph, given)["y"], evaluate_exactly(graph, given)["y"])


def test_a_sum_beyond_fp16_that_a_gain_brings_back_is_mended() -> None:
    q, k = af.input((1, 1, 8, 64), name="q"), af.input((1, 1, 8, 64), name="k")
    graph = af.Graph({"y": (q @ k.transpose(0, 1, 3, 2)) * 0.125})
    sample = {"q": drawn(1, 1, 8, 64, scale=100.0), "k": drawn(1, 1, 8, 64, seed=8, scale=100.0)}
    assert errors(graph, [sample])["y"] == np.inf
    found = af.rescale(graph, inputs=sample, target="h13")
    assert found.applied
    assert errors(found.graph, [sample])["y"] < 0.001


def test_a_norm_that_is_wrong_throughout_its_range_is_scaled_by_less_than_its_ends_ask_for() -> None:
    graph = af.Graph({"y": af.input((8, 64), name="x").rms_norm(np.ones(64, np.float16))})
    found = af.rescale(graph, ranges={"x": 100.0}, target="h13")
    assert found.outputs[0].before > 0.9
    assert found.outputs[0].after < 0.001
    assert errors(found.graph, [{"x": drawn(8, 64, scale=0.025)}])["y"] < 0.001


def test_factors_are_chosen_by_later_samples_where_the_first_shows_nothing() -> None:
    weight, real = drawn(16, 1024, scale=1 / 32), {"x": drawn(8, 1024, seed=8, scale=1 / 32)}
    graph = af.Graph({"y": af.input((8, 1024), name="x").linear(weight)})
    found = af.rescale(graph, inputs=[{"x": np.zeros((8, 1024))}, real], target="h13")
    assert found.applied
    assert errors(found.graph, [real])["y"] < 0.0005
