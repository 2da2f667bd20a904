"""Tensors that callers give to the builder's free functions, checked where they come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from aneforge.errors import GraphTypeError
from aneforge.graph.methods.method_arguments import describe_argument, misuse
from aneforge.graph.node import Output
from aneforge.graph.tensor import Tensor

__all__ = ["expect_image", "expect_tensor", "tensor_list"]


def expect_tensor(value: object, op: str, what: str = "x", *, remedy: str | None = None) -> Tensor:
    """Return a tensor.

    >>> from aneforge.graph.builder.inputs import input
    >>> expect_tensor(input((1, 4)), "relu").shape
    (1, 4)

    Raises:
        GraphTypeError: It is something else, such as an array.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, Output):
        return Tensor(value.node, value.index)
    raise misuse(op, f"{what} is not a tensor", seen=describe_argument(value), remedy=remedy, error=GraphTypeError)


def expect_image(value: object, op: str) -> Tensor:
    """Return a batch of images.

    Raises:
        GraphTypeError: It is not a tensor.
        GraphError: It is not of rank 4.
    """
    x = expect_tensor(value, op)
    if len(x.shape) != 4:
        raise misuse(op, "the tensor is not an image [N, C, H, W]", seen=list(x.shape))
    return x


def tensor_list(tensors: object, op: str) -> tuple[Tensor, ...]:
    """Return tensors as the operand of an operation on several.

    Raises:
        GraphError: There are none.
        GraphTypeError: It is not a list, or one is not a tensor.
    """
    if not isinstance(tensors, Sequence) or isinstance(tensors, str | bytes):
        raise misuse(
            op,
            "the tensors are not given as a list",
            seen=describe_argument(cast("object", tensors)),
            remedy="write [x, y]",
            error=GraphTypeError,
        )
    values = cast("Sequence[object]", tensors)
    if not values:
        raise misuse(op, "there are no tensors", limit="at least one")
    return tuple(expect_tensor(value, op, f"value {place}") for place, value in enumerate(values))
