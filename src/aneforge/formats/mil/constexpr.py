"""Constexpr operations: weights that are stored compressed, read into the constants of a graph.

Where a graph's constants have the encoding, the stored numbers are kept as they are. Other forms (tables per block or
of vectors, tables that are compressed themselves, sparse tensors of compressed values) are kept as the operations that
they are stored as, over constants (`ops.composed`).

The opsets ios16 and ios17 pack indices and masks into bytes by themselves and give the shape apart; later ones have
element types of a few bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.mil.calls import not_fitting
from aneforge.formats.mil.diagnostics import MilError
from aneforge.formats.mil.elements import STORED_ONLY, count_packed_bytes, element_bits, unpack
from aneforge.formats.mil.mil_values import Encoded, Known, describe_bound
from aneforge.formats.mil.text_rules import LITERAL_SHAPE, MISSING_PARAMETER, NOT_CONSTANT, TYPE_TOO_LARGE
from aneforge.ops.composed import INDICES, Composed, Recipe
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.signature import Attribute, AttributeKind
from aneforge.ops.types import TensorType, is_float, is_integer, numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aneforge.formats.mil.calls import Call
    from aneforge.ops.types import Array

__all__ = ["CONSTEXPR", "PACKED", "constexpr_constants"]

CONSTEXPR = "constexpr_"
PACKED = ("constexpr_lut_to_dense", "constexpr_sparse_to_dense")
"""Operations of which the form of older opsets is read too."""
SHAPE = Attribute("shape", AttributeKind.INTEGERS, least=0)
"""Shape of what is packed into bytes."""
MOST_ELEMENTS = 2**30
"""Elements of weights that are made dense while a program is read."""
PACKED_WIDTHS = (1, 2, 4, 6, 8)
MOST_DEPTH = 4
"""Operations in a chain that is kept: a quantised table, a lookup, a mask and scales. Each is evaluated as often as it
is read after, so the chains of a hostile program must be short."""


def constexpr_constants(call: Call) -> tuple[tuple[Constant, ...], bool]:
    """Return the constants that a constexpr operation stands for, and whether they keep their compressed form.

    Raises:
        MilError: Its parameters do not fit it.
    """
    form = FORMS.get(call.name)
    call.check_names(("shape",) if call.name in PACKED else ())
    try:
        encoded = form(call) if form and not has_compressed_parts(call) else None
        if encoded is not None:
            return (encoded,), not isinstance(encoded, Dense)
        kept = compose(call) if call.name in COMPOSED else None
        return (compute_constants(call), False) if kept is None else (kept, True)
    except MilError:
        raise
    except GraphError as error:
        raise not_fitting(call.statement, error) from None


def has_compressed_parts(call: Call) -> bool:
    """Return whether an operation reads what other constexpr operations give."""
    return any(isinstance(parameter.value, Encoded) for parameter in call.given.values())


def affine(call: Call) -> Constant:
    """Return weights of eight bits with a scale per channel; a zero point of 0 is none."""
    data, scale, zero = part(call, "quantized_data"), part(call, "scale"), part(call, "zero_point")
    axis = int(str(call.attribute(call.entry.attributes[0]))) if "axis" in call.given else 0
    types = {name: read_constant(call, name).type for name in ("quantized_data", "scale")}
    call.entry.types({**types, "zero_point": types["quantized_data"].with_shape(*zero.shape)}, {"axis": axis})
    if zero.dtype != data.dtype:  # programs give the zero point with and without sign, whatever the numbers have
        wide = {"quantized_data": data.astype(np.int16), "zero_point": zero.astype(np.int16)}
        (weights,) = call.entry.evaluate({**wide, "scale": scale.astype(np.float64)}, {"axis": axis})
        return Dense.owning(np.array(weights).astype(scale.dtype))
    return Int8Affine(data, scale, None if not zero.ndim and not zero else zero, axis)


def palette(call: Call) -> Constant | None:
    """Return indices into one table of numbers."""
    indices, table = part(call, "indices"), part(call, "lut")
    if "shape" in call.given:
        width = max(int(table.size) - 1, 1).bit_length()
        return Palette(pack(call, "indices", indices, width), table.reshape(-1), width)
    if table.ndim > 1 and (math.prod(table.shape[:-2]) != 1 or table.shape[-1] != 1):
        return None
    kind = TensorType(indices.shape, "uint4" if index_bits(call) == 4 else "uint8")
    call.entry.types({"indices": kind, "lut": read_constant(call, "lut").type}, call.entry.complete(call.attributes()))
    return Palette(indices.astype(np.uint8), table.reshape(-1), index_bits(call))


def sparse(call: Call) -> Constant:
    """Return a mask and the values that it keeps."""
    mask, nonzero = part(call, "mask"), part(call, "nonzero_data")
    return Sparse((pack(call, "mask", mask, 1) if "shape" in call.given else mask) != 0, nonzero)


def blockwise(call: Call) -> Constant | None:
    """Return integers with a scale per block."""
    data, scale = part(call, "data"), part(call, "scale")
    offset = part(call, "offset") if "offset" in call.given else None
    return Blockwise(data, scale, offset) if is_integer(read_constant(call, "data").type.dtype) else None


FORMS: dict[str, Callable[[Call], Constant | None]] = {
    "constexpr_affine_dequantize": affine,
    "constexpr_blockwise_shift_scale": blockwise,
    "constexpr_lut_to_dense": palette,
    "constexpr_sparse_to_dense": sparse,
}
"""Operations whose results a graph's constants can hold compressed; None says that this one cannot be."""


