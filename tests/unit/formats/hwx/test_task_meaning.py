"""What tasks compute: engine, operation, shapes and places, read from registers of every kind."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.codec import decode_task
from aneforge.formats.hwx.descriptors.layout import Style
from aneforge.formats.hwx.descriptors.meaning import (
    Engine,
    Extents,
    Location,
    Stream,
    Surface,
    TaskOperation,
    meaning,
)
from aneforge.formats.hwx.descriptors.task import Record, Task
from hwx_tasks import convolution, copy_task, data_folder, framed_add, oracles, planar_add

TABLE: Mapping[str, float] = {
    "ne.nonlinearity": 2,
    "header.kernel_bar": 1,
    "kernel_source.enable": 1,
    "kernel_source.coefficient_enable[0]": 1,
}


def planar(**fields: float) -> Task:
    """Return a planar task of one source with fields of the common block and of the planar engine changed."""
    named = {f"{'common' if name.startswith('task_type') else 'pe'}.{name}": value for name, value in fields.items()}
    return planar_add().with_fields({"common.task_type": 2, "pe.source2_tensor": 0, **named})


def test_a_convolution() -> None:
    found = meaning(convolution())
    assert found.engine is Engine.NEURAL
    assert found.operation is TaskOperation.CONVOLUTION
    assert (found.cores, found.tile_height, found.groups, found.patch) == (16, 8, 1, None)
    (source,) = found.sources
    assert source.extents == found.result.extents == Extents(64, 8, 8)
    assert source.memory == Surface(4, 0, 0x40, 0x200, 0x8000, 0x8000, 1)
    assert source.l2 == Location(0, 0x10, 0x420, 0x400, 0x400, 2)
    assert (source.format, found.result.streamed, found.result.l2.base) == ("fp16", True, 0x2100)
    assert found.window is not None
    assert (found.window.width, found.window.pad_top, found.window.unicast) == (3, 1, False)
    kernel = found.kernel
    assert kernel is not None
    assert (kernel.format, kernel.lanes, kernel.bias, kernel.sparse, kernel.runtime) == ("fp16", 4, True, False, False)
    assert kernel.palette_bits is None
    assert kernel.streams[3] == Stream(1, 3 * 0x1240, 0x1240)
    assert found.epilogue is not None
    assert (found.epilogue.nonlinearity, found.epilogue.post_scale, found.epilogue.table) == ("relu", 1.0, None)
    assert str(found) == "NE convolution 3×3, bias, relu: 64×8×8 → 64×8×8; BAR4+0x0, kernel BAR1+0x0 → BAR5+0x0"


def test_an_addition_of_two_generations() -> None:
    old, new = meaning(planar_add()), meaning(framed_add())
    assert str(old) == "PE x + y: 64×8×8 → 64×8×8; BAR4+0x0, BAR6+0x0 → BAR5+0x0"
    assert str(new) == "PE x + y: 64×8×8 → 64×8×8; BAR16+0x0, BAR24+0x0 → BAR20+0x0"
    assert old.patch == new.patch == (16, 8)
    assert old.planar == new.planar
    assert [one.l2 for one in old.sources] == [one.l2 for one in new.sources]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "x"),
        ({"absolute": 1}, "|x|"),
        ({"scale": 0.5}, "x * 0.5"),
        ({"bias": 0.25}, "x + 0.25"),
        ({"negate_source1": 1}, "-x"),
        ({"task_type": 3, "planar_operation": 1}, "x * y"),
        ({"task_type": 3, "planar_operation": 2}, "max(x, y)"),
        ({"task_type": 3, "negate_source2": 1, "scale": 2.0}, "(x - y) * 2"),
        ({"task_type": 3, "planar_operation": 7}, "unknown(x, y)"),
        ({"task_type": 4}, "(x - y[0]) * y[1]"),
        ({"task_type": 5}, "sum(x)"),
        ({"task_type": 5, "reduce_kind": 2}, "max(x)"),
        ({"task_type": 5, "post_function": 1}, "reciprocal(sum(x))"),
        (
            {"task_type": 6, "planar_operation": 4, "negate_source1": 1, "final_scale": 0.125, "post_function": 2},
            "rsqrt(sum((-x + y)²) * 0.125)",
        ),
        ({"task_type": 5, "epsilon": 0.5}, "sum(x) + 0.5"),
        ({"task_type": 1}, "pool"),
        ({"task_type": 9}, "unknown"),
    ],
)
def test_formulas_of_the_planar_engine(fields: Mapping[str, float], text: str) -> None:
    assert meaning(planar(**fields)).formula == text


def test_a_reduction_leaves_one_element_per_channel() -> None:
    found = meaning(planar(task_type=5).with_fields({"common.groups": 8}))
    assert found.result.extents == Extents(64, 1, 1)
    assert found.shapes == "64×8×8 → 64×1×1 in 8 groups"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "copy"),
        ({"ne.nonlinearity": 1}, "copy, relu"),
        ({"ne.nonlinearity": 3}, "copy, unknown"),
        ({"ne.mac_operation": 0, "ne.accumulator_bias": 0.5}, "accumulate, + 0.5"),
        ({"ne.mac_operation": 0, "common.unicast": 0}, "sum of channels"),
        ({"ne.mac_operation": 3}, "maximum of channels"),
        ({"ne.mac_operation": 0, "ne.implicit_ones": 0}, "depthwise convolution"),
        ({"ne.mac_operation": 7}, "unknown"),
        ({"common.task_type": 9}, "unknown"),
        ({"common.stride_x": 2, "common.stride_y": 2}, "copy stride 2×2"),
    ],
)
def test_formulas_of_the_neural_engine(fields: Mapping[str, float], text: str) -> None:
    assert meaning(copy_task().with_fields(fields)).formula == text


def test_a_table_is_the_first_cores_stream_where_no_weights_are_read() -> None:
    fields = {"ne.mac_operation": 4, "ne.implicit_ones": 1, "kernel_source.coefficient_size[0]": 128}
    found = meaning(convolution().with_fields({**TABLE, **fields}))
    alone, with_weights = found.epilogue, meaning(convolution().with_fields(TABLE)).epilogue
    assert found.places == "BAR4+0x0, table BAR1+0x0 → BAR5+0x0"
    assert alone is not None
    assert alone.table == Stream(1, 0, 128)
    assert with_weights is not None
    assert with_weights.table is None


def test_a_table_of_its_own_in_later_generations() -> None:
    records = (
        Record.scattered({0x0C: 1, 0x1C: 1, 0x34: 8, 0x30: 0x14000}),
        Record.dense(Style.FRAMED, 0x4904, (0x20008, 0, 0x11, 0x3C00)),
        Record.dense(Style.FRAMED, 0x5610, (0x21, 128)),
        Record.based(4, 0x5618, (64, 1)),
    )
    found = meaning(Task(17, (0, 0, 0, 0, 0, 0, 0, 0, 0x10009), records))
    assert found.epilogue is not None
    assert found.epilogue.table == Stream(4, 64 + (1 << 32), 128)
    assert found.shapes == "1×256×256 → 1×256×256"
    assert found.sources[0].memory is None


def test_streams_of_later_generations_have_a_common_base() -> None:
    kernel = (
        Record.dense(Style.FRAMED, 0x1900, (0x40,)),
        Record.dense(Style.FRAMED, 0x1918, (1, 1)),
        Record.dense(Style.FRAMED, 0x195C, (0x100,)),
        Record.dense(Style.FRAMED, 0x1998, (0x100, 0x100)),
        Record.based(4, 0x1908, (0x40, 0)),
        Record.dense(Style.FRAMED, 0x1C, (2,)),
        Record.dense(Style.FRAMED, 0xD04, (0, 0, 0, 0x3C00)),
        Record.dense(Style.FRAMED, 0x38, (0x200001,)),
    )
    task = framed_add()
    found = meaning(replace(task, header=(*task.header[:7], 0x50001), records=(*task.records, *kernel))).kernel
    assert found is not None
    assert found.lanes == 4
    assert found.streams[:3] == (Stream(4, 0x40, 0x100), Stream(4, 0x140, 0x100), None)


def test_repeated_axes_transposes_and_places_in_l2() -> None:
    found = meaning(
        planar_add().with_fields(
            {
                "common.source2_broadcast": 3,
                "common.source2_by_dma": 0,
                "common.result_transpose": 1,
                "destination.result_enable": 0,
                "source.source1_dependency": 1,
            }
        )
    )
    second = found.sources[1]
    assert (second.extents, second.repeated) == (Extents(64, 1, 1), frozenset({"width", "height"}))
    assert (second.memory, second.place, found.result.place) == (None, "L2+0x2100", "L2+0x4200")
    assert found.sources[0].dependent
    assert found.result.transposed
    assert found.shapes == "64×8×8, 64×1×1 → 64×8×8 transposed"


def test_a_volume_shows_its_depth() -> None:
    assert str(Extents(64, 8, 8, 2)) == "64×2×8×8"


def test_a_runtime_kernel_names_the_task_that_makes_it() -> None:
    task = convolution().with_fields({"ne.runtime_kernel": 1, "header.has_dependent": 1, "header.kernel_bar": 3})
    found = meaning(decode_task((*task.header, 7, *(w for one in task.records for w in (one.head, *one.values))), 7))
    assert found.dependent_task == 7
    assert "runtime kernel" in found.formula


def test_a_register_that_is_missing_is_named() -> None:
    with pytest.raises(HwxError, match=r"task 0 does not write common\.task_type, and its default is not known"):
        meaning(replace(framed_add(), records=()))


def test_every_task_of_real_programs_is_understood() -> None:
    for oracle in oracles(data_folder()):
        for words in oracle.tasks:
            found = meaning(decode_task(words, oracle.generation))
            assert found.operation is not TaskOperation.UNKNOWN, oracle.name
            assert "unknown" not in str(found), oracle.name
