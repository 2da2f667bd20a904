"""Functions that the engine has as one table, built from finer ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.node import Argument, Node

__all__ = ["product_of_sigmoid"]


def product_of_sigmoid(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
    """Return x · sigmoid(x) for a silu; None for anything else.

    The table of silu gives −0.0017 at 0 and is off by up to 0.015; the product is off by a part of the result.
    """
    x = operands.get("x")
    if node.op.name != "silu" or not isinstance(x, Tensor):
        return None
    return [x * x.sigmoid()]
