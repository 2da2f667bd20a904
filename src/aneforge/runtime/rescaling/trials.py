"""Every product on its own: the exponents that its operands allow, tried on the engine with what it read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.ops.constant import Constant, Dense
from aneforge.runtime.rescaling.choosing import RESULT_STEP, edge_margin, joined, limits, wanted
from aneforge.runtime.rescaling.encoded import scaled_constant
from aneforge.runtime.rescaling.gains import gains_behind
from aneforge.runtime.rescaling.measuring import Measured, alone, measured_alone
from aneforge.runtime.rescaling.norms import exponents_of, norm_margin, norm_reach, rescaled_norm
from aneforge.runtime.rescaling.observing import sums_of
from aneforge.runtime.rescaling.policy import policy
from aneforge.runtime.rescaling.products import ATTENTION, bias_of, contracted, depth_of, second_of, tensors_of
from aneforge.runtime.rescaling.report import ProductRescaling, percent
from aneforge.runtime.rescaling.rewriting import LiveScaling, NormScaling, WeightScaling, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node, Output, Value
    from aneforge.graph.tensor import Tensor
    from aneforge.runtime.rescaling.norms import NormGroup
    from aneforge.runtime.rescaling.observing import Observed
    from aneforge.runtime.rescaling.products import LiveGroup, WeightedProduct
    from aneforge.runtime.rescaling.rewriting import Scaling
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Read = Mapping[tuple[Node, int], Array]

__all__ = ["Situation", "Trial", "as_it_was", "not_tried", "try_live", "try_norms", "try_weights"]

WINOGRAD_GROWTH = 4.0
"""A transformed column of data is at most twice, and the four of weights together twice, what they are made of."""
WINOGRAD_WIDTH = 3
GRID_COSTS_NOTHING = "the grid of the accumulator costs it nothing"
NO_ROOM = "the edges leave no room"
NOT_EXACT = "a number would not keep its bits"
SQUARES_FIT = "its squares are neither too large nor too small for fp16"


@dataclass(frozen=True, slots=True)
class Situation:
    """What all trials share."""

    graph: Graph
    target: Target
    observed: Observed
    """What the exponents are chosen by, seen or proven."""
    safety: int
    by_samples: bool
    """Sizes of single channels are known, for samples were given."""
    small: Callable[[], Sequence[Read]]
    """What operands are for inputs far smaller than their declared ranges; runs the graph when it is first asked."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What trying a rescaling gave: a report for each of its products, and the rescaling, where it is worth it."""

    reports: tuple[ProductRescaling, ...]
    scaling: Scaling | None

    @property
    def gain(self) -> float:
        """The part of the error that is left."""
        return min((one.error_after / one.error_before for one in self.reports if one.error_before), default=1.0)


def by_channel(values: Array, axis: int) -> Array:
    """Return the root mean square of every place of an axis."""
    others = tuple(place for place in range(values.ndim) if place != axis)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sqrt(np.mean(np.square(values), axis=others))


def growth_of(weights: Value) -> float:
    """Return by how much partial sums may grow where a convolution takes the Winograd form."""
    shape = weights.type.shape
    return WINOGRAD_GROWTH if len(shape) > 2 and shape[-1] == WINOGRAD_WIDTH else 1.0


def first_worth(trials: Iterator[Trial]) -> Trial:
    """Return the first trial that is worth it, and the first of all where none is; later ones are made on demand.

    Trials are of one product, each with what it read for another sample. What gains for one may lose for another; that
    is told by the whole graph, which is judged on all of them.
    """
    first = next(trials)
    if first.scaling is not None:
        return first
    return next((one for one in trials if one.scaling is not None), first)


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
    if tried is None:
        return left(product.name, node, before, edge_margin(reach, (0,)), NOT_EXACT)
    after = measured_weights(product, tried, inputs[product.other], values, exact, situation)
    if after.layers > before.layers and len(exponents) > 1:
        one = (min(exponents),)
        single = scaled_weights(product, one) if one[0] else None
        if single is not None:
            tried, exponents = single, one
            after = measured_weights(product, tried, inputs[product.other], values, exact, situation)
    mends = min(exponents) < 0 and after.error <= before.error * policy().loss.one
    if not mends and not is_worth(before, after):
        return left(product.name, node, before, edge_margin(reach, (0,)), not_worth(before, after))
    margin = edge_margin(reach, exponents)
    return Trial((applied(product.name, node, product.operand, exponents, before, after, margin),), tried)


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
    most = np.broadcast_to(observed.places[(other.node, other.index), axis].reshape(along), other.shape)
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


