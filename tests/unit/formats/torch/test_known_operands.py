"""Operators whose operands are all known: made of numbers, or computed by PyTorch when the program is read."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aneforge as af
from aneforge.formats.shared.findings import Reason, UnsupportedModelError
from aneforge.formats.torch.evaluation import ELEMENTS_MOST, FUNCTIONS, MATRICES, SETS
from aneforge.formats.torch.registry import converters
from aneforge.formats.torch.torch_model import from_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[[Tensor], Tensor]

MATRIX = torch.tensor([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])


class Applying(nn.Module):
    """A function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.matrix = nn.Parameter(MATRIX)

    def forward(self, x: Tensor) -> Tensor:
        """Return what the function gives."""
        return self.function(x)


def repeated(x: Tensor) -> Tensor:
    return x.repeat_interleave(torch.tensor([1, 2, 0]), 0)


FORMS: dict[str, Function] = {
    "tril_indices": lambda x: x[tuple(torch.tril_indices(3, 4, -1))],
    "triu_indices": lambda x: x[tuple(torch.triu_indices(3, 4, 1))] + torch.triu_indices(0, 3).sum(),
    "repeat_interleave": repeated,
    "rrelu": functional.rrelu,
    "dist": lambda x: torch.dist(x, x.flip(0), 3),
    "ldexp": lambda x: torch.ldexp(x, torch.tensor([[3], [-2], [0]])),
    "hypot": lambda x: torch.hypot(x * 1e30, x.flip(0) * 1e30),
    "lgamma": lambda x: x + torch.lgamma(torch.tensor([3.5, 4.5, 5.5, 6.5])),
    "erfinv in half precision": lambda x: x + torch.erfinv(torch.tensor([0.1, 0.2, 0.3, 0.4]).half()),
    "inv": lambda x: torch.linalg.inv(MATRIX) @ x,
    "svdvals": lambda x: torch.linalg.svdvals(MATRIX) @ x,
    "solve": lambda x: x * torch.linalg.solve(MATRIX, torch.ones(3, 1)),
    "eigvals": lambda x: x * torch.view_as_real(torch.linalg.eigvals(MATRIX))[:, 0].sort().values[:, None],
    "unique": lambda x: x[:, torch.unique(torch.tensor([1, 1, 2]))],
}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_means_the_same(name: str) -> None:
    module = Applying(FORMS[name]).eval()
    x = torch.linspace(-2, 3, 12).reshape(3, 4)
    graph = from_torch(module, x)
    with torch.no_grad():
        wanted = module(x).numpy()
    found = af.reference(graph, [x.numpy()])["y"]
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


def test_a_hypotenuse_of_nothing_and_of_infinities() -> None:
    class Hypotenuse(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.hypot(x, y)

    x = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.inf, 3e38, torch.nan, 1e-30, torch.nan])
    y = torch.tensor([0.0, 5.0, 1.0, torch.inf, 0.0, 1e-30, 1.0, 1e-30, torch.inf])
    found = af.reference(from_torch(Hypotenuse(), (x, y)), [x.numpy(), y.numpy()])["y"]
    np.testing.assert_allclose(found, torch.hypot(x, y).numpy(), rtol=1e-6)


def test_nothing_that_has_a_converter_is_left_to_pytorch() -> None:
    assert not (FUNCTIONS | SETS | MATRICES) & set(converters())
    forms = [getattr(torch.ops.aten, name) for name in FUNCTIONS | SETS | MATRICES]
    drawn = [str(one) for one in forms if torch.Tag.nondeterministic_seeded in getattr(one, one.overloads()[0]).tags]
    assert drawn == []


def stopped(function: Function) -> tuple[str, Reason, str]:
    with pytest.raises(UnsupportedModelError) as raised:
        from_torch(Applying(function), torch.ones(3, 4))
    (finding,) = raised.value.findings
    return finding.operator, finding.reason, finding.message


def test_operands_that_are_computed_are_told_of() -> None:
    operator, reason, message = stopped(torch.erfinv)
    assert (operator, reason) == ("erfinv.default", Reason.FORM)
    assert "its operands are not constants" in message


def test_an_inverse_of_something_computed_is_one_finding_without_its_tokens() -> None:
    operator, reason, _ = stopped(lambda x: torch.linalg.inv(x @ x.T))
    assert (operator, reason) == ("linalg_inv_ex.default", Reason.FORM)


def test_a_singular_matrix_is_told_of() -> None:
    operator, _, message = stopped(lambda x: torch.linalg.inv(torch.zeros(3, 3)) @ x)
    assert operator == "with_effects"
    assert "singular" in message


def test_a_matrix_that_is_not_finite_is_told_of() -> None:
    _, _, message = stopped(lambda x: torch.linalg.svdvals(torch.full((3, 3), torch.nan)) @ x)
    assert "not finite" in message


def test_what_is_computed_when_a_program_is_read_is_bounded() -> None:
    operator, reason, message = stopped(lambda x: x + torch.lgamma(torch.ones(ELEMENTS_MOST + 1)).sum())
    assert (operator, reason) == ("lgamma.default", Reason.LIMIT)
    assert str(ELEMENTS_MOST) in message
    _, reason, _ = stopped(lambda x: x + torch.igamma(torch.ones(2**11, 1), torch.ones(2**10)).sum())
    assert reason is Reason.LIMIT


def test_repeats_must_be_known() -> None:
    class Repeating(nn.Module):
        def forward(self, x: Tensor, repeats: Tensor) -> Tensor:
            return x.repeat_interleave(repeats, output_size=3)

    with pytest.raises(UnsupportedModelError, match="how often each element is repeated is computed at run time"):
        from_torch(Repeating(), (torch.ones(2), torch.tensor([1, 2])))


def test_a_slope_that_is_drawn_is_training() -> None:
    class Drawing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return functional.rrelu(x, training=True)

    with pytest.raises(UnsupportedModelError, match=r"rrelu in training.*module\.eval\(\)"):
        from_torch(Drawing(), torch.ones(2))
