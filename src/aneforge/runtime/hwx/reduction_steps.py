"""Reductions, softmax and layer norms as steps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.axes import Axis
from aneforge.compiler.memory.task_places import axis_names, reduced_axes
from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.activation_tables import table_bytes
from aneforge.formats.hwx.emission.activation_tasks import table_section
from aneforge.formats.hwx.emission.channel_softmax import (
    Scratch,
    channel_softmax_size,
    channel_softmax_tables,
    channel_softmax_tasks,
    exchange_rows,
)
from aneforge.formats.hwx.emission.normalisation_tasks import layer_norm_tasks, softmax_tasks
from aneforge.formats.hwx.emission.planar_tasks import scalar_task
from aneforge.formats.hwx.emission.reduction_tasks import Reduction, channel_maximum, expect_several, reduction_tasks
from aneforge.formats.hwx.emission.surfaces import Extent, surface_of
from aneforge.runtime.hwx.move_steps import shape_steps
from aneforge.runtime.hwx.step import Step, core_extent, extent_of, get_planned_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.memory.task_places import LayerPlaces
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.runtime.hwx.constant_pool import ConstantPool
    from aneforge.targets.task_chains import Chain
    from aneforge.targets.work_units import TaskPlace


__all__ = ["layer_norm_steps", "reduction_steps", "softmax_steps"]


def reduction_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of a reduction; the least of numbers is the largest of those with their signs turned.

    Where it drops the axes that it reduces, what is left of them is moved into its place, which is inferred.
    """
    extent, axes = extent_of(layer.bottoms[0].type), reduced_axes(layer)
    expect_several(extent, axes)
    reduced = Extent(*(1 if name in axes else getattr(extent, name) for name in ("channels", "height", "width")))
    count = math.prod(getattr(extent, name) for name in axes)
    mean, least = layer.kind.name == "reduce_avg", layer.kind.name == "reduce_min"
    maximum = least or layer.kind.name == "reduce_max"
    reduction = Reduction(maximum=maximum, scale=float(np.float32(1 / count)) if mean else 1.0)
    moved = () if reduced == core_extent(layer) else shape_steps(reduced, core_extent(layer), places)
    chain = get_planned_place(places.reduction)
    reduction_tasks(reduction, extent, chain, surface_of(extent, 0), surface_of(reduced, 0))

    def emit(sources: Sequence[Surface], written: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return reduction_tasks(reduction, extent, chain, sources[0], written)

    step = Step(reduced, emit)
    if not least:
        return step, *moved
    return (
        build_negated_step(extent, get_planned_place(places.negated)),
        step,
        *moved,
        build_negated_step(core_extent(layer), places.planar),
    )


def build_negated_step(extent: Extent, place: TaskPlace) -> Step:
    """Return the step that turns the signs of a tensor."""
    return Step(extent, lambda given, result, _, __: (scalar_task("mul", -1.0, extent, place, given[0], result),))


def softmax_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a softmax: over the width by the planar engine, over channels or rows by the neural cores.

    Raises:
        HwxError: It is over the batch, or its buffers do not fit the chip.
    """
    extent = core_extent(layer)
    along = axis_names(layer.result.rank)[layer.integer("axis")]
    if along in {"batch", "depth"}:
        raise HwxError("ANE-EMIT-006: a softmax must be over channels, rows or columns", seen=layer.integer("axis"))
    chain = get_planned_place(places.chain)
    if along == "width":
        return (width_softmax_step(extent, chain),)
    if layer.result.rank == len(Axis):
        raise HwxError("ANE-EMIT-005: no softmax of a tensor with a depth is known but over the last axis")
    expect_several(extent, frozenset({along}))
    rows = along == "height"
    seen = replace(extent, channels=extent.height, height=extent.channels) if rows else extent
    channel_maximum(seen, chain.tasks[0], surface_of(seen, 0), surface_of(replace(seen, channels=1), 0))

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, room: int) -> tuple[Draft, ...]:
        source, to = (exchange_rows(one) if rows else one for one in (sources[0], result))
        exponential, reciprocal = (pool.add([table]) for table in channel_softmax_tables(seen))
        return channel_softmax_tasks(seen, chain, source, to, Scratch(room), (exponential, reciprocal))

    return (Step(extent, emit, channel_softmax_size(seen)),)


def width_softmax_step(extent: Extent, chain: Chain) -> Step:
    """Return the step of a softmax over the width."""
    softmax_tasks(extent, chain, surface_of(extent, 0), surface_of(extent, 0))

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        place = pool.add([table_section(table_bytes("exp2"), extent.channels)])
        return softmax_tasks(extent, chain, sources[0], result, kernel_at=place)

    return Step(extent, emit)


def layer_norm_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a layer norm over the width of one row.

    Raises:
        HwxError: It has other axes, or gamma and beta, which are tensors of constants.
    """
    extent = core_extent(layer)
    if reduced_axes(layer) - {"height"} != frozenset({"width"}) or extent.height != 1:
        raise HwxError("ANE-EMIT-006: no program that normalises these axes is known", seen=layer.integers("axes"))
    parameters = [name for name in ("gamma", "beta") if layer.operands.get(name) is not None]
    if parameters:
        raise HwxError("ANE-EMIT-011: no program with a number for each column is known", seen=parameters)
    epsilon, chain = layer.number("epsilon"), get_planned_place(places.chain)
    layer_norm_tasks(extent, chain, surface_of(extent, 0), surface_of(extent, 0), epsilon)

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return layer_norm_tasks(extent, chain, sources[0], result, epsilon)

    return (Step(extent, emit),)