def try_live(group: LiveGroup, situation: Situation) -> Trial:
    """Choose an exponent for a tensor that products share, and try it with each."""
    return first_worth(live_on(group, situation, seen) for seen in situation.observed.seen)


def live_on(group: LiveGroup, situation: Situation, read: Read) -> Trial:
    """Choose an exponent by what products read for one sample, and try it with each."""
    observed = situation.observed
    most = observed.magnitude(group.shared) * 2.0**situation.safety
    asked, rooms, reaches = 0.0, [float("inf")], list[float]()
    tried: list[tuple[Node, str, str, dict[str, Array], Array, Measured]] = []
    for node, name, operand in group.members:
        tensors = {one: cast("Output", node.operands[one]) for one in tensors_of(node)}
        values = {one: read[value.node, value.index] for one, value in tensors.items()}
        exact = exact_result(node, values)
        depth = depth_of(node)
        reach = live_reach(node, observed) + depth * 2.0**-16
        behind = np.array(gains_behind(node, situation.graph))
        room = limits(np.array([reach]), np.array([most]), behind, situation.safety)
        asked = max(asked, float(wanted(depth, by_channel(exact.reshape(-1, 1), 1)).max()))
        rooms.append(float(room[0]))
        reaches.append(reach)
        result, _ = alone(node, node.operands)
        tried.append((node, name, operand, values, exact, measured_alone(result, values, exact, situation.target)))
    exponent = joined(np.array([asked]), np.array([min(rooms)]))[0]
    reports: list[ProductRescaling] = []
    reason = "" if exponent else NO_ROOM if asked else GRID_COSTS_NOTHING
    for (node, name, operand, values, exact, before), reach in zip(tried, reaches, strict=True):
        after = before
        if exponent:
            result, _ = alone(node, node.operands)
            scaled = {**values, operand: values[operand] * 2.0**exponent}
            after = measured_alone(times(result, (-exponent,), 0, None), scaled, exact, situation.target)
            reason = reason or ("" if is_worth(before, after, longer=group.host is None) else not_worth(before, after))
        margin = edge_margin(np.array([reach]), (exponent,))
        reports.append(applied(name, node, operand, (exponent,), before, after, margin))
    if reason:
        return Trial(tuple(as_it_was(one, reason) for one in reports), None)
    return Trial(tuple(reports), LiveScaling(group, exponent))


def try_norms(group: NormGroup, situation: Situation) -> Trial:
    """Choose an exponent for a tensor that norms read, and try it with each; what asks for none is not measured."""
    observed, x = situation.observed, group.shared
    most = observed.magnitude(x)
    reaches = [norm_reach(node, x, observed) for node, _ in group.members]
    found = [exponents_of(reach, typical, most, situation.safety) for reach, typical in reaches]
    asked, limit = max(one for one, _ in found), min(edge for _, edge in found)
    exponent = joined(np.array([asked]), np.array([limit]))[0]
    if not exponent:
        return not_tried(group.members, NO_ROOM if asked else SQUARES_FIT)
    reports, reason = list[ProductRescaling](), ""
    for (node, name), (reach, _) in zip(group.members, reaches, strict=True):
        before, after = try_norm(node, exponent, observed.arrays[x.node, x.index], situation.target)
        reason = reason or ("" if is_worth(before, after, longer=group.host is None) else not_worth(before, after))
        reason = reason or lost_small(node, exponent, x, situation)
        reports.append(applied(name, node, "x", (exponent,), before, after, norm_margin(reach, exponent)))
    if reason:
        return Trial(tuple(as_it_was(one, reason) for one in reports), None)
    return Trial(tuple(reports), NormScaling(group, exponent))


def try_norm(node: Node, exponent: int, values: Array, target: Target) -> tuple[Measured, Measured]:
    """Return a norm alone on some rows, as it is and for what it reads times a power of two."""
    exact = exact_result(node, {"x": values})
    now, scaled = rescaled_norm(node, exponent), values * 2.0**exponent
    return (
        measured_alone(alone(node, node.operands)[0], {"x": values}, exact, target),
        measured_alone(alone(now, node.operands)[0], {"x": scaled}, exact, target),
    )


