"""State that outlives a call, and the buffers that hold it, as functions of their contents.

A state is here the tensor that it holds. Reading gives the contents; writing gives the contents after the write, and it
is for the program that holds the state to keep them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import gradients
from aneforge.ops.arithmetic import return_unchanged
from aneforge.ops.common import F2, axis_attribute
from aneforge.ops.op import Basis, Category, MilStatus, Op, Support, Trait
from aneforge.ops.results import Movement
from aneforge.ops.sampling import NUMBERS, Chooser, Fill, Sample, draw_axis, draw_type
from aneforge.ops.shapes import common_dtype, normalise_axis, own_type
from aneforge.ops.signature import Attribute, AttributeKind, Operand, OperandKind

if TYPE_CHECKING:
    from aneforge.ops.types import Array, TensorType

CATEGORY = Category.STATE
PASSING_A_STATE = frozenset({Trait.PASSING_A_STATE})
OFFSET = Attribute("offset", AttributeKind.INTEGER, 0)
AXIS = axis_attribute(0)
MOVER = Support(floor=2, mil_since=None, mil_otherwise=MilStatus.INTERNAL)
LIKELY_MOVER = Support(floor=2, basis=Basis.LIKELY, mil_since=None, mil_otherwise=MilStatus.INTERNAL)


def written_type(state: TensorType, data: TensorType) -> TensorType:
    """Return the type of the state, which what is written must have."""
    if data != state:
        raise GraphError("the written value is not of the state's type", seen=data, limit=state)
    return state


def write_contents(_: Array, data: Array) -> Array:
    """Return the contents after the write; the old ones are gone."""
    return data


def circular_read_type(buffer: TensorType, *, axis: int, **_: object) -> TensorType:
    """Return the type of the contents."""
    normalise_axis(axis, buffer.rank)
    return buffer


def circular_read(buffer: Array, *, offset: int, axis: int) -> Array:
    """Read all of a circular buffer from an offset on; after its end it begins again."""
    return np.roll(buffer, -offset, axis)


def circular_write_type(buffer: TensorType, x: TensorType, *, axis: int, **_: object) -> TensorType:
    """Return the type of the buffer, which must have room for what is written."""
    common_dtype(buffer, x)
    if x.rank != buffer.rank:
        raise GraphError("buffer and tensor have different ranks", seen=x.rank, limit=buffer.rank)
    along = normalise_axis(axis, buffer.rank)
    lengths = enumerate(zip(x.shape, buffer.shape, strict=True))
    if not all(extent <= room if place == along else extent == room for place, (extent, room) in lengths):
        raise GraphError(
            "the tensor does not fit the buffer",
            seen=list(x.shape),
            limit=f"{list(buffer.shape)}, less along axis {along}",
        )
    return buffer


def circular_write(buffer: Array, x: Array, *, offset: int, axis: int) -> Array:
    """Write into a circular buffer from an offset on; after its end it begins again."""
    result = np.moveaxis(buffer.copy(), axis, 0)
    if len(result):
        result[(offset + np.arange(x.shape[axis])) % len(result)] = np.moveaxis(x, axis, 0)
    return np.moveaxis(result, 0, axis)


def draw_contents(chooser: Chooser) -> Fill:
    """Draw the contents of a state."""
    return Fill(draw_type(chooser, NUMBERS))


def sample_read_state(chooser: Chooser) -> Sample:
    """Draw a state to read."""
    return Sample({"input": draw_contents(chooser)})


def sample_write_state(chooser: Chooser) -> Sample:
    """Draw a state and its new contents."""
    state = draw_contents(chooser)
    return Sample({"input": state, "data": Fill(state.type)})


def sample_buffer(chooser: Chooser) -> Sample:
    """Draw a buffer."""
    return Sample({"buffer": draw_contents(chooser)})


def sample_tensor(chooser: Chooser) -> Sample:
    """Draw a tensor to put into a buffer."""
    return Sample({"x": draw_contents(chooser)})


def sample_circular_read(chooser: Chooser) -> Sample:
    """Draw a buffer and where to begin, also before its begin or after its end."""
    buffer = draw_contents(chooser)
    axis = draw_axis(chooser, buffer.type.rank)
    return Sample({"buffer": buffer}, {"offset": chooser.integer(-7, 7), "axis": axis})


def sample_circular_write(chooser: Chooser) -> Sample:
    """Draw a buffer and something that fits into it."""
    buffer = draw_contents(chooser)
    axis = draw_axis(chooser, buffer.type.rank)
    along = axis % buffer.type.rank
    extents = [chooser.integer(1, extent) if one == along else extent for one, extent in enumerate(buffer.type.shape)]
    return Sample(
        {"buffer": buffer, "x": Fill(buffer.type.with_shape(*extents))},
        {"offset": chooser.integer(-7, 7), "axis": axis},
    )


READ_STATE = Op(
    name="read_state",
    category=CATEGORY,
    summary="the contents of the state",
    operands=(Operand("input", OperandKind.TENSOR),),
    infer=own_type,
    meaning=return_unchanged,
    sample=sample_read_state,
    traits=PASSING_A_STATE,
    movement=Movement(("input",)),
    opset="ios18",
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.pointwise.UNCHANGED,
)
WRITE_STATE = Op(
    name="write_state",
    category=CATEGORY,
    summary="data, which the state holds from then on",
    operands=(Operand("input", OperandKind.TENSOR), Operand("data")),
    infer=written_type,
    meaning=write_contents,
    sample=sample_write_state,
    movement=Movement(("data",)),
    opset="ios18",
    support=F2,
    in_mil=True,
    gradient=lambda: gradients.moving.STORED,
)
TENSOR_BUFFER_TO_TENSOR = Op(
    name="tensor_buffer_to_tensor",
    category=CATEGORY,
    summary="the contents of the buffer",
    operands=(Operand("buffer"),),
    infer=own_type,
    meaning=return_unchanged,
    sample=sample_buffer,
    traits=PASSING_A_STATE,
    movement=Movement(("buffer",)),
    opset="ios18",
    support=MOVER,
    in_mil=True,
    gradient=lambda: gradients.pointwise.UNCHANGED,
)
TENSOR_TO_TENSOR_BUFFER = Op(
    name="tensor_to_tensor_buffer",
    category=CATEGORY,
    summary="a buffer that holds x",
    operands=(Operand("x"),),
    infer=own_type,
    meaning=return_unchanged,
    sample=sample_tensor,
    traits=PASSING_A_STATE,
    movement=Movement(),
    opset="ios18",
    support=LIKELY_MOVER,
    in_mil=True,
    gradient=lambda: gradients.pointwise.UNCHANGED,
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
    movement=Movement(("buffer",)),
    opset="ios18",
    support=MOVER,
    in_mil=True,
    gradient=lambda: gradients.moving.TURNED_BUFFER,
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
    traits=PASSING_A_STATE,
    movement=Movement(("buffer", "x")),
    opset="ios18",
    support=MOVER,
    in_mil=True,
    gradient=lambda: gradients.moving.WRITTEN_BUFFER,
)
