"""The one loop of rescaling: propose a change, rewrite the graph, judge it, and keep the change or refuse it.

Every proposal is first tried on only its nodes, on the engine, with what they were seen to read. What is worth it
there is judged together on the whole graph: it stays where it makes an output better and none worse, on the inputs that
factors were chosen by, on fresh ones of the same distribution, and on some of other sizes (`error_changes`). Where all
together do not, those that made outputs worse are left out, and then those that gain least.

Norms come first, then products by what they read now. A norm whose squares overflow gives zeros, or numbers far too
large, so what later layers were seen to read shows nothing about them until it is rescaled.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.optimise.rescaling.engine_errors import NodeError, Reading, measure_node
from aneforge.optimise.rescaling.error_changes import OtherSizes, compare_graph, measure_left
from aneforge.optimise.rescaling.graph_edits import Edit, edit_graph
from aneforge.optimise.rescaling.operand_sizes import observe
from aneforge.optimise.rescaling.power_exponents import RESULT_STEP
from aneforge.optimise.rescaling.product_operands import find_state_readers, get_sizing_tensors
from aneforge.optimise.rescaling.proposals import Proposal, Situation
from aneforge.optimise.rescaling.rescaling_policy import policy
from aneforge.optimise.rescaling.rescaling_report import ProductRescaling, format_percent
from aneforge.optimise.rescaling.scale_norms import find_norms
from aneforge.optimise.rescaling.scale_tensors import find_tensor_products, find_unscalable
from aneforge.optimise.rescaling.scale_weights import find_weighted_products
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node, Output
    from aneforge.optimise.rescaling.engine_errors import GraphErrors
    from aneforge.optimise.rescaling.error_changes import Expected
    from aneforge.optimise.rescaling.graph_edits import Change, Edited
    from aneforge.optimise.rescaling.proposals import Member, Seen, Strategy
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]
    Bounds = Mapping[tuple[Node, int], float]

__all__ = ["TrialBasis", "TrialLoop", "find_operands", "find_reached_outputs", "is_worth", "loses_nothing"]

NOT_BETTER = "with it an output of the whole graph was worse on some inputs, or no output gained enough to count"
LOSES_ELSEWHERE = "with it an output of the whole graph was worse for smaller or larger inputs"
READS_STATE = "it reads values that depend on a state, whose later values are not shown by runs that start from zeros"
UNKNOWN = NodeError(math.nan, 0)


def find_operands(graph: Graph) -> tuple[Output, ...]:
    """Return the tensors that products and norms read, whose sizes decide by how much these can be rescaled.

    Those that depend on a state are not among them: a run shows one moment of it.
    """
    found = [product.read for product in find_weighted_products(graph)]
    found += [value for group in find_tensor_products(graph) for node in group.nodes for value in node.sources()]
    found += [group.shared for group in find_norms(graph)]
    hidden = find_state_readers(graph)
    return tuple({(value.node, value.index): value for value in found if value.node not in hidden}.values())


@dataclass(frozen=True, slots=True)
class TrialBasis:
    """What rescalings are judged by."""

    target: Target
    expected: Expected
    shown: Sequence[Sample]
    """Inputs that show how large operands get."""
    bounds: Bounds | None
    """Magnitudes of the graph that was given that are proven, in the place of those that are seen."""
    safety: int
    tries_several: bool = False
    """Factors are chosen by the values of some of those, where the first show no gain."""
    smaller: Sequence[Sample] = ()
    """Inputs on which nothing may be worse; with bounds that are proven of the sizes of `small_rows` in turns."""
    larger: Sequence[Sample] = ()
    """Inputs on which nothing may be worse on the mean."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What trying a proposal gave: a report for each of its nodes, and the change, where it is worth it."""

    nodes: tuple[Node, ...]
    reports: tuple[ProductRescaling, ...]
    change: Change | None = None
    only_mends: bool = False
    """It shows no gain, and is for sums that may pass the edge with other inputs."""

    @property
    def gain(self) -> float:
        """The part of the error that is left."""
        return min((one.error_after / one.error_before for one in self.reports if one.error_before), default=1.0)

    def refuse(self, reason: str) -> Trial:
        """Return a trial that the whole graph refused."""
        return replace(self, reports=tuple(one.refuse(reason) for one in self.reports), change=None)


