"""Independent implementations of control flow and lists: Python's own."""

import numpy as np

from aneforge.ops.types import numpy_dtype
from oracle_tools import Array, Oracle


def cond(pred: Array, true_values: tuple[Array, ...], false_values: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(
        np.array([one if pred.item() else other for one, other in zip(yes.ravel(), no.ravel(), strict=True)]).reshape(
            yes.shape
        )
        for yes, no in zip(true_values, false_values, strict=True)
    )


def make_list(*, init_length: int, elem_shape: tuple[int, ...], dtype: str, dynamic_length: bool) -> Array:
    del dynamic_length
    return np.array([np.full(elem_shape, 0, numpy_dtype(dtype))] * init_length).reshape(init_length, *elem_shape)


def list_length(ls: Array) -> Array:
    return np.array(sum(1 for _ in ls))


def list_read(ls: Array, index: Array) -> Array:
    return next(element for place, element in enumerate(ls) if place == index.item())


def list_write(ls: Array, index: Array, value: Array) -> Array:
    return np.array([value if place == index.item() else element for place, element in enumerate(ls)])


def list_gather(ls: Array, indices: Array) -> Array:
    elements = list(ls)
    return np.array([elements[place] for place in indices]).reshape(len(indices), *ls.shape[1:])


def list_scatter(ls: Array, indices: Array, value: Array) -> Array:
    elements = list(ls)
    for place, element in zip(indices, value, strict=True):
        elements[place] = element
    return np.array(elements)


ORACLES: dict[str, Oracle] = {
    "cond": cond,
    "make_list": make_list,
    "list_length": list_length,
    "list_read": list_read,
    "list_write": list_write,
    "list_gather": list_gather,
    "list_scatter": list_scatter,
}
