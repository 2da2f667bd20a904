"""The dialects of the engines: which operations of a graph are layers of a target, on each of the two routes.

The ordinary route is that of MIL programs: what a model runs is what its MIL says, so an operation that MIL has in
other forms only is not taken as it is here either, unless both have the same bits. The direct route is that of network
descriptions, the only one that reaches the two oldest families; those engines have no native reshape, broadcast or
divide. A reshape runs there if it is a flatten, a broadcast is a product with ones along the channels and an addition
of zeros along other axes, and a division is a product with a reciprocal that was rounded to fp16 beforehand.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, cast

from aneforge.compiler.ir.catalogue import kind_of_op
from aneforge.compiler.lower.lower import RULES
from aneforge.errors import NotSupportedError
from aneforge.formats.mil.dialect import mil_objection
from aneforge.graph.convert import choose
from aneforge.graph.dialect import Dialect, Objection
from aneforge.ops.constant import Constant
from aneforge.ops.declared import Declared
from aneforge.ops.decomposition import Limits
from aneforge.ops.op import Below, Trait
from aneforge.ops.table import find_op
from aneforge.rules.catalogue import explain
from aneforge.rules.nodes import is_quotient, operation_of
from aneforge.rules.operations import op_status
from aneforge.rules.preflight import Status
from aneforge.rules.rule import Severity
from aneforge.targets import Family, Target, family_of
from aneforge.targets.queries import least_limit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.graph.node import Node, Value

__all__ = ["Route", "engine_dialect", "has_direct_form", "is_flatten", "is_lowerable"]

NOT_A_FLATTEN = "cannot be lowered as Flatten on ANE"
"""The compiler's own text for squeeze and expand_dims."""
SPREAD, RECIPROCAL, RESHAPE = "spread first", "reciprocal", "reshape"
"""The decompositions of pairs, divisions and changes of shape that the direct route asks for."""
STRIDE_RULES = ("ANE-STRIDE-001", "ANE-STRIDE-002")
COUNT_RULES = ("ANE-TILE-002",)


class Route(StrEnum):
    """How a program reaches the engine."""

    MIL = "mil"
    DIRECT = "direct"


@cache
def common_limits() -> Limits:
    """Return what there is room for on every target: a graph is decomposed alike for all of them."""
    return Limits(arg_reduction=least_limit("arg_reduction_extent"))


def is_lowerable(op: str) -> bool:
    """Return whether an operation has layers."""
    return op in RULES or kind_of_op(op) is not None


def has_direct_form(op: str) -> bool:
    """Return whether the direct route has a form of its own of an operation, whatever the rules of the other say."""
    entry = find_op(op)
    return op == RESHAPE or any(entry.decomposition(name) is not None for name in (SPREAD, RECIPROCAL, RESHAPE))


def engine_dialect(target: Target, route: Route = Route.MIL) -> Dialect:
    """Return what a target's engine takes on a route.

    Raises:
        NotSupportedError: The direct route was asked for a target that the ordinary one reaches.
    """
    if route is Route.MIL:
        return mil_route(target)
    if target.limits.flag("mil_programs"):
        raise NotSupportedError(
            "the direct route is only for families below the floor of MIL programs",
            target=target.name,
            remedy='use route="mil"',
        )
    return direct_route(target)


def mil_route(target: Target) -> Dialect:
    """Return what an engine takes of a MIL program."""

    @cache
    def missing(op: str) -> Objection | None:
        if op_status(op, target) != Status.NATIVE:
            return Objection(f"{target.name} does not have it")
        return None if is_lowerable(op) else Objection("no layer of the engine computes it")

    def objection(node: Node) -> Objection | None:
        return (
            missing(node.op.name)
            or mil_form(node)
            or built_attention(node)
            or unbuilt_stride(node, target)
            or unbuilt_count(node, target)
        )

    def mil_form(node: Node) -> Objection | None:
        """Return what MIL has against an operation of its own, where the form that it takes has other bits.

        The layers that only network descriptions have do not come from MIL.
        """
        found = mil_objection(node) if node.op.in_mil and not node.attributes.get("native") else None
        chosen = choose(node.op, found, dialect) if found else None
        return None if chosen is None or chosen.same_bits else found

    dialect = Dialect(f"the engine of {target.name}", objection, common_limits())
    return dialect


