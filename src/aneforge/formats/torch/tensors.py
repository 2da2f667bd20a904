"""Tensors that a program carries, as constants: its parameters, buffers and lifted numbers.

NumPy looks into PyTorch's memory without a copy. The caller says whether one is made: a tensor that somebody
else holds may still change, and a constant never does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import torch

from aneforge.formats.shared.findings import Reason, UnsupportedNodeError
from aneforge.formats.torch.dtypes import COMPLEX_TYPES, element_type
from aneforge.formats.torch.torch_values import Complex
from aneforge.ops.constant import Dense

if TYPE_CHECKING:
    from aneforge.ops.types import Array

__all__ = ["array_of", "constant_of", "stored_of"]

VIEWS = {
    "torch.bfloat16": (torch.int16, ml_dtypes.bfloat16),
    "torch.float8_e4m3fn": (torch.int8, ml_dtypes.float8_e4m3fn),
    "torch.float8_e5m2": (torch.int8, ml_dtypes.float8_e5m2),
}
"""Element types that NumPy does not take from PyTorch: integers of their width, and what stands for them."""


def constant_of(tensor: torch.Tensor, *, copied: bool) -> Dense:
    """Return a tensor as a constant, in its own memory or in a copy.

    Raises:
        UnsupportedNodeError: Its element type, layout or device has no meaning here.
    """
    array = array_of(tensor)
    if copied:
        return Dense.owning(array.copy())
    view = array.view()
    view.flags.writeable = False
    return Dense(view)


def stored_of(tensor: torch.Tensor, *, copied: bool) -> Dense | Complex:
    """Return a tensor as a constant, or as two where its numbers are complex.

    Raises:
        UnsupportedNodeError: Its element type, layout or device has no meaning here.
    """
    if str(tensor.dtype) not in COMPLEX_TYPES:
        return constant_of(tensor, copied=copied)
    plain = tensor.detach().resolve_neg().resolve_conj()
    return Complex(constant_of(plain.real, copied=copied), constant_of(plain.imag, copied=copied))


def array_of(tensor: torch.Tensor) -> Array:
    """Return a look into a tensor's memory.

    Raises:
        UnsupportedNodeError: Its element type, layout or device has no meaning here.
    """
    if tensor.layout is not torch.strided:
        raise UnsupportedNodeError(
            Reason.LAYOUT, f"it is a tensor of layout {tensor.layout}", workaround="make it dense with to_dense()"
        )
    if tensor.device.type != "cpu":
        raise UnsupportedNodeError(
            Reason.LAYOUT, f"it is on device {tensor.device}, without numbers to read", workaround="move it to the CPU"
        )
    element_type(tensor.dtype)
    plain = tensor.detach().resolve_neg().resolve_conj()
    if str(tensor.dtype) in VIEWS:
        whole, kind = VIEWS[str(tensor.dtype)]
        return plain.view(whole).numpy().view(kind)
    return plain.numpy()
