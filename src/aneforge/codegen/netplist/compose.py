"""Builds operations that have no layer out of those that have one, at the place where the user made them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.codegen.netplist.attributes import Attributes
from aneforge.errors import GraphError, NotSupportedError
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.table import op_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.graph.node import Argument, Node, Value
    from aneforge.ops.types import Array

__all__ = ["Compose", "Composition"]


@dataclass(frozen=True, slots=True)
class Composition:
    """How an operation is rebuilt from others, in words and as a function; None from it keeps the operation."""

    form: str
    """In words, for the list of changes."""
    build: Callable[[Compose], Tensor | Sequence[Tensor] | None]


class Compose(Attributes):
    """A node that is rebuilt from others: its operands as they are now, and the operations that it becomes."""

    def __init__(self, node: Node, operands: Mapping[str, Argument]) -> None:
        self.node = node
        self.operands = operands
        self.notes: list[str] = []

    # What it is given

    @property
    def x(self) -> Value:
        """The operand that most operations have."""
        return self.operand("x")

    def operand(self, name: str) -> Value:
        """Return an operand that must be there."""
        return cast("Value", self.operands[name])

    def optional(self, name: str) -> Value | None:
        """Return an operand that may have been left out."""
        return cast("Value | None", self.operands.get(name))

    def several(self, name: str) -> tuple[Value, ...]:
        """Return a list of operands."""
        return cast("tuple[Value, ...]", self.operands[name])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of x."""
        return self.x.type.shape

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.node.types[0].shape

    def axes(self, name: str = "axes") -> tuple[int, ...]:
        """Return axes counted from the front; None is all of them."""
        given, rank = self.wholes(name), len(self.shape)
        return tuple(range(rank)) if given is None else tuple(sorted(axis % rank for axis in given))

    # What it becomes

    def op(self, name: str, *values: Value | tuple[Value, ...], **attributes: object) -> Tensor:
        """Return the first result of an operation on values in the order of its operands."""
        operands = dict(zip((operand.name for operand in op_named(name).operands), values, strict=False))
        return Tensor(build(name, operands, attributes, self.node.location))

    def half(self, values: Array, what: str) -> Dense:
        """Return numbers as a constant in fp16.

        Raises:
            GraphError: One is too large for it.
        """
        with np.errstate(over="ignore"):
            rounded = values.astype(np.float16)
        if not np.all(np.isfinite(rounded) | ~np.isfinite(values)):
            raise GraphError(
                f"{what} has numbers without an fp16",
                operation=self.node.op.name,
                location=self.node.location,
                seen=float(np.max(np.abs(values))),
                limit="65504",
            )
        if not np.array_equal(rounded.astype(np.float64), values, equal_nan=True):
            self.notes.append(f"{what} is rounded to fp16")
        return Dense(rounded)

    def laid(self, values: Value, axes: Sequence[int], rank: int, what: str) -> Value:
        """Return a parameter laid along axes of a tensor, in fp16 where it is a constant."""
        shape = [1] * rank
        for axis, extent in zip(axes, values.type.shape, strict=True):
            shape[axis] = extent
        if isinstance(values, Constant):
            return self.half(values.dense().astype(np.float64).reshape(shape), what)
        return self.op("reshape", values, shape=shape)

    def refuse(self, message: str, *, nearest: str, seen: object = None) -> NotSupportedError:
        """Return the error for what a description cannot express."""
        return NotSupportedError(
            message,
            operation=self.node.op.name,
            location=self.node.location,
            seen=seen,
            remedy=f"nearest form: {nearest}",
        )
