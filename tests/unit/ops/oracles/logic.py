"""Independent implementations of comparisons, logic and choice: torch."""

import torch

from oracle_tools import Array, Oracle, array, tensor, torch_binary, torch_unary


def select(cond: Array, a: Array, b: Array) -> Array:
    return array(torch.where(tensor(cond), tensor(a), tensor(b)))


ORACLES: dict[str, Oracle] = {
    "equal": torch_binary(torch.eq),
    "not_equal": torch_binary(torch.ne),
    "greater": torch_binary(torch.gt),
    "greater_equal": torch_binary(torch.ge),
    "less": torch_binary(torch.lt),
    "less_equal": torch_binary(torch.le),
    "logical_not": torch_unary(torch.logical_not),
    "logical_and": torch_binary(torch.logical_and),
    "logical_or": torch_binary(torch.logical_or),
    "logical_xor": torch_binary(torch.logical_xor),
    "select": select,
}
