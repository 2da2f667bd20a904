"""Gradients of whole networks, at inputs and weights: those of torch in float64, and compiled for families."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.graph.tensor import Tensor
from aneforge.targets import Family
from gradient_tools import backward_graph, compare_with_torch, drawn_feeds, widened
from llama_block import llama_block
from mobilenet_v2 import mobilenet_v2
from resnet18 import resnet18
from transformer import encoder, vision_transformer
from unet import unet

if TYPE_CHECKING:
    from collections.abc import Callable

NETWORKS: dict[str, Callable[[], af.Graph]] = {
    "vision_transformer": lambda: vision_transformer(size=32, width=48, layers=2),
    "encoder": lambda: encoder(length=16, width=48, layers=2, heads=4),
    "llama_block": lambda: llama_block(width=64, heads=2, places=8),
    "unet": lambda: unet(size=16, channels=(8, 16, 16)),
    "mobilenet_v2": lambda: mobilenet_v2(size=32, classes=10),
    "resnet18": lambda: resnet18(size=32, classes=10),
}


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "resnet18"])
def test_gradients_of_a_network_are_those_of_torch(name: str) -> None:
    """The largest is compared by tests/external/gradients."""
    graph, weights = widened(NETWORKS[name](), unbaked=True)
    generator = np.random.default_rng(0)
    compare_with_torch(graph, generator, drawn_feeds(graph, generator, weights))


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_a_network_compile(name: str) -> None:
    graph = NETWORKS[name]()
    outputs = [Tensor(one.node, one.index) for one in graph.outputs.values()]
    inputs = {key: Tensor(node) for key, node in graph.inputs.items() if node.types[0].dtype == "fp16"}
    backward = backward_graph(outputs, inputs)
    for family in (Family.A13, Family.A16):
        af.build_program(backward, family)
