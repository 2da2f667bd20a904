"""Graphs of one operation, drawn from the op table's samples, as a user would give them to the engine.

Floating-point tensors are fp16. Indices, masks and other operands that are no floating-point numbers are constants
where the operation has a live operand besides: no program may have them as inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aneforge.graph.graph import Graph
from aneforge.graph.node import Node, build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.sampling import Fill, RandomChooser
from aneforge.ops.signature import OperandKind
from aneforge.ops.types import TensorType, is_float, numpy_dtype

if TYPE_CHECKING:
    from aneforge.ops.op import Op
    from aneforge.ops.signature import AttributeValue

WIDE = "fp32"


@dataclass(frozen=True)
class SampleGraph:
    """A graph of one operation."""

    graph: Graph
    node: Node


def engine_type(fill: Fill) -> TensorType:
    return fill.type.with_dtype("fp16") if fill.type.dtype == WIDE else fill.type


def sample_graph(op: Op, seed: int) -> SampleGraph:
    """Return a graph of a drawn call."""
    sample = op.sample(RandomChooser(np.random.default_rng(seed)))
    generator = np.random.default_rng(seed)
    fills = [one for fill in sample.operands.values() for one in (fill if isinstance(fill, tuple) else (fill,)) if one]
    has_numbers = any(is_float(one.type.dtype) for one in fills)
    names = iter(range(len(fills)))

    def value(kind: OperandKind, fill: Fill) -> Tensor | Constant:
        now = engine_type(fill)
        free = kind is OperandKind.EITHER and has_numbers and not is_float(now.dtype)
        if kind is OperandKind.CONSTANT or free:
            array = np.asarray(fill.values(generator)).astype(numpy_dtype(now.dtype)).reshape(now.shape)
            return Dense(array.copy())
        return Tensor(build("input", {}, {"shape": now.shape, "dtype": now.dtype, "name": f"x{next(names)}"}))

    operands = {
        name: None
        if fill is None
        else tuple(value(op.operand(name).kind, one) for one in fill)
        if isinstance(fill, tuple)
        else value(op.operand(name).kind, fill)
        for name, fill in sample.operands.items()
    }
    attributes: dict[str, AttributeValue] = {
        name: "fp16" if name in ("dtype", "output_dtype") and given == WIDE else given
        for name, given in sample.attributes.items()
    }
    node = build(op, operands, attributes)
    return SampleGraph(Graph({f"y{place}": Tensor(node, place) for place in range(len(node.types))}), node)
