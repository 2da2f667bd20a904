"""Norms with statistics or windows of their own."""

from __future__ import annotations

from aneforge.graph.builder.arguments import expect_image, expect_tensor
from aneforge.graph.methods.base import build_checked, weight
from aneforge.graph.methods.method_arguments import number, whole
from aneforge.graph.tensor import Tensor

__all__ = ["batch_norm", "instance_norm", "local_response_norm"]


def batch_norm(x: Tensor, gamma: object, beta: object, mean: object, var: object, eps: float = 1e-5) -> Tensor:
    """Normalise every channel with given statistics, then scale and shift it. All parameters are [C].

    >>> import numpy as np
    >>> import aneforge as af
    >>> af.batch_norm(af.input((1, 3, 8, 8)), np.ones(3), np.zeros(3), np.zeros(3), np.ones(3)).shape
    (1, 3, 8, 8)

    Raises:
        GraphError: The rank is below 3, or a parameter does not have one number per channel.
        GraphTypeError: It is not a tensor, or a parameter is not an array of floating-point numbers.
    """
    op = "batch_norm"
    tensor = expect_tensor(x, op)
    parameters = {
        "gamma": weight(gamma, op, "gamma"),
        "beta": weight(beta, op, "beta"),
        "mean": weight(mean, op, "mean"),
        "variance": weight(var, op, "var"),
    }
    return Tensor(build_checked(op, {"x": tensor, **parameters}, epsilon=number(eps, op, "eps")))


def instance_norm(x: Tensor, gamma: object = None, beta: object = None, eps: float = 1e-5) -> Tensor:
    """Normalise every channel of every image [N, C, H, W] by its own mean and variance.

    >>> import aneforge as af
    >>> af.instance_norm(af.input((2, 3, 8, 8))).shape
    (2, 3, 8, 8)

    Raises:
        GraphError: The tensor is not of rank 4.
        GraphTypeError: It is not a tensor, or a parameter is not an array of floating-point numbers.
    """
    op = "instance_norm"
    tensor = expect_image(x, op)
    parameters = {
        name: None if values is None else weight(values, op, name)
        for name, values in (("gamma", gamma), ("beta", beta))
    }
    return Tensor(build_checked(op, {"x": tensor, **parameters}, epsilon=number(eps, op, "eps")))


def local_response_norm(x: Tensor, size: int = 5, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide every element by a power of the sum of squares of its neighbours among the channels.

    >>> import aneforge as af
    >>> af.local_response_norm(af.input((1, 8, 4, 4)), size=3).shape
    (1, 8, 4, 4)

    Raises:
        GraphError: The tensor is not of rank 4.
        GraphTypeError: It is not a tensor.
    """
    op = "local_response_norm"
    node = build_checked(
        op,
        {"x": expect_image(x, op)},
        size=whole(size, op, "size", least=1),
        alpha=number(alpha, op, "alpha"),
        beta=number(beta, op, "beta"),
        k=number(k, op, "k"),
    )
    return Tensor(node)
