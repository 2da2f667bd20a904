"""Numbers rounded to steps of a scale and back, as quantisation-aware training leaves them."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import aneforge as af
from aneforge.formats.torch.torch_model import from_torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Function = Callable[[Tensor], Tensor]

ATEN = torch.ops.aten
SCALES, ZEROS = torch.tensor([0.1, 0.2, 0.05]), torch.tensor([0, 1, -2], dtype=torch.int32)
TABLE = ["input", "quantize", "dequantize"]


class Applying(nn.Module):
    """A function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """Return what the function gives."""
        return self.function(x)


def by_tensors(x: Tensor) -> Tensor:
    return torch.fake_quantize_per_tensor_affine(x, torch.tensor(0.1), torch.tensor(3), -8, 7)


def turned_off(x: Tensor) -> Tensor:
    form = ATEN._fake_quantize_per_tensor_affine_cachemask_tensor_qparams  # noqa: SLF001 - the name that programs have
    return cast("Tensor", form(x, torch.tensor([0.1]), torch.tensor([3]), torch.tensor([0]), 0, 255)[0])


def mask(x: Tensor) -> Tensor:
    return cast("Tensor", ATEN.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 3, 0, 15)[1])


FORMS: dict[str, tuple[Function, list[str] | None]] = {
    "eight bits": (lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255), TABLE),
    "eight bits with a sign, per channel": (
        lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS, 0, -128, 127),
        TABLE,
    ),
    "four bits, per channel": (lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS, 0, -8, 7), None),
    "a scale that is a tensor": (by_tensors, None),
    "a scale that is computed": (
        lambda x: torch.fake_quantize_per_tensor_affine(
            x, x.abs().amax() / 100, torch.zeros(1, dtype=torch.int32), 0, 255
        ),
        None,
    ),
    "turned off": (turned_off, ["input"]),
    "a mask": (mask, None),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_means_the_same_from_a_module_and_a_file(name: str, tmp_path: Path) -> None:
    function, operations = FORMS[name]
    x = torch.linspace(-3, 4, 12).reshape(3, 4)
    program = torch.export.export(Applying(function), (x,))
    torch.export.save(program, tmp_path / "model.pt2")
    for graph in (from_torch(program), from_torch(tmp_path / "model.pt2")):
        found = af.reference(graph, [x.numpy()])["y"]
        np.testing.assert_allclose(found, function(x).numpy(), rtol=1e-6, atol=1e-6)
        if operations is not None:
            assert [node.op.name for node in graph.nodes] == operations


def test_a_program_with_fake_quantisation_runs_on_the_engine() -> None:
    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            few = torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)
            weight = torch.fake_quantize_per_channel_affine(self.linear.weight, SCALES, ZEROS, 0, -8, 7)
            return nn.functional.linear(few, weight, self.linear.bias)

    torch.manual_seed(0)
    module, x = Quantised().half().eval(), torch.randn(2, 8).half()
    graph = from_torch(module, x)
    wanted = af.reference(graph, [x.numpy()])["y"]
    np.testing.assert_allclose(wanted, module(x).detach().numpy(), atol=0.02)
    found = af.run(af.build_program(graph, "h13"), {"x": x.numpy()}).outputs["y"]
    np.testing.assert_allclose(found, wanted, atol=0.02)
