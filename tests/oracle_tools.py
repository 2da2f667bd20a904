"""Between NumPy and torch, typed: what the independent implementations share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch

Array: TypeAlias = npt.NDArray[Any]
Oracle: TypeAlias = Callable[..., Array | tuple[Array, ...]]
"""A function of an operation's operands, in their order, and its attributes, by name."""


def tensor(values: Array) -> torch.Tensor:
    """Return an array as a torch tensor of the same element type."""
    return cast("Callable[[Array], torch.Tensor]", getattr(torch, "from_numpy"))(np.array(values))  # noqa: B009 - torch types it as unknown


def array(values: torch.Tensor) -> Array:
    """Return a torch tensor as an array."""
    return values.detach().numpy()


def torch_unary(function: Callable[[torch.Tensor], torch.Tensor]) -> Oracle:
    """Return the oracle of a function of one tensor."""

    def oracle(x: Array) -> Array:
        return array(function(tensor(x)))

    return oracle


def torch_binary(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Oracle:
    """Return the oracle of a function of two tensors."""

    def oracle(x: Array, y: Array) -> Array:
        return array(function(tensor(x), tensor(y)))

    return oracle
