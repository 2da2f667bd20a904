"""Operations that join tensors, part one, or repeat one."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import F2, axis_attribute
from aneforge.ops.op import Basis, Category, Op, Support, Surface, Trait
from aneforge.ops.results import Movement
from aneforge.ops.sampling import Chooser, Fill, Sample, draw_any, draw_axis, draw_shape
from aneforge.ops.shapes import common_dtype, divisible, expect_entries, normalise_axis
from aneforge.ops.signature import Attribute, AttributeKind, Operand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.ops.types import Array, TensorType

CATEGORY = Category.STRUCTURAL
VALUES = (Operand("values", variadic=True),)


def joined_rank(values: Sequence[TensorType]) -> int:
    """Return the rank that all tensors of a list share.

    Raises:
        GraphError: The list is empty, or the tensors have several ranks or element types.
    """
    if not values:
        raise GraphError("there is nothing to join", seen="no tensors", limit="one or more")
    common_dtype(*values)
    ranks = {value.rank for value in values}
    if len(ranks) > 1:
        raise GraphError("the tensors have different ranks", seen=", ".join(str(list(value.shape)) for value in values))
    return values[0].rank


def concat_type(values: tuple[TensorType, ...], *, axis: int, interleave: bool) -> TensorType:
    """Return the type of tensors joined along an axis that they have."""
    along = normalise_axis(axis, joined_rank(values))
    first = values[0].shape
    for value in values[1:]:
        differing = [place for place, (a, b) in enumerate(zip(first, value.shape, strict=True)) if a != b]
        if interleave and differing:
            raise GraphError("interleaved tensors have different shapes", seen=list(value.shape), limit=list(first))
        if any(place != along for place in differing):
            raise GraphError(
                f"the tensors differ along a different axis than {along}, on which they are joined",
                seen=f"{list(first)} and {list(value.shape)}",
            )
    total = sum(value.shape[along] for value in values)
    return values[0].with_shape(*first[:along], total, *first[along + 1 :])


def concat(values: tuple[Array, ...], *, axis: int, interleave: bool) -> Array:
    """Join along an axis; interleaved, take one entry of every tensor in turn."""
    if not interleave:
        return np.concatenate(values, axis)
    along = axis % values[0].ndim
    shape = list(values[0].shape)
    shape[along] *= len(values)
    return np.stack(values, along + 1).reshape(shape)


def sample_concat(chooser: Chooser) -> Sample:
    """Draw one to three tensors that differ along the axis, or are alike for interleaving."""
    first = draw_any(chooser, draw_shape(chooser)).type
    axis = draw_axis(chooser, first.rank)
    interleave = chooser.choose([False, True])
    extents = [first.shape[axis]] + [chooser.integer(1, 4) for _ in range(chooser.integer(0, 2))]
    along = axis % first.rank
    values = tuple(
        Fill(first if interleave else first.with_shape(*first.shape[:along], extent, *first.shape[along + 1 :]))
        for extent in extents
    )
    return Sample({"values": values}, {"axis": axis, "interleave": interleave})


def stack_type(values: tuple[TensorType, ...], *, axis: int) -> TensorType:
    """Return the type of tensors joined along a new axis."""
    along = normalise_axis(axis, joined_rank(values) + 1)
    first = values[0].shape
    for value in values:
        if value.shape != first:
            raise GraphError("stacked tensors have different shapes", seen=list(value.shape), limit=list(first))
    return values[0].with_shape(*first[:along], len(values), *first[along:])


def stack(values: tuple[Array, ...], *, axis: int) -> Array:
    """Join along a new axis."""
    return np.stack(values, axis)


def sample_stack(chooser: Chooser) -> Sample:
    """Draw one to three tensors of one type."""
    one = draw_any(chooser, draw_shape(chooser, 1, 3))
    values = (one,) * chooser.integer(1, 3)
    return Sample({"values": values}, {"axis": chooser.integer(-one.type.rank - 1, one.type.rank)})


def part_sizes(extent: int, num_splits: int | None, split_sizes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the lengths of the parts of an axis.

    Raises:
        GraphError: Nothing says how to part, two things say different, or the parts do not make up the axis.
    """
    if split_sizes is None:
        if num_splits is None:
            raise GraphError("neither num_splits nor split_sizes is given", remedy="give num_splits or split_sizes")
        return (divisible("the axis to split", extent, num_splits),) * num_splits
    if num_splits not in (None, len(split_sizes)):
        raise GraphError("num_splits is not the number of split_sizes", seen=num_splits, limit=len(split_sizes))
    if sum(split_sizes) != extent:
        raise GraphError("split_sizes do not make up the axis", seen=sum(split_sizes), limit=extent)
    return split_sizes


