"""Element types changed, numbers quantised, and weights expanded out of their compressed forms."""

from __future__ import annotations

import math

from aneforge.arrays import np
from aneforge.errors import GraphError
from aneforge.ops import decompositions, gradients
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.common import LIKELY_BRIDGE_F2, LIKELY_F2, NOWHERE, axis_attribute, dtype_attribute
from aneforge.ops.definition import meaning_dtype
from aneforge.ops.op import Basis, Category, MilStatus, Op, Support, Surface, Trait
from aneforge.ops.sampling import FLOATS, Chooser, Fill, Sample, draw_axis, draw_shape, draw_type
from aneforge.ops.shapes import common_dtype, expect_float, expect_number, expect_within, normalise_axis
from aneforge.ops.signature import Attribute, AttributeKind, AttributeValue, Operand, OperandKind
from aneforge.ops.types import DTYPES, Array, TensorType, bits, is_integer, value_range

CATEGORY = Category.QUANTISATION
CONSTANT = OperandKind.CONSTANT
AXIS = axis_attribute(None)
VECTOR_AXIS = Attribute("vector_axis", AttributeKind.INTEGER, None)
EIGHT_BITS = ("int8", "uint8")
FOUR_BITS = ("int4", "uint4")
PALETTE_INDICES = ("uint8", "uint4")
FROM_BLOCKS = Support(floor=2, basis=Basis.LIKELY, mil_since=4, mil_otherwise=MilStatus.FOLD)


def truncated(x: Array, dtype: str) -> Array:
    """Return real numbers as integers, cut towards zero; past the range its end, and 0 for what is not a number."""
    low, high = value_range(dtype)
    cut = np.trunc(x)
    inside = np.where((cut > low) & (cut < high), cut, 0).astype(meaning_dtype(dtype))
    ends = np.array([low, high]).astype(meaning_dtype(dtype)) if high < 1 << 63 else np.array([low, high], np.uint64)
    return np.where(cut >= high, ends[1], np.where(cut <= low, ends[0], inside))


def cast_type(x: TensorType, *, dtype: str) -> TensorType:
    """Return the type with other elements."""
    return x.with_dtype(dtype)


def cast_elements(x: Array, *, dtype: str) -> Array:
    """Return elements as another type holds them; between floating types nothing is rounded, integers wrap."""
    if dtype == "bool":
        return x != 0
    if is_integer(dtype) and np.issubdtype(x.dtype, np.floating):
        return truncated(x, dtype)
    wide = x.astype(np.int8) if x.dtype.name in FOUR_BITS else x  # there is no cast from one of the two to the other
    return wide.astype(meaning_dtype(dtype))


def constexpr_cast_type(source_val: TensorType, *, output_dtype: str) -> TensorType:
    """Return the type with other elements."""
    return cast_type(source_val, dtype=output_dtype)


def constexpr_cast(source_val: Array, *, output_dtype: str) -> Array:
    """Return elements as another type holds them."""
    return cast_elements(source_val, dtype=output_dtype)


def expect_per_channel(what: str, part: TensorType | None, x: TensorType, axis: int | None) -> None:
    """Check that a parameter is one number, or a list of one per channel.

    Raises:
        GraphError: It is not.
    """
    if part is None or not part.rank:
        return
    if axis is None:
        raise GraphError(
            f"the {what} of shape {list(part.shape)} is a list, and no axis is given", remedy="give axis, or one number"
        )
    channels = x.shape[normalise_axis(axis, x.rank)]
    if part.shape != (channels,):
        raise GraphError(f"the {what} does not fit the channels", seen=list(part.shape), limit=f"[] or [{channels}]")


def per_channel(part: Array | None, rank: int, axis: int | None) -> Array:
    """Return a parameter as real numbers that broadcast along its axis; 0 for none."""
    if part is None:
        return np.zeros(())
    real = part.astype(np.float64)
    return reshape_along(real, rank, axis) if part.ndim and axis is not None else real


