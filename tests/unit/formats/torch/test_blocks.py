"""Blocks of networks as users have them: imported, compared with PyTorch, and run on the engine where that is legal."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from torch.nn import functional

import aneforge as af
from aneforge.errors import NotSupportedError
from aneforge.formats.torch.torch_model import from_torch
from unit.formats.torch.block_checks import check_block, expected

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DRAWN_PART = ("causal", "sound", "both ways", "picture")
"""Blocks that always run; the external tests have all of them."""


@pytest.mark.parametrize("name", DRAWN_PART)
def test_a_block_means_the_same_and_runs_on_the_engine(name: str) -> None:
    check_block(name)


class Applied(torch.nn.Module):
    """A list of functions of one tensor."""

    def __init__(self, functions: Sequence[Callable[[torch.Tensor], torch.Tensor]]) -> None:
        super().__init__()
        self.functions = list(functions)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return all results."""
        return [function(x) for function in self.functions]


def gate(x: torch.Tensor) -> torch.Tensor:
    return functional.glu(x, 1)


def cut(x: torch.Tensor) -> torch.Tensor:
    return functional.threshold(x, 0.1, -2.0)


def bent(x: torch.Tensor) -> torch.Tensor:
    return functional.celu(x, 0.7)


def moved(x: torch.Tensor) -> torch.Tensor:
    return torch.lerp(x, x * 2, 0.3) + torch.lerp(x, x * 2, 0.8) + torch.lerp(x, x * 2, x)


def pairs(x: torch.Tensor) -> torch.Tensor:
    return torch.addcmul(x, x, x, value=3) + torch.addcdiv(x, x, x + 10)


def test_activations_are_not_widened() -> None:
    functions = [gate, cut, bent, moved, pairs, functional.logsigmoid, functional.normalize]
    x = torch.linspace(-4, 4, 48, dtype=torch.float64).reshape(1, 4, 3, 4)
    module = Applied(functions)
    graph = from_torch(module, x)
    for found, wanted in zip(af.reference(graph, [x.numpy()]).values(), expected(module, [x]), strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-9, atol=1e-12)
    half = from_torch(module, x.half())
    assert {kind.dtype for node in half.nodes for kind in node.types} <= {"fp16", "bool"}


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf"), float("-inf")])
def test_norms_of_any_order(order: float) -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x, order, (0, 2), keepdim=True)

    def of_all(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x, order)

    def of_each(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.vector_norm(x[0, 0, 0], order)

    x = torch.linspace(-2, 3, 24, dtype=torch.float64).reshape(2, 3, 4)
    module = Applied([norm, of_all, of_each])
    results = af.reference(from_torch(module, x), [x.numpy()])
    for found, wanted in zip(results.values(), expected(module, [x]), strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-9)


# Resizing without aliases.

SMOOTH = ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa")
SHAPES = ((1, 2, 7, 9), (2, 1, 1, 5), (1, 1, 12, 1))
SIZES = ((3, 4), (20, 2), (1, 1), (5, 13), (1, 7))


def smooth(
    operator: str, size: tuple[int, int], factors: tuple[float | None, float | None], *, corners: bool
) -> Callable[[torch.Tensor], torch.Tensor]:
    def resized(x: torch.Tensor) -> torch.Tensor:
        form = getattr(torch.ops.aten, operator).default
        return cast("torch.Tensor", form(x, list(size), corners, *factors))

    return resized


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_resizing_without_aliases(shape: tuple[int, ...]) -> None:
    """Corners aligned change the spacing alone, and a factor that is given counts rather than the sizes."""
    cases = [
        smooth(operator, size, factors, corners=corners)
        for operator in SMOOTH
        for size in SIZES
        for corners in (False, True)
        for factors in ((None, None), ((size[0] + 0.4) / shape[2], None))
    ]
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    module = Applied(cases)
    results = af.reference(from_torch(module, x), [x.numpy()])
    for found, wanted in zip(results.values(), expected(module, [x]), strict=True):
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-9, atol=1e-9)


def test_one_column_without_aliases_is_refused() -> None:
    x = torch.arange(24.0).reshape(1, 1, 12, 2)
    module = Applied([smooth(SMOOTH[0], (8, 1), (None, None), corners=False)])
    assert torch.unique(module(x)[0]).numel() == 1, "PyTorch reads more than the first row now: take it over"
    with pytest.raises(NotSupportedError, match="PyTorch repeats the first row"):
        from_torch(module, x)
