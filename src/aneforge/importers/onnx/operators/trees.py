"""Ensembles of decision trees, without a branch.

All decisions are made at once, for every inner node of every tree. A leaf is reached if the decisions on its way are
all as its way asks, that is, if their number is the way's length; so one product with a constant matrix counts for
every leaf, and one more adds up the weights of those that are reached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from aneforge.errors import GraphError
from aneforge.importers.onnx.operators.learning import DOMAIN, TRANSFORMS, transformed
from aneforge.importers.onnx.registry import operator
from aneforge.importers.onnx.values import Foreign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aneforge.importers.emitter import Emitter
    from aneforge.importers.onnx.call import Call
    from aneforge.importers.onnx.values import Value
    from aneforge.ops.types import Array

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
COMPARISONS: dict[str, str] = dict(
    zip(MODES, ("less_equal", "less", "greater_equal", "greater", "equal", "not_equal"), strict=False)
)
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
MATRIX_MOST = 2**26
"""Elements of the matrix of decisions and leaves."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An inner node: one feature compared with a number, or looked up in a set."""

    feature: int
    mode: str
    split: float
    missing_is_true: bool
    members: tuple[float, ...] = ()


@dataclass(slots=True)
class Forest:
    """All trees: decisions, and for every leaf its way and its weights."""

    decisions: list[Decision] = field(default_factory=list[Decision])
    ways: list[dict[int, bool]] = field(default_factory=list[dict[int, bool]])
    """For every leaf, which decisions lead to it, and how each must come out."""
    votes: list[dict[int, float]] = field(default_factory=list[dict[int, float]])
    """For every leaf, what it counts for each target."""
    trees: int = 0


@operator("TreeEnsemble", domain=DOMAIN)
def tree_ensemble(call: Call) -> Value:
    """Convert trees whose leaves have a list of their own."""
    forest = forest_with_leaves(call)
    aggregate, transform = call.integer("aggregate_function"), call.integer("post_transform")
    if not 0 <= aggregate < len(AGGREGATES) or not 0 <= transform < len(TRANSFORMS):
        raise GraphError("aggregate_function or post_transform is not known", seen=f"{aggregate}, {transform}")
    scores = scores_of(call, forest, target_count(call), AGGREGATES[aggregate])
    return call.emit.cast(transformed(call.emit, scores, TRANSFORMS[transform]), call.value(0).type.dtype)


def target_count(call: Call) -> int:
    """Return the number of targets.

    Raises:
        GraphError: It is not given.
    """
    count = call.integer("n_targets")
    if count < 1:
        raise GraphError("there is no target", seen=count)
    return count


def numbers(call: Call, name: str, count: int | None = None) -> list[float]:
    """Return an attribute that is a list or a tensor of numbers.

    Raises:
        GraphError: It has another length than it should.
    """
    attribute = call.attribute(name)
    if attribute.HasField("t"):
        found = call.surroundings.constant(attribute.t)
        if isinstance(found, Foreign):
            raise GraphError(f"{name} is {found.what}")
        listed = [float(one) for one in found.dense().reshape(-1)]
    else:
        listed = [float(one) for one in (*attribute.floats, *attribute.ints)]
    if count is not None and len(listed) != count:
        raise GraphError(f"{name} has another length than the nodes", seen=len(listed), limit=count)
    return listed


