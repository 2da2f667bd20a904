"""Calls of one operation for tests: operands in their order, attributes by name, defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aneforge.ops.op import Op
from aneforge.ops.table import find_op

if TYPE_CHECKING:
    from aneforge.ops.types import TensorType

Array = npt.NDArray[Any]
ArrayLike = Array | list[Any] | float


def types_of(
    op: Op | str, *operands: TensorType | tuple[TensorType, ...] | None, **attributes: object
) -> tuple[TensorType, ...]:
    """Return the types of the results; operands that are not given are left out."""
    entry = op if isinstance(op, Op) else find_op(op)
    names = [operand.name for operand in entry.operands]
    return entry.types(dict(zip(names, operands, strict=False)), entry.complete(attributes))


def values_of(op: Op | str, *operands: Array | tuple[Array, ...] | None, **attributes: object) -> tuple[Array, ...]:
    """Return the results; operands that are not given are left out."""
    entry = op if isinstance(op, Op) else find_op(op)
    names = [operand.name for operand in entry.operands]
    return entry.evaluate(dict(zip(names, operands, strict=False)), entry.complete(attributes))


def type_of(op: Op | str, *operands: TensorType | tuple[TensorType, ...] | None, **attributes: object) -> TensorType:
    """Return the type of the only result."""
    (result,) = types_of(op, *operands, **attributes)
    return result


def value_of(op: Op | str, *operands: Array | tuple[Array, ...] | None, **attributes: object) -> Array:
    """Return the only result."""
    (result,) = values_of(op, *operands, **attributes)
    return result


def inferred(op: Op | str, *operands: TensorType | tuple[TensorType, ...] | None, **attributes: object) -> str:
    """Return the types of the results as text, as the graph shows them."""
    return ", ".join(map(str, types_of(op, *operands, **attributes)))


def evaluated(op: Op | str, *operands: ArrayLike | tuple[ArrayLike, ...], **attributes: object) -> list[Any]:
    """Return the values of the result, or of each of several results, as nested lists."""
    arrays = [tuple(map(np.asarray, one)) if isinstance(one, tuple) else np.asarray(one) for one in operands]
    results = [result.tolist() for result in values_of(op, *arrays, **attributes)]
    return results if len(results) > 1 else results[0]
