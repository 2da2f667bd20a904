"""Compiled containers are read as graphs: the lifted graph gives the bits that the file's own tasks give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from typer.testing import CliRunner

import aneforge as af
from aneforge.cli import main
from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.activation_tables import table_bytes
from aneforge.formats.hwx.interpreter.lifting import lift
from aneforge.formats.hwx.read_hwx import read
from aneforge.hwx import execute, write
from hwx_oracle_programs import EACH_LATER_PROGRAM, EACH_PROGRAM, program_of
from hwx_programs import SHAPE, container_of
from hwx_tasks import Oracle, convolution, copy_task, linked, planar_add
from hwx_tools import EACH_FIXTURE, fixture_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from aneforge.formats.hwx.container import Container
    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.graph.graph import Graph
    from aneforge.graph.tensor import Tensor

    Array = npt.NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore::aneforge.errors.PrecisionWarning")
"""What compiling warns of is not asked here."""
TWO = {"x": SHAPE, "y": SHAPE}
THREE = {**TWO, "z": SHAPE}
IN_L2 = {
    "destination.result_enable": 0,
    "header.result_bar_enable": 0,
    "l2.result_streamed": 0,
    "l2.result_type": 0,
    "l2.result_l2_channel": 0x10,
    "l2.result_l2_row": 0x420,
}
"""Fields of a task whose result stays in L2."""
FROM_L2 = {"source.source1_enable": 0, "l2.source1_type": 0}


def operations(graph: Graph) -> list[str]:
    """Return the operations of a graph."""
    return [node.op.name for node in graph.nodes if node.op.name != "input"]


def expect_same_bits(container: Container, seeds: range) -> Graph:
    """Return the lifted graph, if the engine gives for it what the container's tasks give."""
    graph = lift(container)
    net = af.compile(graph, target="h13")
    shapes = {str(node.attributes["name"]): node.types[0].shape for node in graph.nodes if node.op.name == "input"}
    for seed in seeds:
        generator = np.random.default_rng(seed)
        scale = (1.0, 2.0**-16, 512.0, 20000.0)[seed % 4]
        inputs = {name: drawn(generator, shape, scale) for name, shape in shapes.items()}
        (wanted,) = execute(container, inputs).outputs.values()
        given = np.asarray(net(*inputs.values())).astype(np.float16)
        assert np.array_equal(given.view(np.uint16), np.ascontiguousarray(wanted).view(np.uint16)), f"seed {seed}"
    return graph


def drawn(generator: np.random.Generator, shape: tuple[int, ...], scale: float) -> Array:
    """Return numbers of a magnitude."""
    return np.clip(generator.standard_normal(shape) * scale, -65504, 65504).astype(np.float16)


@EACH_FIXTURE
def test_a_real_file_becomes_its_graph(name: str) -> None:
    expect_same_bits(read(fixture_path(name)), range(20))


@EACH_PROGRAM
def test_a_program_of_the_compiler_becomes_its_operation(oracle: Oracle) -> None:
    graph = expect_same_bits(program_of(oracle).container, range(1))
    op = str(oracle.params["op"])
    if op == "matmul":
        op = "conv" if oracle.params["constant_y"] else "matmul"
    elif isinstance(oracle.params.get("y"), float):
        op = {"mul": "muls"}.get(op, "clip")
    assert op in operations(graph)


@EACH_LATER_PROGRAM
def test_a_program_of_a_later_generation_becomes_its_operation(oracle: Oracle) -> None:
    lifted = operations(lift(program_of(oracle).container))
    op = str(oracle.params["op"])
    scalar = {"add": "adds", "mul": "muls"}.get(op, "clip")
    assert lifted == [scalar if isinstance(oracle.params.get("y"), float) else op]


