"""Norms rescaled: what they read times 2^k and epsilon times 4^k give the same result, and squares that fp16 can hold.

A norm adds squares, which are fp16 numbers: distances from 256 on overflow, small ones lose their bits, and a sum of
squares from 65,520 on is infinite for the reciprocal root behind it. So a norm of large activations, which the residual
stream of a deep network has, gives anything. Which k is right is told by the rows that were seen, or by proven bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.graph.node import Output
from aneforge.ops.numbers import FP16_MAX
from aneforge.ops.shapes import normalised_axes, reduced_axes
from aneforge.runtime.rescaling.choosing import MOST_GAIN
from aneforge.runtime.rescaling.policy import policy
from aneforge.runtime.rescaling.products import host_of, numbered, readers_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.runtime.rescaling.observing import Observed

    Array = npt.NDArray[Any]

__all__ = [
    "NORMS",
    "NormGroup",
    "exponents_of",
    "lost_squares",
    "norm_groups",
    "norm_margin",
    "norm_reach",
    "rescaled_norm",
]

STANDARDISING = frozenset({"channel_layer_norm", "group_norm", "instance_norm", "layer_norm"})
"""Norms that take the mean off first."""
NORMS = STANDARDISING | {"l2_norm", "rms_norm"}
MOST_SQUARES = FP16_MAX
"""What the squares of a row may add up to; norms that divide by their number bear more, which is not counted on."""

KEPT_SQUARES = 2.0**-8
"""Elements from which on norms lose nothing on the exact engine: their squares lack two bits of normal numbers'."""


@dataclass(frozen=True, slots=True)
class NormGroup:
    """Norms of one tensor, which is multiplied for all of them."""

    shared: Output
    members: tuple[tuple[Node, str], ...]
    """Norm and its name."""
    host: Node | None
    """The operation behind which the factor goes; None where it becomes a layer."""


def norm_groups(graph: Graph) -> tuple[NormGroup, ...]:
    """Return the norms of a graph, by the tensor that they read.

    >>> import numpy as np, aneforge as af
    >>> x = af.input((2, 4))
    >>> y = x.linear(np.eye(4)).rms_norm(np.ones(4)) + x.l2_norm()
    >>> [([name for _, name in group.members], group.host is None) for group in norm_groups(af.Graph({"y": y}))]
    [(['t2'], False), (['t3'], True)]
    """
    found: dict[tuple[Node, int], list[tuple[Node, str]]] = {}
    for name, node in numbered(graph):
        x = node.operands.get("x")
        if node.op.name in NORMS and isinstance(x, Output):
            found.setdefault((x.node, x.index), []).append((node, name))
    leaving = {(output.node, output.index) for output in (*graph.outputs.values(), *graph.states.values())}
    readers = readers_of(graph)
    groups: list[NormGroup] = []
    for key, members in found.items():
        shared = Output(*key)
        alone = key not in leaving and len(readers[key]) == len(members)
        groups.append(NormGroup(shared, tuple(members), host_of(shared, graph, leaving) if alone else None))
    return tuple(groups)


def rows_of(node: Node, values: Array) -> Array:
    """Return what a norm reads as rows, each normalised by itself."""
    rank = values.ndim
    match node.op.name:
        case "layer_norm":
            axes = reduced_axes(rank, cast("tuple[int, ...] | None", node.attributes["axes"]))
        case "l2_norm":
            axes = normalised_axes(cast("tuple[int, ...]", node.attributes["axes"]), rank)
        case "rms_norm":
            axes = (rank - 1,)
        case "channel_layer_norm":
            axes = (1,)
        case "instance_norm":
            axes = tuple(range(2, rank))
        case _:
            return values.reshape(values.shape[0] * cast("int", node.attributes["num_groups"]), -1)
    others = tuple(axis for axis in range(rank) if axis not in axes)
    return values.transpose(*others, *axes).reshape(math.prod(values.shape[axis] for axis in others), -1)


def norm_reach(node: Node, shared: Output, observed: Observed) -> tuple[float, float]:
    """Return the most that the squares of a row add up to, and the size of typical elements of rows.

    Proven magnitudes bound every element by itself; of rows that were seen the sums count, grown as the largest element
    of all samples is larger than that of the first, which may be all zeros.
    """
    rows = rows_of(node, observed.arrays[shared.node, shared.index])
    most, seen = observed.magnitude(shared), float(np.abs(rows).max(initial=0.0))
    if node.op.name in STANDARDISING:
        rows = rows - rows.mean(axis=1, keepdims=True)
    sums = np.square(rows).sum(axis=1)
    typical = math.sqrt(float(np.median(sums)) / rows.shape[1])
    if observed.proven or not seen:
        distance = 2 * most if node.op.name in STANDARDISING else most
        return rows.shape[1] * distance * distance, typical
    return float(sums.max()) * (most / seen) ** 2, typical


def exponents_of(reach: float, typical: float, most: float, safety: int) -> tuple[float, float]:
    """Return the exponent from which on squares keep their bits, and the largest that keeps off the edges.

    `reach` is what squares add up to, `typical` the size of elements, `most` the largest that the norm reads.

    >>> exponents_of(400.0, 1.0, 4.0, 3), exponents_of(2.0**22, 100.0, 500.0, 3), exponents_of(0.25, 2.0**-12, 0.1, 3)
    ((0.0, 0.0), (0.0, -7.0), (7.0, 5.0))
    """
    asked = float(max(0, math.ceil(math.log2(policy().norm_size.part / typical)))) if typical else 0.0
    edge = math.floor(math.log2(MOST_SQUARES / reach) / 2) if reach else math.inf
    room = math.floor(math.log2(MOST_SQUARES / most)) if most else math.inf
    # What was not seen to reach the edge is not scaled down for the sake of safety.
    safe = max(edge - safety, 0.0) if edge >= 0 else edge - safety
    return min(asked, MOST_GAIN), max(float(min(safe, room)), -MOST_GAIN)


def norm_margin(reach: float, exponent: int) -> float:
    """Return the bits by which what a norm reads can grow until its squares overflow.

    >>> norm_margin(2.0**20 * 65504, -12), norm_margin(0.0, 3)
    (2.0, inf)
    """
    return math.log2(MOST_SQUARES / reach) / 2 - exponent if reach else math.inf


def lost_squares(exponent: int) -> str:
    """Return what a norm loses that is scaled down.

    >>> lost_squares(-10)
    'elements below 4 lose bits of their squares, as those below 0.00390625 did before'
    """
    now = KEPT_SQUARES * 2.0**-exponent
    return f"elements below {now:g} lose bits of their squares, as those below {KEPT_SQUARES:g} did before"


def rescaled_norm(node: Node, exponent: int) -> Node:
    """Return a norm for what it reads times a power of two."""
    epsilon = cast("float", node.attributes["epsilon"]) * 4.0**exponent
    return replace(node, attributes={**node.attributes, "epsilon": epsilon})
