"""The gains that follow a product in its own slot: together with them the inverse factor must stay a normal number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.ops.constant import Constant

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node

    Array = npt.NDArray[Any]

__all__ = ["gains_behind"]

NUMBERS = {"muls": "k", "linear_activation": "alpha"}
"""The attribute that is a factor."""


def gains_behind(node: Node, graph: Graph) -> float:
    """Return the smallest gain that follows a product in the same slot; 1 at most.

    >>> import aneforge as af
    >>> x = af.input((2, 2))
    >>> graph = af.Graph({"y": ((x @ x) * 0.25 + 1.0).relu() * 0.125})
    >>> gains_behind(graph.nodes[1], graph)
    0.25
    """
    least, together = 1.0, 1.0
    while len(readers := graph.consumers[node]) == 1:
        (node,) = readers
        gain = gain_of(node)
        if gain is None:
            break
        together *= gain
        least = min(least, together)
    return least


def gain_of(node: Node) -> float | None:
    """Return the smallest factor of an operation that only multiplies and adds constants; None for any other."""
    name = node.op.name
    held = {name: value.dense().astype(np.float64) for name, value in node.values() if isinstance(value, Constant)}
    if name in NUMBERS:
        return smallest(np.array(cast("float", node.attributes[NUMBERS[name]])))
    if name == "batch_norm":
        scale = np.sqrt(held["variance"] + cast("float", node.attributes["epsilon"]))
        return smallest(held.get("gamma", np.ones(1)) / scale)
    if name == "mul" and held:
        return smallest(next(iter(held.values())))
    adds = name == "adds" or (name in {"add", "sub"} and bool(held))
    return 1.0 if adds else None


def smallest(gains: Array) -> float:
    """Return the smallest magnitude of gains that are not zero; 1 at most."""
    magnitudes = np.abs(gains.astype(np.float64))
    return float(magnitudes[magnitudes > 0].min(initial=1.0))
