"""The strategy of norms: what they read times 2^k and epsilon times 4^k give the same result, and squares that fit.

A norm adds squares, which are fp16 numbers: distances from 256 on overflow, small ones lose their bits, and a sum of
squares from 65,520 on is infinite for the reciprocal root after it. So a norm of large activations, which the residual
stream of a deep network has, gives anything. Which k is right is known from the rows that were seen, or from proven
bounds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.engine.normalisation import find_added_epsilon
from aneforge.graph.node import Output
from aneforge.ops.op import Trait
from aneforge.ops.shapes import normalise_axes, reduced_axes
from aneforge.optimise.rescaling.engine_errors import Reading
from aneforge.optimise.rescaling.graph_edits import Edit
from aneforge.optimise.rescaling.power_exponents import MOST_GAIN, MOST_OPERAND, join_exponents, keep_safe
from aneforge.optimise.rescaling.product_operands import find_host, find_leaving, find_readers
from aneforge.optimise.rescaling.proposals import NO_ROOM, Member, Proposal, SharedTensor
from aneforge.optimise.rescaling.rescaling_policy import policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.optimise.rescaling.operand_sizes import Observed
    from aneforge.optimise.rescaling.proposals import Situation
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["SharedNorms", "describe_lost_squares", "find_norms", "limit_norm"]

MOST_SQUARES = MOST_OPERAND
"""What the squares of a row may add up to; norms that divide by their number bear more, which is not counted on."""
KEPT_SQUARES = 2.0**-8
"""Elements from which on norms lose nothing on the exact engine: their squares lack two bits of normal numbers'."""
EPSILON_ERROR = 2.0**-9
"""The relative error of epsilon that is not seen: rounding to a normal fp16 number makes a quarter of it."""
EPSILON_COUNTS = 2.0**-11
"""The share of a variance from which on epsilon changes a result in fp16."""
EPSILON_LOST = "fp16 on the target has no epsilon as small as small rows need; inputs= judges by the rows that occur"
SQUARES_FIT = "its squares are neither too large nor too small for fp16"


class SharedNorms(SharedTensor):
    """Norms of one tensor, which is multiplied for all of them."""

    __slots__ = ()

    def propose(self, situation: Situation) -> Iterator[Proposal]:
        """Return what the edges of fp16 ask for; what asks for nothing is not measured.

        What is proven of all inputs may ask for so much that small ones are lost; then smaller factors are proposed,
        down to one half, which help most inputs within their ranges.
        """
        observed, x = situation.observed, self.shared
        sizes = {node: measure_rows(node, x, observed) for node in self.nodes}
        limits = [limit_norm(*size, observed.bound(x), situation.safety) for size in sizes.values()]
        asked, limit = max(one for one, _ in limits), min(edge for _, edge in limits)
        exponent = join_exponents(np.array([asked]), np.array([limit]))[0]
        if not exponent:
            yield Proposal.refuse(self.nodes, NO_ROOM if asked else SQUARES_FIT)
            return
        reaches = {node: reach for node, (reach, _) in sizes.items()}
        if not observed.proven:
            yield self.propose_by(exponent, reaches, observed)
            return
        kept = [one for one in (exponent, *range(exponent + 1, 0)) if self.keeps_epsilon(one, situation)]
        if not kept:
            yield Proposal.refuse(self.nodes, EPSILON_LOST)
        for one in kept:
            yield self.propose_by(one, reaches, observed)

    def keeps_epsilon(self, exponent: int, situation: Situation) -> bool:
        """Return whether the target adds what is epsilon for what the norms read times a power of two.

        It need not where no row becomes so small that epsilon counts.
        """
        return all(
            is_added(node.number("epsilon") * 4.0**exponent, situation.target)
            or node.number("epsilon") < EPSILON_COUNTS * least_variance(node, self.shared, situation)
            for node in self.nodes
            if Trait.STANDARDISING in node.op.traits
        )

    def propose_by(self, exponent: int, reaches: dict[Node, float], observed: Observed) -> Proposal:
        """Return all norms with what they read times one power of two."""
        members = tuple(
            Member(node, "x", Reading.take(node, observed.seen[0]), (margin, margin - exponent))
            for node in self.nodes
            for margin in (measure_norm_margin(reaches[node]),)
        )
        return Proposal(
            members,
            exponents=(exponent,),
            change=self.multiply(exponent, {node: scale_epsilon(node, exponent) for node in self.nodes}),
            longer=self.host is None,
            may_help_others=False,
            keeps_small=exponent < 0 and observed.proven,
        )


def is_added(epsilon: float, target: Target) -> bool:
    """Return whether a target has a number for an epsilon.

    >>> from aneforge.targets import Family, resolve
    >>> [is_added(epsilon, resolve(Family.A13)) for epsilon in (1e-5, 1e-9)]
    [True, False]
    """
    return math.isclose(find_added_epsilon(target, epsilon), epsilon, rel_tol=EPSILON_ERROR)