def forest_with_leaves(call: Call) -> Forest:
    """Return the trees of the newer operator.

    Raises:
        GraphError: A node is out of range or reached twice.
    """
    features = [int(one) for one in numbers(call, "nodes_featureids")]
    count = len(features)
    modes = [mode_named(int(one)) for one in numbers(call, "nodes_modes", count)]
    splits = numbers(call, "nodes_splits", count)
    has_missing = call.has("nodes_missing_value_tracks_true")
    missing = numbers(call, "nodes_missing_value_tracks_true", count) if has_missing else [0.0] * count
    sets = member_sets(call)
    members = [sets.pop(0) if mode == "BRANCH_MEMBER" and sets else () for mode in modes]
    sides = [
        ([int(one) for one in numbers(call, f"nodes_{side}nodeids", count)], numbers(call, f"nodes_{side}leafs", count))
        for side in ("false", "true")
    ]
    targets, weights = numbers(call, "leaf_targetids"), numbers(call, "leaf_weights")
    forest = Forest(
        [Decision(*parts) for parts in zip(features, modes, splits, map(bool, missing), members, strict=True)]
    )
    seen: set[int] = set()
    roots = [int(one) for one in numbers(call, "tree_roots")]
    stack: list[tuple[int, dict[int, bool]]] = [(root, {}) for root in reversed(roots)]
    forest.trees = len(roots)
    while stack:
        expect_room(forest, len(stack))
        node, way = stack.pop()
        if not 0 <= node < count or node in seen:
            raise GraphError("a tree's node is out of range or reached twice", seen=node, limit=count - 1)
        seen.add(node)
        if all(leafs[node] for _, leafs in sides) and sides[0][0][node] == sides[1][0][node]:
            add_leaf(forest, way, sides[0][0][node], targets, weights)  # a tree that is a single leaf
            continue
        for outcome, (ids, leafs) in zip((False, True), sides, strict=True):
            if leafs[node]:
                add_leaf(forest, {**way, node: outcome}, ids[node], targets, weights)
            else:
                stack.append((ids[node], {**way, node: outcome}))
    return forest


def expect_room(forest: Forest, waiting: int) -> None:
    """Check that decisions by leaves are no larger matrix than may be; a node that waits becomes a leaf at least.

    It is asked while the ways are listed, which take as much.

    Raises:
        GraphError: They are.
    """
    leaves = len(forest.ways) + waiting
    if len(forest.decisions) * leaves > MATRIX_MOST:
        raise GraphError("the trees are too large", seen=f"{len(forest.decisions)} by {leaves}", limit=MATRIX_MOST)


def add_leaf(
    forest: Forest, way: dict[int, bool], leaf: int, targets: Sequence[float], weights: Sequence[float]
) -> None:
    """Add a leaf of the newer operator.

    Raises:
        GraphError: There is no such leaf.
    """
    if not 0 <= leaf < len(weights) or len(targets) != len(weights):
        raise GraphError("a tree's leaf is out of range", seen=leaf, limit=len(weights) - 1)
    forest.ways.append(way)
    forest.votes.append({int(targets[leaf]): weights[leaf]})


def mode_named(number: int) -> str:
    """Return the name of a comparison.

    Raises:
        GraphError: There is none.
    """
    if not 0 <= number < len(MODES):
        raise GraphError("a node's comparison is not known", seen=number, limit=len(MODES) - 1)
    return MODES[number]


def member_sets(call: Call) -> list[tuple[float, ...]]:
    """Return the sets that nodes look their features up in; NaN ends one."""
    if not call.has("membership_values"):
        return []
    found: list[tuple[float, ...]] = []
    current: list[float] = []
    for one in numbers(call, "membership_values"):
        if math.isnan(one):
            found.append(tuple(current))
            current = []
        else:
            current.append(one)
    return [*found, tuple(current)] if current else found


@operator("TreeEnsembleRegressor", domain=DOMAIN)
def tree_regressor(call: Call) -> Value:
    """Convert trees whose leaves are nodes, with votes of their own."""
    forest, base = forest_of_nodes(call)
    emit, targets = call.emit, target_count(call)
    scores = scores_of(call, forest, targets, call.choice("aggregate_function", *AGGREGATES))
    if base:
        scores = emit.add(scores, emit.constant(base, "fp64"))
    return emit.cast(transformed(emit, scores, call.choice("post_transform", *TRANSFORMS)), "fp32")


