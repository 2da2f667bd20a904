"""Hypothesis strategies for whole graphs, generated out of the op table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from aneforge.graph.graph import INPUT, STATE, Graph
from aneforge.graph.node import Node, build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.signature import OperandKind
from aneforge.ops.table import ops
from aneforge.ops.types import numpy_dtype
from aneforge.records import dataclass
from aneforge.testing.calls import DrawChooser

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.node import Argument, Value
    from aneforge.ops.op import Op
    from aneforge.ops.sampling import Fill
    from aneforge.ops.types import Array

__all__ = ["DrawnGraph", "graphs", "one_operation"]


@dataclass(frozen=True, slots=True)
class DrawnGraph:
    """A graph and values for its inputs."""

    graph: Graph
    inputs: Mapping[str, Array]


class Maker:
    """Adds operations of the table to a graph in the making."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.chooser = DrawChooser(draw)
        self.generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.inputs: dict[str, Array] = {}
        self.made: list[Tensor] = []

    def add(self, op: Op) -> Node:
        """Add one operation: operands are constants, tensors made before, or new inputs."""
        sample = op.sample(self.chooser)
        operands: dict[str, Argument | None] = {}
        for operand in op.operands:
            fill = sample.operands.get(operand.name)
            if isinstance(fill, tuple):
                operands[operand.name] = tuple(self.value(one, operand.kind) for one in fill)
            elif fill is not None:
                operands[operand.name] = self.value(fill, operand.kind)
        node = build(op, operands, sample.attributes)
        self.made += [Tensor(node, index) for index in range(len(node.types))]
        return node

    def value(self, fill: Fill, kind: OperandKind) -> Value:
        """Return a value for an operand."""
        if kind is OperandKind.CONSTANT or (kind is OperandKind.EITHER and self.chooser.choose([True, False, False])):
            return Dense(fill.values(self.generator).astype(numpy_dtype(fill.type.dtype)))
        reusable = [tensor for tensor in self.made if tensor.type == fill.type] if fill.exact is None else []
        if reusable and self.chooser.choose([True, True, False]):
            return self.chooser.choose(reusable)
        return self.new_input(fill)

    def new_input(self, fill: Fill) -> Tensor:
        """Return a new input and remember its value."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = fill.values(self.generator)
        attributes = {"shape": fill.type.shape, "dtype": fill.type.dtype, "name": name}
        return Tensor(build(INPUT, {}, attributes))

    def graph(self, outputs: Sequence[Tensor]) -> DrawnGraph:
        """Return the graph of some outputs, with the values of the inputs that they reach."""
        graph = Graph({f"y{number}": output for number, output in enumerate(outputs)})
        return DrawnGraph(graph, {name: self.inputs[name] for name in graph.inputs if name in self.inputs})


@st.composite
def one_operation(draw: st.DrawFn, op: Op) -> DrawnGraph:
    """Draw a graph of one operation, all of whose results are outputs."""
    maker = Maker(draw)
    node = maker.add(op)
    return maker.graph([Tensor(node, index) for index in range(len(node.types))])


@st.composite
def graphs(draw: st.DrawFn, *, most: int = 6, among: Sequence[str] | None = None) -> DrawnGraph:
    """Draw a graph of several operations of the table, or of those named."""
    maker = Maker(draw)
    candidates = [op for name, op in ops().items() if name not in (INPUT, STATE) and (among is None or name in among)]
    for _ in range(draw(st.integers(1, most))):
        maker.add(draw(st.sampled_from(candidates)))
    return maker.graph(maker.made[-draw(st.integers(1, 3)) :])
