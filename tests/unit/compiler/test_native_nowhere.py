"""Operations that no family has: what they become means the same, within the stated accuracy, and runs everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.compiler.dialect import engine_dialect
from aneforge.compiler.retarget import retarget
from aneforge.errors import IllegalGraphError, NotSupportedError, StrictCompileError
from aneforge.graph.convert import convert
from aneforge.graph.graph import INPUT
from aneforge.graph.node import build
from aneforge.graph.precision import to_fp16
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.op import Below
from aneforge.ops.sampling import RandomChooser
from aneforge.ops.table import find_op, ops
from aneforge.ops.types import numpy_dtype
from aneforge.rules.operations import op_status
from aneforge.targets import resolve
from written_tools import FAMILIES, WRITERS, Drawn, Outcome, bits_of, draw_call, outcome_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from aneforge.graph.node import Value
    from aneforge.ops.decomposition import Accuracy
    from aneforge.ops.types import Array

NOWHERE = sorted(name for name, op in ops().items() if op.support.floor is None and op.support.below is Below.DECOMPOSE)
RECURRENT = ("gru", "lstm", "rnn")
LOOPS = ("scan",)
SCATTERS = ("scatter", "scatter_along_axis", "scatter_nd")
EXACT = sorted(
    {"band_part", "logical_and", "logical_or", "logical_xor", "mod", "one_hot", "reverse_sequence", *SCATTERS}
)
FUNCTIONS = sorted(
    name
    for name, op in ops().items()
    if len(op.operands) == 1 and any(one.accuracy is not None for one in op.decompositions())
)
RUN_ON = ("h13", "h18g")
MODES = ("add", "sub", "mul", "div", "max", "min", "update")
HALF = 2.0**-11
"""The largest relative error of one rounding to fp16."""


def applied(op: str, **given: object) -> Tensor:
    """Return the first result of an operation, operands and attributes by name."""
    operands = {operand.name for operand in find_op(op).operands}
    values = {name: value for name, value in given.items() if name in operands}
    return Tensor(build(op, values, {name: value for name, value in given.items() if name not in operands}))  # pyright: ignore[reportArgumentType]


def whole(*numbers: int) -> Dense:
    return Dense(np.array(numbers, np.int32))


def decomposed(graph: af.Graph, target: str = "h13") -> af.Graph:
    return convert(graph, engine_dialect(resolve(target))).graph


def drawn(name: str, seed: int) -> tuple[af.Graph, Mapping[str, Array]]:
    """Return a graph of one operation with its places, indices and lengths as constants, and values of its inputs."""
    generator = np.random.default_rng([seed, *name.encode()])
    sample = ops()[name].sample(RandomChooser(generator))
    inputs: dict[str, Array] = {}
    operands: dict[str, Value] = {}
    for operand in ops()[name].operands:
        fill = sample.operands.get(operand.name)
        if fill is None or isinstance(fill, tuple):
            continue
        values = fill.values(generator).astype(numpy_dtype(fill.type.dtype))
        if operand.name in ("indices", "lengths") and name != "one_hot":
            operands[operand.name] = Dense(values)
        else:
            inputs[operand.name] = values
            attributes = {"shape": fill.type.shape, "dtype": fill.type.dtype, "name": operand.name}
            operands[operand.name] = Tensor(build(INPUT, {}, attributes))
    return af.Graph({"y": Tensor(build(name, operands, sample.attributes))}), inputs


def accuracy_of(name: str) -> Accuracy:
    accuracy = ops()[name].decompositions()[0].accuracy
    assert accuracy is not None
    return accuracy


def grid(accuracy: Accuracy, count: int) -> Array:
    """Return a dense grid of a domain: evenly, and ever closer to 0 and to the ends."""
    low, high = accuracy.low, accuracy.high
    near = np.geomspace(1e-6, 1, count // 8)
    places = [np.linspace(low, high, count), near, -near, low + near, high - near]
    return np.unique(np.clip(np.concatenate(places), low, high))


def test_the_list_is_that_of_the_catalogue() -> None:
    assert set(NOWHERE) == {*EXACT, *RECURRENT, *LOOPS, *FUNCTIONS} - {"sin", "cos"}
    assert set(NOWHERE) - set(LOOPS) <= set(af.walled_everywhere())  # a loop is no row of the catalogue
    assert {af.device_status(name, family) for name in NOWHERE for family in FAMILIES} == {"none"}
    assert {op_status(name, family) for name in NOWHERE for family in FAMILIES} == {"decompose"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_as_accurate_as_its_entry_says_on_its_domain(name: str) -> None:
    accuracy = accuracy_of(name)
    x = grid(accuracy, 200_000)
    graph = decomposed(af.Graph({"y": applied(name, x=af.input(x.shape, name="x"))}))
    found, expected = af.reference(graph, {"x": x})["y"], find_op(name).evaluate({"x": x}, {})[0]
    assert name not in {node.op.name for node in graph.nodes}
    error = np.abs(found - expected)
    scale = np.abs(expected) if accuracy.relative else 1.0
    assert np.all(error <= accuracy.error * scale), x[np.argmax(error - accuracy.error * scale)]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("target", RUN_ON)
def test_a_function_has_few_roundings_and_no_overflow_on_an_engine(name: str, target: str) -> None:
    x = np.unique(grid(accuracy_of(name), 4000).astype(np.float16))
    x = x[(x >= accuracy_of(name).low) & (x <= accuracy_of(name).high)]
    expected = find_op(name).evaluate({"x": x.astype(np.float64)}, {})[0]
    largest = float(np.abs(x).max())
    model = af.compile(applied(name, x=af.input(x.shape, name="x", max_abs=largest)), target=target)
    found = np.asarray(model(x), np.float64)
    kept = np.abs(expected) < 65_000
    assert np.all(np.isfinite(found[kept]))
    least = 0.01 if accuracy_of(name).relative else 1.0
    error = np.abs(found - expected)[kept] / np.maximum(np.abs(expected[kept]), least)
    assert error.max() < 20 * HALF, (x[kept][np.argmax(error)], error.max())


@pytest.mark.parametrize("name", EXACT)
def test_what_moves_or_combines_elements_is_exact(name: str) -> None:
    for seed in range(60):
        graph, inputs = drawn(name, seed)
        found, expected = (af.reference(one, inputs)["y"] for one in (decomposed(graph), graph))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, err_msg=str(graph))


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_are_their_steps(name: str) -> None:
    for seed in range(60):
        case = draw_call(ops()[name], seed)
        found, expected = (af.reference(one, case.inputs) for one in (decomposed(case.graph), case.graph))
        for port, values in expected.items():
            np.testing.assert_allclose(found[port], values, rtol=0, atol=1e-9, err_msg=str(case.graph))


@pytest.mark.parametrize("steps", [1, 4, 8])
def test_a_recurrent_layer_grows_with_its_steps_and_shares_its_weights(steps: int) -> None:
    weight_ih, weight_hh = (Dense(np.ones((12, size), np.float16)) for size in (5, 3))
    h = af.input((2, 3), name="h")
    y = applied(
        "lstm",
        x=af.input((steps, 2, 5), name="x"),
        initial_h=h,
        initial_c=h,
        weight_ih=weight_ih,
        weight_hh=weight_hh,
        output_sequence=True,
    )
    graph = decomposed(af.Graph({"y": y}))
    assert len(graph.nodes) <= 20 * steps + 10
    assert len(graph.constants) == 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*FUNCTIONS, *RECURRENT])
def test_every_family_has_what_it_becomes(name: str) -> None:
    case = draw_call(ops()[name], 1)
    for target in FAMILIES:
        result = retarget(case.graph, target)
        native = target in FAMILIES[2:] and name in ("sin", "cos")
        assert [change.op for change in result.changes] == ([] if native else [name])
        assert {op_status(node.op.name, target) for node in result.graph.nodes} == {"native"}
        assert af.preflight(result.graph, target).ok
        assert retarget(result.graph, target).changes == ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(NOWHERE) - {"logical_and", "logical_or", "logical_xor"}))
def test_what_it_becomes_is_written_and_read_with_the_same_bits(name: str, tmp_path: Path) -> None:
    """Logic is drawn with inputs of booleans, which no program has."""
    outcomes: set[str] = set()
    for seed in range(12):
        case = draw_call(ops()[name], seed)
        graph, inputs = (case.graph, case.inputs) if name in {*RECURRENT, *LOOPS} else drawn(name, seed)
        graph, target = to_fp16(graph).graph, FAMILIES[seed % len(FAMILIES)]
        if not af.preflight(graph, target).ok:
            continue
        made = Drawn(retarget(graph, target).graph, inputs)
        outcomes.add(outcome_of(made, WRITERS["MIL text"], target, tmp_path / str(seed)))
        assert bits_of(af.build_program(graph, target), inputs) == bits_of(af.build_program(made.graph, target), inputs)
    assert outcomes == {Outcome.SAME}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", RUN_ON)
@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_run(name: str, target: str) -> None:
    for seed in range(12):
        case = draw_call(ops()[name], seed)
        values = {port: one.astype(np.float16) for port, one in case.inputs.items()}
        expected = af.reference(case.graph, {port: one.astype(np.float64) for port, one in values.items()})
        found = af.run(af.build_program(case.graph, target), values).outputs
        for port, numbers in expected.items():
            np.testing.assert_allclose(found[port], numbers, rtol=0.02, atol=0.02, err_msg=str(case.graph))


@pytest.mark.parametrize("target", RUN_ON)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_run_in_every_mode(name: str, mode: str, target: str) -> None:
    generator = np.random.default_rng(5)
    data, updates = generator.uniform(0.5, 2, (3, 4)), generator.uniform(0.5, 2, (2, 4))
    places: dict[str, tuple[dict[str, int], Array]] = {
        "scatter": ({"axis": 0}, np.array([2, -1])),
        "scatter_along_axis": ({"axis": 0}, np.array([[0, 1, 2, 0], [0, 2, -2, 0]])),
        "scatter_nd": ({}, np.array([[1], [1]])),
    }
    attributes, indices = places[name]
    ports = {"data": af.input((3, 4), name="data"), "updates": af.input((2, 4), name="updates")}
    y = applied(name, **ports, indices=Dense(indices.astype(np.int32)), mode=mode, **attributes)
    fed = {"data": data.astype(np.float16), "updates": updates.astype(np.float16)}
    expected = af.reference(y, {port: one.astype(np.float64) for port, one in fed.items()})["y"]
    found = af.run(af.build_program(y, target), fed).outputs["y"]
    np.testing.assert_allclose(found, expected, rtol=8 * HALF)


@pytest.mark.parametrize("target", RUN_ON)
def test_placing_and_logic_run(target: str) -> None:
    x, y = (af.input((3, 4), name=name) for name in "xy")
    generator = np.random.default_rng(1)
    fed = {"x": generator.standard_normal((3, 4)), "y": generator.standard_normal((3, 4))}
    fed = {port: one.astype(np.float16) for port, one in fed.items()}
    zero = Dense(np.zeros((), np.float16))
    first, second = applied("less", x=x, y=zero), applied("less", x=y, y=zero)
    place = applied("reduce_argmax", x=x, axis=1, keep_dims=False)
    graph = af.Graph(
        {
            **{kind: applied(f"logical_{kind}", x=first, y=second) for kind in ("and", "or", "xor")},
            "band": applied("band_part", x=x, lower=0, upper=1),
            "turned": applied("reverse_sequence", x=x, lengths=whole(4, 0, 2), seq_axis=1),
            "hot": applied("one_hot", indices=place, one_hot_vector_size=4, on_value=2.5, off_value=-1.0, dtype="fp16"),
            "hot int32": applied("one_hot", indices=place, one_hot_vector_size=5, axis=0),
        }
    )
    expected = af.reference(graph, {port: one.astype(np.float64) for port, one in fed.items()})
    found = af.run(af.build_program(graph, target), fed).outputs
    for port, values in expected.items():
        np.testing.assert_array_equal(found[port], values.astype(np.float64), err_msg=port)


@pytest.mark.parametrize("size", [5, 2048, 2049])
def test_one_hot_vectors_of_any_length(size: int) -> None:
    y = applied("one_hot", indices=af.input((3,), name="i", dtype="uint8"), one_hot_vector_size=size, dtype="fp16")
    fed = {"i": np.array([0, 4, 3], np.uint8)}
    assert af.preflight(retarget(y, "h13").graph, "h13").ok
    found = af.run(af.build_program(y, "h13"), fed).outputs["y"]
    np.testing.assert_array_equal(found, np.eye(size)[fed["i"]])


@pytest.mark.parametrize("extent", [5, 300])
def test_sequences_of_computed_lengths(extent: int) -> None:
    lengths = af.input((3,), name="lengths", dtype="uint8")
    y = applied("reverse_sequence", x=af.input((extent, 3), name="x"), lengths=lengths, seq_axis=0, batch_axis=1)
    x = np.arange(extent * 3.0).reshape(extent, 3).astype(np.float16)
    fed = {"x": x, "lengths": np.array([0, 1, min(extent, 255)], np.uint8)}
    found = af.run(af.build_program(y, "h13"), fed).outputs["y"]
    np.testing.assert_array_equal(found, af.reference(y, {**fed, "x": x.astype(np.float64)})["y"])


# --- remainders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", RUN_ON)
def test_remainders_of_fp16_are_exact_on_an_engine(target: str) -> None:
    """Of one sign they are exact; of two, the divisor is added, and that is rounded once."""
    generator = np.random.default_rng(2)
    x, y = (generator.integers(0, 0x7800, 40_000).astype(np.uint16).view(np.float16) for _ in range(2))
    signs = generator.choice([-1, 1], (2, x.size)).astype(np.float16)
    kept = (x < 2.0**14) & (y > 2.0**-10) & (x.astype(np.float64) / y <= accuracy_of("mod").high)
    x, y = (sign * one for sign, one in zip(signs[:, kept], (x[kept], y[kept]), strict=True))
    assert x.size > 10_000
    ports = {name: af.input(x.shape, name=name) for name in "xy"}
    found = af.run(af.build_program(applied("mod", **ports), target), {"x": x, "y": y}).outputs["y"]
    exact = np.mod(x.astype(np.float64), y.astype(np.float64))
    error = np.abs(found.astype(np.float64) - exact)
    alike = np.sign(x) == np.sign(y)
    assert not error[alike].any()
    assert np.all(error <= np.spacing(np.abs(exact).astype(np.float16)) / 2)


@pytest.mark.parametrize("target", RUN_ON)
@pytest.mark.parametrize("divisor", [1.0, -2.0, 0.25, 2.0**13, 2.0**-13])
def test_remainders_by_powers_of_two_are_exact_in_a_few_steps(divisor: float, target: str) -> None:
    generator = np.random.default_rng(3)
    x = np.sign(divisor) * generator.integers(0, 0x7800, 2000).astype(np.uint16).view(np.float16)
    x = x[np.abs(x / divisor) < 60_000]
    y = applied("mod", x=af.input(x.shape, name="x"), y=Dense(np.array(divisor, np.float16)))
    assert len(decomposed(af.Graph({"y": y})).nodes) == 6
    found = af.run(af.build_program(y, target), {"x": x}).outputs["y"]
    np.testing.assert_array_equal(found, np.mod(x.astype(np.float64), divisor))


@pytest.mark.parametrize("name", ["x", "y"])
def test_remainders_of_integers_are_exact(name: str) -> None:
    x, y = (one.ravel().astype(np.uint8) for one in np.meshgrid(np.arange(0, 256, 5), np.arange(0, 256, 5)))
    ports = {port: af.input(x.shape, name=port, dtype="uint8") for port in "xy"}
    constants = {"x": Dense(x), "y": Dense(y)}
    graph = applied("mod", **{**ports, name: constants[name]}).cast("fp16")
    fed = {port: one for port, one in (("x", x), ("y", y)) if port != name}
    found = af.run(af.build_program(graph, "h13"), fed).outputs["y"]
    np.testing.assert_array_equal(found, np.where(y == 0, 0, x % np.maximum(y, 1)))


# --- what is said, and what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tan", "atanh"])
def test_the_change_states_form_domain_and_error(name: str) -> None:
    (change,) = retarget(applied(name, x=af.input((2,))), "m1").changes
    assert change.detail == f"{ops()[name].decompositions()[0].form}; {accuracy_of(name)}"


def test_strict_does_not_let_it_pass() -> None:
    with pytest.raises(StrictCompileError, match="tan"):
        af.compile(applied("tan", x=af.input((2,), name="x", max_abs=1.0)), target="m1", strict=True)


@pytest.mark.parametrize("name", ["tan", "lstm", "logical_and", "mod"])
def test_mil_text_without_a_target_has_it_as_itself(name: str) -> None:
    case = draw_call(ops()[name], 2)
    assert f" {name}(" in af.to_mil(case.graph).text


@pytest.mark.parametrize("name", SCATTERS)
def test_a_scatter_to_computed_places_is_refused(name: str) -> None:
    shapes = {"scatter": (2,), "scatter_along_axis": (2, 4), "scatter_nd": (2, 1)}
    indices = applied("argsort", x=af.input(shapes[name], name="i"), axis=0)
    y = applied(name, data=af.input((3, 4), name="d"), indices=indices, updates=af.input((2, 4), name="u"))
    with pytest.raises(IllegalGraphError, match=rf"ANE-FLOOR-006 reject: {name} .* only where indices is a constant"):
        retarget(y, "m3")
    with pytest.raises(NotSupportedError, match="its indices must be constants"):
        decomposed(af.Graph({"y": y}), "h15")


def test_non_zero_is_refused_for_its_shape() -> None:
    with pytest.raises(IllegalGraphError, match=r"ANE-FLOOR-007 reject: non_zero .* shape depends on the values"):
        retarget(applied("non_zero", x=af.input((2,))), "m1")


def test_the_direct_route_has_them_not() -> None:
    with pytest.raises(NotSupportedError, match=r"tan at .*: h12 does not have it, nor all operations"):
        retarget(applied("tan", x=af.input((1, 8))), "h12", route="direct")
