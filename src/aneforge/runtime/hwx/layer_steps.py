"""What each layer of a program becomes: steps, each of them one or more tasks that read tensors and write one.

A layer without a known program is refused with the id of the rule that says so; `emit_program` reports it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.memory.layout import dram_layout, extents_of, same_places
from aneforge.engine.planar import host_fp16
from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.activation_tables import line_bytes, line_table, table_bytes
from aneforge.formats.hwx.emission.activation_tasks import relu_task, rsqrt_task, table_section, table_task
from aneforge.formats.hwx.emission.coefficients import Convolution, kernel_plans, pack_kernel
from aneforge.formats.hwx.emission.move_tasks import (
    copy_task,
    exchange_channels_and_rows,
    exchange_channels_and_width,
)
from aneforge.formats.hwx.emission.neural_tasks import convolution_tasks
from aneforge.formats.hwx.emission.normalisation_tasks import LOG2_E, softmax_tasks
from aneforge.formats.hwx.emission.planar_tasks import (
    absolute_task,
    binary_task,
    broadcast_tasks,
    scalar_task,
)
from aneforge.formats.hwx.emission.product_tasks import (
    constant_product_tasks,
    linear_convolution,
    runtime_kernel_size,
    runtime_product_tasks,
)
from aneforge.formats.hwx.emission.reduction_tasks import Reduction, reduction_tasks
from aneforge.formats.hwx.emission.surfaces import LINE, Extent, surface_of
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.compiler.memory.task_places import LayerPlaces
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.ops.types import TensorType
    from aneforge.runtime.hwx.constant_pool import ConstantPool
    from aneforge.targets.work_units import TaskPlace

__all__ = ["Step", "extent_of", "is_view", "steps_of"]

TABLES = {
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "gelu": "gelu",
    "swish": "silu",
    "sqrt": "sqrt",
    "exp2": "exp2",
}
"""Tables by the kinds of layers that they compute."""
PAIRS = {"add": "add", "sub": "sub", "mult": "mul", "max": "maximum", "min": "minimum"}
"""Operations of two tensors by the kinds of layers."""
AXES = ("width", "height", "channels", "batch")
"""Axes from the last on."""
FP16_TYPE = "fp16"


@dataclass(frozen=True, slots=True)
class Step:
    """Tasks that write one tensor."""

    result: Extent
    emit: Callable[[Sequence[Surface], Surface, ConstantPool, int], tuple[Draft, ...]]
    """From the surfaces of sources and result, the constants, and the place of its own scratch memory."""
    scratch: int = 0
    """Bytes of scratch memory that its tasks use between them."""


def steps_of(layer: Layer, places: LayerPlaces | None) -> tuple[Step, ...]:
    """Return the steps of a layer and its epilogue; the first reads what the layer reads, each other the one before.

    `places` are those of the memory plan, which has some of every layer that can be emitted.

    Raises:
        HwxError: No known program computes it; the message begins with the id of a rule.
    """
    check_types(layer)
    refused = [slot.value for slot, _ in layer.epilogue if slot not in STAGES]
    if refused:
        raise HwxError("ANE-EMIT-011: no program with this stage after an operation is known", seen=refused)
    if places is None:
        raise HwxError("ANE-EMIT-001: the memory plan has no place for this operation", seen=layer.kind.name)
    core, after = fused_steps(layer, places)
    before, rounded = core_extent(layer), layer.kind.name not in EXACT
    for stage in after:
        scales = stage.kind.name == "gain_offset_control"
        if scales and rounded:
            raise HwxError("ANE-EMIT-011: no program that scales this operation before it is rounded is known")
        core = (*core, *stage_steps(stage, before, places))
        rounded = scales or stage.kind.name not in EXACT
    return (*core, *turning_steps(layer, places))


STAGES = (Slot.PRE_ACTIVATION, Slot.GAIN_OFFSET, Slot.POST_ACTIVATION, Slot.TRANSPOSE)
"""Stages of an epilogue that become steps of their own, or a part of the operation."""
EXACT = frozenset({"relu", "abs", "max", "min", "reduce_max", "reshape", "flatten", "identity", "transpose", "slice"})
"""Kinds whose results need no rounding: what scales them afterwards rounds as if it were one with them."""


def fused_steps(layer: Layer, places: LayerPlaces) -> tuple[tuple[Step, ...], tuple[Stage, ...]]:
    """Return the steps of a layer with the stages that its own tasks compute, and the other stages.

    A convolution has a bias and then a relu, a product by a constant has a bias, an operation of two tensors a scale.
    """
    stages = tuple(stage for slot, stage in layer.epilogue if slot is not Slot.TRANSPOSE)
    if layer.kind.name == "convolution":
        biased = bool(stages) and stages[0].kind.name == "gain_offset_control"
        after = stages[1:] if biased else stages
        relu = bool(after) and after[0].kind.name == "relu"
        return convolution_steps(layer, places, stages[0] if biased else None, relu=relu), after[1:] if relu else after
    if layer.kind.name == "linear":
        last = bool(stages) and stages[0].kind.name == "gain_offset_control"
        last = last and stages[0].integer("axis") % layer.result.rank == layer.result.rank - 1
        return linear_steps(layer, stages[0] if last else None), stages[1:] if last else stages
    if layer.kind.name in PAIRS:
        gains = [stages[0].operands] if stages and is_gain(stages[0]) else []
        return pair_steps(layer, places, scalar_of(gains[0]["gain"]) if gains else 1.0), stages[len(gains) :]
    return core_steps(layer, places), stages


def is_gain(stage: Stage) -> bool:
    """Tell whether a stage multiplies and adds nothing."""
    return stage.kind.name == "gain_offset_control" and set(stage.operands) == {"gain"}


def turning_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a transpose after an operation."""
    stage = layer.epilogue.transpose
    if stage is None:
        return ()
    return (transpose_step(core_extent(layer), extent_of(layer.result.type), stage.integers("perm"), places),)


