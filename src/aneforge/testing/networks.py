"""Hypothesis strategies for graphs in which passes find something to do: chains of layers as networks have them.

The graphs of `aneforge.testing.graphs` cover every operation; these cover how operations meet: biases after
convolutions, activations after biases, transposes in pairs, branches that join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from aneforge.graph.graph import INPUT, Graph
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.testing.graphs import DrawnGraph

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.graph.node import Argument
    from aneforge.ops.types import Array

__all__ = ["networks"]

ACTIVATIONS = ("relu", "relu6", "tanh", "sigmoid", "gelu", "silu", "abs", "softsign", "square", "exp", "sign")
MOST_ELEMENTS = 4096
STRIDES = (1, 1, 1, 2, 3, 4, 6, 8)
"""Strides that the hardware has or that factor into those; others are refused."""


class Builder:
    """Adds operations to a network in the making; `now` is the tensor that the next one follows."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        self.inputs: dict[str, Array] = {}
        self.made: list[Tensor] = []
        self.now = self.new_input(self.choose([(1, 4, 6, 6), (2, 4, 3, 5), (1, 6, 8), (5, 8), (1, 2, 3, 4, 4)]))

    def choose(self, options: list[tuple[int, ...]]) -> tuple[int, ...]:
        """Choose among shapes or lists of axes."""
        return self.draw(st.sampled_from(options))

    def integer(self, least: int, most: int) -> int:
        """Choose an integer."""
        return self.draw(st.integers(least, most))

    def new_input(self, shape: tuple[int, ...]) -> Tensor:
        """Return a new input and remember its value."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.generator.uniform(-2, 2, shape)
        return Tensor(build(INPUT, {}, {"shape": shape, "dtype": "fp16", "name": name}))

    def constant(self, *shape: int) -> Constant:
        """Return numbers that fp16 holds exactly and that keep sums small."""
        return Dense(np.array(self.generator.integers(-8, 9, shape) / 8, np.float16))

    def add(self, op: str, operands: dict[str, Argument], attributes: dict[str, object] | None = None) -> None:
        """Add an operation after the last one."""
        node = build(op, operands, attributes or {})
        self.now = Tensor(node)
        self.made += [Tensor(node, index) for index in range(len(node.types))]

    # One method for everything that can follow; each does nothing where the shape does not allow it.

    def convolution(self) -> None:
        """Add a convolution: padded or not, strided, grouped, with or without a bias."""
        if not 3 <= len(self.now.shape) <= 4:
            return
        count = len(self.now.shape) - 2
        kernel = tuple(self.integer(1, min(3, extent)) for extent in self.now.shape[2:])
        groups = self.integer(1, 2) if self.now.shape[1] % 2 == 0 else 1
        outputs = groups * self.integer(1, 3)
        operands: dict[str, Argument] = {
            "x": self.now,
            "weight": self.constant(outputs, self.now.shape[1] // groups, *kernel),
        }
        if self.draw(st.booleans()):
            operands["bias"] = self.constant(outputs)
        strides = tuple(self.draw(st.sampled_from(STRIDES)) for _ in range(count))
        pad = tuple(self.integer(0, max(length - 1, 0)) for length in kernel for _ in "ab")
        self.add("conv", operands, {"groups": groups, "strides": strides, "pad_type": "custom", "pad": pad})

    def product(self) -> None:
        """Add a linear layer or a product with a constant matrix."""
        if not 0 < self.now.type.rank <= 4:
            return
        outputs, inner = self.integer(1, 6), self.now.shape[-1]
        if self.draw(st.booleans()):
            operands: dict[str, Argument] = {"x": self.now, "weight": self.constant(outputs, inner)}
            if self.draw(st.booleans()):
                operands["bias"] = self.constant(outputs)
            self.add("linear", operands)
            return
        transposed = self.now.type.rank > 1 and self.draw(st.booleans())
        rows = self.now.shape[-2] if transposed else inner
        flipped = self.draw(st.booleans())
        weight = self.constant(outputs, rows) if flipped else self.constant(rows, outputs)
        self.add("matmul", {"x": self.now, "y": weight}, {"transpose_x": transposed, "transpose_y": flipped})

    def constant_pair(self) -> None:
        """Add a sum, difference or product with a constant: one number, one for a channel, or any."""
        rank = len(self.now.shape)
        axis = self.integer(0, max(rank - 1, 0))
        shape = tuple(extent if place == axis else 1 for place, extent in enumerate(self.now.shape))
        constant = self.draw(st.sampled_from([self.constant(), self.constant(*shape), self.constant(*self.now.shape)]))
        first = self.draw(st.booleans())
        op = self.draw(st.sampled_from(["add", "sub", "mul"]))
        self.add(op, {"x": constant, "y": self.now} if first else {"x": self.now, "y": constant})

    def number(self) -> None:
        """Add a sum or product with a number."""
        self.add(
            self.draw(st.sampled_from(["adds", "muls"])),
            {"x": self.now},
            {"k": self.draw(st.sampled_from([0.0, 1.0, 2.0, 0.1]))},
        )

    def activation(self) -> None:
        """Add an activation."""
        if self.integer(0, 3):
            self.add(self.draw(st.sampled_from(ACTIVATIONS)), {"x": self.now})
        elif self.draw(st.booleans()):
            self.add("leaky_relu", {"x": self.now}, {"alpha": 0.25})
        else:
            self.add("clip", {"x": self.now}, {"alpha": -1.0, "beta": float(self.integer(0, 6))})

    def batch_norm(self) -> None:
        """Add a batch normalisation."""
        if len(self.now.shape) < 3:
            return
        channels = self.now.shape[1]
        variance = Dense((self.generator.integers(1, 9, channels) / 4).astype(np.float16))
        self.add(
            "batch_norm",
            {"x": self.now, "mean": self.constant(channels), "variance": variance, "gamma": self.constant(channels)},
        )

    def transpose(self) -> None:
        """Add a transpose."""
        perm = self.draw(st.permutations(range(len(self.now.shape))))
        self.add("transpose", {"x": self.now}, {"perm": tuple(perm)})

    def reshape(self) -> None:
        """Add a reshape: an axis more, an axis less, two axes as one, or all in one row."""
        shape = self.now.shape
        options = [(*shape, 1), (1, *shape), tuple(extent for extent in shape if extent != 1), (int(np.prod(shape)),)]
        if len(shape) > 1:
            options.append((shape[0] * shape[1], *shape[2:]))
        self.add("reshape", {"x": self.now}, {"shape": self.choose([one for one in options if 0 < len(one) <= 5])})

    def padding(self) -> None:
        """Add zeros around height and width, or around the last axis."""
        count = 2 * min(2, max(len(self.now.shape) - 2, 1))
        pad = tuple(self.integer(0, 2) for _ in range(count))
        value = self.draw(st.sampled_from([0.0, 0.0, 1.0]))
        self.add("pad", {"x": self.now}, {"pad": pad, "mode": "constant", "constant_val": value})
        if self.draw(st.booleans()):
            self.draw(st.sampled_from([Builder.convolution, Builder.pooling]))(self)

    def pooling(self) -> None:
        """Add pooling."""
        if not 3 <= len(self.now.shape) <= 4:
            return
        window = tuple(self.integer(1, min(3, extent)) for extent in self.now.shape[2:])
        op = self.draw(st.sampled_from(["avg_pool", "max_pool"]))
        pad = tuple(self.integer(0, length // 2) for length in window for _ in "ab")
        self.add(op, {"x": self.now}, {"kernel_sizes": window, "strides": window, "pad_type": "custom", "pad": pad})

    def branch(self) -> None:
        """Go on from a tensor that was made before, so that it has two readers."""
        live = [tensor for tensor in self.made if tensor.dtype == "fp16"]
        if live:
            self.now = self.draw(st.sampled_from(live))

    def join(self) -> None:
        """Join with a tensor that was made before: a concat, a sum, or a product."""
        alike = [tensor for tensor in self.made if tensor.type == self.now.type]
        other = self.draw(st.sampled_from(alike)) if alike else self.now
        kind = self.draw(st.sampled_from(["concat", "add", "mul", "maximum"]))
        if kind == "concat":
            axis = self.integer(0, max(len(self.now.shape) - 1, 0))
            self.add("concat", {"values": (self.now, other)}, {"axis": axis})
        else:
            self.add(kind, {"x": self.now, "y": other})

    def parallel(self) -> None:
        """Join two convolutions of one tensor along the channels, and go on after the join."""
        source = self.now
        if not 3 <= source.type.rank <= 4:
            return
        parts: list[Tensor] = []
        for _ in "ab":
            shape = (self.integer(1, 3), source.shape[1], *(1,) * (source.type.rank - 2))
            self.add("conv", {"x": source, "weight": self.constant(*shape)})
            parts.append(self.now)
        self.add("concat", {"values": tuple(parts)}, {"axis": 1})
        self.draw(st.sampled_from([Builder.activation, Builder.number, Builder.batch_norm]))(self)

    def copies(self) -> None:
        """Add something that changes nothing or next to nothing."""
        op = self.draw(st.sampled_from(["identity", "tile", "slice_by_size", "cast"]))
        match op:
            case "tile":
                reps = tuple(self.integer(1, 2) if extent == 1 else 1 for extent in self.now.shape)
                self.add("tile", {"x": self.now}, {"reps": reps})
            case "slice_by_size":
                begin = tuple(self.integer(0, min(1, extent - 1)) for extent in self.now.shape)
                size = tuple(extent - first for extent, first in zip(self.now.shape, begin, strict=True))
                self.add("slice_by_size", {"x": self.now}, {"begin": begin, "size": size})
            case "cast":
                self.add("cast", {"x": self.now}, {"dtype": "fp16"})
            case _:
                self.add("identity", {"x": self.now})

    def reduction(self) -> None:
        """Add a reduction, and perhaps the square of it."""
        op = self.draw(st.sampled_from(["reduce_sum", "reduce_mean", "reduce_max", "softmax"]))
        axis = self.integer(0, max(len(self.now.shape) - 1, 0))
        attributes: dict[str, object] = {"axis": axis} if op == "softmax" else {"axes": (axis,), "keep_dims": True}
        self.add(op, {"x": self.now}, attributes)
        if self.draw(st.booleans()):
            self.add("square", {"x": self.now})

    def resizing(self) -> None:
        """Add upsampling or bilinear resizing."""
        if len(self.now.shape) != 4:
            return
        if self.draw(st.booleans()):
            self.add("upsample", {"x": self.now}, {"scale": 2})
            return
        size = {"target_size_height": self.integer(1, 9), "target_size_width": self.integer(1, 9)}
        mode = self.draw(st.sampled_from(["DEFAULT", "STRICT_ALIGN_CORNERS", "UNALIGN_CORNERS"]))
        self.add("resize_bilinear", {"x": self.now}, {**size, "sampling_mode": mode})

    def quantisation(self) -> None:
        """Quantise and dequantise, with the same numbers or with others."""
        scales = [Dense(np.array(scale, np.float16)) for scale in (0.25, 0.5)]
        self.add("quantize", {"input": self.now, "scale": scales[0]}, {"output_dtype": "int8"})
        self.add("dequantize", {"input": self.now, "scale": scales[self.integer(0, 1)]})

    def stored_weight(self) -> None:
        """Add a linear layer's weight as a dequantisation of int8."""
        if not 0 < self.now.type.rank <= 4:
            return
        outputs, inner = self.integer(1, 4), self.now.shape[-1]
        data = Dense(self.generator.integers(-127, 128, (outputs, inner)).astype(np.int8))
        scale = Dense((self.generator.integers(1, 9, outputs) / 64).astype(np.float16))
        weight = Tensor(build("dequantize", {"input": data, "scale": scale}, {"axis": 0}))
        self.add("matmul", {"x": self.now, "y": weight}, {"transpose_y": True})


