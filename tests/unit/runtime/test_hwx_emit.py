"""Programs are emitted as containers, whose tasks give the bits of the graph engine."""

from __future__ import annotations

import ast
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import aneforge as af
from aneforge.commands.hwx_files import lint
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.memory.planner import plan
from aneforge.compiler.schedule.schedule import schedule
from aneforge.errors import HwxError
from aneforge.formats.hwx.container import Direction, Segment
from aneforge.formats.hwx.descriptors.task_lint import lint_tasks
from aneforge.formats.hwx.emission.activation_tables import table_bytes
from aneforge.formats.hwx.emission.surfaces import Extent, surface_of
from aneforge.formats.hwx.read_hwx import read_bytes
from aneforge.formats.hwx.write_hwx import write_bytes
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.rules.rule import Severity
from aneforge.runtime.hwx.constant_pool import ConstantPool
from aneforge.runtime.hwx.emit_program import RefusedLayer, emit_compiled
from aneforge.runtime.hwx.layer_steps import steps_of
from aneforge.runtime.hwx.product_steps import product_parts
from aneforge.runtime.hwx.step import dense_values, fp16_values
from aneforge.targets import resolve, task_chains, work_units
from aneforge.targets.task_chains import Buffer, constant_product_chain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from aneforge.compiler.memory.task_places import LayerPlaces

    Array = npt.NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def weights(*shape: int) -> Array:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / 8).astype(np.float16)


def source(*shape: int, name: str = "x") -> Tensor:
    return af.input(shape, name=name)


def network() -> Tensor:
    """Return convolutions of 3x3 and of 1x1 with stride 2, bias, relu, mean and linear, with a residual."""
    x = af.conv(source(1, 8, 12, 12), weights(24, 8, 3, 3), bias=weights(24), pad=1).relu()
    y = af.conv(x, weights(48, 24, 1, 1), bias=weights(48), stride=2)
    z = af.conv(y, weights(48, 48, 3, 3), pad=1).relu()
    return (y + z).mean((2, 3)).reshape((1, 48)).linear(weights(10, 48), weights(10))


MAP = (1, 24, 6, 10)


def layer_norm(x: Tensor) -> Tensor:
    """Return the norm of rows without gamma and beta, as a reader of models makes it."""
    return Tensor(build("layer_norm", {"x": x}, {"axes": (-1,), "epsilon": 1e-5}, None))


def dropped(x: Tensor, axes: tuple[int, ...], operation: str = "reduce_mean") -> Tensor:
    return Tensor(build(operation, {"x": x}, {"axes": axes, "keep_dims": False}, None))


def attention(x: Tensor) -> Tensor:
    query, key, value = (x.linear(weights(24, 24), weights(24)) for _ in range(3))
    return (query @ key.transpose((0, 2, 1)) * 0.2).softmax(-1) @ value


def strided(strides: tuple[int, int]) -> Tensor:
    given = {"strides": strides, "pad_type": "custom", "pad": (1, 0, 0, 1), "dilations": (1, 1), "groups": 1}
    return Tensor(build("conv", {"x": source(*MAP), "weight": Dense(weights(16, 24, 3, 3))}, given, None))


def split_heads(x: Tensor) -> Tensor:
    """Return rows of three heads, each as its own matrix, multiplied by themselves."""
    heads = x.reshape((1, 32, 3, 16)).transpose((0, 2, 1, 3))
    return (heads.relu() @ heads.transpose((0, 1, 3, 2))).softmax(-1)


def turned_halves(x: Tensor) -> Tensor:
    """Return the second half of each row with its sign turned, and then the first, as rotary positions need them."""
    first, second = (x.slice_by_size((0, 0, 0, begin), (1, 4, 24, 8)) for begin in (0, 8))
    return af.concat([second * -1.0, first], 3) + x


def scaled_sum() -> Tensor:
    return ((source(*MAP) + source(*MAP, name="y")) * 0.3).sigmoid()


