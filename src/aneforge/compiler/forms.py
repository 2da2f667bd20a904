"""What a rebuilt operation is made of: the type that the decompositions of both routes return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aneforge.errors import GraphTypeError
from aneforge.graph.node import Argument, Node
from aneforge.graph.tensor import Tensor

__all__ = ["Form", "Made", "SuppliedInput", "tensor_operand"]


@dataclass(frozen=True, slots=True)
class SuppliedInput:
    """An input that retargeting added, and what the caller must feed it."""

    name: str
    op: str
    """The operation that it stands in for."""
    meaning: str


@dataclass(frozen=True, slots=True)
class Made:
    """The results of an operation that was rebuilt from others."""

    results: Sequence[Tensor]
    detail: str
    supplied: tuple[SuppliedInput, ...] = ()


Form = Callable[[Node, Mapping[str, Argument], int], Made | None]
"""A function of a node, its operands as they are now, and the number of inputs added so far; None keeps the node."""


def tensor_operand(node: Node, operands: Mapping[str, Argument], name: str) -> Tensor:
    """Return an operand that must be a tensor computed at run time.

    Raises:
        GraphTypeError: It is a constant.
    """
    value = operands.get(name)
    if not isinstance(value, Tensor):
        raise GraphTypeError(
            f"operand {name!r} is a constant, and only a tensor can be rebuilt",
            operation=node.op.name,
            location=node.location,
            remedy="compute the result beforehand",
        )
    return value
