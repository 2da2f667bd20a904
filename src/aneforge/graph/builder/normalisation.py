"""Norms with statistics or windows of their own."""

from __future__ import annotations

from aneforge.errors import GraphError
from aneforge.graph.methods.base import build_checked, weight
from aneforge.graph.node import users_location
from aneforge.graph.tensor import Tensor

__all__ = ["batch_norm", "instance_norm", "local_response_norm"]


def batch_norm(x: Tensor, gamma: object, beta: object, mean: object, var: object, eps: float = 1e-5) -> Tensor:
    """Normalise every channel with given statistics, then scale and shift it. All parameters are [C].

    Raises:
        GraphError: The rank is below 3, or a parameter does not have one number per channel.
    """
    named = {"gamma": gamma, "beta": beta, "mean": mean, "variance": var}
    parameters = {name: weight(values, name) for name, values in named.items()}
    return Tensor(build_checked("batch_norm", {"x": x, **parameters}, epsilon=eps))


def instance_norm(x: Tensor, gamma: object = None, beta: object = None, eps: float = 1e-5) -> Tensor:
    """Normalise every channel of every image [N, C, H, W] by its own mean and variance.

    Raises:
        GraphError: The tensor is not of rank 4.
    """
    expect_image(x, "instance_norm")
    parameters = {
        name: None if values is None else weight(values, name) for name, values in (("gamma", gamma), ("beta", beta))
    }
    return Tensor(build_checked("instance_norm", {"x": x, **parameters}, epsilon=eps))


def local_response_norm(x: Tensor, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide every element by a power of the sum of squares of its neighbours among the channels.

    Raises:
        GraphError: The tensor is not of rank 4.
    """
    expect_image(x, "local_response_norm")
    return Tensor(build_checked("local_response_norm", {"x": x}, size=size, alpha=alpha, beta=beta, k=k))


def expect_image(x: Tensor, op: str) -> None:
    """Check that a tensor is a batch of images.

    Raises:
        GraphError: It is not of rank 4.
    """
    if len(x.shape) != 4:
        raise GraphError(
            "the tensor is not an image [N, C, H, W]", operation=op, location=users_location(), seen=list(x.shape)
        )
