"""Tasks are understood as a whole or refused by name; addresses are checked before anything is read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from aneforge.errors import HwxError
from aneforge.formats.hwx.container import Base, ProgramState
from aneforge.formats.hwx.descriptors.task import Record, Task
from aneforge.formats.hwx.interpreter import neural_work
from aneforge.formats.hwx.interpreter.activation_tables import NO_GRID, NamedOperation, read_table
from aneforge.formats.hwx.interpreter.address_views import View
from aneforge.formats.hwx.interpreter.coefficients import KernelShape, packing_of, sparse_kernel, stream_bytes
from aneforge.formats.hwx.interpreter.walking import Program
from hwx_programs import SHAPE, container_of
from hwx_tasks import convolution, copy_task, linked, planar_add

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from aneforge.formats.hwx.container import Container

PORTS = {"x": SHAPE, "y": SHAPE, "z": SHAPE}
WEIGHTS = bytes(16 * 0x1280)


def steps(task: Task, constants: bytes = WEIGHTS) -> None:
    list(Program(container_of(linked(task), PORTS, constants=constants), np.uint16).steps())


def unary() -> Task:
    """Return a task of one source on the planar engine."""
    return planar_add().with_fields(
        {"common.task_type": 2, "pe.source2_tensor": 0, "common.source2_by_dma": 0, "l2.source2_present": 0}
    )


def table_task() -> Task:
    """Return a copy with an activation table."""
    return convolution().with_fields(
        {
            **{f"common.{name}": 1 for name in ("kernel_width", "kernel_height", "unicast")},
            "common.pad_left": 0,
            "common.pad_top": 0,
            "ne.has_bias": 0,
            "ne.mac_operation": 4,
            "ne.implicit_ones": 1,
            "ne.nonlinearity": 2,
            "common.lanes_log2": 0,
        }
    )


REFUSED: list[tuple[str, Task, Mapping[str, float], str]] = [
    ("compression", copy_task(), {"source.source1_compression": 1}, "source.source1_compression: the effect of this"),
    (
        "scale before",
        planar_add(),
        {"pe.pre_scale": 2.0},
        r"pe.pre_scale: the effect of this value is not known \(got 2, expected the value 1\)",
    ),
    ("skipped", copy_task(), {"header.skip": 1}, "header.skip: the effect of this value is not known"),
    (
        "offset of pixels",
        copy_task(),
        {"source.pixel_offset[2]": 1},
        "source.pixel_offset: the effect of this value is not known",
    ),
    (
        "stream next to those of cores",
        convolution(),
        {"kernel_source.auxiliary_enable[3]": 1},
        "kernel_source.auxiliary_enable: the effect of this value is not known",
    ),
    ("padding", convolution(), {"l2.padding_mode": 1}, "l2.padding_mode: the effect of this value is not known"),
    (
        "shift of products",
        convolution(),
        {"ne.binary_point": 0},
        "ne.binary_point: the effect of this value is not known",
    ),
    (
        "sparse stream of a dense kernel",
        convolution(),
        {"kernel_source.sparse": 1},
        "kernel_source.sparse: the effect of this value is not known",
    ),
    (
        "kernel without a base",
        convolution(),
        {"header.kernel_bar_enable": 0},
        "header.kernel_bar_enable: the effect of this value is not known",
    ),
    (
        "source without a base",
        copy_task(),
        {"header.source1_bar_enable": 0},
        "header.source1_bar_enable: the effect of this value is not known",
    ),
    (
        "second source without a base",
        planar_add(),
        {"header.source2_bar_enable": 0},
        "header.source2_bar_enable: the effect of this value is not known",
    ),
    (
        "result without a base",
        planar_add(),
        {"header.result_bar_enable": 0},
        "header.result_bar_enable: the effect of this value is not known",
    ),
    (
        "source of bytes",
        planar_add(),
        {"source.source2_memory_format": 0},
        "source.source2_memory_format: the effect of this value is not known",
    ),
    (
        "source of raw numbers",
        copy_task(),
        {"source.source1_truncate": 1},
        "source.source1_truncate: the effect of this value is not known",
    ),
    (
        "result of fp32",
        copy_task(),
        {"destination.result_memory_format": 3},
        "destination.result_memory_format: the effect of this value is not known",
    ),
    (
        "bytes on chip",
        copy_task(),
        {"l2.source1_dma_format": 0},
        "l2.source1_dma_format: the effect of this value is not known",
    ),
    ("not a number", planar_add(), {"pe.pre_scale": float("nan")}, "pe.pre_scale: the effect of this value"),
    ("int8 source", copy_task(), {"common.source1_format": 1}, "common.source1_format: only fp16 is understood"),
    ("int8 result", copy_task(), {"common.result_format": 1}, "common.result_format: only fp16 is understood"),
    ("no group", copy_task(), {"common.groups": 0}, "common.groups: a task must have a group"),
    ("no destination", copy_task(), {"destination.result_enable": 0}, "destination.result_enable: the result streams"),
    ("pool", unary(), {"common.task_type": 1}, "common.task_type: the operation is not known"),
    ("transposed", convolution(), {"ne.mac_operation": 5}, "ne.mac_operation: the operation is not known"),
    ("copy extents", copy_task(), {"common.result_width": 4}, "common.result_dimensions: a copy must have the extents"),
    ("copy window", copy_task(), {"common.kernel_width": 3}, "common.kernel_width: the effect of this value"),
    ("int8 kernel", convolution(), {"ne.kernel_format": 1}, "ne.kernel_format: only kernels of fp16"),
    ("no stride", convolution(), {"common.stride_x": 0}, "common.convolution: kernel and strides must be at least 1"),
    (
        "depth",
        convolution(),
        {"common.source_depth": 2, "source.source1_depth_stride": 0, "l2.source1_l2_depth": 0},
        "common.source_depth: only planes are convolved",
    ),
    ("result", convolution(), {"common.result_height": 5}, "common.result_height: the result must have the extent"),
    ("unicast", convolution(), {"common.unicast": 1, "common.unicast_channels": 2}, "every output channel must read"),
    ("cores", convolution(), {"kernel_source.coefficient_enable[0]": 0}, "the cores with weights must be the first"),
    ("no cores", convolution(), {"kernel_source.enable": 0}, "the cores with weights must be the first"),
    ("short", convolution(), {"kernel_source.coefficient_size[3]": 64}, "size\\[3\\]: the stream is shorter"),
    (
        "beyond",
        convolution(),
        {"kernel_source.coefficient_base[2]": 2**20},
        "base\\[2\\]: the stream leaves its section",
    ),
    (
        "no constants",
        convolution(),
        {"header.kernel_bar": 4},
        "header.kernel_bar: the base register points at no const",
    ),
    ("table of weights", convolution(), {"ne.nonlinearity": 2}, "the place of a table next to weights is not known"),
    ("activation", convolution(), {"ne.nonlinearity": 3}, "ne.nonlinearity: the activation is not known"),
    ("table", table_task(), {"kernel_source.coefficient_size[0]": 64}, "the table must have 128 bytes"),
    ("operation", planar_add(), {"pe.planar_operation": 7}, "pe.planar_operation: the operation is not known"),
    ("one source", unary(), {"pe.planar_operation": 1}, "pe.planar_operation: the operation is not known"),
    ("function", unary(), {"pe.post_function": 3}, "pe.post_function: the function is not known"),
    ("kind", unary(), {"common.task_type": 5, "pe.reduce_kind": 1}, "pe.reduce_kind: the kind of reduction"),
    ("pair", planar_add(), {"common.task_type": 6, "pe.planar_operation": 2}, "pe.planar_operation: the operation is"),
    ("apply", planar_add(), {"common.task_type": 4}, "pe.negate_source2: the effect of this value"),
    ("no base", copy_task(), {"header.source1_bar": 9}, "header.source1_bar: the program does not set base register 9"),
    ("no width", copy_task(), {"common.source_width": 0}, "a tensor must have an element along width"),
    ("huge", planar_add(), {"common.source_width": 32767, "common.source_height": 32767}, "too many elements"),
    ("outside", copy_task(), {"source.source1_base": 2**30}, "source.source1_base: the tensor leaves __FVMLIB"),
    ("far", copy_task(), {"source.source1_row": 2**31}, "source.source1_base: the tensor leaves __FVMLIB"),
    (
        "far in L2",
        copy_task(),
        {"l2.result_streamed": 0, "l2.result_l2_row": 2**20},
        "l2.result_l2_base: the tensor leaves",
    ),
]


@pytest.mark.parametrize(("task", "fields", "message"), [pytest.param(*rest, id=name) for name, *rest in REFUSED])
def test_what_has_no_known_effect_is_refused_by_name(task: Task, fields: Mapping[str, float], message: str) -> None:
    steps(task)
    with pytest.raises(HwxError, match=f"^task 0: .*{message}"):
        steps(task.with_fields(fields))


def test_unknown_bits_are_refused_where_they_may_compute_and_doubted_elsewhere() -> None:
    def with_bit(address: int, bit: int) -> Task:
        records = tuple(
            Record(
                one.style,
                one.head,
                tuple(
                    word | bit if at == address else word for at, word in zip(one.addresses, one.values, strict=True)
                ),
            )
            for one in copy_task().records
        )
        return replace(copy_task(), records=records)

    with pytest.raises(HwxError, match=r"task 0: ne\.mac_config: bits are set that no field names \(got 0x200000\)"):
        steps(with_bit(0xC804, 1 << 21))
    program = Program(container_of(linked(with_bit(0x17800, 1 << 22)), PORTS), np.uint16)
    (step,) = program.steps()
    assert step.doubts == ("task 0: destination.result_dma_config has bits that no field names (0x400000)",)


def test_a_task_waits_for_an_earlier_one() -> None:
    flagged = copy_task().with_fields({"header.has_dependent": 1})
    waiting = replace(flagged, header=(*flagged.header, 0))
    program = Program(container_of(linked(copy_task(), waiting), PORTS), np.uint16)
    assert [step.meaning.dependent_task for step in program.steps()] == [None, 0]
    with pytest.raises(
        HwxError, match=r"task 0: header\.dependent_task: the task that is waited for must be an earlier"
    ):
        steps(waiting)


def test_kernels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural_work, "MOST_ELEMENTS", 64 * 64)
    with pytest.raises(HwxError, match=r"task 0: common\.convolution: the kernel has too many weights"):
        steps(convolution())


def changed_program(container: Container, bases: tuple[Base, ...]) -> Container:
    commands = tuple(
        replace(one, body=replace(one.body, bases=bases)) if isinstance(one.body, ProgramState) else one
        for one in container.commands
    )
    return replace(container, commands=commands)


def test_a_base_register_must_point_into_a_section() -> None:
    container = container_of(linked(copy_task()), {"x": SHAPE, "y": SHAPE})
    moved = changed_program(container, (Base(4, 0x10), Base(5, container.ports[1].address)))
    with pytest.raises(HwxError, match=r"task 0: header\.source1_bar: base register 4 points into no section"):
        list(Program(moved, np.uint16).steps())


def test_memory_is_bounded() -> None:
    container = container_of(linked(copy_task()), {"x": SHAPE, "y": SHAPE}, scratch=2**31)
    task = copy_task().with_fields({"header.result_bar": 3})
    with pytest.raises(HwxError, match="the memory of the program is too large"):
        list(Program(container_of(linked(task), {"x": SHAPE, "y": SHAPE}, scratch=2**31), np.uint16).steps())
    assert list(Program(container, np.uint16).steps())  # nothing uses it


def test_views_have_interleaved_channels_and_know_whether_addresses_are_distinct() -> None:
    view = View("s", 0, (1, 6, 1, 1, 3), (0, 24, 0, 0, 8), "r", interleave=4)
    assert view.places().reshape(6, 3).tolist() == [
        [0, 4, 8],
        [1, 5, 9],
        [2, 6, 10],
        [3, 7, 11],
        [12, 16, 20],
        [13, 17, 21],
    ]
    assert view.is_distinct
    assert view.end == 48
    assert not replace(view, strides=(0, 16, 0, 0, 8)).is_distinct
    with pytest.raises(HwxError, match="base and strides must be multiples of 2"):
        replace(view, base=1).checked("somewhere", 100)


def test_packing_gives_every_core_its_tiles_and_every_group_its_block() -> None:
    shape = KernelShape(groups=2, outer=5, inner=2, height=1, width=1, lanes=2, bias=True)
    packing = packing_of(shape, [0, 1000])
    # Two cores of two lanes take four channels, the fifth is alone; a block of 9 halfwords is padded to 64 bytes.
    assert packing.weights[0].tolist() == [[2, 4], [3, 5], [502, 504], [503, 505], [7, 8]]
    assert packing.weights[1, 0].tolist() == [34, 36]
    assert packing.biases is not None
    assert packing.biases[0].tolist() == [0, 1, 500, 501, 6]
    assert stream_bytes(shape, 2) == 64 + 18


def sparse_stream(rows: list[list[int]], bias: list[int]) -> NDArray[np.uint16]:
    """Return a core's kernel without its zeros, by place of the reduction."""
    body = b""
    for row in rows:
        mask = sum(1 << lane for lane, value in enumerate(row) if value)
        body += bytes([0, mask]) + np.array([value for value in row if value], "<u2").tobytes()
    whole = np.array(bias, "<u2").tobytes() + len(body).to_bytes(2, "little") + body
    return np.frombuffer(whole + bytes(-len(whole) % 2), "<u2")


