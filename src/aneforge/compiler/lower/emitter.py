"""Makes the layers of one operation and names their values after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from aneforge.compiler.affine import KIND, Affine
from aneforge.compiler.ir.edit import new_layer
from aneforge.compiler.weights import reshape_densely
from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    from aneforge.compiler.ir.kind import Engine, Kind
    from aneforge.compiler.ir.layer import Argument, Layer, Ref, Value
    from aneforge.graph.node import Node
    from aneforge.ops.types import Array

__all__ = ["Emitter", "Rule"]


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
        """Add a layer of one result; `step` distinguishes the layers of one operation, the last has none."""
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
            return reshape_densely(x, shape)
        return self.add("reshape", {"x": x}, {"shape": shape}, step=step)

    def affine(
        self,
        x: Ref,
        gain: Array | float | None,
        offset: Array | float | None,
        axis: int,
        *,
        step: str = "",
        unknown: frozenset[str] = frozenset(),
    ) -> Value:
        """Add gain and offset: numbers, or one for every place of an axis; `unknown` are those without values."""
        first, second = (None if values is None else np.asarray(values, np.float64) for values in (gain, offset))
        affine = Affine(first, second, axis % x.type.rank if x.type.rank else 0, unknown)
        return self.add(KIND, {"input": x, **affine.constants()}, affine.attributes(), step=step)

    def note(self, text: str) -> None:
        """Say what a reader of the program should know."""
        self.notes.append(text)


Rule: TypeAlias = Callable[[Emitter], "tuple[Ref, ...]"]
"""Adds the layers of one operation and returns what its results are now."""