def built_attention(node: Node) -> Objection | None:
    """Object to attention that does not ask for the engine's own layer: no MIL program reaches that (guide ch. 22)."""
    if node.op.name != "sdpa" or node.flag("native"):
        return None
    return Objection("compilers of MIL programs build attention from products and softmax", decomposition="products")


def unbuilt_stride(node: Node, target: Target) -> Objection | None:
    """Object to a convolution whose stride the rules have something against."""
    if Trait.FORWARD_CONVOLUTION not in node.op.traits or set(node.optional_integers("strides") or ()) <= {1}:
        return None
    return rebuilt(node, target, STRIDE_RULES, "blocks")


def unbuilt_count(node: Node, target: Target) -> Objection | None:
    """Object to a repetition whose count the rules have something against."""
    return rebuilt(node, target, COUNT_RULES, "rows") if node.op.name == "tile" else None


def rebuilt(node: Node, target: Target, rules: Sequence[str], decomposition: str) -> Objection | None:
    """Object to a node that one of some rules says is built from others."""
    subject = operation_of(node, ())
    found = next((one for rule in rules if (one := explain(rule).check(subject, target))), None)
    if found is None or found.severity is not Severity.DECOMPOSE:
        return None
    return Objection(found.message, found.remedy, found.seen, found.limit, decomposition=decomposition)


def direct_route(target: Target) -> Dialect:
    """Return what an engine takes of a network description."""
    family = family_of(target)

    def objection(node: Node) -> Objection | None:
        support = node.op.support
        if support.floor is None:
            why = f"{target.name} does not have it, nor all operations that it is written in elsewhere"
            return Objection(why, final=True)
        if family < support.floor and support.below is Below.DECOMPOSE:
            return Objection(f"{target.name} does not have it")
        if family < support.floor and not (is_quotient(node) or has_direct_form(node.op.name)):
            floor = Family(support.floor).name
            why = f"{target.name} does not have {node.op.name}, which needs the {floor} family or a later one"
            return Objection(why, remedy=f"choose a target of the {floor} family or a later one", final=True)
        return direct_form(node)

    return Dialect(f"the engine of {target.name}, direct", objection, common_limits())


def direct_form(node: Node) -> Objection | None:
    """Return what the engine of an old family has against the form of an operation."""
    op = node.op
    if op.name == RESHAPE or op.decomposition(RESHAPE) is not None:
        return reshape_form(node)
    if op.decomposition(SPREAD) is not None:
        return None if is_spread(node) else Objection("it broadcasts", decomposition=SPREAD)
    if op.decomposition(RECIPROCAL) is not None:
        return Objection("the engine does not divide", decomposition=RECIPROCAL)
    return None if is_lowerable(op.name) else Objection("no layer of the engine computes it")


def is_spread(node: Node) -> bool:
    """Return whether a pair reads tensors of its result's shape, or is the addition of zeros that spreads one."""
    wanted = node.types[0].shape
    zeros = [
        value
        for _, value in node.values()
        if isinstance(value, Constant)
        and not isinstance(value, Declared)
        and value.type.shape == wanted
        and not value.dense().any()
    ]
    return (node.op.name == "add" and bool(zeros)) or all(value.type.shape == wanted for _, value in node.values())


def reshape_form(node: Node) -> Objection | None:
    """Return what is to be said against a change of shape: it is a flatten, or nothing."""
    before, after = cast("Value", node.operands["x"]).type.shape, node.types[0].shape
    if before == after or is_flatten(before, after):
        return None if node.op.name == RESHAPE else Objection("a flatten is a reshape")
    text = NOT_A_FLATTEN if node.op.name in ("squeeze", "expand_dims") else "does not collapse to a flatten"
    return Objection(
        f"{text} (verifyCompatibilityWithFlatten)",
        seen=f"{list(before)} to {list(after)}",
        limit="the batch, then all other elements along one axis",
        final=True,
    )


def is_flatten(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Return whether a reshape keeps the batch and lays all other elements along one axis.

    >>> is_flatten((2, 3, 4, 5), (2, 60)), is_flatten((2, 3, 4, 5), (2, 60, 1, 1)), is_flatten((2, 3, 4), (2, 4, 3))
    (True, True, False)
    """
    if not before or not after or before[0] != after[0]:
        return False
    return sum(extent != 1 for extent in after[1:]) <= 1
