"""Functions of plain numbers that a program may call: arithmetic on the lengths of axes.

A file names functions; only those that are listed here are ever called.
"""

from __future__ import annotations

import math
import operator
from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aneforge.formats.torch.torch_values import Held

__all__ = ["MATH_NAMES", "OPERATOR_NAMES", "SYMBOLIC_NAMES", "number_function"]

OPERATOR_NAMES = (
    "add", "and_", "eq", "floordiv", "ge", "getitem", "gt", "le", "lshift", "lt", "mod", "mul", "ne", "neg", "not_",
    "or_", "pos", "pow", "rshift", "sub", "truediv", "xor",
)  # fmt: skip
"""Functions of Python's operator module."""
SYMBOLIC_NAMES = ("sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sum")
"""Functions of PyTorch's on lengths."""
MATH_NAMES = ("ceil", "floor", "trunc", "sqrt")
"""Functions of Python's math module."""


def number_function(target: object) -> Callable[..., Held] | None:
    """Return a function of plain numbers that may be called, or nothing.

    >>> number_function(operator.mul)(3, 4)
    12
    """
    try:
        return functions().get(target)
    except TypeError:  # what cannot be hashed is not a function of the table
        return None


@cache
def functions() -> Mapping[object, Callable[..., Held]]:
    """Return the functions by themselves."""
    listed = [
        *(getattr(operator, name) for name in OPERATOR_NAMES),
        *(getattr(math, name) for name in MATH_NAMES),
        *(getattr(torch, name) for name in SYMBOLIC_NAMES if hasattr(torch, name)),
        round,
    ]
    return {function: function for function in listed}