COMPOSED = (
    "constexpr_blockwise_shift_scale",
    "constexpr_lut_to_dense",
    "constexpr_lut_to_sparse",
    "constexpr_sparse_blockwise_shift_scale",
    "constexpr_sparse_to_dense",
)
"""Operations that a graph's constants can hold as they are."""


def compose(call: Call) -> tuple[Constant, ...] | None:
    """Return what an operation gives, kept as the operation; None after a chain that is longer than any.

    It is evaluated once, so that its parts are checked.
    """
    operands, axis = operands_of(call), call.attributes().get("vector_axis")
    width = next((index_bits(call, name) for name in INDICES if name in call.given), 8)
    recipe = Recipe(call.name, operands, None if axis is None else int(str(axis)), width)
    if recipe.depth > MOST_DEPTH:
        return None
    check_sizes(call, recipe.types)
    recipe.evaluated()
    return tuple(Composed(recipe, index) for index in range(len(recipe.types)))


def operands_of(call: Call) -> dict[str, Constant]:
    """Return the operands of an operation, all of which must be constants."""
    names = [one.name for one in call.entry.operands if one.name in call.given or not one.optional]
    return {name: read_constant(call, name) for name in names}


def check_sizes(call: Call, types: Sequence[TensorType]) -> None:
    """Check that results are not larger than any weight.

    Raises:
        MilError: One is.
    """
    for kind in types:
        if kind.size > MOST_ELEMENTS:
            place = call.statement.op_at
            raise TYPE_TOO_LARGE.broken(place, op=call.name, found=kind, expected=f"{MOST_ELEMENTS} elements")


def compute_constants(call: Call) -> tuple[Constant, ...]:
    """Return what an operation gives, each number rounded once to the element type of its result."""
    constants, attributes = operands_of(call), call.entry.complete(call.attributes())
    types = call.entry.types({name: one.type for name, one in constants.items()}, attributes)
    check_sizes(call, types)
    arrays = {
        name: one.dense().astype(np.float64) if is_float(one.type.dtype) else one.dense()
        for name, one in constants.items()
    }
    results = call.entry.evaluate(arrays, attributes)
    with np.errstate(over="ignore"):  # what the element type cannot hold becomes infinite, as its rounding says
        rounded = [
            np.array(result).astype(numpy_dtype(kind.dtype)) for result, kind in zip(results, types, strict=True)
        ]
    return tuple(map(Dense.owning, rounded))


def read_constant(call: Call, name: str) -> Constant:
    """Return a parameter that must be a constant.

    Raises:
        MilError: It is missing, or it is not one.
    """
    parameter = call.given.get(name)
    if parameter is None:
        raise MISSING_PARAMETER.broken(call.statement.op_at, name=name, op=call.name, expected=f"{name} = w")
    match parameter.value:
        case Known() as value if not value.is_text:
            constant = value.constant()
            as_indices = name in INDICES and constant.type.dtype == "bool"
            return Dense(constant.values.view(np.uint8)) if as_indices else constant
        case Encoded() as value:
            return value.constant
        case value:
            raise NOT_CONSTANT.broken(
                parameter.at, name=name, op=call.name, found=describe_bound(value), expected="a const"
            )


def part(call: Call, name: str) -> Array:
    """Return the numbers of a parameter that must be a constant."""
    return read_constant(call, name).dense()


def pack(call: Call, name: str, stored: Array, width: int) -> Array:
    """Return numbers that were packed into bytes, in the shape that is given with them.

    Raises:
        MilError: There are more or fewer than the shape says, or they are of no width that is known.
    """
    sizes = call.elements(SHAPE, call.given["shape"].value, call.given["shape"].at)  # pyright: ignore[reportArgumentType] - a tuple is refused there
    shape = tuple(int(str(one)) for one in sizes)
    count = math.prod(shape)
    dtype = f"uint{width}"
    if width not in PACKED_WIDTHS or stored.dtype != np.uint8 or stored.size != count_packed_bytes(dtype, count):
        expected = (
            f"{count_packed_bytes(dtype, count)} bytes of uint8" if width in PACKED_WIDTHS else "1, 2, 4, 6 or 8 bits"
        )
        found = f"{stored.size} of {stored.dtype}, {width} bits each"
        raise LITERAL_SHAPE.broken(call.given[name].at, op=call.name, found=found, expected=expected)
    return unpack(stored.reshape(-1), dtype, count).astype(np.uint8).reshape(shape)


def index_bits(call: Call, name: str = "indices") -> int:
    """Return the width of palette indices."""
    value = call.given[name].value
    dtype = value.kind.dtype if isinstance(value, Known) else "uint8"
    return STORED_ONLY.get(dtype) or element_bits(dtype)
