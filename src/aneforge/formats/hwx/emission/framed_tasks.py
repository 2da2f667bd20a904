"""Elementwise tasks of generations 8, 11, 17, 19 and 20, whose records say what they write and leave out defaults.

Geometry, strides and on-chip places follow the rules of generation 7; what differs is where registers are, which are
written, and their constants. The programs that this agrees with were transcribed through the same formulas, so that
agreement shows consistency, not proof. Source: hwx-programs, section 9.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import HwxError
from aneforge.formats.hwx.descriptors.layout import layout_of
from aneforge.formats.hwx.descriptors.task import Record, Task
from aneforge.formats.hwx.emission.activation_tables import TABLE_BYTES
from aneforge.formats.hwx.emission.draft import words_of
from aneforge.formats.hwx.emission.neural_tasks import RELU, TABLE
from aneforge.formats.hwx.emission.planar_tasks import (
    ONE_SOURCE,
    TWO_SOURCES,
    broadcast_mask,
    operator_values,
)
from aneforge.formats.hwx.emission.surfaces import Buffer, Extent, must_fit, surface_of
from aneforge.records import dataclass
from aneforge.targets.task_chains import planar_buffer
from aneforge.targets.work_units import (
    CORES,
    NEURAL_WIDTH,
    UnitRows,
    ceil_log2,
    channel_bytes,
    pass_place,
    patch_log2,
    planar_place,
    second_base,
    tile_rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from aneforge.formats.hwx.descriptors.layout import Layout
    from aneforge.formats.hwx.emission.draft import Values
    from aneforge.formats.hwx.emission.planar_tasks import Operator

__all__ = ["STYLES", "FramedStyle", "build_framed_binary", "build_framed_table", "framed_one_source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedStyle:
    """Constants of a generation, as its programs have them."""

    log_events: int
    source_config: int
    result_config: int
    source_format: int = 0x0100_2031
    result_format: int = 0x0130_2031
    first_slot: int = 24
    """Slot of source 1 in the program descriptor; result and source 2 follow, four apart."""
    table_slot: int = 32
    two_configs: bool = True
    """Each source has an on-chip configuration of its own."""
    second_source_config: int | None = None
    """Configuration of source 2, where it differs."""
    flat: bool = True
    """Width and height are registers of their own, left out where they are 256."""
    configs_by_packet: bool = True
    """DMA configurations are written by packets with the data set's slot."""
    data_sets: bool = False
    """Packets write data sets, and configurations are ordinary registers."""
    base_repeats: int = 1
    """How often the base of source 2 is written."""
    marks_last: bool = True
    cached: bool = True
    """It has the block of the cache's DMA."""
    network_id: int = 1
    wide_numbers: bool = True
    """Bias and scale of the planar engine are registers of fp32."""
    table_in_cores: bool = False
    """Tables are read by the streams of the cores, as in generation 7; others have a stream for them."""
    table_kernel: int | None = 0x10082
    """Configuration of the kernel of a task with a table; None where it is the default."""
    bytes_per_cycle: int
    planes_per_cycle: int = 1 << 30
    """The estimate of time, modelled: bytes and planes of tensors that a cycle moves, fitted on the programs."""


STYLES: Mapping[int, FramedStyle] = {
    11: FramedStyle(
        log_events=0x2A,
        source_config=0xE21,
        second_source_config=0xE20,
        result_config=0x0100_0E31,
        first_slot=16,
        table_slot=4,
        table_in_cores=True,
        table_kernel=None,
        two_configs=False,
        flat=False,
        configs_by_packet=False,
        marks_last=False,
        cached=False,
        wide_numbers=False,
        bytes_per_cycle=34_000,
        planes_per_cycle=935,
    ),
    8: FramedStyle(
        log_events=0x0300_002A,
        source_config=0x21,
        result_config=0x0100_0031,
        table_slot=4,
        flat=False,
        bytes_per_cycle=68_300,
    ),
    17: FramedStyle(log_events=0x0400_0068, source_config=0x21, result_config=0x0100_0031, bytes_per_cycle=68_300),
    19: FramedStyle(
        log_events=0x0400_0068,
        source_config=0x21,
        result_config=0x0100_0021,
        base_repeats=2,
        bytes_per_cycle=55_000,
        planes_per_cycle=565,
    ),
    20: FramedStyle(
        log_events=0x0400_0068,
        source_config=0x21,
        result_config=0x0100_0021,
        source_format=0x3211,
        result_format=0xF000_3211,
        configs_by_packet=False,
        data_sets=True,
        network_id=2,
        bytes_per_cycle=60_000,
        planes_per_cycle=820,
    ),
}
"""Constants by generation of descriptors."""
DATA_SET_SLOT = 16
AUXILIARY = 0xCE
IDLE_KERNEL, TABLE_KERNEL = 0x80, 0x102C0
TABLE_CONFIG = 0x21
SOURCE, NO_SOURCE, TWO_SOURCES_BIT = 0x500172, 0x500130, 1 << 24
RESULT = 0x50017A
CACHE = {0x00: 0x12, 0x04: 0xA000A0, 0x18: 0, 0x28: 0x7F0000, 0x2C: 0x20010701}
"""Words of the cache's block, by offset."""
FILLER = 0xDEAD
"""What tasks of generation 11 write to an unused register, so that address packets begin at an even word (inferred)."""
DEFAULT_SIDE = 256
SPAN = 64
"""Bytes that a scattered record reaches after its first register."""
DEBUG_EVENTS = 0xFFF868


