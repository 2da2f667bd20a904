"""Operations that read or write elements at places that a tensor of indices names.

Indices are counted from the front, or from the end if they are negative. MIL leaves open what an index past the axis
does; here it is an error, raised where a node with constant indices is made, and else when the operation is
evaluated. A scatter is understood as a gather of addresses: it
writes where the gather of the same indices would read, one update after another in the order of the updates.

MIL's `validate_indices` asks the runtime to look for indices past the axis; as they are an error here anyway, it has no
effect on the meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.common import DECOMPOSED, LIKELY_F2, NOWHERE, axis_attribute, dtype_attribute
from aneforge.ops.definition import meaning_dtype
from aneforge.ops.groups.elementwise import real_quotient
from aneforge.ops.op import Basis, Category, MilStatus, Op, Support, Trait
from aneforge.ops.results import Codomain, Movement
from aneforge.ops.sampling import NUMBERS, Chooser, Fill, Sample, draw_any, draw_axis, draw_shape, draw_type
from aneforge.ops.shapes import (
    common_dtype,
    expect_integer,
    expect_least_rank,
    expect_representable,
    expect_shape,
    expect_within,
    normalise_axis,
)
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand
from aneforge.ops.types import Array, TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence

CATEGORY = Category.STRUCTURAL
READ = (Operand("x"), Operand("indices"))
WRITE = (Operand("data"), Operand("indices"), Operand("updates"))
AXIS = axis_attribute(0)
VALIDATE_INDICES = Attribute("validate_indices", AttributeKind.FLAG, default=False)
INDICES = frozenset({Trait.INDICES})
SCATTERING = INDICES | {Trait.SCATTERING}
BATCH_DIMS = Attribute("batch_dims", AttributeKind.INTEGER, 0, least=0)


def places(indices: Array, extent: int) -> Array:
    """Return indices counted from the front.

    Raises:
        GraphError: One is past the axis.
    """
    whole = indices.astype(np.int64)
    expect_within(whole, -extent, extent - 1, "an index is past the axis")
    return np.where(whole < 0, whole + extent, whole)


def coordinates(indices: Array, extents: Sequence[int]) -> tuple[Array, ...]:
    """Return the last axis of indices as one array of places for each axis that it names."""
    return tuple(places(indices[..., axis], extent) for axis, extent in enumerate(extents))


def one_axis(x: TensorType, _: TensorType, *, axis: int, **__: object) -> tuple[int, ...]:
    """Return the extent of the axis that indices count along."""
    return (x.shape[axis],)


def leading_axes(x: TensorType, indices: TensorType, *, batch_dims: int = 0, **_: object) -> tuple[int, ...]:
    """Return the extents of the axes after the batch that coordinates name."""
    return x.shape[batch_dims : batch_dims + indices.shape[-1]]


def last_axes(x: TensorType, _: TensorType) -> tuple[int, ...]:
    """Return the extents of rows and columns."""
    return x.shape[-2:]


# gather, gather_along_axis, gather_nd, gather_hw


def expect_batches(x: TensorType, indices: TensorType, batch_dims: int) -> None:
    """Check that two tensors share their first axes.

    Raises:
        GraphError: They are too short, or differ there.
    """
    if x.shape[:batch_dims] != indices.shape[:batch_dims] or batch_dims > min(x.rank, indices.rank):
        raise GraphError(
            f"x and indices do not share their first {batch_dims} axes",
            seen=f"{list(x.shape)} and {list(indices.shape)}",
        )


def gather_type(x: TensorType, indices: TensorType, *, axis: int, batch_dims: int, **_: object) -> TensorType:
    """Return the type of slices taken along an axis."""
    expect_integer(indices, "indices")
    along = normalise_axis(axis, x.rank)
    expect_batches(x, indices, batch_dims)
    if batch_dims > along:
        raise GraphError("the axis to gather along is one of the batch", seen=along, limit=f"{batch_dims} or more")
    return x.with_shape(*x.shape[:along], *indices.shape[batch_dims:], *x.shape[along + 1 :])


def gather(x: Array, indices: Array, *, axis: int, batch_dims: int, **_: object) -> Array:
    """Take slices along an axis, within every batch by its own indices."""
    along = axis % x.ndim
    taken = places(indices, x.shape[along])
    result = np.empty((*x.shape[:along], *indices.shape[batch_dims:], *x.shape[along + 1 :]), x.dtype)
    for batch in np.ndindex(x.shape[:batch_dims]):
        result[batch] = np.take(x[batch], taken[batch], along - batch_dims)
    return result


def draw_indices(chooser: Chooser, shape: Sequence[int], extent: int) -> Fill:
    """Draw indices of an axis, of signed or unsigned integers."""
    dtype = chooser.choose(["int32", "int32", "uint16"])
    return Fill(TensorType(tuple(shape), dtype), -extent if dtype == "int32" else 0, extent - 1)


def draw_validation(chooser: Chooser) -> dict[str, bool]:
    """Draw whether the runtime is to look for indices past the axis."""
    return {VALIDATE_INDICES.name: chooser.choose([True, False])}


def sample_gather(chooser: Chooser) -> Sample:
    """Draw indices of rank 0 to 2 after up to two batch axes."""
    shape = draw_shape(chooser)
    along = chooser.integer(0, len(shape) - 1)
    batch_dims = chooser.integer(0, min(2, along))
    rest = tuple(chooser.integer(1, 3) for _ in range(chooser.integer(0, 2)))
    indices = draw_indices(chooser, shape[:batch_dims] + rest, shape[along])
    axis = along - chooser.choose([0, len(shape)])
    return Sample(
        {"x": draw_any(chooser, shape), "indices": indices},
        {"axis": axis, "batch_dims": batch_dims, **draw_validation(chooser)},
    )


def expect_alike_but(name: str, x: TensorType, indices: TensorType, along: int) -> None:
    """Check that indices have the shape of a tensor on all axes but one.

    Raises:
        GraphError: They do not.
    """
    expect_integer(indices, "indices")
    same = indices.rank == x.rank and all(
        place == along or a == b for place, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True))
    )
    if not same:
        raise GraphError(
            f"indices do not have the shape of {name} on all axes but {along}",
            seen=list(indices.shape),
            limit=list(x.shape),
        )


def gather_along_axis_type(x: TensorType, indices: TensorType, *, axis: int, **_: object) -> TensorType:
    """Return the type of elements taken along an axis."""
    expect_alike_but("x", x, indices, normalise_axis(axis, x.rank))
    return x.with_shape(*indices.shape)


def gather_along_axis(x: Array, indices: Array, *, axis: int, **_: object) -> Array:
    """Take elements along an axis, in every row by its own indices."""
    return np.take_along_axis(x, places(indices, x.shape[axis]), axis)


def draw_along_axis(chooser: Chooser) -> tuple[tuple[int, ...], Fill, int]:
    """Draw a shape, indices along one of its axes, and that axis."""
    shape = draw_shape(chooser, longest=4)
    axis = draw_axis(chooser, len(shape))
    along = axis % len(shape)
    indices = draw_indices(chooser, (*shape[:along], chooser.integer(1, 5), *shape[along + 1 :]), shape[along])
    return shape, indices, axis


def sample_gather_along_axis(chooser: Chooser) -> Sample:
    """Draw indices along an axis, fewer or more than its elements."""
    shape, indices, axis = draw_along_axis(chooser)
    attributes = {"axis": axis, **draw_validation(chooser)}
    return Sample({"x": draw_any(chooser, shape), "indices": indices}, attributes)


def coordinate_count(indices: TensorType, rank: int) -> int:
    """Return how many axes each entry of indices names.

    Raises:
        GraphError: It names none, or more than there are.
    """
    expect_integer(indices, "indices")
    if indices.rank < 1 or not 1 <= indices.shape[-1] <= rank:
        raise GraphError(
            "the last axis of indices does not name 1 axis or more",
            seen=list(indices.shape),
            limit=f"a last axis of 1 to {rank}",
        )
    return indices.shape[-1]


def gather_nd_type(x: TensorType, indices: TensorType, *, batch_dims: int, **_: object) -> TensorType:
    """Return the type of parts of a tensor that coordinates name."""
    expect_batches(x, indices, batch_dims)
    if batch_dims >= indices.rank:
        raise GraphError("every axis of indices is one of the batch", seen=batch_dims, limit=indices.rank - 1)
    count = coordinate_count(indices, x.rank - batch_dims)
    return x.with_shape(*indices.shape[:-1], *x.shape[batch_dims + count :])


def gather_nd(x: Array, indices: Array, *, batch_dims: int, **_: object) -> Array:
    """Take parts of a tensor by coordinates, within every batch by its own."""
    count = indices.shape[-1]
    named = x.shape[batch_dims : batch_dims + count]
    result = np.empty((*indices.shape[:-1], *x.shape[batch_dims + count :]), x.dtype)
    for batch in np.ndindex(x.shape[:batch_dims]):
        result[batch] = x[batch][coordinates(indices[batch], named)]
    return result


def draw_coordinates(chooser: Chooser, lead: Sequence[int], named: Sequence[int]) -> Fill:
    """Draw coordinates of the given axes, counted from either side."""
    generator = np.random.default_rng(chooser.integer(0, 1 << 16))
    extents = np.array(named)
    return Fill.of(generator.integers(-extents, extents, (*lead, len(named))), "int32")


def sample_gather_nd(chooser: Chooser) -> Sample:
    """Draw coordinates of one or more axes after up to two batch axes."""
    shape = draw_shape(chooser)
    batch_dims = chooser.integer(0, min(2, len(shape) - 1))
    count = chooser.integer(1, len(shape) - batch_dims)
    lead = shape[:batch_dims] + tuple(chooser.integer(1, 3) for _ in range(chooser.integer(0, 2)))
    indices = draw_coordinates(chooser, lead, shape[batch_dims : batch_dims + count])
    return Sample(
        {"x": draw_any(chooser, shape), "indices": indices}, {"batch_dims": batch_dims, **draw_validation(chooser)}
    )


def gather_hw_type(x: TensorType, indices: TensorType) -> TensorType:
    """Return the type of elements of the last two axes."""
    expect_integer(indices, "indices")
    expect_least_rank(x, 2, "rows and columns")
    if indices.rank != 2 or indices.shape[1] != 2:
        raise GraphError("indices are not pairs of row and column", seen=list(indices.shape), limit="[K, 2]")
    return x.with_shape(*x.shape[:-2], indices.shape[0])


def gather_hw(x: Array, indices: Array) -> Array:
    """Take elements of the last two axes by row and column."""
    rows, columns = coordinates(indices, x.shape[-2:])
    return x[..., rows, columns]


def sample_gather_hw(chooser: Chooser) -> Sample:
    """Draw rows and columns."""
    shape = draw_shape(chooser, 2)
    indices = draw_coordinates(chooser, (chooser.integer(1, 4),), shape[-2:])
    return Sample({"x": draw_any(chooser, shape), "indices": indices})


GATHER = Op(
    name="gather",
    category=CATEGORY,
    summary="the slices of x along an axis that indices name, within every batch by its own indices",
    operands=READ,
    attributes=(AXIS, BATCH_DIMS, VALIDATE_INDICES),
    infer=gather_type,
    meaning=gather,
    indexed=one_axis,
    sample=sample_gather,
    movement=Movement(adds=(0.0,)),
    support=LIKELY_F2,
    traits=INDICES | {Trait.GATHERING},
    in_mil=True,
    gradient=lambda: gradients.looking_up.GATHERED,
)
GATHER_ALONG_AXIS = Op(
    name="gather_along_axis",
    category=CATEGORY,
    summary="the elements of x along an axis that indices name, in every row by its own indices",
    operands=READ,
    attributes=(AXIS, VALIDATE_INDICES),
    infer=gather_along_axis_type,
    meaning=gather_along_axis,
    indexed=one_axis,
    sample=sample_gather_along_axis,
    movement=Movement(adds=(0.0,)),
    support=LIKELY_F2,
    traits=INDICES | {Trait.GATHERING},
    in_mil=True,
    gradient=lambda: gradients.looking_up.GATHERED_ALONG,
)
GATHER_ND = Op(
    name="gather_nd",
    category=CATEGORY,
    summary="the parts of x at the coordinates that the last axis of indices holds",
    operands=READ,
    attributes=(BATCH_DIMS, VALIDATE_INDICES),
    infer=gather_nd_type,
    meaning=gather_nd,
    indexed=leading_axes,
    sample=sample_gather_nd,
    movement=Movement(adds=(0.0,)),
    support=Support(floor=2, basis=Basis.LIKELY, mil_since=3, mil_otherwise=MilStatus.BRIDGE),
    traits=INDICES | {Trait.GATHERING},
    in_mil=True,
    gradient=lambda: gradients.looking_up.GATHERED_BY_COORDINATES,
)
GATHER_HW = Op(
    name="gather_hw",
    category=CATEGORY,
    summary="x[…, h, w] for every pair (h, w) of indices",
    operands=READ,
    infer=gather_hw_type,
    meaning=gather_hw,
    indexed=last_axes,
    sample=sample_gather_hw,
    movement=Movement(adds=(0.0,)),
    in_mil=False,
    support=Support(floor=3, gate="texture_engine", mil_since=3),
    catalogued=False,
    traits=INDICES,
    gradient=lambda: gradients.looking_up.GATHERED_PIXELS,
)


# scatter, scatter_along_axis, scatter_nd


COMBINED = {"add": "add", "sub": "subtract", "mul": "multiply", "max": "maximum", "min": "minimum"}
"""What NumPy calls the function that combines data with updates, for every mode that computes."""
MODE = Attribute("mode", AttributeKind.TEXT, "add", choices=(*COMBINED, "div", "update"))


def expect_updates(data: TensorType, updates: TensorType, wanted: Sequence[int], mode: str) -> TensorType:
    """Return the type of data once updates are written, which must have the shape of the places.

    Raises:
        GraphError: The updates have another shape or element type, or bools are to be computed with.
    """
    common_dtype(data, updates)
    expect_shape(updates, wanted, "the places", "updates")
    if data.dtype == "bool" and mode != "update":
        raise GraphError(f"bool cannot be scattered in mode {mode}", remedy="use mode update, or cast to int8")
    return data


def write_updates(data: Array, targets: Array, updates: Array, mode: str) -> Array:
    """Combine data with updates at flat addresses, one update after another."""
    result = data.ravel().copy()
    if mode in COMBINED:
        getattr(np, COMBINED[mode]).at(result, targets.ravel(), updates.ravel())
    else:
        for target, update in zip(targets.ravel(), updates.ravel(), strict=True):
            result[target] = update if mode == "update" else real_quotient(result[target], update)
    return result.reshape(data.shape)


def addresses(data: Array) -> Array:
    """Return the flat address of every element."""
    return np.arange(data.size).reshape(data.shape)


def scatter_type(
    data: TensorType, indices: TensorType, updates: TensorType, *, axis: int, mode: str, **_: object
) -> TensorType:
    """Return the type of data with slices written."""
    places_read = gather_type(data, indices, axis=axis, batch_dims=0)
    return expect_updates(data, updates, places_read.shape, mode)


def scatter(data: Array, indices: Array, updates: Array, *, axis: int, mode: str, **_: object) -> Array:
    """Write slices along an axis."""
    return write_updates(data, gather(addresses(data), indices, axis=axis, batch_dims=0), updates, mode)


def scatter_along_axis_type(
    data: TensorType, indices: TensorType, updates: TensorType, *, axis: int, mode: str, **_: object
) -> TensorType:
    """Return the type of data with elements written along an axis."""
    expect_alike_but("data", data, indices, normalise_axis(axis, data.rank))
    return expect_updates(data, updates, indices.shape, mode)


def scatter_along_axis(data: Array, indices: Array, updates: Array, *, axis: int, mode: str, **_: object) -> Array:
    """Write elements along an axis, in every row by its own indices."""
    return write_updates(data, gather_along_axis(addresses(data), indices, axis=axis), updates, mode)


def scatter_nd_type(
    data: TensorType, indices: TensorType, updates: TensorType, *, mode: str, **_: object
) -> TensorType:
    """Return the type of data with parts written that coordinates name."""
    return expect_updates(data, updates, gather_nd_type(data, indices, batch_dims=0).shape, mode)


def scatter_nd(data: Array, indices: Array, updates: Array, *, mode: str, **_: object) -> Array:
    """Write parts by coordinates."""
    return write_updates(data, gather_nd(addresses(data), indices, batch_dims=0), updates, mode)


def draw_write(
    chooser: Chooser, shape: Sequence[int], indices: Fill, wanted: Sequence[int], attributes: dict[str, AttributeValue]
) -> Sample:
    """Draw the element type and the mode of a scatter."""
    dtype = chooser.choose(NUMBERS)
    data, updates = Fill(TensorType(tuple(shape), dtype)), Fill(TensorType(tuple(wanted), dtype))
    mode = chooser.choose(MODE.choices)
    chosen = {**attributes, "mode": mode, **draw_validation(chooser)}
    return Sample({"data": data, "indices": indices, "updates": updates}, chosen)


def sample_scatter(chooser: Chooser) -> Sample:
    """Draw slices to write, some to one place."""
    shape = draw_shape(chooser, longest=4)
    axis = draw_axis(chooser, len(shape))
    along = axis % len(shape)
    rest = tuple(chooser.integer(1, 4) for _ in range(chooser.integer(0, 2)))
    indices = draw_indices(chooser, rest, shape[along])
    return draw_write(chooser, shape, indices, (*shape[:along], *rest, *shape[along + 1 :]), {"axis": axis})


def sample_scatter_along_axis(chooser: Chooser) -> Sample:
    """Draw elements to write along an axis, some to one place."""
    shape, indices, axis = draw_along_axis(chooser)
    return draw_write(chooser, shape, indices, indices.type.shape, {"axis": axis})


def sample_scatter_nd(chooser: Chooser) -> Sample:
    """Draw parts to write, some to one place."""
    shape = draw_shape(chooser, longest=4)
    count = chooser.integer(1, len(shape))
    lead = tuple(chooser.integer(1, 3) for _ in range(chooser.integer(0, 2)))
    return draw_write(chooser, shape, draw_coordinates(chooser, lead, shape[:count]), lead + shape[count:], {})


SCATTER = Op(
    name="scatter",
    category=CATEGORY,
    summary="data with the slices along an axis that indices name combined with updates, one after another",
    operands=WRITE,
    attributes=(AXIS, MODE, VALIDATE_INDICES),
    infer=scatter_type,
    meaning=scatter,
    indexed=one_axis,
    sample=sample_scatter,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.placing.SCATTER,),
    traits=SCATTERING,
    in_mil=True,
    gradient=lambda: gradients.looking_up.SCATTERED,
)
SCATTER_ALONG_AXIS = Op(
    name="scatter_along_axis",
    category=CATEGORY,
    summary="data with the elements along an axis that indices name combined with updates, one after another",
    operands=WRITE,
    attributes=(AXIS, MODE, VALIDATE_INDICES),
    infer=scatter_along_axis_type,
    meaning=scatter_along_axis,
    indexed=one_axis,
    sample=sample_scatter_along_axis,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.placing.SCATTER_ALONG_AXIS,),
    traits=SCATTERING,
    in_mil=True,
    gradient=lambda: gradients.looking_up.SCATTERED_ALONG,
)
SCATTER_ND = Op(
    name="scatter_nd",
    category=CATEGORY,
    summary="data with the parts at the coordinates of indices combined with updates, one after another",
    operands=WRITE,
    attributes=(MODE, VALIDATE_INDICES),
    infer=scatter_nd_type,
    meaning=scatter_nd,
    indexed=leading_axes,
    sample=sample_scatter_nd,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.placing.SCATTER_ND,),
    traits=SCATTERING,
    in_mil=True,
    gradient=lambda: gradients.looking_up.SCATTERED_BY_COORDINATES,
)


# one_hot, non_zero


def one_hot_type(
    indices: TensorType, *, one_hot_vector_size: int, axis: int, on_value: float, off_value: float, dtype: str
) -> TensorType:
    """Return the type of vectors with one element on."""
    expect_integer(indices, "indices")
    for name, value in (("on_value", on_value), ("off_value", off_value)):
        expect_representable(name, value, dtype)
    along = normalise_axis(axis, indices.rank + 1)
    return TensorType((*indices.shape[:along], one_hot_vector_size, *indices.shape[along:]), dtype)


def one_hot(
    indices: Array, *, one_hot_vector_size: int, axis: int, on_value: float, off_value: float, dtype: str
) -> Array:
    """Return vectors with one element on.

    Raises:
        GraphError: A vector is too short for its index.
    """
    expect_within(indices, 0, one_hot_vector_size - 1, "an index is past the one-hot vector")
    on = np.expand_dims(indices, -1) == np.arange(one_hot_vector_size)
    return np.moveaxis(np.where(on, on_value, off_value), -1, axis).astype(meaning_dtype(dtype))


def one_hot_codomain(*, on_value: float, off_value: float, **_: object) -> Codomain:
    """Return the interval of the two values."""
    return Codomain(min(on_value, off_value), max(on_value, off_value))


def sample_one_hot(chooser: Chooser) -> Sample:
    """Draw indices of rank 0 to 3, values and an element type that has them."""
    size = chooser.integer(1, 5)
    indices = Fill(draw_type(chooser, ["int32", "uint8"], 0, 3), 0, size - 1)
    axis = chooser.integer(-indices.type.rank - 1, indices.type.rank)
    on, off, dtype = chooser.choose([(1.0, 0.0, "int32"), (2.5, -1.0, "fp16"), (0.0, 1.0, "bool"), (7.0, -7.0, "int8")])
    attributes = {"on_value": on, "off_value": off, "dtype": dtype}
    return Sample({"indices": indices}, {"one_hot_vector_size": size, "axis": axis, **attributes})


def non_zero_type(x: TensorType) -> TensorType:
    """Return the largest type that the result can have: it has a row for every element that is not 0."""
    return TensorType((x.size, x.rank), "int32")


def non_zero_places(x: Array) -> Array:
    """Return the coordinates of the elements that are not 0, in the order of the elements."""
    return np.argwhere(x).astype(np.int32)


def sample_non_zero(chooser: Chooser) -> Sample:
    """Draw any tensor."""
    return Sample({"x": draw_any(chooser, draw_shape(chooser))})


ONE_HOT = Op(
    name="one_hot",
    category=CATEGORY,
    summary="on_value at the place that each index names along a new axis, off_value elsewhere",
    operands=(Operand("indices"),),
    attributes=(
        Attribute("one_hot_vector_size", AttributeKind.INTEGER, least=1),
        axis_attribute(-1),
        Attribute("on_value", AttributeKind.NUMBER, 1.0),
        Attribute("off_value", AttributeKind.NUMBER, 0.0),
        dtype_attribute("int32"),
    ),
    infer=one_hot_type,
    meaning=one_hot,
    sample=sample_one_hot,
    codomain=one_hot_codomain,
    support=DECOMPOSED,
    decompositions=lambda: (decompositions.placing.EQUAL_PLACES,),
    traits=INDICES,
    in_mil=True,
    gradient=lambda: gradients.reasons.INTEGERS,
)
NON_ZERO = Op(
    name="non_zero",
    category=CATEGORY,
    summary="the coordinates of the elements that are not 0; the type is that of a tensor without any 0",
    operands=(Operand("x"),),
    infer=non_zero_type,
    meaning=non_zero_places,
    sample=sample_non_zero,
    support=NOWHERE,
    traits=frozenset({Trait.DATA_SHAPE, Trait.INDICES}),
    in_mil=True,
    gradient=lambda: gradients.reasons.INTEGERS,
)
