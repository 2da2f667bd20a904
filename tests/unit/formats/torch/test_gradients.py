"""Gradients that a program has as operators, and rows of a table in bags, are those of PyTorch."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

import numpy as np
import pytest
import torch

import aneforge as af
from external.torch.own_samples import FIRST_RESULT, OWN_SAMPLES

RANDOM = ("aten.native_dropout.default", "aten.randperm.default")
"""Forms that draw their numbers."""


class Together(torch.nn.Module):
    """All samples of a form, each with inputs of its own."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.name = name
        self.calls = OWN_SAMPLES[name]()
        packet, form = name.removeprefix("aten.").split(".")
        self.form = getattr(getattr(torch.ops.aten, packet), form if form != "out" else "default")

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors of all samples."""
        return [one for call in self.calls for one in call if isinstance(one, torch.Tensor)]

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Return the results of all samples."""
        fed = iter(tensors)
        found: list[torch.Tensor] = []
        for call in self.calls:
            result = self.form(*(next(fed) if isinstance(one, torch.Tensor) else one for one in call))
            listed = (result,) if isinstance(result, torch.Tensor) else result
            listed = listed[:1] if self.name in FIRST_RESULT else listed
            found.extend(one for one in listed if one is not None)
        return found


@pytest.mark.parametrize("name", [name for name in OWN_SAMPLES if name not in RANDOM])
def test_a_form_gives_the_numbers_of_pytorch(name: str) -> None:
    module = Together(name)
    tensors = module.tensors
    graph = af.from_torch(module, tuple(tensors))
    feeds = {one: tensors[int(one.rpartition("_")[2])].numpy() for one in graph.inputs}
    found = af.reference(graph, feeds)
    for one, wanted in zip(found.values(), module(*tensors), strict=True):
        np.testing.assert_allclose(one, wanted.numpy(), rtol=1e-7, atol=1e-7)