def check_types(layer: Layer) -> None:
    """Raise the error for a layer with elements or axes of which no program is known."""
    for value in (*layer.bottoms, *layer.results):
        if value.type.dtype != FP16_TYPE:
            raise HwxError("ANE-EMIT-012: no program with elements of this type is known", seen=value.type.dtype)
        extent_of(value.type)
    if len(layer.results) != 1:
        raise HwxError("ANE-EMIT-001: no program with several results is known", seen=len(layer.results))


def extent_of(tensor: TensorType) -> Extent:
    """Return the extents of a tensor.

    Raises:
        HwxError: It has a batch or a depth.
    """
    found = extents_of(tensor.shape)
    if found.batch != 1 or found.depth != 1:
        raise HwxError("ANE-EMIT-005: no program with a batch or a depth is known", seen=tensor.shape)
    return Extent(found.channels, found.rows, found.width)


def core_extent(layer: Layer) -> Extent:
    """Return the extents of what a layer's operation gives, before its epilogue."""
    return extent_of(layer.core_types[0])


def is_view(layer: Layer) -> bool:
    """Tell whether a layer leaves every element where it is."""
    if layer.kind.name not in {"reshape", "flatten", "identity"} or layer.epilogue:
        return False
    (source,) = layer.bottoms
    return same_places(dram_layout(source.type), dram_layout(layer.result.type))


def core_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of a layer without its epilogue.

    Raises:
        HwxError: No known program computes it.
    """
    maker = MAKERS.get(layer.kind.name)
    if maker is not None:
        return maker(layer, places)
    return activation_steps(layer, core_extent(layer), places)


def stage_steps(stage: Stage, extent: Extent, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of an epilogue's stage."""
    if stage.kind.name == "gain_offset_control":
        return gain_steps(stage.operands, extent, places)
    return activation_steps(stage, extent, places)


