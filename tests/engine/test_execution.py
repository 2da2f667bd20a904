"""Compiled programs on the exact engine: where slots round, which routes change values, and what passes keep."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings

import aneforge as af
from aneforge.compiler.compile import build_program
from aneforge.compiler.ir.evaluate import evaluate_program
from aneforge.compiler.pipeline import FUSION, PIPELINE, Pipeline
from aneforge.engine import golden
from aneforge.engine.exactness import Exactness
from aneforge.engine.execution.run import prepare, run
from aneforge.engine.quantised import fold_weights, meeting_int8
from aneforge.errors import GraphError, PrecisionWarning
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense, Int8Affine
from aneforge.ops.types import numpy_dtype
from aneforge.testing.networks import networks
from program_tools import lowered

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program
    from aneforge.testing.graphs import DrawnGraph

Array = npt.NDArray[Any]
SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
BIT_EQUAL = {"eliminate-copies", "share-layouts", "fold-padding"}
"""Passes that move or leave out; all others join operations and may round less often."""


def halves(values: object) -> Dense:
    return Dense(np.array(values, np.float16))


def one_output(program: Program, *arrays: Array) -> Array:
    inputs = {port.name: array for port, array in zip(program.inputs, arrays, strict=True)}
    (found,) = run(program, inputs).outputs.values()
    return found


def convolution(weight: float, bias: float | None, channels: int = 2) -> af.Tensor:
    x = af.input((1, channels, 1, 1), name="x")
    kernel = halves(np.full((1, channels, 1, 1), weight))
    return af.conv(x, kernel, bias=None if bias is None else halves([bias]))


def test_a_bias_is_where_the_sum_starts() -> None:
    # 2047 + 1.5 is 2048.5 in the sum and rounds once, to 2048 (half of the grid of 2, away from zero, is not reached).
    program = build_program(convolution(1.0, 1.5), "h16g")
    x = np.array([2047.0, 0.0]).reshape(1, 2, 1, 1)
    assert one_output(program, x).item() == 2048.0
    unfused = Pipeline(()).run(lowered(convolution(1.0, 1.5), "h16g"))
    assert one_output(unfused, x).item() == 2048.0
    # 2049 leaves the sum as 2050; the bias afterwards rounds a second time.
    x = np.array([1024.0, 1025.0]).reshape(1, 2, 1, 1)
    assert one_output(build_program(convolution(1.0, -0.5), "h16g"), x).item() == 2048.0
    assert one_output(lowered(convolution(1.0, -0.5), "h16g"), x).item() == 2050.0


@pytest.mark.parametrize("rows", [1, 3])
def test_sums_of_rows_start_at_a_bias_of_their_own(rows: int) -> None:
    generator = np.random.default_rng(rows)
    x, weight, bias = (generator.standard_normal(shape).astype(np.float16) for shape in ((rows, 40), (7, 40), (7,)))
    program = build_program(af.input(x.shape, name="x").linear(Dense(weight), Dense(bias)), af.targets.Family.A16)
    expected = golden.matmul(x, weight.T, bias.astype(np.float64))
    for _ in range(2):
        np.testing.assert_array_equal(one_output(program, x).astype(np.float64), expected)


def test_a_fused_gain_rounds_once_and_says_that_it_is_modelled() -> None:
    x = np.array([1024.0, 1025.0]).reshape(1, 2, 1, 1)
    graph = convolution(1.0, None) * 0.25
    fused, unfused = build_program(graph, "h16g"), lowered(graph, "h16g")
    assert one_output(fused, x).item() == 512.5  # 2049 / 4 = 512.25, a tie, away from zero
    assert one_output(unfused, x).item() == 512.5  # 2050 / 4
    third = convolution(1.0, None) * 3.0
    assert one_output(build_program(third, "h16g"), x).item() == 6148.0  # 6147 on a grid of 4
    assert one_output(lowered(third, "h16g"), x).item() == 6152.0  # 3 · 2050 = 6150, a tie
    assert run(fused, {"x": x}).label.exactness is Exactness.MODELLED


def test_exactness_is_the_worst_of_the_layers() -> None:
    x = af.input((1, 2, 2, 2), name="x")
    biased = af.conv(x, halves(np.ones((2, 2, 1, 1))), bias=halves([1, 2])).relu()
    program = build_program(biased, "h18g")
    assert run(program, {"x": np.ones((1, 2, 2, 2))}).label.exactness is Exactness.EXACT
    soft = build_program(Tensor(build("softmax", {"x": biased}, {"axis": 1})), "h18g")
    found = run(soft, {"x": np.ones((1, 2, 2, 2))})
    assert found.label.exactness is Exactness.MODELLED
    assert {label.exactness for label in found.labels.values()} == {Exactness.EXACT, Exactness.MODELLED}


@pytest.mark.parametrize(("value", "finite"), [(4094.0, True), (4096.0, False)])
def test_width_slices_saturate_where_the_target_has_the_crop(value: float, finite: bool) -> None:  # noqa: FBT001 - a case
    x = af.input((1, 1, 1, 8), name="x")
    y = Tensor(build("slice_by_size", {"x": x}, {"begin": (0, 0, 0, 2), "size": (1, 1, 1, 4)}))
    values = np.full((1, 1, 1, 8), value)
    for target in ("h13", "h14"):
        assert np.isfinite(one_output(build_program(y, target), values)).all() == finite
    for target in ("h16g", "h17", "h18g"):
        assert np.isfinite(one_output(build_program(y, target), values)).all()


def test_the_accumulator_has_an_edge_and_the_label_knows_it() -> None:
    program = build_program(convolution(1.0, None), "h16g")
    assert one_output(program, np.array([16376.0, 16376.0]).reshape(1, 2, 1, 1)).item() == 32752.0
    found = run(program, {"x": np.array([16384.0, 16384.0]).reshape(1, 2, 1, 1)})
    assert found.outputs["y"].item() == np.inf
    assert found.label.exactness is Exactness.MODELLED


def test_winograd_is_the_compilers_choice() -> None:
    generator = np.random.default_rng(0)
    x = af.input((1, 8, 6, 6), name="x")
    graph = af.conv(x, halves(generator.normal(size=(4, 8, 3, 3)) / 8), pad=1)
    values = generator.normal(size=(1, 8, 6, 6))
    direct, winograd = (one_output(build_program(graph, target), values) for target in ("h16g", "h17"))
    assert (direct != winograd).any()
    np.testing.assert_allclose(direct, winograd, rtol=0.02, atol=0.02)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(networks(most=8))
def test_results_have_their_types_and_are_near_the_mathematics(drawn: DrawnGraph) -> None:
    program = build_program(drawn.graph, "h16g")
    rounded = {name: values.astype(np.float16).astype(np.float64) for name, values in drawn.inputs.items()}
    found = run(program, rounded, keep=True)
    wanted, _ = evaluate_program(program, rounded)
    for port in program.outputs:
        array = found.outputs[port.name]
        assert (array.shape, array.dtype) == (port.value.shape, numpy_dtype(port.value.type.dtype))
        small = np.abs(wanted[port.name]) < 1000
        scale = max(1.0, float(np.abs(wanted[port.name][small]).max(initial=0.0)))
        np.testing.assert_allclose(array[small], wanted[port.name][small], atol=0.1 * scale)
    assert found.values.keys() >= {layer.name for layer in program.layers}
    again = run(program, rounded)
    for name, array in found.outputs.items():
        np.testing.assert_array_equal(array.view(f"u{array.itemsize}"), again.outputs[name].view(f"u{array.itemsize}"))


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS)
@given(networks(most=8))
def test_layout_passes_keep_every_bit(drawn: DrawnGraph) -> None:
    program = lowered(drawn.graph)
    for one in FUSION:
        after = one(program).program
        if one.name in BIT_EQUAL and after is not program:
            before_run, after_run = (run(made, drawn.inputs).outputs for made in (program, after))
            for name, array in before_run.items():
                np.testing.assert_array_equal(after_run[name], array)
        program = after


@pytest.mark.parametrize(("target", "wrong"), [("h13", True), ("h14", True), ("h16g", False)])
def test_joined_width_slices_warn_where_they_go_wrong(target: str, wrong: bool) -> None:  # noqa: FBT001 - a case
    x = af.input((1, 1, 1, 8), name="x")
    parts = [
        Tensor(build("slice_by_size", {"x": x}, {"begin": (0, 0, 0, begin), "size": (1, 1, 1, 3)})) for begin in (2, 4)
    ]
    program = build_program(Tensor(build("concat", {"values": tuple(parts)}, {"axis": 1})), target)
    values = {"x": np.arange(8.0).reshape(1, 1, 1, 8)}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = run(program, values)
    assert found.outputs["y"].ravel().tolist() == [2.0, 3.0, 4.0, 4.0, 5.0, 6.0], "the right ones are computed"
    assert [one.category for one in caught] == ([PrecisionWarning] if wrong else [])
    assert (found.label.exactness is Exactness.UNKNOWN) == wrong
    if wrong:
        assert "wrong elements come out here" in str(caught[0].message)


@pytest.mark.parametrize("target", ["h14", "h17"])
def test_streamed_int8_weights_take_activations_through_the_crop(target: str) -> None:
    weight = Int8Affine(np.array([[2, 1], [4, -4]], np.int8), scale=np.array([0.5, 0.25], np.float16))
    x = af.input((1, 2), name="x")
    graph = Tensor(build("linear", {"x": x, "weight": weight, "bias": halves([1.0, 0.0])}, {}))
    program = build_program(graph, target)
    assert any(layer.choices.get("weights") == "streams" for layer in program.layers)
    assert one_output(program, np.array([[3.0, 4.0]])).ravel().tolist() == [6.0, -1.0]
    assert one_output(program, np.array([[4094.0, 0.0]])).ravel().tolist() == [4096.0, 4094.0], "4095 is no fp16"
    assert one_output(program, np.array([[4096.0, 0.0]])).ravel().tolist() == [np.inf, np.inf]
    assert run(program, {"x": np.ones((1, 2))}).label.exactness is Exactness.MODELLED


def test_int8_weights_are_those_of_the_golden_model() -> None:
    generator = np.random.default_rng(2)
    quantised, scale = generator.integers(-127, 128, (5, 6)).astype(np.int8), np.full(5, 2.0**-7, np.float16)
    graph = Tensor(build("linear", {"x": af.input((3, 6), name="x"), "weight": Int8Affine(quantised, scale)}, {}))
    x = generator.standard_normal((3, 6)).astype(np.float16)
    folded = fold_weights(quantised.T, scale.astype(np.float64), np.zeros((), np.int8), axis=-1)
    wanted = meeting_int8(golden.matmul, x, folded)
    np.testing.assert_array_equal(one_output(build_program(graph, "h17"), x), wanted)


def test_one_channel_under_one_tap_scales_over_the_full_range() -> None:
    program = build_program(convolution(2.0, None, channels=1), "h16g")
    assert one_output(program, np.full((1, 1, 1, 1), 30000.0)).item() == 60000.0


def test_an_executable_runs_often_and_keeps_what_it_is_given() -> None:
    ready = prepare(build_program(af.input((1, 2), name="x").reshape(2), "h16g"))
    x = np.array([[1.0, 2.0]], np.float16)
    first = ready.run({"x": x}).outputs["y"]
    x[:] = 5.0
    assert first.tolist() == [1.0, 2.0]
    assert ready.run({"x": x}).outputs["y"].tolist() == [5.0, 5.0]


def test_a_state_that_is_only_read_stays_what_it_was() -> None:
    bias, x = af.state("bias", (32,)), af.input((32,), name="x")
    found = run(
        af.build_program(af.Graph({"y": (x + bias).relu() + x}), "m4"), {"x": np.ones(32)}, {"bias": np.full(32, 2.0)}
    )
    assert found.outputs["y"].tolist() == [4.0] * 32
    assert found.states["bias"].tolist() == [2.0] * 32


def test_states_are_kept() -> None:
    total = af.state("total", (2,))
    program = PIPELINE.run(lowered(af.Graph({"y": total * 2.0}, {"total": total + 1.0})))
    found = run(program, {}, {"total": np.array([2048.0, 0.5])})
    assert found.outputs["y"].tolist() == [4096.0, 1.0]
    assert found.states["total"].tolist() == [2050.0, 1.5]
    assert run(program, {}).states["total"].tolist() == [1.0, 1.0]


def test_inputs_must_be_there_and_fit() -> None:
    program = build_program(convolution(1.0, None), "h16g")
    with pytest.raises(GraphError, match="input 'x' has no value"):
        run(program, {})
    with pytest.raises(GraphError, match=r"input 'x' : fp16.* has the wrong shape"):
        run(program, {"x": np.zeros(3)})