def test_tasks_become_operations() -> None:
    assert operations(expect_same_bits(container_of(linked(planar_add()), THREE), range(4))) == ["add"]
    constants = np.random.default_rng(0).standard_normal(16 * 0x1240 // 2).astype(np.float16).tobytes()
    lifted = expect_same_bits(container_of(linked(convolution()), TWO, constants=constants), range(4))
    assert operations(lifted) == ["conv", "relu"]
    assert operations(lift(container_of(linked(copy_task()), TWO))) == ["identity"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"pe.bias": 0.5}, ["adds"]),
        ({"pe.scale": 0.75}, ["muls"]),
        ({"pe.scale": 0.75, "pe.bias": 0.5}, ["linear_activation"]),
        ({"pe.absolute": 1, "pe.relu": 1}, ["abs", "relu"]),
        ({"pe.negate_source1": 1}, ["muls"]),
        ({"pe.post_function": 2, "pe.epsilon": 0.5}, ["rsqrt"]),
        ({"common.task_type": 5, "pe.final_scale": 1 / 64, **IN_L2}, ["reduce_mean"]),
        ({"common.task_type": 5, "pe.reduce_kind": 2, **IN_L2}, ["reduce_max"]),
    ],
)
def test_one_source_becomes_its_operation(fields: Mapping[str, float], expected: list[str]) -> None:
    one = {"common.task_type": 2, "pe.source2_tensor": 0, "common.source2_by_dma": 0, "l2.source2_present": 0}
    task, ports = planar_add().with_fields({**one, **fields}), TWO
    tasks = [task]
    if "common.task_type" in fields:  # a reduction is copied from L2, one element per channel
        small = {
            **FROM_L2,
            "l2.source1_l2_base": 0x4200,
            **{f"common.{side}_{axis}": 1 for side in ("source", "result") for axis in ("width", "height")},
        }
        tasks = [task, copy_task().with_fields({**small, "destination.result_plane": 0x40})]
        ports = {"x": SHAPE, "y": (1, 64, 1, 1)}
    assert operations(expect_same_bits(container_of(linked(*tasks), ports), range(2))) == expected


def half(first: int, base: int) -> Task:
    """Return a copy of 32 channels, from one on, to a place in the result."""
    channels = {f"common.{side}_channels": 32 for side in ("source", "result")}
    places = {"source.source1_base": 0x200 * first, "destination.result_base": base}
    return copy_task().with_fields({**channels, **places})


def test_copies_to_other_addresses_become_slices_concatenations_and_transposes() -> None:
    swapped = expect_same_bits(container_of(linked(half(32, 0), half(0, 32 * 0x200)), TWO), range(1))
    assert operations(swapped) == ["slice_by_index", "slice_by_index", "concat"]
    sliced = expect_same_bits(container_of(linked(half(16, 0)), {"x": SHAPE, "y": (1, 32, 8, 8)}), range(1))
    assert operations(sliced) == ["slice_by_index"]
    turned = copy_task().with_fields({"destination.result_row": 0x1000, "destination.result_plane": 0x40})
    transposed = expect_same_bits(container_of(linked(turned), {"x": SHAPE, "y": (1, 8, 64, 8)}), range(1))
    assert operations(transposed) == ["transpose"]


def table_task(code: int) -> Container:
    """Return a copy through a table that is none of the known ones, with a kind."""
    halves = np.zeros(64, np.uint16)
    halves[[41, 42]] = 1, code
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


def channel_sum() -> Task:
    """Return a sum of all channels whose table reads the accumulator."""
    fields = {
        **{f"common.{name}": 1 for name in ("kernel_width", "kernel_height", "result_channels", "dpe_category")},
        "common.pad_left": 0,
        "common.pad_top": 0,
        "ne.has_bias": 0,
        "ne.implicit_ones": 1,
        "ne.nonlinearity": 2,
        "common.lanes_log2": 0,
    }
    return convolution().with_fields(fields)


def pair(fields: Mapping[str, float]) -> Container:
    return container_of(linked(planar_add().with_fields(fields)), THREE)


def computed_kernel() -> Container:
    """Return a convolution of 3 by 3 whose weights are copied to scratch memory before."""
    wide = {"common.source_width": 32, "common.result_width": 32, "header.result_bar": 3}
    copies = [copy_task().with_fields({**wide, "destination.result_base": place}) for place in (0, 0x8000, 0x10000)]
    last = convolution().with_fields({"ne.runtime_kernel": 1, "ne.has_bias": 0, "header.kernel_bar": 3})
    return container_of(linked(*copies, last), {"x": (1, 64, 8, 32), "y": SHAPE}, scratch=0x20000)