def forest_of_nodes(call: Call) -> tuple[Forest, list[float]]:
    """Return the trees of the older operator, and what is added to the scores.

    Raises:
        GraphError: A child is not there, or a node is reached twice.
    """
    trees, ids = ([int(one) for one in numbers(call, f"nodes_{name}")] for name in ("treeids", "nodeids"))
    count = len(ids)
    values = numbers(call, "nodes_values_as_tensor" if call.has("nodes_values_as_tensor") else "nodes_values", count)
    features = numbers(call, "nodes_featureids", count)
    modes = [one.decode(errors="replace") for one in call.attribute("nodes_modes").strings]
    has_missing = call.has("nodes_missing_value_tracks_true")
    missing = numbers(call, "nodes_missing_value_tracks_true", count) if has_missing else [0.0] * count
    children = [numbers(call, f"nodes_{side}nodeids", count) for side in ("false", "true")]
    if len(modes) != count or len(trees) != count or not set(modes) <= {*COMPARISONS, "LEAF"}:
        raise GraphError("the nodes' lists do not go together", seen=f"{len(modes)} modes", limit=count)
    places = {key: place for place, key in enumerate(zip(trees, ids, strict=True))}
    votes = votes_of(call, places)
    forest = Forest()
    kept = [place for place in range(count) if modes[place] != "LEAF"]
    own = {place: number for number, place in enumerate(kept)}
    forest.decisions = [
        Decision(int(features[place]), modes[place], values[place], bool(missing[place])) for place in kept
    ]
    first: dict[int, int] = {}
    for tree, node in places:
        first[tree] = min(node, first.get(tree, node))
    roots = [places[key] for key in first.items()]
    forest.trees = len(roots)
    stack: list[tuple[int, dict[int, bool]]] = [(root, {}) for root in reversed(roots)]
    seen: set[int] = set()
    while stack:
        expect_room(forest, len(stack))
        node, way = stack.pop()
        if node in seen:
            raise GraphError("a tree's node is reached twice", seen=ids[node])
        seen.add(node)
        if modes[node] == "LEAF":
            forest.ways.append(way)
            forest.votes.append(votes.get(node, {}))
            continue
        for outcome, side in zip((False, True), children, strict=True):
            key = trees[node], int(side[node])
            if key not in places:
                raise GraphError("a tree's child is not there", seen=key)
            stack.append((places[key], {**way, own[node]: outcome}))
    base_name = "base_values_as_tensor" if call.has("base_values_as_tensor") else "base_values"
    return forest, numbers(call, base_name) if call.has(base_name) else []


def votes_of(call: Call, places: dict[tuple[int, int], int]) -> dict[int, dict[int, float]]:
    """Return what leaves count for each target."""
    name = "target_weights_as_tensor" if call.has("target_weights_as_tensor") else "target_weights"
    weights = numbers(call, name)
    lists = [
        [int(one) for one in numbers(call, f"target_{part}", len(weights))] for part in ("treeids", "nodeids", "ids")
    ]
    found: dict[int, dict[int, float]] = {}
    for tree, node, target, weight in zip(*lists, weights, strict=True):
        if (tree, node) not in places:
            raise GraphError("a vote is for a node that is not there", seen=(tree, node))
        own = found.setdefault(places[tree, node], {})
        own[target] = own.get(target, 0.0) + weight
    return found


def scores_of(call: Call, forest: Forest, targets: int, aggregate: str) -> Value:
    """Return what the trees give for every target: [N, targets]."""
    emit = call.emit
    x = emit.cast(call.value(0), "fp64")
    if x.type.rank != 2 or any(not 0 <= target < targets for votes in forest.votes for target in votes):
        raise GraphError(
            "features are not [N, F], or a leaf votes for no target", seen=list(x.type.shape), limit=targets
        )
    leaves = len(forest.ways)
    expect_room(forest, 0)
    emit.room(leaves, targets)
    reached = leaves_reached(emit, x, forest)
    weights = np.zeros((leaves, targets))
    for leaf, votes in enumerate(forest.votes):
        for target, weight in votes.items():
            weights[leaf, target] = weight
    if aggregate in ("SUM", "AVERAGE"):
        total = emit.matmul(reached, emit.constant(weights, "fp64"))
        return total if aggregate == "SUM" else emit.mul(total, 1 / max(forest.trees, 1))
    return extreme_of(emit, reached, weights, forest, lowest=aggregate == "MIN")


