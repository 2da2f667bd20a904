"""Independent implementations of changes of shape: torch, and plain lists."""

import torch

from oracle_tools import Array, Oracle, array, tensor


def reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    known = list(shape)
    for back in range(1, len(shape) + 1):
        if shape[-back] == 0:
            known[-back] = x.shape[-back] if back <= x.ndim else 1
    return array(torch.reshape(tensor(x), known))


def reshape_like(
    x: Array,
    ref_tensors: tuple[Array, ...],
    *,
    begins: tuple[int, ...],
    ends: tuple[int, ...],
    end_masks: tuple[bool, ...],
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
    "shape": shape,
}
