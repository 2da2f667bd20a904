"""One operation as a whole program: from its name and shapes to tasks, as Apple's compiler makes them of one layer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from aneforge.errors import HwxError, UnknownNameError
from aneforge.formats.hwx.emission.activation_tasks import build_shifted_table_task, relu_task, table_task
from aneforge.formats.hwx.emission.channel_softmax import (
    Scratch,
    channel_softmax_tables,
    channel_softmax_tasks,
    exchange_rows,
)
from aneforge.formats.hwx.emission.coefficients import Convolution
from aneforge.formats.hwx.emission.draft import link
from aneforge.formats.hwx.emission.framed_tasks import build_framed_binary, build_framed_table, framed_one_source
from aneforge.formats.hwx.emission.move_tasks import exchange_channels_and_rows, exchange_channels_and_width
from aneforge.formats.hwx.emission.neural_tasks import convolution_tasks
from aneforge.formats.hwx.emission.normalisation_tasks import layer_norm_tasks, softmax_tasks
from aneforge.formats.hwx.emission.planar_tasks import (
    OPERATIONS,
    absolute_task,
    binary_task,
    broadcast_tasks,
    scalar_task,
)
from aneforge.formats.hwx.emission.product_tasks import constant_product_tasks, matrix_surface, runtime_product_tasks
from aneforge.formats.hwx.emission.reduction_tasks import Reduction, expect_several, reduction_tasks
from aneforge.formats.hwx.emission.surfaces import Extent, surface_of
from aneforge.targets import database
from aneforge.targets.task_chains import (
    channel_softmax_chain,
    constant_product_chain,
    exchange_chain,
    find_repeated_places,
    layer_norm_chain,
    reduction_chain,
    runtime_product_chain,
    softmax_chain,
)
from aneforge.targets.work_units import ON_CHIP, convolution_place, pass_place, planar_place, resident_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.formats.hwx.emission.draft import Draft, Values
    from aneforge.targets.work_units import TaskPlace

__all__ = ["Operation", "emit_operation"]

FIRST, RESULT, SECOND = 4, 5, 6
"""Base registers of a program of one layer: they follow the addresses of its tensors."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """An operation by name, with what its kind needs."""

    op: str
    x: list[int] = []
    y: list[int] | float | None = None
    cin: int = 0
    cout: int = 0
    in_hw: tuple[int, int] = (1, 1)
    out_hw: tuple[int, int] = (1, 1)
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    groups: int = 1
    bias: bool = False
    pad: str = "valid"
    epsilon: float = 0.0
    alpha: float = 0.0
    axes: list[int] = []
    axis: int = 0
    perm: list[int] = []
    w: list[int] = []
    transpose_y: bool = False
    constant_y: bool = False


def emit_operation(operation: Operation, target: str) -> tuple[Task, ...]:
    """Return the tasks of a program that computes one operation.

    Raises:
        HwxError: No program of such an operation is known.
    """
    generation = generation_of(target)
    if generation == LINKED:
        return link(operation_drafts(operation))
    return (build_framed_operation(operation, generation),)


LINKED = 7
"""The generation whose tasks are linked and of which programs of every family are known."""


def generation_of(target: str) -> int:
    """Return the generation of descriptors that a target's programs have.

    Raises:
        UnknownNameError: No generation is known for the target.
    """
    known = {name: number for number, one in database().descriptors.items() for name in one.targets}
    if target not in known:
        raise UnknownNameError.of("target with known task descriptors", target, known)
    return known[target]


def build_framed_operation(operation: Operation, generation: int) -> Task:
    """Return the task of an elementwise operation of a later generation.

    Raises:
        HwxError: No program of such an operation is known.
    """
    if operation.op not in {*OPERATIONS, *TABLES, "relu", "abs", "rsqrt", "leaky_relu"}:
        raise HwxError(
            "ANE-EMIT-010: no program of this operation is known for the generation",
            seen=operation.op,
            limit=generation,
        )
    extent = extent_of(operation.x)
    match operation:
        case Operation(op="relu"):
            return build_framed_table(generation, extent, table=False)
        case Operation(op="abs"):
            return framed_one_source(generation, extent, {"pe.absolute": 1})
        case Operation(op="rsqrt"):
            return build_framed_table(generation, extent, table=True, epsilon=operation.epsilon or RSQRT_EPSILON)
        case Operation(y=list() as shape):
            return build_framed_binary(generation, OPERATIONS[operation.op], extent, extent_of(shape))
        case Operation(op="mul" | "add" | "sub", y=float() | int() as scalar):
            change: Values = {"pe.scale": scalar} if operation.op == "mul" else {"pe.bias": scalar}
            return framed_one_source(generation, extent, change if operation.op != "sub" else {"pe.bias": -scalar})
        case _:
            return build_framed_table(generation, extent, table=True)


RSQRT_EPSILON = 1e-6
"""What the front end takes where an operation gives none."""
TABLES = frozenset({"sigmoid", "tanh", "gelu", "silu", "exp", "exp2", "sqrt", "log"})
"""Operations that a table computes."""


def operation_drafts(operation: Operation) -> tuple[Draft, ...]:
    """Return the tasks of an operation, not yet linked.

    Raises:
        HwxError: No program of such an operation is known.
    """
    structural = STRUCTURAL.get(operation.op)
    if structural is not None:
        return structural(operation)
    extent = extent_of(operation.x)
    source, result = surface_of(extent, FIRST), surface_of(extent, RESULT)
    place = passing(extent)
    match operation.op:
        case "relu":
            return (relu_task(extent, place, source, result),)
        case "abs":
            return (absolute_task(extent, elementwise(extent), source, result),)
        case "rsqrt":
            return (build_shifted_table_task(extent, place, source, result, operation.epsilon or RSQRT_EPSILON),)
        case name if name in TABLES or name == "leaky_relu":
            return (table_task(extent, place, source, result),)
        case name if name in OPERATIONS:
            return elementwise_drafts(operation, extent)
        case _:
            raise HwxError("ANE-EMIT-001: no program of this operation is known", seen=operation.op)


def reduction_drafts(operation: Operation) -> tuple[Draft, ...]:
    """Return the tasks of a reduction, which keeps the axes that it reduces."""
    extent = extent_of(operation.x)
    axes = frozenset(AXES[axis % len(operation.x) - len(operation.x)] for axis in operation.axes)
    reduced = Extent(
        *(1 if name in axes else getattr(extent, name) for name in ("channels", "height", "width")),
    )
    count = math.prod(getattr(extent, name) for name in axes)
    reduction = Reduction(
        maximum=operation.op == "reduce_max", scale=1 / count if operation.op == "reduce_mean" else 1.0
    )
    expect_several(extent, axes)
    chain = reduction_chain(*sizes_of(extent), axes, ON_CHIP, maximum=reduction.maximum)
    return reduction_tasks(reduction, extent, chain, surface_of(extent, FIRST), surface_of(reduced, RESULT))


def sizes_of(extent: Extent) -> tuple[int, int, int]:
    """Return channels, rows and columns."""
    return extent.channels, extent.height, extent.width


AXES = {-1: "width", -2: "height", -3: "channels", -4: "batch"}
"""Axes by their place from the end."""


def softmax_drafts(operation: Operation) -> tuple[Draft, ...]:
    """Return the tasks of a softmax; over channels or rows they go through scratch memory, which is inferred.

    Raises:
        HwxError: It is over the batch.
    """
    extent, along = extent_of(operation.x), AXES[operation.axis % len(operation.x) - len(operation.x)]
    source, result = surface_of(extent, FIRST), surface_of(extent, RESULT)
    if along == "width":
        return softmax_tasks(extent, softmax_chain(*sizes_of(extent), ON_CHIP), source, result)
    if along == "batch":
        raise HwxError("ANE-EMIT-006: a softmax must be over channels, rows or columns", seen=operation.axis)
    expect_several(extent, frozenset({along}))
    if along == "height":
        source, result = exchange_rows(source), exchange_rows(result)
        extent = replace(extent, channels=extent.height, height=extent.channels)
    chain = channel_softmax_chain(*sizes_of(extent), ON_CHIP)
    tables_at = (0, len(channel_softmax_tables(extent)[0]))
    return channel_softmax_tasks(extent, chain, source, result, Scratch(0), tables_at)


def layer_norm_drafts(operation: Operation) -> tuple[Draft, ...]:
    """Return the tasks of a layer normalisation.

    Raises:
        HwxError: It is not over the last axis.
    """
    if [axis % len(operation.x) for axis in operation.axes] != [len(operation.x) - 1]:
        raise HwxError("ANE-EMIT-006: a layer normalisation must be over the last axis", seen=operation.axes)
    extent = extent_of(operation.x)
    chain = layer_norm_chain(extent.channels, extent.width)
    return layer_norm_tasks(extent, chain, surface_of(extent, FIRST), surface_of(extent, RESULT), operation.epsilon)


def product_drafts(operation: Operation) -> tuple[Draft, ...]:
    """Return the tasks of a product of matrices; base registers follow the result, then the operands from the last."""
    rows, contracted = operation.x[-2:]
    outputs = operation.w[-2 if operation.transpose_y else -1]
    shape, result = (rows, contracted, outputs), matrix_surface(rows, outputs, FIRST)
    if operation.constant_y:
        source = matrix_surface(rows, contracted, RESULT)
        return constant_product_tasks(shape, constant_product_chain(rows, contracted), source, result)
    if operation.transpose_y:
        raise HwxError("ANE-EMIT-008: the second matrix of a runtime product must not be transposed")
    first, second = matrix_surface(rows, contracted, SECOND), matrix_surface(contracted, outputs, RESULT)
    return runtime_product_tasks(shape, runtime_product_chain(*shape), first, second, result)


def transpose_drafts(operation: Operation) -> tuple[Draft, ...]:
    """Return the tasks of a transpose.

    Raises:
        HwxError: It exchanges other axes than channels with rows or columns.
    """
    places = [place - len(operation.perm) for place in operation.perm]
    lead = [*range(-len(places), -3)]
    extent = extent_of(operation.x)
    if places == [*lead, -2, -3, -1]:
        turned = Extent(extent.height, extent.channels, extent.width)
        return (
            exchange_channels_and_rows(extent, passing(turned), surface_of(extent, FIRST), surface_of(turned, RESULT)),
        )
    if len(places) == 3 and places == [-3, -1, -2]:
        rows, columns = operation.x[-2:]
        source, result = matrix_surface(rows, columns, FIRST), matrix_surface(columns, rows, RESULT)
        chain = exchange_chain(rows, 1, columns)
        return (exchange_channels_and_width(Extent(rows, 1, columns), chain, source, result),)
    if places == [-4, -1, -2, -3]:
        turned = Extent(extent.width, extent.height, extent.channels)
        surfaces = surface_of(extent, FIRST), surface_of(turned, RESULT)
        return (exchange_channels_and_width(extent, exchange_chain(*sizes_of(extent)), *surfaces),)
    raise HwxError("ANE-EMIT-009: no program of this transpose is known", seen=operation.perm)


def elementwise_drafts(operation: Operation, extent: Extent) -> tuple[Draft, ...]:
    """Return the tasks of an operation with a tensor or a scalar.

    Raises:
        HwxError: There is neither.
    """
    source, result = surface_of(extent, FIRST), surface_of(extent, RESULT)
    match operation.y:
        case None:
            raise HwxError("the operation needs a second operand", seen=operation.op)
        case list() as shape:
            other = extent_of(shape)
            second = surface_of(other, SECOND)
            if other == extent:
                return (binary_task(operation.op, extent, elementwise(extent, 2), source, second, result),)
            places = find_repeated_places(sizes_of(extent), sizes_of(other), ON_CHIP)
            return broadcast_tasks(operation.op, extent, other, places, (source, second, result))
        case float() | int():
            if operation.op in {"maximum", "minimum"}:
                return (table_task(extent, passing(extent), source, result),)
            return (scalar_task(operation.op, operation.y, extent, elementwise(extent), source, result),)


def convolution_drafts(operation: Operation) -> tuple[Draft, ...]:
    """Return the tasks of a convolution."""
    source = Extent(operation.cin, *operation.in_hw)
    result = Extent(operation.cout, *operation.out_hw)
    padded = operation.pad == "same"
    convolution = Convolution(
        source=source,
        result=result,
        kernel=operation.kernel,
        stride=operation.stride,
        pads=((operation.kernel[0] - 1) // 2, (operation.kernel[1] - 1) // 2) if padded else (0, 0),
        groups=operation.groups,
        bias=operation.bias,
    )
    groups = 1 if convolution.depthwise else operation.groups
    return convolution_tasks(
        convolution,
        places_of(convolution),
        surface_of(source, FIRST, groups=groups),
        surface_of(result, RESULT, groups=groups),
    )


def passing(extent: Extent) -> TaskPlace:
    """Return where a task passes a tensor through the neural cores."""
    return pass_place(*sizes_of(extent))


def elementwise(extent: Extent, sources: int = 1) -> TaskPlace:
    """Return where a task of the planar engine works on a tensor."""
    return planar_place(*sizes_of(extent), sources)


def places_of(convolution: Convolution) -> tuple[TaskPlace, TaskPlace | None]:
    """Return where the source of a convolution streams through, and where it stays for several tasks."""
    source, result = convolution.source, convolution.result
    channels = convolution.groups if convolution.depthwise else convolution.group_source
    maps = (source.height, source.width), (result.height, result.width)
    given = (*maps, convolution.kernel, convolution.stride[0])
    return (
        convolution_place(channels, *given, reduced=convolution.group_source),
        resident_place(convolution.group_source, *given),
    )


def extent_of(shape: list[int]) -> Extent:
    """Return the extents of a shape: width, rows and channels from the last axis on.

    Raises:
        HwxError: It has a batch.
    """
    *batch, channels, height, width = [1, 1, 1, *shape][-4:]
    if batch[0] != 1 or len(shape) > 4:
        raise HwxError("ANE-EMIT-005: no program with a batch is known", seen=shape)
    return Extent(channels, height, width)


STRUCTURAL: dict[str, Callable[[Operation], tuple[Draft, ...]]] = {
    "conv": convolution_drafts,
    "reduce_sum": reduction_drafts,
    "reduce_mean": reduction_drafts,
    "reduce_max": reduction_drafts,
    "softmax": softmax_drafts,
    "layer_norm": layer_norm_drafts,
    "matmul": product_drafts,
    "transpose": transpose_drafts,
}
"""What emits operations that are not of one shape in and out."""
