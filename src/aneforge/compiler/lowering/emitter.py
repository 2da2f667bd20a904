"""Makes the layers of one operation and names their values after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from aneforge.compiler.ir.edit import new_layer
from aneforge.ops.constant import Constant, Dense

if TYPE_CHECKING:
    from aneforge.compiler.ir.kind import Engine, Kind
    from aneforge.compiler.ir.layer import Argument, Layer, Ref, Value
    from aneforge.graph.node import Node
    from aneforge.ops.types import Array

__all__ = ["Emitter", "Rule", "fp64"]


def fp64(values: Array | float) -> Constant:
    """Return numbers as a constant that holds them without rounding."""
    return Dense.owning(np.array(values, np.float64))


class Emitter:
    """Makes layers for one node of a graph."""

    def __init__(self, node: Node, name: str, operands: Mapping[str, Argument]) -> None:
        self.node = node
        self.name = name
        self.operands = operands
        self.layers: list[Layer] = []
        self.notes: list[str] = []

    def ref(self, name: str) -> Ref:
        """Return an operand that is one tensor."""
        return cast("Ref", self.operands[name])

    def constant(self, name: str) -> Constant | None:
        """Return an operand that must be a constant, if it is given."""
        return cast("Constant | None", self.operands.get(name))

    def refs(self, name: str) -> tuple[Ref, ...]:
        """Return an operand that is a list."""
        return cast("tuple[Ref, ...]", self.operands[name])

    def add(
        self,
        kind: str | Kind,
        operands: Mapping[str, Argument],
        attributes: Mapping[str, object] | None = None,
        *,
        step: str = "",
        engine: Engine | None = None,
    ) -> Value:
        """Add a layer of one result; `step` tells apart the layers of one operation, the last has none."""
        (value,) = self.add_several(kind, operands, attributes, step=step, engine=engine)
        return value

    def add_several(
        self,
        kind: str | Kind,
        operands: Mapping[str, Argument],
        attributes: Mapping[str, object] | None = None,
        *,
        step: str = "",
        engine: Engine | None = None,
    ) -> tuple[Value, ...]:
        """Add a layer and return its results."""
        name = f"{self.name}.{step}" if step else self.name
        layer = new_layer(kind, operands, attributes, name, location=self.node.location, engine=engine)
        self.layers.append(layer)
        return layer.results

    def reshape(self, x: Ref, shape: tuple[int, ...], *, step: str = "") -> Ref:
        """Return a tensor in another shape: a constant reshaped beforehand, or itself if it has that shape."""
        if x.type.shape == shape:
            return x
        if isinstance(x, Constant):
            return Dense(np.ascontiguousarray(x.dense().reshape(shape)))
        return self.add("reshape", {"x": x}, {"shape": shape}, step=step)

    def affine(
        self, x: Ref, gain: Array | float | None, offset: Array | float | None, axis: int, *, step: str = ""
    ) -> Value:
        """Add gain and offset: numbers, or one for every place of an axis."""
        held = {name: fp64(values) for name, values in (("gain", gain), ("offset", offset)) if values is not None}
        return self.add("gain_offset_control", {"input": x, **held}, {"axis": axis}, step=step)

    def note(self, text: str) -> None:
        """Say what a reader of the program should know."""
        self.notes.append(text)


Rule: TypeAlias = Callable[[Emitter], "tuple[Ref, ...]"]
"""Adds the layers of one operation and returns what its results are now."""
