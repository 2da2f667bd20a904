"""Whole networks: imported from PyTorch and compared with it, in double and in single precision."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch

import aneforge as af
from aneforge.formats.torch.torch_model import from_torch, torch_states
from aneforge.graph.reference import evaluate
from unit.formats.torch.torch_networks import (
    LlamaBlock,
    LstmCell,
    MobileNetV2,
    ResNet18,
    SeparableNet,
    UNet,
    VisionTransformer,
)

if TYPE_CHECKING:
    from pathlib import Path

NETWORKS: dict[str, tuple[type[torch.nn.Module], tuple[tuple[int, ...], ...]]] = {
    "ResNet-18": (ResNet18, ((1, 3, 32, 32),)),
    "MobileNetV2": (MobileNetV2, ((1, 3, 32, 32),)),
    "vision transformer": (VisionTransformer, ((1, 3, 32, 32),)),
    "U-Net": (UNet, ((1, 1, 16, 16),)),
    "LSTM cell": (LstmCell, ((3, 5), (3, 7), (3, 7))),
    "separable": (SeparableNet, ((2, 3, 12, 12),)),
}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
"""What PyTorch's own rounding leaves: the reference rounds nothing."""
Made = tuple[torch.nn.Module, tuple[torch.Tensor, ...], af.Graph]


@cache
def made(name: str) -> Made:
    """Return a network in single precision, inputs of it, and its graph; an export takes a second or two."""
    torch.manual_seed(0)
    network, shapes = NETWORKS[name]
    module = network().eval()
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean = torch.randn_like(part.weight) * 0.1
            part.running_var = torch.rand_like(part.weight) + 0.5
    inputs = tuple(torch.randn(shape) for shape in shapes)
    return module, inputs, from_torch(module, inputs)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_means_the_same(name: str) -> None:
    """A graph of weights in single precision, against PyTorch with them in single and in double precision."""
    module, inputs, graph = made(name)
    results = af.reference(graph, [one.numpy() for one in inputs])
    for dtype, tolerance in TOLERANCE.items():
        copied = deepcopy(module).to(dtype)
        with torch.no_grad():
            expected = copied(*(one.to(dtype) for one in inputs))
        wanted = cast("dict[str, torch.Tensor]", expected if isinstance(expected, dict) else {"y": expected})
        assert set(results) == set(wanted)
        for key, value in wanted.items():
            np.testing.assert_allclose(results[key], value.numpy(), rtol=tolerance, atol=tolerance)


def test_a_network_in_double_precision() -> None:
    module, inputs, _ = made("separable")
    wide, feeds = deepcopy(module).double(), tuple(one.double() for one in inputs)
    graph = from_torch(wide, feeds)
    assert graph.outputs["y"].dtype == "fp64"
    with torch.no_grad():
        wanted = wide(*feeds).numpy()
    np.testing.assert_allclose(af.reference(graph, [one.numpy() for one in feeds])["y"], wanted, rtol=1e-9, atol=1e-9)


def test_what_the_op_table_has_stays_whole() -> None:
    counts = Counter(node.op.name for node in made("vision transformer")[2].nodes)
    assert counts["sdpa"] == 2
    assert counts["gelu"] == 2
    assert counts["layer_norm"] == 5
    assert counts["linear"] >= 7
    assert not {"softmax", "erf", "matmul"} & set(counts)
    counts = Counter(node.op.name for node in made("ResNet-18")[2].nodes)
    assert counts == {
        "input": 1, "conv": 20, "batch_norm": 20, "relu": 17, "max_pool": 1, "add": 8, "reduce_mean": 1, "reshape": 1,
        "linear": 1,
    }  # fmt: skip


def test_the_cache_of_a_decoder_block_is_state() -> None:
    torch.manual_seed(0)
    dtype = torch.float32
    module = LlamaBlock().to(dtype).eval()
    example = torch.zeros(1, 1, 16, dtype=dtype), torch.zeros(1, dtype=torch.int64)
    graph = from_torch(module, example)
    assert set(graph.states) == {"keys", "values"}
    assert sum(node.op.name == "sdpa" for node in graph.nodes) == 1
    states = torch_states(module, example)
    for place in range(4):
        x, at = torch.randn(1, 1, 16, dtype=dtype), torch.tensor([place])
        results, states = evaluate(graph, [x.numpy(), at.numpy()], states)
        with torch.no_grad():
            wanted = module(x, at)
        np.testing.assert_allclose(results["y"], wanted.numpy(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        keys = cast("torch.Tensor", module.keys)
        np.testing.assert_allclose(states["keys"], keys.numpy(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_a_file_gives_the_graph_of_the_module(tmp_path: Path) -> None:
    module, inputs, whole = made("separable")
    path = tmp_path / "network.pt2"
    torch.export.save(torch.export.export(module, inputs), path)
    graph = from_torch(path)
    feeds = [one.numpy() for one in inputs]
    np.testing.assert_array_equal(af.reference(graph, feeds)["y"], af.reference(whole, feeds)["y"])
    assert all(node.location is not None and node.location.file == str(path) for node in graph.nodes)


def test_every_node_names_the_users_line() -> None:
    nodes = made("separable")[2].nodes
    files = {node.location.file for node in nodes if node.location and node.location.file}
    assert {file.rpartition("/")[2] for file in files} == {"torch_networks.py"}
