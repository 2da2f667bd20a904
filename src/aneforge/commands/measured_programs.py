"""The small programs whose times were published, by workload and shape: the cost model is fitted to them.

`aneforge doctor --collect` measures programs of the same workloads, so that what it writes can be compared with
`af.cost` and, one day, be data that the model is fitted to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.graph.builder.convolution import conv
from aneforge.graph.builder.image import pixel_shuffle
from aneforge.graph.builder.inputs import input as placeholder
from aneforge.graph.graph import Graph

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.graph.tensor import Tensor
    from aneforge.ops.types import Array

    Fill = Callable[..., Array]
    """Returns weights of the shape that it is given."""

__all__ = ["build_measured_program", "draw_weights", "zero_weights"]


def zero_weights(*shape: int) -> Array:
    """Return weights for a program that is priced, not run."""
    return np.zeros(shape, np.float16)


def draw_weights(seed: int) -> Fill:
    """Return what draws weights from a seed, one after another; they keep the variance of what they multiply.

    A program that is timed must not have weights of zeros: a compiler may leave them out.

    >>> draw = draw_weights(0)
    >>> draw(2, 3).shape, bool((draw(2, 3) != draw_weights(0)(2, 3)).any())
    ((2, 3), True)
    """
    generator = np.random.default_rng(seed)

    def draw(*shape: int) -> Array:
        return (generator.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:])))).astype(np.float16)

    return draw


def build_measured_program(workload: str, shape: tuple[int, ...], weights: Fill = zero_weights) -> Tensor | Graph:
    """Return the program of a workload; `analysis/data/latencies.toml` and `route_figures.toml` say what shapes are.

    >>> build_measured_program("linear", (4, 8, 2)).shape
    (4, 2)

    Raises:
        ValueError: There is no such workload.
    """
    match workload, shape:
        case (("linear" | "matmul"), (rows, inner, columns)):
            return placeholder((rows, inner)) @ weights(inner, columns)
        case "conv3x3_same", (batch, channels, height, width):
            return conv(placeholder((batch, channels, height, width)), weights(channels, channels, 3, 3), pad=1)
        case "conv", (channels, side, stride, size):
            kernel = weights(channels, channels, side, side)
            return conv(placeholder((1, channels, size, size)), kernel, stride=stride, pad=side // 2)
        case name, (rows, width) if name in PROGRAMS:
            return PROGRAMS[name](weights, rows, width)
        case name, _:
            return one_operation(name, placeholder(shape))


def pointwise(weights: Fill, channels: int, columns: int) -> Tensor:
    """Return a 1×1 convolution over one row."""
    return conv(placeholder((1, channels, 1, columns)), weights(channels, channels, 1, 1))


def product_and_offset(weights: Fill, rows: int, width: int) -> Tensor:
    """Return a product with constant weights and an offset."""
    return placeholder((rows, width)).linear(weights(width, width), weights(width))


def attention(_: Fill, rows: int, width: int) -> Tensor:
    """Return attention of one head, its three operands one tensor, of products and softmax."""
    x = placeholder((1, 1, rows, width))
    return (x @ x.transpose(0, 1, 3, 2) * width**-0.5).softmax(-1) @ x


def transformer_block(weights: Fill, rows: int, width: int) -> Tensor:
    """Return norm, attention of one head, norm and perceptron of twice the width, with two residual sums."""
    gain, offset = np.ones(width, np.float16), np.zeros(width, np.float16)
    x = placeholder((rows, width))
    h = x.layer_norm(gain, offset)
    x = x + (h @ h.transpose(1, 0) * width**-0.5).softmax(-1) @ h
    h = x.layer_norm(gain, offset).linear(weights(2 * width, width), weights(2 * width))
    return x + h.gelu().linear(weights(width, 2 * width), offset)


def gradients(_: Fill, rows: int, width: int) -> Graph:
    """Return the two products of a gradient, of tensors that are all fed."""
    incoming, weights = placeholder((rows, width), name="dy"), placeholder((width, width), name="w")
    return Graph({"dx": incoming @ weights, "dw": incoming.transpose(1, 0) @ incoming})


PROGRAMS: Mapping[str, Callable[[Fill, int, int], Tensor | Graph]] = {
    "attention": attention,
    "block": transformer_block,
    "conv1x1": pointwise,
    "gradients": gradients,
    "linear_bias": product_and_offset,
}
"""Programs of `route_figures.toml`, by their workload."""


def one_operation(name: str, x: Tensor) -> Tensor:
    """Return one operation over a tensor, norms with a gain of one and no offset."""
    size = x.shape[1] if x.type.rank == 4 else x.shape[-1]
    gain, offset = np.ones(size, np.float16), np.zeros(size, np.float16)
    made: Mapping[str, Callable[[], Tensor]] = {
        "avg_pool": lambda: x.avg_pool(2),
        "gelu": x.gelu,
        "group_norm": lambda: x.group_norm(gain, offset, 8),
        "l2_norm": x.l2_norm,
        "layer_norm": lambda: x.layer_norm(gain, offset),
        "max_pool": lambda: x.max_pool(2),
        "pixel_shuffle": lambda: pixel_shuffle(x, 2),
        "reduce_mean": lambda: x.mean(-1),
        "reduce_sum": lambda: x.sum(-1),
        "relu": x.relu,
        "rms_norm": lambda: x.rms_norm(gain),
        "sigmoid": x.sigmoid,
        "softmax": lambda: x.softmax(-1),
    }
    if name not in made:
        raise ValueError(f"no program is known for the workload {name!r}")
    return made[name]()
