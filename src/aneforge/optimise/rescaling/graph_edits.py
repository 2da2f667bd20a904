"""Powers of two in a graph: operands that are multiplied, and the inverse after the node, for its gain slot."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from aneforge.graph.graph import INPUT, Graph
from aneforge.graph.node import Output, build
from aneforge.graph.rewrite import keeps_operands, rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.types import numpy_dtype
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.errors import Location
    from aneforge.graph.node import Argument, Node
    from aneforge.ops.constant import Constant

    Change = Mapping[Node, "Edit"]

__all__ = ["Edit", "Edited", "edit_graph", "isolate_node", "multiply"]


@dataclass(frozen=True, slots=True)
class Edit:
    """What is done to one node."""

    constants: Mapping[str, Constant] = field(default_factory=dict[str, "Constant"])
    """Operands that are replaced."""
    multiplied: tuple[str, int] | None = None
    """An operand that a layer of its own multiplies, and the exponent."""
    attributes: Mapping[str, float] = field(default_factory=dict[str, float])
    """Attributes that are replaced."""
    after: tuple[int, ...] = (0,)
    """Exponents by which the result is multiplied: one, or one for every place of an axis."""
    axis: int = 0

    def join(self, other: Edit) -> Edit:
        """Return both edits of a node; exponents after it add up.

        >>> Edit(after=(1,)).join(Edit(after=(2, 3), axis=1)).after
        (3, 4)
        """
        count = max(len(self.after), len(other.after))
        pairs = zip(*(one * (count // len(one)) for one in (self.after, other.after)), strict=True)
        return Edit(
            {**self.constants, **other.constants},
            other.multiplied or self.multiplied,
            {**self.attributes, **other.attributes},
            tuple(first + second for first, second in pairs),
            other.axis if len(other.after) > 1 else self.axis,
        )

    def change_node(self, node: Node, operands: Mapping[str, Argument]) -> Node:
        """Return a node with operands, of which constants are replaced, and with its attributes replaced."""
        attributes = {**node.attributes, **self.attributes}
        return dataclasses.replace(node, operands={**operands, **self.constants}, attributes=attributes)

    def multiply_result(self, node: Node) -> Tensor:
        """Return the result of a node times the factors after it."""
        return multiply(Tensor(node), self.after, self.axis, node.location)


def multiply(x: Tensor, exponents: Sequence[int], axis: int, location: Location | None) -> Tensor:
    """Return a tensor times powers of two: one, or one for every place of an axis.

    >>> import aneforge as af
    >>> multiply(af.input((2, 3)), (-8,), 1, None).node.attributes["k"]
    0.00390625
    """
    if len(set(exponents)) == 1:
        return x if not exponents[0] else Tensor(build("muls", {"x": x}, {"k": 2.0 ** exponents[0]}, location))
    shape = tuple(extent if place == axis else 1 for place, extent in enumerate(x.shape))
    gain = (2.0 ** np.array(exponents, np.float64)).astype(numpy_dtype(x.dtype)).reshape(shape)
    return Tensor(build("mul", {"x": x, "y": Dense(gain)}, {}, location))


def isolate_node(node: Node, edit: Edit) -> Graph:
    """Return an edited node as a graph of its own, whose tensors are inputs by the names of its operands.

    An operand that a layer would multiply comes in multiplied.
    """
    inputs = {
        name: Tensor(build(INPUT, {}, {"shape": value.shape, "dtype": value.dtype, "name": name}, node.location))
        for name, value in node.operands.items()
        if isinstance(value, Output)
    }
    return Graph({"y": edit.multiply_result(edit.change_node(node, {**node.operands, **inputs}))})


@dataclass(frozen=True, slots=True)
class Edited:
    """A graph with nodes edited, and for its nodes those that they were; factors were nothing."""

    graph: Graph
    origins: Mapping[Node, Node]


def edit_graph(graph: Graph, changes: Iterable[Change]) -> Edited:
    """Return a graph with products and norms rescaled; it means the same.

    Raises:
        GraphError: It would not mean the same: a node was made of another type.
    """
    edits: dict[Node, Edit] = {}
    for change in changes:
        for node, edit in change.items():
            edits[node] = edits.get(node, Edit()).join(edit)
    origins: dict[Node, Node] = {}
    shared: dict[tuple[Node, int, int], Tensor] = {}

    def multiply_operand(value: Argument, exponent: int) -> Tensor:
        assert isinstance(value, Output)  # noqa: S101 - what is multiplied is a tensor
        key = (value.node, value.index, exponent)
        if key not in shared:
            shared[key] = multiply(Tensor(value.node, value.index), (exponent,), 0, value.node.location)
        return shared[key]

    def replace(node: Node, operands: Mapping[str, Argument]) -> list[Tensor]:
        if node not in edits:
            kept = node if keeps_operands(node, operands) else dataclasses.replace(node, operands=operands)
            origins[kept] = node
            return [Tensor(kept, index) for index in range(len(node.types))]
        edit, changed = edits[node], dict(operands)
        if edit.multiplied is not None:
            operand, exponent = edit.multiplied
            changed[operand] = multiply_operand(changed[operand], exponent)
        made = edit.change_node(node, changed)
        origins[made] = node
        return [edit.multiply_result(made)]

    return Edited(rewrite(graph, replace), origins)
