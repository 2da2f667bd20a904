"""Tensors that a model carries, as constants: dense, sparse, or in a type that has no meaning here.

Numbers are either raw bytes, little-endian, or lists of one of the wire's own types; onnx.proto says for each element
type which. Shape and size are compared before anything is allocated. Bytes are looked into, not copied.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.formats.onnx.dtypes import ELEMENT_TYPES, FOREIGN_TYPES, element_type_name
from aneforge.formats.onnx.onnx_values import Foreign
from aneforge.formats.shared.extents import check_extents
from aneforge.ops.constant import Constant, Dense, Sparse
from aneforge.ops.types import Array, bits, numpy_dtype

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

__all__ = ["CutData", "constant_of", "sparse_constant_of"]

CutData = tuple[str, memoryview]
EXTERNAL = 1
"""`TensorProto.DataLocation` of data in a file."""
SPARSE_MASK_MOST = 2**30
"""Largest dense size of a sparse tensor: its mask takes a byte for each element."""

LISTS: dict[str, tuple[str, str]] = {
    "fp32": ("float_data", "float32"),
    "fp64": ("double_data", "float64"),
    "int64": ("int64_data", "int64"),
    "uint64": ("uint64_data", "uint64"),
    "uint32": ("uint64_data", "uint64"),
    "int32": ("int32_data", "int32"),
    "int16": ("int32_data", "int32"),
    "uint16": ("int32_data", "int32"),
    "int8": ("int32_data", "int32"),
    "uint8": ("int32_data", "int32"),
    "bool": ("int32_data", "int32"),
    "fp16": ("int32_data", "int32"),
    "bf16": ("int32_data", "int32"),
    "fp8e4m3fn": ("int32_data", "int32"),
    "fp8e5m2": ("int32_data", "int32"),
    "int4": ("int32_data", "int32"),
    "uint4": ("int32_data", "int32"),
}
"""The list that holds an element type's numbers where they are not raw bytes, and the type of the list."""
BIT_PATTERNS = {"fp16": np.uint16, "bf16": np.uint16, "fp8e4m3fn": np.uint8, "fp8e5m2": np.uint8}
"""Element types whose lists hold bit patterns, and the integers that those are."""
PACKED = ("int4", "uint4")


def constant_of(tensor: onnx.TensorProto, folder: Path | None, cut: CutData | None = None) -> Constant | Foreign:
    """Return a tensor as a constant; `cut` is its data where that was taken out of the message.

    Raises:
        GraphError: Shape, element type and data do not fit one another.
    """
    number = tensor.data_type
    if number in FOREIGN_TYPES:
        name, reason = FOREIGN_TYPES[number]
        return Foreign(f"a tensor of {name}", reason)
    if number not in ELEMENT_TYPES:
        raise GraphError(f"tensor {tensor.name!r} has no known element type", seen=element_type_name(number))
    if tensor.HasField("segment"):
        raise GraphError(f"tensor {tensor.name!r} is a segment of another", remedy="save the model in one piece")
    dtype = ELEMENT_TYPES[number]
    shape = check_extents(f"tensor {tensor.name!r}", tensor.dims)
    return Dense(numbers_of(tensor, dtype, shape, folder, cut))


def numbers_of(
    tensor: onnx.TensorProto, dtype: str, shape: tuple[int, ...], folder: Path | None, cut: CutData | None
) -> Array:
    """Return the numbers of a tensor, read-only."""
    size = math.prod(shape)
    wanted = (size * bits(dtype) + 7) // 8
    if tensor.data_location == EXTERNAL:
        from aneforge.formats.onnx.external import external_data, read_external  # noqa: PLC0415 - few models have any

        raw: bytes | memoryview | None = read_external(folder, external_data(tensor), wanted)
    elif cut is not None:
        raw = cut[1]
        expect_list(tensor, dtype, cut[0])
    else:
        raw = tensor.raw_data if tensor.HasField("raw_data") else None
    if raw is None:
        return from_list(tensor, dtype, shape)
    if len(raw) != wanted:
        raise GraphError(
            f"tensor {tensor.name!r} has data that does not fit its shape",
            seen=f"{len(raw)} bytes",
            limit=f"{wanted} bytes for {dtype}{list(shape)}",
        )
    return freeze(from_bytes(raw, dtype, size).reshape(shape))


def expect_list(tensor: onnx.TensorProto, dtype: str, field: str) -> None:
    """Check that numbers are in the list of their element type.

    Raises:
        GraphError: They are in another.
    """
    if field != "raw_data" and LISTS[dtype][0] != field:
        raise GraphError(f"tensor {tensor.name!r} of {dtype} has its data in {field}", limit=LISTS[dtype][0])


def from_bytes(raw: bytes | memoryview, dtype: str, size: int) -> Array:
    """Return numbers from little-endian bytes; what NumPy has no packed form of is unpacked."""
    if dtype in PACKED:
        return unpack(np.frombuffer(raw, np.uint8), dtype, size)
    if dtype == "bool":
        return np.frombuffer(raw, np.uint8) != 0
    numbers = np.frombuffer(raw, numpy_dtype(dtype))
    return numbers if sys.byteorder == "little" else numbers.byteswap()