GRAPHS: dict[str, Callable[[], Tensor]] = {
    "network": network,
    "few outputs": lambda: af.conv(source(*MAP), weights(5, 24, 3, 3)),
    "groups": lambda: af.conv(source(*MAP), weights(32, 12, 3, 3), pad=1, groups=2, bias=weights(32)),
    "depthwise": lambda: af.conv(source(*MAP), weights(24, 1, 3, 3), pad=1, groups=24, bias=weights(24)),
    "many outputs with a stride": lambda: af.conv(source(*MAP), weights(256, 24, 1, 1), stride=2, bias=weights(256)),
    "3x3 with a stride": lambda: af.conv(source(*MAP), weights(20, 24, 3, 3), stride=2, pad=1, bias=weights(20)).relu(),
    "depthwise with a stride": lambda: af.conv(source(*MAP), weights(24, 1, 3, 3), stride=2, groups=24),
    "groups with a stride of three": lambda: af.conv(source(*MAP), weights(32, 12, 1, 1), stride=3, groups=2) * -0.3,
    "a stride of rows": lambda: strided((2, 1)),
    "a stride of columns": lambda: strided((1, 2)),
    "a large map with a stride": lambda: af.conv(source(1, 1, 256, 256), weights(32, 1, 3, 3), stride=2, pad=1),
    "outputs in parts with a stride": lambda: af.conv(source(1, 480, 5, 4), weights(128, 480, 3, 3), stride=2, pad=1),
    "uneven parts": lambda: af.conv(source(*MAP), weights(56, 24, 1, 1), stride=2),
    "outputs in parts": lambda: af.conv(source(1, 480, 4, 4), weights(128, 480, 3, 3), pad=1),
    "wide": lambda: af.conv(source(1, 8, 4, 200), weights(16, 8, 3, 3), pad=1).sigmoid(),
    "difference": lambda: source(*MAP) - source(*MAP, name="y"),
    "one tensor twice": lambda: (x := source(*MAP)) * x,
    "repeated": lambda: source(1, 24, 1, 1, name="z") * source(*MAP),
    "scalars": lambda: af.maximum((source(*MAP) * 0.25).relu() + 0.5, 0.75),
    "scaled sum": scaled_sum,
    "activations": lambda: source(*MAP).tanh().gelu().silu().leaky_relu(0.1).abs(),
    "exponents": lambda: af.maximum(source(*MAP).exp().sqrt(), 0.5).rsqrt(),
    "softmax": lambda: source(*MAP).softmax(-1),
    "softmax of one row": lambda: source(1, 8, 40).softmax(-1),
    "sums": lambda: source(*MAP).sum(3).sum(2),
    "mean of everything": lambda: source(*MAP).mean((1, 2, 3)),
    "maximum of channels": lambda: source(1, 24, 1, 1).amax(1),
    "sum of channels": lambda: source(1, 24, 1, 10).sum(1),
    "joined": lambda: af.concat([source(*MAP), source(*MAP, name="y").relu()], 1),
    "joined columns": lambda: af.concat([source(1, 4, 3, 64), source(1, 4, 3, 10, name="y")], 3),
    "linear in parts": lambda: source(1, 2048).linear(weights(300, 2048), weights(300)).relu(),
    "mean of a large map": lambda: source(1, 32, 200, 200).mean((2, 3)),
    "part": lambda: source(*MAP).slice_by_size((0, 4, 2, 0), (1, 8, 3, 10)),
    "columns and channels": lambda: source(*MAP).transpose((0, 3, 2, 1)),
    "rows and channels": lambda: source(*MAP).transpose((0, 2, 1, 3)),
    "product": lambda: source(1, 32, 24) @ source(1, 24, 40, name="y"),
    "linear": lambda: source(4, 24).linear(weights(20, 24), weights(20)),
    "gain and offset": lambda: 1.0 - source(*MAP),
    "bounded": lambda: source(*MAP).clip(-0.5, 0.75),
    "logarithm": lambda: (source(*MAP).abs() + 0.1).log().relu(),
    "quotient": lambda: source(1, 24, 1, 1) / (source(*MAP, name="y").abs() + 0.5),
    "reciprocal": lambda: (source(*MAP).abs() + 0.5).inverse().relu(),
    "square": lambda: source(*MAP).square(),
    "scaled and repeated": lambda: (source(1, 24, 1, 1) - source(*MAP, name="y")) * 0.3,
    "scaled convolution": lambda: (af.conv(source(*MAP), weights(20, 24, 3, 3), pad=1) * -0.3).relu() + 0.5,
    "scaled product": lambda: source(1, 32, 24) @ source(1, 24, 40, name="y") * 0.2,
    "attention": lambda: attention(source(1, 32, 24)),
    "attention of heads": lambda: af.mha(source(32, 64), *(weights(*one) for one in ((64, 64), (64,)) * 4), n_heads=2),
    "repeated wide rows": lambda: source(1, 3, 2, 130) - source(1, 1, 2, 130, name="y"),
    "softmax of long rows": lambda: source(1, 3, 2, 600).softmax(-1),
    "layer norm of long rows": lambda: layer_norm(source(1, 5, 1030)),
    "linear of many rows": lambda: source(1, 150, 24).linear(weights(20, 24), weights(20)),
    "softmax of channels": lambda: source(*MAP).softmax(1),
    "softmax of rows": lambda: source(*MAP).softmax(2),
    "layer norm": lambda: layer_norm(source(1, 20, 40)),
    "least of channels and columns": lambda: source(*MAP).amin((1, 3)),
    "mean of channels and rows": lambda: source(1, 24, 9, 10).mean((1, 2)),
    "sum of channels of rows": lambda: source(*MAP).sum(1),
    "largest of few channels": lambda: source(1, 7, 1, 19).amax((1, 2)),
    "rows and columns": lambda: source(*MAP).transpose((0, 1, 3, 2)),
    "channels last": lambda: source(*MAP).transpose((0, 2, 3, 1)),
    "channels first": lambda: source(*MAP).transpose((0, 3, 1, 2)),
    "products of heads": lambda: source(1, 3, 37, 24) @ source(1, 3, 20, 24, name="y").transpose((0, 1, 3, 2)),
    "few rows": lambda: source(1, 8, 24) @ source(1, 24, 40, name="y"),
    "one row of each head": lambda: source(1, 3, 1, 24) @ source(1, 3, 20, 24, name="y").transpose((0, 1, 3, 2)),
    "product of one channel": lambda: source(1, 1, 32, 24) @ source(1, 1, 24, 40, name="y"),
    "one matrix for every head": lambda: source(1, 3, 32, 24) @ source(1, 1, 24, 10, name="y"),
    "mean without its axes": lambda: dropped(source(*MAP), (2, 3)).linear(weights(10, 24), weights(10)),
    "least without its axes": lambda: dropped(source(*MAP), (2, 3), "reduce_min"),
    "sum of channels of one row": lambda: source(1, 24, 10).sum(1),
    "softmax of channels of one row": lambda: source(1, 24, 10).softmax(1),
    "linear of rows": lambda: source(1, 3, 5, 24).linear(weights(20, 24), weights(20)),
    "flattened": lambda: source(*MAP).reshape((1, 1440)).linear(weights(10, 1440), weights(10)),
    "unfolded": lambda: source(1, 1440).linear(weights(90, 1440)).reshape((1, 9, 2, 5)).relu(),
    "other rows": lambda: source(*MAP).reshape((1, 60, 24)).relu(),
    "heads of 16 columns": lambda: split_heads(source(1, 32, 48)),
    "shape of a strided map": lambda: af.conv(source(*MAP), weights(8, 24, 3, 3), stride=2, pad=1).reshape((1, 120)),
    "more rows than the chip holds": lambda: source(1, 64, 50, 50).reshape((1, 64, 2500)),
    "joined within a line": lambda: af.concat([x := source(*MAP), source(1, 24, 6, 1, name="y"), x.relu()], 3),
    "joined rows of two axes": lambda: af.concat([source(7, 3), source(7, 40, name="y")], 1).relu(),
    "part of a line": lambda: source(*MAP).slice_by_size((0, 4, 0, 3), (1, 8, 6, 4)),
    "part of a line of some rows": lambda: source(*MAP).slice_by_size((0, 4, 2, 3), (1, 8, 3, 4)),
    "part of a matrix": lambda: source(5, 64).slice_by_size((2, 32), (3, 32)).relu(),
    "part of a matrix in a line": lambda: source(5, 64).slice_by_size((2, 3), (3, 30)).relu(),
    "one column": lambda: source(1, 24, 10).slice_by_size((0, 2, 7), (1, 9, 1)).relu(),
    "turned halves": lambda: turned_halves(source(1, 4, 24, 16)),
    "dropped channels": lambda: dropped(source(*MAP), (1,)),
    "dropped columns": lambda: dropped(source(*MAP), (3,), "reduce_min"),
    "between zero and six": lambda: af.conv(source(*MAP), weights(20, 24, 1, 1), bias=weights(20)).relu6(),
    "between zero and six alone": lambda: source(*MAP).relu6().tanh(),
    "rows in channels": lambda: source(1, 12, 4, 16).reshape((1, 48, 16)),
    "a view as a result": lambda: source(1, 24, 1, 10).relu().reshape((1, 24, 10)),
    "a view of an input": lambda: source(1, 24, 1, 10).reshape((1, 24, 10)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_bits_of_the_graph_engine(name: str) -> None:
    graph = GRAPHS[name]()
    made = af.hwx.emit(graph, "m1")
    assert made.whole, made.refused
    container = read_bytes(write_bytes(made.files[0].container))
    tasks = af.hwx.tasks_of(container)
    assert [one for one in lint_tasks(tasks) if one.severity is not Severity.WARN] == []
    assert sorted(made.files[0].layers) == list(range(len(tasks)))
    assert "inferred" in container.identification
    net = af.compile(graph, target="m1")
    shapes = {port.name: port.value.shape for port in compile_graph(graph, "m1").program.inputs}
    for seed, scale in enumerate((1.0, 30.0)):
        draws = np.random.default_rng(seed)
        ports = [port for port in container.ports if port.direction is Direction.INPUT]
        inputs = {port.name: (draws.standard_normal(port.shape) * scale).astype(np.float16) for port in ports}
        (output,) = af.hwx.execute(container, inputs).outputs.values()
        expected = np.asarray(net(*(inputs[name].reshape(shape) for name, shape in shapes.items()))).astype(np.float16)
        assert np.array_equal(expected.view(np.uint16), output.reshape(expected.shape).view(np.uint16))


def test_a_strided_convolution_that_does_not_fit_the_chip_is_thinned_in_parts() -> None:
    """Rows are thinned as many at a time as fit, and what is read back is the strided convolution's."""
    graph = GRAPHS["a large map with a stride"]()
    container = af.hwx.emit(graph, "m1").files[0].container
    copies = [one for one in af.hwx.disassemble(af.hwx.tasks_of(container)).splitlines() if "NE copy" in one]
    assert len(copies) > 2
    assert all("transposed" in one for one in copies)


@pytest.mark.parametrize(
    "name", ["3x3 with a stride", "shape of a strided map", "other rows", "dropped columns", "part of a line"]
)
def test_what_is_copied_several_times_is_read_back(name: str, tmp_path: Path) -> None:
    graph, values = GRAPHS[name](), weights(*MAP)
    af.hwx.write(af.hwx.emit(graph, "m1").files[0].container, tmp_path / "strided.hwx")
    read = af.load_model(tmp_path / "strided.hwx")
    expected, found = (np.asarray(af.compile(one, target="m1")(values)) for one in (graph, read))
    assert np.array_equal(expected.ravel(), found.ravel())


def test_layouts_for_the_linux_driver_run_too() -> None:
    values = {"x": weights(1, 8, 12, 12)}
    outputs = [
        af.hwx.execute(af.hwx.emit(network(), "m1", style=style).files[0].container, values).outputs
        for style in ("v9", "v5")
    ]
    assert np.array_equal(outputs[0]["y"], outputs[1]["y"])


@pytest.mark.parametrize("product", [True, False])
def test_zeros_of_a_scaled_pair_keep_their_signs(*, product: bool) -> None:
    x, y = source(1, 1, 1, 5), source(1, 1, 1, 5, name="y")
    graph = (x * y if product else x + y) * -0.62
    values = np.array([[0, -0.0, 1, 2, -1], [0, 1, -1, 0, -0.0]], np.float16)
    given = {name: row.reshape(1, 1, 1, 5) for name, row in zip("xy", values, strict=True)}
    expected = np.asarray(af.compile(graph, target="m1")(*given.values())).astype(np.float16)
    (output,) = af.hwx.execute(af.hwx.emit(graph, "m1").files[0].container, given).outputs.values()
    assert np.signbit(expected).any()
    assert np.array_equal(expected.view(np.uint16), output.view(np.uint16))


def test_a_map_that_just_fills_the_chip_leaves_a_row_for_its_result() -> None:
    wide = af.conv(source(1, 256, 64, 64), weights(1, 256, 1, 1))
    (task,) = af.hwx.tasks_of(af.hwx.emit(wide, "m1").files[0].container)
    assert task.integer("common.tile_height") == 63
    assert task.integer("l2.result_l2_base") == 63 * (task.integer("l2.source1_l2_row") or 0)


def test_layers_that_do_not_fit_the_chip_cut_the_file() -> None:
    x = source(1, 16384, 1, 16).relu().reshape((1, 16384, 16)).linear(weights(80, 16)).tanh()
    made = af.hwx.emit(x.reshape((1, 16384, 1, 80)).abs(), "m1")
    assert [one.reason[: len("ANE-EMIT-000")] for one in made.refused] == ["ANE-EMIT-007"] * len(made.refused)
    assert [file.inputs for file in made.files] == [("x",)]


def test_layers_without_a_known_program_cut_the_file() -> None:
    x = af.conv(source(*MAP), weights(16, 24, 3, 3), pad=1).relu()
    made = af.hwx.emit(x.max_pool(2).tanh().relu().tanh(), "m1")
    assert not made.whole
    assert [str(one) for one in made.refused] == [
        "t5 (max_pool): ANE-EMIT-001: no program of this operation is known (got max_pool)"
    ]
    assert [(file.inputs, file.outputs) for file in made.files] == [(("x",), ("t2",)), (("t5",), ("y",))]


REFUSED: dict[str, tuple[Callable[[], Tensor], str]] = {
    "sin": (lambda: source(*MAP).sin(), "ANE-EMIT-001: no program of this operation is known"),
    "batch": (lambda: source(2, 3, 4, 5).relu(), "ANE-EMIT-005: no program with a batch or a depth is known"),
    "dilation": (
        lambda: af.conv(source(*MAP), weights(8, 24, 3, 3), dilation=2),
        "ANE-EMIT-002: no program of a dilated convolution is known",
    ),
    "channels": (
        lambda: source(*MAP) * weights(1, 24, 1, 1),
        "ANE-EMIT-011: no program with a number for each channel is known",
    ),
    "scaled table": (
        lambda: source(*MAP).tanh() * 0.3,
        "ANE-EMIT-011: no program that scales this operation before it is rounded is known",
    ),
    "scaled constant": (
        lambda: af.maximum(source(*MAP), 0.5) * 0.3,
        "ANE-EMIT-011: no program that scales an operation with a constant is known",
    ),
    "itself": (
        lambda: af.concat([x := source(*MAP), x], 1),
        "ANE-EMIT-009: no program that joins a constant, or a tensor with itself, is known",
    ),
    "few rows": (
        lambda: source(1, 8, 24) @ source(1, 24, 15, name="y"),
        "ANE-EMIT-008: one of the matrices must have 16 rows",
    ),
    "sum of one row": (
        lambda: source(1, 5, 1, 10).sum(2),
        "ANE-EMIT-006: no program that reduces one element is known (got height)",
    ),
    "softmax of one element": (
        lambda: source(1, 5, 1, 10).softmax(2),
        "ANE-EMIT-006: no program that reduces one element is known (got height)",
    ),
    "softmax with a depth": (lambda: source(1, 3, 1, 4, 5).softmax(1), "ANE-EMIT-005: no softmax of a tensor with"),
    "softmax of depths": (
        lambda: source(1, 3, 1, 4, 5).softmax(2),
        "ANE-EMIT-006: a softmax must be over channels, rows or columns",
    ),
    "batch transpose": (
        lambda: source(3, 4, 5).transpose((1, 0, 2)),
        "ANE-EMIT-005: no program with a batch or a depth is known",
    ),
    "gamma": (
        lambda: source(20, 40).layer_norm(weights(40), weights(40)),
        "ANE-EMIT-011: no program with a number for each column is known",
    ),
    "divided constant": (lambda: 1.0 / source(*MAP), "ANE-EMIT-011: no program that divides by, or into, a constant"),
    "square product": (
        lambda: (x := source(1, 32, 32)) @ x,
        "ANE-EMIT-008: no program of a product by this constant is known",
    ),
    "row": (
        lambda: source(1, 16384, 1, 80).abs().relu(),
        "ANE-EMIT-007: the buffers of a task must fit the memory on chip",
    ),
    "both repeated": (
        lambda: source(1, 24, 1, 1) + source(1, 1, 6, 10, name="y"),
        "ANE-EMIT-011: no program that repeats both tensors is known",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    graph, message = REFUSED[name]
    refused = af.hwx.emit(graph(), "m1").refused
    assert any(message in one.reason for one in refused), refused
    for one in refused:
        assert one.finding(resolve("m1")).rule == one.reason[: len("ANE-EMIT-001")]


def test_a_refusal_names_a_rule() -> None:
    assert RefusedLayer("t1", "sin", "ANE-EMIT-001: unknown").finding(resolve("m1")).remedy.startswith("cut the model")
    with pytest.raises(HwxError, match="a refusal must begin with the id of a rule"):
        RefusedLayer("t1", "sin", "unknown").finding(resolve("m1"))


def test_products_by_parts_of_a_matrix_fill_lines() -> None:
    chains = [constant_product_chain(1, width) for width in (2048, 20_000)]
    assert product_parts(Extent(1, 1, 2048), 300, chains[0], bias=True) == ((0, 224), (224, 76))
    with pytest.raises(HwxError, match="ANE-EMIT-004: 32 outputs of a product must fit the kernel memory"):
        product_parts(Extent(1, 1, 20_000), 64, chains[1], bias=False)


def later_operations() -> dict[str, Tensor]:
    x, z, row = source(*MAP), source(*MAP, name="z"), source(1, 1, 1, MAP[-1], name="row")
    return {
        "sum": x + z,
        "difference": x - z,
        "largest": af.maximum(x, z),
        "times a number": x * 0.3,
        "plus a number": x + 0.7,
        "less a number": x - 1.3,
        "absolute": x.abs(),
        "relu": x.relu(),
        "plane": source(1, 1, 256, 256).relu(),
        "repeated": x * row,
        "repeated first": row + x,
        "sigmoid": x.sigmoid(),
        "rsqrt": x.rsqrt(),
        "leaky relu": x.leaky_relu(0.1),
        "at least": af.maximum(x, 0.25),
    }


LATER = {"h14": {"repeated", "repeated first"}, **dict.fromkeys(("h15", "h16", "h17", "h18"), frozenset[str]())}
"""Targets of later generations, and what is refused there: by h14 for its two tasks."""


@pytest.mark.parametrize("target", LATER)
def test_later_generations_have_a_file_of_one_task_for_an_elementwise_layer(target: str) -> None:
    chance = np.random.default_rng(22)
    for name, graph in later_operations().items():
        made = af.hwx.emit(graph, target)
        if name in LATER[target]:
            assert [one.reason[:12] for one in made.refused] == ["ANE-EMIT-010"], name
            continue
        assert made.whole, name
        read = read_bytes(write_bytes(made.files[0].container))
        given = {
            port.name: (3 * chance.standard_normal(port.shape)).astype(np.float16)
            for port in read.ports
            if port.direction is Direction.INPUT
        }
        expected = np.asarray(af.compile(graph, target=target)(**given), np.float16)
        assert af.hwx.execute(read, given).outputs["y"].tobytes() == expected.tobytes(), name
        (task,) = af.hwx.tasks_of(read)
        assert lint_tasks((task,)) == (), name
        assert read.program.text_words == 4 + task.size
        assert read.words[0] == (target != "h14")
        assert read.program.debug_events == 16 + (target == "h14")


@pytest.mark.parametrize("target", ["h15", "h16", "h17", "h18"])
def test_tables_of_later_generations_are_where_their_files_have_constants(target: str, tmp_path: Path) -> None:
    """The segment's name and base register are those of programs of H16 (hwx-programs, section 1.4)."""
    path = tmp_path / "tanh.hwx"
    path.write_bytes(write_bytes(af.hwx.emit(source(*MAP).tanh(), target).files[0].container))
    container = read_bytes(path.read_bytes())
    own = target != "h15"
    name = "__KERN_0/__kern_0" if own else "__TEXT/__const"
    section = container.constants[name]
    assert bytes(section.content or b"") == table_bytes("tanh")
    assert list(container.constants) == ([name, "__TEXT/__const"] if own else [name])
    (task,) = af.hwx.tasks_of(container)
    slot = task.slot("kernel_source.table_base")
    assert {2 * base.index: base.address for base in container.program.bases}[slot or 0] == section.address
    assert slot == (32 if own else 4)
    assert [one.value for one in container.symbols if one.name.startswith("K")] == [section.address]
    assert container.sections[container.symbols[0].section - 1] == section
    assert not lint(path)
    assert [node.op.name for node in af.load_model(path).nodes] == ["input", "tanh"]


def test_layers_of_later_generations_that_are_several_tasks_are_refused() -> None:
    x, z = source(*MAP), source(*MAP, name="z")
    made = af.hwx.emit((x.abs() - z).softmax(-1).abs(), "h16")
    assert [file.inputs for file in made.files] == [("x",), ("t2", "z"), ("t4",)]
    assert [one.kind for one in made.refused] == ["softmax"]
    refused = {
        (x + z).relu(): "no program of several tasks of the generation is known",
        x + x: "no program of the generation that reads one tensor twice is known",
        1.0 - x: "ANE-EMIT-011",
        source(1, 24, 1, 10, name="row") - x: "no program that repeats this tensor is known",
    }
    for graph, reason in refused.items():
        assert reason in af.hwx.emit(graph, "h16").refused[0].reason


def test_generations_and_layouts_without_programs_are_refused() -> None:
    with pytest.raises(HwxError, match="ANE-EMIT-010: no program of this generation is known"):
        af.hwx.emit(source(1, 8).relu(), "h19")
    with pytest.raises(HwxError, match="ANE-EMIT-010: this layout is known only of generation 7"):
        af.hwx.emit(source(1, 8).relu(), "h17s", style="v5")


def test_weights_must_be_fp16_numbers() -> None:
    with pytest.raises(HwxError, match="ANE-EMIT-012: weights must be fp16 numbers"):
        fp16_values(Dense(np.array([1e6])))
    assert fp16_values(Dense(np.array([0.5]))).dtype == np.float16
    with pytest.raises(HwxError, match="ANE-EMIT-012: no program with compressed constants is known"):
        dense_values("palette")
    assert dense_values(Dense(np.ones(2, np.float16))).tolist() == [1.0, 1.0]


def test_equal_constants_are_kept_once() -> None:
    made = af.hwx.emit(source(*MAP).tanh().relu().tanh(), "m1")
    (section,) = made.files[0].container.constants.values()
    assert section.size == 16 * 128


def test_what_is_not_read_again_is_overwritten() -> None:
    made = emit_compiled(compile_graph(source(1, 8, 8, 8).tanh().gelu().silu().sigmoid(), "m1"))
    assert made.files[0].container.program.live_scratch == 2 * 8 * 8 * 64


def test_steps_of_a_layer_are_planned_without_memory() -> None:
    compiled = compile_graph(source(*MAP).exp(), "m1")
    (layer,) = compiled.program.layers
    places = compiled.plan.places[layer.name]
    assert [step.result.channels for step in steps_of(layer, places)] == [24, 24]
    with pytest.raises(HwxError, match="ANE-EMIT-001: the memory plan has no place for this operation"):
        steps_of(layer, None)


def shifted(place: object) -> object:
    """Return places with every buffer of a chain further on."""
    if isinstance(place, Buffer):
        return replace(place, base=place.base + 0x4000)
    if isinstance(place, tuple):
        return tuple(shifted(one) for one in cast("tuple[object, ...]", place))
    if is_dataclass(place) and not isinstance(place, type):
        return replace(place, **{one.name: shifted(getattr(place, one.name)) for one in fields(place)})
    return place


@pytest.mark.parametrize(
    "name", ["softmax of one row", "layer norm", "sum of channels", "product", "few rows", "columns and channels"]
)
def test_tasks_lie_where_the_plan_puts_them(name: str) -> None:
    compiled = compile_graph(GRAPHS[name](), "m1")
    places = plan(compiled.program, schedule(compiled.program)).places
    (layer,) = compiled.program.layers
    stand = surface_of(Extent(64, 64, 64), 4)
    bases = [
        [
            draft.values["l2.source1_l2_base"]
            for step in steps_of(layer, cast("LayerPlaces", chosen))
            for draft in step.emit([stand] * len(layer.bottoms), stand, ConstantPool(), 0)
        ]
        for chosen in (places[layer.name], shifted(places[layer.name]))
    ]
    assert bases[0]
    assert [after - before for before, after in zip(*bases, strict=True)] == [0x4000] * len(bases[0])


def test_the_emitter_places_nothing_itself(repository: Path) -> None:
    ends = ("_place", "_places", "_chain", "_row", "_rows", "_rows_log2")
    placing = {name for module in (task_chains, work_units) for name in vars(module) if name.endswith(ends)}
    assert {"softmax_chain", "planar_place", "neural_row"} <= placing
    for folder in ("formats/hwx/emission", "runtime/hwx"):
        for path in (repository / "src" / "aneforge" / folder).glob("*.py"):
            if path.stem in {"single_operations", "framed_tasks"}:  # programs of one operation have no plan
                continue
            tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            assert not placing & {node.id for node in tree if isinstance(node, ast.Name)}, path


def test_weights_have_a_symbol_for_each_core_and_a_table_has_one() -> None:
    x = af.conv(source(1, 8, 4, 4), weights(24, 8, 1, 1)).sigmoid()
    container = af.hwx.emit(x, "m1").files[0].container
    names = [one.name for one in container.symbols if one.name.startswith("K")]
    assert names == [*(f"K{0:064x}_ne_{core}" for core in range(16)), f"K{1:064x}"]
    assert len(container.bodies(Segment)[-1].sections[0].relocations) == 32


def test_outputs_without_a_port_of_their_own_are_named() -> None:
    x = source(*MAP)
    y = x.relu()
    made = af.hwx.emit(af.Graph({"a": y, "b": y, "c": x, "d": y * 2.0}), "m1")
    assert (made.files[0].outputs, made.same) == (("a", "d"), {"b": "a", "c": "x"})
    assert made.remarks[0] == "output 'b' has no port of its own: it is 'a'"
    assert "output 'c' has no port of its own: it is 'x'" in str(made)
    assert af.hwx.emit(y, "m1").same == {}
