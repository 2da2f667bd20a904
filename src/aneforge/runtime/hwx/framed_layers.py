"""Layers of later generations: a single task in its program, where a layer is one elementwise operation.

No program of several tasks of these generations was read, nor a whole file; what was, and what is inferred, is said in
`emission.framed_tasks` and in the identification text of the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.ir.layer import Value
from aneforge.errors import HwxError
from aneforge.formats.hwx.assembly import NO_CONSTANTS
from aneforge.formats.hwx.emission.activation_tables import line_bytes, line_table, table_bytes
from aneforge.formats.hwx.emission.framed_tasks import build_framed_binary, build_framed_table, framed_one_source
from aneforge.formats.hwx.emission.planar_tasks import OPERATIONS
from aneforge.records import dataclass
from aneforge.runtime.hwx.layer_steps import PAIRS, TABLES, check_types
from aneforge.runtime.hwx.step import core_extent, extent_of, scalar_of

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.formats.hwx.descriptors.task import Task
    from aneforge.formats.hwx.emission.surfaces import Extent

__all__ = ["SingleTask", "single_task"]


@dataclass(frozen=True, slots=True)
class SingleTask:
    """The task of a layer, what it reads in the order of its base registers, and its constants."""

    task: Task
    sources: tuple[Value, ...]
    constants: bytes = NO_CONSTANTS


KINDS = frozenset({*PAIRS, *TABLES, "relu", "abs", "rsqrt", "leaky_relu", "gain_offset_control"})
"""Kinds of layers that are one task."""


def single_task(layer: Layer, generation: int) -> SingleTask:
    """Return a layer as one task of a later generation.

    Raises:
        HwxError: No program of one task computes it; the message begins with the id of a rule.
    """
    check_types(layer)
    if layer.kind.name not in KINDS:
        raise HwxError("ANE-EMIT-010: no program of this operation of the generation is known", seen=layer.kind.name)
    stages = [slot.value for slot, _ in layer.epilogue]
    if stages:
        raise several_tasks(", ".join(stages))
    if layer.kind.name in PAIRS:
        return pair_task(layer, generation)
    return one_tensor_task(layer, generation)


def several_tasks(seen: object) -> HwxError:
    """Return the error for a layer that is more than one task."""
    return HwxError("ANE-EMIT-010: no program of several tasks of the generation is known", seen=seen)


def one_tensor_task(layer: Layer, generation: int) -> SingleTask:
    """Return the task of an operation of one tensor."""
    extent, (source, *_) = core_extent(layer), layer.bottoms or (None,)
    if source is None:
        raise several_tasks(layer.kind.name)
    match layer.kind.name:
        case "relu":
            return SingleTask(build_framed_table(generation, extent, table=False), (source,))
        case "abs":
            return SingleTask(framed_one_source(generation, extent, {"pe.absolute": 1}), (source,))
        case "rsqrt":
            epsilon = layer.number("epsilon")
            return with_table(generation, extent, source, table_bytes("rsqrt"), epsilon=epsilon)
        case "leaky_relu":
            return with_table(generation, extent, source, line_bytes(line_table("leaky_relu", layer.number("alpha"))))
        case "gain_offset_control":
            given = {name: scalar_of(layer.operands[name]) for name in GAINS if layer.operands.get(name) is not None}
            if len(given) != 1:
                raise HwxError("ANE-EMIT-011: no program of the generation with a gain and an offset is known")
            ((name, number),) = given.items()
            return SingleTask(framed_one_source(generation, extent, {GAINS[name]: number}), (source,))
        case name:
            return with_table(generation, extent, source, table_bytes(TABLES[name]))


GAINS = {"gain": "pe.scale", "offset": "pe.bias"}


def with_table(
    generation: int, extent: Extent, source: Value, table: bytes, *, epsilon: float | None = None
) -> SingleTask:
    """Return the task of a table, which is its only constant."""
    return SingleTask(build_framed_table(generation, extent, table=True, epsilon=epsilon), (source,), table)


def pair_task(layer: Layer, generation: int) -> SingleTask:
    """Return the task of two tensors, or of a tensor and a number.

    Raises:
        HwxError: A constant is a tensor, a tensor meets itself, or the first one is repeated and the order matters.
    """
    operation, whole = PAIRS[layer.kind.name], core_extent(layer)
    first, second = layer.operand("x"), layer.operand("y")
    if isinstance(first, Value) and isinstance(second, Value):
        return SingleTask(*tensors_task(operation, whole, first, second, generation))
    value, constant = (first, second) if isinstance(first, Value) else (second, first)
    if not isinstance(value, Value) or extent_of(value.type) != whole:
        raise HwxError("ANE-EMIT-011: no program that repeats a tensor for a constant is known")
    if operation not in {"maximum", "minimum"}:
        raise HwxError("ANE-EMIT-011: no program of this operation with a constant is known", seen=operation)
    return with_table(generation, whole, value, line_bytes(line_table(operation, scalar_of(constant))))


def tensors_task(
    operation: str, whole: Extent, first: Value, second: Value, generation: int
) -> tuple[Task, tuple[Value, Value]]:
    """Return the task of two tensors, and these: the one that is repeated is read second."""
    if first == second:
        raise HwxError("ANE-EMIT-011: no program of the generation that reads one tensor twice is known")
    if extent_of(first.type) != whole and operation != "sub":
        first, second = second, first
    if extent_of(first.type) != whole:
        raise HwxError("ANE-EMIT-011: no program that repeats this tensor is known", seen=extent_of(first.type))
    task = build_framed_binary(generation, OPERATIONS[operation], whole, extent_of(second.type))
    return task, (first, second)