def test_a_sparse_kernel_is_read_with_its_zeros() -> None:
    shape = KernelShape(groups=1, outer=4, inner=2, height=1, width=1, lanes=4, bias=True)
    weights, biases = sparse_kernel(shape, [sparse_stream([[1, 0, 3, 4], [0, 0, 7, 0]], [9, 8, 7, 6])], 0)
    assert weights[0].tolist() == [[1, 0], [0, 0], [3, 7], [4, 0]]
    assert biases is not None
    assert biases[0].tolist() == [9, 8, 7, 6]


def test_a_damaged_sparse_kernel_is_refused() -> None:
    shape = KernelShape(groups=1, outer=4, inner=2, height=1, width=1, lanes=4, bias=False)
    whole = sparse_stream([[1, 2, 3, 4], [5, 6, 7, 8]], [])
    for length in (1, 3, 6):
        with pytest.raises(HwxError, match=r"base\[0\]: the kernel ends within place"):
            sparse_kernel(shape, [whole[:length]], 0)
    with pytest.raises(HwxError, match="the kernel's masks must give the bytes that it states"):
        sparse_kernel(shape, [np.concatenate([[1], whole[1:]]).astype(np.uint16)], 0)
    with pytest.raises(HwxError, match="kernels stored without zeros are known only for 1×1"):
        sparse_kernel(replace(shape, height=3, width=3), [whole], 0)


def table_of(values: Mapping[int, float | int]) -> NDArray[np.uint16]:
    """Return a table: floats at places, and integers as they are."""
    halves = np.zeros(64, np.uint16)
    for place, value in values.items():
        halves[place] = value if isinstance(value, int) else int(np.float16(value).view(np.uint16))
    return halves


def test_tables_of_lines_are_the_operations_that_lines_are() -> None:
    infinite = {0: -np.inf, 1: np.inf, 2: -np.inf, 3: np.inf, 37: 1.0, 39: 1.0, 41: NO_GRID}
    assert read_table(table_of({**infinite, 37: 0.125})).operation == NamedOperation("leaky_relu", {"alpha": 0.125})
    clipped = read_table(table_of({**infinite, 0: 0.5, 2: 0.5}))
    assert clipped.operation == NamedOperation("clip", {"alpha": 0.5, "beta": np.inf})
    assert read_table(table_of({**infinite, 38: 1.0})).operation is None
    assert read_table(table_of({**infinite, 41: 1})).step == 0.5
