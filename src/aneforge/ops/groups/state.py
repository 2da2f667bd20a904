"""State that outlives a call, and the buffers that hold it, as functions of their contents.

A state is here the tensor that it holds. Reading gives the contents; writing gives the contents after the write, and it
is for the program that holds the state to keep them.
"""

from __future__ import annotations

import numpy as np

from aneforge.errors import GraphError
from aneforge.ops.op import Basis, MilStatus, Op, Support
from aneforge.ops.sampling import Chooser, Fill, Sample, shape
from aneforge.ops.shapes import common_dtype, normalised_axis
from aneforge.ops.signature import Attribute, AttributeKind, Operand, OperandKind
from aneforge.ops.types import Array, TensorType

CATEGORY = "state"
OFFSET = Attribute("offset", AttributeKind.INTEGER, 0)
AXIS = Attribute("axis", AttributeKind.INTEGER, 0)
MOVER = Support(floor=2, mil_since=None, mil_otherwise=MilStatus.INTERNAL)
LIKELY_MOVER = Support(floor=2, basis=Basis.LIKELY, mil_since=None, mil_otherwise=MilStatus.INTERNAL)


def own_type(x: TensorType) -> TensorType:
    """Return the type of the contents: the operand's own."""
    return x


def contents(x: Array) -> Array:
    """Return the contents as they are."""
    return x


def written_type(input: TensorType, data: TensorType) -> TensorType:  # noqa: A002 - MIL's name
    """Return the type of the state, which what is written must have."""
    if data != input:
        raise GraphError("what is written is not of the state's type", seen=data, limit=input)
    return input


def written(input: Array, data: Array) -> Array:  # noqa: A002, ARG001 - MIL's name; the old contents are gone
    """Return the contents after the write."""
    return data


def circular_read_type(buffer: TensorType, *, offset: int, axis: int) -> TensorType:  # noqa: ARG001 - the offset does not change the type
    """Return the type of the contents."""
    normalised_axis(axis, buffer.rank)
    return buffer


def circular_read(buffer: Array, *, offset: int, axis: int) -> Array:
    """Read all of a circular buffer from an offset on; behind its end it begins again."""
    return np.roll(buffer, -offset, axis)


def circular_write_type(buffer: TensorType, x: TensorType, *, offset: int, axis: int) -> TensorType:  # noqa: ARG001 - the offset does not change the type
    """Return the type of the buffer, which must have room for what is written."""
    common_dtype(buffer, x)
    if x.rank != buffer.rank:
        raise GraphError("buffer and tensor have different ranks", seen=x.rank, limit=buffer.rank)
    along = normalised_axis(axis, buffer.rank)
    room = [(one == along and extent <= room) or extent == room for one, (extent, room) in enumerate(pairs(x, buffer))]
    if not all(room):
        raise GraphError(
            "the tensor does not fit the buffer",
            seen=list(x.shape),
            limit=f"{list(buffer.shape)}, less along axis {along}",
        )
    return buffer


def pairs(x: TensorType, buffer: TensorType) -> list[tuple[int, int]]:
    """Return the lengths of two tensors along each axis."""
    return list(zip(x.shape, buffer.shape, strict=True))


def circular_write(buffer: Array, x: Array, *, offset: int, axis: int) -> Array:
    """Write into a circular buffer from an offset on; behind its end it begins again."""
    result = np.moveaxis(buffer.copy(), axis, 0)
    if len(result):
        result[(offset + np.arange(x.shape[axis])) % len(result)] = np.moveaxis(x, axis, 0)
    return np.moveaxis(result, 0, axis)


def drawn(chooser: Chooser) -> Fill:
    """Draw the contents of a state."""
    return Fill(TensorType(shape(chooser), chooser.choose(["fp16", "fp32", "int32"])))


def sample_read_state(chooser: Chooser) -> Sample:
    """Draw a state to read."""
    return Sample({"input": drawn(chooser)})


def sample_write_state(chooser: Chooser) -> Sample:
    """Draw a state and its new contents."""
    state = drawn(chooser)
    return Sample({"input": state, "data": Fill(state.type)})


def sample_buffer(chooser: Chooser) -> Sample:
    """Draw a buffer."""
    return Sample({"buffer": drawn(chooser)})


def sample_tensor(chooser: Chooser) -> Sample:
    """Draw a tensor to put into a buffer."""
    return Sample({"x": drawn(chooser)})


def sample_circular_read(chooser: Chooser) -> Sample:
    """Draw a buffer and where to begin, also before its begin or behind its end."""
    buffer = drawn(chooser)
    axis = chooser.integer(-buffer.type.rank, buffer.type.rank - 1)
    return Sample({"buffer": buffer}, {"offset": chooser.integer(-7, 7), "axis": axis})


def sample_circular_write(chooser: Chooser) -> Sample:
    """Draw a buffer and something that fits into it."""
    buffer = drawn(chooser)
    axis = chooser.integer(-buffer.type.rank, buffer.type.rank - 1)
    along = axis % buffer.type.rank
    extents = [chooser.integer(1, extent) if one == along else extent for one, extent in enumerate(buffer.type.shape)]
    return Sample(
        {"buffer": buffer, "x": Fill(buffer.type.with_shape(*extents))},
        {"offset": chooser.integer(-7, 7), "axis": axis},
    )


READ_STATE = Op(
    name="read_state",
    category=CATEGORY,
    summary="contents of the state",
    operands=(Operand("input", OperandKind.TENSOR),),
    infer=own_type,
    meaning=contents,
    sample=sample_read_state,
    opset="ios18",
    support=Support(floor=2),
)
WRITE_STATE = Op(
    name="write_state",
    category=CATEGORY,
    summary="data, which the state holds from then on",
    operands=(Operand("input", OperandKind.TENSOR), Operand("data")),
    infer=written_type,
    meaning=written,
    sample=sample_write_state,
    opset="ios18",
    support=Support(floor=2),
)
TENSOR_BUFFER_TO_TENSOR = Op(
    name="tensor_buffer_to_tensor",
    category=CATEGORY,
    summary="contents of the buffer",
    operands=(Operand("buffer"),),
    infer=own_type,
    meaning=contents,
    sample=sample_buffer,
    opset="ios18",
    support=MOVER,
)
TENSOR_TO_TENSOR_BUFFER = Op(
    name="tensor_to_tensor_buffer",
    category=CATEGORY,
    summary="a buffer that holds x",
    operands=(Operand("x"),),
    infer=own_type,
    meaning=contents,
    sample=sample_tensor,
    opset="ios18",
    support=LIKELY_MOVER,
)
CIRCULAR_BUFFER_TO_TENSOR = Op(
    name="circular_buffer_to_tensor",
    category=CATEGORY,
    summary="buffer[(offset + i) mod length] along an axis",
    operands=(Operand("buffer"),),
    attributes=(OFFSET, AXIS),
    infer=circular_read_type,
    meaning=circular_read,
    sample=sample_circular_read,
    opset="ios18",
    support=MOVER,
)
TENSOR_TO_CIRCULAR_BUFFER = Op(
    name="tensor_to_circular_buffer",
    category=CATEGORY,
    summary="the buffer with x[i] at (offset + i) mod length along an axis",
    operands=(Operand("buffer"), Operand("x")),
    attributes=(OFFSET, AXIS),
    infer=circular_write_type,
    meaning=circular_write,
    sample=sample_circular_write,
    opset="ios18",
    support=MOVER,
)