def softmax_of_channels() -> Container:
    """Return a softmax over channels: largest, scaled distance, powers, sum with its reciprocal, product."""
    row = {"l2.result_l2_channel": 0x10, "l2.result_l2_row": 0x10}
    table = {
        **{f"common.{name}": 1 for name in ("kernel_width", "kernel_height", "unicast")},
        "common.pad_left": 0,
        "common.pad_top": 0,
        "ne.has_bias": 0,
        "ne.mac_operation": 4,
        "ne.implicit_ones": 1,
        "ne.nonlinearity": 2,
        "common.lanes_log2": 0,
    }
    one = {"common.result_channels": 1}
    kept = {"l2.source1_type": 1, "l2.source1_l2_base": 0}
    largest = copy_task().with_fields(
        {
            **IN_L2,
            **kept,
            **row,
            **one,
            "ne.mac_operation": 3,
            "common.unicast_channels": 64,
            "l2.result_l2_base": 0x8000,
        }
    )
    pair = {"common.source2_by_dma": 0, "l2.source2_l2_row": 0x10, "common.source2_broadcast": 8}
    exponents = planar_add().with_fields(
        {**FROM_L2, **IN_L2, **pair, "l2.source2_l2_base": 0x8000, "pe.negate_source2": 1, "pe.scale": 1.4423828125}
    )
    powers = convolution().with_fields(
        {**table, **FROM_L2, **IN_L2, "l2.source1_l2_base": 0x4200, "l2.result_l2_base": 0x4200}
    )
    places = {f"kernel_source.coefficient_base[{core}]": 128 for core in range(16)}
    sums = convolution().with_fields(
        {**table, **FROM_L2, **IN_L2, **row, **one, **places, "l2.source1_l2_base": 0x4200, "l2.result_l2_base": 0x9000}
        | {"ne.mac_operation": 0, "common.unicast": 0, "common.dpe_category": 1}
    )
    product = planar_add().with_fields(
        {**FROM_L2, **pair, "l2.source1_l2_base": 0x4200, "l2.source2_l2_base": 0x9000, "pe.planar_operation": 1}
    )
    constants = table_bytes("exp2") + table_bytes("reciprocal") + bytes(0x4000)
    return container_of(linked(largest, exponents, powers, sums, product), TWO, constants=constants)


def test_a_softmax_over_channels_adds_products() -> None:
    assert operations(expect_same_bits(softmax_of_channels(), range(4))) == ["softmax"]


BLOCK = 32 * 8
"""Rows of half of the channels."""


def block(at: int) -> Task:
    """Return a copy of half of the rows and channels of the third port to a place of the second."""
    half = {f"common.{side}_{axis}": size for side in ("source", "result") for axis, size in BLOCK_SIZES.items()}
    return copy_task().with_fields({"header.source1_bar": 6, "destination.result_base": at, **half})


BLOCK_SIZES = {"height": 4, "channels": 32}


