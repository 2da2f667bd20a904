"""Whole networks: imported from PyTorch and compared with it, in double and in single precision."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch

import aneforge as af
from aneforge.graph.reference import evaluate
from aneforge.importers.torch_export.model import from_torch, torch_states
from unit.importers.torch_export.torch_networks import (
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
    "ResNet-18": (ResNet18, ((1, 3, 64, 64),)),
    "MobileNetV2": (MobileNetV2, ((1, 3, 32, 32),)),
    "vision transformer": (VisionTransformer, ((1, 3, 32, 32),)),
    "U-Net": (UNet, ((1, 1, 16, 16),)),
    "LSTM cell": (LstmCell, ((3, 5), (3, 7), (3, 7))),
    "separable": (SeparableNet, ((2, 3, 12, 12),)),
}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4}
"""What PyTorch's own rounding leaves: the reference rounds nothing."""


def made(name: str, dtype: torch.dtype) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    network, shapes = NETWORKS[name]
    module = network().to(dtype).eval()
    for part in module.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean = torch.randn_like(part.weight) * 0.1
            part.running_var = torch.rand_like(part.weight) + 0.5
    return module, tuple(torch.randn(shape, dtype=dtype) for shape in shapes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_means_the_same(name: str, dtype: torch.dtype) -> None:
    module, inputs = made(name, dtype)
    graph = from_torch(module, inputs)
    results = af.reference(graph, [one.numpy() for one in inputs])
    with torch.no_grad():
        expected = module(*inputs)
    wanted = cast("dict[str, torch.Tensor]", expected if isinstance(expected, dict) else {"y": expected})
    assert set(results) == set(wanted)
    for key, value in wanted.items():
        np.testing.assert_allclose(results[key], value.numpy(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_what_the_op_table_has_stays_whole() -> None:
    module, inputs = made("vision transformer", torch.float32)
    counts = Counter(node.op.name for node in from_torch(module, inputs).nodes)
    assert counts["sdpa"] == 2
    assert counts["gelu"] == 2
    assert counts["layer_norm"] == 5
    assert counts["linear"] >= 7
    assert not {"softmax", "erf", "matmul"} & set(counts)
    module, inputs = made("ResNet-18", torch.float32)
    counts = Counter(node.op.name for node in from_torch(module, inputs).nodes)
    assert counts == {
        "input": 1, "conv": 20, "batch_norm": 20, "relu": 17, "max_pool": 1, "add": 8, "reduce_mean": 1, "reshape": 1,
        "linear": 1,
    }  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
def test_the_cache_of_a_decoder_block_is_state(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
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
    module, inputs = made("separable", torch.float32)
    path = tmp_path / "network.pt2"
    torch.export.save(torch.export.export(module, inputs), path)
    graph = from_torch(path)
    feeds = [one.numpy() for one in inputs]
    np.testing.assert_array_equal(af.reference(graph, feeds)["y"], af.reference(from_torch(module, inputs), feeds)["y"])
    assert all(node.location is not None and node.location.file == str(path) for node in graph.nodes)


def test_every_node_names_the_users_line() -> None:
    module, inputs = made("separable", torch.float32)
    files = {node.location.file for node in from_torch(module, inputs).nodes if node.location and node.location.file}
    assert {file.rpartition("/")[2] for file in files} == {"torch_networks.py"}
