"""Independent implementations of gather and scatter: element by element, in plain loops over the result or updates."""

import itertools
from collections.abc import Callable

import numpy as np
import torch

from oracle_tools import Array, Oracle, array, tensor

Place = tuple[int, ...]


def every_place(shape: tuple[int, ...]) -> list[Place]:
    return list(itertools.product(*(range(extent) for extent in shape)))


def read(x: Array, shape: tuple[int, ...], source: Callable[[Place], Place]) -> Array:
    """Read every element of the result from its source; Python counts negative places from the end."""
    flat = [x[source(place)] for place in every_place(shape)]
    return np.array(flat, x.dtype).reshape(shape)


def gather(x: Array, indices: Array, *, axis: int, batch_dims: int, **_: object) -> Array:
    along = axis if axis >= 0 else axis + x.ndim
    free = indices.ndim - batch_dims

    def source(place: Place) -> Place:
        index = int(indices[place[:batch_dims] + place[along : along + free]])
        return (*place[:along], index, *place[along + free :])

    return read(x, (*x.shape[:along], *indices.shape[batch_dims:], *x.shape[along + 1 :]), source)


def along_axis(indices: Array, axis: int) -> Callable[[Place], Place]:
    """Return where an element comes from or goes to: its own place, but for one axis."""

    def other(place: Place) -> Place:
        moved = list(place)
        moved[axis] = int(indices[place])
        return tuple(moved)

    return other


def gather_along_axis(x: Array, indices: Array, *, axis: int, **_: object) -> Array:
    return read(x, indices.shape, along_axis(indices, axis))


def gather_nd(x: Array, indices: Array, *, batch_dims: int, **_: object) -> Array:
    lead = indices.ndim - 1

    def source(place: Place) -> Place:
        named = [int(index) for index in indices[place[:lead]]]
        return (*place[:batch_dims], *named, *place[lead:])

    return read(x, indices.shape[:-1] + x.shape[batch_dims + indices.shape[-1] :], source)


def gather_hw(x: Array, indices: Array) -> Array:
    def source(place: Place) -> Place:
        row, column = indices[place[-1]].tolist()
        return (*place[:-1], row, column)

    return read(x, (*x.shape[:-2], indices.shape[0]), source)


def truncated(old: float, new: float) -> float:
    if isinstance(old, float):
        return old / new
    return int(old / new) if new else 0


def newest(_: float, new: float) -> float:
    return new


COMBINE: dict[str, Callable[[float, float], float]] = {
    "add": lambda old, new: old + new,
    "sub": lambda old, new: old - new,
    "mul": lambda old, new: old * new,
    "div": truncated,
    "max": max,
    "min": min,
    "update": newest,
}


def write(data: Array, updates: Array, target: Callable[[Place], Place], mode: str) -> Array:
    """Write every update in order; integers wrap around."""
    result = data.copy()
    for place in every_place(updates.shape):
        number = COMBINE[mode](result[target(place)].item(), updates[place].item())
        result[target(place)] = number if isinstance(number, float) else np.array(number).astype(data.dtype)
    return result


def scatter(data: Array, indices: Array, updates: Array, *, axis: int, mode: str, **_: object) -> Array:
    along = axis if axis >= 0 else axis + data.ndim

    def target(place: Place) -> Place:
        index = int(indices[place[along : along + indices.ndim]])
        return (*place[:along], index, *place[along + indices.ndim :])

    return write(data, updates, target, mode)


def scatter_along_axis(data: Array, indices: Array, updates: Array, *, axis: int, mode: str, **_: object) -> Array:
    return write(data, updates, along_axis(indices, axis), mode)


def scatter_nd(data: Array, indices: Array, updates: Array, *, mode: str, **_: object) -> Array:
    lead = indices.ndim - 1

    def target(place: Place) -> Place:
        return (*(int(index) for index in indices[place[:lead]]), *place[lead:])

    return write(data, updates, target, mode)


def one_hot(
    indices: Array, *, one_hot_vector_size: int, axis: int, on_value: float, off_value: float, dtype: str
) -> Array:
    whole = torch.tensor(indices.astype(np.int64))
    marks = torch.nn.functional.one_hot(whole, one_hot_vector_size).movedim(-1, axis)
    values = marks * on_value + (1 - marks) * off_value
    kinds = {"int32": torch.int32, "int8": torch.int8, "bool": torch.bool, "fp16": torch.float64}
    return array(values.to(kinds[dtype]))


def non_zero(x: Array) -> Array:
    return array(torch.nonzero(tensor(x)).to(torch.int32))


ORACLES: dict[str, Oracle] = {
    "non_zero": non_zero,
    "gather": gather,
    "gather_along_axis": gather_along_axis,
    "gather_nd": gather_nd,
    "gather_hw": gather_hw,
    "scatter": scatter,
    "scatter_along_axis": scatter_along_axis,
    "scatter_nd": scatter_nd,
    "one_hot": one_hot,
}