def leaves_reached(emit: Emitter, x: Value, forest: Forest) -> Value:
    """Return 1 for every leaf that is reached and 0 for the others: [N, leaves]."""
    if not forest.decisions or not any(forest.ways):
        return emit.filled((x.type.shape[0], len(forest.ways)), 1, "fp64")
    signs = np.zeros((len(forest.decisions), len(forest.ways)))
    for leaf, way in enumerate(forest.ways):
        for node, outcome in way.items():
            signs[node, leaf] = 1.0 if outcome else -1.0
    trues = np.array([sum(way.values()) for way in forest.ways], np.float64)
    agreed = emit.matmul(decisions_made(emit, x, forest), emit.constant(signs, "fp64"))
    return emit.cast(emit.binary("equal", agreed, emit.constant(trues, "fp64")), "fp64")


def decisions_made(emit: Emitter, x: Value, forest: Forest) -> Value:
    """Return 1 for every decision that comes out true and 0 for the others: [N, decisions]."""
    nodes = forest.decisions
    if any(not 0 <= node.feature < x.type.shape[1] for node in nodes):
        raise GraphError("a tree asks for a feature that is not there", limit=x.type.shape[1] - 1)
    seen = emit.take(x, [node.feature for node in nodes], 1)
    splits = emit.constant([node.split for node in nodes], "fp64")
    result = emit.constant(np.zeros((1, len(nodes))), "bool")
    for mode in dict.fromkeys(node.mode for node in nodes):
        own = emit.constant([node.mode == mode for node in nodes], "bool")
        made = (
            members_made(emit, seen, nodes) if mode == "BRANCH_MEMBER" else emit.binary(COMPARISONS[mode], seen, splits)
        )
        result = emit.binary("logical_or", result, emit.binary("logical_and", made, own))
    if any(node.missing_is_true for node in nodes):
        missing = emit.binary("not_equal", seen, seen)
        tracks = emit.constant([node.missing_is_true for node in nodes], "bool")
        result = emit.binary("logical_or", result, emit.binary("logical_and", missing, tracks))
    return emit.cast(result, "fp64")


def members_made(emit: Emitter, seen: Value, nodes: Sequence[Decision]) -> Value:
    """Return whether features are among the members of their nodes' sets."""
    longest = max(len(node.members) for node in nodes)
    emit.room(len(nodes), longest)
    table = np.full((len(nodes), max(longest, 1)), np.nan)  # equal to nothing
    for place, node in enumerate(nodes):
        table[place, : len(node.members)] = node.members
    same = emit.binary("equal", emit.expand(seen, -1), emit.constant(table, "fp64"))
    return emit.cast(emit.reduce("reduce_max", emit.cast(same, "int32"), (-1,), keep=False), "bool")


def extreme_of(emit: Emitter, reached: Value, weights: Array, forest: Forest, *, lowest: bool) -> Value:
    """Return the smallest or largest weight among the leaves that are reached, for every target; 0 where none votes."""
    votes = np.array([[target in own for target in range(weights.shape[1])] for own in forest.votes])
    edge = math.inf if lowest else -math.inf
    known = emit.constant(np.where(votes, weights, edge), "fp64")
    chosen = emit.select(emit.cast(emit.expand(reached, -1), "bool"), known, emit.number(edge, known))
    result = emit.reduce("reduce_min" if lowest else "reduce_max", chosen, (1,), keep=False)
    return emit.select(emit.binary("equal", result, edge), emit.number(0, result), result)
