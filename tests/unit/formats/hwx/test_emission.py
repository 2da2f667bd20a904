"""What the emitter makes of single operations: golden disassemblies, rules of tasks, refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from aneforge.errors import HwxError, UnknownNameError
from aneforge.formats.hwx.descriptors.codec import decode_task, decode_tasks, encode_tasks
from aneforge.formats.hwx.descriptors.disassembly import disassemble
from aneforge.formats.hwx.descriptors.task_lint import lint_tasks
from aneforge.formats.hwx.emission.draft import build_linked_task
from aneforge.formats.hwx.emission.planar_tasks import broadcast_tasks, scalar_task
from aneforge.formats.hwx.emission.single_operations import Operation, emit_operation
from aneforge.formats.hwx.emission.surfaces import Extent, surface_of
from aneforge.rules.rule import Severity
from aneforge.targets.work_units import pass_place, planar_place
from hwx_tasks import data_folder, oracles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.formats.hwx.descriptors.task import Task
    from golden_text import Golden

SHAPE = [1, 32, 12, 20]


def convolution(**changes: object) -> Operation:
    values: dict[str, object] = {
        "op": "conv",
        "cin": 32,
        "cout": 48,
        "in_hw": (12, 20),
        "out_hw": (12, 20),
        "kernel": (3, 3),
        "pad": "same",
    }
    return Operation(**{**values, **changes})  # pyright: ignore[reportArgumentType]


OPERATIONS = {
    "add": Operation(op="add", x=SHAPE, y=SHAPE),
    "sub": Operation(op="sub", x=SHAPE, y=SHAPE),
    "add a scalar": Operation(op="add", x=SHAPE, y=0.5),
    "sub a scalar": Operation(op="sub", x=SHAPE, y=0.5),
    "maximum of a scalar": Operation(op="maximum", x=SHAPE, y=0.5),
    "channels repeated": Operation(op="mul", x=SHAPE, y=[1, 1, 12, 20]),
    "relu": Operation(op="relu", x=SHAPE),
    "abs": Operation(op="abs", x=SHAPE),
    "tanh": Operation(op="tanh", x=SHAPE),
    "rsqrt": Operation(op="rsqrt", x=SHAPE),
    "convolution": convolution(bias=True),
    "grouped": convolution(groups=2),
    "depthwise": convolution(cout=32, groups=32),
    "stride 2": convolution(kernel=(1, 1), stride=(2, 2), out_hw=(6, 10)),
    "outputs in parts": convolution(cin=1024, cout=256),
    "source larger than the chip": convolution(cin=1024, cout=256, in_hw=(64, 64), out_hw=(64, 64)),
    "sum of columns": Operation(op="reduce_sum", x=SHAPE, axes=[3]),
    "mean of a long row": Operation(op="reduce_mean", x=[1, 8, 1, 256], axes=[-1]),
    "mean of a map": Operation(op="reduce_mean", x=SHAPE, axes=[2, 3]),
    "sum of rows": Operation(op="reduce_sum", x=SHAPE, axes=[2]),
    "sum of channels": Operation(op="reduce_sum", x=[1, 32, 1, 20], axes=[1]),
    "maximum of channels": Operation(op="reduce_max", x=[1, 32, 1, 1], axes=[1]),
    "softmax": Operation(op="softmax", x=SHAPE, axis=-1),
    "softmax of channels": Operation(op="softmax", x=SHAPE, axis=1),
    "softmax of rows": Operation(op="softmax", x=SHAPE, axis=-2),
    "softmax of one row": Operation(op="softmax", x=[1, 32, 1, 20], axis=3),
    "layer_norm": Operation(op="layer_norm", x=[1, 4, 1, 32], axes=[3], epsilon=1e-5),
    "constant product": Operation(op="matmul", x=[4, 64], w=[96, 64], transpose_y=True, constant_y=True),
    "runtime product": Operation(op="matmul", x=[32, 64], w=[64, 128]),
    "channels and rows": Operation(op="transpose", x=SHAPE, perm=[0, 2, 1, 3]),
    "channels and columns of rows": Operation(op="transpose", x=SHAPE, perm=[0, 3, 2, 1]),
    "channels and columns": Operation(op="transpose", x=[1, 64, 96], perm=[0, 2, 1]),
}
LATER = {
    "add": OPERATIONS["add"],
    "repeated": OPERATIONS["channels repeated"],
    "scalar": OPERATIONS["add a scalar"],
    "sub a scalar": OPERATIONS["sub a scalar"],
    "abs": OPERATIONS["abs"],
    "relu": OPERATIONS["relu"],
    "relu of a plane": Operation(op="relu", x=[1, 1, 256, 256]),
    "relu of a large plane": Operation(op="relu", x=[1, 1, 4096, 64]),
    "tanh": OPERATIONS["tanh"],
    "rsqrt": OPERATIONS["rsqrt"],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_programs_keep_the_rules_of_tasks(name: str) -> None:
    tasks = emit_operation(OPERATIONS[name], "h13")
    chained = name in {"source larger than the chip", "softmax of channels", "softmax of rows"}
    assert [one for one in lint_tasks(tasks) if not chained or one.severity is not Severity.WARN] == []
    words = encode_tasks(tasks)
    assert decode_tasks(words, 7, tasks[0].size) == tasks


@pytest.mark.parametrize("target", ["h14", "h15", "h16", "h17", "h18"])
def test_later_generations(target: str) -> None:
    for name, operation in LATER.items():
        if (target, name) == ("h14", "repeated"):
            with pytest.raises(HwxError, match="ANE-EMIT-010: generation 11 copies a repeated tensor onto the chip"):
                emit_operation(operation, target)
            continue
        (task,) = emit_operation(operation, target)
        assert lint_tasks((task,)) == (), name
        assert task.integer("header.task_words") == task.size


SHARED = ("common.tile_height", "common.always", "common.groups", "common.dpe_category", "ne.mac_operation")
AXES = ("channel", "row", "depth", "group")
PLACES = ("ne.accumulator_bias", "ne.kernel_format", "l2.result_l2_base", *(f"l2.source1_l2_{axis}" for axis in AXES))


@pytest.mark.parametrize("name", ["tanh", "rsqrt"])
@pytest.mark.parametrize("channels", [3, 16, 40])
def test_tables_of_generation_11_are_those_of_generation_7_at_other_places(name: str, channels: int) -> None:
    operation = Operation(op=name, x=[1, channels, 9, 20])
    (old,), (new,) = (emit_operation(operation, target) for target in ("h13", "h14"))
    for field in (*SHARED, *PLACES):
        assert new.word(field) == old.word(field), field
    cores = range(min(channels, 16))
    assert [new.integer("kernel_source.coefficient_size", core) for core in cores] == [128 for _ in cores]
    assert new.slot("kernel_source.kernel_base") == 4


def test_streams_of_tables_are_those_of_the_one_convolution_of_generation_11() -> None:
    """The convolution is the only program with streams of that generation; nothing was fitted to it."""
    known = next(one for one in oracles(data_folder()) if one.name == "h14_conv_k3_c64_n64_s8_b0")
    read = decode_task(known.tasks[0], known.generation)
    (made,) = emit_operation(Operation(op="tanh", x=[1, 64, 8, 8]), "h14")
    for field in ("kernel_source.enable", "kernel_source.coefficient_enable", "source.source1_enable"):
        assert made.word(field) == read.word(field), field
    for field in ("kernel_source.kernel_base", "source.source1_base", "destination.result_base"):
        assert made.slot(field) == read.slot(field), field
    for field in ("header.log_events", "header.debug_log_events", "header.tsr", "destination.result_enable"):
        assert made.word(field) == read.word(field), field
    kernel = made.layout.place("ne.kernel_format").register.address
    assert kernel not in {*made.registers, *read.registers}


@pytest.mark.parametrize("name", ["convolution", "softmax", "outputs in parts"])
def test_disassembly(name: str, golden: Golden) -> None:
    golden(disassemble(emit_operation(OPERATIONS[name], "h13")) + "\n")


def test_disassembly_of_a_later_generation(golden: Golden) -> None:
    golden(disassemble(emit_operation(LATER["relu of a plane"], "h17")) + "\n")


REFUSED = {
    "kernel": (convolution(kernel=(5, 5)), "ANE-EMIT-002: no program with a kernel larger than 3x3 is known"),
    "stride": (
        convolution(stride=(3, 3)),
        "ANE-EMIT-003: strided convolutions are known with a stride of two, for 1x1",
    ),
    "sparse": (
        convolution(stride=(2, 2)),
        "ANE-EMIT-003: strided convolutions are known with a stride of two, for 1x1",
    ),
    "groups": (
        convolution(cin=8192, cout=64, groups=2),
        "ANE-EMIT-004: a kernel of groups must fit the kernel memory",
    ),
    "outputs": (convolution(cin=8192, cout=24), "ANE-EMIT-004: an output of each core must fit the kernel memory"),
    "runtime kernel": (Operation(op="matmul", x=[128, 4200], w=[4200, 8]), "ANE-EMIT-008: a runtime kernel must fit"),
    "operation": (Operation(op="sin", x=SHAPE), "ANE-EMIT-001: no program of this operation is known"),
    "no operand": (Operation(op="add", x=SHAPE), "the operation needs a second operand"),
    "batch": (Operation(op="relu", x=[2, 3, 4, 5]), "ANE-EMIT-005: no program with a batch is known"),
    "softmax": (
        Operation(op="softmax", x=SHAPE, axis=0),
        "ANE-EMIT-006: a softmax must be over channels, rows or columns",
    ),
    "normalised axis": (
        Operation(op="layer_norm", x=SHAPE, axes=[1]),
        "ANE-EMIT-006: a layer normalisation must be over the last axis",
    ),
    "rows": (
        Operation(op="layer_norm", x=SHAPE, axes=[3]),
        "ANE-EMIT-006: no program that normalises several rows is known",
    ),
    "large": (
        Operation(op="softmax", x=[1, 512, 64, 64], axis=3),
        "ANE-EMIT-007: the buffers of a task must fit the memory on chip",
    ),
    "rows on chip": (
        Operation(op="reduce_sum", x=[1, 15, 1024, 375], axes=[1]),
        "ANE-EMIT-007: the buffers of a task must fit the memory on chip",
    ),
    "many channels": (
        Operation(op="reduce_sum", x=[1, 4096, 64, 1], axes=[1, 2]),
        "ANE-EMIT-007: the extents of a task must fit their registers",
    ),
    "addresses": (Operation(op="relu", x=[1, 65536, 512, 64]), "ANE-EMIT-014: a tensor must fit the addresses"),
    "runtime rows": (Operation(op="matmul", x=[24, 8], w=[8, 8]), "ANE-EMIT-008: the rows of a runtime kernel must be"),
    "transposed": (
        Operation(op="matmul", x=[32, 8], w=[8, 8], transpose_y=True),
        "ANE-EMIT-008: the second matrix of a runtime product must not be transposed",
    ),
    "transpose": (Operation(op="transpose", x=SHAPE, perm=[0, 1, 3, 2]), "ANE-EMIT-009: no program of this transpose"),
    "product in parts": (
        Operation(op="matmul", x=[1, 4096], w=[1024, 4096], transpose_y=True, constant_y=True),
        "ANE-EMIT-004: a product by a constant must fit the kernel memory of one task",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    operation, message = REFUSED[name]
    with pytest.raises(HwxError, match=message):
        emit_operation(operation, "h13")


@pytest.mark.parametrize("target", ["h13", "h14", "h15", "h16", "h17", "h18"])
@pytest.mark.parametrize("shape", [[1, 64, 256, 256], [1, 256, 64, 64], [1, 40000, 1, 40]])
@pytest.mark.parametrize("operation", ["add", "abs", "relu", "softmax", "reduce_sum"])
def test_maps_that_are_larger_than_the_chip_are_cut_or_refused_by_a_rule(
    operation: str, shape: list[int], target: str
) -> None:
    given = Operation(op=operation, x=shape, y=shape if operation == "add" else None, axis=1, axes=[1])
    tasks, refusal = tasks_or_refusal(given, target)
    assert bool(tasks) is not refusal.startswith("ANE-EMIT-")
    assert all((task.integer("common.tile_height") or 0) < shape[2] for task in tasks if shape[2] > 1)


def tasks_or_refusal(operation: Operation, target: str) -> tuple[Sequence[Task], str]:
    try:
        return emit_operation(operation, target), ""
    except HwxError as error:
        return (), str(error)


def test_what_later_generations_refuse() -> None:
    with pytest.raises(HwxError, match="ANE-EMIT-010: no program of this operation is known for the generation"):
        emit_operation(OPERATIONS["convolution"], "h16")
    with pytest.raises(UnknownNameError, match="unknown target with known task descriptors 'h99'"):
        emit_operation(OPERATIONS["add"], "h99")


def test_shapes_that_do_not_broadcast() -> None:
    whole, part = Extent(4, 8, 8), Extent(4, 3, 8)
    places = pass_place(4, 3, 8), planar_place(4, 8, 8)
    with pytest.raises(HwxError, match="the height of a repeated tensor must be 1 or that of the other"):
        broadcast_tasks("add", whole, part, places, (surface_of(whole, 4), surface_of(part, 6), surface_of(whole, 5)))


def test_a_scalar_operation_without_a_program() -> None:
    extent = Extent(4, 8, 8)
    with pytest.raises(HwxError, match="ANE-EMIT-001: no program of this operation with a scalar is known"):
        scalar_task("maximum", 1.0, extent, planar_place(4, 8, 8), surface_of(extent, 4), surface_of(extent, 5))


def test_registers_that_a_form_does_not_write() -> None:
    with pytest.raises(HwxError, match="form 'compact' does not write kernel_source"):
        build_linked_task(7, "compact", {"kernel_source.coefficient_base": (0,)})
