"""Which power of two: as large as the grid asks for, as small as the edges allow.

The edges are 2^15 for any partial sum, 65,504 for operands, and 2^-14 for gains, below which they would lose bits.
What the grid asks for is that its rounding of all products of a sum stays far below the rounding of the result to fp16.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.golden import EDGE, PRODUCT_GRID
from aneforge.ops.constant import Constant
from aneforge.ops.numbers import FP16_MAX
from aneforge.optimise.rescaling.rescaling_policy import policy

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node

    Array = npt.NDArray[Any]

__all__ = [
    "MOST_GAIN", "MOST_OPERAND", "RESULT_STEP", "ask_exponents", "find_least_gain", "join_exponents", "keep_safe",
    "limit_exponents", "measure_edge_margin", "measure_operand_margin",
]  # fmt: skip

MOST_GAIN = 14
"""A gain of 2^-14 is the smallest normal number of fp16."""
MOST_OPERAND = FP16_MAX
RESULT_STEP = 2.0**-11
"""Half the distance of neighbours of fp16 near 1."""
UNDER_EDGE = 1 - 2.0**-6
"""Sums from 32,760 on round to 2^15, which is the edge."""
FACTORS = {"muls": "k", "linear_activation": "alpha"}
"""The attribute that is a factor."""


def ask_exponents(depth: int, typical: Array) -> Array:
    """Return the exponents from which on the grid does not matter, given the size of typical results of each channel.

    A channel whose results are all zero asks for nothing.

    >>> ask_exponents(1024, np.array([1.0, 2.0**-5, 0.0])).tolist()
    [5.0, 10.0, 0.0]
    """
    noise = math.sqrt(depth) * PRODUCT_GRID
    with np.errstate(divide="ignore", over="ignore"):
        bits = np.ceil(np.log2(noise / (RESULT_STEP * typical))) + policy().finer.bits
    return np.where(typical > 0, np.clip(bits, 0.0, MOST_GAIN), 0.0)


def limit_exponents(reach: Array, operand: Array, gain: Array, safety: int) -> Array:
    """Return the largest exponents that keep off every edge, for each channel.

    `reach` bounds any partial sum, `operand` the numbers that are multiplied, `gain` is what follows in the same slot:
    together with it the inverse must not fall below the normal numbers of fp16.

    >>> limit_exponents(np.array([3.0]), np.array([0.5]), np.array([1.0]), 2).tolist()
    [11.0]
    """
    with np.errstate(divide="ignore"):
        edge = np.floor(np.log2(EDGE * UNDER_EDGE / reach))
        room = np.floor(np.log2(MOST_OPERAND / operand))
        slot = MOST_GAIN + np.floor(np.log2(np.minimum(gain, 1.0)))
    return np.minimum(np.minimum(keep_safe(edge, safety), room), slot)


def keep_safe(edge: Array, safety: int) -> Array:
    """Return exponents that leave bits free below the edge; what was not seen to reach it is not scaled down for them.

    >>> keep_safe(np.array([5.0, 2.0, -1.0]), 3).tolist()
    [2.0, 0.0, -4.0]
    """
    return np.where(edge >= 0, np.maximum(edge - safety, 0.0), edge - safety)


def join_exponents(asked: Array, limit: Array) -> tuple[int, ...]:
    """Return exponents: one for all channels where it serves all of them within the slack, else one for each.

    What is beyond the limit as it is, is scaled down; what asks for nothing stays, unless the others' factor serves.

    >>> join_exponents(np.array([3.0, 5.0]), np.array([9.0, 6.0]))
    (5,)
    >>> join_exponents(np.array([3.0, 8.0]), np.array([3.0, 9.0]))
    (3, 8)
    """
    if not np.all(np.isfinite(asked)) or np.any(np.isneginf(limit)) or np.any(np.isnan(limit)):
        return (0,)
    most, least = float(asked.max()), float(limit.min())
    if least >= max(most - policy().slack.bits, 0.0) or len(asked) == 1:
        return (int(min(most, least)),)
    found = tuple(int(min(one, edge)) for one, edge in zip(asked, limit, strict=True))
    return found if len(set(found)) > 1 else found[:1]


def measure_edge_margin(reach: Array, exponents: tuple[int, ...]) -> float:
    """Return the bits between the largest bound of a partial sum, once it is scaled, and the edge."""
    most = float(np.max(reach * 2.0 ** np.array(exponents, np.float64), initial=0.0))
    return math.inf if most == 0 else math.log2(EDGE / most)


def measure_operand_margin(largest: float, exponent: int) -> float:
    """Return the bits between the largest element of a tensor, once it is scaled, and the largest number of fp16.

    >>> measure_operand_margin(65504.0 / 8, 1), measure_operand_margin(0.0, 14)
    (2.0, inf)
    """
    return math.inf if largest == 0 else math.log2(MOST_OPERAND / largest) - exponent


def find_least_gain(node: Node, graph: Graph) -> float:
    """Return the smallest gain that follows a product in its own slot; 1 at most.

    >>> import aneforge as af
    >>> x = af.input((2, 2))
    >>> graph = af.Graph({"y": ((x @ x) * 0.25 + 1.0).relu() * 0.125})
    >>> find_least_gain(graph.nodes[1], graph)
    0.25
    """
    least, together = 1.0, 1.0
    while len(readers := graph.consumers[node]) == 1:
        (node,) = readers
        gain = read_gain(node)
        if gain is None:
            break
        together *= gain
        least = min(least, together)
    return least


def read_gain(node: Node) -> float | None:
    """Return the smallest factor of an operation that only multiplies and adds constants; None for any other."""
    name = node.op.name
    if name in FACTORS:
        return find_smallest(np.array(node.number(FACTORS[name])))
    constants = {name: value for name, value in node.values() if isinstance(value, Constant)}
    if name == "batch_norm":
        scale = np.sqrt(constants["variance"].dense().astype(np.float64) + node.number("epsilon"))
        return find_smallest(constants["gamma"].dense() / scale if "gamma" in constants else 1.0 / scale)
    if name == "mul" and constants:
        return find_smallest(next(iter(constants.values())).dense())
    adds = name == "adds" or (name in {"add", "sub"} and bool(constants))
    return 1.0 if adds else None


def find_smallest(gains: Array) -> float:
    """Return the smallest magnitude of gains that are not zero; 1 at most."""
    magnitudes = np.abs(gains.astype(np.float64))
    return float(magnitudes[magnitudes > 0].min(initial=1.0))
