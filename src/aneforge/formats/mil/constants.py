"""Constants of a graph as statements of MIL text and blobs of the weights file.

One number is in the text, and so are short lists of integers and what no blob can hold; everything else is in
the blob. Compressed constants are constexpr statements over what they store. In the form of opsets before ios18,
indices and masks are packed into bytes, and their shape is separate.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import NotSupportedError
from aneforge.formats.mil.blob import CODES
from aneforge.formats.mil.elements import pack
from aneforge.formats.mil.literals import array_of, array_text, quote_text
from aneforge.formats.mil.syntax import Blob, Literal, ValueType
from aneforge.ops.composed import INDICES, is_mask
from aneforge.ops.constant import Blockwise, Constant, Dense, Int8Affine, Palette, Sparse
from aneforge.ops.packing import Packed
from aneforge.ops.types import is_float

if TYPE_CHECKING:
    from aneforge.formats.mil.blob import BlobWriter
    from aneforge.formats.mil.syntax import Value
    from aneforge.ops.composed import Recipe
    from aneforge.ops.types import Array

__all__ = ["MINUS_ZERO", "ConstantForms"]

LONGEST_IN_TEXT = 64
"""Integers and booleans that are in the text; a longer list is in the blob."""
MINUS_ZERO = "-0x0p+0"
PALETTE, SPARSE = "constexpr_lut_to_dense", "constexpr_sparse_to_dense"
PACKED_BITS = (1, 2, 4, 6, 8)
PACKED_DTYPES = ("fp16", "fp32", "int8", "uint8")
"""Widths of indices, and element types, that opsets before ios18 have."""


class ConstantForms:
    """Turns the numbers of constants into values of the text, in a blob or by themselves."""

    def __init__(self, blob: BlobWriter, path: str, *, packed: bool = False, shared: bool = False) -> None:
        self.blob = blob
        self.shared = shared
        """Equal arrays of different constants are once in the blob, as functions of one package mostly have them."""
        self.packed = packed
        """Palettes and sparse tensors are in the form of opsets before ios18, where these have one for them."""
        self.path = Literal(ValueType("string"), quote_text(path))
        self.offsets: dict[tuple[int | bytes, str], int] = {}
        """Where arrays are in the blob; functions of one program share them."""

    def value(self, values: Array | Packed, dtype: str) -> Literal | Blob:
        """Return an array as a value: a literal where no blob can hold it, or it is one number, else a reference."""
        if isinstance(values, Packed) and not (values.shape and values.size):
            values = values.unpacked()
        kind = ValueType(dtype, values.shape or None)
        if isinstance(values, Packed):
            return self.reference(values, kind)
        if not values.ndim or not values.size or dtype not in CODES:
            literal = Literal(kind, array_text(values, dtype))
            if values.ndim or dtype not in CODES or same_bytes(array_of(literal), values):
                return literal
            kind = ValueType(dtype, ())  # a NaN whose bits a number in the text does not give
        return self.reference(values, kind)

    def reference(self, values: Array | Packed, kind: ValueType) -> Blob:
        """Return where an array is in the blob, which has it once."""
        dtype = kind.dtype
        # The blob holds the array, so that no other has its number.
        key = content_digest(values) if self.shared else id(values), dtype
        offset = self.offsets[key] = self.offsets[key] if key in self.offsets else self.blob.add(values, dtype)
        return Blob(kind, self.path, Literal(ValueType("uint64"), str(offset)))

    def stored(self, values: Array) -> Literal | Blob:
        """Return an array in its own element type."""
        return self.value(values, Dense(values).type.dtype)

    def dense(self, values: Array) -> Literal | Blob:
        """Return a constant that is not compressed; a short list of integers is in the text."""
        dtype = Dense(values).type.dtype
        if values.ndim and values.size <= LONGEST_IN_TEXT and not is_float(dtype):
            return Literal(ValueType(dtype, values.shape), array_text(values, dtype))
        return self.value(values, dtype)

    def parameters(self, constant: Constant) -> tuple[str, dict[str, Value]]:
        """Return the operation that makes a compressed constant dense, and its parameters.

        Raises:
            NotSupportedError: The constant has parts that MIL does not take.
        """
        match constant:
            case Int8Affine():
                return "constexpr_affine_dequantize", self.affine(constant)
            case Palette() | Sparse() if self.packed and is_packable(constant):
                return self.packed_parameters(constant)
            case Palette():
                return PALETTE, self.palette(constant)
            case Sparse():
                mask = self.value(constant.mask, "uint1")
                return SPARSE, {"mask": mask, "nonzero_data": self.stored(constant.nonzero)}
            case Blockwise():
                return "constexpr_blockwise_shift_scale", self.blockwise(constant)
            case _:
                raise NotSupportedError("MIL has no form of this encoding", seen=constant.encoding)

    def packed_parameters(self, constant: Palette | Sparse) -> tuple[str, dict[str, Value]]:
        """Return a palette or a sparse tensor in the form of opsets before ios18."""
        shape = np.array(constant.type.shape, np.uint32)
        stated = Literal(ValueType("uint32", shape.shape), array_text(shape, "uint32"))
        if isinstance(constant, Sparse):
            mask = self.value(pack(constant.mask, "uint1"), "uint8")
            return SPARSE, {"mask": mask, "nonzero_data": self.stored(constant.nonzero), "shape": stated}
        indices = self.value(constant.packed.stored, "uint8")
        return PALETTE, {"indices": indices, "lut": self.stored(full_table(constant)), "shape": stated}

    def composed(self, recipe: Recipe, name: str) -> Literal | Blob:
        """Return an operand of a composed constant that is not compressed itself."""
        values = cast("Dense", recipe.operands[name]).values
        if name in INDICES:
            return self.value(values, f"uint{recipe.bits}")
        return self.value(values, "uint1") if is_mask(recipe.operands[name]) else self.stored(values)

    def affine(self, constant: Int8Affine) -> dict[str, Value]:
        """Return the parts of weights with a scale per channel."""
        channels = constant.quantized.shape[constant.axis]
        zero = np.zeros((), constant.quantized.dtype) if constant.zero_point is None else constant.zero_point
        point = exactly(zero, constant.quantized.dtype, "zero point")
        return {
            "axis": Literal(ValueType("int32"), str(constant.axis)),
            "quantized_data": self.stored(constant.quantized),
            "scale": self.stored(per_channel(constant.scale, channels)),
            "zero_point": self.stored(per_channel(point, channels)),
        }

    def palette(self, constant: Palette) -> dict[str, Value]:
        """Return the indices and the table, which is as long as the indices reach."""
        table = full_table(constant)
        shape = (*(1 for _ in constant.type.shape), table.size, 1)
        return {
            "indices": self.value(constant.packed, f"uint{constant.bits}"),
            "lut": self.stored(table.reshape(shape)),
        }

    def blockwise(self, constant: Blockwise) -> dict[str, Value]:
        """Return the parts of weights with a scale per block; scale and offset have the same blocks in MIL."""
        data, scale, offset = constant.data, constant.scale, constant.offset
        if offset is None:
            return {"data": self.stored(data), "scale": self.stored(scale)}
        kept = offset if offset.dtype in (data.dtype, scale.dtype) else exactly(offset, scale.dtype, "offset")
        counts = tuple(math.lcm(*pair) for pair in zip(scale.shape, offset.shape, strict=True))
        finer = [spread(part, counts) for part in (scale, kept)]
        return {"data": self.stored(data), "scale": self.stored(finer[0]), "offset": self.stored(finer[1])}


def is_packable(constant: Palette | Sparse) -> bool:
    """Return whether opsets before ios18 have a form for a compressed constant."""
    if not constant.type.rank or constant.type.dtype not in PACKED_DTYPES:
        return False
    return bool(constant.nonzero.size) if isinstance(constant, Sparse) else constant.bits in PACKED_BITS


def full_table(constant: Palette) -> Array:
    """Return the table of a palette, as long as the indices reach."""
    table = np.zeros(1 << constant.bits, constant.table.dtype)
    table[: constant.table.size] = constant.table
    return table


def content_digest(values: Array | Packed) -> bytes:
    """Return what distinguishes the elements of an array from others of their type."""
    state = hashlib.sha256()
    for run in values.runs() if isinstance(values, Packed) else (np.ascontiguousarray(values),):
        state.update(run.reshape(-1).view(np.uint8).data)
    return state.digest()


def same_bytes(one: Array, other: Array) -> bool:
    """Return whether two arrays are stored equally."""
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()


def per_channel(part: Array, channels: int) -> Array:
    """Return a scale or a zero point as MIL takes it: one number, or a list of one per channel."""
    return part.reshape(()) if part.size == 1 and (not part.ndim or channels > 1) else part.reshape(channels)


def exactly(part: Array, dtype: np.dtype[np.generic], what: str) -> Array:
    """Return numbers in another element type that holds all of them.

    Raises:
        NotSupportedError: It does not.
    """
    with np.errstate(all="ignore"):
        converted = part.astype(dtype)
    if not np.array_equal(converted.astype(np.float64), part.astype(np.float64)):
        raise NotSupportedError(
            f"MIL takes the {what} in another element type, which does not hold its numbers",
            seen=part.dtype.name,
            limit=np.dtype(dtype).name,
        )
    return converted


def spread(part: Array, counts: tuple[int, ...]) -> Array:
    """Return the numbers of blocks for finer blocks."""
    for axis, count in enumerate(counts):
        part = np.repeat(part, count // part.shape[axis], axis)
    return part
