"""Graphs for one target: native, decomposed, refused; and the direct route of the two oldest families."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aneforge as af
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.retarget import Route, retarget
from aneforge.errors import IllegalGraphError, Location, NotSupportedError, UnknownNameError
from aneforge.graph import special
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.table import ops

if TYPE_CHECKING:
    from pathlib import Path


def op_names(graph: af.Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def made(op: str, x: af.Tensor, **attributes: object) -> af.Tensor:
    return af.Tensor(build(op, {"x": x}, attributes))


def test_what_is_native_is_shared_with_the_old_graph() -> None:
    y = af.input((1, 8)).relu()
    result = retarget(y, "m1")
    assert result.changes == ()
    assert result.graph.outputs["y"].node is y.node
    assert (result.target, result.route) == ("h13", Route.MIL)


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_trigonometry_is_a_polynomial_before_it_is_native(name: str) -> None:
    x = af.input((1, 401))
    y = (made(name, x) * 2.0).relu()
    for chip, native in (("m1", False), ("m2", False), ("m3", True), ("m6", True)):
        result = retarget(y, chip)
        assert (name in op_names(result.graph)) is native
        assert [change.op for change in result.changes] == ([] if native else [name])
        assert retarget(result.graph, chip).changes == ()
    values = np.linspace(-200, 200, 401)[None]
    before = af.reference(y, [values])["y"]
    after = af.reference(retarget(y, "m1").graph, [values])["y"]
    assert np.abs(after - before).max() <= 2 * stated_error(name)


def stated_error(name: str) -> float:
    """Return the error that the change itself states."""
    (change,) = retarget(made(name, af.input((2,))), "m1").changes
    found = re.search(r"largest error ([\d.e-]+)", change.detail)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_the_stated_domain_and_error_are_those_of_the_function(name: str) -> None:
    documented = getattr(special, name).__doc__ or ""
    assert f"{stated_error(name):.1e}".replace("e-0", "e-") in documented.replace("e-0", "e-")
    assert "200" in documented


@pytest.mark.parametrize("mode", ["max", "min"])
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5, 2), (2, 1024)])
def test_a_global_arg_reduction_is_one_along_a_row(mode: str, shape: tuple[int, ...]) -> None:
    x = af.input(shape)
    y = made("global_arg_min_max", x, mode=mode)
    result = retarget(y, "m1")
    assert "global_arg_min_max" not in op_names(result.graph)
    values = np.random.default_rng(0).integers(-5, 5, shape).astype(np.float64)
    expected = values.argmax() if mode == "max" else values.argmin()
    assert af.reference(result.graph, [values])["y"].tolist() == expected
    assert "global_arg_min_max" in op_names(retarget(y, "m3").graph)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 2**32 - 1))
def test_global_arg_reductions_of_any_shape(shape: list[int], seed: int) -> None:
    values = np.random.default_rng(seed).integers(-3, 3, shape).astype(np.float64)
    y = made("global_arg_min_max", af.input(shape), mode="max")
    assert af.reference(retarget(y, "m1").graph, [values])["y"] == values.argmax()


def test_more_elements_than_the_layer_takes_are_refused() -> None:
    y = made("global_arg_min_max", af.input((2049,)), mode="max")
    with pytest.raises(NotSupportedError, match=r"too many elements for one arg-reduction.*got 2049, limit 2048"):
        retarget(y, "m1")


def test_random_numbers_become_inputs_of_the_caller() -> None:
    x = af.input((2, 3), name="x")
    noise = af.Tensor(build("random_uniform", {}, {"shape": (2, 3), "low": -1.0, "high": 2.0, "dtype": "fp16"}))
    y = made("dropout", x + noise, rate=0.25)
    result = retarget(y, "m1")
    assert [given.op for given in result.supplied] == ["random_uniform", "dropout"]
    assert result.supplied[0].meaning == "uniform numbers from -1.0 to 2.0"
    assert result.supplied[1].meaning == "1.33333 with probability 0.75, else 0, per element"
    feed = {given.name: np.full((2, 3), number) for given, number in zip(result.supplied, (0.5, 2.0), strict=True)}
    answer = af.reference(result.graph, {"x": np.ones((2, 3)), **feed})["y"]
    assert answer.tolist() == [[3.0] * 3] * 2
    assert retarget(y, "m3").supplied == ()


def test_all_refusals_are_told_at_once() -> None:
    x = af.input((1, 3, 8, 8))
    y = af.affine(x, np.zeros((1, 6), np.float16), 4, 4)
    z = af.Tensor(build("non_zero", {"x": x}))
    with pytest.raises(IllegalGraphError) as error:
        retarget([y, z], "m1")
    assert isinstance(error.value, NotImplementedError)
    text = str(error.value)
    assert text.startswith("on h13: the graph cannot run, ")
    assert "ANE-GATE-001 reject: affine at " in text
    assert "ANE-FLOOR-007 reject: non_zero at " in text
    assert "Remedy: " in text
    assert len(error.value.findings) == text.count(" reject: ")


def test_oversize_is_left_for_legalisation() -> None:
    result = retarget(af.input((1, 8, 1, 17_000)).relu(), "m1")
    assert [report.op for report in result.oversize] == ["input", "relu"]


def test_the_ordinary_route_stops_at_the_floor_of_mil() -> None:
    with pytest.raises(IllegalGraphError, match=r"ANE-FLOOR-001 reject: relu .* below the floor of MIL programs"):
        retarget(af.input((1, 8)).relu(), "h12")


def test_every_operation_that_is_decomposed_has_a_decomposition() -> None:
    decomposed = {name for name, op in ops().items() if op.support.below == "decompose"}
    assert decomposed == {name for name in decomposed if ops()[name].decompositions()}


def test_an_unknown_route_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown route 'sideways'; known: mil, direct"):
        retarget(af.input((1, 8)).relu(), "m1", route="sideways")


# --- the direct route -----------------------------------------------------------------------------------------------


def direct(tensor: af.Tensor) -> af.Graph:
    return retarget(tensor, "h12", route="direct").graph


def test_the_direct_route_runs_what_every_family_has() -> None:
    y = af.conv(af.input((1, 3, 8, 8)), np.ones((4, 3, 3, 3), np.float16)).relu().max_pool(2)
    assert op_names(direct(y)) == ["input", "conv", "relu", "max_pool"]


def test_the_direct_route_has_no_operation_above_its_floor() -> None:
    with pytest.raises(IllegalGraphError, match=r"ANE-FLOOR-002 reject: softmax .* needs the A13 family"):
        direct(af.input((1, 8)).softmax())


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_a_decomposition_has_no_operation_above_the_floor_either(name: str) -> None:
    """The polynomials count periods with round, which begins with A13."""
    with pytest.raises(NotSupportedError, match=rf"^{name} at .* h12 does not have round, which needs the A13 family"):
        direct(Tensor(build(name, {"x": af.input((1, 8))})))


def test_the_direct_route_is_for_the_oldest_families_alone() -> None:
    with pytest.raises(NotSupportedError, match="only for families below the floor of MIL programs"):
        retarget(af.input((1, 8)).relu(), "m1", route="direct")


@pytest.mark.parametrize(
    ("shape", "result"), [((2, 3, 4, 5), (2, 60)), ((1, 8, 1, 1), (1, 8)), ((2, 6), (2, 6)), ((2, 3, 2), (2, 1, 6))]
)
def test_a_reshape_that_is_a_flatten_runs(shape: tuple[int, ...], result: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    answer = af.reference(direct(af.input(shape).reshape(*result)), [values])["y"]
    assert answer.tolist() == values.reshape(result).tolist()


def test_any_other_reshape_aborts() -> None:
    with pytest.raises(NotSupportedError, match=r"reshape at .*not collapse to a flatten .verifyCompat"):
        direct(af.input((2, 3, 4)).reshape(2, 4, 3))


@pytest.mark.parametrize("name", ["expand_dims", "squeeze"])
def test_squeeze_and_expand_dims_have_the_compilers_text(name: str) -> None:
    with pytest.raises(NotSupportedError, match="cannot be lowered as Flatten on ANE"):
        direct(made(name, af.input((1, 3, 4)), axes=(0,)))


@pytest.mark.parametrize("shape", [(1, 1, 4, 5), (1, 3, 1, 5), (1, 1, 1, 5), (1, 1, 1, 1)])
def test_broadcasts_become_operations(shape: tuple[int, ...]) -> None:
    x, y = af.input((1, 3, 4, 5)), af.input(shape)
    graph = direct(x * y)
    names = op_names(graph)
    assert ("conv" in names) == (shape[1] == 1), "a product with ones along the channels"
    assert ("add" in names) == (shape[2:] != (4, 5)), "an addition of zeros along the other axes"
    generator = np.random.default_rng(0)
    values = [generator.standard_normal(one) for one in ((1, 3, 4, 5), shape)]
    np.testing.assert_allclose(af.reference(graph, values)["y"], values[0] * values[1])


def test_a_constant_is_spread_beforehand() -> None:
    graph = direct(af.input((1, 3, 4, 5)) + np.ones((1, 3, 1, 1)))
    assert op_names(graph) == ["input", "add"]
    assert [constant.type.shape for constant in graph.constants.values()] == [(1, 3, 4, 5)]


def test_a_broadcast_of_another_type_is_refused() -> None:
    x, y = (af.input(shape, dtype="uint8") for shape in ((1, 4), (1, 1)))
    with pytest.raises(NotSupportedError, match="Only fp16 is supported"):
        direct(af.Tensor(build("add", {"x": x, "y": y})))


def test_division_is_a_product_with_a_rounded_reciprocal() -> None:
    graph = direct(af.input((1, 3)) / np.full((1, 3), 3.0))
    assert op_names(graph) == ["input", "mul"]
    third = float(np.float16(1 / 3))
    assert af.reference(graph, [np.full((1, 3), 9.0)])["y"].tolist() == [[9 * third] * 3]
    assert 9 * third != 3.0


def test_floor_division_rounds_twice_and_can_miss_an_integer() -> None:
    x = af.input((1, 1))
    y = af.Tensor(build("floor_div", {"x": x, "y": Dense(np.full((1, 1), 5, np.float16))}))
    assert af.reference(y, [np.full((1, 1), 5.0)])["y"].item() == 1.0
    assert af.reference(direct(y), [np.full((1, 1), 5.0)])["y"].item() == 0.0, "the reciprocal of 5 rounds down"


@pytest.mark.parametrize("target", ["h11", "h12"])
def test_a_division_that_is_cut_compiles_and_its_description_is_read_back(target: str, tmp_path: Path) -> None:
    """The validators took the last step for a floor of the user's own, which begins with A13."""
    x = af.input((1, 4, 1, 2), name="x")
    divided = af.Tensor(build("floor_div", {"x": x, "y": Dense(np.full((1, 4, 1, 2), 11, np.float16))}))
    values = {"x": np.arange(0, 32, 4, dtype=np.float16).reshape(1, 4, 1, 2) + 11}
    for graph in (divided, (x / 11.0).floor(), divided.relu()):
        compiled = compile_graph(graph, target, route="direct")
        assert [layer.kind.name for layer in compiled.program.layers][:2] == ["mult", "floor"]
        read = af.load_netplist(af.save_netplist(compiled.retargeted, tmp_path / str(id(graph))))
        again = compile_graph(read, target, route="direct")
        first, second = (next(iter(af.run(one.program, values).outputs.values())) for one in (compiled, again))
        assert first.tobytes() == second.tobytes()
        assert first.flat[0] == 0.0, "11 // 11"
    for floored in (x.floor(), x.relu().floor()):
        with pytest.raises(IllegalGraphError, match=r"ANE-FLOOR-002 reject: floor "):
            compile_graph(floored, target, route="direct")


