"""Task descriptors of our own making: what tests and pages read instead of words from other people's files.

The values follow the published rules for single tasks; nothing is copied from a compiled program.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from aneforge.formats.hwx.descriptors.codec import blank_task
from aneforge.formats.hwx.descriptors.layout import Style
from aneforge.formats.hwx.descriptors.task import Record, Task
from hwx_tools import REASON, hwx_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

GENERATIONS = {"h13": 7, "h14": 11, "h15": 8, "h16": 17, "h17": 19, "h18": 20}
"""Generations by the names that oracles give them."""
ROW, PLANE = 0x40, 0x200
"""Strides of a tensor of 64 channels of 8 by 8 elements."""
SURFACE = {"row": ROW, "plane": PLANE, "depth_stride": 64 * PLANE, "group": 64 * PLANE}
L2 = {"channel": 0x10, "row": 0x420, "depth": 0x400, "group": 0x400}
SINGLE: Mapping[str, float] = {
    "header.last": 1,
    "header.log_events": 0x42A,
    "header.debug_log_events": 0xFFF86A,
    "header.spl": 1,
    "header.tsr": 1,
    "header.tse": 1,
    "header.source_in_memory": 1,
    "header.result_in_memory": 1,
    "header.source1_bar": 4,
    "header.source1_bar_enable": 1,
    "header.result_bar": 5,
    "header.result_bar_enable": 1,
}
"""The header of a program of one task."""
GEOMETRY: Mapping[str, float] = {
    **{f"common.{side}_{name}": 8 for side in ("source", "result") for name in ("width", "height")},
    **{f"common.{side}_depth": 1 for side in ("source", "result")},
    **{f"common.{side}_channels": 64 for side in ("source", "result")},
    "common.source1_format": 2,
    "common.result_format": 2,
    **{f"common.kernel_{axis}": 1 for axis in ("width", "height", "depth")},
    **{f"common.{name}_{axis}": 1 for name in ("stride", "origin") for axis in ("x", "y", "z")},
    "common.groups": 1,
    "common.unicast_channels": 1,
    "common.tile_height": 8,
    "common.always": 1,
}
MOVEMENT: Mapping[str, float] = {
    "source.source1_enable": 1,
    "source.source1_interleave": 1,
    "source.source1_memory_format": 2,
    "source.source1_format_mode": 1,
    "source.source1_truncate": 3,
    **{f"source.source1_{name}": value for name, value in SURFACE.items()},
    "l2.source1_type": 2,
    "l2.source1_dma_format": 1,
    "l2.source1_dma_interleave": 1,
    **{f"l2.source1_l2_{name}": value for name, value in L2.items()},
    "l2.result_type": 2,
    "l2.result_streamed": 1,
    "l2.result_dma_format": 1,
    "l2.result_dma_interleave": 1,
    "destination.result_enable": 1,
    "destination.result_buffer_mode": 1,
    "destination.result_cache_hint": 3,
    "destination.result_interleave": 1,
    "destination.result_memory_format": 2,
    "destination.result_format_mode": 1,
    "destination.result_truncate": 3,
    **{f"destination.result_{name}": value for name, value in SURFACE.items()},
}
NEURAL: Mapping[str, float] = {
    "header.neural_cores": 5,
    "common.active_cores_log2": 4,
    "common.info_network_id": 1,
    "ne.post_scale": 1.0,
    "ne.mac_always": 1,
    "ne.palette_bits": 8,
    "ne.binary_point": -4,
    "l2.result_l2_base": 0x2100,
}


def planar_add() -> Task:
    """Return the addition of two tensors of 64 channels of 8 by 8 elements on the planar engine."""
    second = {
        "header.source2_bar": 6,
        "header.source2_bar_enable": 1,
        "common.source2_format": 2,
        "common.source2_by_dma": 1,
        "common.task_type": 3,
        "common.patch_width_log2": 4,
        "common.patch_height_log2": 3,
        **{f"source.source2_{name}": value for name, value in SURFACE.items()},
        "source.source2_memory_format": 2,
        "source.source2_truncate": 3,
        "l2.source2_present": 1,
        "l2.source2_l2_base": 0x2100,
        **{f"l2.source2_l2_{name}": value for name, value in L2.items()},
        "l2.result_l2_base": 0x4200,
        "pe.source2_tensor": 1,
        "pe.scale": 1.0,
        "pe.pre_scale": 1.0,
        "pe.final_scale": 1.0,
    }
    return blank_task(7, "compact").with_fields({**SINGLE, **GEOMETRY, **MOVEMENT, **second})


def convolution() -> Task:
    """Return a convolution of 3 by 3 with bias and relu, 64 to 64 channels of 8 by 8 elements, on sixteen cores."""
    size = 4 * 2 * (64 * 9 + 1)
    stream = -(-size // 64) * 64
    own = {
        "header.kernel_bar": 1,
        "header.kernel_bar_enable": 1,
        "kernel_source.enable": 1,
        "common.kernel_width": 3,
        "common.kernel_height": 3,
        "common.pad_left": 1,
        "common.pad_top": 1,
        "common.lanes_log2": 2,
        "ne.kernel_format": 2,
        "ne.has_bias": 1,
        "ne.nonlinearity": 1,
        **{f"kernel_source.coefficient_enable[{core}]": 1 for core in range(16)},
        **{f"kernel_source.coefficient_base[{core}]": core * stream for core in range(16)},
        **{f"kernel_source.coefficient_size[{core}]": stream for core in range(16)},
    }
    return blank_task(7, "full").with_fields({**SINGLE, **GEOMETRY, **MOVEMENT, **NEURAL, **own})


def copy_task() -> Task:
    """Return a copy of a tensor on the neural engine."""
    own = {"ne.mac_operation": 4, "ne.implicit_ones": 1, "common.unicast": 1}
    return blank_task(7, "compact").with_fields({**SINGLE, **GEOMETRY, **MOVEMENT, **NEURAL, **own})


def framed_add() -> Task:
    """Return the addition of two tensors for a generation of the framed style."""
    records = (
        Record.scattered({0x00: 8 << 16 | 8, 0x0C: 64, 0x10: 64, 0x14: 8 << 16 | 8, 0x2C: 8, 0x30: 0x34, 0x38: 0x33}),
        Record.dense(Style.FRAMED, 0x1100, (0xE21, 0xE20)),
        Record.dense(Style.FRAMED, 0x1118, (ROW, PLANE)),
        Record.dense(Style.FRAMED, 0x1130, (ROW, PLANE)),
        Record.dense(Style.FRAMED, 0x504, (0x1000142, 0, 0x10, 0x420, 0x400, 0x400, 0x2100, 0x10, 0x420, 0x400, 0x400)),
        Record.dense(Style.FRAMED, 0x530, (0x14A, 0x4200)),
        Record.dense(Style.FRAMED, 0x900, (1 << 19,)),
        Record.scattered({0x1500: 1, 0x1510: ROW, 0x1514: PLANE}),
        Record.based(16, 0x1110, (0, 0)),
        Record.based(24, 0x1128, (0, 0)),
        Record.based(20, 0x1508, (0, 0)),
    )
    size = 8 + sum(1 + len(record.values) for record in records)
    return Task(11, (size << 16, 2, 0x2A, 0, 0xFFF868, 0, 0, 1), records)


def linked(*tasks: Task) -> tuple[Task, ...]:
    """Return tasks as the list that a section of the linked style has, each at a multiple of 0x100 bytes."""
    offsets = [0]
    for task in tasks:
        offsets.append(offsets[-1] + -(-4 * task.size // 0x100) * 0x100)
    last = len(tasks) - 1
    return tuple(
        Task(7, task.header, task.records, offsets[place]).with_fields(
            {
                "header.task_id": place,
                "header.later": place > 0,
                "header.last": place == last,
                "header.next_offset": 0 if place == last else offsets[place + 1],
                "header.next_words": 0 if place == last else tasks[place + 1].size - 1,
                "header.next_bar_enable": place < last,
            }
        )
        for place, task in enumerate(tasks)
    )


@dataclass(frozen=True)
class Oracle:
    """A program of Apple's compiler: what it computes, and the words of its tasks."""

    name: str
    generation: int
    tasks: tuple[tuple[int, ...], ...]
    family: str
    params: Mapping[str, Any]
    """The operation with its shapes and attributes."""


def data_folder() -> Path:
    """Return the folder of real programs; skip the test where there is none."""
    folder = hwx_data()
    if folder is None:
        pytest.skip(REASON)
    return folder


def oracles(folder: Path) -> Iterator[Oracle]:
    """Yield the programs of a folder."""
    for path in sorted((folder / "oracles").glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        words: Sequence[Sequence[str]] = found["tds"]
        tasks = tuple(tuple(int(word, 16) for word in one) for one in words)
        yield Oracle(
            path.stem, GENERATIONS[found["generation"]], tasks, found.get("family", ""), found.get("params", {})
        )
