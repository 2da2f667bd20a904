"""Independent implementations of circular and hyperbolic functions: torch."""

import torch

from oracle_tools import Oracle, torch_unary

ORACLES: dict[str, Oracle] = {
    "sin": torch_unary(torch.sin),
    "cos": torch_unary(torch.cos),
    "tan": torch_unary(torch.tan),
    "asin": torch_unary(torch.asin),
    "acos": torch_unary(torch.acos),
    "atan": torch_unary(torch.atan),
    "sinh": torch_unary(torch.sinh),
    "cosh": torch_unary(torch.cosh),
    "asinh": torch_unary(torch.asinh),
    "acosh": torch_unary(torch.acosh),
    "atanh": torch_unary(torch.atanh),
}
