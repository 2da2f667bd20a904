"""Independent implementations of control flow and lists: Python's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.ops.body import Reference
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from aneforge.ops.body import Body
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


def ran(op: str, x: Array, y: Array | None = None) -> Array:
    """Return what an operation of a drawn body gives."""
    if y is None:
        return x * (x > 0) if op == "relu" else 1 - 2 / (np.exp(2 * x) + 1)
    match op:
        case "linear":
            return np.einsum("...i,oi->...o", x, y)
        case "maximum" | "minimum":
            return np.where((x > y) == (op == "maximum"), x, y)
        case "mul":
            return x * y
        case _:
            return x + y if op == "add" else x - y


def scan(
    states: tuple[Array, ...],
    rows: tuple[Array, ...],
    fixed: tuple[Array, ...],
    *,
    body: Body,
    axes: tuple[int, ...],
    backward: tuple[bool, ...],
    backward_outputs: tuple[bool, ...],
) -> tuple[Array, ...]:
    count = rows[0].shape[axes[0]]
    given: list[list[Array]] = [[] for _ in body.results[len(states) :]]
    for turn in range(count):
        seen = {f"state{place}": one for place, one in enumerate(states)}
        seen |= {f"fixed{place}": one for place, one in enumerate(fixed)}
        for place, (row, axis, back) in enumerate(zip(rows, axes, backward, strict=True)):
            index: list[int | slice] = [slice(None)] * row.ndim
            index[axis] = -1 - turn if back else turn
            seen[f"row{place}"] = row[tuple(index)]
        made: list[Array] = []
        for call in body.calls:
            read = [
                seen[one] if isinstance(one, str) else made[one.call] if isinstance(one, Reference) else one.dense()
                for one in call.sources()
            ]
            made.append(ran(call.op.name, *(array.astype(np.float64) for array in read)))
        results = [made[one.call] for one in body.results if isinstance(one, Reference)]
        states = tuple(results[: len(states)])
        for column, one, back in zip(given, results[len(states) :], backward_outputs, strict=True):
            column.insert(0 if back else turn, one)
    return (*states, *map(np.array, given))


ORACLES: dict[str, Oracle] = {
    "cond": cond,
    "scan": scan,
    "make_list": make_list,
    "list_length": list_length,
    "list_read": list_read,
    "list_write": list_write,
    "list_gather": list_gather,
    "list_scatter": list_scatter,
}
