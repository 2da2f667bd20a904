"""What every block is asked: that it means what it means in PyTorch, and that it runs on the engine."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import aneforge as af
from aneforge.errors import IllegalGraphError
from aneforge.formats.torch.torch_model import from_torch
from unit.formats.torch.torch_blocks import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["check_block", "expected"]

TARGETS = ("h13", "h17")
FOLDED = {"sound": 1e-3}
"""Blocks whose weights are computed from others: the import rounds them to their own element type, half precision."""
HALF_TOLERANCE = 0.03
"""Of the largest result: a few dozen roundings to half precision one after another."""


def made(name: str) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    block, shapes = BLOCKS[name]
    if name == "words":
        return block().half().eval(), (torch.randint(50, shapes[0]),)
    return block().half().eval(), tuple(torch.randn(shape).half() for shape in shapes)


def expected(module: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        return cast("list[torch.Tensor]", pytree.tree_leaves(module(*inputs)))


def check_block(name: str) -> None:
    """Check that a block means the same and runs on the engine.

    The reference rounds nothing, so that it gives what PyTorch gives in double precision for the same weights.
    """
    module, inputs = made(name)
    graph = from_torch(module, inputs)
    feeds = dict(zip(graph.inputs, (one.numpy() for one in inputs), strict=True))
    results = af.reference(graph, feeds)
    wide = [one.double() if one.is_floating_point() else one for one in inputs]
    for found, wanted in zip(results.values(), expected(module.double(), wide), strict=True):
        tolerance = FOLDED.get(name, 1e-9)
        np.testing.assert_allclose(found, wanted.numpy(), rtol=tolerance, atol=tolerance)
    for target in TARGETS:
        if name == "words":
            with pytest.raises(IllegalGraphError, match="A program's input is int64"):
                af.build_program(graph, target)
            continue
        found = af.run(af.build_program(graph, target), feeds).outputs
        for key, value in results.items():
            most = HALF_TOLERANCE * max(1.0, float(np.max(np.abs(value))))
            np.testing.assert_allclose(found[key], value, rtol=0, atol=most)