def style_of(generation: int) -> FramedStyle:
    """Return the constants of a generation.

    Raises:
        HwxError: No programs of it are known.
    """
    if generation not in STYLES:
        raise HwxError("ANE-EMIT-010: no program of this generation is known", seen=generation, limit=tuple(STYLES))
    return STYLES[generation]


def build_framed_binary(generation: int, operator: Operator, extent: Extent, second: Extent) -> Task:
    """Return the task of two tensors; a second one that is repeated needs no copy here (inferred for broadcasts)."""
    style, layout = style_of(generation), layout_of(generation)
    buffer, other = (planar_buffer(one.channels, one.width) for one in (extent, second))
    mask = broadcast_mask(extent, second)
    if mask and generation == 11:
        raise HwxError(
            "ANE-EMIT-010: generation 11 copies a repeated tensor onto the chip first, "
            "and no program of it with two tasks is known",
            seen=second,
        )
    place = planar_place(extent.channels, extent.height, extent.width, sources=2)
    base = second_base(buffer.row, extent.height) if mask else place.second
    tile, end = (extent.height, base + other.row * second.height) if mask else (place.tile, place.end)
    values: Values = {
        **planar_common(layout, extent, TWO_SOURCES, tile),
        **({"common.source2_broadcast": mask} if mask else {}),
        **source_registers(style, extent, 1),
        **source_registers(style, second, 2),
        **chip_registers(style, buffer, end, Buffer(base, other.channel, other.row, other.depth, other.group)),
        **operator_values(operator),
        **result_registers(style, extent),
    }
    return build_framed_task(layout, style, values, extent=extent, sources=2)


def framed_one_source(generation: int, extent: Extent, change: Values) -> Task:
    """Return a task of the planar engine with one tensor; `change` names its bias, scale or function."""
    style, layout = style_of(generation), layout_of(generation)
    buffer = planar_buffer(extent.channels, extent.width)
    place = planar_place(extent.channels, extent.height, extent.width)
    if style.wide_numbers:
        change = {name: whole_number(name, value) for name, value in change.items()}
    elif "pe.bias" in change or "pe.scale" in change:
        change = {"pe.scale": 1.0, **change}
    values: Values = {
        **planar_common(layout, extent, ONE_SOURCE, place.tile),
        **source_registers(style, extent, 1),
        **chip_registers(style, buffer, place.end, None),
        **change,
        **result_registers(style, extent),
    }
    return build_framed_task(layout, style, values, extent=extent, sources=1)


def whole_number(name: str, value: float | tuple[int, ...]) -> float | tuple[int, ...]:
    """Return a value as it is: bias and scale of later generations are fp32, rounded to fp16 before."""
    return float(np.float16(value)) if name in {"pe.bias", "pe.scale"} and not isinstance(value, tuple) else value


def planar_common(layout: Layout, extent: Extent, kind: int, tile: int) -> Values:
    """Return geometry and kind of a planar task."""
    across, down = patch_log2(extent.width, extent.height)
    values = geometry(layout, extent, tile)
    always: Values = {"common.always": 1} if layout.generation == 11 else {}
    both: Values = {"common.source2_by_dma": 1} if layout.generation == 11 and kind == TWO_SOURCES else {}
    return {
        "kernel_source.master": IDLE_KERNEL,
        **values,
        "common.patch_width_log2": across,
        "common.patch_height_log2": down,
        "common.task_type": kind,
        **always,
        **both,
        "common.info_network_id": 0,
    }