def quantize_type(
    x: TensorType,
    scale: TensorType,
    zero_point: TensorType | None,
    *,
    output_dtype: str,
    axis: int | None,
) -> TensorType:
    """Return the type of the quantised tensor."""
    expect_float(x, "input")
    common_dtype(x, scale)
    if zero_point is not None and zero_point.dtype != output_dtype:
        raise GraphError("the zero point is not of the quantised type", seen=zero_point.dtype, limit=output_dtype)
    expect_per_channel("scale", scale, x, axis)
    expect_per_channel("zero point", zero_point, x, axis)
    return x.with_dtype(output_dtype)


def quantize(
    x: Array,
    scale: Array,
    zero_point: Array | None,
    *,
    output_dtype: str,
    axis: int | None,
) -> Array:
    """Divide by the scale, round halves to even, add the zero point, and keep within the type."""
    steps = np.rint(x / per_channel(scale, x.ndim, axis)) + per_channel(zero_point, x.ndim, axis)
    return np.clip(steps, *value_range(output_dtype)).astype(meaning_dtype(output_dtype))


def dequantized_type(
    data: TensorType, scale: TensorType, zero_point: TensorType | None, axis: int | None
) -> TensorType:
    """Return the type of numbers that eight bits stand for."""
    if data.dtype not in EIGHT_BITS:
        raise GraphError("quantised values must have eight bits", seen=data.dtype, limit=" or ".join(EIGHT_BITS))
    expect_float(scale, "scale")
    if zero_point is not None and zero_point.dtype != data.dtype:
        raise GraphError("the zero point is not of the quantised type", seen=zero_point.dtype, limit=data.dtype)
    expect_per_channel("scale", scale, data, axis)
    expect_per_channel("zero point", zero_point, data, axis)
    return data.with_dtype(scale.dtype)


def dequantize_type(
    x: TensorType,
    scale: TensorType,
    zero_point: TensorType | None,
    *,
    axis: int | None,
) -> TensorType:
    """Return the type of the numbers."""
    return dequantized_type(x, scale, zero_point, axis)


def dequantize(x: Array, scale: Array, zero_point: Array | None, *, axis: int | None) -> Array:
    """Take the zero point off and multiply by the scale."""
    steps = x.astype(np.float64) - per_channel(zero_point, x.ndim, axis)
    return steps * per_channel(scale, x.ndim, axis)


def affine_type(quantized_data: TensorType, scale: TensorType, zero_point: TensorType, *, axis: int) -> TensorType:
    """Return the type of the weights."""
    normalise_axis(axis, quantized_data.rank)
    return dequantized_type(quantized_data, scale, zero_point, axis)


def affine_weights(quantized_data: Array, scale: Array, zero_point: Array, *, axis: int) -> Array:
    """Return the weights."""
    return dequantize(quantized_data, scale, zero_point, axis=axis)


def table_vector(indices: TensorType, lut: TensorType, vector_axis: int | None) -> int:
    """Return how many numbers of the result one index stands for, all of the table checked."""
    if indices.dtype not in PALETTE_INDICES:
        raise GraphError(
            "palette indices have the wrong element type", seen=indices.dtype, limit=" or ".join(PALETTE_INDICES)
        )
    if lut.rank not in (1, indices.rank + 2):
        raise GraphError(
            f"a table of shape {list(lut.shape)} has the wrong rank", seen=lut.rank, limit=f"1 or {indices.rank + 2}"
        )
    entries, vector = (lut.shape[0], 1) if lut.rank == 1 else lut.shape[-2:]
    if not 0 < entries <= 1 << bits(indices.dtype) or entries & (entries - 1):
        raise GraphError(
            "a table's length is not a power of two that the indices reach",
            seen=entries,
            limit=f"up to {1 << bits(indices.dtype)}",
        )
    if lut.rank > 1:
        expect_blocks("table", lut.shape[:-2], indices)
    if vector > 1 and vector_axis is None:
        raise GraphError("a table of vectors needs an axis to place them along", seen=vector, remedy="give vector_axis")
    if vector_axis is not None:
        normalise_axis(vector_axis, indices.rank, "vector_axis")
    return vector