def activation_steps(layer: Layer | Stage, extent: Extent, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of an activation.

    Raises:
        HwxError: No table of it is known.
    """
    match layer.kind.name:
        case "relu":
            return (Step(extent, lambda given, result, _, __: (relu_task(extent, places.neural, given[0], result),)),)
        case "abs":
            return (
                Step(extent, lambda given, result, _, __: (absolute_task(extent, places.planar, given[0], result),)),
            )
        case "exp":
            return (scalar_step("mul", LOG2_E, extent, places), table_step(table_bytes("exp2"), extent, places))
        case "rsqrt":
            return (rsqrt_step(layer.number("epsilon"), extent, places),)
        case "leaky_relu":
            return (table_step(line_bytes(line_table("leaky_relu", layer.number("alpha"))), extent, places),)
        case name if name in TABLES:
            return (table_step(table_bytes(TABLES[name]), extent, places),)
        case other:
            raise HwxError("ANE-EMIT-001: no program of this operation is known", seen=other)


def table_step(table: bytes, extent: Extent, places: LayerPlaces) -> Step:
    """Return the step of a table."""

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        place = pool.add([table_section(table, extent.channels)])
        return (table_task(extent, places.neural, sources[0], result, kernel_at=place),)

    return Step(extent, emit)


def rsqrt_step(epsilon: float, extent: Extent, places: LayerPlaces) -> Step:
    """Return the step of a reciprocal root."""

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        place = pool.add([table_section(table_bytes("rsqrt"), extent.channels)])
        return (rsqrt_task(extent, places.neural, sources[0], result, epsilon, kernel_at=place),)

    return Step(extent, emit)


def scalar_step(operation: str, number: float, extent: Extent, places: LayerPlaces) -> Step:
    """Return the step of an operation with a scalar."""
    if operation in {"maximum", "minimum"}:
        return table_step(line_bytes(line_table(operation, number)), extent, places)

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return (scalar_task(operation, number, extent, places.planar, sources[0], result),)

    return Step(extent, emit)


def gain_steps(operands: Mapping[str, object], extent: Extent, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of a gain or an offset, of one number for all channels.

    Raises:
        HwxError: There are both, whose rounding is not known, or numbers of channels.
    """
    given = {name: operands[name] for name in ("gain", "offset") if operands.get(name) is not None}
    if len(given) != 1:
        raise HwxError("ANE-EMIT-011: no program with gain and offset together is known", seen=sorted(given))
    ((name, constant),) = given.items()
    return (scalar_step("mul" if name == "gain" else "add", scalar_of(constant), extent, places),)


def scalar_of(constant: object) -> float:
    """Return a constant that is one number, rounded as the engine's host does it.

    Raises:
        HwxError: It has several.
    """
    values = np.unique(dense_values(constant))
    if values.size != 1:
        raise HwxError("ANE-EMIT-011: no program with a number for each channel is known", seen=values.size, limit=1)
    return float(host_fp16(values)[0])


def dense_values(constant: object) -> NDArray[np.float64]:
    """Return the numbers of a constant.

    Raises:
        HwxError: They are compressed.
    """
    if not isinstance(constant, Dense):
        raise HwxError("ANE-EMIT-012: no program with compressed constants is known", seen=type(constant).__name__)
    return np.asarray(constant.values, dtype=np.float64)


def fp16_values(constant: object) -> NDArray[np.float16]:
    """Return the weights of a layer, which are fp16 numbers.

    Raises:
        HwxError: They are compressed, or rounding would change one.
    """
    if isinstance(constant, Dense) and constant.values.dtype == np.float16:
        return np.asarray(constant.values, np.float16)
    values = dense_values(constant)
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16)
    if not np.array_equal(rounded.astype(np.float64), values, equal_nan=True):
        raise HwxError("ANE-EMIT-012: weights must be fp16 numbers")
    return rounded


