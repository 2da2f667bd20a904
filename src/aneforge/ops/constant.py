"""Constants with an encoding: the one type in which importers, compiler, engine and compression hold weights.

A constant knows its tensor type (what it stands for), the bytes that it takes in storage, and how to become dense. Two
constants are equal when they are stored equally; `digest` names one without its bytes.

A constant never changes. An array that could still be written to is copied, once, when the constant is made; one that
is read-only (a file mapped into memory, an array whose `writeable` flag was taken away) is kept as it is. So the
owner of large weights passes them without a copy by making them read-only first; `Dense.owning` does it for an array
that was made for the constant and that has no other owner.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Self, cast
from weakref import WeakValueDictionary

from aneforge.arrays import np
from aneforge.errors import GraphError, GraphTypeError
from aneforge.ops.arithmetic import reshape_along
from aneforge.ops.packing import Packed, count_packed_bytes
from aneforge.ops.shapes import normalise_axis
from aneforge.ops.types import DTYPES, Array, TensorType, bits, is_float, is_integer, numpy_dtypes
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Blockwise", "Constant", "Dense", "Folded", "Int8Affine", "Palette", "Sparse", "shared_dense", "wide_values"]

AT_ONCE = 1 << 20
"""Elements that are decoded at once, so that no copy of a large weight in float64 is made."""
MAGNITUDE_BITS, INFINITY_BITS = 0x7FFF, 0x7C00
"""Bits of fp16: all but the sign, and those of infinity; magnitudes above it are NaN."""
PALETTE_BITS = (1, 2, 3, 4, 6, 8)
BLOCK_SIZE = 32
"""Documented number of columns in a block."""


class Constant(ABC):
    """A tensor that is known when the program is compiled."""

    @cached_property
    def type(self) -> TensorType:
        """What the constant stands for once it is dense; rules and passes ask for it again and again."""
        return self._type()

    @abstractmethod
    def _type(self) -> TensorType:
        """Return what the constant stands for."""

    @property
    @abstractmethod
    def parts(self) -> Mapping[str, Array]:
        """The arrays that are stored, by name."""

    @property
    @abstractmethod
    def encoding(self) -> str:
        """Name of the encoding."""

    @property
    def is_encoded(self) -> bool:
        """It is stored in a different form than its values."""
        return True

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes in storage."""

    @abstractmethod
    def dense(self) -> Array:
        """Return the values in the constant's own element type."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of encoding, type and stored arrays."""
        import hashlib  # noqa: PLC0415 - it loads a library of cryptography, and a check needs none

        state = hashlib.sha256(f"{self.encoding} {self.type}".encode())
        for name, part in self.content().items():
            if isinstance(part, Packed):
                code, runs = np.dtype(np.uint8).str, part.runs()
            else:
                # NumPy's code for a type is the same for all types of one size that are not NumPy's own.
                code = part.dtype.str if part.dtype.isbuiltin == 1 else part.dtype.name
                runs: Iterable[Array] = (np.ascontiguousarray(part).reshape(-1).view(np.uint8),)
            state.update(f" {name} {code} {part.shape} ".encode())
            for run in runs:
                state.update(run.data)
        return state.hexdigest()

    def content(self) -> Mapping[str, Array | Packed]:
        """Return what `digest` is of: the arrays that are stored, where elements of a few bits count as bytes."""
        return self.parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __str__(self) -> str:
        return f"{self.type} {self.encoding} sha256:{self.digest[:12]}"

    def _freeze(self, *names: str) -> None:
        """Put read-only arrays into the fields that hold arrays; None stays where a field is left out.

        Raises:
            GraphTypeError: A field holds something else.
            GraphError: No tensor can hold such elements.
        """
        for name in names:
            part = cast("object", getattr(self, name))
            if part is not None or name not in ("zero_point", "offset"):
                object.__setattr__(self, name, frozen(expect_array(part, name)))


def dtype_name(array: Array) -> str:
    """Return the element type of an array.

    Raises:
        GraphError: No tensor can hold such elements.
    """
    for name, dtype in numpy_dtypes().items():
        if dtype == array.dtype:
            return name
    raise GraphError("no tensor holds elements of this type", seen=str(array.dtype), limit=", ".join(DTYPES))


