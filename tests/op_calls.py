"""Calls of one operation by its name, for tests: operands in their order, attributes by name, defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from aneforge.ops.table import op_named

if TYPE_CHECKING:
    from aneforge.ops.types import TensorType

Array = npt.NDArray[Any]
ArrayLike = Array | list[Any] | float


def inferred(name: str, *operands: TensorType | tuple[TensorType, ...] | None, **attributes: object) -> str:
    """Return the types of the results as text, as the graph shows them."""
    op = op_named(name)
    given = dict(zip([operand.name for operand in op.operands], operands, strict=True))
    return ", ".join(map(str, op.types(given, op.complete(attributes))))


def evaluated(name: str, *operands: ArrayLike | tuple[ArrayLike, ...], **attributes: object) -> list[Any]:
    """Return the values of the result, or of each of several results, as nested lists."""
    op = op_named(name)
    arrays = [tuple(map(np.asarray, one)) if isinstance(one, tuple) else np.asarray(one) for one in operands]
    given = dict(zip([operand.name for operand in op.operands], arrays, strict=True))
    results = [result.tolist() for result in op.evaluate(given, op.complete(attributes))]
    return results if len(results) > 1 else results[0]
