"""Independent implementations of arithmetic: torch, and plain loops for integers."""

import numpy as np
import torch

from oracle_tools import Array, Oracle, array, tensor, torch_binary, torch_unary


def by_pairs(x: Array, y: Array, whole: list[int]) -> Array:
    return np.array(whole, x.dtype).reshape(np.broadcast_shapes(x.shape, y.shape))


def pairs(x: Array, y: Array) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in zip(*(side.ravel() for side in np.broadcast_arrays(x, y)), strict=True)]


def truncated(x: Array, y: Array) -> Array:
    if np.issubdtype(x.dtype, np.floating):
        return array(torch.true_divide(tensor(x), tensor(y)))
    return by_pairs(x, y, [int(a / b) if b else 0 for a, b in pairs(x, y)])


def floored(x: Array, y: Array) -> Array:
    if np.issubdtype(x.dtype, np.floating):
        return array(torch.floor(torch.true_divide(tensor(x), tensor(y))))
    return by_pairs(x, y, [a // b if b else 0 for a, b in pairs(x, y)])


def left_over(x: Array, y: Array) -> Array:
    if np.issubdtype(x.dtype, np.floating):
        return array(torch.remainder(tensor(x), tensor(y)))
    return by_pairs(x, y, [a % b if b else 0 for a, b in pairs(x, y)])


def rsqrt(x: Array, *, epsilon: float) -> Array:
    return array(torch.rsqrt(tensor(x) + epsilon))


def inverse(x: Array, *, epsilon: float) -> Array:
    return array(torch.reciprocal(tensor(x) + epsilon))


def muls(x: Array, *, k: float) -> Array:
    return array(torch.mul(tensor(x), k))


def adds(x: Array, *, k: float) -> Array:
    return array(torch.add(tensor(x), k))


ORACLES: dict[str, Oracle] = {
    "abs": torch_unary(torch.abs),
    "square": torch_unary(torch.square),
    "sqrt": torch_unary(torch.sqrt),
    "rsqrt": rsqrt,
    "inverse": inverse,
    "muls": muls,
    "adds": adds,
    "add": torch_binary(torch.add),
    "sub": torch_binary(torch.sub),
    "mul": torch_binary(torch.mul),
    "maximum": torch_binary(torch.maximum),
    "minimum": torch_binary(torch.minimum),
    "real_div": truncated,
    "floor_div": floored,
    "mod": left_over,
    "pow": torch_binary(torch.pow),
}
