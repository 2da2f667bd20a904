"""Layers that only move elements as steps: transposes, views, joins and parts."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import dram_layout, same_places
from aneforge.compiler.memory.task_places import axis_names
from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.move_tasks import (
    copy_task,
    exchange_channels_and_rows,
    exchange_channels_and_width,
)
from aneforge.formats.hwx.emission.surfaces import LINE, Extent, surface_of
from aneforge.runtime.hwx.step import (
    Step,
    core_extent,
    extent_of,
    get_planned_place,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.memory.spreading import Spreading, SpreadRows
    from aneforge.compiler.memory.task_places import Exchange, LayerPlaces
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.runtime.hwx.constant_pool import ConstantPool


__all__ = [
    "build_move_steps",
    "concat_steps",
    "exchange_step",
    "is_view",
    "shape_steps",
    "slice_steps",
    "transpose_steps",
    "view_steps",
]


def is_view(layer: Layer) -> bool:
    """Return whether a layer leaves every element where it is."""
    if layer.kind.name not in {"reshape", "flatten", "identity"} or layer.epilogue:
        return False
    (source,) = layer.bottoms
    return same_places(dram_layout(source.type), dram_layout(layer.result.type))


def transpose_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of a transpose that is a layer of its own."""
    extent = extent_of(layer.bottoms[0].type)
    return build_move_steps(extent, core_extent(layer), layer.integers("perm"), places.exchanges)


def build_move_steps(
    extent: Extent, result: Extent, order: Sequence[int], exchanges: Sequence[Exchange]
) -> tuple[Step, ...]:
    """Return the steps of a transpose: exchanges of channels with rows, and of channels with columns.

    Raises:
        HwxError: It moves the batch.
    """
    steps = exchange_steps(extent, exchanges)
    if not steps or steps[-1].result != result:
        raise HwxError("ANE-EMIT-009: no program of this transpose is known", seen=tuple(order))
    return steps


def exchange_steps(extent: Extent, exchanges: Sequence[Exchange]) -> tuple[Step, ...]:
    """Return the steps that exchange channels with other axes, one after the other, in the places of the plan."""
    steps: list[Step] = []
    for exchange in exchanges:
        steps.append(exchange_step(extent, exchange))
        extent = steps[-1].result
    return tuple(steps)


def exchange_step(extent: Extent, exchange: Exchange) -> Step:
    """Return the step that exchanges channels with rows or columns."""
    if exchange.with_rows is not None:
        turned = replace(extent, channels=extent.height, height=extent.channels)
        place = exchange.with_rows
        return Step(turned, lambda given, to, _, __: (exchange_channels_and_rows(extent, place, given[0], to),))
    chain = get_planned_place(exchange.with_columns)
    turned = replace(extent, channels=extent.width, width=extent.channels)
    exchange_channels_and_width(extent, chain, surface_of(extent, 0), surface_of(turned, 0))
    return Step(turned, lambda given, to, _, __: (exchange_channels_and_width(extent, chain, given[0], to),))


def view_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of a layer that changes only the shape, or nothing."""
    return shape_steps(extent_of(layer.bottoms[0].type), core_extent(layer), places)


def shape_steps(extent: Extent, result: Extent, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps that give a tensor another shape: only a copy where its elements stay where they are."""
    if places.exchanges:
        return exchange_steps(extent, places.exchanges)
    if places.spreading is not None:
        return spreading_steps(extent, result, places.spreading)
    return (Step(result, lambda given, to, _, __: (copy_task(result, places.neural, view(given[0], to), to),)),)


