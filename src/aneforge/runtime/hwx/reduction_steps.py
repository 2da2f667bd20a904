"""Reductions, softmax and layer norms as steps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.activation_tables import table_bytes
from aneforge.formats.hwx.emission.activation_tasks import table_section
from aneforge.formats.hwx.emission.normalisation_tasks import layer_norm_tasks, softmax_tasks
from aneforge.formats.hwx.emission.planar_tasks import (
    scalar_task,
)
from aneforge.formats.hwx.emission.reduction_tasks import Reduction, channel_maximum, reduction_tasks
from aneforge.formats.hwx.emission.surfaces import Extent, surface_of
from aneforge.runtime.hwx.composed_steps import (
    Scratch,
    channel_softmax_size,
    channel_softmax_tasks,
)
from aneforge.runtime.hwx.step import (
    AXES_BY_RANK,
    Step,
    axes_of,
    core_extent,
    extent_of,
)
from aneforge.targets.work_units import planar_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.compiler.ir.layer import Layer
    from aneforge.compiler.memory.task_places import LayerPlaces
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.runtime.hwx.constant_pool import ConstantPool


__all__ = ["layer_norm_steps", "reduction_steps", "softmax_steps"]


def reduction_steps(layer: Layer, _: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of a reduction; the least of numbers is the largest of those with their signs turned."""
    extent, axes = extent_of(layer.bottoms[0].type), axes_of(layer)
    reduced = Extent(*(1 if name in axes else getattr(extent, name) for name in ("channels", "height", "width")))
    count = math.prod(getattr(extent, name) for name in axes)
    mean, least = layer.kind.name == "reduce_avg", layer.kind.name == "reduce_min"
    maximum = least or layer.kind.name == "reduce_max"
    reduction = Reduction(maximum=maximum, scale=float(np.float32(1 / count)) if mean else 1.0)
    result = core_extent(layer)
    if reduced != result:
        raise HwxError("ANE-EMIT-006: no program that drops the axes it reduces is known", seen=layer.result.shape)
    reduction_tasks(reduction, extent, axes, surface_of(extent, 0), surface_of(reduced, 0))

    def emit(sources: Sequence[Surface], written: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return reduction_tasks(reduction, extent, axes, sources[0], written)

    step = Step(reduced, emit)
    return (negated_step(extent), step, negated_step(reduced)) if least else (step,)


def negated_step(extent: Extent) -> Step:
    """Return the step that turns the signs of a tensor."""
    place = planar_place(extent.channels, extent.height, extent.width)
    return Step(extent, lambda given, result, _, __: (scalar_task("mul", -1.0, extent, place, given[0], result),))


def softmax_steps(layer: Layer, _: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a softmax: over the width by the planar engine, over channels or rows by the neural cores.

    Raises:
        HwxError: It is over the batch, or its buffers do not fit the chip.
    """
    extent = core_extent(layer)
    along = AXES_BY_RANK[layer.result.rank][layer.integer("axis")]
    if along == "width":
        return (width_softmax_step(extent),)
    if along == "batch":
        raise HwxError("ANE-EMIT-006: a softmax must be over channels, rows or columns", seen=layer.integer("axis"))
    rows = along == "height"
    seen = replace(extent, channels=extent.height, height=extent.channels) if rows else extent
    channel_maximum(seen, surface_of(seen, 0), surface_of(replace(seen, channels=1), 0))

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, room: int) -> tuple[Draft, ...]:
        given = (sources[0], result)
        source, to = (replace(one, row=one.plane, plane=one.row) if rows else one for one in given)
        return channel_softmax_tasks(seen, source, to, pool, Scratch(room))

    return (Step(extent, emit, channel_softmax_size(seen)),)


def width_softmax_step(extent: Extent) -> Step:
    """Return the step of a softmax over the width."""
    softmax_tasks(extent, surface_of(extent, 0), surface_of(extent, 0))

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        place = pool.add([table_section(table_bytes("exp2"), extent.channels)])
        return softmax_tasks(extent, sources[0], result, kernel_at=place)

    return Step(extent, emit)


def layer_norm_steps(layer: Layer, _: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a layer norm over the width of one row.

    Raises:
        HwxError: It has other axes, or gamma and beta, which are tensors of constants.
    """
    extent = core_extent(layer)
    if axes_of(layer) - {"height"} != frozenset({"width"}) or extent.height != 1:
        raise HwxError("ANE-EMIT-006: no program that normalises these axes is known", seen=layer.integers("axes"))
    parameters = [name for name in ("gamma", "beta") if layer.operands.get(name) is not None]
    if parameters:
        raise HwxError("ANE-EMIT-011: no program with a number for each column is known", seen=parameters)
    epsilon = layer.number("epsilon")
    layer_norm_tasks(extent, surface_of(extent, 0), surface_of(extent, 0), epsilon)

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return layer_norm_tasks(extent, sources[0], result, epsilon)

    return (Step(extent, emit),)
