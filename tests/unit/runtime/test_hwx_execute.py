"""Compiled containers run as their own tasks say, with the engine's arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from aneforge.engine.dispatch import arithmetic
from aneforge.errors import AneforgeError, GraphError, HwxError
from aneforge.formats.hwx.container import PortBinding, TensorState
from aneforge.formats.hwx.interpreter import walking
from aneforge.formats.hwx.interpreter.activation_tables import NO_GRID
from aneforge.formats.hwx.interpreter.coefficients import KernelShape, packing_of
from aneforge.formats.hwx.interpreter.lifting import lift
from aneforge.hwx import execute
from aneforge.targets import resolve
from hwx_fixtures import Fixture, runs_as_described, same_bits
from hwx_fixtures import drawn_inputs as drawn
from hwx_oracle_programs import EACH_LATER_PROGRAM, EACH_PROGRAM, expected_result, program_of
from hwx_programs import SHAPE, changed_bodies, container_of, with_words
from hwx_tasks import Oracle, convolution, copy_task, linked, planar_add
from hwx_tools import EACH_FIXTURE, fixture_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from aneforge.formats.hwx.container import Container
    from aneforge.formats.hwx.descriptors.task import Task

    Array = npt.NDArray[Any]
    Combination = Callable[[Array, Array], Array]

H13 = resolve("h13")
TWO = {"x": SHAPE, "y": SHAPE}
THREE = {**TWO, "z": SHAPE}


# Real files.


@EACH_FIXTURE
def test_a_real_file_gives_the_bits_of_the_operation_that_it_was_made_of(name: str) -> None:
    path = fixture_path(name)
    manifest = msgspec.json.decode((path.parent / "manifest.json").read_bytes(), type=list[Fixture])
    (fixture,) = (entry for entry in manifest if entry.name == name)
    assert runs_as_described(fixture, path.read_bytes())


@EACH_PROGRAM
def test_a_program_of_the_compiler_gives_the_bits_of_its_operation(oracle: Oracle) -> None:
    made = program_of(oracle)
    for seed in range(4):
        inputs = {port.name: drawn(seed + 4 * place, port.shape) for place, port in enumerate(made.inputs)}
        output = execute(made.container, inputs).outputs["y"]
        assert same_bits(expected_result(oracle, made, inputs, H13).reshape(output.shape), output), f"seed {seed}"


@EACH_LATER_PROGRAM
def test_a_program_of_a_later_generation_gives_the_bits_of_its_operation(oracle: Oracle) -> None:
    made = program_of(oracle)
    inputs = {port.name: drawn(4 * place, port.shape) for place, port in enumerate(made.inputs)}
    ran = execute(made.container, inputs)
    expected = expected_result(oracle, made, inputs, resolve(ran.target))
    assert same_bits(expected.reshape(ran.outputs["y"].shape), ran.outputs["y"])


# Files of our own.


def test_pairs_scalars_and_copies_run() -> None:
    x, z = drawn(0, SHAPE), drawn(4, SHAPE)
    run = execute(container_of(linked(planar_add()), THREE), {"x": x, "z": z})
    assert same_bits(run.outputs["y"], arithmetic("add", H13).compute({"x": x, "y": z}, {})[0])
    assert str(run.label.exactness) == "exact"
    assert same_bits(execute(container_of(linked(copy_task()), TWO), {"x": x}).outputs["y"], x)


@pytest.mark.parametrize(
    ("fields", "op", "attributes"),
    [
        ({"pe.bias": 0.5}, "adds", {"k": 0.5}),
        ({"pe.scale": 0.75}, "muls", {"k": 0.75}),
        ({"pe.scale": 0.75, "pe.bias": 0.5}, "linear_activation", {"alpha": 0.75, "beta": 0.5}),
        ({"pe.absolute": 1}, "abs", {}),
        ({"pe.negate_source1": 1}, "muls", {"k": -1.0}),
        ({"pe.relu": 1}, "relu", {}),
        ({"pe.post_function": 1}, "inverse", {"epsilon": 0.0}),
        ({"pe.post_function": 2, "pe.epsilon": 0.5}, "rsqrt", {"epsilon": 0.5}),
    ],
)
def test_one_source_runs_as_its_operation(
    fields: Mapping[str, float], op: str, attributes: Mapping[str, float]
) -> None:
    x = drawn(0, SHAPE)
    run = execute(container_of(linked(unary(fields)), TWO), {"x": x})
    assert same_bits(run.outputs["y"], arithmetic(op, H13).compute({"x": x}, attributes)[0])


def unary(fields: Mapping[str, float]) -> Task:
    """Return a task of one source on the planar engine."""
    one = {"common.task_type": 2, "pe.source2_tensor": 0, "common.source2_by_dma": 0, "l2.source2_present": 0}
    return planar_add().with_fields({**one, **fields})


COMBINATIONS: list[tuple[Mapping[str, float], Combination]] = [
    ({"pe.negate_source2": 1, "pe.scale": 2.0}, lambda x, z: (x - z) * 2),
    ({"pe.planar_operation": 4}, lambda x, z: (x + z) ** 2),
    ({"pe.planar_operation": 2, "pe.negate_source1": 1}, lambda x, z: np.maximum(-x, z)),
    ({"pe.planar_operation": 3, "pe.bias": 1.0}, lambda x, z: np.minimum(x, z) + 1),
    ({"pe.absolute": 1}, lambda x, z: np.abs(x + z)),
]


@pytest.mark.parametrize(("fields", "expected"), COMBINATIONS)
def test_pairs_that_are_no_operation_round_once_and_say_so(fields: Mapping[str, float], expected: Combination) -> None:
    x, z = (np.random.default_rng(seed).integers(-9, 9, SHAPE).astype(np.float16) + 0.5 for seed in (1, 2))
    run = execute(container_of(linked(planar_add().with_fields(fields)), THREE), {"x": x, "z": z})
    assert same_bits(run.outputs["y"], expected(x.astype(np.float64), z.astype(np.float64)))
    assert "a scaled pair rounds once" in run.label.reason


def packed_convolution() -> tuple[bytes, Array, Array]:
    """Return constants of the convolution task, and its weights and biases."""
    generator = np.random.default_rng(3)
    weights = generator.standard_normal((64, 64, 3, 3)).astype(np.float16)
    biases = generator.standard_normal(64).astype(np.float16)
    packing = packing_of(KernelShape(1, 64, 64, 3, 3, 4, bias=True), [0x1240 * core for core in range(16)])
    section = np.zeros(16 * 0x1240 // 2, np.uint16)
    section[packing.weights] = weights.reshape(1, 64, -1).view(np.uint16)
    assert packing.biases is not None
    section[packing.biases] = biases.view(np.uint16)
    return section.tobytes(), weights, biases


def test_a_convolution_reads_its_weights_from_the_file() -> None:
    constants, weights, biases = packed_convolution()
    x = drawn(0, SHAPE)
    operands = {"x": x, "weight": weights, "bias": biases}
    (sums,) = arithmetic("conv", H13).compute(operands, {"pad_type": "custom", "pad": (1, 1, 1, 1)})
    run = execute(container_of(linked(convolution()), TWO, constants=constants), {"x": x})
    assert same_bits(run.outputs["y"], arithmetic("relu", H13).compute({"x": sums}, {})[0])
    scaled = convolution().with_fields({"ne.post_scale": 2.0})
    doubled = execute(container_of(linked(scaled), TWO, constants=constants), {"x": x})
    assert np.allclose(doubled.outputs["y"], 2 * run.outputs["y"], rtol=2e-3)
    assert "a scale before an activation" in doubled.label.reason
    large = execute(container_of(linked(convolution()), TWO, constants=constants), {"x": np.full(SHAPE, 6e4)})
    assert "the order in which partial sums pass the edge" in large.label.reason
    endless = execute(container_of(linked(convolution()), TWO, constants=constants), {"x": np.full(SHAPE, np.inf)})
    assert "infinite" in endless.label.reason


def table_copy(values: Mapping[int, float | int]) -> Container:
    """Return a copy through an activation table: floats at places, and integers as they are."""
    halves = np.zeros(64, np.uint16)
    for place, value in values.items():
        halves[place] = value if isinstance(value, int) else int(np.float16(value).view(np.uint16))
    fields = {
        **{f"common.{name}": 1 for name in ("kernel_width", "kernel_height", "unicast")},
        "common.pad_left": 0,
        "common.pad_top": 0,
        "ne.has_bias": 0,
        "ne.mac_operation": 4,
        "ne.implicit_ones": 1,
        "ne.nonlinearity": 2,
        "common.lanes_log2": 0,
    }
    return container_of(linked(convolution().with_fields(fields)), TWO, constants=halves.tobytes() + bytes(0x4000))


def test_tables_that_nobody_knows_are_interpolated_and_labelled() -> None:
    x = np.resize(np.array([-np.inf, -9, -8, -3.25, -0.5, 0, 0.25, 3.5, 8, 9, np.inf, np.nan], np.float16), SHAPE)
    knots = {4 + place: float(place - 16) for place in range(33)}
    bounds = {0: -8.5, 1: 8.5, 2: -100.0, 3: 100.0}
    lines = {37: 2.0, 38: 1.0, 39: 2.0, 40: -1.0}
    run = execute(table_copy({**bounds, **knots, **lines, 41: 1, 42: 1}), {"x": x})
    expected = [-100, -100, -16, -6.5, -1, 0, 0.5, 7, 15, 100, 100, 100]
    assert run.outputs["y"].ravel()[:12].tolist() == expected
    assert "interpolated as they are" in run.label.reason
    odd = execute(table_copy({**bounds, **knots, 0: 0.0, 2: 0.0, 41: 3, 42: 0x60}), {"x": x})
    assert odd.outputs["y"].ravel()[3:8].tolist() == [-10, 12, 0, -14, 12]
    two_lines = {0: -np.inf, 1: np.inf, 2: -np.inf, 3: np.inf, 37: 0.5, 38: 1.0, 39: 2.0, 41: NO_GRID}
    lined = execute(table_copy(two_lines), {"x": x})
    assert lined.outputs["y"].ravel()[1:6].tolist() == [-3.5, -3, -0.625, 0.75, 0]
    with pytest.raises(HwxError, match=r"task 0: ne\.nonlinearity: the kind of the activation's table is not known"):
        execute(table_copy({**knots, 41: 1, 42: 0xC5}), {"x": x})


# What goes wrong.


def test_a_task_that_reads_what_was_not_written_is_named() -> None:
    early = copy_task().with_fields({"source.source1_enable": 0})
    with pytest.raises(HwxError, match=r"task 0: l2\.source1_l2_base: no earlier task wrote what is read from L2"):
        execute(container_of(linked(early), TWO), {"x": drawn(0, SHAPE)})
    from_scratch = copy_task().with_fields({"header.source1_bar": 3})
    with pytest.raises(HwxError, match=r"task 0: source\.source1_base: no earlier task wrote what is read from __DATA"):
        execute(container_of(linked(from_scratch), TWO, scratch=0x8000), {"x": drawn(0, SHAPE)})
    runtime = convolution().with_fields({"ne.runtime_kernel": 1, "ne.has_bias": 0, "header.kernel_bar": 3})
    with pytest.raises(HwxError, match=r"task 0: kernel_source\.coefficient_base: no earlier task wrote the weights"):
        execute(container_of(linked(runtime), TWO, scratch=0x20000), {"x": drawn(0, SHAPE)})


def test_a_buffer_that_is_laid_over_a_tensor_in_l2_overwrites_it() -> None:
    kept = {"destination.result_enable": 0, "l2.result_streamed": 0, "l2.result_type": 0, "header.result_bar_enable": 0}
    strides = {f"l2.result_l2_{axis}": size for axis, size in {"channel": 0x10, "row": 0x420}.items()}
    first = copy_task().with_fields({**kept, **strides, "l2.result_l2_base": 0x4000})
    last = copy_task().with_fields({"source.source1_enable": 0, "l2.source1_l2_base": 0x4000})
    x = drawn(0, SHAPE)
    assert same_bits(execute(container_of(linked(first, last), TWO), {"x": x}).outputs["y"], x)
    between = copy_task().with_fields({"l2.source1_l2_base": 0x3000})
    with pytest.raises(HwxError, match=r"task 2: l2\.source1_l2_base: no earlier task wrote"):
        execute(container_of(linked(first, between, last), TWO), {"x": x})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"destination.result_row": 0}, "task 0: destination.result_base: elements of the result share addresses"),
        ({"header.result_bar": 1}, "task 0: destination.result_base: the result would be written over __TEXT/__const"),
        ({"common.result_width": 4}, "task 0: common.result_dimensions: the result has other extents than the work"),
    ],
)
def test_a_result_must_have_a_place_of_its_own(fields: Mapping[str, float], message: str) -> None:
    task = planar_add().with_fields(fields)
    inputs = {"x": drawn(0, SHAPE), "z": drawn(1, SHAPE)}
    with pytest.raises(HwxError, match=message):
        execute(container_of(linked(task), THREE, constants=bytes(0x8000)), inputs)


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "MOST_WORK", 64**2)
    with pytest.raises(HwxError, match="task 0: the program has too much to do"):
        execute(container_of(linked(copy_task()), TWO), {"x": drawn(0, SHAPE)})


def test_an_output_that_nothing_writes_is_named() -> None:
    task = copy_task().with_fields({"header.result_bar": 6})
    with pytest.raises(HwxError, match="port 'y': no earlier task wrote what is read"):
        execute(container_of(linked(task), THREE), {"x": drawn(0, SHAPE), "z": drawn(0, SHAPE)})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"w": np.zeros(SHAPE)}, "the program has no such input"),
        ({}, "input 'x' has no value"),
        ({"x": np.zeros((1, 2))}, "input 'x' must be numbers of shape"),
        ({"x": np.zeros(SHAPE, np.bool_)}, "input 'x' must be numbers of shape"),
    ],
)
def test_inputs_must_be_those_of_the_program(inputs: Mapping[str, Array], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        execute(container_of(linked(copy_task()), TWO), inputs)


def test_axes_of_one_element_may_be_left_out() -> None:
    container, values = container_of(linked(copy_task()), TWO), drawn(0, SHAPE)
    (whole,) = execute(container, {"x": values}).outputs.values()
    (squeezed,) = execute(container, {"x": values[0]}).outputs.values()
    assert np.array_equal(whole.view(np.uint16), squeezed.view(np.uint16))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"element": 2}, "port 'x': only fp16 is understood"),
        ({"depth": 2}, "port 'x': only planes are understood"),
        ({"strides": (1, 3, 64, 2)}, "port 'x': base and strides must be multiples of 2"),
    ],
)
def test_ports_that_are_not_understood_are_named(changes: Mapping[str, Any], message: str) -> None:
    container = container_of(linked(copy_task()), TWO)
    changed = changed_bodies(container, TensorState, lambda one: one.name == "x", changes)
    with pytest.raises(HwxError, match=message):
        execute(changed, {"x": drawn(0, SHAPE)})


def test_a_port_must_be_in_a_section_and_the_engine_known() -> None:
    container = container_of(linked(copy_task()), TWO)
    moved = changed_bodies(container, PortBinding, lambda one: one.name == "x", {"address": 0x40})
    with pytest.raises(HwxError, match="port 'x' points into no section"):
        execute(moved, {"x": drawn(0, SHAPE)})


@pytest.mark.parametrize("make", [copy_task, planar_add, convolution])
def test_damaged_tasks_give_a_typed_error_or_a_result(make: Callable[[], Task]) -> None:
    """Words become 0, all ones or large dimensions, or a bit of them flips: no other error, and no time or memory."""
    generator = np.random.default_rng(5)
    whole = container_of(linked(make()), THREE, constants=bytes(16 * 0x1240))
    inputs = {"x": drawn(0, SHAPE), "z": drawn(1, SHAPE)}
    refused = 0
    for case in range(150):
        words = np.array(whole.words)
        at = int(generator.integers(len(words)))
        extremes = (0, 0xFFFF_FFFF, 0x7FFF_7FFF, 0x1_FFFF, int(words[at]) ^ 1 << int(generator.integers(32)))
        words[at] = extremes[case % len(extremes)]
        try:
            (execute(with_words(whole, words), inputs) if case % 2 else lift(with_words(whole, words)))
        except AneforgeError:
            refused += 1
    assert refused > 30