def spreading_steps(source: Extent, result: Extent, places: Spreading) -> tuple[Step, ...]:
    """Return the steps that put each element into a line of its own, and then lines into rows of another width.

    Rows of all channels are rows of one; columns become channels, which follow one another by lines, and the other way
    round (inferred: programs with such copies are known, none that changes a shape by them).
    """

    def spread(sources: Sequence[Surface], to: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return tuple(
            exchange_channels_and_width(
                Extent(1, part.rows, source.width),
                part.chain,
                some_rows(given, part, given.row),
                lines_of(to, part, source.width),
            )
            for given, parts in zip(sources, places.apart, strict=True)
            for part in parts
        )

    lines = Extent(1, source.channels * source.height * source.width, 1)
    apart = (Step(lines if places.together else result, spread),) if places.apart else ()
    return (*apart, *((gathering_step(result, places, result.width),) if places.together else ()))


def gathering_step(result: Extent, places: Spreading, width: int, first: int = 0) -> Step:
    """Return the step that makes rows of lines: of so many that rows have there, those from a first one on."""

    def gather(sources: Sequence[Surface], to: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        (given,) = sources
        return tuple(
            exchange_channels_and_width(
                Extent(result.width, part.rows, 1),
                part.chain,
                lines_of(given.at(given.base + LINE * first), part, width),
                some_rows(to, part, to.row),
            )
            for part in places.together
        )

    return Step(result, gather)


def joining_steps(widths: Sequence[int], result: Extent, places: Spreading) -> tuple[Step, ...]:
    """Return the steps that join tensors along the columns, line by line (inferred, as `spreading_steps` says)."""
    starts = list(itertools.accumulate(widths, initial=0))[:-1]

    def spread(sources: Sequence[Surface], to: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return tuple(
            exchange_channels_and_width(
                Extent(1, part.rows, width),
                part.chain,
                some_rows(given, part, given.row),
                lines_of(to.at(to.base + LINE * start), part, result.width),
            )
            for given, parts, width, start in zip(sources, places.apart, widths, starts, strict=True)
            for part in parts
        )

    lines = Extent(1, result.channels * result.height * result.width, 1)
    return Step(lines, spread), gathering_step(result, places, result.width)


def cutting_steps(source: Extent, begin: tuple[int, int, int], result: Extent, places: Spreading) -> tuple[Step, ...]:
    """Return the steps that cut a part of a tensor within lines of memory (inferred, as `spreading_steps` says).

    Rows of several channels follow one another only where no row is left out.
    """
    whole = result.height == source.height
    runs = 1 if whole else result.channels

    def spread(sources: Sequence[Surface], to: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        (given,), (parts,) = sources, places.apart
        first = given.base + begin[0] * given.plane + begin[1] * given.row
        return tuple(
            exchange_channels_and_width(
                Extent(1, part.rows, source.width),
                part.chain,
                some_rows(given.at(first + run * given.plane), part, given.row),
                lines_of(to.at(to.base + run * result.height * source.width * LINE), part, source.width),
            )
            for run in range(runs)
            for part in parts
        )

    lines = Extent(1, result.channels * result.height * source.width, 1)
    return Step(lines, spread), gathering_step(result, places, source.width, begin[2])


def some_rows(surface: Surface, part: SpreadRows, row: int) -> Surface:
    """Return some of the rows of all channels, as rows of one."""
    return replace(surface, base=surface.base + part.first * row, plane=part.rows * row)


def lines_of(surface: Surface, part: SpreadRows, width: int) -> Surface:
    """Return the lines of the elements of some rows: columns are channels."""
    row = LINE * width
    return replace(surface, base=surface.base + part.first * row, row=row, plane=LINE)


def view(source: Surface, shape: Surface) -> Surface:
    """Return the memory of a surface with the strides of another, whose elements are in the same places."""
    return replace(source, row=shape.row, plane=shape.plane, depth=shape.depth, group=shape.group)


def concat_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step that copies tensors one after the other, or the steps where one begins within a line of memory.

    Raises:
        HwxError: They are constant, joined along a different axis than channels, rows and columns, or interleaved.
    """
    values = layer.operands["values"]
    axis = layer.integer("axis") % layer.result.rank - layer.result.rank
    if layer.flag("interleave") or axis_names(layer.result.rank)[axis] in {"batch", "depth"}:
        raise HwxError("ANE-EMIT-009: tensors must be joined along channels, rows or columns", seen=axis)
    parts = [one for one in values if isinstance(one, Value)] if isinstance(values, tuple) else []
    if not isinstance(values, tuple) or len(parts) != len(values) or len(set(parts)) != len(parts):
        raise HwxError("ANE-EMIT-009: no program that joins a constant, or a tensor with itself, is known")
    extents, along = [extent_of(one.type) for one in parts], axis_names(layer.result.rank)[axis]
    starts = list(itertools.accumulate((getattr(one, along) for one in extents), initial=0))[:-1]
    if places.spreading is not None:
        return joining_steps([one.width for one in extents], core_extent(layer), places.spreading)

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        stride = {"channels": result.plane, "height": result.row, "width": 2}[along]
        return tuple(
            copy_task(extent, place, source, result.at(result.base + start * stride))
            for extent, place, source, start in zip(extents, places.sources, sources, starts, strict=True)
        )

    return (Step(core_extent(layer), emit),)


def slice_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step that copies a part of a tensor, or the steps where it begins within a line of memory."""
    channel, row, column = (0, 0, 0, *layer.integers("begin"))[-3:]
    if "height" not in axis_names(layer.bottoms[0].rank):
        channel, row = row, 0
    extent = core_extent(layer)
    if places.spreading is not None:
        return cutting_steps(extent_of(layer.bottoms[0].type), (channel, row, column), extent, places.spreading)

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        (source,) = sources
        offset = channel * source.plane + row * source.row + 2 * column
        return (copy_task(extent, places.neural, source.at(source.base + offset), result),)

    return (Step(extent, emit),)