def pair_steps(layer: Layer, places: LayerPlaces, scale: float) -> tuple[Step, ...]:
    """Return the steps of an operation of two tensors that is scaled, or of one and a scalar.

    Raises:
        HwxError: The first tensor is the repeated one and the order matters, or a constant is a tensor.
    """
    operation = PAIRS[layer.kind.name]
    first, second = layer.operand("x"), layer.operand("y")
    whole = core_extent(layer)
    if not isinstance(first, Value) or not isinstance(second, Value):
        value, constant = (first, second) if isinstance(first, Value) else (second, first)
        if scale != 1.0:
            raise HwxError("ANE-EMIT-011: no program that scales an operation with a constant is known", seen=scale)
        if operation == "sub" and value is second:
            raise HwxError("ANE-EMIT-011: no program that subtracts from a constant is known")
        if not isinstance(value, Value) or extent_of(value.type) != whole:
            raise HwxError("ANE-EMIT-011: no program that repeats a tensor for a constant is known")
        return (scalar_step(operation, scalar_of(constant), whole, places),)
    shapes = [extent_of(first.type), extent_of(second.type)]
    if scale != 1.0 and shapes != [whole, whole]:
        raise HwxError("ANE-EMIT-011: no program that scales an operation with a repeated tensor is known", seen=scale)
    if shapes[0] == shapes[1] == whole:
        read = (0, 0) if first == second else (0, 1)

        def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
            pair = sources[read[0]], sources[read[1]]
            return (binary_task(operation, whole, planned(places.pair), *pair, result, scale=scale),)

        return (Step(whole, emit),)
    return (broadcast_step(operation, whole, shapes, places),)


def planned(place: TaskPlace | None) -> TaskPlace:
    """Return a place of the memory plan.

    Raises:
        HwxError: The plan has none, which is a fault of the planner's.
    """
    if place is None:
        raise HwxError("ANE-EMIT-001: the memory plan has no place for this operation")
    return place


def broadcast_step(operation: str, whole: Extent, shapes: Sequence[Extent], places: LayerPlaces) -> Step:
    """Return the step of an operation with a repeated tensor, which is read second.

    Raises:
        HwxError: Both tensors are repeated, or the first of a difference.
    """
    if whole not in shapes:
        raise HwxError("ANE-EMIT-011: no program that repeats both tensors is known", seen=shapes)
    full = list(shapes).index(whole)
    if full == 1 and operation == "sub":
        raise HwxError("ANE-EMIT-011: no program that subtracts from a repeated tensor is known")
    repeated = shapes[1 - full]

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        chosen = planned(places.repeated), planned(places.pair)
        return broadcast_tasks(operation, whole, repeated, chosen, sources[full], sources[1 - full], result)

    return Step(whole, emit)