def unpack(pairs: Array, dtype: str, size: int) -> Array:
    """Return numbers of four bits, the low half of a byte first."""
    halves = np.stack([pairs & 0xF, pairs >> 4], -1).reshape(-1)[:size]
    signed = (halves ^ 8).astype(np.int8) - 8 if dtype == "int4" else halves
    return signed.astype(numpy_dtype(dtype))


def from_list(tensor: onnx.TensorProto, dtype: str, shape: tuple[int, ...]) -> Array:
    """Return numbers from the list that an element type's numbers are in.

    Raises:
        GraphError: The list has more or fewer, or one that the type does not hold.
    """
    field, kind = LISTS[dtype]
    listed: object = getattr(tensor, field)
    count = len(listed)  # pyright: ignore[reportArgumentType] - one of the message's lists
    size = math.prod(shape)
    wanted = (size + 1) // 2 if dtype in PACKED else size
    if count != wanted:
        raise GraphError(
            f"tensor {tensor.name!r} has data that does not fit its shape",
            seen=f"{count} numbers in {field}",
            limit=f"{wanted} for {dtype}{list(shape)}",
        )
    numbers = np.array(listed, kind)
    if dtype in BIT_PATTERNS:
        return freeze(exactly(tensor, numbers, np.dtype(BIT_PATTERNS[dtype])).view(numpy_dtype(dtype)).reshape(shape))
    if dtype in PACKED:
        return freeze(unpack(exactly(tensor, numbers, np.dtype(np.uint8)), dtype, size).reshape(shape))
    if dtype == "bool":
        return freeze((numbers != 0).reshape(shape))
    return freeze(exactly(tensor, numbers, numpy_dtype(dtype)).reshape(shape))


def exactly(tensor: onnx.TensorProto, numbers: Array, dtype: np.dtype[np.integer]) -> Array:
    """Return integers of a list in the type that they stand for.

    Raises:
        GraphError: One does not fit it.
    """
    if dtype == numbers.dtype or not numbers.size:
        return numbers.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    low, high = int(numbers.min()), int(numbers.max())
    if low < limits.min or high > limits.max:
        raise GraphError(
            f"tensor {tensor.name!r} has a number that {dtype} does not hold",
            seen=low if low < limits.min else high,
            limit=f"{limits.min} to {limits.max}",
        )
    return numbers.astype(dtype)


def freeze(array: Array) -> Array:
    """Return an array that was made here, made read-only so that a constant takes it as it is."""
    array.flags.writeable = False
    return array


def sparse_constant_of(sparse: onnx.SparseTensorProto, folder: Path | None) -> Constant | Foreign:
    """Return a sparse tensor as a constant.

    Raises:
        GraphError: Its parts do not fit one another.
    """
    name = sparse.values.name
    values, indices = constant_of(sparse.values, folder), constant_of(sparse.indices, folder)
    if isinstance(values, Foreign):
        return values
    if isinstance(indices, Foreign) or indices.type.dtype != "int64":
        raise GraphError(f"sparse tensor {name!r} has indices that are not int64")
    shape = check_extents(f"sparse tensor {name!r}", sparse.dims)
    size = math.prod(shape)
    if size > SPARSE_MASK_MOST:
        raise GraphError(f"sparse tensor {name!r} is too large", seen=list(shape), limit=f"{SPARSE_MASK_MOST} elements")
    places = flat_places(name, indices.dense(), shape)
    if values.type.rank != 1 or len(places) != values.type.size:
        raise GraphError(f"sparse tensor {name!r} must have one place for each value", seen=len(places))
    if places.size and not (int(places.min()) >= 0 and int(places.max()) < size and np.all(np.diff(places) > 0)):
        raise GraphError(f"sparse tensor {name!r} has places outside of it or not in order", limit=list(shape))
    mask = np.zeros(size, np.bool_)
    mask[places] = True
    return Sparse(freeze(mask.reshape(shape)), values.dense())


def flat_places(name: str, indices: Array, shape: tuple[int, ...]) -> Array:
    """Return places in row-major order from a list of them or of coordinates.

    Raises:
        GraphError: They are neither, or coordinates are outside of the tensor.
    """
    if indices.ndim == 1:
        return indices
    if indices.ndim != 2 or indices.shape[1] != len(shape):
        raise GraphError(
            f"sparse tensor {name!r} has neither places nor coordinates",
            seen=list(indices.shape),
            limit=f"[n, {len(shape)}]",
        )
    if np.any(indices < 0) or np.any(indices >= np.array(shape)):
        raise GraphError(f"sparse tensor {name!r} has coordinates outside of it", limit=list(shape))
    return np.asarray(np.ravel_multi_index(tuple(indices.T), shape))