def geometry(layout: Layout, extent: Extent, tile: int) -> Values:
    """Return the extents of source and result; sides of 256 are left out where they are registers of their own."""
    sides: Values = {
        f"common.{which}_{name}": value
        for which in ("source", "result")
        for name, value in (("width", extent.width), ("height", extent.height))
        if not STYLES[layout.generation].flat or value != DEFAULT_SIDE
    }
    return {
        **sides,
        "common.source_channels": extent.channels,
        "common.result_channels": extent.channels,
        "common.tile_height": tile,
    }


def source_registers(style: FramedStyle, extent: Extent, number: int) -> Values:
    """Return the DMA of a source; strides that nothing uses are left out."""
    surface = surface_of(extent, 0)
    config = style.second_source_config if number == 2 and style.second_source_config else style.source_config
    return {
        **({} if style.configs_by_packet else {f"source.source{number}_config": config}),
        f"source.source{number}_auxiliary": AUXILIARY,
        **({f"source.source{number}_row": surface.row} if extent.height > 1 else {}),
        **({f"source.source{number}_plane": surface.plane} if extent.channels > 1 else {}),
        f"source.source{number}_format": style.source_format,
    }


def result_registers(style: FramedStyle, extent: Extent) -> Values:
    """Return the DMA of a result."""
    surface = surface_of(extent, 0)
    return {
        **({} if style.configs_by_packet else {"destination.result_dma_config": style.result_config}),
        **({"destination.result_row": surface.row} if extent.height > 1 else {}),
        **({"destination.result_plane": surface.plane} if extent.channels > 1 else {}),
        "destination.result_format": style.result_format,
    }


def chip_registers(style: FramedStyle, first: Buffer, result_base: int, second: Buffer | None) -> Values:
    """Return the on-chip places of a task; bases of 0 are left out."""
    if style.two_configs:
        configs: Values = {
            "l2.source1_l2_config": SOURCE,
            "l2.source2_l2_config": SOURCE if second else NO_SOURCE,
        }
    else:
        configs = {"l2.source_config": SOURCE | (TWO_SOURCES_BIT if second else 0)}
    places: Values = {}
    for number, buffer in ((1, first), (2, second)):
        if buffer is not None:
            places |= {f"l2.source{number}_l2_base": buffer.base} if buffer.base else {}
            places |= {
                f"l2.source{number}_l2_channel": buffer.channel,
                f"l2.source{number}_l2_row": buffer.row,
                f"l2.source{number}_l2_depth": buffer.depth,
                f"l2.source{number}_l2_group": buffer.group,
            }
    return {**configs, **places, "l2.result_config": RESULT, "l2.result_l2_base": must_fit(result_base)}


@dataclass(frozen=True, slots=True)
class Split:
    """How a task of the neural cores without weights is shared out."""

    cores: int
    tile: int
    channel: int
    """Bytes of one channel of a row on chip."""
    packed: int
    """Bytes of all channels of a row."""
    row: int
    """Bytes from one row to the next."""
    unit: UnitRows
    units: int = 0
    """Work units of a tile, less one, where rows of one channel are shared out."""


MOST_TILES = 128
LONG_TILE = 1024
PLANE_UNITS = 8
PLANE_WIDTH = 256


def pass_split(extent: Extent) -> Split:
    """Return how generations 8 and 11 share out a task without weights: as generation 7 does (inferred).

    The one convolution of generation 11 that was read has the work unit and the rows of generation 7.
    """
    place = pass_place(extent.channels, extent.height, extent.width)
    cores = min(extent.channels, CORES)
    return Split(cores, place.tile, place.channel, place.packed, place.row, place.unit or UnitRows(0))