def convolution_steps(layer: Layer, places: LayerPlaces, offset: Stage | None, *, relu: bool) -> tuple[Step, ...]:
    """Return the step of a convolution with its bias and relu.

    Raises:
        HwxError: No known program computes it.
    """
    weights = layer.operand("weights")
    if isinstance(weights, Value):
        raise HwxError("ANE-EMIT-008: no program of a convolution by a tensor is known")
    held = fp16_values(weights)
    bias = None if offset is None else bias_of(offset, held.shape[0])
    convolution = replace(described_convolution(layer), bias=bias is not None, relu=relu)
    kernel_plans(convolution)

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        blocks = pack_kernel(convolution, held, bias)
        place = pool.add(block for part in blocks for block in part)
        sizes = [[len(block) for block in part] for part in blocks]
        groups = 1 if convolution.depthwise else convolution.groups
        grouped = [replace(one, group=one.depth // groups) for one in (sources[0], result)]
        chosen = planned(places.streamed), places.resident
        return convolution_tasks(convolution, chosen, grouped[0], grouped[1], sizes=sizes, kernel_at=place)

    return (Step(convolution.result, emit),)


def described_convolution(layer: Layer) -> Convolution:
    """Return the convolution of a layer; one of rows alone has one row.

    Raises:
        HwxError: It is dilated.
    """
    kernel, stride, dilation = (
        (1, 1, *layer.integers(name))[-2:] for name in ("kernel_sizes", "strides", "dilation_rates")
    )
    if max(dilation) > 1:
        raise HwxError("ANE-EMIT-002: no program of a dilated convolution is known", seen=dilation)
    if len(layer.integers("strides")) == 1:
        stride = (stride[1], stride[1])
    padding = (0, 0, *layer.integers("explicit_padding"))[-4:]
    return Convolution(
        source=extent_of(layer.bottoms[0].type),
        result=core_extent(layer),
        kernel=(kernel[0], kernel[1]),
        stride=(stride[0], stride[1]),
        pads=(padding[0], padding[2]),
        groups=layer.integer("groups"),
    )


def bias_of(stage: Stage, outputs: int) -> NDArray[np.float16]:
    """Return the offsets of a stage as a bias for each output.

    Raises:
        HwxError: It has a gain other than 1.
    """
    gain = stage.operands.get("gain")
    if gain is not None and not np.all(dense_values(gain) == 1):
        raise HwxError("ANE-EMIT-011: no program of a convolution with a gain is known")
    offset = stage.operands.get("offset")
    values = np.zeros(1) if offset is None else dense_values(offset)
    return host_fp16(np.broadcast_to(values.reshape(-1), (outputs,))).astype(np.float16)


def axes_of(layer: Layer) -> frozenset[str]:
    """Return the axes that a layer reduces, by name."""
    rank = layer.bottoms[0].rank
    return frozenset(AXES[rank - 1 - axis % rank] for axis in layer.integers("axes")) - {"batch"}


def reduction_steps(layer: Layer, _: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a reduction."""
    extent, axes = extent_of(layer.bottoms[0].type), axes_of(layer)
    reduced = Extent(*(1 if name in axes else getattr(extent, name) for name in ("channels", "height", "width")))
    count = math.prod(getattr(extent, name) for name in axes)
    mean = layer.kind.name == "reduce_avg"
    reduction = Reduction(maximum=layer.kind.name == "reduce_max", scale=float(np.float32(1 / count)) if mean else 1.0)
    result = core_extent(layer)
    if reduced != result:
        raise HwxError("ANE-EMIT-006: no program that drops the axes it reduces is known", seen=layer.result.shape)
    reduction_tasks(reduction, extent, axes, surface_of(extent, 0), surface_of(reduced, 0))

    def emit(sources: Sequence[Surface], written: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return reduction_tasks(reduction, extent, axes, sources[0], written)

    return (Step(reduced, emit),)


def softmax_steps(layer: Layer, _: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a softmax.

    Raises:
        HwxError: It is not over the last axis.
    """
    extent = core_extent(layer)
    if layer.integer("axis") % layer.result.rank != layer.result.rank - 1:
        raise HwxError("ANE-EMIT-006: a softmax must be over the last axis", seen=layer.integer("axis"))
    softmax_tasks(extent, surface_of(extent, 0), surface_of(extent, 0))

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        place = pool.add([table_section(table_bytes("exp2"), extent.channels)])
        return softmax_tasks(extent, sources[0], result, kernel_at=place)

    return (Step(extent, emit),)


def product_steps(layer: Layer, _: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a product of two tensors.

    Raises:
        HwxError: One is transposed or constant, or there are several products.
    """
    if layer.flag("transpose_lhs") or layer.flag("transpose_rhs"):
        raise HwxError("ANE-EMIT-008: no program of a product with a transposed tensor is known")
    first, second = layer.operand("lhs"), layer.operand("rhs")
    if not isinstance(first, Value) or not isinstance(second, Value) or first == second:
        raise HwxError("ANE-EMIT-008: no program of a product by this constant is known")
    left, right = extent_of(first.type), extent_of(second.type)
    if left.height != 1 or right.height != 1:
        raise HwxError("ANE-EMIT-008: no program of several products is known", seen=layer.result.shape)
    shape = (left.channels, left.width, right.width)
    stands = [surface_of(one, 0) for one in (left, right, core_extent(layer))]
    runtime_product_tasks(*shape, stands[0], stands[1], stands[2])

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, scratch: int) -> tuple[Draft, ...]:
        return runtime_product_tasks(*shape, sources[0], sources[1], result, scratch_at=scratch)

    return (Step(core_extent(layer), emit, runtime_kernel_size(left.channels, left.width)),)


def gain_layer_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of a gain or an offset that stands alone."""
    return gain_steps(layer.operands, core_extent(layer), places)


def transpose_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a transpose that stands alone."""
    return (transpose_step(extent_of(layer.bottoms[0].type), core_extent(layer), layer.integers("perm"), places),)


def transpose_step(extent: Extent, result: Extent, order: Sequence[int], places: LayerPlaces) -> Step:
    """Return the step of a transpose.

    Raises:
        HwxError: It exchanges other axes than channels with rows or columns.
    """
    rank = len(order)
    moved = [place - rank for place in order]
    if rank == 4 and moved == [-4, -2, -3, -1]:
        return Step(result, lambda given, to, _, __: (exchange_channels_and_rows(extent, places.turned, given[0], to),))
    flat = extent.height == result.height == 1
    if flat and moved[-2:] == [-1, -2] and extent.channels == result.width and extent.width == result.channels:
        return exchange_step(extent, result)
    if moved == [-4, -1, -2, -3]:
        return exchange_step(extent, result)
    raise HwxError("ANE-EMIT-009: no program of this transpose is known", seen=tuple(order))


def exchange_step(extent: Extent, result: Extent) -> Step:
    """Return the step that exchanges channels and columns of one row."""
    exchange_channels_and_width(extent, surface_of(extent, 0), surface_of(result, 0))
    return Step(result, lambda sources, to, _, __: (exchange_channels_and_width(extent, sources[0], to),))


def view_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a layer that changes the shape alone.

    Raises:
        HwxError: Elements would have to move in a way of which no program is known.
    """
    extent, result = extent_of(layer.bottoms[0].type), core_extent(layer)
    if is_view(layer):
        return (Step(result, lambda sources, to, _, __: (copy_task(extent, places.sources[0], sources[0], to),)),)
    flat = extent.height == result.height == 1
    if flat and extent.channels == result.width and extent.width == result.channels == 1:
        return (exchange_step(extent, result),)
    if flat and extent.width == result.channels and extent.channels == result.width == 1:
        return (exchange_step(extent, result),)
    raise HwxError(
        "ANE-EMIT-009: no program of this change of shape is known",
        seen=layer.bottoms[0].shape,
        limit=layer.result.shape,
    )


AXES_BY_RANK = {
    1: ("width",),
    2: ("channels", "width"),
    3: ("batch", "channels", "width"),
    4: ("batch", "channels", "height", "width"),
}
"""Axes of tensors, by their rank."""


def linear_steps(layer: Layer, offset: Stage | None) -> tuple[Step, ...]:
    """Return the step of a product by a constant matrix: rows of the source are turned into columns of a map.

    Raises:
        HwxError: There are several matrices, or the kernel does not fit one task.
    """
    extent, result = extent_of(layer.bottoms[0].type), core_extent(layer)
    if extent.height != 1 or result.height != 1:
        raise HwxError("ANE-EMIT-008: no program of several products is known", seen=layer.result.shape)
    held, given = fp16_values(layer.operand("weight")), layer.weight("bias")
    if given is not None and offset is not None:
        raise HwxError("ANE-EMIT-011: no program of a product with a bias and an offset is known")
    bias = None if given is None else host_fp16(dense_values(given).reshape(-1)).astype(np.float16)
    bias = bias if offset is None else bias_of(offset, result.width)
    parts = product_parts(extent, result.width, bias=bias is not None)

    def emit(sources: Sequence[Surface], written: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        made: list[Draft] = []
        for start, count in parts:
            shape, chosen = (extent.channels, extent.width, count), slice(start, start + count)
            some = None if bias is None else bias[chosen]
            (blocks,) = pack_kernel(linear_convolution(*shape, bias=some is not None), held[chosen], some)
            to = written.at(written.base + 2 * start)
            place = pool.add(blocks)
            made += constant_product_tasks(*shape, sources[0], to, bias=some is not None, kernel_at=place)
        return tuple(made)

    return (Step(result, emit),)


def product_parts(extent: Extent, outputs: int, *, bias: bool) -> tuple[tuple[int, int], ...]:
    """Return first and number of the outputs of each product by a part of a matrix, so that each fits one task.

    Raises:
        HwxError: Not even 32 outputs, whose results fill a line of memory, fit one.
    """
    stand = surface_of(extent, 0)
    for count in (outputs, *range(outputs // COLUMNS * COLUMNS, 0, -COLUMNS)):
        if len(kernel_plans(linear_convolution(extent.channels, extent.width, count, bias=bias))) == 1:
            constant_product_tasks(extent.channels, extent.width, count, stand, stand, bias=bias)
            return tuple((start, min(count, outputs - start)) for start in range(0, outputs, count))
    raise HwxError("ANE-EMIT-004: 32 outputs of a product must fit the kernel memory", seen=extent.width)


COLUMNS = 32
"""Columns of a line of memory."""


def concat_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step that copies tensors one after the other: along channels or rows.

    Raises:
        HwxError: They are constant, or joined along the columns or interleaved.
    """
    values = layer.operands["values"]
    axis = layer.integer("axis") % layer.result.rank - layer.result.rank
    if layer.flag("interleave") or (axis == -4 and layer.result.rank == 4):
        raise HwxError("ANE-EMIT-009: tensors must be joined along channels, rows or columns", seen=axis)
    parts = [one for one in values if isinstance(one, Value)] if isinstance(values, tuple) else []
    if not isinstance(values, tuple) or len(parts) != len(values) or len(set(parts)) != len(parts):
        raise HwxError("ANE-EMIT-009: no program that joins a constant, or a tensor with itself, is known")
    extents, along = [extent_of(one.type) for one in parts], AXES_BY_RANK[layer.result.rank][axis]
    starts = list(itertools.accumulate((getattr(one, along) for one in extents), initial=0))[:-1]
    if along == "width" and any(2 * start % LINE for start in starts):
        raise HwxError("ANE-EMIT-009: a part must begin at a multiple of 32 columns", seen=starts)

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        stride = {"channels": result.plane, "height": result.row, "width": 2}[along]
        return tuple(
            copy_task(extent, place, source, result.at(result.base + start * stride))
            for extent, place, source, start in zip(extents, places.sources, sources, starts, strict=True)
        )

    return (Step(core_extent(layer), emit),)


def slice_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step that copies a part of a tensor.

    Raises:
        HwxError: The part does not begin at a line of memory.
    """
    begin = (0, 0, 0, *layer.integers("begin"))[-3:]
    if layer.bottoms[0].rank < 3:
        begin = (0, 0, begin[2])
    elif layer.bottoms[0].rank == 3:
        begin = (begin[1], 0, begin[2])
    extent = core_extent(layer)
    if 2 * begin[2] % LINE:
        raise HwxError("ANE-EMIT-009: a part must begin at a multiple of 32 columns", seen=begin[2])

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        (source,) = sources
        offset = begin[0] * source.plane + begin[1] * source.row + 2 * begin[2]
        return (copy_task(extent, places.neural, source.at(source.base + offset), result),)

    return (Step(extent, emit),)


MAKERS: Mapping[str, Callable[[Layer, LayerPlaces], tuple[Step, ...]]] = {
    "reduce_sum": reduction_steps,
    "reduce_avg": reduction_steps,
    "reduce_max": reduction_steps,
    "softmax": softmax_steps,
    "matmul": product_steps,
    "gain_offset_control": gain_layer_steps,
    "transpose": transpose_steps,
    "reshape": view_steps,
    "flatten": view_steps,
    "identity": view_steps,
    "concat": concat_steps,
    "slice": slice_steps,
}
"""What makes the steps of layers that are not activations or operations of two tensors."""
