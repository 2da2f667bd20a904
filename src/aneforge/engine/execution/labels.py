"""How sure a layer's results are, told without computing them twice.

Whether a sum can pass the edge of the accumulator is bounded from above by the largest operand and the sums of the
weights' magnitudes; what is not proven to stay below the edge is labelled as if it could pass it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.dispatch import SPECIAL_VALUES
from aneforge.engine.exactness import Exactness, Label, worst
from aneforge.engine.golden import EDGE
from aneforge.engine.products import ORDER_OF_SUMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.compiler.ir.calls import Call
    from aneforge.engine.dispatch import Arithmetic

    Array = npt.NDArray[Any]

__all__ = ["label_of_product"]

WINOGRAD_GROWTH = 4.0
"""A transformed column of data is at most twice, and the four of weights together twice, what they are made of."""


def label_of_product(
    found: Arithmetic, operands: Mapping[str, Array], call: Call, start: Array | None, *, winograd: bool
) -> Label:
    """Return the label of a product: that of its operation and shapes, and whether its sums can pass the edge."""
    x, weight = operands["x"], operands["weight" if "weight" in operands else "y"]
    doubts: list[Label] = []
    if not (np.isfinite(x).all() and np.isfinite(weight).all()):
        doubts.append(Label(Exactness.MODELLED, SPECIAL_VALUES))
    elif reach(x, weight, call, start) * (WINOGRAD_GROWTH if winograd else 1.0) >= EDGE:
        doubts.append(Label(Exactness.MODELLED, ORDER_OF_SUMS))
    return worst([found.label_of(dict(operands), call.attributes, values=False), *doubts])


def reach(x: Array, weight: Array, call: Call, start: Array | None) -> float:
    """Return a bound of what any partial sum can reach."""
    if not x.size or not weight.size:
        return 0.0
    magnitudes = np.abs(weight.astype(np.float32))
    match call.op:
        case "conv" | "linear":
            most = magnitudes.reshape(weight.shape[0], -1).sum(axis=1, dtype=np.float64).max()
        case "conv_transpose":
            most = magnitudes.sum(axis=(0, *range(2, weight.ndim)), dtype=np.float64).max()
        case _:
            inner = -1 if weight.ndim == 1 or call.attributes["transpose_y"] else -2
            most = magnitudes.sum(axis=inner, dtype=np.float64).max()
    begun = 0.0 if start is None else float(np.abs(start).max(initial=0.0))
    # Every product is rounded to the grid, by half of it at most.
    return float(np.abs(x.astype(np.float32)).max()) * float(most) + begun + rounding(weight)


def rounding(weight: Array) -> float:
    """Return how much rounding every product to the grid can add to a sum of all of a weight's products."""
    return weight.size * 2.0**-17