def split_of(extent: Extent, *, accumulates: bool) -> Split:
    """Return how a task without weights is shared out on generations 17 and later.

    Channels go to cores. A single plane is cut into tiles of eight work units for all cores, or two halves where those
    would be more than 128 (inferred from ten programs); tasks that need the accumulator take one core.
    """
    if extent.channels > 1:
        return flat_split(extent, min(extent.channels, CORES), extent.height)
    rows = max(0, min(8 - ceil_log2(extent.width), ceil_log2(extent.height)))
    tile = PLANE_UNITS << rows
    if accumulates or extent.height <= tile:
        return flat_split(extent, 1, min(extent.height, LONG_TILE))
    if -(-extent.height // tile) > MOST_TILES:
        return flat_split(extent, 2, LONG_TILE, PLANE_WIDTH, units=1)
    return flat_split(extent, CORES, tile, PLANE_WIDTH, rows, PLANE_UNITS - 1)


def flat_split(
    extent: Extent, cores: int, tile: int, width: int = NEURAL_WIDTH, rows_log2: int = 0, units: int = 0
) -> Split:
    """Return a split whose rows are not padded; so many pixels of a row are on chip at a time."""
    channel = channel_bytes(extent.width, width)
    packed = extent.channels * channel
    return Split(cores, tile, channel, packed, packed, UnitRows(rows_log2), units)


def build_framed_table(generation: int, extent: Extent, *, table: bool, epsilon: float | None = None) -> Task:
    """Return a task of the neural cores that applies a relu or a table; `epsilon` is that of a reciprocal root.

    For generations 8 and 11 it is inferred: their registers and the streams of a convolution of generation 11 were
    read, a program with a table was not.
    """
    style, layout = style_of(generation), layout_of(generation)
    accumulates = epsilon is not None
    split = split_of(extent, accumulates=accumulates) if style.flat else pass_split(extent)
    tile = tile_rows(split.tile, split.row)
    mac = (
        0x10_0000
        | (0x3C if style.flat else 0x1C) << 8
        | (0x8 if accumulates else 0xC)
        | (TABLE if table else RELU) << 16
    )
    active = ceil_log2(split.cores) if extent.channels > 1 else 0
    values: Values = {
        "kernel_source.master": TABLE_KERNEL if table else IDLE_KERNEL,
        **(table_registers(style, split.cores) if table else {}),
        **geometry(layout, extent, tile),
        **unicast_values(layout),
        **config_values(style, active, split),
        "common.lanes": split.units << 3,
        "common.task_info": style.network_id << 20,
        **({"common.dpe_category": 1} if accumulates else {}),
        **source_registers(style, extent, 1),
        **chip_registers(
            style, Buffer(0, split.channel, split.row, split.packed, split.packed), split.row * tile, None
        ),
        **({"ne.kernel_config": style.table_kernel} if table and style.table_kernel is not None else {}),
        "ne.mac_config": mac,
        **({"ne.accumulator_bias": epsilon} if epsilon is not None else {}),
        "ne.post_scale": 1.0,
        **result_registers(style, extent),
    }
    return build_framed_task(layout, style, values, extent=extent, sources=1, cores=split.cores, table=table)


def table_registers(style: FramedStyle, cores: int) -> Values:
    """Return the stream of a table, or those of the cores that all read the same one."""
    if style.table_in_cores:
        return {
            "kernel_source.coefficient_config": (TABLE_CONFIG,) * cores,
            "kernel_source.coefficient_size": (TABLE_BYTES,) * cores,
        }
    return {"kernel_source.table_config": TABLE_CONFIG, "kernel_source.table_size": TABLE_BYTES}


def unicast_values(layout: Layout) -> Values:
    """Return the word by which channels pass one by one."""
    return {
        "common.unicast": 1,
        "common.unicast_channels": 1,
        **({} if STYLES[layout.generation].flat else {"common.groups": 1}),
    }


def config_values(style: FramedStyle, active: int, split: Split) -> Values:
    """Return the word of cores and work units; generations with flat registers leave out a word of 0."""
    unit = split.unit
    word = active << 19 | unit.most << 16 | unit.least << 12 | unit.preferred << 8 | (0 if style.flat else 1)
    return {"common.config": word} if word or not style.flat else {}


BLOCKS = ("kernel_source", "common", "source", "l2", "pe", "ne", "destination")
"""Order of records."""


def build_framed_task(
    layout: Layout,
    style: FramedStyle,
    values: Values,
    *,
    extent: Extent,
    sources: int,
    cores: int = 0,
    table: bool = False,
) -> Task:
    """Return a task that is the only one of its program: records of its registers, then packets of addresses."""
    _, registers = words_of(layout, values)
    records: list[Record] = []
    for name in BLOCKS:
        block = layout.blocks[name]
        own = {at: word for at, word in registers.items() if block.address <= at < block.address + 4 * block.words}
        records += records_of(layout, own)
    records += filler_records(layout, extent, sources)
    if style.cached:
        cache = layout.blocks["cache"].address
        records += records_of(layout, {cache + at: word for at, word in CACHE.items()})
    records += packets(layout, style, sources=sources, table=table)
    tensors = 1 + sources
    moved = tensors * surface_of(extent, 0).depth / style.bytes_per_cycle
    head: Values = {
        "header.execution_cycles": int(moved + tensors * extent.channels / style.planes_per_cycle),
        "header.log_events": style.log_events,
        "header.debug_log_events": DEBUG_EVENTS,
        "header.tsr": 1,
        "header.neural_cores": ceil_log2(cores) + 1 if cores else 0,
        **({"header.last": 1} if style.marks_last else {}),
    }
    size = layout.header_words + sum(1 + len(record.values) for record in records)
    header, _ = words_of(layout, {**head, "header.task_words": size})
    return Task(layout.generation, tuple(header.get(n, 0) for n in range(layout.header_words)), tuple(records), 16)


def filler_records(layout: Layout, extent: Extent, sources: int) -> list[Record]:
    """Return the filling of two-source tasks of generation 11, by which strides are written.

    One for several rows, two for one, none where all strides are defaults.
    """
    if layout.generation != 11 or sources < 2 or (extent.height == 1 and extent.channels == 1):
        return []
    at = layout.place("destination.padding").register.address
    return [Record.dense(layout.style, at, (FILLER,))] * (1 if extent.height > 1 else 2)


def records_of(layout: Layout, registers: Mapping[int, int]) -> list[Record]:
    """Return as few records as write registers of a block, of those as few scattered ones; runs stay whole."""
    parts = parts_of(list(runs_of(sorted(registers))))
    return [record_of(layout, [at for run in part for at in run], registers) for part in parts]


def runs_of(addresses: Sequence[int]) -> Iterator[list[int]]:
    """Yield addresses that follow one another."""
    start = 0
    for place in range(1, len(addresses) + 1):
        if place == len(addresses) or addresses[place] != addresses[place - 1] + 4:
            yield list(addresses[start:place])
            start = place


def parts_of(runs: list[list[int]]) -> list[list[list[int]]]:
    """Return runs in as few parts as scattered records reach."""
    if not runs:
        return []
    choices: list[list[list[list[int]]]] = []
    for count in range(1, len(runs) + 1):
        if count > 1 and runs[count - 1][-1] - runs[0][0] > SPAN:
            break
        choices.append([runs[:count], *parts_of(runs[count:])])
    return min(choices, key=lambda parts: (len(parts), sum(len(part) > 1 for part in parts)))


def record_of(layout: Layout, addresses: Sequence[int], registers: Mapping[int, int]) -> Record:
    """Return the record of some registers."""
    if addresses[-1] - addresses[0] == 4 * (len(addresses) - 1):
        return Record.dense(layout.style, addresses[0], tuple(registers[at] for at in addresses))
    return Record.scattered({at: registers[at] for at in addresses})


def packets(layout: Layout, style: FramedStyle, *, sources: int, table: bool) -> Iterator[Record]:
    """Yield the packets that add the addresses of tensors and data sets."""

    def at(name: str) -> int:
        return layout.place(name).register.address

    first, result, second = (style.first_slot + 4 * place for place in range(3))
    if table:
        base = "kernel_source.kernel_base" if style.table_in_cores else "kernel_source.table_base"
        yield Record.based(style.table_slot, at(base), (0, 0))
    yield Record.based(first, at("source.source1_base"), (0, 0))
    if sources > 1:
        for _ in itertools.repeat(None, style.base_repeats):
            yield Record.based(second, at("source.source2_base"), (0, 0))
    yield Record.based(result, at("destination.result_base"), (0, 0))
    numbers = range(1, sources + 1)
    if style.configs_by_packet:
        for number in numbers:
            yield Record.based(DATA_SET_SLOT, at(f"source.source{number}_enable"), (style.source_config,))
        yield Record.based(DATA_SET_SLOT, at("destination.result_enable"), (style.result_config,))
    if style.data_sets:
        for number in numbers:
            yield Record.based(DATA_SET_SLOT, at(f"source.source{number}_data_set"), (0,))
        yield Record.based(DATA_SET_SLOT, at("destination.result_data_set"), (0,))
