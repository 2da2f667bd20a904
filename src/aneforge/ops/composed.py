"""Constants that operations make of other constants: weights compressed in ways of which no encoding is a type here.

Tables for groups of channels or of vectors, tables that are quantised themselves, and sparse tensors whose values are
quantised or looked up are stored by Core ML as chains of constexpr operations. Such a constant keeps what is stored,
and becomes dense by evaluating the operations.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from aneforge.arrays import np
from aneforge.ops.constant import Constant, Dense, stored_bytes, wide_values
from aneforge.ops.packing import Packed
from aneforge.ops.table import find_op
from aneforge.ops.types import numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.ops.op import Op
    from aneforge.ops.types import Array, TensorType

__all__ = ["INDICES", "Composed", "Recipe", "is_mask"]

PREFIX = "constexpr_"
INDICES = ("indices", "indices_nonzero_data")
"""Operands whose elements take fewer bits in storage than a byte."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """An operation over constants; two results of one operation share it."""

    op: str
    operands: Mapping[str, Constant]
    vector_axis: int | None = None
    """The axis along which vectors of a table are placed, for operations that look up."""
    bits: int = 8
    """Bits in which an index is stored."""

    @cached_property
    def depth(self) -> int:
        """Operations in the longest chain that ends with this one."""
        return 1 + max((one.recipe.depth for one in self.operands.values() if isinstance(one, Composed)), default=0)

    @property
    def entry(self) -> Op:
        """The operation."""
        return find_op(self.op)

    @property
    def attributes(self) -> dict[str, object]:
        """The attributes of the operation."""
        looks_up = any(name in self.operands for name in INDICES)
        return {"vector_axis": self.vector_axis} if looks_up else {}

    @cached_property
    def types(self) -> tuple[TensorType, ...]:
        """The types of the results.

        Raises:
            GraphError: The operands do not fit the operation.
        """
        attributes = self.entry.complete(self.attributes)
        return self.entry.types({name: one.type for name, one in self.operands.items()}, attributes)

    def evaluated(self) -> tuple[Array, ...]:
        """Return the results, each number rounded once to the element type of its result.

        Raises:
            GraphError: An index is past its table, or a mask does not fit its values.
        """
        arrays = {name: wide_values(one) for name, one in self.operands.items()}
        results = self.entry.evaluate(arrays, self.entry.complete(self.attributes))
        with np.errstate(over="ignore"):  # what the element type cannot hold becomes infinite, as its rounding says
            return tuple(
                np.array(result).astype(numpy_dtype(kind.dtype))
                for result, kind in zip(results, self.types, strict=True)
            )


@dataclass(frozen=True, eq=False)
class Composed(Constant):
    """A result of an operation over constants.

    >>> table = np.array([0, 1, 5, 7], np.float16).reshape(2, 1, 2, 1)  # a table for each of two rows
    >>> indices = Dense(np.array([[0, 1, 1], [1, 0, 0]], np.uint8))
    >>> constant = Composed(Recipe("constexpr_lut_to_dense", {"indices": indices, "lut": Dense(table)}, bits=1))
    >>> constant.dense().tolist(), constant.encoding, constant.nbytes
    ([[0.0, 1.0, 1.0], [7.0, 5.0, 5.0]], 'lut_to_dense', 9)
    """

    recipe: Recipe
    index: int = 0
    """Which of the results it is."""

    def _type(self) -> TensorType:
        """Return what the constant stands for."""
        return self.recipe.types[self.index]

    @property
    def parts(self) -> Mapping[str, Array]:
        """The arrays that are stored; those of a compressed operand have its name and encoding before their own."""
        return {name: part.stored if isinstance(part, Packed) else part for name, part in self.content().items()}

    def content(self) -> Mapping[str, Array | Packed]:
        """Return what `digest` is of."""
        recipe = self.recipe
        found: dict[str, Array | Packed] = {}
        for name, operand in recipe.operands.items():
            if isinstance(operand, Dense):
                found[name] = operand.values
            else:
                found |= {f"{name}:{operand.encoding}.{key}": part for key, part in operand.content().items()}
        numbers = {"bits": recipe.bits, "index": self.index}
        if recipe.vector_axis is not None:
            numbers["vector_axis"] = recipe.vector_axis
        return found | {name: np.array(number) for name, number in numbers.items()}

    @property
    def encoding(self) -> str:
        """Name of the encoding: that of the operation."""
        return self.recipe.op.removeprefix(PREFIX)

    @property
    def nbytes(self) -> int:
        """Bytes in storage, of the operands that another result shares too."""
        return sum(operand_bytes(self.recipe, name) for name in self.recipe.operands)

    def dense(self) -> Array:
        """Return the values."""
        return self.recipe.evaluated()[self.index]


def operand_bytes(recipe: Recipe, name: str) -> int:
    """Return the bytes in which an operand is stored: indices and masks are packed."""
    operand = recipe.operands[name]
    if not isinstance(operand, Dense):
        return 0 if is_mask(operand) else operand.nbytes  # a mask that an operation passes on is stored with it
    if name in INDICES:
        return (operand.values.size * recipe.bits + 7) // 8
    return (operand.values.size + 7) // 8 if is_mask(operand) else stored_bytes(operand.values)


def is_mask(operand: Constant) -> bool:
    """Return whether an operand says which elements there are."""
    return operand.type.dtype == "bool"
