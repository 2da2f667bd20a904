"""Types and values of a program's messages, in the form that programs have here.

Sources of truth: the schema of MIL programs that coremltools ships (`MIL.proto`) and what its converter writes: 32-bit
numbers as numbers, 16-bit and smaller ones as bytes, texts as texts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.formats.mil.elements import TEXT, array_dtype, count_packed_bytes, element_bits, unpack
from aneforge.formats.mil.literals import quote_text
from aneforge.formats.mil.syntax import Blob, Immediate, ListType, Literal, StateType, ValueType
from aneforge.formats.mil.text_rules import (
    LITERAL_SHAPE,
    NUMBER,
    NUMBER_RANGE,
    TYPE_TOO_LARGE,
    UNKNOWN_DTYPE,
    UNKNOWN_EXTENT,
    WRONG_SORT,
)
from aneforge.formats.mil.types import MOST_AXES
from aneforge.formats.mlpackage.messages import messages
from aneforge.ops.types import is_float, value_range

if TYPE_CHECKING:
    from aneforge.formats.mil.syntax import Type
    from aneforge.formats.mlpackage.messages import MilDimension, MilTensorValue, MilType, MilValue
    from aneforge.ops.types import Array

__all__ = ["element_names", "type_of", "value_of", "value_type"]

MOST_EXTENT = 2**48
"""Length of an axis; more elements than that are in no memory."""
SORTS = {"FLOAT": "fp", "BFLOAT": "bf", "INT": "int", "UINT": "uint"}
"""How the schema names sorts of numbers, and how MIL does."""


def element_names() -> dict[int, str]:
    """Return the element types by the schema's numbers.

    >>> element_names()[10], element_names()[2], element_names()[40]
    ('fp16', 'string', 'fp8e4m3fn')
    """
    return {code: element_name(name) for name, code in messages().element_codes.items() if code}


def element_name(name: str) -> str:
    """Return an element type as MIL spells it.

    >>> element_name("BFLOAT16"), element_name("BOOL"), element_name("UINT4")
    ('bf16', 'bool', 'uint4')
    """
    letters = name.rstrip("0123456789") if name[-1].isdigit() and "E" not in name else name[: name.find("T") + 1]
    return (SORTS[letters] + name.removeprefix(letters)).lower() if letters in SORTS else name.lower()


def type_of(kind: MilType, name: str, at: int) -> Type:
    """Return a type.

    Raises:
        MilError: There is none like it in a graph.
    """
    match kind.WhichOneof("type"):
        case "tensorType":
            return value_type(kind, name, at)
        case "stateType":
            held = value_type(kind.stateType.wrappedType, name, at)
            return StateType(ValueType(held.dtype, held.extents or ()))
        case "listType":
            return ListType(value_type(kind.listType.type, name, at), extent_of(kind.listType.length, name, at))
        case other:
            found = (other or "no type").removesuffix("Type")
            raise WRONG_SORT.broken(at, name=name, found=found, expected="a tensor, a state or a list")


def value_type(kind: MilType, name: str, at: int) -> ValueType:
    """Return the type of a tensor; one without axes is a number.

    Raises:
        MilError: It is not a tensor, its element type is unknown, or it is larger than any.
    """
    if kind.WhichOneof("type") != "tensorType":
        found = (kind.WhichOneof("type") or "no type").removesuffix("Type")
        raise WRONG_SORT.broken(at, name=name, found=found, expected="a tensor")
    tensor = kind.tensorType
    dtype = element_names().get(tensor.dataType)
    if dtype is None:
        raise UNKNOWN_DTYPE.broken(at, name=f"number {tensor.dataType}", expected="one that the schema lists")
    if len(tensor.dimensions) > MOST_AXES:
        raise TYPE_TOO_LARGE.broken(at, found=f"{len(tensor.dimensions)} axes", expected=f"{MOST_AXES} axes")
    if tensor.rank != len(tensor.dimensions):
        found = "any number of axes" if tensor.rank < 0 else f"{tensor.rank} axes, {len(tensor.dimensions)} lengths"
        raise UNKNOWN_EXTENT.broken(at, name=name, found=found, expected="a length for every axis")
    extents = tuple(extent_of(one, name, at) for one in tensor.dimensions)
    return ValueType(dtype, extents or None)


def extent_of(dimension: MilDimension, name: str, at: int) -> int | None:
    """Return the length of an axis; None for one that is not known.

    Raises:
        MilError: It stands for any number of axes, or is longer than any.
    """
    if dimension.WhichOneof("dimension") != "constant":
        if dimension.unknown.variadic:
            raise UNKNOWN_EXTENT.broken(at, name=name, found="any number of axes", expected="a length for every axis")
        return None
    if dimension.constant.size > MOST_EXTENT:
        raise TYPE_TOO_LARGE.broken(at, found=dimension.constant.size, expected=f"axes up to {MOST_EXTENT}")
    return dimension.constant.size


def value_of(value: MilValue, name: str, at: int) -> Immediate | Blob:
    """Return a value: what the message holds, or the place of a blob.

    Raises:
        MilError: It is of a sort that no graph has, or does not fill its type.
    """
    match value.WhichOneof("value"):
        case "blobFileValue":
            kind = value_type(value.type, name, at)
            path = Literal(ValueType(TEXT), quote_text(value.blobFileValue.fileName), at, at)
            return Blob(kind, path, Literal(ValueType("uint64"), str(value.blobFileValue.offset), at, at), at)
        case "immediateValue" if value.immediateValue.WhichOneof("value") == "tensor":
            kind = value_type(value.type, name, at)
            return Immediate(kind, elements_of(value.immediateValue.tensor, kind, at), at)
        case "immediateValue" if value.immediateValue.WhichOneof("value") == "list":
            return list_of(value, name, at)
        case _:
            sort = value.immediateValue.WhichOneof("value") or "nothing"
            raise WRONG_SORT.broken(at, name=name, found=sort, expected="a tensor")


def list_of(value: MilValue, name: str, at: int) -> Immediate:
    """Return a list of numbers or texts, as a tensor of them.

    Raises:
        MilError: Its elements are not single numbers or texts, all of one type.
    """
    items = [value_of(one, name, at) for one in value.immediateValue.list.values]
    kinds = {item.type for item in items}
    if len(kinds) != 1 or any(not isinstance(item, Immediate) or item.type.rank for item in items):
        raise WRONG_SORT.broken(at, name=name, found="a list of other values", expected="numbers or texts of one type")
    immediate = cast("list[Immediate]", items)
    kind = ValueType(immediate[0].type.dtype, (len(items),))
    if kind.dtype == TEXT:
        return Immediate(kind, tuple(str(item.values[0]) for item in immediate), at)
    return Immediate(kind, np.stack([cast("Array", item.values) for item in immediate]), at)


def elements_of(tensor: MilTensorValue, kind: ValueType, at: int) -> Array | tuple[str, ...]:
    """Return the elements of a tensor in the shape of its type, or its texts.

    Raises:
        MilError: They do not fill the type, or are not values of it.
    """
    sort = tensor.WhichOneof("value")
    count = math.prod(kind.shape) if kind.known else -1
    if sort == "bytes":
        return unpacked(tensor.bytes.values, kind, count, at)
    stored = getattr(tensor, sort).values if sort else ()
    if len(stored) != count or count < 0:
        raise LITERAL_SHAPE.broken(at, found=f"{len(stored)} values", expected=kind)
    if (sort == "strings") != (kind.dtype == TEXT):
        raise NUMBER.broken(at, found=sort or "no values", expected=kind.dtype)
    if sort == "strings":
        return tuple(stored)
    return numbers(np.array(stored), kind, at)


def unpacked(stored: bytes, kind: ValueType, count: int, at: int) -> Array:
    """Return elements that the message holds as they are stored, in bytes.

    Raises:
        MilError: There are more or fewer bytes than the type needs, or it is one of texts.
    """
    if kind.dtype == TEXT:
        raise NUMBER.broken(at, found="bytes", expected=TEXT)
    if count < 0 or len(stored) != count_packed_bytes(kind.dtype, count):
        expected = f"{kind}, {element_bits(kind.dtype)} bits each"
        raise LITERAL_SHAPE.broken(at, found=f"{len(stored)} bytes", expected=expected)
    if kind.dtype == "bool":
        return (np.frombuffer(stored, np.uint8) != 0).reshape(kind.shape)
    return unpack(np.frombuffer(stored, np.uint8), kind.dtype, count).reshape(kind.shape)


def numbers(stored: Array, kind: ValueType, at: int) -> Array:
    """Return numbers in the element type of a tensor.

    Raises:
        MilError: It does not hold one of them.
    """
    dtype = kind.dtype
    if is_float(dtype):
        with np.errstate(over="ignore"):
            return stored.astype(array_dtype(dtype)).reshape(kind.shape)
    if stored.dtype.kind == "f" or (stored.dtype.kind == "b") != (dtype == "bool" and stored.size > 0):
        if stored.size:
            raise NUMBER.broken(at, found=f"numbers of {stored.dtype}", expected=dtype)
        return np.empty(kind.shape, array_dtype(dtype))
    least, most = (
        value_range(dtype) if dtype not in ("uint1", "uint2", "uint3", "uint6") else (0, 2 ** int(dtype[4:]) - 1)
    )
    if dtype == "uint64":
        stored = stored.astype(np.uint64)  # the schema has only signed numbers, of the same bits
    if stored.size and not least <= int(stored.min()) <= int(stored.max()) <= most:
        found = f"{stored.min()} to {stored.max()}"
        raise NUMBER_RANGE.broken(at, found=found, expected=f"{least} to {most} as {dtype} holds it")
    return stored.astype(array_dtype(dtype)).reshape(kind.shape)