def lost_small(node: Node, exponent: int, x: Output, situation: Situation) -> str:
    """Return why a norm is not to be scaled down: rows far smaller than declared would be lost; empty where none is."""
    if exponent >= 0 or not situation.observed.proven:
        return ""
    chosen = policy().small_rows
    for part, seen in zip(chosen.parts, situation.small(), strict=True):
        before, after = try_norm(node, exponent, seen[x.node, x.index], situation.target)
        if after.error > chosen.worse * max(before.error, RESULT_STEP):
            size = f"2^{math.log2(part):g}"
            return (
                f"for inputs of {size} of their ranges {not_worth(before, after)}; inputs= judges by rows as they are"
            )
    return ""


def live_reach(node: Node, observed: Observed) -> float:
    """Return a bound of any partial sum of a product of two tensors; of attention, of values weighed by a row."""
    if node.op.name in ATTENTION:
        return policy().softmax_row.sum * observed.magnitude(cast("Output", node.operands["value"]))
    x, y = (cast("Output", node.operands[name]) for name in ("x", second_of(node)))
    if second_of(node) == "weight":
        return depth_of(node) * observed.magnitude(x) * observed.magnitude(y) * growth_of(y)
    return min(
        observed.total(x, contracted(node, "x")) * observed.magnitude(y),
        observed.magnitude(x) * observed.total(y, contracted(node, "y")),
    )


def exact_result(node: Node, values: Mapping[str, Array]) -> Array:
    """Return the result of a node in float64, given its tensors."""
    operands = {
        name: value.dense().astype(np.float64) if isinstance(value, Constant) else values[name]
        for name, value in node.operands.items()
        if not isinstance(value, tuple)
    }
    with np.errstate(over="ignore", invalid="ignore"):  # an operand that was seen to be infinite shows in the error
        return node.op.evaluate(cast("Any", operands), node.attributes)[0]


def is_worth(before: Measured, after: Measured, *, longer: bool = False) -> bool:
    """Tell whether an error fell far enough: of all, or where the program is as long as before of a channel alone.

    Large channels hide what small ones are off; a norm or slice behind them may make those as large.

    >>> hidden = Measured(0.0002, 1, (0.0002, 0.01)), Measured(0.0002, 1, (0.0002, 0.0003))
    >>> is_worth(*hidden), is_worth(*hidden, longer=True), is_worth(Measured(0.01, 1), Measured(0.002, 1))
    (True, False, True)
    """
    longer = longer or after.layers > before.layers
    chosen = policy().worth_a_layer if longer else policy().worth
    if after.error <= before.error * chosen.part and after.error < before.error:
        return True
    grown = policy().loss.one
    if longer or after.error > before.error * grown:
        return False
    part = policy().worth_a_layer.part
    pairs = list(zip(before.channels, after.channels, strict=True))
    return any(then > RESULT_STEP and now <= then * part for then, now in pairs)


def not_worth(before: Measured, after: Measured) -> str:
    """Return why a rescaling that was tried is not kept."""
    return f"scaled it has an error of {percent(after.error)} against {percent(before.error)}, too small a gain"


def applied(
    name: str,
    node: Node,
    operand: str,
    exponents: tuple[int, ...],
    before: Measured,
    after: Measured,
    margin: float,
) -> ProductRescaling:
    """Return the report of a product that is rescaled."""
    op, place = node.op.name, node.location
    return ProductRescaling(
        name, op, place, operand, exponents, before.error, after.error, margin, applied=True, reason=""
    )


def left(name: str, node: Node, before: Measured, margin: float, reason: str) -> Trial:
    """Return the trial of a product that stays as it was."""
    return Trial((as_it_was(applied(name, node, "", (0,), before, before, margin), reason),), None)


def not_tried(products: Sequence[tuple[Node, str]], reason: str) -> Trial:
    """Return the trial of products that could not be tried; nothing was measured of them."""
    unknown = Measured(math.nan, 0)
    reports = [applied(name, node, "", (0,), unknown, unknown, math.nan) for node, name in products]
    return Trial(tuple(as_it_was(one, reason) for one in reports), None)


def as_it_was(report: ProductRescaling, reason: str) -> ProductRescaling:
    """Return the report of a product that stays as it was."""
    error, margin = report.error_before, report.margin + max(report.exponents)
    return replace(report, operand="", exponents=(0,), error_after=error, margin=margin, applied=False, reason=reason)