def split_type(
    x: TensorType, *, num_splits: int | None, split_sizes: tuple[int, ...] | None, axis: int
) -> tuple[TensorType, ...]:
    """Return the types of the parts."""
    along = normalise_axis(axis, x.rank)
    sizes = part_sizes(x.shape[along], num_splits, split_sizes)
    return tuple(x.with_shape(*x.shape[:along], size, *x.shape[along + 1 :]) for size in sizes)


def split(x: Array, *, num_splits: int | None, split_sizes: tuple[int, ...] | None, axis: int) -> tuple[Array, ...]:
    """Return the parts of a tensor along an axis."""
    sizes = part_sizes(x.shape[axis], num_splits, split_sizes)
    bounds = accumulate(sizes, initial=0)
    return tuple(np.take(x, range(begin, end), axis) for begin, end in pairwise(bounds))


def sample_split(chooser: Chooser) -> Sample:
    """Draw equal parts, or sizes of one to three parts."""
    shape = list(draw_shape(chooser))
    axis = draw_axis(chooser, len(shape))
    sizes = tuple(chooser.integer(1, 3) for _ in range(chooser.integer(1, 3)))
    if chooser.choose([True, False]):
        shape[axis] = sizes[0] * len(sizes)
        return Sample({"x": draw_any(chooser, shape)}, {"num_splits": len(sizes), "axis": axis})
    shape[axis] = sum(sizes)
    count = chooser.choose([None, len(sizes)])
    return Sample({"x": draw_any(chooser, shape)}, {"num_splits": count, "split_sizes": sizes, "axis": axis})


def tile_type(x: TensorType, *, reps: tuple[int, ...]) -> TensorType:
    """Return the type of a repeated tensor."""
    expect_entries("reps", reps, x.rank, "axis")
    return x.with_shape(*(extent * times for extent, times in zip(x.shape, reps, strict=True)))


def tile(x: Array, *, reps: tuple[int, ...]) -> Array:
    """Return a tensor repeated along every axis."""
    return np.tile(x, reps)


def sample_tile(chooser: Chooser) -> Sample:
    """Draw a repetition."""
    old = draw_shape(chooser, longest=3)
    return Sample({"x": draw_any(chooser, old)}, {"reps": tuple(chooser.integer(1, 3) for _ in old)})


CONCAT = Op(
    name="concat",
    category=CATEGORY,
    summary="the tensors one after another along an axis; interleaved, one entry of each in turn",
    operands=VALUES,
    attributes=(
        axis_attribute(),
        Attribute("interleave", AttributeKind.FLAG, default=False),
    ),
    infer=concat_type,
    meaning=concat,
    sample=sample_concat,
    movement=Movement(("values",)),
    surface=Surface.FUSED,
    support=Support(floor=0, basis=Basis.SYMBOL),
    in_mil=True,
    gradient=lambda: gradients.moving.JOINED,
)
STACK = Op(
    name="stack",
    category=CATEGORY,
    summary="the tensors side by side along a new axis",
    operands=VALUES,
    attributes=(axis_attribute(),),
    infer=stack_type,
    meaning=stack,
    sample=sample_stack,
    movement=Movement(("values",)),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.movement.STACKED_BY_CONCAT,),
    in_mil=True,
    gradient=lambda: gradients.moving.STACKED,
)
SPLIT = Op(
    name="split",
    category=CATEGORY,
    summary="the parts of x along an axis: num_splits equal ones, or of the lengths split_sizes",
    operands=(Operand("x"),),
    attributes=(
        Attribute("num_splits", AttributeKind.INTEGER, None, least=1),
        Attribute("split_sizes", AttributeKind.INTEGERS, None, least=0),
        axis_attribute(),
    ),
    infer=split_type,
    meaning=split,
    sample=sample_split,
    movement=Movement(),
    traits=frozenset({Trait.SLICING}),
    surface=Surface.FUSED,
    decompositions=lambda: (decompositions.movement.SPLIT_BY_VIEWS,),
    in_mil=True,
    gradient=lambda: gradients.moving.SPLIT,
)
TILE = Op(
    name="tile",
    category=CATEGORY,
    summary="x repeated reps[i] times along axis i",
    operands=(Operand("x"),),
    attributes=(Attribute("reps", AttributeKind.INTEGERS, least=1),),
    infer=tile_type,
    meaning=tile,
    sample=sample_tile,
    movement=Movement(),
    surface=Surface.FUSED,
    support=F2,
    decompositions=lambda: (decompositions.movement.REPEATED_BY_CONCAT, decompositions.movement.REPEATED_BY_ROWS),
    in_mil=True,
    gradient=lambda: gradients.moving.TILED,
)
