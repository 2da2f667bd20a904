"""Changing the element type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.builder.arguments import expect_tensor

if TYPE_CHECKING:
    from aneforge.graph.tensor import Tensor

__all__ = ["cast"]


def cast(x: Tensor, dtype: str) -> Tensor:
    """Return the elements in another type: truncated towards zero for integers, x ≠ 0 for bool.

    >>> from aneforge.graph.builder.inputs import input
    >>> cast(input((1, 4), dtype="uint8"), "fp16").dtype
    'fp16'

    Raises:
        GraphTypeError: It is not a tensor, or the element type is not given by its name.
        GraphError: There is no such element type.
    """
    return expect_tensor(x, "cast").cast(dtype)
