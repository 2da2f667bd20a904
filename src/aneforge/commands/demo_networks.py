"""The embedded models that `aneforge demo` shows: real shapes, weights drawn from a seed, nothing downloaded.

Three stand for what people run: an image classifier, a transformer, a segmentation network. The fourth is small, and
made to fall off older chips in three ways.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import Location, UnknownNameError
from aneforge.graph.builder.attention import mha
from aneforge.graph.builder.combination import concat
from aneforge.graph.builder.convolution import conv, conv_transpose
from aneforge.graph.builder.inputs import input as placeholder
from aneforge.graph.builder.layers import topk
from aneforge.graph.builder.normalisation import batch_norm
from aneforge.graph.graph import Graph, as_graph
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Argument, Node, Value
    from aneforge.ops.types import Array

__all__ = ["NETWORKS", "network"]

SEED = 0


class Drawn:
    """Weights that keep the variance of what they multiply, the same for the same seed."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng(SEED)

    def normal(self, *shape: int, gain: float = 1.0) -> Array:
        """Draw weights; all axes but the first are summed over."""
        deviation = gain / math.sqrt(math.prod(shape[1:]))
        return (self.generator.standard_normal(shape) * deviation).astype(np.float16)

    def near(self, value: float, count: int) -> Array:
        """Draw numbers near a value, as statistics of trained layers are."""
        return (value + 0.2 * self.generator.uniform(-1, 1, count)).astype(np.float16)


def convolve(x: Tensor, drawn: Drawn, channels: int, kernel: int, stride: int = 1) -> Tensor:
    """Return a convolution with normalised results."""
    made = conv(x, drawn.normal(channels, x.shape[1], kernel, kernel, gain=1.4), stride=stride, pad=kernel // 2)
    gamma, beta, mean, variance = (drawn.near(value, channels) for value in (1.0, 0.0, 0.0, 1.0))
    return batch_norm(made, gamma, beta, mean, variance)


def residual(x: Tensor, drawn: Drawn, channels: int, stride: int) -> Tensor:
    """Return two convolutions and a way around them."""
    y = convolve(convolve(x, drawn, channels, 3, stride).relu(), drawn, channels, 3)
    around = x if stride == 1 and x.shape[1] == channels else convolve(x, drawn, channels, 1, stride)
    return (y + around).relu()


def image_classifier() -> GraphLike:
    """Return a network of the shape of ResNet-18."""
    drawn = Drawn()
    y = convolve(placeholder((1, 3, 224, 224), name="image"), drawn, 64, 7, 2).relu().max_pool(3, stride=2, pad=1)
    for channels, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        y = residual(y, drawn, channels, stride)
    pooled = y.mean((2, 3)).reshape(1, 512)
    return {"logits": pooled.linear(drawn.normal(1000, 512), drawn.near(0.0, 1000))}


def transformer() -> GraphLike:
    """Return an encoder of four layers over 128 tokens."""
    drawn, width, heads = Drawn(), 256, 8
    y = placeholder((128, width), name="tokens")
    for _ in range(4):
        weights = [one for _ in range(4) for one in (drawn.normal(width, width), drawn.near(0.0, width))]
        y = y + mha(y.layer_norm(drawn.near(1.0, width), drawn.near(0.0, width)), *weights, n_heads=heads)
        normal = y.layer_norm(drawn.near(1.0, width), drawn.near(0.0, width))
        hidden = normal.linear(drawn.normal(4 * width, width), drawn.near(0.0, 4 * width)).gelu()
        y = y + hidden.linear(drawn.normal(width, 4 * width), drawn.near(0.0, width))
    return {"features": y}


def segmentation() -> GraphLike:
    """Return a network of the shape of a U-Net."""
    drawn = Drawn()

    def twice(x: Tensor, channels: int) -> Tensor:
        for _ in range(2):
            x = conv(x, drawn.normal(channels, x.shape[1], 3, 3, gain=1.4), pad=1)
            x = x.group_norm(drawn.near(1.0, channels), drawn.near(0.0, channels), num_groups=8).silu()
        return x

    y = placeholder((1, 3, 128, 128), name="image")
    passed: list[Tensor] = []
    for channels in (32, 64):
        y = twice(y, channels)
        passed.append(y)
        y = y.max_pool(2)
    y = twice(y, 128)
    for skip in reversed(passed):
        up = conv_transpose(y, drawn.normal(y.shape[1], skip.shape[1], 2, 2), stride=2)
        y = twice(concat([up, skip], axis=1), skip.shape[1])
    return {"map": conv(y, drawn.normal(4, 32, 1, 1), bias=drawn.near(0.0, 4))}


def keyword_spotter() -> GraphLike:
    """Return a small audio network that falls off older chips: a long window, a sine, a ranking."""
    drawn = Drawn()
    x = placeholder((1, 8, 1, 20_000), name="window")
    features = conv(x, drawn.normal(16, 8, 1, 14), stride=2).relu().sin()
    values, _ = topk(features.mean((2, 3)).reshape(1, 16), 5)
    return {"best": values}


NETWORKS: Mapping[str, Callable[[], GraphLike]] = {
    "resnet18": image_classifier,
    "transformer": transformer,
    "unet": segmentation,
    "keyword-spotter": keyword_spotter,
}


def network(name: str) -> Graph:
    """Return an embedded model by its name; its operations are named after what they are.

    >>> network("keyword-spotter").nodes[1].location.node
    'conv_1'

    Raises:
        UnknownNameError: There is no such model.
    """
    if name not in NETWORKS:
        raise UnknownNameError.of("embedded model", name, NETWORKS)
    return name_operations(as_graph(NETWORKS[name]()))


def name_operations(graph: Graph) -> Graph:
    """Return a graph whose operations have names instead of the places in this file at which they were made."""
    now: dict[Node, Node] = {}

    def value(one: Value) -> Value:
        return Tensor(now[one.node], one.index) if isinstance(one, Tensor) else one

    def argument(one: Argument) -> Argument:
        return tuple(map(value, one)) if isinstance(one, tuple) else value(one)

    for number, node in enumerate(graph.nodes):
        operands = {name: argument(one) for name, one in node.operands.items()}
        now[node] = replace(node, operands=operands, location=Location(node=f"{node.op.name}_{number}"))
    return Graph({name: Tensor(now[one.node], one.index) for name, one in graph.outputs.items()})