@dataclass(frozen=True, slots=True)
class Kept:
    """Trials that stay, and the graph with them."""

    trials: Sequence[Trial]
    edited: Edited
    errors: GraphErrors


class TrialLoop:
    """A graph during rescaling: its present form, its errors, and what is reported of its products and norms."""

    def __init__(self, graph: Graph, errors: GraphErrors, basis: TrialBasis) -> None:
        self.graph, self.errors, self.basis = graph, errors, basis
        less, small = policy().less, policy().small_rows
        unless, paid = (less.unless, math.inf) if basis.bounds is None else (small.unless, small.worse)
        others = [*basis.smaller, *basis.larger]
        self.other_sizes = OtherSizes(basis.target, others, unless, paid, len(basis.larger))
        self.origins = {node: node for node in graph.nodes}
        """The nodes of the graph that was given, by those of the graph as it is now."""
        self.names = {node: f"t{number}" for number, node in enumerate(graph.nodes)}
        self.reports: dict[str, ProductRescaling] = {}
        """By the name of the node in the graph that was given."""

    def run(self) -> None:
        """Rescale norms as long as some gain, then products, then norms whose gain the errors of products hid.

        Of products those come first whose sums pass the edge for some inputs.
        """
        situation = self.observe_operands()
        for _ in range(policy().norm_rounds.most):
            if not self.keep(self.try_norms(situation)):
                break
            situation = self.observe_operands()
        hidden = any(report.reason in {NOT_BETTER, LOSES_ELSEWHERE} for report in self.reports.values())
        trials = self.try_products(situation)
        if self.keep([trial for trial in trials if trial.only_mends]):
            trials = self.try_products(self.observe_operands())  # sums that pass the edge hide what others are off
        if self.keep([trial for trial in trials if not trial.only_mends]) and hidden:
            self.keep(self.try_norms(self.observe_operands()))

    def observe_operands(self) -> Situation:
        """Return what the operands of the graph as it is now are seen or known to be."""
        basis, graph, values = self.basis, self.graph, find_operands(self.graph)
        count = policy().samples.most if basis.tries_several else 1
        by_samples = basis.tries_several and basis.bounds is None
        observed = observe(graph, values, basis.target, basis.shown, kept=count, places=by_samples)
        if basis.bounds is not None:
            keys = [(value.node, value.index) for value in values if value.node in self.origins]
            proven = {key: basis.bounds.get((self.origins[key[0]], key[1]), float("inf")) for key in keys}
            observed = observed.replace_sizes(proven)

        def observe_small() -> list[Seen]:
            sizes = len(policy().small_rows.parts)
            return [observe(graph, values, basis.target, [one]).seen[0] for one in basis.smaller[:sizes]]

        names = {node: self.names[origin] for node, origin in self.origins.items()}
        return Situation(graph, basis.target, names, observed, basis.safety, by_samples, cache(observe_small))

    def try_norms(self, situation: Situation) -> list[Trial]:
        """Try every norm that was not rescaled yet."""
        return list(self.try_strategies(find_norms(self.graph), situation))

    def try_products(self, situation: Situation) -> list[Trial]:
        """Try every product that was not rescaled yet, and say of the others why they cannot be."""
        strategies: list[Strategy] = [*find_weighted_products(self.graph), *find_tensor_products(self.graph)]
        refused = [Proposal.refuse([node], reason) for node, reason in find_unscalable(self.graph)]
        return [*self.try_strategies(strategies, situation), *(try_proposal(one, situation) for one in refused)]

    def try_strategies(self, strategies: Iterable[Strategy], situation: Situation) -> Iterator[Trial]:
        """Return the first proposal of every strategy that is worth it on only its nodes, or else the first of all.

        Later proposals are made on demand. What gains for one sample may lose for another; that is seen on the whole
        graph, which is judged on all of them.
        """
        hidden = find_state_readers(self.graph)
        for strategy in strategies:
            if any(self.is_done(node) for node in strategy.nodes):
                continue
            reason = find_hindrance(strategy.nodes, situation.observed.most, hidden)
            proposals = iter([Proposal.refuse(strategy.nodes, reason)]) if reason else strategy.propose(situation)
            trials = (try_proposal(one, situation) for one in proposals)
            first = next(trials)
            yield next((one for one in chain([first], trials) if one.change is not None), first)

    def is_done(self, node: Node) -> bool:
        """Return whether a node was rescaled already."""
        report = self.reports.get(self.names[self.origins[node]])
        return report is not None and report.applied

    def keep(self, trials: Sequence[Trial]) -> bool:
        """Rescale what makes outputs better, report what became of the rest, and return whether anything was."""
        kept, reason = self.judge([trial for trial in trials if trial.change is not None])
        for trial in trials:
            stays = trial.change is None or (kept is not None and any(trial is one for one in kept.trials))
            reports = trial.reports if stays else trial.refuse(reason).reports
            self.reports.update({report.name: report for report in reports})
        if kept is None:
            return False
        self.graph, self.errors = kept.edited.graph, kept.errors
        self.origins = {now: self.origins[node] for now, node in kept.edited.origins.items() if node in self.origins}
        return True

    def judge(self, trials: Sequence[Trial]) -> tuple[Kept | None, str]:
        """Return the trials that together make no output worse, and why the others, or all of them, do not stay."""
        basis, reason = self.basis, NOT_BETTER
        left = sorted(trials, key=lambda trial: trial.gain)
        while left:
            edited = edit_graph(self.graph, [trial.change for trial in left if trial.change is not None])
            after = compare_graph(self.errors, edited.graph, basis.target, basis.expected)
            worse = after.worse
            if after.errors is not None:
                gained = measure_left(self.errors, after.errors)
                worse = self.other_sizes.find_worse(self.graph, edited.graph, gained)
                if not worse:
                    return Kept(left, edited, after.errors), reason
                reason = LOSES_ELSEWHERE
            elif after.moved < policy().moved.part:
                break
            left = self.leave_out(left, worse)
        return None, reason

    def leave_out(self, trials: Sequence[Trial], worse: frozenset[str]) -> Sequence[Trial]:
        """Return some of the trials that together made outputs worse.

        Those that no other output depends on are left out; if there are none, those that such an output depends on; and
        where that leaves nothing, the half that gains least.
        """
        reached = find_reached_outputs(self.graph)
        touched = [frozenset[str]().union(*(reached[node] for node in trial.nodes)) for trial in trials]
        with_others = [trial for trial, names in zip(trials, touched, strict=True) if names - worse]
        without_worse = [trial for trial, names in zip(trials, touched, strict=True) if not names & worse]
        for some in (with_others, without_worse):
            if 0 < len(some) < len(trials):
                return some
        return trials[: len(trials) // 2]


def find_hindrance(nodes: Sequence[Node], most: Bounds, hidden: frozenset[Node]) -> str:
    """Return why products cannot be judged; empty where they can."""
    if any(node in hidden for node in nodes):
        return READS_STATE
    found = [most.get((value.node, value.index), float("inf")) for node in nodes for value in get_sizing_tensors(node)]
    if not np.all(np.isfinite(found)):
        return "its operands are not bounded by finite numbers"
    return "" if all(found) else "its operands were zero throughout"


def find_reached_outputs(graph: Graph) -> dict[Node, frozenset[str]]:
    """Return for every node the outputs, and states, that depend on it."""
    found: dict[Node, frozenset[str]] = dict.fromkeys(graph.nodes, frozenset())
    named = {**graph.outputs, **{f"state {name}": value for name, value in graph.states.items()}}
    for name, value in named.items():
        found[value.node] |= {name}
    for node in reversed(graph.nodes):
        for source in node.sources():
            found[source.node] |= found[node]
    return found


def try_proposal(proposal: Proposal, situation: Situation) -> Trial:
    """Try a proposal on only its nodes, each with what it was seen to read."""
    pairs = [measure_member(one, one.reading, proposal, situation.target) for one in proposal.members]
    if proposal.otherwise is not None and any(after.layers > before.layers for before, after in pairs):
        other = proposal.otherwise()
        if other is not None:
            return try_proposal(other, situation)
    reason = proposal.reason or find_refusal(proposal, pairs, situation)
    reports = tuple(
        report_member(member, pair, () if reason else proposal.exponents, situation.names[member.node])
        for member, pair in zip(proposal.members, pairs, strict=True)
    )
    nodes = tuple(member.node for member in proposal.members)
    if reason:
        return Trial(nodes, tuple(replace(one, reason=reason) for one in reports))
    worth = all(is_worth(*pair, longer=proposal.longer) for pair in pairs)
    return Trial(nodes, reports, proposal.change, only_mends=not worth)


def measure_member(
    member: Member, reading: Reading | None, proposal: Proposal, target: Target
) -> tuple[NodeError, NodeError]:
    """Return the error of a node by itself, as it is and as proposed."""
    if reading is None:
        return UNKNOWN, UNKNOWN
    before = measure_node(member.node, Edit(), reading, target, proposal.axis)
    if proposal.reason:
        return before, before
    factor = 2.0 ** proposal.exponents[0]
    scaled = {name: value * factor if name == member.operand else value for name, value in reading.values.items()}
    edit = proposal.change[member.node]
    return before, measure_node(member.node, edit, replace(reading, values=scaled), target, proposal.axis)


def find_refusal(proposal: Proposal, pairs: Sequence[tuple[NodeError, NodeError]], situation: Situation) -> str:
    """Return why a proposal is not worth it on only its nodes; empty where it is."""
    for member, (before, after) in zip(proposal.members, pairs, strict=True):
        worth = is_worth(before, after, longer=proposal.longer)
        if not worth and not (proposal.may_help_others and loses_nothing(before, after, proposal.exponents)):
            return f"{compare_texts(before, after)}, too small a gain"
        lost = find_lost_rows(member, proposal, situation) if proposal.keeps_small else ""
        if lost:
            return lost
    return ""


def find_lost_rows(member: Member, proposal: Proposal, situation: Situation) -> str:
    """Return why a norm is not to be scaled down: rows far smaller than declared would be lost; empty where none is."""
    chosen = policy().small_rows
    for part, seen in zip(chosen.parts, situation.small(), strict=True):
        reading = Reading.take(member.node, seen)
        before, after = measure_member(member, reading, proposal, situation.target)
        if after.error > chosen.worse * max(before.error, RESULT_STEP):
            size = f"2^{math.log2(part):g}"
            return (
                f"for inputs of {size} of their ranges {compare_texts(before, after)}; "
                "inputs= judges by the rows that occur"
            )
    return ""


def report_member(
    member: Member, pair: tuple[NodeError, NodeError], exponents: tuple[int, ...], name: str
) -> ProductRescaling:
    """Return the report of a node: rescaled by exponents, or as it was without any."""
    before, after = pair
    applied = bool(exponents)
    return ProductRescaling(
        name,
        member.node.op.name,
        member.node.location,
        member.operand if applied else "",
        exponents or (0,),
        before.error,
        after.error if applied else before.error,
        member.margins[applied],
        applied,
        reason="",
    )


def is_worth(before: NodeError, after: NodeError, *, longer: bool = False) -> bool:
    """Return whether an error fell far enough: of all, or of one channel, if the program is as long as before.

    Large channels hide what small ones are off; a norm or slice after them may make those as large.

    >>> hidden = NodeError(0.0002, 1, (0.0002, 0.01)), NodeError(0.0002, 1, (0.0002, 0.0003))
    >>> is_worth(*hidden), is_worth(*hidden, longer=True), is_worth(NodeError(0.01, 1), NodeError(0.002, 1))
    (True, False, True)
    """
    longer = longer or after.layers > before.layers
    chosen = policy().worth_a_layer if longer else policy().worth
    if after.error <= before.error * chosen.part and after.error < before.error:
        return True
    if longer or after.error > before.error * policy().loss.one:
        return False
    part = policy().worth_a_layer.part
    pairs = zip(before.channels, after.channels, strict=True)
    return any(then > RESULT_STEP and now <= then * part for then, now in pairs)


def loses_nothing(before: NodeError, after: NodeError, exponents: Sequence[int]) -> bool:
    """Return whether what is scaled down loses nothing on a sample, so that other inputs may show what it is good for.

    >>> fine, worse = NodeError(0.01, 1), NodeError(0.02, 1)
    >>> loses_nothing(fine, fine, (-2, 0)), loses_nothing(fine, fine, (2, 0)), loses_nothing(fine, worse, (-2,))
    (True, False, False)
    """
    return min(exponents) < 0 and after.error <= before.error * policy().loss.one


def compare_texts(before: NodeError, after: NodeError) -> str:
    """Return what a rescaling did to the error of a product or norm by itself."""
    return f"its error is {format_percent(after.error)} rescaled and {format_percent(before.error)} as it was"
