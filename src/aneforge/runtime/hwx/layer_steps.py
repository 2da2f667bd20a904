"""What each layer of a program becomes: steps, each of them one or more tasks that read tensors and write one.

A layer without a known program is refused with the id of the rule that says so; `emit_program` reports it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.compiler.ir.kind import Slot
from aneforge.compiler.ir.layer import Value
from aneforge.compiler.passes.merge_activations import CLIPS
from aneforge.engine.activations import LN_2
from aneforge.errors import HwxError
from aneforge.formats.hwx.emission.activation_tables import line_bytes, line_table, table_bytes
from aneforge.formats.hwx.emission.activation_tasks import (
    build_shifted_table_task,
    relu_task,
    table_section,
    table_task,
)
from aneforge.formats.hwx.emission.channel_softmax import Scratch
from aneforge.formats.hwx.emission.coefficients import Convolution, kernel_plans, pack_kernel
from aneforge.formats.hwx.emission.neural_tasks import convolution_tasks
from aneforge.formats.hwx.emission.normalisation_tasks import LOG2_E
from aneforge.formats.hwx.emission.planar_tasks import (
    absolute_task,
    affine_task,
    binary_task,
    broadcast_tasks,
    scalar_task,
)
from aneforge.formats.hwx.emission.surfaces import Extent, surface_of
from aneforge.runtime.hwx.composed_steps import build_reversed_difference_tasks, division_tasks
from aneforge.runtime.hwx.move_steps import build_move_steps, concat_steps, slice_steps, transpose_steps, view_steps
from aneforge.runtime.hwx.product_steps import linear_steps, product_steps
from aneforge.runtime.hwx.reduction_steps import layer_norm_steps, reduction_steps, softmax_steps
from aneforge.runtime.hwx.step import (
    Step,
    bias_of,
    core_extent,
    extent_of,
    fp16_values,
    get_planned_place,
    scalar_of,
)
from aneforge.runtime.hwx.strided_steps import thinned_convolution, thinning_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from aneforge.compiler.ir.layer import Layer, Stage
    from aneforge.compiler.memory.task_places import LayerPlaces
    from aneforge.formats.hwx.emission.draft import Draft
    from aneforge.formats.hwx.emission.surfaces import Surface
    from aneforge.runtime.hwx.constant_pool import ConstantPool
    from aneforge.targets.work_units import TaskPlace

__all__ = ["steps_of"]

FP16_TYPE = "fp16"
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
    core, after = build_fused_steps(layer, places)
    before, rounded = core_extent(layer), layer.kind.entry.rounds
    for stage in after:
        scales = stage.kind.name == "gain_offset_control"
        if scales and rounded:
            raise HwxError("ANE-EMIT-011: no program that scales this operation before it is rounded is known")
        core = (*core, *stage_steps(stage, before, places))
        rounded = scales or stage.kind.entry.rounds
    return (*core, *turning_steps(layer, places))


STAGES = (Slot.PRE_ACTIVATION, Slot.GAIN_OFFSET, Slot.POST_ACTIVATION, Slot.TRANSPOSE)
"""Stages of an epilogue that become steps of their own, or a part of the operation."""


def build_fused_steps(layer: Layer, places: LayerPlaces) -> tuple[tuple[Step, ...], tuple[Stage, ...]]:
    """Return the steps of a layer with the stages that its own tasks compute, and the other stages.

    A convolution has a bias or a scale and then a relu, a product by a constant has a bias, an operation of two tensors
    a scale.
    """
    stages = tuple(stage for slot, stage in layer.epilogue if slot is not Slot.TRANSPOSE)
    if layer.kind.name == "convolution":
        biased = bool(stages) and stages[0].kind.name == "gain_offset_control"
        after = stages[1:] if biased else stages
        # Whether the scale comes before the nonlinearity is not known, so that a relu after one is a task of its own.
        relu = bool(after) and after[0].kind.name in CLIPS and not is_gain(stages[0])
        steps = convolution_steps(layer, places, stages[0] if biased else None, relu=relu)
        if not relu:
            return steps, after
        return (*steps, *cap_steps(after[0].kind.name, core_extent(layer), places)), after[1:]
    if layer.kind.name == "matmul":
        scale, after = scale_of(stages)
        return product_steps(layer, places, scale), after
    if layer.kind.name == "linear":
        last = bool(stages) and stages[0].kind.name == "gain_offset_control"
        last = last and stages[0].integer("axis") % layer.result.rank == layer.result.rank - 1
        return linear_steps(layer, places, stages[0] if last else None), stages[1:] if last else stages
    if layer.kind.name in PAIRS:
        scale, after = scale_of(stages)
        return pair_steps(layer, places, scale), after
    return core_steps(layer, places), stages


def scale_of(stages: tuple[Stage, ...]) -> tuple[float, tuple[Stage, ...]]:
    """Return the number that the first stage multiplies by, 1 where it does something else, and the stages after it."""
    return (scalar_of(stages[0].operands["gain"]), stages[1:]) if stages and is_gain(stages[0]) else (1.0, stages)


def is_gain(stage: Stage) -> bool:
    """Return whether a stage multiplies and adds nothing."""
    return stage.kind.name == "gain_offset_control" and set(stage.operands) == {"gain"}


def turning_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of a transpose after an operation."""
    stage = layer.epilogue.transpose
    if stage is None:
        return ()
    return build_move_steps(core_extent(layer), extent_of(layer.result.type), stage.integers("perm"), places.turned)