def test_a_divisor_computed_at_run_time_has_no_form() -> None:
    with pytest.raises(NotSupportedError, match=r"the divisor must be a constant of fp16 here \(got a tensor"):
        direct(af.input((1, 3)) / af.input((1, 3)))


def test_a_constant_is_decomposed_as_a_tensor_is() -> None:
    y = af.Tensor(build("sin", {"x": Dense(np.ones(2, np.float16))}))
    result = retarget([y, af.input((2,)).relu()], "m1")
    assert [change.op for change in result.changes] == ["sin"]
    assert af.reference(result.graph, [np.zeros(2)])["y0"] == pytest.approx(np.sin([1.0, 1.0]), abs=1e-6)


def test_the_direct_route_has_no_operation_below_its_floor() -> None:
    assert op_names(direct(made("dropout", af.input((1, 8)), rate=0.5))) == ["input", "input", "mul"]


def test_a_quotient_by_a_number_is_a_product_on_the_direct_route() -> None:
    assert op_names(direct(af.input((1, 3)) / 3.0)) == ["input", "mul"]


def test_truth_values_leave_through_a_cast() -> None:
    y = af.input((2,)).greater(af.input((2,)))
    result = retarget(y, "m1")
    assert op_names(result.graph) == ["input", "input", "greater", "cast"]
    assert [change.detail for change in result.changes] == ["a cast of output 'y' to fp16"]
    assert af.reference(result.graph, [np.array([1.0, 2.0]), np.array([2.0, 1.0])])["y"].tolist() == [0.0, 1.0]


def test_an_input_that_is_added_does_not_take_the_users_name() -> None:
    y = made("dropout", af.input((2,), name="dropout0"), rate=0.5)
    assert list(retarget(y, "m1").graph.inputs) == ["dropout0", "supplied_dropout0"]


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_no_rounding_is_followed_by_a_product_with_a_number(name: str) -> None:
    graph = retarget(made(name, af.input((2,))), "m1").graph
    for node in graph.nodes:
        if node.op.name in ("round", "floor", "ceil"):
            assert {reader.op.name for reader in graph.consumers[node]} == {"clip"}


def test_what_is_rebuilt_is_at_the_place_of_what_it_was() -> None:
    x = af.input((1, 8), name="x")
    place = Location("net.onnx", node="Sin_1")
    sine = Tensor(build("sin", {"x": x}, {}, place))
    result = retarget({"y": sine, "z": sine.relu()}, "m1")
    made = [node for node in result.graph.nodes if node.op.name not in ("input", "relu")]
    assert len(made) > 5
    assert {node.location for node in made} == {place}
    assert result.graph.inputs["x"].location == x.node.location
