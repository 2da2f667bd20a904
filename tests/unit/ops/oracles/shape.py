"""Independent implementations of shape changes, joining and making: torch, and plain lists."""

import math

import numpy as np
import torch

from oracle_tools import Array, Oracle, array, tensor

TORCH_TYPES = {"fp16": torch.float64, "fp32": torch.float64, "int32": torch.int32, "uint8": torch.uint8}


def torch_type(dtype: str) -> torch.dtype:
    return torch.bool if dtype == "bool" else TORCH_TYPES[dtype]


def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    known = [x.shape[place] if extent == 0 else extent for place, extent in enumerate(shape)]
    return array(torch.reshape(tensor(x), known))


def reshape_like(
    x: Array,
    ref_tensors: tuple[Array, ...],
    *,
    begins: tuple[int, ...],
    ends: tuple[int, ...],
    end_masks: tuple[int, ...],
) -> Array:
    wished: list[int] = []
    for ref, begin, end, mask in zip(ref_tensors, begins, ends, end_masks, strict=True):
        first = begin if begin >= 0 else begin + ref.ndim
        last = ref.ndim if mask else end if end >= 0 else end + ref.ndim
        wished.extend(ref.shape[place] for place in range(first, last))
    return array(tensor(x).view(wished))


def flatten2d(x: Array, *, axis: int) -> Array:
    cut = axis if axis >= 0 else axis + x.ndim
    rows = 1
    for extent in x.shape[:cut]:
        rows *= extent
    return array(tensor(x).reshape(rows, x.size // rows))


def flatten(x: Array) -> Array:
    return array(torch.flatten(tensor(x)))


def expand_dims(x: Array, *, axes: tuple[int, ...]) -> Array:
    result = tensor(x)
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        result = torch.unsqueeze(result, axis)
    return array(result)


def squeeze(x: Array, *, axes: tuple[int, ...] | None) -> Array:
    return array(torch.squeeze(tensor(x)) if axes is None else torch.squeeze(tensor(x), axes))


def transpose(x: Array, *, perm: tuple[int, ...]) -> Array:
    return array(torch.permute(tensor(x), perm))


def identity(x: Array) -> Array:
    return array(tensor(x).clone())


def tile(x: Array, *, reps: tuple[int, ...]) -> Array:
    return array(tensor(x).repeat(reps))


def concat(values: tuple[Array, ...], *, axis: int, interleave: bool) -> Array:
    parts = [tensor(value) for value in values]
    if interleave:
        parts = [part.narrow(axis, place, 1) for place in range(values[0].shape[axis]) for part in parts]
    return array(torch.cat(parts, axis))


def stack(values: tuple[Array, ...], *, axis: int) -> Array:
    return array(torch.stack([tensor(value) for value in values], axis))


def split(x: Array, *, num_splits: int | None, split_sizes: tuple[int, ...] | None, axis: int) -> tuple[Array, ...]:
    if split_sizes is not None:
        return tuple(array(part) for part in torch.tensor_split(tensor(x), list(np.cumsum(split_sizes))[:-1], axis))
    assert num_splits is not None
    return tuple(array(part) for part in torch.chunk(tensor(x), num_splits, axis))


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


def shape(x: Array) -> Array:
    return array(torch.tensor(list(tensor(x).size()), dtype=torch.int32))


ORACLES: dict[str, Oracle] = {
    "reshape": reshape,
    "reshape_like": reshape_like,
    "flatten2d": flatten2d,
    "flatten": flatten,
    "expand_dims": expand_dims,
    "squeeze": squeeze,
    "transpose": transpose,
    "identity": identity,
    "tile": tile,
    "concat": concat,
    "stack": stack,
    "split": split,
    "fill": fill,
    "fill_like": fill_like,
    "range_1d": range_1d,
    "shape": shape,
}