def check_types(layer: Layer) -> None:
    """Raise the error for a layer with elements or axes of which no program is known."""
    for value in (*layer.bottoms, *layer.results):
        if value.type.dtype != FP16_TYPE:
            raise HwxError("ANE-EMIT-012: no program with elements of this type is known", seen=value.type.dtype)
        extent_of(value.type)
    if len(layer.results) != 1:
        raise HwxError("ANE-EMIT-001: no program with several results is known", seen=len(layer.results))


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
    steps: tuple[Step, ...]
    match layer.kind.name:
        case "relu" | "n_relu" as name:
            relu = Step(extent, lambda given, result, _, __: (relu_task(extent, places.neural, given[0], result),))
            steps = (relu, *cap_steps(name, extent, places))
        case "abs":
            steps = (
                Step(extent, lambda given, result, _, __: (absolute_task(extent, places.planar, given[0], result),)),
            )
        case "exp":
            steps = (scalar_step("mul", LOG2_E, extent, places), table_step(table_bytes("exp2"), extent, places))
        case "log":
            steps = (table_step(table_bytes("log2"), extent, places), scalar_step("mul", LN_2, extent, places))
        case "rsqrt":
            steps = (build_shifted_step("rsqrt", layer.number("epsilon"), extent, places),)
        case "inv":
            steps = (build_shifted_step("reciprocal", layer.number("epsilon"), extent, places),)
        case "clamped_relu":
            bounds = (("maximum", "alpha"), ("minimum", "beta"))
            steps = tuple(scalar_step(name, layer.number(bound), extent, places) for name, bound in bounds)
        case "leaky_relu":
            steps = (table_step(line_bytes(line_table("leaky_relu", layer.number("alpha"))), extent, places),)
        case name if name in TABLES:
            steps = (table_step(table_bytes(TABLES[name]), extent, places),)
        case other:
            raise HwxError("ANE-EMIT-001: no program of this operation is known", seen=other)
    return steps


def cap_steps(rectifier: str, extent: Extent, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step that cuts what a relu gives at the upper bound of a kind of layer; none where it has none."""
    _, most = CLIPS[rectifier]
    return (scalar_step("minimum", most, extent, places),) if math.isfinite(most) else ()


def table_step(table: bytes, extent: Extent, places: LayerPlaces) -> Step:
    """Return the step of a table."""

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        place = pool.add([table_section(table, extent.channels)])
        return (table_task(extent, places.neural, sources[0], result, kernel_at=place),)

    return Step(extent, emit)


def build_shifted_step(table: str, epsilon: float, extent: Extent, places: LayerPlaces) -> Step:
    """Return the step of a table after an epsilon was added."""

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        place = pool.add([table_section(table_bytes(table), extent.channels)])
        return (build_shifted_table_task(extent, places.neural, sources[0], result, epsilon, kernel_at=place),)

    return Step(extent, emit)


def scalar_step(operation: str, number: float, extent: Extent, places: LayerPlaces) -> Step:
    """Return the step of an operation with a scalar."""
    if operation in {"maximum", "minimum"}:
        return table_step(line_bytes(line_table(operation, number)), extent, places)

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return (scalar_task(operation, number, extent, places.planar, sources[0], result),)

    return Step(extent, emit)


def gain_steps(operands: Mapping[str, object], extent: Extent, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a gain and an offset, of one number each for all channels.

    Raises:
        HwxError: They are numbers of channels.
    """
    given = {name: scalar_of(operands[name]) for name in ("gain", "offset") if operands.get(name) is not None}
    if len(given) == 1:
        ((name, number),) = given.items()
        return (scalar_step("mul" if name == "gain" else "add", number, extent, places),)

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
        return (affine_task(given["gain"], given["offset"], extent, places.planar, sources[0], result),)

    return (Step(extent, emit),)


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
    if shapes[0] == shapes[1] == whole:
        read = (0, 0) if first == second else (0, 1)

        def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, __: int) -> tuple[Draft, ...]:
            pair = sources[read[0]], sources[read[1]]
            return (binary_task(operation, whole, get_planned_place(places.pair), *pair, result, scale=scale),)

        return (Step(whole, emit),)
    return (broadcast_step(operation, whole, shapes, places, scale),)