def expect_blocks(what: str, blocks: tuple[int, ...], data: TensorType) -> None:
    """Check that as many blocks divide each axis.

    Raises:
        GraphError: They do not.
    """
    if len(blocks) != data.rank or any(
        not count or extent % count for extent, count in zip(data.shape, blocks, strict=True)
    ):
        raise GraphError(
            f"the {what} does not divide the data into blocks",
            seen=list(blocks),
            limit=f"divisors of {list(data.shape)}",
        )


def dense_from_table_type(indices: TensorType, lut: TensorType, *, vector_axis: int | None) -> TensorType:
    """Return the type of the weights that indices stand for."""
    vector = table_vector(indices, lut, vector_axis)
    along = None if vector_axis is None else vector_axis % indices.rank
    return TensorType(
        tuple(extent * vector if axis == along else extent for axis, extent in enumerate(indices.shape)), lut.dtype
    )


def dense_from_table(indices: Array, lut: Array, *, vector_axis: int | None) -> Array:
    """Look every index up in the table of its block; a vector is placed along its axis."""
    places = indices.astype(np.intp)
    entries = lut.shape[0] if lut.ndim == 1 else lut.shape[-2]
    expect_within(places, 0, entries - 1, "an index is past the table")
    if lut.ndim == 1:
        return lut[places]
    blocks = [
        place // (extent // count)
        for place, extent, count in zip(np.indices(indices.shape), indices.shape, lut.shape, strict=False)
    ]
    found = lut[(*blocks, places)]
    if vector_axis is None:
        return found[..., 0]
    axis = vector_axis % indices.ndim
    laid = np.moveaxis(found, -1, axis + 1)
    return laid.reshape([extent * (lut.shape[-1] if one == axis else 1) for one, extent in enumerate(indices.shape)])


def expect_sparse(mask: TensorType, nonzero: TensorType) -> None:
    """Check the two parts of a sparse tensor, as far as types show.

    Raises:
        GraphError: They do not match.
    """
    if mask.dtype not in ("bool", "uint8"):
        raise GraphError("a mask is not of bits", seen=mask.dtype, limit="bool, or uint8 of 0 and 1")
    if nonzero.rank != 1 or nonzero.size > mask.size:
        raise GraphError("values and mask do not match", seen=list(nonzero.shape), limit=f"a list of up to {mask.size}")


def spread(mask: Array, nonzero: Array) -> Array:
    """Return a sparse tensor dense: the values where the mask is set, in the order of the elements, 0 elsewhere."""
    if int((mask != 0).sum()) != nonzero.size:
        raise GraphError("values and mask do not match", seen=nonzero.size, limit=int((mask != 0).sum()))
    values = np.zeros(mask.shape, nonzero.dtype)
    values[mask != 0] = nonzero
    return values


def sparse_type(mask: TensorType, nonzero_data: TensorType) -> TensorType:
    """Return the type of the dense tensor: the mask's shape."""
    expect_sparse(mask, nonzero_data)
    return mask.with_dtype(nonzero_data.dtype)


def scaled_blocks_type(data: TensorType, scale: TensorType, offset: TensorType | None) -> TensorType:
    """Return the type of the weights."""
    expect_number(data, "data")
    expect_float(scale, "scale")
    expect_blocks("scale", scale.shape, data)
    if offset is not None and offset.shape != scale.shape:
        raise GraphError("scale and offset have different blocks", seen=list(offset.shape), limit=list(scale.shape))
    if offset is not None and offset.dtype not in (data.dtype, scale.dtype):
        raise GraphError(
            "the offset is of neither the data's nor the scale's type",
            seen=offset.dtype,
            limit=f"{data.dtype} or {scale.dtype}",
        )
    return data.with_dtype(scale.dtype)


