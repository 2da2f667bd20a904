"""The strategy of products of two tensors, and of attention: one tensor is multiplied for all that read it.

Best where it is made, by an operation with a gain slot, from which only movements lead to the product. Attention that
is one operation is linear in its values, so of its tensors these are multiplied; the sums of its scores come ahead of a
softmax, which takes no factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float
from aneforge.optimise.compress.weighted_products import MATRIX_PRODUCTS, axes_of
from aneforge.optimise.rescaling.engine_errors import Reading
from aneforge.optimise.rescaling.graph_edits import Edit
from aneforge.optimise.rescaling.power_exponents import (
    ask_exponents,
    find_least_gain,
    join_exponents,
    limit_exponents,
    measure_edge_margin,
    measure_operand_margin,
)
from aneforge.optimise.rescaling.product_operands import (
    ATTENTION,
    PRODUCTS,
    bound_growth,
    find_contracted_axis,
    find_host,
    find_leaving,
    find_readers,
    get_bias,
    get_second,
)
from aneforge.optimise.rescaling.proposals import (
    GRID_COSTS_NOTHING,
    NO_ROOM,
    Member,
    Proposal,
    SharedTensor,
    measure_channels,
)
from aneforge.optimise.rescaling.rescaling_policy import policy
from aneforge.optimise.rescaling.scale_weights import find_weighted_products
from aneforge.optimise.rescaling.scaled_constants import can_scale

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.optimise.rescaling.operand_sizes import Observed
    from aneforge.optimise.rescaling.proposals import Seen, Situation

__all__ = ["TensorProducts", "find_tensor_products", "find_unscalable"]


class TensorProducts(SharedTensor):
    """Products of two tensors, or attention, that share a tensor, which is multiplied for all of them."""

    __slots__ = ()

    def propose(self, situation: Situation) -> Iterator[Proposal]:
        """Return what the values of each sample ask for."""
        return (self.propose_for(seen, situation) for seen in situation.observed.seen)

    def propose_for(self, seen: Seen, situation: Situation) -> Proposal:
        """Return what one sample asks for: as much as any product wants, and no more than all of them allow."""
        largest = situation.observed.bound(self.shared)
        most = np.array([largest * 2.0**situation.safety])
        readings = {node: Reading.take(node, seen) for node in self.nodes}
        reaches = {
            node: np.array([bound_sums(node, situation.observed) + count_terms(node) * 2.0**-16]) for node in self.nodes
        }
        asked = max(float(ask_tensor_exponent(node, reading)) for node, reading in readings.items())
        limit = min(
            float(limit_exponents(reach, most, np.array(find_least_gain(node, situation.graph)), situation.safety)[0])
            for node, reach in reaches.items()
        )
        exponent = join_exponents(np.array([asked]), np.array([limit]))[0]

        def measure_margin(node: Node, exponent: int) -> float:
            return min(measure_edge_margin(reaches[node], (exponent,)), measure_operand_margin(largest, exponent))

        members = tuple(
            Member(node, operand, readings[node], (measure_margin(node, 0), measure_margin(node, exponent)))
            for node, operand in self.members
        )
        if not exponent:
            return Proposal(members, NO_ROOM if asked else GRID_COSTS_NOTHING)
        change = self.multiply(exponent, {node: Edit(after=(-exponent,)) for node in self.nodes})
        return Proposal(members, exponents=(exponent,), change=change, longer=self.host is None)


def ask_tensor_exponent(node: Node, reading: Reading) -> float:
    """Return the exponent from which on the grid does not matter to a product."""
    return float(ask_exponents(count_terms(node), measure_channels(reading.exact.reshape(-1, 1), 1)).max())


def find_tensor_products(graph: Graph) -> tuple[TensorProducts, ...]:
    """Return the products of two tensors, and attention, by the tensor that is to be multiplied.

    The one whose factor costs no layer is taken; where both do, the second operand, which is that of the values and the
    keys in attention. Attention that is one operation has its values multiplied and nothing else: where queries, keys
    or anyone else read the same tensor, only a layer of its own can do that.

    >>> import numpy as np, aneforge as af
    >>> x = af.input((1, 2, 8, 4))
    >>> query, key, value = (x.linear(np.eye(4)) for _ in range(3))
    >>> apart, together = af.sdpa(query, key, value), af.sdpa(query, key, key)
    >>> groups = [group for y in (apart, together) for group in find_tensor_products(af.Graph({"y": y}))]
    >>> [(group.members[0][1], group.host is None) for group in groups]
    [('value', False), ('value', True)]
    """
    live = {node for node in graph.nodes if is_live(node)}
    leaving, readers = find_leaving(graph), find_readers(graph)
    groups: list[TensorProducts] = []
    taken: set[Node] = set()
    for node in graph.nodes:
        for operand in get_factors(node) if node in live else ():
            shared = cast("Output", node.operands[operand])
            host, together = find_host(shared, graph, leaving), readers[shared.node, shared.index]
            free = all(one in live and one not in taken and place in get_factors(one) for one, place in together)
            if node in taken or host is None or not free:
                continue
            groups.append(TensorProducts(shared, tuple(together), host))
            taken.update(one for one, _ in together)
    layers: dict[tuple[Node, int], list[tuple[Node, str]]] = {}
    for node in graph.nodes:
        if node in live and node not in taken:
            second = get_second(node)
            shared = cast("Output", node.operands[second])
            layers.setdefault((shared.node, shared.index), []).append((node, second))
    groups += [TensorProducts(Output(*key), tuple(members), None) for key, members in layers.items()]
    return tuple(groups)


def get_factors(node: Node) -> tuple[str, ...]:
    """Return the operands in which a product is linear, of which one can be multiplied; the best to take first."""
    return (get_second(node),) if node.op.name in ATTENTION else (get_second(node), "x")


def is_live(node: Node) -> bool:
    """Return whether a node multiplies two different tensors of real numbers, without a bias, or weighs values."""
    if node.op.name in ATTENTION:
        return isinstance(node.operands["value"], Output)
    if node.op.name not in PRODUCTS or not is_float(node.types[0].dtype) or get_bias(node) is not None:
        return False
    x, y = node.operands.get("x"), node.operands.get(get_second(node))
    if not isinstance(x, Output) or not isinstance(y, Output):
        return False
    return min(x.type.rank, y.type.rank) > 1 and (x.node, x.index) != (y.node, y.index)


def count_terms(node: Node) -> int:
    """Return the terms of one sum of a product of two tensors; of a convolution, those of a place within its image.

    Of attention they are those of the sum of values.
    """
    if node.op.name in ATTENTION:
        return cast("Output", node.operands["value"]).shape[-2]
    if node.op.name in MATRIX_PRODUCTS:
        return cast("Output", node.operands["x"]).shape[find_contracted_axis(node, "x")]
    axes, weight = axes_of(node, "weight"), cast("Output", node.operands["weight"])
    return weight.type.size // weight.shape[0 if axes is None else axes.rows]


def bound_sums(node: Node, observed: Observed) -> float:
    """Return a bound of any partial sum of a product of two tensors; of attention, of values weighed by a row."""
    if node.op.name in ATTENTION:
        return policy().softmax_row.sum * observed.bound(cast("Output", node.operands["value"]))
    x, y = (cast("Output", node.operands[name]) for name in ("x", get_second(node)))
    if get_second(node) == "weight":
        return count_terms(node) * observed.bound(x) * observed.bound(y) * bound_growth(y)
    return min(
        observed.bound_total(x, find_contracted_axis(node, "x")) * observed.bound(y),
        observed.bound(x) * observed.bound_total(y, find_contracted_axis(node, "y")),
    )


def find_unscalable(graph: Graph) -> tuple[tuple[Node, str], ...]:
    """Return the products that nothing can be multiplied of, each with the reason.

    >>> import aneforge as af
    >>> x = af.input((4, 4))
    >>> [reason for _, reason in find_unscalable(af.Graph({"y": x @ x}))]
    ['both operands are the same tensor']
    """
    taken = {product.node for product in find_weighted_products(graph)}
    taken.update(node for group in find_tensor_products(graph) for node in group.nodes)
    return tuple(
        (node, explain_unscalable(node))
        for node in graph.nodes
        if node.op.macs is not None and node not in taken and node.sources() and is_float(node.types[0].dtype)
    )


def explain_unscalable(node: Node) -> str:
    """Return why nothing of a product can be multiplied."""
    if node.op.name in ATTENTION:
        return "its values are constants, and the sums of its scores are inside the operation, where no factor can go"
    if node.op.name not in PRODUCTS:
        return "its sums are inside the operation, where no factor can go"
    x, y = node.operands.get("x"), node.operands.get(get_second(node))
    constant = next((one for one in (x, y) if isinstance(one, Constant)), None)
    if constant is not None and not can_scale(constant):
        return f"its weights are encoded as {constant.encoding}, which is not multiplied"
    if isinstance(x, Output) and isinstance(y, Output) and (x.node, x.index) == (y.node, y.index):
        return "both operands are the same tensor"
    if get_bias(node) is not None:
        return "its sums start at a bias that a factor does not reach"
    return "an operand is a vector or empty, which is not multiplied"