REFUSED: dict[str, tuple[Container, str]] = {
    "table": (
        table_task(1),
        "task 0: ne.nonlinearity: a graph has no operation for it: the table is not a known one",
    ),
    "scaled pair": (pair({"pe.scale": 2.0}), "task 0: pe.planar_config: .* a pair is scaled, negated or shifted"),
    "rectified source": (
        container_of(linked(copy_task().with_fields({"l2.input_relu": 1})), TWO),
        "task 0: l2.input_relu: .* a source is rectified",
    ),
    "accumulator": (
        container_of(linked(channel_sum()), {"x": SHAPE, "y": (1, 1, 8, 8)}, constants=bytes(0x4000)),
        "task 0: common.dpe: .* a table reads the accumulator",
    ),
    "sum and reciprocal": (
        container_of(
            linked(
                planar_add().with_fields(
                    {
                        "common.task_type": 5,
                        "pe.source2_tensor": 0,
                        "common.source2_by_dma": 0,
                        "l2.source2_present": 0,
                        "pe.post_function": 1,
                        "destination.result_plane": 0x40,
                    }
                )
            ),
            {"x": SHAPE, "y": (1, 64, 1, 1)},
        ),
        "task 0: pe.post_function: .* a sum is scaled or has a function in one rounding",
    ),
    "pairs added up": (
        container_of(
            linked(planar_add().with_fields({"common.task_type": 6, "destination.result_plane": 0x40})),
            {"x": SHAPE, "y": (1, 64, 1, 1), "z": SHAPE},
        ),
        "task 0: pe.planar_operation: .* a function of two sources is summed",
    ),
    "statistics": (
        pair({"common.task_type": 4, "pe.negate_source2": 1}),
        "task 0: common.task_type: .* statistics are used that are not those of their rows",
    ),
    "computed kernel": (computed_kernel(), "task 3: ne.runtime_kernel: .* a kernel that is computed must be a matrix"),
    "no part": (
        container_of(linked(half(0, 0).with_fields({"source.source1_row": 0x240})), {"x": SHAPE, "y": (1, 32, 8, 8)}),
        "port 'y': no graph can express what the task reads as a part of a tensor",
    ),
    "no pieces": (
        container_of(
            linked(
                copy_task(), half(0, 0x240).with_fields({f"common.{side}_height": 7 for side in ("source", "result")})
            ),
            TWO,
        ),
        "port 'y': the task reads several parts that are not adjacent along any axis",
    ),
    "no axis": (
        container_of(linked(copy_task(), block(0), block(BLOCK * 64 + 4 * 64)), THREE),
        "port 'y': the task reads several tensors that are not adjacent along any axis",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_has_no_operation_for_is_named(name: str) -> None:
    container, message = REFUSED[name]
    with pytest.raises(HwxError, match=message):
        lift(container)


def halved_maximum(x: Tensor) -> Tensor:
    return af.maximum(x, x.relu() * 0.5) * 0.3


def product_of_heads(x: Tensor) -> Tensor:
    return x @ x.transpose((0, 1, 3, 2))


def exponential_of_a_product(x: Tensor) -> Tensor:
    return (x * x.sigmoid()).exp()


def softmax_of_columns(x: Tensor) -> Tensor:
    return x.softmax(-1)


def test_tensors_that_meet_in_rows_and_columns_are_joined_along_both() -> None:
    found = operations(expect_same_bits(container_of(linked(copy_task(), block(0)), THREE), range(2)))
    assert found.count("concat") == 2


@pytest.mark.parametrize(
    ("shape", "made", "expected"),
    [
        ((1, 24, 14, 1), softmax_of_columns, "softmax"),
        ((1, 16, 4, 20), halved_maximum, "muls"),
        ((1, 4, 17, 24), product_of_heads, "matmul"),
        ((1, 16, 4, 20), exponential_of_a_product, "exp"),
    ],
)
def test_what_is_emitted_is_read_as_a_graph_of_the_same_bits(
    shape: tuple[int, ...], made: Callable[[Tensor], Tensor], expected: str
) -> None:
    emitted = af.hwx.emit(made(af.input(shape, name="x")), "h13")
    assert emitted.whole
    assert expected in operations(expect_same_bits(emitted.files[0].container, range(2)))


def test_a_container_that_copies_is_a_call_and_not_nothing(tmp_path: Path) -> None:
    x = af.input((1, 16, 8, 8), name="x")
    file = tmp_path / "copy.hwx"
    write(af.hwx.emit(x.reshape((1, 16, 8, 8)), "h13").files[0].container, file)
    graph = af.load_model(file)
    assert operations(graph) == ["identity"]
    assert af.cost(graph, "m1").dispatch == af.cost(x.relu(), "m1").dispatch
    again = af.hwx.emit(graph, "h13")
    assert again.whole
    assert af.hwx.tasks_of(again.files[0].container) == af.hwx.tasks_of(read(file))


def test_a_container_is_a_model_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "model.hwx"
    write(container_of(linked(planar_add()), THREE), file)
    graph = af.load_model(file)
    assert str(graph.format) == "compiled container"
    assert operations(graph) == ["add"]
    assert {node.location.file for node in graph.nodes if node.location} == {str(file)}
    assert CliRunner().invoke(main.whole_app(), ["check", str(file), "-t", "h13"]).exit_code == 0
    write(container_of(linked(planar_add().with_fields({"common.groups": 0})), THREE), file)
    with pytest.raises(HwxError, match=r"model\.hwx.*task 0: common\.groups: a task must have a group"):
        af.load_model(file)
