"""Independent implementations of functions of one element: torch."""

import torch

from oracle_tools import Array, Oracle, array, tensor, torch_unary


def log(x: Array, *, epsilon: float) -> Array:
    return array(torch.log(tensor(x) + epsilon))


ORACLES: dict[str, Oracle] = {
    "erf": torch_unary(torch.erf),
    "exp": torch_unary(torch.exp),
    "exp2": torch_unary(torch.exp2),
    "log": log,
    "log2": torch_unary(torch.log2),
    "sign": torch_unary(torch.sign),
    "ceil": torch_unary(torch.ceil),
    "floor": torch_unary(torch.floor),
    "round": torch_unary(torch.round),
}
