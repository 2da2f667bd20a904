"""Independent implementations of products: torch."""

import torch
from torch.nn import functional

from oracle_tools import Array, Oracle, array, tensor, torch_binary


def matmul(x: Array, y: Array, *, transpose_x: bool, transpose_y: bool) -> Array:
    left, right = tensor(x), tensor(y)
    left = left.mT if transpose_x and x.ndim > 1 else left
    right = right.mT if transpose_y and y.ndim > 1 else right
    return array(torch.matmul(left, right))


def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    return array(functional.linear(tensor(x), tensor(weight), None if bias is None else tensor(bias)))


def einsum(values: tuple[Array, ...], *, equation: str) -> Array:
    whole = values[0].dtype.kind != "f"  # torch adds integers in 64 bits, and then wants no other
    wide = (tensor(value).to(torch.int64) if whole else tensor(value) for value in values)
    return array(torch.einsum(equation, *wide)).astype(values[0].dtype)


ORACLES: dict[str, Oracle] = {
    "matmul": matmul,
    "ne_matmul": matmul,
    "bmm": torch_binary(torch.matmul),
    "bmm_w": torch_binary(torch.bmm),
    "linear": linear,
    "einsum": einsum,
}