def broadcast_step(operation: str, whole: Extent, shapes: Sequence[Extent], places: LayerPlaces, scale: float) -> Step:
    """Return the step of an operation with a repeated tensor, which is read second.

    Raises:
        HwxError: Both tensors are repeated.
    """
    if whole not in shapes:
        raise HwxError("ANE-EMIT-011: no program that repeats both tensors is known", seen=shapes)
    full = list(shapes).index(whole)
    repeated, turned = shapes[1 - full], full == 1 and operation == "sub"

    def emit(sources: Sequence[Surface], result: Surface, _: ConstantPool, room: int) -> tuple[Draft, ...]:
        if turned:
            return build_reversed_difference_tasks((whole, repeated), places, sources, result, Scratch(room), scale)
        chosen = get_planned_place(places.repeated), get_planned_place(places.pair)
        return broadcast_tasks(
            operation, whole, repeated, chosen, (sources[full], sources[1 - full], result), scale=scale
        )

    return Step(whole, emit, surface_of(whole, 0).depth if turned else 0)


def convolution_steps(layer: Layer, places: LayerPlaces, offset: Stage | None, *, relu: bool) -> tuple[Step, ...]:
    """Return the step of a convolution with its bias and relu.

    Raises:
        HwxError: No known program computes it.
    """
    weights = layer.operand("weights")
    if isinstance(weights, Value):
        raise HwxError("ANE-EMIT-008: no program of a convolution by a tensor is known")
    held = fp16_values(weights)
    scale = scalar_of(offset.operands["gain"]) if offset is not None and is_gain(offset) else 1.0
    bias = None if offset is None or is_gain(offset) else bias_of(offset, held.shape[0])
    convolution = replace(describe_convolution(layer), bias=bias is not None, relu=relu, scale=scale)
    given = get_planned_place(places.streamed), places.resident
    if places.thinning is None:
        return (convolution_step(convolution, held, bias, given),)
    whole = thinned_convolution(convolution, places.thinning)
    given = places.thinning.streamed, places.thinning.resident
    return (
        convolution_step(whole, held, bias, given),
        *thinning_steps(convolution.result, convolution.stride, places.thinning),
    )


def convolution_step(
    convolution: Convolution,
    weights: NDArray[np.float16],
    bias: NDArray[np.float16] | None,
    places: tuple[TaskPlace, TaskPlace | None],
) -> Step:
    """Return the step of a convolution whose source streams through, or stays, in the places of the plan."""
    kernel_plans(convolution)

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, _: int) -> tuple[Draft, ...]:
        blocks = pack_kernel(convolution, weights, bias)
        place = pool.add(block for part in blocks for block in part)
        sizes = [[len(block) for block in part] for part in blocks]
        groups = 1 if convolution.depthwise else convolution.groups
        grouped = [replace(one, group=one.depth // groups) for one in (sources[0], result)]
        return convolution_tasks(convolution, places, grouped[0], grouped[1], sizes=sizes, kernel_at=place)

    return Step(convolution.result, emit)


def describe_convolution(layer: Layer) -> Convolution:
    """Return the convolution of a layer; one of only rows has one row.

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


def square_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of squares: a product of a tensor with itself."""
    extent, place = core_extent(layer), get_planned_place(places.pair)
    return (Step(extent, lambda given, to, _, __: (binary_task("mul", extent, place, given[0], given[0], to),)),)


def division_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the step of a quotient of two tensors.

    Raises:
        HwxError: One is a constant, or both are repeated.
    """
    first, second = layer.operand("x"), layer.operand("y")
    if not isinstance(first, Value) or not isinstance(second, Value) or first == second:
        raise HwxError("ANE-EMIT-011: no program that divides by, or into, a constant is known")
    whole, extents = core_extent(layer), [extent_of(one.type) for one in (first, second)]
    if whole not in extents:
        raise HwxError("ANE-EMIT-011: no program that repeats both tensors is known", seen=extents)

    def emit(sources: Sequence[Surface], result: Surface, pool: ConstantPool, room: int) -> tuple[Draft, ...]:
        surfaces = sources[0], sources[1], result
        return division_tasks(extents, whole, places, surfaces, pool, Scratch(room))

    return (Step(whole, emit, surface_of(extents[1], 0).depth),)


def gain_layer_steps(layer: Layer, places: LayerPlaces) -> tuple[Step, ...]:
    """Return the steps of a gain or an offset that is a layer of its own."""
    return gain_steps(layer.operands, core_extent(layer), places)


MAKERS: Mapping[str, Callable[[Layer, LayerPlaces], tuple[Step, ...]]] = {
    "reduce_sum": reduction_steps,
    "reduce_avg": reduction_steps,
    "reduce_max": reduction_steps,
    "reduce_min": reduction_steps,
    "sqr": square_steps,
    "div": division_steps,
    "layer_norm": layer_norm_steps,
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
