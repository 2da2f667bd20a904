"""What ONNX and PyTorch both have becomes the same operations of the graph, whichever format it comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aneforge as af
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.formats.torch.torch_model import from_torch
from unit.formats.onnx.onnx_models import made, node, numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from aneforge.ops.types import Array

X = numbers(2, 4, 6, 6)
ONES, RAMP = np.ones(4, np.float32), np.linspace(0.5, 2, 4, dtype=np.float32)
KERNEL = numbers(4, 4, 3, 3)


@dataclass(frozen=True)
class Case:
    """One function of a tensor in both formats."""

    function: Callable[[Tensor], Tensor]
    operator: str
    attributes: dict[str, object] = field(default_factory=dict[str, object])
    weights: tuple[Array, ...] = ()
    tensors: int = 1
    """How many of the operator's first inputs are the tensor."""
    outputs: int = 1


def constant(array: Array) -> Tensor:
    return torch.tensor(array)


CASES = {
    "relu": Case(functional.relu, "Relu"),
    "celu": Case(lambda x: functional.celu(x, 1.5), "Celu", {"alpha": 1.5}),
    "gelu": Case(lambda x: functional.gelu(x, approximate="tanh"), "Gelu", {"approximate": "tanh"}),
    "hard swish": Case(functional.hardswish, "HardSwish"),
    "mish": Case(functional.mish, "Mish"),
    "slope": Case(lambda x: functional.prelu(x, constant(RAMP)), "PRelu", weights=(RAMP.reshape(4, 1, 1),)),
    "bounds": Case(
        lambda x: x.clamp(-0.5, 0.25), "Clip", weights=(np.array(-0.5, np.float32), np.array(0.25, np.float32))
    ),
    "remainder": Case(lambda x: torch.fmod(x, constant(RAMP[:1])), "Mod", {"fmod": 1}, (RAMP[:1],)),
    "mean": Case(lambda x: x.mean((2, 3)), "ReduceMean", {"keepdims": 0}, (np.array([2, 3]),)),
    "log of softmax": Case(lambda x: x.log_softmax(1), "LogSoftmax", {"axis": 1}),
    "running product": Case(lambda x: x.cumprod(3), "CumProd", weights=(np.array(3),)),
    "place of the largest": Case(lambda x: x.argmax(2, keepdim=True), "ArgMax", {"axis": 2}),
    "largest": Case(lambda x: x.topk(3, 3).values, "TopK", weights=(np.array([3]),), outputs=2),
    "triangle": Case(lambda x: x.tril(1), "Trilu", {"upper": 0}, (np.array(1),)),
    "convolution": Case(
        lambda x: functional.conv2d(x, constant(KERNEL), constant(RAMP), 2, 1),
        "Conv",
        {"strides": [2, 2], "pads": [1, 1, 1, 1]},
        (KERNEL, RAMP),
    ),
    "transposed convolution": Case(
        lambda x: functional.conv_transpose2d(x, constant(KERNEL), None, 2, 1, 1),
        "ConvTranspose",
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        (KERNEL,),
    ),
    "largest of windows": Case(
        lambda x: functional.max_pool2d(x, 3, 2, 1, ceil_mode=True),
        "MaxPool",
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    "average of windows": Case(
        lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=True),
        "AveragePool",
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    "layer norm": Case(
        lambda x: functional.layer_norm(x, (6,), constant(np.ones(6, np.float32)), None, 1e-4),
        "LayerNormalization",
        {"epsilon": 1e-4},
        (np.ones(6, np.float32),),
    ),
    "group norm": Case(
        lambda x: functional.group_norm(x, 2, constant(RAMP), constant(ONES), 1e-4),
        "GroupNormalization",
        {"num_groups": 2, "epsilon": 1e-4},
        (RAMP, ONES),
    ),
    "batch norm": Case(
        lambda x: functional.batch_norm(x, constant(RAMP), constant(ONES), constant(RAMP), constant(ONES), eps=1e-4),
        "BatchNormalization",
        {"epsilon": 1e-4},
        (RAMP, ONES, RAMP, ONES),
    ),
    "padding": Case(
        lambda x: functional.pad(x, (1, -1, 0, 2), value=0.5),
        "Pad",
        weights=(np.array([0, 0, 0, 1, 0, 0, 2, -1]), np.array(0.5, np.float32)),
    ),
    "repeats": Case(lambda x: x.repeat(1, 2, 1, 3), "Tile", weights=(np.array([1, 2, 1, 3]),)),
    "other shape": Case(lambda x: x.reshape(2, -1, 12), "Reshape", weights=(np.array([0, -1, 12]),)),
    "one slice": Case(lambda x: x.select(1, 2), "Gather", {"axis": 1}, (np.array(2),)),
    "written elements": Case(
        lambda x: x.scatter(3, torch.zeros(2, 4, 6, 1, dtype=torch.int64), torch.ones(2, 4, 6, 1)),
        "ScatterElements",
        {"axis": 3},
        (np.zeros((2, 4, 6, 1), np.int64), np.ones((2, 4, 6, 1), np.float32)),
    ),
    "attention": Case(
        lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        "Attention",
        {"is_causal": 1},
        tensors=3,
    ),
}
TOLERANCE = 1e-5


class Together(nn.Module):
    """All functions of one tensor: one export for all."""

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return every function of the tensor, by its name."""
        return {name: case.function(x) for name, case in CASES.items()}


@cache
def from_pytorch() -> af.Graph:
    return from_torch(Together().eval(), torch.tensor(X))


def from_node(case: Case) -> af.Graph:
    weights = {f"w{place}": array for place, array in enumerate(case.weights)}
    one = node(case.operator, [*["x"] * case.tensors, *weights], ["y", "z"][: case.outputs], case.attributes)
    return from_onnx(made([one], {"x": ("fp32", X.shape)}, weights=weights))


@pytest.mark.parametrize("name", CASES)
def test_both_formats_give_the_same_operations_and_numbers(name: str) -> None:
    theirs = af.Graph({"y": from_pytorch().outputs[name]})
    ours = from_node(CASES[name])
    assert [one.op.name for one in theirs.nodes] == [one.op.name for one in ours.nodes]
    found, wanted = (af.reference(graph, {"x": X})["y"] for graph in (ours, theirs))
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)
