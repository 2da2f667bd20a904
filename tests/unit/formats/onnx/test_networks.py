"""Whole networks: written as ONNX by the examples, read back, and compared with the graphs they came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import aneforge as af
from aneforge.formats.onnx.onnx_model import from_onnx, onnx_to_features
from mobilenet_v2 import mobilenet_v2
from resnet18 import resnet18
from transformer import encoder
from unet import unet
from write_onnx import Writer

if TYPE_CHECKING:
    from collections.abc import Callable


def small_mobilenet() -> af.Graph:
    return mobilenet_v2(size=32, classes=10)


def small_unet() -> af.Graph:
    return unet(size=16, channels=(8, 16))


@pytest.mark.parametrize("network", [resnet18, encoder, small_mobilenet, small_unet])
def test_a_network_comes_back_with_its_meaning(network: Callable[[], af.Graph]) -> None:
    original = network()
    graph = from_onnx(Writer(original).model().SerializeToString())
    assert {name: node.types[0].shape for name, node in graph.inputs.items()} == {
        name: node.types[0].shape for name, node in original.inputs.items()
    }
    generator = np.random.default_rng(0)
    feeds = {name: generator.normal(size=node.types[0].shape) for name, node in original.inputs.items()}
    found, wanted = af.reference(graph, feeds), af.reference(original, feeds)
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6)


def test_the_features_of_resnet_are_its_pooled_channels() -> None:
    inputs, features = onnx_to_features(Writer(resnet18()).model())
    assert [tensor.shape for tensor in inputs] == [(1, 3, 224, 224)]
    assert features.shape == (1, 512)


def test_every_node_of_a_network_names_its_place() -> None:
    graph = from_onnx(Writer(encoder()).model())
    assert all(node.location is not None and node.location.node for node in graph.nodes)
