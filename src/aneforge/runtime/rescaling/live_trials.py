"""Products of two tensors: one exponent for a tensor that several share, tried with each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.runtime.rescaling.choosing import edge_margin, joined, limits, operand_margin, wanted
from aneforge.runtime.rescaling.gains import gains_behind
from aneforge.runtime.rescaling.measuring import Measured, alone, measured_alone
from aneforge.runtime.rescaling.policy import policy
from aneforge.runtime.rescaling.products import ATTENTION, contracted, depth_of, second_of, tensors_of
from aneforge.runtime.rescaling.rewriting import LiveScaling, times
from aneforge.runtime.rescaling.trials import (
    GRID_COSTS_NOTHING,
    NO_ROOM,
    Trial,
    applied,
    as_it_was,
    by_channel,
    exact_result,
    first_worth,
    growth_of,
    is_worth,
    mends,
    not_worth,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.graph.node import Node, Output
    from aneforge.runtime.rescaling.observing import Observed
    from aneforge.runtime.rescaling.products import LiveGroup
    from aneforge.runtime.rescaling.report import ProductRescaling
    from aneforge.runtime.rescaling.trials import Read, Situation

    Array = npt.NDArray[Any]

__all__ = ["try_live"]


def try_live(group: LiveGroup, situation: Situation) -> Trial:
    """Choose an exponent for a tensor that products share, and try it with each."""
    return first_worth(live_on(group, situation, seen) for seen in situation.observed.seen)


def live_on(group: LiveGroup, situation: Situation, read: Read) -> Trial:
    """Choose an exponent by what products read for one sample, and try it with each."""
    observed = situation.observed
    magnitude = observed.magnitude(group.shared)
    most = magnitude * 2.0**situation.safety
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
    worth = True
    reason = "" if exponent else NO_ROOM if asked else GRID_COSTS_NOTHING
    for (node, name, operand, values, exact, before), reach in zip(tried, reaches, strict=True):
        after = before
        if exponent:
            result, _ = alone(node, node.operands)
            scaled = {**values, operand: values[operand] * 2.0**exponent}
            after = measured_alone(times(result, (-exponent,), 0, None), scaled, exact, situation.target)
            gained = is_worth(before, after, longer=group.host is None)
            kept = gained or mends(before, after, (exponent,))
            reason, worth = reason or ("" if kept else not_worth(before, after)), worth and gained
        margin = min(edge_margin(np.array([reach]), (exponent,)), operand_margin(magnitude, exponent))
        reports.append(applied(name, node, operand, (exponent,), before, after, margin))
    if reason:
        return Trial(tuple(as_it_was(one, reason) for one in reports), None)
    return Trial(tuple(reports), LiveScaling(group, exponent), only_mends=not worth)


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
