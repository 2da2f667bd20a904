"""Independent implementations of joining, parting and repeating: torch."""

import numpy as np
import torch

from oracle_tools import Array, Oracle, array, tensor


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


def tile(x: Array, *, reps: tuple[int, ...]) -> Array:
    return array(tensor(x).repeat(reps))


ORACLES: dict[str, Oracle] = {
    "concat": concat,
    "stack": stack,
    "split": split,
    "tile": tile,
}
