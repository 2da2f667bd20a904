"""`tune`, `tune_precision`, `tune_attention`: forms are predicted and tried, and the report says what was done."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.analysis.ranges.program_ranges import bound_magnitudes
from aneforge.errors import GraphError, GraphTypeError
from aneforge.optimise.forms.quantised import with_int8_weights

RANDOM = np.random.default_rng(8)
LARGE = RANDOM.standard_normal((2048, 2048)).astype(np.float16) / 64


@pytest.fixture(autouse=True)
def no_small_programs() -> None:
    warnings.simplefilter("ignore", af.DispatchFloorWarning)


def attention() -> af.Tensor:
    q, k, v = (af.input((1, 2, 16, 8)) for _ in range(3))
    return af.sdpa(q, k, v, native=True) * 2.0 * 0.5


def test_tune_says_what_it_tried(capsys: pytest.CaptureFixture[str]) -> None:
    model = af.tune(attention(), target="h16g", verbose=True)
    assert type(model) is af.Model
    assert capsys.readouterr().out.splitlines() == list(model.remarks)
    assert [line.partition(":")[0] for line in model.remarks] == [
        "as built",
        "attention of products and softmax",
        "attention of products and softmax, scalars joined",
        "attention of products and softmax",
    ]
    assert "nothing was measured" in model.remarks[-1]
    inputs = [RANDOM.standard_normal((1, 2, 16, 8)) for _ in range(3)]
    assert np.abs(cast("Any", model(*inputs)) - af.reference(attention(), inputs)["y"]).max() < 0.01


def test_what_tune_leaves_out() -> None:
    inputs = [RANDOM.standard_normal((1, 2, 16, 8)) for _ in range(3)]
    one = af.tune(attention(), budget=1, inputs=inputs, target="h16g")
    assert isinstance(one, af.SegmentedModel)
    assert one.remarks[1] == "attention of products and softmax: not tried, the budget is 1"
    none = af.tune(attention(), target_error=0.0, target="h16g")
    assert isinstance(none, af.SegmentedModel)
    assert none.remarks[1].endswith(", above 0")
    x, weights = af.input((1, 2048), max_abs=1.0), RANDOM.standard_normal((2048, 2048)).astype(np.float16) / 64
    heads = [x.linear(weights).reshape(1, 2, 16, 64) for _ in range(3)]
    pruned = af.tune(af.sdpa(heads[0], heads[1], heads[2], native=True), prune_factor=1.0, target="h16g")
    assert any("over 1 times the fastest" in line for line in pruned.remarks)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"budget": 0}, GraphError, "budget is out of range"),
        ({"budget": 1.5}, GraphTypeError, "budget is not an integer"),
        ({"reps": True}, GraphTypeError, "reps is not an integer"),
        ({"atol": -1}, GraphError, "atol is out of range"),
        ({"atol": "small"}, GraphTypeError, "atol is not a number"),
        ({"target_error": np.nan}, GraphError, "target_error is out of range"),
        ({"prune_factor": 0.5}, GraphError, "prune_factor is out of range"),
        ({"min_lossy_speedup": 0.9}, GraphError, "min_lossy_speedup is out of range"),
        ({"inputs": []}, GraphError, "the sample inputs are not those of the graph"),
        ({"inputs": {"z": 1}}, GraphError, "the sample inputs are not those of the graph"),
        ({"inputs": [np.ones((1, 5))]}, GraphError, "the sample of input 'x' has the wrong shape"),
        ({"inputs": [np.array([["a"] * 4])]}, GraphTypeError, "the sample of input 'x' takes numbers"),
    ],
)
def test_what_tune_refuses(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        af.tune(af.input((1, 4), name="x").relu(), target="h16g", **options)


def test_what_the_host_draws_stops_no_tuning() -> None:
    from aneforge.graph.node import build  # noqa: PLC0415 - here alone

    out = af.Tensor(build("dropout", {"x": af.input((1, 32)) * 2.0 * 3.0}, {"rate": 0.5}, None))
    model = af.tune(out, target="h13")
    assert model.remarks[:2] == ("as built: error 0.00014", "scalars joined: error 0.00014")


# Eight-bit weights


def wide(max_abs: float | None) -> af.Tensor:
    return af.input((1, 2048), name="x", max_abs=max_abs).linear(LARGE).relu().linear(LARGE)


def test_int8_weights_are_chosen_where_activations_are_proven_small() -> None:
    model = af.compile(wide(0.5), target="h16g", opt=1)
    assert model.remarks[-1].startswith("int8 weights: predicted")
    assert {constant.encoding for constant in model.program.constants.values()} == {"int8"}
    exact = af.compile(wide(0.5), target="h16g", opt=0)
    x = RANDOM.uniform(-0.5, 0.5, (1, 2048))
    assert np.linalg.norm(model(x) - exact(x)) < 0.02 * np.linalg.norm(exact(x))


@pytest.mark.parametrize(
    ("max_abs", "target", "why"),
    [
        (None, "h16g", "above 4094 become infinite (nothing bounds them)"),
        (180.0, "h16g", "above 4094 become infinite (they may reach "),
        (0.5, "h13", "would not stream: int8 weights fold to dense fp16 here"),
    ],
)
def test_why_int8_weights_are_not_tried(max_abs: float | None, target: str, why: str) -> None:
    model = af.compile(wide(max_abs), target=target, opt=1)
    assert model.remarks[0].startswith("int8 weights: not tried, ")
    assert why in model.remarks[0]
    assert {constant.encoding for constant in model.program.constants.values()} == {"dense"}


def test_the_largest_inputs_pass_eight_bit_weights_where_the_bound_is_near_the_edge() -> None:
    made, why = with_int8_weights(af.Graph({"y": wide(150.0)}), af.targets.resolve("h16g"))
    assert made is not None, why
    row = int(np.abs(LARGE.astype(np.float64)).sum(axis=1).argmax())
    worst = {"x": 150.0 * np.sign(LARGE[row : row + 1].astype(np.float64))}
    exact = af.reference(made, worst)["y"]
    given = af.run(af.build_program(made, "h16g"), worst).outputs["y"].astype(np.float64)
    assert np.linalg.norm(given - exact) < 0.01 * np.linalg.norm(exact)


def test_a_weight_that_cannot_be_encoded_is_no_error() -> None:
    weight = np.full((8, 8), np.inf, np.float16)
    made, why = with_int8_weights(af.Graph({"y": af.input((1, 8)).linear(weight)}), af.targets.resolve("h16g"))
    assert made is None
    assert "not finite" in why


def test_bounds_hold_at_the_largest_inputs() -> None:
    weight = RANDOM.standard_normal((8, 8, 3, 3)).astype(np.float16)
    x = af.input((1, 8, 6, 6), name="x", max_abs=2.0)
    y = af.conv((af.conv(x, weight, pad=1, bias=np.ones(8)).relu() * 0.5 + 3.0), weight, pad=1)
    outputs = {"y": y, "six": y.relu6(), "clipped": y.clip(-3, 2) * 2.0}
    program = af.build_program(af.Graph(outputs), "h16g")
    asked = [port.value for port in program.outputs]
    known = bound_magnitudes(program, {"x": 2.0}, asked)
    bounds = {port.name: known[port.value.name] for port in program.outputs}
    assert (bounds["six"], round(bounds["clipped"], 1)) == (6.0, 6.0)
    for signs in (np.sign(weight[0])[None], np.sign(RANDOM.standard_normal((1, 8, 6, 6)))):
        values = np.resize(signs, (1, 8, 6, 6)) * 2.0
        found = af.run(program, {"x": values.astype(np.float16)}).outputs
        assert all(np.abs(found[name].astype(np.float64)).max() <= bound for name, bound in bounds.items())
    assert "y" not in {port.name for port in program.outputs if port.value.name not in known}
    assert bound_magnitudes(program, {}, asked).keys() < known.keys()


# Precision and attention


def test_tune_precision_takes_the_fastest_form_that_is_exact_enough() -> None:
    out = af.input((4, 4096), name="x").sum(-1)
    model, report = af.tune_precision(out, 5e-4, target="h13")
    assert (report.chosen, report.met, report.cost_budget_us) == ("sums as products with ones", True, None)
    assert [trial.form for trial in report.trials] == ["as built", "sums as products with ones"]
    assert "matmul" in str(model.program) or "convolution" in str(model.program)
    with pytest.warns(af.PrecisionWarning, match="adds 4096 signed numbers"):
        _, report = af.tune_precision(out, 0.01, target="h16g")
    assert (report.chosen, report.met) == ("as built", True)


def test_tune_precision_says_when_nothing_is_exact_enough() -> None:
    out = af.input((4, 4096), name="x").sum(-1)
    with pytest.warns(af.PrecisionWarning, match=r"no form of the graph has an error of at most 1e-09"):
        _, report = af.tune_precision(out, 1e-9, target="h16g", inputs={"x": RANDOM.standard_normal((4, 4096))})
    assert (report.chosen, report.met) == ("sums as products with ones", False)
    with pytest.warns(af.PrecisionWarning) as caught:
        _, report = af.tune_precision(out, 0.5, 1.0, target="h16g")
    assert "within the budget" in str(caught[0].message)
    assert (report.chosen, report.met) == ("as built", False)
    with pytest.raises(GraphError, match="cost_budget_us is out of range"):
        af.tune_precision(out, 0.5, -1.0, target="h16g")


def test_tiles_of_attention() -> None:
    assert [af.attention_tiles(queries) for queries in (1, 767, 768, 2048)] == [1, 1, 2, 4]
    found = af.tune_attention(512, heads=4, dim=32, target="h13")
    assert found.rule_of_thumb == 1
    assert [option.tiles for option in found.options] == [1, 2]
    best = min(found.options, key=lambda option: (option.dram_bytes, option.tiles))
    assert found.tiles == best.tiles
    for bad in (0, True, 1.5):
        with pytest.raises(GraphError, match="queries is not a positive integer"):
            af.attention_tiles(cast("Any", bad))
    with pytest.raises(GraphError, match="keys is not a positive integer"):
        af.tune_attention(4, 0)


def test_a_silu_of_small_values_becomes_a_product_with_a_sigmoid() -> None:
    y = (af.input((1, 256)) * 0.25).silu()
    with pytest.warns(af.PrecisionWarning, match="ANE-QUIRK-008 warn: silu at .*one table on h16g"):
        plain = af.compile(y, target="m4")
    with pytest.warns(af.PrecisionWarning, match="ANE-QUIRK-008"):
        best = af.compile(y, target="m4", opt="max")
    assert any(remark.startswith("silu as a product with a sigmoid: predicted") for remark in best.remarks)
    x = np.random.default_rng(0).standard_normal((1, 256)).astype(np.float16)
    wanted = af.reference(y, [x])["y"]
    errors = [np.linalg.norm(model(x) - wanted) for model in (plain, best)]
    assert errors[0] > 10 * errors[1]


def test_the_more_exact_form_of_a_silu_is_offered() -> None:
    model, report = af.tune_precision((af.input((1, 256)) * 0.25).silu(), 5e-3, target="m4")
    assert (report.chosen, report.met) == ("silu as a product with a sigmoid", True)
    assert not any("ANE-QUIRK-008" in caution.message for caution in model.warnings)
