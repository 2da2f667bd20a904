"""The strategy of products with constant weights: the weights are multiplied, or what the product reads.

Each output channel has a factor of its own where the encoding of the weights and the gain slot allow that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.graph.node import Output
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import is_float
from aneforge.optimise.compress.weighted_products import CONVOLUTIONS, axes_of
from aneforge.optimise.rescaling.engine_errors import Reading, evaluate_node
from aneforge.optimise.rescaling.graph_edits import Edit
from aneforge.optimise.rescaling.power_exponents import (
    ask_exponents,
    find_least_gain,
    join_exponents,
    limit_exponents,
    measure_edge_margin,
)
from aneforge.optimise.rescaling.product_operands import bound_growth, find_contracted_axis, get_bias
from aneforge.optimise.rescaling.proposals import (
    GRID_COSTS_NOTHING,
    NO_ROOM,
    Member,
    Proposal,
    SharedTensor,
    measure_channels,
)
from aneforge.optimise.rescaling.scaled_constants import can_scale, has_rows, scale_constant
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.optimise.rescaling.operand_sizes import Observed
    from aneforge.optimise.rescaling.proposals import Situation

    Array = npt.NDArray[Any]

__all__ = ["WeightedProduct", "find_weighted_products"]

NOT_EXACT = "a number would not keep its bits"


@dataclass(frozen=True, slots=True)
class WeightedProduct:
    """A product of a tensor with constant weights."""

    node: Node
    operand: str
    """The weights."""
    other: str
    weights: Constant
    rows: int | None
    """The axis of the weights that is the output channels; None where one factor serves for all."""
    axis: int
    """The axis of the result along which those are."""
    depth: int
    """Terms of one sum."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The product."""
        return (self.node,)

    @property
    def read(self) -> Output:
        """The tensor that is multiplied with the weights."""
        return cast("Output", self.node.operands[self.other])

    def propose(self, situation: Situation) -> Iterator[Proposal]:
        """Return what the values of each sample ask for.

        Where sums may pass the edge it need not be that sample which does; the whole graph shows whether one did.
        """
        growth, magnitudes = bound_growth(self.weights), np.abs(self.weights.dense().astype(np.float64))
        if situation.by_samples:
            sums = bound_seen_sums(self, situation.observed)
        else:
            sums = bound_all_sums(self, magnitudes, situation.observed)
        reach = sums * growth + self.depth * 2.0**-16
        gain = np.array(find_least_gain(self.node, situation.graph))
        limit = limit_exponents(reach, find_largest(self, magnitudes) * growth, gain, situation.safety)
        for seen in situation.observed.seen:
            yield self.propose_for(Reading.take(self.node, seen), reach, limit)

    def propose_for(self, reading: Reading, reach: Array, limit: Array) -> Proposal:
        """Return what one sample asks for, within the limit of each channel."""
        by_channel = ask_exponents(self.depth, measure_channels(reading.exact, self.axis))
        asked = by_channel
        if self.rows is None:
            asked = ask_exponents(self.depth, measure_channels(reading.exact.reshape(-1, 1), 1))
        exponents = join_exponents(asked, limit)
        if not any(exponents):
            return self.refuse(NO_ROOM if np.any(by_channel > 0) else GRID_COSTS_NOTHING, reading, reach)
        edit = scale_weights(self, exponents)
        if edit is None:
            lowest = min(exponents)
            return (
                self.propose_to_scale_read(lowest, reading, reach)
                if lowest < 0
                else self.refuse(NOT_EXACT, reading, reach)
            )
        return self.propose_edit(edit, exponents, reading, reach)

    def propose_edit(self, edit: Edit, exponents: tuple[int, ...], reading: Reading, reach: Array) -> Proposal:
        """Return a product with its weights multiplied; by one factor for all where a row of them costs a layer.

        Some layers have no gain slot for a row of factors.
        """
        one = (min(exponents),)

        def propose_one() -> Proposal | None:
            single = scale_weights(self, one) if one[0] else None
            return None if single is None else self.propose_edit(single, one, reading, reach)

        margins = (measure_edge_margin(reach, (0,)), measure_edge_margin(reach, exponents))
        member = Member(self.node, self.operand, reading, margins)
        otherwise = propose_one if len(exponents) > 1 else None
        change = {self.node: edit}
        return Proposal((member,), exponents=exponents, change=change, axis=self.axis, otherwise=otherwise)

    def propose_to_scale_read(self, exponent: int, reading: Reading, reach: Array) -> Proposal:
        """Return a product whose sums pass the edge with what it reads scaled down, for its weights would lose bits."""
        constants, bias = dict[str, Constant](), get_bias(self.node)
        if isinstance(bias, Constant):
            scaled = scale_constant(bias, np.array([2.0**exponent]))
            if scaled is None:
                return self.refuse(NOT_EXACT, reading, reach)
            constants["bias"] = scaled
        read = SharedTensor(self.read, ((self.node, self.other),), None)
        change = read.multiply(exponent, {self.node: Edit(constants, after=(-exponent,))})
        margins = (measure_edge_margin(reach, (0,)), measure_edge_margin(reach, (exponent,)))
        member = Member(self.node, self.other, reading, margins)
        return Proposal((member,), exponents=(exponent,), change=change, axis=self.axis, longer=True)

    def refuse(self, reason: str, reading: Reading, reach: Array) -> Proposal:
        """Return the proposal of nothing; the error of the product as it is will be measured."""
        margin = measure_edge_margin(reach, (0,))
        return Proposal((Member(self.node, reading=reading, margins=(margin, margin)),), reason, axis=self.axis)


