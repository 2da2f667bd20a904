"""Operations that reverse a tensor."""

from __future__ import annotations

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import AXES, DECOMPOSED, LIKELY_F2
from aneforge.ops.op import Category, Op, Surface
from aneforge.ops.results import Movement
from aneforge.ops.sampling import Chooser, Fill, Sample, draw_any, draw_shape
from aneforge.ops.shapes import expect_integer, expect_one_each, expect_within, normalise_axes, normalise_axis
from aneforge.ops.signature import Attribute, AttributeKind, Operand
from aneforge.ops.types import Array, TensorType

CATEGORY = Category.STRUCTURAL


def reverse_type(x: TensorType, *, axes: tuple[int, ...] | None) -> TensorType:
    """Return the same type."""
    if axes is not None:
        normalise_axes(axes, x.rank)
    return x


def reverse(x: Array, *, axes: tuple[int, ...] | None) -> Array:
    """Return a tensor backwards along axes, all axes by default."""
    return np.flip(x, axes)


def sample_reverse(chooser: Chooser) -> Sample:
    """Draw axes, counted from either side."""
    shape = draw_shape(chooser)
    axes = chooser.choose([None, (), (0,), (-1,), tuple(range(len(shape)))])
    return Sample({"x": draw_any(chooser, shape)}, {"axes": axes})


def reverse_sequence_type(x: TensorType, lengths: TensorType, *, seq_axis: int, batch_axis: int) -> TensorType:
    """Return the same type."""
    along, batch = (normalise_axis(axis, x.rank) for axis in (seq_axis, batch_axis))
    if along == batch:
        raise GraphError("seq_axis and batch_axis are one axis", seen=along)
    expect_integer(lengths, "lengths")
    expect_one_each(lengths, x.shape[batch], "sequence", "lengths")
    return x


def reverse_sequence(x: Array, lengths: Array, *, seq_axis: int, batch_axis: int) -> Array:
    """Reverse the first elements of every sequence, as many as its length says.

    Raises:
        GraphError: A sequence is longer than the axis.
    """
    longest: int = x.shape[seq_axis]
    expect_within(lengths, 0, longest, "a sequence does not fit the axis")
    place = np.arange(longest)
    count = lengths.astype(np.int64)[:, None]
    source = np.where(place < count, count - 1 - place, place)
    if batch_axis % x.ndim > seq_axis % x.ndim:
        source = source.T
    others = tuple(axis for axis in range(x.ndim) if axis not in (seq_axis % x.ndim, batch_axis % x.ndim))
    return np.take_along_axis(x, np.expand_dims(source, others), seq_axis)


def sample_reverse_sequence(chooser: Chooser) -> Sample:
    """Draw sequences of every length, in both orders of the axes."""
    shape = draw_shape(chooser, 2)
    seq_axis = chooser.integer(0, len(shape) - 1)
    batch_axis = (seq_axis + chooser.integer(1, len(shape) - 1)) % len(shape)
    lengths = Fill(TensorType((shape[batch_axis],), "int32"), 0, shape[seq_axis])
    attributes = {"seq_axis": seq_axis - chooser.choose([0, len(shape)]), "batch_axis": batch_axis}
    return Sample({"x": draw_any(chooser, shape), "lengths": lengths}, attributes)


REVERSE = Op(
    name="reverse",
    category=CATEGORY,
    summary="x backwards along the given axes, or along all of them",
    operands=(Operand("x"),),
    attributes=(AXES,),
    infer=reverse_type,
    meaning=reverse,
    sample=sample_reverse,
    movement=Movement(),
    surface=Surface.FUSED,
    support=LIKELY_F2,
    in_mil=True,
    gradient=lambda: gradients.moving.REVERSED,
)
REVERSE_SEQUENCE = Op(
    name="reverse_sequence",
    category=CATEGORY,
    summary="x with the first lengths[i] elements of sequence i backwards",
    operands=(Operand("x"), Operand("lengths")),
    attributes=(Attribute("seq_axis", AttributeKind.INTEGER, 0), Attribute("batch_axis", AttributeKind.INTEGER, 0)),
    infer=reverse_sequence_type,
    meaning=reverse_sequence,
    sample=sample_reverse_sequence,
    movement=Movement(),
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.placing.TURNED,),
    in_mil=True,
    gradient=lambda: gradients.moving.REVERSED_SEQUENCE,
)
