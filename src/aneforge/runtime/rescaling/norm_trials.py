"""Norms: one exponent for a tensor that several read, tried with each, and with rows that are far smaller."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.runtime.rescaling.choosing import RESULT_STEP, joined
from aneforge.runtime.rescaling.measuring import Measured, alone, measured_alone
from aneforge.runtime.rescaling.norms import exponents_of, norm_margin, norm_reach, rescaled_norm
from aneforge.runtime.rescaling.policy import policy
from aneforge.runtime.rescaling.report import ProductRescaling
from aneforge.runtime.rescaling.rewriting import NormScaling
from aneforge.runtime.rescaling.trials import (
    NO_ROOM,
    Trial,
    applied,
    as_it_was,
    compared,
    exact_result,
    first_worth,
    is_worth,
    not_tried,
    not_worth,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from aneforge.graph.node import Node, Output
    from aneforge.runtime.rescaling.norms import NormGroup
    from aneforge.runtime.rescaling.observing import Observed
    from aneforge.runtime.rescaling.trials import Situation
    from aneforge.targets import Target

    Array = npt.NDArray[Any]

__all__ = ["try_norms"]

SQUARES_FIT = "its squares are neither too large nor too small for fp16"


def try_norms(group: NormGroup, situation: Situation) -> Trial:
    """Choose an exponent for a tensor that norms read, and try it with each; what asks for none is not measured.

    What is proven of all inputs may ask for so much that small ones are lost; then smaller factors are tried, down to
    one half, which mend most inputs within their ranges.
    """
    asked, exponent = norm_exponent(group, situation.observed, situation.safety)
    if not exponent:
        return not_tried(group.members, NO_ROOM if asked else SQUARES_FIT)
    less = range(exponent + 1, 0) if situation.observed.proven else ()
    return first_worth(norms_by(group, one, situation) for one in (exponent, *less))


def norm_exponent(group: NormGroup, observed: Observed, safety: int) -> tuple[float, int]:
    """Return the exponent that norms of a tensor ask for, and the one that the edges leave of it."""
    x = group.shared
    most = observed.magnitude(x)
    found = [exponents_of(*norm_reach(node, x, observed), most, safety) for node, _ in group.members]
    asked, limit = max(one for one, _ in found), min(edge for _, edge in found)
    return asked, joined(np.array([asked]), np.array([limit]))[0]


def norms_by(group: NormGroup, exponent: int, situation: Situation) -> Trial:
    """Try one exponent with every norm of a tensor."""
    x, reports, reason = group.shared, list[ProductRescaling](), ""
    for node, name in group.members:
        before, after = try_norm(node, exponent, situation.observed.arrays[x.node, x.index], situation.target)
        reason = reason or ("" if is_worth(before, after, longer=group.host is None) else not_worth(before, after))
        reason = reason or lost_small(node, exponent, x, situation)
        reach, _ = norm_reach(node, x, situation.observed)
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
            told = compared(before, after)
            return f"for inputs of {size} of their ranges {told}; inputs= judges by rows as they are"
    return ""