def expect_array(value: object, name: str) -> Array:
    """Return a value that must be an array.

    Raises:
        GraphTypeError: It is something else.
    """
    if not isinstance(value, np.ndarray):
        raise GraphTypeError(
            f"{name} of a constant is not a NumPy array",
            seen=type(value).__name__,
            remedy="convert it with np.array and give the element type",
        )
    return cast("Array", value)


def expect_scale(scale: Array) -> None:
    """Check that a scale is of floating-point numbers, whose type the dense values have.

    Raises:
        GraphError: It is not.
    """
    if not is_float(dtype_name(scale)):
        raise GraphError("the scale must hold floating-point numbers", seen=dtype_name(scale), limit="fp16, fp32")


def expect_shift(what: str, shift: Array | None) -> None:
    """Check that what is taken off before scaling, where it is given, is a number.

    Raises:
        GraphError: It is a boolean.
    """
    if shift is not None and dtype_name(shift) == "bool":
        raise GraphError(f"the {what} must hold numbers", seen="bool")


def stored_bytes(*parts: Array | None) -> int:
    """Return the bytes that arrays take in storage, elements packed; None is a part that was left out."""
    return sum((part.size * bits(dtype_name(part)) + 7) // 8 for part in parts if part is not None)


def frozen(array: Array) -> Array:
    """Return an array that nobody can write to: itself if it is one, else a read-only copy.

    Raises:
        GraphError: No tensor can hold such elements.
    """
    dtype_name(array)
    if not array.flags.writeable:
        return array
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def wide_values(constant: Constant) -> Array:
    """Return the numbers of a constant in the type in which the mathematics is done."""
    values = constant.dense()
    return values.astype(np.float64) if is_float(constant.type.dtype) else values


@dataclass(frozen=True, eq=False)
class Dense(Constant):
    """Every value as it is.

    >>> constant = Dense(np.zeros((2, 3), np.float16))
    >>> print(constant.type, constant.nbytes)
    fp16[2, 3] 12
    """

    values: Array

    def __post_init__(self) -> None:
        self._freeze("values")

    @classmethod
    def owning(cls, values: Array) -> Self:
        """Return the constant of an array that the caller made for it, which becomes read-only and is not copied.

        An array that looks into another one's memory is copied nevertheless: the other could still be written to.

        >>> fresh = np.arange(3, dtype=np.float32)
        >>> Dense.owning(fresh).values is fresh, fresh.flags.writeable
        (True, False)
        """
        if expect_array(values, "values").flags.owndata:
            values.flags.writeable = False
        return cls(values)

    def _type(self) -> TensorType:
        """Return what the constant stands for."""
        return TensorType(tuple(self.values.shape), dtype_name(self.values))

    @property
    def parts(self) -> Mapping[str, Array]:
        """The arrays that are stored."""
        return {"values": self.values}

    @property
    def encoding(self) -> str:
        """Name of the encoding."""
        return "dense"

    @property
    def is_encoded(self) -> bool:
        """It is stored in a different form than its values."""
        return False

    @property
    def nbytes(self) -> int:
        """Bytes in storage."""
        return self.type.nbytes

    def dense(self) -> Array:
        """Return the values."""
        return self.values

    @cached_property
    def undefined(self) -> int:
        """How many values of fp16 are NaN, counted once: every verdict and every compilation asks.

        >>> Dense(np.float16([1, np.nan, np.inf])).undefined
        1
        """
        if self.values.dtype != np.float16:
            return 0
        # Comparisons of fp16 take many times as long as those of its bits.
        bits = np.ascontiguousarray(self.values).reshape(-1).view(np.uint16)
        pieces = (bits[start : start + AT_ONCE] for start in range(0, bits.size, AT_ONCE))
        return sum(int(np.count_nonzero((piece & MAGNITUDE_BITS) > INFINITY_BITS)) for piece in pieces)


@dataclass(frozen=True, eq=False)
class Int8Affine(Constant):
    """Integers of eight bits with a scale, and perhaps a zero point, per channel: scale · (q − zero point).

    >>> constant = Int8Affine(np.array([[2, -4]], np.int8), scale=np.array([0.5], np.float16))
    >>> constant.dense().tolist()
    [[1.0, -2.0]]
    """

    quantized: Array
    scale: Array
    zero_point: Array | None = None
    axis: int = 0

    def __post_init__(self) -> None:
        self._freeze("quantized", "scale", "zero_point")
        if dtype_name(self.quantized) not in ("int8", "uint8"):
            raise GraphError("affine weights are not int8 or uint8", seen=str(self.quantized.dtype))
        if not self.quantized.ndim:
            raise GraphError(
                "affine weights have no axis of channels", seen="one number", remedy="use a dense constant"
            )
        expect_scale(self.scale)
        expect_shift("zero point", self.zero_point)
        object.__setattr__(self, "axis", normalise_axis(self.axis, self.quantized.ndim))
        channels = self.quantized.shape[self.axis]
        for what, part in (("scale", self.scale), ("zero point", self.zero_point)):
            if part is not None and part.size not in (1, channels):
                raise GraphError(f"the {what} does not fit the channels", seen=part.size, limit=f"1 or {channels}")

    def _type(self) -> TensorType:
        """Return what the constant stands for."""
        return TensorType(tuple(self.quantized.shape), dtype_name(self.scale))

    @property
    def parts(self) -> Mapping[str, Array]:
        """The arrays that are stored."""
        zero = {} if self.zero_point is None else {"zero_point": self.zero_point}
        return {"quantized": self.quantized, "scale": self.scale, **zero, "axis": np.array(self.axis)}

    @property
    def encoding(self) -> str:
        """Name of the encoding."""
        return "int8"

    @property
    def nbytes(self) -> int:
        """Bytes in storage."""
        return stored_bytes(self.quantized, self.scale, self.zero_point)

    def dense(self) -> Array:
        """Return the values, each product rounded once to the element type of the scale."""
        zero = np.zeros((), self._exact) if self.zero_point is None else self._spread(self.zero_point)
        scale, shape = self._spread(self.scale), self.quantized.shape
        made = np.empty(shape, self.scale.dtype)
        step = max(1, AT_ONCE // max(1, math.prod(shape[1:])))
        for start in range(0, shape[0], step):
            rows = slice(start, start + step)
            shift, factor = (one[rows] if one.ndim and len(one) > 1 else one for one in (zero, scale))
            made[rows] = (self.quantized[rows].astype(self._exact) - shift) * factor
        return made

    @property
    def _exact(self) -> type[np.float32 | np.float64]:
        """A type that holds every product: in float32 a difference of bytes, 9 bits, times the 11 of an fp16 scale."""
        of_bytes = self.zero_point is None or dtype_name(self.zero_point) in ("int8", "uint8")
        return np.float32 if of_bytes and self.scale.dtype == np.float16 else np.float64

    def _spread(self, part: Array) -> Array:
        real = part.astype(self._exact)
        return reshape_along(real, self.quantized.ndim, self.axis) if real.size > 1 else real.reshape(())


def largest_index(indices: Array | Packed, entries: int) -> int:
    """Return the largest index into so many entries; 0 where their width allows no index past them."""
    if not isinstance(indices, Packed):
        return int(indices.max()) if indices.size else 0
    return 0 if entries == 1 << indices.bits else max((int(run.max()) for run in indices.runs()), default=0)


@dataclass(frozen=True, eq=False)
class Palette(Constant):
    """Indices of a few bits into a table of values.

    >>> constant = Palette(np.array([[0, 1, 1]], np.uint8), table=np.array([0, 2], np.float16), bits=4)
    >>> constant.dense().tolist(), constant.nbytes
    ([[0.0, 2.0, 2.0]], 34)
    """

    packed: Packed = field(init=False)
    """The indices, of `bits` each."""
    table: Array = field(init=False)

    def __init__(self, indices: Array | Packed, table: Array, bits: int) -> None:
        """Hold indices of one byte each, or of so many bits already."""
        if bits not in PALETTE_BITS:
            raise GraphError("a palette has no such index width", seen=bits, limit=", ".join(map(str, PALETTE_BITS)))
        object.__setattr__(self, "table", table)
        self._freeze("table")
        given = indices if isinstance(indices, Packed) else expect_array(indices, "indices")
        if isinstance(given, Packed) and given.bits != bits:
            raise GraphError("palette indices have another width", seen=given.bits, limit=bits)
        if not isinstance(given, Packed) and given.dtype != np.uint8:
            raise GraphError("palette indices are not uint8", seen=str(given.dtype))
        if not self.table.size:
            raise GraphError("the palette is empty", seen=self.table.shape, limit="one value or more")
        if self.table.ndim != 1 or self.table.size > 1 << bits:
            raise GraphError("the palette is too long for its indices", seen=self.table.shape, limit=1 << bits)
        largest = largest_index(given, self.table.size)
        if largest >= self.table.size:
            raise GraphError("an index is past the palette", seen=largest, limit=self.table.size - 1)
        object.__setattr__(self, "packed", given if isinstance(given, Packed) else Packed.of(given, bits))

    @property
    def bits(self) -> int:
        """How many bits an index takes."""
        return self.packed.bits

    @property
    def indices(self) -> Array:
        """One unsigned byte per element: unpacked for whoever asks, and held packed."""
        return self.packed.unpacked()

    def with_table(self, table: Array) -> Self:
        """Return the palette of the same indices into another table."""
        return type(self)(self.packed, table, self.bits)

    def _type(self) -> TensorType:
        """Return what the constant stands for."""
        return TensorType(self.packed.shape, dtype_name(self.table))

    @property
    def parts(self) -> Mapping[str, Array]:
        """The arrays that are stored: indices as bytes without gaps."""
        return {"indices": self.packed.stored, "table": self.table, "bits": np.array(self.bits)}

    def content(self) -> Mapping[str, Array | Packed]:
        """Return what `digest` is of: indices count as bytes in their shape."""
        return {**self.parts, "indices": self.packed}

    @property
    def encoding(self) -> str:
        """Name of the encoding."""
        return f"palette{self.bits}"

    @property
    def nbytes(self) -> int:
        """Bytes in storage: the indices packed, and a full table."""
        return self.packed.stored.nbytes + count_packed_bytes(1 << self.bits, bits(dtype_name(self.table)))

    def dense(self) -> Array:
        """Return the values."""
        made = np.empty(self.packed.size, self.table.dtype)
        place = 0
        for run in self.packed.runs():
            made[place : place + run.size] = self.table[run]
            place += run.size
        return made.reshape(self.packed.shape)


@dataclass(frozen=True, eq=False)
class Sparse(Constant):
    """A bit per element, and the values whose bit is set, in the order of the elements.

    >>> constant = Sparse(np.array([[True, False, True]]), np.array([1, 3], np.float16))
    >>> constant.dense().tolist(), constant.nbytes
    ([[1.0, 0.0, 3.0]], 5)
    """

    mask: Array
    nonzero: Array

    def __post_init__(self) -> None:
        self._freeze("mask", "nonzero")
        if self.mask.dtype != np.bool_:
            raise GraphError("a sparse mask is not bool", seen=str(self.mask.dtype))
        if self.nonzero.shape != (int(self.mask.sum()),):
            raise GraphError("values and mask do not match", seen=self.nonzero.size, limit=int(self.mask.sum()))

    def _type(self) -> TensorType:
        """Return what the constant stands for."""
        return TensorType(tuple(self.mask.shape), dtype_name(self.nonzero))

    @property
    def parts(self) -> Mapping[str, Array]:
        """The arrays that are stored."""
        return {"mask": self.mask, "nonzero": self.nonzero}

    @property
    def encoding(self) -> str:
        """Name of the encoding."""
        return "sparse"

    @property
    def nbytes(self) -> int:
        """Bytes in storage."""
        return (self.mask.size + 7) // 8 + stored_bytes(self.nonzero)

    def dense(self) -> Array:
        """Return the values."""
        values = np.zeros(self.mask.shape, self.nonzero.dtype)
        values[self.mask] = self.nonzero
        return values


@dataclass(frozen=True, eq=False)
class Blockwise(Constant):
    """Integers with a scale, and perhaps an offset, per block: scale · (q − offset).

    The scale has the rank of the data; along each axis its length divides the data's.

    >>> constant = Blockwise(np.array([[2, 2, 4, 4]], np.int8), np.array([[0.5, 1.0]], np.float16))
    >>> constant.dense().tolist()
    [[1.0, 1.0, 4.0, 4.0]]
    """

    data: Array
    scale: Array
    offset: Array | None = None

    def __post_init__(self) -> None:
        self._freeze("data", "scale", "offset")
        if not is_integer(dtype_name(self.data)):
            raise GraphError("the data of blocks must hold integers", seen=dtype_name(self.data))
        expect_scale(self.scale)
        expect_shift("offset", self.offset)
        for what, part in (("scale", self.scale), ("offset", self.offset)):
            if part is None:
                continue
            fits = part.ndim == self.data.ndim and all(
                blocks and extent % blocks == 0 for extent, blocks in zip(self.data.shape, part.shape, strict=True)
            )
            if not fits:
                raise GraphError(
                    f"the {what} does not divide the data into blocks", seen=part.shape, limit=self.data.shape
                )

    def _type(self) -> TensorType:
        """Return what the constant stands for."""
        return TensorType(tuple(self.data.shape), dtype_name(self.scale))

    @property
    def parts(self) -> Mapping[str, Array]:
        """The arrays that are stored."""
        offset = {} if self.offset is None else {"offset": self.offset}
        return {"data": self.data, "scale": self.scale, **offset}

    @property
    def encoding(self) -> str:
        """Name of the encoding."""
        return "blockwise"

    @property
    def nbytes(self) -> int:
        """Bytes in storage."""
        return stored_bytes(self.data, self.scale, self.offset)

    def dense(self) -> Array:
        """Return the values, each product rounded once to the element type of the scale."""
        scale = self._spread(self.scale)
        offset = 0.0 if self.offset is None else self._spread(self.offset)
        return ((self.data.astype(np.float64) - offset) * scale).astype(self.scale.dtype)

    def _spread(self, blocks: Array) -> Array:
        spread = blocks.astype(np.float64)
        for axis, extent in enumerate(self.data.shape):
            spread = np.repeat(spread, extent // blocks.shape[axis], axis)
        return spread


DECODED: WeakValueDictionary[str, Array] = WeakValueDictionary()
"""What encoded constants decode to, by their digests."""


def shared_dense(constant: Constant) -> Array:
    """Return the values of a constant; those that are stored equally share one array as long as one of them has it.

    >>> first, second = (Int8Affine(np.array([[2]], np.int8), scale=np.array([0.5], np.float16)) for _ in range(2))
    >>> values = shared_dense(first)
    >>> values.tolist(), shared_dense(second) is values
    ([[1.0]], True)
    """
    if not constant.is_encoded:
        return constant.dense()
    found = DECODED.get(constant.digest)
    if found is None:
        found = DECODED[constant.digest] = Dense.owning(constant.dense()).values
    return found


class Folded(Dense):
    """Weights that a program holds dense and that are stored in an encoding: decoded wherever someone reads them.

    Nobody keeps what is read, so a program takes the memory of the encoding.

    >>> folded = Folded(Int8Affine(np.array([[2]], np.int8), scale=np.array([0.5], np.float16)))
    >>> folded.encoding, folded.values.tolist(), folded == Dense(np.array([[1.0]], np.float16))
    ('dense', [[1.0]], True)
    """

    def __init__(self, stored: Constant) -> None:  # pyright: ignore[reportMissingSuperCall] - it holds no values
        object.__setattr__(self, "stored", stored)

    stored: Constant

    @property
    def values(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride] - both are only read
        """The values."""
        return shared_dense(self.stored)

    def _type(self) -> TensorType:
        """Return what the constant stands for."""
        return self.stored.type
