"""Independent implementations of tensors made out of numbers: torch."""

import math

import torch

from oracle_tools import Array, Oracle, array, tensor

TORCH_TYPES = {"fp16": torch.float64, "fp32": torch.float64, "int32": torch.int32, "uint8": torch.uint8}


def torch_type(dtype: str) -> torch.dtype:
    return torch.bool if dtype == "bool" else TORCH_TYPES[dtype]


def fill(*, shape: tuple[int, ...], value: float, dtype: str) -> Array:
    return array(torch.full(shape, value, dtype=torch_type(dtype)))


def fill_like(ref_tensor: Array, *, value: float, dtype: str | None) -> Array:
    ref = tensor(ref_tensor)
    return array(torch.full_like(ref, value, dtype=torch_type(dtype) if dtype else ref.dtype))


def range_1d(*, start: float, end: float, step: float, dtype: str) -> Array:
    numbers: list[float] = []
    while math.copysign(1, step) * (end - (start + len(numbers) * step)) > 0:
        numbers.append(start + len(numbers) * step)
    return array(torch.tensor(numbers, dtype=torch_type(dtype)))


ORACLES: dict[str, Oracle] = {
    "fill": fill,
    "fill_like": fill_like,
    "range_1d": range_1d,
}