def find_weighted_products(graph: Graph) -> tuple[WeightedProduct, ...]:
    """Return the products with constant weights, in an encoding that can be multiplied, of real numbers.

    >>> import numpy as np, aneforge as af
    >>> graph = af.Graph({"y": af.input((1, 4)).linear(np.ones((8, 4)))})
    >>> [(product.operand, product.depth) for product in find_weighted_products(graph)]
    [('weight', 4)]
    """
    return tuple(found for node in graph.nodes if (found := match_product(node)) is not None)


def match_product(node: Node) -> WeightedProduct | None:
    """Return a node as a product with weights, if it is one."""
    operand = next((one for one in ("weight", "y", "x") if isinstance(node.operands.get(one), Constant)), None)
    if operand is None or not is_float(node.types[0].dtype):
        return None
    weights, axes = cast("Constant", node.operands[operand]), axes_of(node, operand)
    other, bias = "y" if operand == "x" else "x", get_bias(node)
    if axes is None or not weights.type.size or not has_factor(weights):
        return None
    if not isinstance(node.operands.get(other), Output) or not (bias is None or has_factor(bias)):
        return None
    shape, rank = weights.type.shape, node.types[0].rank
    groups = node.integer("groups") if "groups" in node.attributes else 1
    if node.op.name in CONVOLUTIONS or node.op.name == "conv_transpose":
        rows = axes.rows if (axes.rows == 0 or groups == 1) and has_rows(weights, axes.rows) else None
        return WeightedProduct(node, operand, other, weights, rows, 1, weights.type.size // shape[axes.rows])
    by_channel = operand != "x" and weights.type.rank == 2 and rank > 1 and has_rows(weights, axes.rows)
    rows = axes.rows if by_channel else None
    return WeightedProduct(node, operand, other, weights, rows, rank - 1, shape[axes.columns])


def has_factor(value: object) -> bool:
    """Return whether an operand is constant real numbers that can be multiplied."""
    return isinstance(value, Constant) and is_float(value.type.dtype) and can_scale(value)


def scale_weights(product: WeightedProduct, exponents: tuple[int, ...]) -> Edit | None:
    """Return weights and bias times powers of two; None where a number would not keep its bits."""
    factors = 2.0 ** np.array(exponents, np.float64)
    made = {product.operand: scale_constant(product.weights, factors, product.rows or 0)}
    bias = get_bias(product.node)
    if isinstance(bias, Constant):
        made["bias"] = scale_constant(bias, factors)
    constants = {name: one for name, one in made.items() if one is not None}
    inverse = tuple(-one for one in exponents)
    return Edit(constants, after=inverse, axis=product.axis) if len(constants) == len(made) else None


def find_largest(product: WeightedProduct, magnitudes: Array) -> Array:
    """Return the largest magnitude of the weights of every channel, or of all."""
    if product.rows is None:
        return magnitudes.max().reshape(1)
    return magnitudes.max(axis=tuple(axis for axis in range(magnitudes.ndim) if axis != product.rows))


def bound_all_sums(product: WeightedProduct, magnitudes: Array, observed: Observed) -> Array:
    """Return bounds of the partial sums of every channel, or of all, by how large any element is that it reads."""
    if product.rows is None:
        sums = magnitudes.sum(axis=find_summed_axes(product)).max().reshape(1)
    else:
        sums = magnitudes.sum(axis=tuple(axis for axis in range(magnitudes.ndim) if axis != product.rows))
    bias = get_bias(product.node)
    start = np.abs(bias.dense().astype(np.float64)) if isinstance(bias, Constant) else np.zeros(1)
    return observed.bound(product.read) * sums + (start.max(keepdims=True) if len(sums) == 1 else start)


def bound_seen_sums(product: WeightedProduct, observed: Observed) -> Array:
    """Return bounds of partial sums for elements as large as any of their channel that was seen.

    Outliers of a channel whose weights are small bound nothing else then.
    """
    node, read = product.node, product.read
    axis = find_read_axis(product) % read.type.rank
    along = [1] * read.type.rank
    along[axis] = read.shape[axis]
    most = np.broadcast_to(observed.bound_places(read, axis).reshape(along), read.shape)
    operands = {name: Dense(np.abs(one.dense())) for name, one in node.operands.items() if isinstance(one, Constant)}
    sums = evaluate_node(replace(node, operands={**node.operands, **operands}), {product.other: most})
    if product.rows is None:
        return np.array([sums.max()])
    return sums.max(axis=tuple(place for place in range(sums.ndim) if place != product.axis % sums.ndim))


def find_read_axis(product: WeightedProduct) -> int:
    """Return the axis along which a product adds what it reads."""
    if product.operand != "weight":
        return find_contracted_axis(product.node, product.other)
    return -1 if product.node.op.name == "linear" else 1


def find_summed_axes(product: WeightedProduct) -> int | tuple[int, ...]:
    """Return the axes of weights along which sums go, where there is one factor for all channels."""
    rank = product.weights.type.rank
    if product.node.op.name == "conv_transpose":
        return (0, *range(2, rank))
    if product.operand == "weight":
        return tuple(range(1, rank))
    return rank + find_contracted_axis(product.node, product.operand)