STEPS: tuple[tuple[Callable[[Builder], None], int], ...] = (
    (Builder.convolution, 4),
    (Builder.product, 4),
    (Builder.constant_pair, 5),
    (Builder.number, 2),
    (Builder.activation, 6),
    (Builder.batch_norm, 2),
    (Builder.transpose, 4),
    (Builder.reshape, 3),
    (Builder.padding, 2),
    (Builder.pooling, 2),
    (Builder.branch, 1),
    (Builder.join, 3),
    (Builder.parallel, 1),
    (Builder.copies, 2),
    (Builder.reduction, 1),
    (Builder.resizing, 1),
    (Builder.quantisation, 1),
    (Builder.stored_weight, 1),
)
"""What can follow, and how often."""
CHOICES = [step for step, weight in STEPS for _ in range(weight)]


@st.composite
def networks(draw: st.DrawFn, *, most: int = 14) -> DrawnGraph:
    """Draw a network: a chain with branches and joins, of which the last tensors leave."""
    builder = Builder(draw)
    for _ in range(draw(st.integers(1, most))):
        builder.draw(st.sampled_from(CHOICES))(builder)
        if builder.now.type.size > MOST_ELEMENTS:
            builder.branch()
    made = builder.made or [Tensor(build("relu", {"x": builder.now}))]
    outputs = list(dict.fromkeys([builder.now, *made[-draw(st.integers(1, 2)) :]])) if builder.made else made
    graph = Graph({f"y{number}": output for number, output in enumerate(outputs)})
    return DrawnGraph(graph, {name: builder.inputs[name] for name in graph.inputs})
