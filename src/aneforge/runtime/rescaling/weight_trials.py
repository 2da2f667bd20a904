"""Products with constant weights, each on its own: the exponents that its operands allow, tried with what it read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.ops.constant import Constant, Dense
from aneforge.runtime.rescaling.choosing import edge_margin, joined, limits, wanted
from aneforge.runtime.rescaling.encoded import scaled_constant
from aneforge.runtime.rescaling.gains import gains_behind
from aneforge.runtime.rescaling.measuring import Measured, alone, measured_alone
from aneforge.runtime.rescaling.observing import sums_of
from aneforge.runtime.rescaling.products import LiveGroup, bias_of, contracted
from aneforge.runtime.rescaling.rewriting import LiveScaling, WeightScaling, times
from aneforge.runtime.rescaling.trials import (
    GRID_COSTS_NOTHING,
    NO_ROOM,
    Trial,
    applied,
    by_channel,
    exact_result,
    first_worth,
    growth_of,
    is_worth,
    left,
    mends,
    not_worth,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from aneforge.graph.node import Output
    from aneforge.graph.tensor import Tensor
    from aneforge.runtime.rescaling.observing import Observed
    from aneforge.runtime.rescaling.products import WeightedProduct
    from aneforge.runtime.rescaling.trials import Read, Situation
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["try_weights"]

NOT_EXACT = "a number would not keep its bits"


def try_weights(product: WeightedProduct, situation: Situation) -> Trial:
    """Choose exponents for weights, and try them."""
    return first_worth(weights_on(product, situation, seen) for seen in situation.observed.seen)


def weights_on(product: WeightedProduct, situation: Situation, read: Read) -> Trial:
    """Choose exponents for weights by what the product read for one sample, and try them with it.

    Where sums may pass the edge it need not be that sample which does; the whole graph tells whether one did.
    """
    node = product.node
    other = cast("Output", node.operands[product.other])
    seen = read[other.node, other.index]
    result, inputs = alone(node, node.operands)
    values = {product.other: seen}
    exact = exact_result(node, values)
    before = measured_alone(result, values, exact, situation.target, product.axis)
    reach, exponents = weight_exponents(product, situation, exact)
    if not any(exponents):
        reason = NO_ROOM if worth_looking(product, exact) else GRID_COSTS_NOTHING
        return left(product.name, node, before, edge_margin(reach, (0,)), reason)
    tried = scaled_weights(product, exponents)
    if tried is None and min(exponents) < 0:
        return scaled_down(product, min(exponents), Alone(values, exact, before, reach), situation.target)
    if tried is None:
        return left(product.name, node, before, edge_margin(reach, (0,)), NOT_EXACT)
    after = measured_weights(product, tried, inputs[product.other], values, exact, situation)
    if after.layers > before.layers and len(exponents) > 1:
        one = (min(exponents),)
        single = scaled_weights(product, one) if one[0] else None
        if single is not None:
            tried, exponents = single, one
            after = measured_weights(product, tried, inputs[product.other], values, exact, situation)
    worth = is_worth(before, after)
    if not worth and not mends(before, after, exponents):
        return left(product.name, node, before, edge_margin(reach, (0,)), not_worth(before, after))
    margin = edge_margin(reach, exponents)
    report = applied(product.name, node, product.operand, exponents, before, after, margin)
    return Trial((report,), tried, only_mends=not worth)


@dataclass(frozen=True, slots=True)
class Alone:
    """A product on its own: what it read, its result in the mathematics, its error, and the bounds of its sums."""

    values: Mapping[str, Array]
    exact: Array
    error: Measured
    reach: Array


def scaled_down(product: WeightedProduct, exponent: int, found: Alone, target: Target) -> Trial:
    """Try a product whose sums pass the edge with what it reads scaled down, for its weights would lose bits."""
    node, factor = product.node, np.array([2.0**exponent])
    bias = bias_of(node)
    start = scaled_constant(bias, factor) if isinstance(bias, Constant) else None
    if isinstance(bias, Constant) and start is None:
        return left(product.name, node, found.error, edge_margin(found.reach, (0,)), NOT_EXACT)
    operands = {} if start is None else {"bias": start}
    result, _ = alone(node, {**node.operands, **operands})
    values = {name: value * 2.0**exponent for name, value in found.values.items()}
    after = measured_alone(times(result, (-exponent,), 0, None), values, found.exact, target)
    worth = is_worth(found.error, after, longer=True)
    if not worth and not mends(found.error, after, (exponent,)):
        return left(product.name, node, found.error, edge_margin(found.reach, (0,)), not_worth(found.error, after))
    margin = edge_margin(found.reach, (exponent,))
    report = applied(product.name, node, product.other, (exponent,), found.error, after, margin)
    read = LiveGroup(cast("Output", node.operands[product.other]), ((node, product.name, product.other),), None)
    return Trial((report,), LiveScaling(read, exponent, {node: operands}), only_mends=not worth)


def worth_looking(product: WeightedProduct, exact: Array) -> bool:
    """Tell whether the grid asks for a factor at all."""
    return bool(np.any(wanted(product.depth, by_channel(exact, product.axis)) > 0))


def weight_exponents(product: WeightedProduct, situation: Situation, exact: Array) -> tuple[Array, tuple[int, ...]]:
    """Return the bounds of partial sums as they are, and the exponents to try."""
    node, weights = product.node, product.weights.dense()
    growth = growth_of(product.weights)
    sums = seen_sums(product, situation.observed) if situation.by_samples else largest_sums(product, situation.observed)
    reach = sums * growth + product.depth * 2.0**-16
    largest = np.abs(weights.astype(np.float64))
    if product.rows is None:
        largest = largest.max().reshape(1)
    else:
        largest = largest.max(axis=tuple(axis for axis in range(weights.ndim) if axis != product.rows))
    behind = np.array(gains_behind(node, situation.graph))
    room = limits(reach, largest * growth, behind, situation.safety)
    typical = by_channel(exact, product.axis) if product.rows is not None else by_channel(exact.reshape(-1, 1), 1)
    return reach, joined(wanted(product.depth, typical), room)


def largest_sums(product: WeightedProduct, observed: Observed) -> Array:
    """Return bounds of the partial sums of every channel, or of all, told how large any element is that it reads."""
    magnitude = observed.magnitude(cast("Output", product.node.operands[product.other]))
    axis = contracted_axis(product) if product.rows is None else None
    sums = sums_of(product.weights.dense(), product.rows, axis)
    start = bias_of(product.node)
    begun = np.abs(start.dense().astype(np.float64)) if isinstance(start, Constant) else np.zeros(1)
    return magnitude * sums + (begun.max(keepdims=True) if len(sums) == 1 else begun)


def seen_sums(product: WeightedProduct, observed: Observed) -> Array:
    """Return bounds of partial sums for elements as large as any of their channel that was seen.

    Outliers of a channel whose weights are small bound nothing else then.
    """
    node = product.node
    other = cast("Output", node.operands[product.other])
    axis = read_axis(product) % other.type.rank
    along = [1] * other.type.rank
    along[axis] = other.shape[axis]
    most = np.broadcast_to(observed.largest(other, axis).reshape(along), other.shape)
    operands = {name: Dense(np.abs(one.dense())) for name, one in node.operands.items() if isinstance(one, Constant)}
    sums = exact_result(replace(node, operands={**node.operands, **operands}), {product.other: most})
    if product.rows is None:
        return np.array([sums.max()])
    return sums.max(axis=tuple(place for place in range(sums.ndim) if place != product.axis % sums.ndim))


def read_axis(product: WeightedProduct) -> int:
    """Return the axis along which a product adds what it reads."""
    if product.operand != "weight":
        return contracted(product.node, product.other)
    return -1 if product.node.op.name == "linear" else 1


def contracted_axis(product: WeightedProduct) -> int | tuple[int, ...]:
    """Return the axes of weights along which sums go, where there is one factor for all channels."""
    weights, node = product.weights.type, product.node
    if node.op.name == "conv_transpose":
        return (0, *range(2, weights.rank))
    if product.operand == "weight":
        return tuple(range(1, weights.rank))
    transposed = bool(node.attributes.get(f"transpose_{product.operand}", False))
    return weights.rank - (1 if (product.operand == "x") != transposed else 2)


def scaled_weights(product: WeightedProduct, exponents: tuple[int, ...]) -> WeightScaling | None:
    """Return weights and bias times powers of two; None where a number would not keep its bits."""
    factors = 2.0 ** np.array(exponents, np.float64)
    operands = {product.operand: scaled_constant(product.weights, factors, product.rows or 0)}
    bias = bias_of(product.node)
    if isinstance(bias, Constant):
        operands["bias"] = scaled_constant(bias, factors)
    made = {name: one for name, one in operands.items() if one is not None}
    return WeightScaling(product, exponents, made) if len(made) == len(operands) else None


def measured_weights(
    product: WeightedProduct,
    scaling: WeightScaling,
    source: Tensor,
    values: Mapping[str, Array],
    exact: Array,
    situation: Situation,
) -> Measured:
    """Return the error of a rescaled product alone."""
    operands = {**product.node.operands, **scaling.operands, product.other: source}
    result, _ = alone(product.node, operands)
    inverse = tuple(-one for one in scaling.exponents)
    return measured_alone(times(result, inverse, product.axis, None), values, exact, situation.target, product.axis)
