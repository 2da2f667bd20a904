"""Chains of tasks that are one operation: softmax, layer norm and exp, recognised by the elements that they read.

Each link must read exactly the elements of its row: the sum those that are divided by it, the mean those that it is
taken from. A chain that differs anywhere is not the operation, and its links are refused one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.formats.hwx.interpreter.activation_tables import ActivationTable
from aneforge.formats.hwx.interpreter.steps import Bound, ChannelMaximum, Copy, Elements, PairReduction, Reduction, Sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aneforge.formats.hwx.interpreter.element_names import MadeValue, ValueTable
    from aneforge.formats.hwx.interpreter.steps import Activation, Work
    from aneforge.graph.tensor import Tensor

    Names = NDArray[np.int64]

__all__ = ["exponential_of", "is_power_of_two", "layer_norm_of", "rows_of_planes", "softmax_of"]

DEPTH, WIDTH = 2, 4
AXES = (WIDTH, 3, 1)
"""Axes along which a softmax may be: width, rows, channels."""
LOG2_E = float(np.float16(np.log2(np.e)))
"""By which exponents are multiplied before the table of powers of two."""


def softmax_of(values: ValueTable, sources: tuple[Names, ...], where: str) -> Tensor | None:
    """Return the softmax that a product of powers and reciprocals of their sums is; None for other products."""
    for reciprocals, powers in (sources, sources[::-1]):
        axis = next((axis for axis in AXES if reciprocals.shape[axis] == 1 < powers.shape[axis]), WIDTH)
        if powers.shape[DEPTH] != 1:
            continue
        exponents = exponents_of(values, np.moveaxis(reciprocals, axis, -1), np.moveaxis(powers, axis, -1), axis)
        x = None if exponents is None else find_centred(values, exponents)
        if x is not None:
            tensor = values.tensor(np.moveaxis(x, -1, axis)[:, :, 0], where)
            return values.apply("softmax", {"x": tensor}, {"axis": axis if axis < DEPTH else axis - 1})
    return None


def exponents_of(values: ValueTable, reciprocals: Names, powers: Names, axis: int) -> Names | None:
    """Return the exponents of powers of two, if reciprocals are those of the sums of their rows, which are last."""
    sums, found = values.find(reciprocals), values.find(powers)
    if sums is None or found is None or reciprocals.shape != (*powers.shape[:-1], 1):
        return None
    if (
        not is_power_of_two(found[0].work)
        or not adds_up(sums[0], along_width=axis == WIDTH)
        or not same_rows(sums, powers)
    ):
        return None
    return elements_of(found, 0)


def adds_up(value: MadeValue, *, along_width: bool) -> bool:
    """Return whether a value is reciprocals of sums: the planar engine's along the width, products with 1 otherwise.

    So softmax is computed by tasks of programs; another way to add rounds otherwise, and is another operation.
    """
    work = value.work
    if along_width:
        return work == Reduction("sum", order_of(value), 1.0, 0.0, "reciprocal")
    return isinstance(work, Sum) and work.start == 0 and work.from_accumulator and is_table(work.activation, "inverse")


def is_power_of_two(work: Work | None) -> bool:
    """Return whether work is the table of powers of two, of what it reads as it is."""
    return isinstance(work, Copy) and work.scale == 1 and is_table(work.activation, "exp2")


def is_table(activation: Activation, op: str) -> bool:
    """Return whether an activation is the table of an operation."""
    named = activation.operation if isinstance(activation, ActivationTable) else None
    return named is not None and named.op == op


def exponential_of(values: ValueTable, exponents: Names) -> Names | None:
    """Return x, if exponents of powers of two are x · log2 e, rounded: the powers are those of e."""
    found = values.find(exponents)
    scaled = Elements("add", (False, False), False, LOG2_E, 0.0, 0.0, "none", False)  # noqa: FBT003 - as below
    return elements_of(found, 0) if found is not None and found[0].work == scaled else None


def find_centred(values: ValueTable, exponents: Names) -> Names | None:
    """Return x, if exponents are (x - the largest of its row) · log2 e; rows are last."""
    found = values.find(exponents)
    if found is None:
        return None
    wanted = Elements("add", (False, True), False, LOG2_E, 0.0, 0.0, "none", False)  # noqa: FBT003 - fields of registers
    if found[0].work != wanted:
        return None
    x, largest = elements_of(found, 0), elements_of(found, 1)
    most = values.find(largest[..., :1])
    if most is None or (largest != largest[..., :1]).any():
        return None
    work = most[0].work
    is_largest = work == Reduction("max", order_of(most[0]), 1.0, 0.0, "none") or (
        isinstance(work, ChannelMaximum) and work.activation is Bound.NONE
    )
    return x if is_largest and same_rows(most, x) else None


def layer_norm_of(values: ValueTable, sources: tuple[Names, ...], where: str) -> Tensor | None:
    """Return the layer norm that statistics of rows, used on these rows, are; None for other statistics."""
    x, statistics = sources
    means, roots = values.find(statistics[:, :, :, :1]), values.find(statistics[:, :, :, 1:])
    if means is None or roots is None or x.shape[:2] != statistics.shape[:2]:
        return None
    rows = x.reshape(*x.shape[:2], 1, 1, -1)
    count = float(np.float32(1.0) / np.float32(rows.shape[-1]))
    work = roots[0].work
    if not isinstance(work, PairReduction) or means[0].work != Reduction("sum", order_of(means[0]), count, 0.0, "none"):
        return None
    wanted = PairReduction("square of sum", (True, False), work.order, count, work.epsilon, "rsqrt")
    if work != wanted or not same_rows(means, rows) or not same_rows(roots, rows, source=1):
        return None
    centres = rows_of(roots[0], source=0)[roots[1]]
    if (centres != statistics[:, :, :, :1][..., None]).any():
        return None
    tensor, axes = rows_of_planes(values, x, where)
    return values.apply("layer_norm", {"x": tensor}, {"axes": axes, "epsilon": work.epsilon})


def rows_of_planes(values: ValueTable, names: Names, where: str) -> tuple[Tensor, tuple[int, ...]]:
    """Return a tensor and its axes that are the plane of every channel: the last, and those before that are long.

    Raises:
        HwxError: No operation of a graph makes the tensor.
    """
    shaped = names[:, :, 0] if names.shape[2] == 1 else names
    last = shaped.ndim - 1
    axes = tuple(axis for axis in range(2, last) if shaped.shape[axis] > 1)
    return values.tensor(shaped, where), (*axes, last)


def order_of(value: MadeValue) -> tuple[int, ...]:
    """Return the order in which a reduction adds; any other value has none."""
    return value.work.order if isinstance(value.work, Reduction | PairReduction) else ()


def rows_of(value: MadeValue, source: int) -> Names:
    """Return the names that each result of a reduction read, by the number of the result."""
    if isinstance(value.work, Sum | ChannelMaximum):
        groups, channels, *plane = value.sources[0].shape
        parts = value.sources[0].reshape(groups, channels // value.work.channels, value.work.channels, *plane)
        return np.moveaxis(parts, 2, -1).reshape(-1, value.work.channels)
    shape = np.broadcast_shapes(*(one.shape for one in value.sources))
    names = np.broadcast_to(value.sources[source], shape).transpose(0, 1, *order_of(value))
    return names.reshape(shape[0] * shape[1], -1)


def same_rows(found: tuple[MadeValue, Names], rows: Names, source: int = 0) -> bool:
    """Return whether results of a reduction, of which some are given, are each of its own row."""
    value, elements = found
    if isinstance(value.work, Sum) and (value.work.window.height, value.work.window.width) != (1, 1):
        return False
    read = rows_of(value, source)[elements[..., 0]]
    return read.shape == rows.shape and np.array_equal(read, rows)


def elements_of(found: tuple[MadeValue, Names], source: int) -> Names:
    """Return what some results of work on elements read."""
    value, elements = found
    shape = np.broadcast_shapes(*(one.shape for one in value.sources))
    return np.broadcast_to(value.sources[source], shape).ravel()[elements]
