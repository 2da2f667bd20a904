"""Windows: on-chip room through which operands and results in DRAM stream while a layer runs.

A window holds two tiles, or the whole tensor where that is less. When the windows of one step do not fit into the share
of the memory that streams have, the largest are cut to whole rows, and to parts of a row if they must.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import extents_of, on_chip_layout
from aneforge.compiler.memory.plan import RESULT, Window
from aneforge.compiler.schedule.tiles import DOUBLE, row_window, tiling_of
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from aneforge.compiler.ir.layer import Layer, Ref
    from aneforge.compiler.memory.chip import OnChip
    from aneforge.compiler.schedule.rules import Rules
    from aneforge.compiler.schedule.tiles import Tiling
    from aneforge.ops.types import TensorType

__all__ = ["windows_of_step"]


@dataclass(frozen=True, slots=True)
class Stream:
    """A tensor that streams while a layer runs, and the room that it would like."""

    layer: str
    operand: str
    value: str
    wanted: int
    row: int
    """Bytes of one row of all channels."""


def windows_of_step(
    step: int, layers: Sequence[Layer], streams_at: Callable[[Layer, str], bool], memory: OnChip, rules: Rules
) -> list[Window]:
    """Return the windows of the layers of one step; `streams_at` says whether a tensor streams while a layer runs."""
    streams = [one for layer in layers for one in streams_of(layer, streams_at, memory, rules)]
    sizes = share_out([one.wanted for one in streams], memory.window_bytes)
    offset = memory.windows
    found: list[Window] = []
    for one, room in zip(streams, sizes, strict=True):
        granule = one.row if room >= one.row else memory.banks.width
        size = one.wanted if room >= one.wanted else max(room // granule * granule, memory.banks.width)
        found.append(Window(one.layer, one.operand, one.value, offset, size, size // one.row, step))
        offset += size
    return found


def streams_of(
    layer: Layer, streams_at: Callable[[Layer, str], bool], memory: OnChip, rules: Rules
) -> Iterator[Stream]:
    """Iterate over what streams while a layer runs; parts of a list are copied in turn, through one window."""
    operands: list[tuple[str, list[Ref]]] = []
    for name, argument in layer.operands.items():
        refs = argument if isinstance(argument, tuple) else (argument,)
        operands.append((name, [ref for ref in refs if streams(layer, ref, streams_at, rules)]))
    written = [result for result in layer.results if streams_at(layer, result.name)]
    if not written and not any(refs for _, refs in operands):
        return
    tiling = tiling_of(layer, memory, rules)
    for name, refs in operands:
        if refs:
            found = [operand_stream(layer, name, ref, tiling, memory, rules) for ref in refs]
            yield max(found, key=lambda one: one.wanted)
    for result in written:
        yield stream(layer, RESULT, result.name, result.type, DOUBLE * tiling.rows or None, memory)


def streams(layer: Layer, ref: Ref, streams_at: Callable[[Layer, str], bool], rules: Rules) -> bool:
    """Return whether an operand streams: a value in DRAM, or a constant of more than one number for each channel."""
    if isinstance(ref, Value):
        return streams_at(layer, ref.name)
    whole = ref.type.size > extents_of(layer.core_types[0].shape).channels
    return layer.kind.name == "concat" or (layer.kind.name in rules.pointwise_kinds and whole)


def operand_stream(layer: Layer, name: str, ref: Ref, tiling: Tiling, memory: OnChip, rules: Rules) -> Stream:
    """Return the stream of an operand."""
    if not isinstance(ref, Value):
        return stream(layer, name, f"@{layer.name}.{name}", ref.type, None, memory)
    window = row_window(layer, name, ref, rules)
    rows = DOUBLE * window.rows_needed(tiling.rows) if window is not None and tiling.rows else None
    return stream(layer, name, ref.name, ref.type, rows, memory)


def stream(layer: Layer, operand: str, value: str, tensor: TensorType, rows: int | None, memory: OnChip) -> Stream:
    """Return a stream that wants a number of rows, or all."""
    extents = extents_of(tensor.shape)
    whole = on_chip_layout(tensor, memory.banks).size
    row = on_chip_layout(tensor, memory.banks, rows=1).size
    every = rows is None or rows >= extents.rows * extents.depth * extents.batch
    wanted = whole if every else on_chip_layout(tensor, memory.banks, rows=rows).size
    return Stream(layer.name, operand, value, min(wanted, whole), row)


def share_out(wanted: Sequence[int], room: int) -> list[int]:
    """Share room out: who wants less than an equal share gets it, the rest is for the others.

    >>> share_out([10, 100, 100], 90)
    [10, 40, 40]
    """
    given = [0] * len(wanted)
    left = room
    by_size = sorted(range(len(wanted)), key=lambda place: (wanted[place], place))
    for count, place in zip(range(len(wanted), 0, -1), by_size, strict=True):
        given[place] = min(wanted[place], left // count)
        left -= given[place]
    return given
