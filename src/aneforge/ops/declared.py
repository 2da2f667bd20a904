"""Weights without values: a shape, an element type and an encoding, known before any file of weights is read.

What looks only at shapes and bytes takes them: rules, cost, memory plans, the text of a graph. They hold no memory,
however large the weight is, and asking for a value gives an error that names the weight. What a pass makes of one
(a transposed matrix, a part of a vocabulary) is another one, and equal where the same was made of the same.
"""

from __future__ import annotations

import hashlib
import math
import uuid
from dataclasses import field, replace
from typing import TYPE_CHECKING, NoReturn

from aneforge.errors import GraphError
from aneforge.ops.constant import BLOCK_SIZE, PALETTE_BITS, Constant
from aneforge.ops.shapes import nearest_divisor
from aneforge.ops.types import TensorType, bits
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ENCODINGS", "GIVE_VALUES", "PALETTES", "Declared", "declare"]

PALETTES = {f"palette{width}": width for width in PALETTE_BITS}
SCALED = ("int8", "blockwise")
ENCODINGS = ("dense", *SCALED, *PALETTES)
"""The encodings whose bytes follow from the shape; those of a sparse weight depend on its zeros."""
STORED_BITS = 8
"""Bits of an element, scales not counted."""
GIVE_VALUES = "give the weight's values as an array instead of af.weight(...)"


@dataclass(frozen=True, eq=False)
class Declared(Constant):
    """A weight whose values were not given.

    >>> weight = declare((4096, 4096), "fp16", "int8", name="q_proj")
    >>> print(weight.type, weight.encoding, weight.nbytes)
    fp16[4096, 4096] int8 16785408
    """

    kind: TensorType
    stored: str = "dense"
    scales: tuple[int, ...] = ()
    """Scales along every axis, as blocks have them; empty where the encoding has none."""
    name: str = ""
    origin: str = field(default_factory=lambda: uuid.uuid4().hex)
    """What distinguishes it from another weight of the same type: whose it is, and what was made of that."""

    def _type(self) -> TensorType:
        """Return what the constant stands for."""
        return self.kind

    @property
    def digest(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] - cached there because it reads every value
        """SHA-256 of encoding, type and origin: there are no values to hash."""
        return hashlib.sha256(f"{self.stored} {self.kind} without values {self.origin}".encode()).hexdigest()

    @property
    def parts(self) -> NoReturn:
        """The arrays that are stored: there are none.

        Raises:
            GraphError: Always.
        """
        raise self.refusal()

    @property
    def encoding(self) -> str:
        """Name of the encoding."""
        return self.stored

    @property
    def is_encoded(self) -> bool:
        """It is stored in a different form than its values."""
        return self.stored != "dense"

    @property
    def nbytes(self) -> int:
        """Bytes in storage, by shape and encoding."""
        index = PALETTES.get(self.stored)
        others = math.prod(self.scales) if self.scales else 0 if index is None else 1 << index
        return (self.kind.size * self.element_bits + 7) // 8 + (others * bits(self.kind.dtype) + 7) // 8

    @property
    def element_bits(self) -> int:
        """Bits in which one element is stored."""
        return STORED_BITS if self.stored in SCALED else PALETTES.get(self.stored, bits(self.kind.dtype))

    def dense(self) -> NoReturn:
        """Refuse to give values.

        Raises:
            GraphError: Always.
        """
        raise self.refusal()

    def refusal(self) -> GraphError:
        """Return the error for a caller that asks for values."""
        return GraphError(f"{self} has no values", remedy=GIVE_VALUES)

    def __str__(self) -> str:
        return f"weight {self.name!r} {self.kind} {self.stored}" if self.name else f"weight {self.kind} {self.stored}"

    def derive(self, how: str, shape: Sequence[int], dtype: str | None = None) -> Declared:
        """Return what becomes of it in another shape or element type, stored densely; `how` distinguishes results.

        >>> weight = declare((4, 8))
        >>> weight.derive("turned", (8, 4)) == weight.derive("turned", (8, 4)), weight == declare((4, 8))
        (True, False)
        """
        kind = TensorType(tuple(shape), dtype or self.kind.dtype)
        origin = hashlib.sha256(f"{self.origin} {how} {kind}".encode()).hexdigest()
        return Declared(kind, name=self.name, origin=origin)

    def rearrange(self, how: str, shape: Sequence[int], scales: Sequence[int]) -> Declared:
        """Return what becomes of it in another shape, in its own encoding."""
        return replace(self.derive(how, shape), stored=self.stored, scales=tuple(scales) if self.scales else ())

    def transpose(self, perm: Sequence[int]) -> Declared:
        """Return it with its axes in another order, in its own encoding."""
        shape, scales = ([extents[axis] for axis in perm if extents] for extents in (self.kind.shape, self.scales))
        return self.rearrange(f"transpose {list(perm)}", shape, scales)

    def turn(self) -> Declared:
        """Return a matrix with its axes exchanged, whose columns become the rows that an encoding has scales for."""
        kind = self.transpose((1, 0))
        return replace(declare(kind.type.shape, kind.type.dtype, self.stored, name=self.name), origin=kind.origin)

    def part(self, axis: int, begin: int, size: int) -> Declared:
        """Return a part along an axis, in its own encoding; where it cuts a block, every element has a scale."""
        shape, scales = list(self.kind.shape), list(self.scales)
        if scales and scales[axis] > 1:
            length = shape[axis] // scales[axis]
            scales[axis] = size // length if begin % length == 0 and size % length == 0 else size
        shape[axis] = size
        return self.rearrange(f"part {axis} {begin}", shape, scales)


def declare(shape: Sequence[int], dtype: str = "fp16", encoding: str = "dense", *, name: str = "") -> Declared:
    """Return a weight without values; rows of scales are along its first axis, and blocks along its second.

    Raises:
        GraphError: The bytes of the encoding do not follow from a shape, or it needs more axes.
    """
    kind = TensorType(tuple(shape), dtype)
    if encoding not in ENCODINGS:
        raise GraphError(
            "the bytes of this encoding do not follow from a shape", seen=encoding, limit=", ".join(ENCODINGS)
        )
    needed = {"int8": 1, "blockwise": 2}.get(encoding, 0)
    if kind.rank < needed:
        raise GraphError(f"{encoding} needs {needed} axes or more", seen=list(kind.shape))
    scales: tuple[int, ...] = ()
    if encoding in SCALED:
        scales = (kind.shape[0], *(1,) * (kind.rank - 1))
    if encoding == "blockwise":
        columns = kind.shape[1]
        scales = (kind.shape[0], columns // nearest_divisor(columns, BLOCK_SIZE), *(1,) * (kind.rank - 2))
    return Declared(kind, encoding, scales, name)
