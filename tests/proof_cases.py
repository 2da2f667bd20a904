"""Cases of the proof: graphs with finite sample inputs and targets, drawn from numbers.

Graphs are networks and calls of the op table (Hypothesis, with many seeds: it makes later graphs out of earlier ones,
so that thousands of one seed would be copies of few), chains that overflow, ONNX models, and graphs of larger tensors
that ask for a verdict (`verdict_tools`). Some of them are written as MIL text and read back.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import aneforge as af
from aneforge.compiler.ir.catalogue import is_bridge
from aneforge.errors import AneforgeError
from aneforge.ops.numbers import FP16_MAX
from aneforge.targets import database, group
from aneforge.testing.graphs import graphs
from aneforge.testing.networks import networks
from divergence_tools import SLOW
from unit.analysis.test_hazards import drawn_graph as overflowing_chain
from verdict_tools import OPERATIONS, draw_graph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.graph.graph import Graph
    from aneforge.testing.graphs import DrawnGraph

    Array = np.ndarray[Any, np.dtype[Any]]
    Drawn = tuple[Graph, Mapping[str, Array] | None]

__all__ = ["NAMES", "Case", "draw_batch"]

MAGNITUDES = (0.01, 1.0, 1.0, 30.0, 3000.0, 40_000.0)
"""What sample inputs of networks are multiplied by."""
NAMES = (
    *(target.name for target in group("all")),
    *(f"soc:{key}" if key[0] == "a" else key for key in database().chips),
)
"""Every target of silicon, by its own name and by those in the shop; A15 alone could also be a family."""
SCALED = ("network", "ONNX")
WRITTEN = ("network", "operations", "chain")


@dataclass(frozen=True, slots=True)
class Case:
    """A graph, finite values for its inputs, and the targets that are asked about."""

    number: tuple[int, int]
    """The batch, and the place in it."""
    origin: str
    graph: Graph
    samples: Mapping[str, Array] | None
    """None for tensors that are too large to compute on; their weights are zeros."""
    targets: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.origin} {self.number} on {', '.join(self.targets)}"


def draw_batch(number: int) -> Iterator[Case]:
    """Yield the cases of one number, always the same: twenty, but for graphs that have no inputs."""
    random = np.random.default_rng([number, 0])
    drawn: list[tuple[str, Drawn]] = [
        *(("network", one) for one in some(networks(most=8), number, 5)),
        *(("operations", one) for one in some(graphs(most=3, among=OPERATIONS), number, 5)),
        *(("chain", overflowing_chain(int(random.integers(1 << 30)))) for _ in range(3)),
        *(("ONNX", onnx_network(random)) for _ in range(4)),
        *(("large", (draw_graph(int(random.integers(1 << 30)))[1], None)) for _ in range(3)),
    ]
    for place, (origin, (graph, values)) in enumerate(drawn):
        names = tuple(random.choice(NAMES, size=random.integers(2, 4), replace=False).tolist())
        magnitude = float(random.choice(MAGNITUDES)) if origin in SCALED else 1.0
        written = through_mil(graph) if origin in WRITTEN and random.integers(3) == 0 else None
        case = Case((number, place), origin if written is None else f"{origin}, MIL", written or graph, None, names)
        if graph.inputs:
            yield case if values is None else replace(case, samples=scaled(values, magnitude))


def some(strategy: st.SearchStrategy[DrawnGraph], number: int, count: int) -> list[Drawn]:
    """Return a few graphs that Hypothesis draws with a seed; the first of all is the least one and left out."""
    found: list[Drawn] = []

    @seed(number)
    @settings(
        deadline=None,
        database=None,
        suppress_health_check=SLOW,
        phases=(Phase.generate,),
        max_examples=count + 1,
    )
    @given(strategy)
    def collect(one: DrawnGraph) -> None:
        found.append((one.graph, one.inputs))

    collect()
    return found[1:]


def scaled(values: Mapping[str, Array], magnitude: float) -> Mapping[str, Array]:
    """Return values of another magnitude, within what fp16 holds; integers stay."""
    return {
        name: np.clip(value * magnitude, -FP16_MAX, FP16_MAX) if value.dtype.kind == "f" else value
        for name, value in values.items()
    }


def through_mil(graph: Graph) -> Graph | None:
    """Return a graph as a reader of its MIL text has it; nothing where it has no such form."""
    if any(is_bridge(node) for node in graph.nodes):
        return None
    try:
        with tempfile.TemporaryDirectory() as folder:
            read = af.from_mil(af.save_mil(graph, folder))
    except AneforgeError:
        return None
    return read if list(read.inputs) == list(graph.inputs) else None


class Onnx:
    """Draws an ONNX model, one node after the other."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.shape = [1, 4, int(random.integers(4, 9)), int(random.integers(4, 9))]

    def weight(self, *shape: int) -> str:
        """Add random numbers, and return their name."""
        name = f"w{len(self.weights)}"
        values = (self.random.integers(-8, 9, shape) / 8).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def integers(self, *values: int) -> str:
        """Add integers, and return their name."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(self, op: str, *operands: str, **attributes: Any) -> None:  # noqa: ANN401 - of ONNX
        """Add a node after the last one."""
        count = len(self.nodes)
        self.nodes.append(helper.make_node(op, [f"h{count}", *operands], [f"h{count + 1}"], f"n{count}", **attributes))

    # One method for everything that can follow.

    def window(self) -> None:
        """Add a convolution that keeps the size, with a bias."""
        self.add("Conv", self.weight(4, 4, 3, 3), self.weight(4), pads=[1, 1, 1, 1])

    def pointwise(self) -> None:
        """Add two convolutions of single elements, with more channels between them."""
        self.add("Conv", self.weight(6, 4, 1, 1))
        self.add("Conv", self.weight(4, 6, 1, 1))

    def product(self) -> None:
        """Add a product with a matrix."""
        outputs = int(self.random.integers(2, 9))
        self.add("MatMul", self.weight(self.shape[3], outputs))
        self.shape[3] = outputs

    def rows(self) -> None:
        """Add a function of whole rows."""
        if self.random.integers(2):
            self.add("Softmax", axis=-1)
        else:
            self.add("LayerNormalization", self.weight(self.shape[3]), self.weight(self.shape[3]), axis=-1)

    def elements(self) -> None:
        """Add a function of single elements."""
        self.add(str(self.random.choice(["Relu", "Sigmoid", "Tanh", "Sin", "Exp", "Abs", "Erf", "Gelu"])))

    def constant(self) -> None:
        """Add a number to every channel, or multiply by one."""
        self.add(str(self.random.choice(["Add", "Mul", "Sub"])), self.weight(1, 4, 1, 1))

    def turned(self) -> None:
        """Exchange height and width, or give one the length of the other."""
        self.shape[2:] = self.shape[:1:-1]
        if self.random.integers(2):
            self.add("Transpose", perm=[0, 1, 3, 2])
        else:
            self.add("Reshape", self.integers(*self.shape))

    def smaller(self) -> None:
        """Add a pooling, or take the end of the width."""
        height, width = self.shape[2:]
        if min(height, width) >= 4 and self.random.integers(2):
            self.add(str(self.random.choice(["MaxPool", "AveragePool"])), kernel_shape=[2, 2], strides=[2, 2])
            self.shape[2:] = [height // 2, width // 2]
        else:
            self.add("Slice", self.integers(width // 2), self.integers(width), self.integers(3))
            self.shape[3] = width - width // 2

    def model(self) -> Any:  # noqa: ANN401 - a message of protobuf
        """Return the model."""
        start = list(self.shape)
        for step in self.random.integers(0, len(STEPS), self.random.integers(1, 6)):
            STEPS[step](self)
        ports = [helper.make_tensor_value_info("h0", TensorProto.FLOAT, start)]
        out = [helper.make_tensor_value_info(f"h{len(self.nodes)}", TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "drawn", ports, out, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


STEPS = (
    Onnx.window,
    Onnx.pointwise,
    Onnx.product,
    Onnx.rows,
    Onnx.elements,
    Onnx.elements,
    Onnx.constant,
    Onnx.turned,
    Onnx.smaller,
)


def onnx_network(random: np.random.Generator) -> tuple[Graph, Mapping[str, Array]]:
    """Return the graph of a drawn ONNX model, and values for its input."""
    graph = af.from_onnx(Onnx(random).model())
    return graph, {name: random.uniform(-2, 2, node.types[0].shape) for name, node in graph.inputs.items()}
