"""Complex numbers within a program are pairs of real ones; at its ports there are none."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false
# PyTorch types a part of its functions alone.

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree

import aneforge as af
from aneforge.formats.shared.findings import Reason, UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.linspace(-2, 3, 24, dtype=torch.float64).reshape(2, 3, 4) ** 3 % 1.7
PLACES = torch.arange(6, dtype=torch.float64).reshape(3, 2)
WHOLE = torch.arange(-11, 13).reshape(2, 3, 4) * 2 - 1
WINDOW = torch.hann_window(8, dtype=torch.float64)


class Calling(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        """Return what the function gives."""
        return self.function(x)


class Turning(torch.nn.Module):
    """Rotary embedding as the first Llama has it: a buffer of complex numbers."""

    turns: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones_like(PLACES), PLACES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return pairs turned by their places."""
        pairs = torch.view_as_complex(x.reshape(2, 3, 2, 2))
        return torch.view_as_real(pairs * self.turns).flatten(2)


def parts(x: torch.Tensor) -> torch.Tensor:
    return torch.complex(x, x.flip(-1) + 1)


CASES: dict[str, Callable[[torch.Tensor], object]] = {
    "magnitudes": lambda x: torch.fft.rfft(x).abs(),
    "transform of several axes": lambda x: torch.view_as_real(torch.fft.fftn(x, dim=(1, 2))),
    "transform and back": lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * 2, norm="ortho"),
    "odd length": lambda x: torch.fft.irfft(torch.fft.rfft(x, n=5), n=5),
    "inverse": lambda x: torch.view_as_real(torch.fft.ifft(parts(x), dim=1)),
    "all of it": lambda x: torch.view_as_real(torch.fft.fft(x)),
    "spectrogram": lambda x: torch.stft(x.reshape(1, 24), 8, 4, window=WINDOW, return_complex=True).abs(),
    "spectrogram and back": lambda x: torch.istft(
        torch.stft(x.reshape(1, 24), 8, 4, window=WINDOW, return_complex=True), 8, 4, window=WINDOW
    ),
    "arithmetic": lambda x: torch.view_as_real((parts(x) + x) * parts(x) - 2 / (parts(x) + 1j)),
    "by real numbers": lambda x: torch.view_as_real(parts(x) / (x.abs() + 1) * 0.5),
    "by integers": lambda x: torch.view_as_real(parts(x) / WHOLE * WHOLE + WHOLE / (parts(x) + 3)),
    "by wider numbers": lambda x: torch.view_as_real(parts(x.float()) / (x.abs() + 1)),
    "conjugate": lambda x: (parts(x).conj().imag, parts(x).real),
    "angles": lambda x: (torch.exp(1j * x).angle(), torch.polar(x.abs(), x).imag),
    "reciprocal": lambda x: torch.view_as_real(torch.reciprocal(parts(x) + 3)),
    "matrices": lambda x: torch.view_as_real(parts(x) @ parts(x).transpose(1, 2)),
    "joined": lambda x: torch.view_as_real(torch.cat([parts(x), torch.zeros_like(parts(x)), parts(x)[:1]])),
    "chosen": lambda x: torch.view_as_real(torch.where(x > 0, parts(x), x)),
    "padded": lambda x: torch.view_as_real(torch.nn.functional.pad(parts(x), (1, 2))),
    "filled": lambda x: torch.view_as_real(torch.full((2,), 2 - 1j, dtype=torch.complex128)) + x[0, 0, 0],
    "split": lambda x: [torch.view_as_real(one) for one in parts(x).split(2, dim=-1)],
    "equal": lambda x: (parts(x) == parts(x), parts(x) != x),
    "equal to others": lambda x: (parts(x * 0 + 2) == 2, parts(x * 0) == WHOLE, parts(x) != x.float(), parts(x) == 2j),
    "cast": lambda x: torch.view_as_real(x.to(torch.complex64).to(torch.complex128)),
    "sums": lambda x: torch.view_as_real(parts(x).sum(1).mean(-1)),
}


def compare(module: torch.nn.Module) -> None:
    graph = af.from_torch(module.eval(), X)
    found = af.reference(graph, {"x": X.numpy()}).values()
    with torch.no_grad():
        wanted = cast("list[torch.Tensor]", pytree.tree_leaves(module(X)))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other.resolve_neg().numpy(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_complex_numbers_within_a_program(name: str) -> None:
    compare(Calling(CASES[name]))


def test_a_buffer_may_be_complex() -> None:
    compare(Turning())


@pytest.mark.parametrize(
    ("function", "message", "workaround"),
    [
        (parts, "a graph cannot return complex numbers", "end the program with torch.view_as_real"),
        (
            lambda x: torch.tanh(parts(x)).real,
            "it has no form for complex numbers",
            "compute with real and imaginary parts as two tensors",
        ),
    ],
)
def test_what_complex_numbers_cannot_do_is_told(function: Callable[..., object], message: str, workaround: str) -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        af.from_torch(Calling(function), X)
    assert {one.reason for one in caught.value.findings} == {Reason.DTYPE}
    assert any(one.message.startswith(message) and one.workaround == workaround for one in caught.value.findings)


def test_an_input_of_complex_numbers_is_told() -> None:
    with pytest.raises(UnsupportedModelError, match="pass real and imaginary parts as two tensors"):
        af.from_torch(Calling(torch.abs), parts(X))