def scaled_blocks(data: Array, scale: Array, offset: Array | None) -> Array:
    """Take the offset of its block off every element and multiply by its scale."""
    blocks = [extent // count for extent, count in zip(data.shape, scale.shape, strict=True)]
    ones = np.ones(blocks)
    shift = 0.0 if offset is None else np.kron(offset.astype(np.float64), ones)
    return (data.astype(np.float64) - shift) * np.kron(scale.astype(np.float64), ones)


def sparse_scaled_types(
    data_mask: TensorType, nonzero_data: TensorType, scale: TensorType, offset: TensorType | None
) -> tuple[TensorType, TensorType]:
    """Return the types of the mask and of the values."""
    expect_sparse(data_mask, nonzero_data)
    scaled_blocks_type(data_mask.with_dtype(nonzero_data.dtype), scale, offset)
    return data_mask, nonzero_data.with_dtype(scale.dtype)


def sparse_scaled(data_mask: Array, nonzero_data: Array, scale: Array, offset: Array | None) -> tuple[Array, Array]:
    """Scale the values that are there; the mask stays."""
    return data_mask, scaled_blocks(spread(data_mask, nonzero_data), scale, offset)[data_mask != 0]


def sparse_from_table_types(
    indices_mask: TensorType, indices_nonzero_data: TensorType, lut: TensorType, *, vector_axis: int | None
) -> tuple[TensorType, TensorType]:
    """Return the types of the mask and of the values."""
    expect_sparse(indices_mask, indices_nonzero_data)
    indices = indices_mask.with_dtype(indices_nonzero_data.dtype)
    dense = dense_from_table_type(indices, lut, vector_axis=vector_axis)
    vector = table_vector(indices, lut, vector_axis)
    return dense.with_dtype(indices_mask.dtype), TensorType((indices_nonzero_data.size * vector,), lut.dtype)


def sparse_from_table(
    indices_mask: Array, indices_nonzero_data: Array, lut: Array, *, vector_axis: int | None
) -> tuple[Array, Array]:
    """Look up the indices that are there; the mask is repeated where an index stands for a vector."""
    dense = dense_from_table(spread(indices_mask, indices_nonzero_data), lut, vector_axis=vector_axis)
    vector = dense.size // indices_mask.size if indices_mask.size else 1
    mask = indices_mask if vector_axis is None else np.repeat(indices_mask, vector, vector_axis)
    return mask, dense[mask != 0]


def draw_cast(chooser: Chooser) -> tuple[Fill, str]:
    """Draw a tensor and another element type that holds its values, integers as well as others."""
    tensor = draw_type(chooser, ["fp16", "fp32", "int8", "int32", "uint8", "int4", "bool"])
    return Fill(tensor, 0 if tensor.dtype == "uint8" else -4, 7), chooser.choose(list(DTYPES))


def sample_cast(chooser: Chooser) -> Sample:
    """Draw a change of elements."""
    x, dtype = draw_cast(chooser)
    return Sample({"x": x}, {"dtype": dtype})


def sample_constexpr_cast(chooser: Chooser) -> Sample:
    """Draw a change of a constant's elements."""
    x, dtype = draw_cast(chooser)
    return Sample({"source_val": x}, {"output_dtype": dtype})


def draw_affine(chooser: Chooser, data: TensorType, zero_dtype: str) -> tuple[Fill, Fill | None, int | None]:
    """Draw a scale, perhaps a zero point, and perhaps the axis along which there are many."""
    axis = chooser.choose([None, *range(-data.rank, data.rank)])
    listed = () if axis is None else chooser.choose([(data.shape[axis],), ()])
    zeros = chooser.choose([None, (), listed])
    scale = Fill(TensorType(listed, chooser.choose(FLOATS)), 0.1, 1)
    low = 0 if zero_dtype == "uint8" else -4
    return scale, None if zeros is None else Fill(TensorType(zeros, zero_dtype), low, 4), axis


def sample_quantize(chooser: Chooser) -> Sample:
    """Draw numbers, some of which are past the range."""
    tensor = TensorType(draw_shape(chooser))
    output = chooser.choose(EIGHT_BITS)
    scale, zero_point, axis = draw_affine(chooser, tensor, output)
    wide = chooser.choose([10, 200])
    x = Fill(tensor.with_dtype(scale.type.dtype), -wide, wide)
    return Sample({"input": x, "scale": scale, "zero_point": zero_point}, {"output_dtype": output, "axis": axis})


def draw_eight_bits(chooser: Chooser) -> Fill:
    """Draw numbers of eight bits."""
    dtype = chooser.choose(EIGHT_BITS)
    return Fill(TensorType(draw_shape(chooser), dtype), *value_range(dtype))


def sample_dequantize(chooser: Chooser) -> Sample:
    """Draw quantised numbers."""
    data = draw_eight_bits(chooser)
    scale, zero_point, axis = draw_affine(chooser, data.type, data.type.dtype)
    return Sample({"input": data, "scale": scale, "zero_point": zero_point}, {"axis": axis})


def sample_affine_weights(chooser: Chooser) -> Sample:
    """Draw quantised weights."""
    data = draw_eight_bits(chooser)
    scale, zero_point, axis = draw_affine(chooser, data.type, data.type.dtype)
    zero_point = zero_point or Fill(TensorType((), data.type.dtype), 0, 4)
    return Sample({"quantized_data": data, "scale": scale, "zero_point": zero_point}, {"axis": axis or 0})


def draw_blocks(chooser: Chooser, least_rank: int = 1) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Draw how many blocks there are along each axis, and the shape that they divide."""
    counts = draw_shape(chooser, least_rank, 3, longest=3)
    return counts, tuple(count * chooser.integer(1, 3) for count in counts)


def draw_table(chooser: Chooser, extents: tuple[int, ...], counts: tuple[int, ...]) -> tuple[Fill, str, int | None]:
    """Draw a table for the blocks, the type of its indices, and perhaps the axis of its vectors."""
    entries = chooser.choose([1, 2, 16])
    dtype = chooser.choose(PALETTE_INDICES)
    vector = chooser.integer(1, 3)
    axis = draw_axis(chooser, len(extents)) if vector > 1 else chooser.choose([None, 0])
    table = (entries,) if vector == 1 and chooser.choose([True, False]) else (*counts, entries, vector)
    return Fill(TensorType(table, chooser.choose(["fp16", "int8"]))), dtype, axis


def table_entries(table: Fill) -> int:
    """Return the length of a table."""
    return table.type.shape[0] if table.type.rank == 1 else table.type.shape[-2]


def sample_dense_from_table(chooser: Chooser) -> Sample:
    """Draw indices into a table of numbers or of vectors."""
    counts, extents = draw_blocks(chooser)
    table, dtype, axis = draw_table(chooser, extents, counts)
    indices = Fill(TensorType(extents, dtype), 0, table_entries(table) - 1)
    return Sample({"indices": indices, "lut": table}, {"vector_axis": axis})


def draw_mask(chooser: Chooser, extents: tuple[int, ...]) -> tuple[Fill, int]:
    """Draw a mask with none, some or all bits set, and how many."""
    every = chooser.integer(1, 4)
    bitmap = np.arange(math.prod(extents)).reshape(extents) % every == chooser.choose([0, every])
    return Fill.of(bitmap, chooser.choose(["bool", "uint8"])), int(bitmap.sum())


def sample_sparse(chooser: Chooser) -> Sample:
    """Draw a sparse tensor."""
    mask, count = draw_mask(chooser, draw_shape(chooser))
    return Sample({"mask": mask, "nonzero_data": Fill(TensorType((count,), chooser.choose(["fp16", "int8"])))})


def draw_scaled(chooser: Chooser, counts: tuple[int, ...], dtype: str) -> dict[str, Fill | None]:
    """Draw the scale of blocks and perhaps their offset."""
    scale = TensorType(counts, chooser.choose(FLOATS))
    offset = chooser.choose([None, dtype, scale.dtype])
    low = 0 if dtype.startswith("u") else -4
    return {
        "scale": Fill(scale, 0.1, 1),
        "offset": None if offset is None else Fill(TensorType(counts, offset), low, 4),
    }


def sample_scaled_blocks(chooser: Chooser) -> Sample:
    """Draw blocks with a scale each."""
    counts, extents = draw_blocks(chooser)
    dtype = chooser.choose(["int4", "uint4", "int8", "uint8"])
    data = Fill(TensorType(extents, dtype), *value_range(dtype))
    return Sample({"data": data, **draw_scaled(chooser, counts, dtype)})


def sample_sparse_scaled(chooser: Chooser) -> Sample:
    """Draw sparse blocks with a scale each."""
    counts, extents = draw_blocks(chooser)
    dtype = chooser.choose(["int4", "uint4", "int8", "uint8"])
    mask, count = draw_mask(chooser, extents)
    data = Fill(TensorType((count,), dtype), *value_range(dtype))
    return Sample({"data_mask": mask, "nonzero_data": data, **draw_scaled(chooser, counts, dtype)})


def sample_sparse_from_table(chooser: Chooser) -> Sample:
    """Draw sparse indices into a table."""
    counts, extents = draw_blocks(chooser)
    table, dtype, axis = draw_table(chooser, extents, counts)
    mask, count = draw_mask(chooser, extents)
    indices = Fill(TensorType((count,), dtype), 0, table_entries(table) - 1)
    attributes: dict[str, AttributeValue] = {"vector_axis": axis}
    return Sample({"indices_mask": mask, "indices_nonzero_data": indices, "lut": table}, attributes)


CAST = Op(
    name="cast",
    category=CATEGORY,
    summary="x as another element type: to an integer cut towards zero, to bool x ≠ 0",
    operands=(Operand("x"),),
    attributes=(dtype_attribute(),),
    infer=cast_type,
    meaning=cast_elements,
    sample=sample_cast,
    traits=frozenset({Trait.ELEMENTWISE}),
    surface=Surface.FUSED,
    in_mil=True,
    gradient=lambda: gradients.pointwise.CAST,
)
QUANTIZE = Op(
    name="quantize",
    category=CATEGORY,
    summary="input / scale, rounded half to even, + zero_point, within the type",
    operands=(Operand("input"), Operand("scale", CONSTANT), Operand("zero_point", CONSTANT, optional=True)),
    attributes=(Attribute("output_dtype", AttributeKind.TEXT, choices=EIGHT_BITS), AXIS),
    infer=quantize_type,
    meaning=quantize,
    sample=sample_quantize,
    opset="ios17",
    support=Support(floor=0, basis=Basis.SYMBOL),
    in_mil=True,
    gradient=lambda: gradients.quantising.QUANTISED,
)
DEQUANTIZE = Op(
    name="dequantize",
    category=CATEGORY,
    summary="scale · (input − zero_point)",
    operands=(Operand("input"), Operand("scale", CONSTANT), Operand("zero_point", CONSTANT, optional=True)),
    attributes=(AXIS,),
    infer=dequantize_type,
    meaning=dequantize,
    sample=sample_dequantize,
    opset="ios17",
    support=Support(floor=0, basis=Basis.SYMBOL),
    decompositions=lambda: (decompositions.movement.COMPUTED_BEFOREHAND,),
    in_mil=True,
    gradient=lambda: gradients.quantising.DEQUANTISED,
)
CONSTEXPR_LUT_TO_DENSE = Op(
    name="constexpr_lut_to_dense",
    category=CATEGORY,
    summary="lut[block of the place, index], one table or one per block; a vector is along vector_axis",
    operands=(Operand("indices", CONSTANT), Operand("lut", CONSTANT)),
    attributes=(VECTOR_AXIS,),
    infer=dense_from_table_type,
    meaning=dense_from_table,
    sample=sample_dense_from_table,
    opset="ios18",
    support=LIKELY_F2,
    decompositions=lambda: (decompositions.movement.COMPUTED_BEFOREHAND,),
    in_mil=True,
    gradient=lambda: gradients.reasons.OF_CONSTANTS,
)
CONSTEXPR_SPARSE_TO_DENSE = Op(
    name="constexpr_sparse_to_dense",
    category=CATEGORY,
    summary="the next of nonzero_data where the mask is set, 0 elsewhere",
    operands=(Operand("mask", CONSTANT), Operand("nonzero_data", CONSTANT)),
    infer=sparse_type,
    meaning=spread,
    sample=sample_sparse,
    opset="ios18",
    support=LIKELY_F2,
    decompositions=lambda: (decompositions.movement.COMPUTED_BEFOREHAND,),
    in_mil=True,
    gradient=lambda: gradients.reasons.OF_CONSTANTS,
)
CONSTEXPR_BLOCKWISE_SHIFT_SCALE = Op(
    name="constexpr_blockwise_shift_scale",
    category=CATEGORY,
    summary="scale · (data − offset), scale and offset one per block",
    operands=(Operand("data", CONSTANT), Operand("scale", CONSTANT), Operand("offset", CONSTANT, optional=True)),
    infer=scaled_blocks_type,
    meaning=scaled_blocks,
    sample=sample_scaled_blocks,
    opset="ios18",
    support=FROM_BLOCKS,
    decompositions=lambda: (decompositions.movement.COMPUTED_BEFOREHAND,),
    in_mil=True,
    gradient=lambda: gradients.reasons.OF_CONSTANTS,
)
CONSTEXPR_SPARSE_BLOCKWISE_SHIFT_SCALE = Op(
    name="constexpr_sparse_blockwise_shift_scale",
    category=CATEGORY,
    summary="the mask, and scale · (value − offset) of the values that are there",
    operands=(
        Operand("data_mask", CONSTANT),
        Operand("nonzero_data", CONSTANT),
        Operand("scale", CONSTANT),
        Operand("offset", CONSTANT, optional=True),
    ),
    infer=sparse_scaled_types,
    meaning=sparse_scaled,
    sample=sample_sparse_scaled,
    opset="ios18",
    support=FROM_BLOCKS,
    decompositions=lambda: (decompositions.movement.COMPUTED_BEFOREHAND,),
    in_mil=True,
    gradient=lambda: gradients.reasons.OF_CONSTANTS,
)
CONSTEXPR_AFFINE_DEQUANTIZE = Op(
    name="constexpr_affine_dequantize",
    category=CATEGORY,
    summary="scale · (quantized_data − zero_point)",
    operands=(Operand("quantized_data", CONSTANT), Operand("scale", CONSTANT), Operand("zero_point", CONSTANT)),
    attributes=(axis_attribute(),),
    infer=affine_type,
    meaning=affine_weights,
    sample=sample_affine_weights,
    opset="ios16",
    support=Support(floor=2, basis=Basis.LIKELY, mil_since=3, mil_otherwise=MilStatus.FOLD),
    decompositions=lambda: (decompositions.movement.COMPUTED_BEFOREHAND,),
    in_mil=True,
    gradient=lambda: gradients.reasons.OF_CONSTANTS,
)
CONSTEXPR_LUT_TO_SPARSE = Op(
    name="constexpr_lut_to_sparse",
    category=CATEGORY,
    summary="the mask, and lut[block of the place, index] of the indices that are there",
    operands=(Operand("indices_mask", CONSTANT), Operand("indices_nonzero_data", CONSTANT), Operand("lut", CONSTANT)),
    attributes=(VECTOR_AXIS,),
    infer=sparse_from_table_types,
    meaning=sparse_from_table,
    sample=sample_sparse_from_table,
    opset="ios18",
    support=LIKELY_BRIDGE_F2,
    decompositions=lambda: (decompositions.movement.COMPUTED_BEFOREHAND,),
    in_mil=True,
    gradient=lambda: gradients.reasons.OF_CONSTANTS,
)
CONSTEXPR_CAST = Op(
    name="constexpr_cast",
    category=CATEGORY,
    summary="source_val as another element type",
    operands=(Operand("source_val", CONSTANT),),
    attributes=(dtype_attribute(name="output_dtype"),),
    infer=constexpr_cast_type,
    meaning=constexpr_cast,
    sample=sample_constexpr_cast,
    traits=frozenset({Trait.ELEMENTWISE}),
    opset="ios16",
    support=NOWHERE,
    decompositions=lambda: (decompositions.movement.COMPUTED_BEFOREHAND,),
    in_mil=True,
    gradient=lambda: gradients.reasons.OF_CONSTANTS,
)
