"""Hypothesis strategies for programs that schedules and memory plans find hard.

Shapes are those of real tensors, up to and past the on-chip memory: only their types are needed, no numbers. Branches,
joins, ring buffers, states, segments and layers of every unit come in any order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from aneforge.compiler.ir.edit import new_layer
from aneforge.compiler.ir.kind import Engine
from aneforge.compiler.ir.layer import Layer, Value
from aneforge.compiler.ir.program import Port, Program, State
from aneforge.compiler.ir.verifier import verify
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import TensorType
from aneforge.records import dataclass
from aneforge.targets import Family, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.compiler.ir.layer import Argument

__all__ = ["DrawnProgram", "programs"]

SHAPES = (
    (1, 8, 16, 16),
    (1, 64, 56, 56),
    (1, 32, 112, 112),
    (1, 96, 112, 112),
    (1, 3, 300, 301),
    (2, 16, 40, 40),
    (1, 4, 1, 7),
    (1, 640, 128),
    (320, 1024),
    (9,),
)
UNARY = ("relu", "sigmoid", "tanh", "abs", "exp", "round")
BINARY = ("add", "mult", "max", "sub")
MOST_ELEMENTS = 1 << 23
MOST_ROWS = 1024


@dataclass(frozen=True, eq=False, repr=False)
class DrawnProgram:
    """A program that Hypothesis shows as its text."""

    program: Program

    def __repr__(self) -> str:
        return f"parse_program({str(self.program)!r})"


def constant(*shape: int) -> Constant:
    """Return weights of zeros."""
    return Dense(np.zeros(shape, np.float16))


class Writer:
    """Adds layers to a program in the making."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.layers: list[Layer] = []
        self.inputs: list[Port] = []
        self.states: list[State] = []
        self.values: list[Value] = []
        self.segment = 0
        for _ in range(draw(st.integers(1, 3))):
            self.new_input(draw(st.sampled_from(SHAPES)))

    def integer(self, least: int, most: int) -> int:
        """Choose an integer."""
        return self.draw(st.integers(least, most))

    def new_input(self, shape: tuple[int, ...]) -> Value:
        """Add an input."""
        value = Value(f"x{len(self.inputs)}", TensorType(shape))
        self.inputs.append(Port(value.name, value))
        self.values.append(value)
        return value

    def value(self) -> Value:
        """Choose something that was made before, late things more often."""
        if self.draw(st.booleans()):
            return self.values[-1]
        return self.draw(st.sampled_from(self.values[-6:]))

    def like(self, value: Value) -> Value:
        """Choose something of the type of another, perhaps that itself."""
        return self.draw(st.sampled_from([one for one in self.values if one.type == value.type]))

    def add(
        self,
        kind: str,
        operands: Mapping[str, Argument],
        attributes: Mapping[str, object] | None = None,
        engine: Engine | None = None,
    ) -> Value:
        """Add a layer."""
        layer = new_layer(kind, operands, attributes, f"t{len(self.layers)}", location=None, engine=engine)
        self.layers.append(replace(layer, segment=self.segment))
        self.values += layer.results
        return layer.result

    def unary(self) -> None:
        """Add an activation, on either engine."""
        engine = Engine.NE if not self.integer(0, 4) else Engine.PE
        self.add(self.draw(st.sampled_from(UNARY)), {"x": self.value()}, engine=engine)

    def binary(self) -> None:
        """Join two tensors of one type, or one tensor with itself."""
        x = self.value()
        self.add(self.draw(st.sampled_from(BINARY)), {"x": x, "y": self.like(x)})

    def convolution(self) -> None:
        """Add a convolution that keeps the size, or one that halves it."""
        x = self.value()
        if x.rank != 4:
            return
        kernel, stride = self.draw(st.sampled_from([(1, 1), (3, 1), (3, 2)]))
        outputs = self.draw(st.sampled_from([x.shape[1], 8, 24]))
        self.add(
            "convolution",
            {"input": x, "weights": constant(outputs, x.shape[1], kernel, kernel)},
            {
                "strides": (stride, stride),
                "dilation_rates": (1, 1),
                "explicit_padding": (kernel // 2,) * 4,
                "kernel_sizes": (kernel, kernel),
            },
        )

    def product(self) -> None:
        """Multiply matrices, both live or one constant."""
        x = self.value()
        if x.rank < 2:
            return
        inner = x.shape[-1]
        if x.shape[-2] <= MOST_ROWS and self.draw(st.booleans()):
            self.add("matmul", {"lhs": x, "rhs": self.like(x)}, {"transpose_rhs": True})
        else:
            self.add("matmul", {"lhs": x, "rhs": constant(inner, 16)})

    def rows(self) -> None:
        """Add a softmax, or a reduction of one axis."""
        x = self.value()
        axis = self.integer(0, x.rank - 1)
        if self.draw(st.booleans()):
            self.add("softmax", {"x": x}, {"axis": axis})
        else:
            self.add("reduce_sum", {"x": x}, {"axes": (axis,), "keep_dims": True})

    def pooling(self) -> None:
        """Add pooling."""
        x = self.value()
        if x.rank == 4 and min(x.shape[2:]) > 1:
            self.add("max_pool", {"x": x}, {"kernel_sizes": (2, 2), "strides": (2, 2)})

    def reshape(self) -> None:
        """Change the shape: an axis more, or two axes as one."""
        x = self.value()
        shapes = [x.shape, (1, *x.shape), (int(np.prod(x.shape)),)]
        if x.rank > 2:
            shapes.append((*x.shape[:-2], x.shape[-2] * x.shape[-1]))
        shape = self.draw(st.sampled_from([one for one in shapes if len(one) <= 5]))
        self.add("reshape", {"x": x}, {"shape": shape})

    def transpose(self) -> None:
        """Exchange the last two axes."""
        x = self.value()
        if x.rank > 1:
            self.add("transpose", {"x": x}, {"perm": (*range(x.rank - 2), x.rank - 1, x.rank - 2)})

    def concat(self) -> None:
        """Join tensors of one type along an axis."""
        x = self.value()
        parts: list[Value] = [x, *(self.like(x) for _ in range(self.integer(1, 2)))]
        self.add("concat", {"values": tuple(parts)}, {"axis": self.integer(0, x.rank - 1)})

    def padding(self) -> None:
        """Pad the last axes."""
        x = self.value()
        pad = tuple(self.draw(st.sampled_from([0, 1, 8, 32])) for _ in range(2 * min(x.rank, 2)))
        self.add("padding", {"x": x}, {"pad": pad, "mode": "constant"})

    def ring(self) -> None:
        """Write into a ring buffer and read it, perhaps one that is a state."""
        x = self.value()
        if self.draw(st.booleans()):
            buffer = self.new_input(x.shape)
        else:
            buffer = Value(f"s{len(self.states)}", x.type)
            self.states.append(State(buffer.name, buffer, None))
        written = self.add("ring_buffer_writer", {"buffer": buffer, "x": x}, {"axis": 0})
        if self.states and self.states[-1].read is buffer:
            self.states[-1] = replace(self.states[-1], written=written)
        if self.draw(st.booleans()):
            self.add("ring_buffer_reader", {"buffer": written}, {"axis": 0, "offset": 1})

    def state(self) -> None:
        """Read a state and write it back changed."""
        x = self.value()
        read = Value(f"s{len(self.states)}", x.type)
        self.values.append(read)
        written = self.add("add", {"x": read, "y": x})
        self.states.append(State(read.name, read, self.draw(st.sampled_from([None, written, read]))))

    def bridge(self) -> None:
        """Cut the program around a layer that is a program of its own."""
        x = self.value()
        if self.layers and x.rank > 1:
            self.segment += 1
            self.add("sort", {"x": x}, {"axis": -1})
            self.segment += 1
            self.add("relu", {"x": self.value()})


STEPS: tuple[tuple[Callable[[Writer], None], int], ...] = (
    (Writer.unary, 4),
    (Writer.binary, 5),
    (Writer.convolution, 5),
    (Writer.product, 2),
    (Writer.rows, 3),
    (Writer.pooling, 2),
    (Writer.reshape, 3),
    (Writer.transpose, 2),
    (Writer.concat, 3),
    (Writer.padding, 2),
    (Writer.ring, 1),
    (Writer.state, 1),
    (Writer.bridge, 1),
)
CHOICES = [step for step, weight in STEPS for _ in range(weight)]


@st.composite
def programs(draw: st.DrawFn, *, most: int = 24, family: Family = Family.A13) -> DrawnProgram:
    """Draw a program; what nobody reads leaves it, and perhaps more."""
    writer = Writer(draw)
    writer.unary()
    for _ in range(draw(st.integers(0, most))):
        draw(st.sampled_from(CHOICES))(writer)
        if writer.values[-1].type.size > MOST_ELEMENTS:
            writer.new_input((1, 8, 16, 16))
    read = {value.name for layer in writer.layers for value in layer.bottoms}
    made = [result for layer in writer.layers for result in layer.results]
    leaving = [value for value in made if value.name not in read] + draw(st.lists(st.sampled_from(made), max_size=2))
    if not draw(st.integers(0, 4)):
        leaving.append(writer.inputs[0].value)
    outputs = tuple(Port(f"y{number}", value) for number, value in enumerate(dict.fromkeys(leaving)))
    program = Program(resolve(family), tuple(writer.inputs), tuple(writer.layers), outputs, tuple(writer.states))
    verify(program)
    return DrawnProgram(program)
