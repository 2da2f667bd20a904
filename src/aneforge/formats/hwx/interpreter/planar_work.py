"""What a task of the planar engine computes: elements and pairs of them, reductions, and the use of statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.formats.hwx.descriptors.meaning import TaskOperation
from aneforge.formats.hwx.interpreter.steps import Elements, Normalisation, PairReduction, Reduction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.formats.hwx.descriptors.meaning import Planar
    from aneforge.formats.hwx.interpreter.steps import PlanarWork
    from aneforge.formats.hwx.interpreter.task_reader import TaskReader

__all__ = ["planar_work"]

EXPECTED_PLANAR: Mapping[str, float] = {"pe.pre_scale": 1}


def planar_work(reader: TaskReader) -> PlanarWork:
    """Return what a task of the planar engine computes.

    Raises:
        HwxError: It is not understood.
    """
    reader.expect(EXPECTED_PLANAR)
    works: Mapping[TaskOperation, Callable[[TaskReader], PlanarWork]] = {
        TaskOperation.UNARY: elements_of,
        TaskOperation.BINARY: elements_of,
        TaskOperation.REDUCE: reduction_of,
        TaskOperation.REDUCE_PAIR: pair_reduction_of,
        TaskOperation.NORMALISE: normalisation_of,
    }
    if reader.meaning.operation not in works:
        seen = reader.task.integer("common.task_type")
        raise reader.refuse("common.task_type", "the operation is not known", seen=seen)
    return works[reader.meaning.operation](reader)


def planar_of(reader: TaskReader) -> Planar:
    """Return what the planar engine's registers say, which every task of it has."""
    return cast("Planar", reader.meaning.planar)


def elements_of(reader: TaskReader) -> Elements:
    """Return work of the planar engine on elements.

    Raises:
        HwxError: The operation is not known.
    """
    planar = planar_of(reader)
    two = reader.meaning.operation is TaskOperation.BINARY
    if planar.operation == "unknown" or (not two and planar.operation != "add"):
        raise reader.refuse(
            "pe.planar_operation", "the operation is not known", seen=reader.task.integer("pe.planar_operation")
        )
    reader.expect({"pe.final_scale": 1, "pe.source2_tensor": int(two), "pe.reduce_kind": 0})
    expect_function(reader)
    return Elements(
        planar.operation,
        (planar.negate_source1, planar.negate_source2),
        planar.absolute,
        planar.scale,
        planar.bias,
        planar.epsilon,
        planar.post_function,
        planar.relu,
    )


def expect_function(reader: TaskReader) -> None:
    """Raise the error for a function that is not known."""
    planar = planar_of(reader)
    if planar.post_function == "unknown":
        raise reader.refuse(
            "pe.post_function", "the function is not known", seen=reader.task.integer("pe.post_function")
        )


def reduction_of(reader: TaskReader) -> Reduction:
    """Return a reduction.

    Raises:
        HwxError: Its kind is not known.
    """
    planar = planar_of(reader)
    if planar.reduce == "unknown":
        raise reader.refuse(
            "pe.reduce_kind", "the kind of reduction is not known", seen=reader.task.integer("pe.reduce_kind")
        )
    reader.expect({"pe.scale": 1, "pe.bias": 0, "pe.planar_operation": 0, "pe.absolute": 0, "pe.relu": 0})
    reader.expect({"pe.negate_source1": 0, "pe.negate_source2": 0, "pe.source2_tensor": 0})
    expect_function(reader)
    return Reduction(planar.reduce, order_of(reader, 1), planar.final_scale, planar.epsilon, planar.post_function)


def pair_reduction_of(reader: TaskReader) -> PairReduction:
    """Return a reduction of a function of two sources.

    Raises:
        HwxError: The function is not known.
    """
    planar = planar_of(reader)
    if planar.operation not in {"add", "mul", "square of sum"}:
        raise reader.refuse(
            "pe.planar_operation", "the operation is not known", seen=reader.task.integer("pe.planar_operation")
        )
    reader.expect({"pe.scale": 1, "pe.bias": 0, "pe.reduce_kind": 0, "pe.absolute": 0, "pe.relu": 0})
    reader.expect({"pe.source2_tensor": 1})
    expect_function(reader)
    negated = planar.negate_source1, planar.negate_source2
    order = order_of(reader, 2 if reader.meaning.sources[0].repeated else 1)
    return PairReduction(planar.operation, negated, order, planar.final_scale, planar.epsilon, planar.post_function)


def normalisation_of(reader: TaskReader) -> Normalisation:
    """Return the use of statistics.

    Raises:
        HwxError: A register asks for more than that.
    """
    own = {"scale": 1, "bias": 0, "final_scale": 1, "epsilon": 0, "planar_operation": 0, "absolute": 0, "relu": 0}
    reader.expect({f"pe.{name}": value for name, value in own.items()})
    reader.expect({"pe.negate_source1": 0, "pe.negate_source2": 1, "pe.source2_tensor": 1, "pe.post_function": 0})
    return Normalisation()


def order_of(reader: TaskReader, number: int) -> tuple[int, ...]:
    """Return the axes of the plane, that of the largest stride first: a sum follows the memory of its source."""
    view = reader.source(number, reader.meaning.sources[number - 1]).view
    return tuple(sorted((2, 3, 4), key=lambda axis: (-view.strides[axis], axis)))