def least_variance(node: Node, shared: Output, situation: Situation) -> float:
    """Return the least variance of a row for inputs far smaller than their ranges."""
    seen = [split_rows(node, one[shared.node, shared.index]) for one in situation.small()]
    return min((float(rows.var(axis=1, dtype=np.float64).min()) for rows in seen), default=0.0)


def find_norms(graph: Graph) -> tuple[SharedNorms, ...]:
    """Return the norms of a graph, by the tensor that they read.

    >>> import numpy as np, aneforge as af
    >>> x = af.input((2, 4))
    >>> y = x.linear(np.eye(4)).rms_norm(np.ones(4)) + x.l2_norm()
    >>> [([node.op.name for node in one.nodes], one.host is None) for one in find_norms(af.Graph({"y": y}))]
    [(['rms_norm'], False), (['l2_norm'], True)]
    """
    found: dict[tuple[Node, int], list[tuple[Node, str]]] = {}
    for node in graph.nodes:
        x = node.operands.get("x")
        if Trait.NORMALISING in node.op.traits and isinstance(x, Output):
            found.setdefault((x.node, x.index), []).append((node, "x"))
    leaving, readers = find_leaving(graph), find_readers(graph)
    return tuple(
        SharedNorms(
            shared, tuple(members), find_host(shared, graph, leaving) if len(readers[key]) == len(members) else None
        )
        for key, members in found.items()
        for shared in (Output(*key),)
    )


def split_rows(node: Node, values: Array) -> Array:
    """Return what a norm reads as rows, each normalised by itself."""
    rank = values.ndim
    match node.op.name:
        case "layer_norm":
            axes = reduced_axes(rank, node.optional_integers("axes"))
        case "l2_norm":
            axes = normalise_axes(node.integers("axes"), rank)
        case "rms_norm":
            axes = (rank - 1,)
        case "channel_layer_norm":
            axes = (1,)
        case "instance_norm":
            axes = tuple(range(2, rank))
        case _:
            return values.reshape(values.shape[0] * node.integer("num_groups"), -1)
    others = tuple(axis for axis in range(rank) if axis not in axes)
    return values.transpose(*others, *axes).reshape(math.prod(values.shape[axis] for axis in others), -1)


def measure_rows(node: Node, shared: Output, observed: Observed) -> tuple[float, float]:
    """Return the most that the squares of a row add up to, and the size of typical elements of rows.

    Proven magnitudes bound every element by itself; of rows that were seen the sums count, grown as the largest element
    of all samples is larger than that of the first, which may be all zeros.
    """
    rows = split_rows(node, observed.seen[0][shared.node, shared.index])
    most, seen = observed.bound(shared), float(np.abs(rows).max(initial=0.0))
    if Trait.STANDARDISING in node.op.traits:
        rows = rows - rows.mean(axis=1, keepdims=True)
    sums = np.square(rows).sum(axis=1)
    typical = math.sqrt(float(np.median(sums)) / rows.shape[1])
    if observed.proven or not seen:
        distance = 2 * most if Trait.STANDARDISING in node.op.traits else most
        return rows.shape[1] * distance * distance, typical
    return float(sums.max()) * (most / seen) ** 2, typical


def limit_norm(reach: float, typical: float, most: float, safety: int) -> tuple[float, float]:
    """Return the exponent from which on squares keep their bits, and the largest that keeps off the edges.

    `reach` is what squares add up to, `typical` the size of elements, `most` the largest that the norm reads.

    >>> limit_norm(400.0, 1.0, 4.0, 3), limit_norm(2.0**22, 100.0, 500.0, 3), limit_norm(0.25, 2.0**-12, 0.1, 3)
    ((0.0, 0.0), (0.0, -7.0), (7.0, 5.0))
    """
    asked = float(max(0, math.ceil(math.log2(policy().norm_size.part / typical)))) if typical else 0.0
    edge = math.floor(math.log2(MOST_SQUARES / reach) / 2) if reach else math.inf
    room = math.floor(math.log2(MOST_OPERAND / most)) if most else math.inf
    limit = min(float(keep_safe(np.array(edge), safety)), room)
    return min(asked, MOST_GAIN), max(float(limit), -MOST_GAIN)


def measure_norm_margin(reach: float) -> float:
    """Return the bits by which what a norm reads can grow until its squares overflow.

    >>> measure_norm_margin(2.0**20 * 65504), measure_norm_margin(0.0)
    (-10.0, inf)
    """
    return math.log2(MOST_SQUARES / reach) / 2 if reach else math.inf


def scale_epsilon(node: Node, exponent: int) -> Edit:
    """Return what a norm needs for what it reads times a power of two."""
    return Edit(attributes={"epsilon": node.number("epsilon") * 4.0**exponent})


def describe_lost_squares(exponent: int) -> str:
    """Return what a norm loses that is scaled down.

    >>> describe_lost_squares(-10)
    'elements below 4 lose bits of their squares, as those below 0.00390625 did before'
    """
    now = KEPT_SQUARES * 2.0**-exponent
    return f"elements below {now:g} lose bits of their squares, as those below {KEPT_SQUARES:g} did before"
