"""Which rescalings stay: norms first, then products by what they read now, each judged on the whole graph.

A norm whose squares overflow gives zeros, or numbers far too large, so what later layers were seen to read tells
nothing about them until it is mended. Rescalings stay where they make an output better and none worse, on the inputs
that factors were chosen by, on fresh ones of the same distribution, and on some of other sizes (`judging`). Where all
together do not, those that made outputs worse are left out, and then those that gain least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from aneforge.runtime.rescaling.judging import OtherSizes, improved, left_of
from aneforge.runtime.rescaling.live_trials import try_live
from aneforge.runtime.rescaling.norm_trials import try_norms
from aneforge.runtime.rescaling.norms import norm_groups
from aneforge.runtime.rescaling.observing import observe
from aneforge.runtime.rescaling.policy import policy
from aneforge.runtime.rescaling.products import (
    depends_on_state,
    left_alone,
    live_groups,
    numbered,
    sized_by,
    tensors_of,
    weighted_products,
)
from aneforge.runtime.rescaling.rewriting import rewritten
from aneforge.runtime.rescaling.trials import Situation, as_it_was, not_tried
from aneforge.runtime.rescaling.weight_trials import try_weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node, Output
    from aneforge.runtime.rescaling.judging import Expected
    from aneforge.runtime.rescaling.measuring import Whole
    from aneforge.runtime.rescaling.report import ProductRescaling
    from aneforge.runtime.rescaling.rewriting import Rewritten
    from aneforge.runtime.rescaling.trials import Trial
    from aneforge.targets import Target

    Array = npt.NDArray[Any]
    Sample = Mapping[str, Array]
    Bounds = Mapping[tuple[Node, int], float]

__all__ = ["Evidence", "Search", "operands_of"]

NOT_BETTER = "with it an output of the whole graph was worse on some inputs, or none gained by as much as counts"
LOSES_ELSEWHERE = "with it an output of the whole graph was worse for smaller or larger inputs"
READS_STATE = "it reads what depends on a state, whose later values no run from zeros shows"


def operands_of(graph: Graph) -> tuple[Output, ...]:
    """Return the tensors that products and norms read, whose sizes decide by how much these can be rescaled.

    Those that depend on a state are not among them: a run shows one moment of it.
    """
    found: list[Output] = [cast("Output", one.node.operands[one.other]) for one in weighted_products(graph)]
    for group in live_groups(graph):
        found += [cast("Output", node.operands[name]) for node, _, _ in group.members for name in tensors_of(node)]
    found += [group.shared for group in norm_groups(graph)]
    hidden = depends_on_state(graph)
    return tuple({(value.node, value.index): value for value in found if value.node not in hidden}.values())


@dataclass(frozen=True, slots=True)
class Evidence:
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


class Search:
    """A graph on its way: what it is now, its errors, and what is to be said of its products and norms."""

    def __init__(self, graph: Graph, errors: Whole, evidence: Evidence) -> None:
        self.graph, self.errors, self.evidence = graph, errors, evidence
        less, small = policy().less, policy().small_rows
        unless, paid = (less.unless, math.inf) if evidence.bounds is None else (small.unless, small.worse)
        others = [*evidence.smaller, *evidence.larger]
        self.other_sizes = OtherSizes(evidence.target, others, unless, paid, len(evidence.larger))
        self.origins = {node: node for node in graph.nodes}
        """The nodes of the graph that was given, by those of the graph as it is now."""
        self.names = {node: name for name, node in numbered(graph)}
        self.reports: dict[str, ProductRescaling] = {}
        """By the name of the node in the graph that was given."""

    def run(self) -> None:
        """Rescale norms as long as some gain, then products, then norms whose gain the errors of products hid.

        Of products those come first whose sums pass the edge for some inputs.
        """
        situation = self.situation()
        for _ in range(policy().norm_rounds.most):
            if not self.keep(list(self.norms(situation))):
                break
            situation = self.situation()
        hidden = any(report.reason in {NOT_BETTER, LOSES_ELSEWHERE} for report in self.reports.values())
        trials = list(self.products(situation))
        if self.keep([trial for trial in trials if trial.only_mends]):
            trials = list(self.products(self.situation()))  # sums that pass the edge hide what others are off
        if self.keep([trial for trial in trials if not trial.only_mends]) and hidden:
            self.keep(list(self.norms(self.situation())))

    def situation(self) -> Situation:
        """Return what the operands of the graph as it is now are seen or known to be."""
        evidence, values = self.evidence, operands_of(self.graph)
        kept = policy().samples.most if evidence.tries_several else 1
        observed = observe(self.graph, values, evidence.target, evidence.shown, kept=kept)
        if evidence.bounds is not None:
            keys = [(value.node, value.index) for value in values if value.node in self.origins]
            proven = {key: evidence.bounds.get((self.origins[key[0]], key[1]), float("inf")) for key in keys}
            observed = observed.declared(proven)
        graph, target = self.graph, evidence.target

        def far_below() -> list[Mapping[tuple[Node, int], Array]]:
            sizes = len(policy().small_rows.parts)
            return [observe(graph, values, target, [one]).arrays for one in evidence.smaller[:sizes]]

        by_samples = evidence.tries_several and evidence.bounds is None
        return Situation(graph, target, observed, evidence.safety, by_samples, cache(far_below))

    def norms(self, situation: Situation) -> Iterator[Trial]:
        """Try every norm that was not rescaled yet, and say why where that cannot be."""
        skipped = depends_on_state(self.graph)
        for group in norm_groups(self.graph):
            if any(self.is_done(node) for node, _ in group.members):
                continue
            reason = hindrance([node for node, _ in group.members], situation.observed.most, skipped)
            yield not_tried(group.members, reason) if reason else try_norms(group, situation)

    def products(self, situation: Situation) -> Iterator[Trial]:
        """Try every product that was not rescaled yet, and say why where that cannot be."""
        most, skipped = situation.observed.most, depends_on_state(self.graph)
        for product in weighted_products(self.graph):
            if self.is_done(product.node):
                continue
            reason = hindrance([product.node], most, skipped)
            yield not_tried([(product.node, product.name)], reason) if reason else try_weights(product, situation)
        for group in live_groups(self.graph):
            nodes = [(node, name) for node, name, _ in group.members]
            if any(self.is_done(node) for node, _ in nodes):
                continue
            reason = hindrance([node for node, _ in nodes], most, skipped)
            yield not_tried(nodes, reason) if reason else try_live(group, situation)
        for node, name, reason in left_alone(self.graph):
            yield not_tried([(node, name)], reason)

    def is_done(self, node: Node) -> bool:
        """Tell whether a node was rescaled already."""
        report = self.reports.get(self.names[self.origins[node]])
        return report is not None and report.applied

    def keep(self, trials: Sequence[Trial]) -> bool:
        """Rescale what makes outputs better, say what became of the rest, and tell whether anything was."""
        found, reason = self.better(trials)
        kept = () if found is None else found.kept
        old = {name: self.names[self.origins[node]] for name, node in numbered(self.graph) if node in self.origins}
        for trial in trials:
            for report in reports_of(trial, kept, reason):
                self.reports[old[report.name]] = replace(report, name=old[report.name])
        if found is None:
            return False
        self.graph, self.errors = found.made.graph, found.errors
        self.origins = {now: self.origins[node] for now, node in found.made.origins.items() if node in self.origins}
        return True

    def better(self, trials: Sequence[Trial]) -> tuple[Better | None, str]:
        """Return the rescalings that together make no output worse, with the graph and its errors; None without any.

        Behind it is told why the others, or all of them, do not stay.
        """
        evidence, reason = self.evidence, NOT_BETTER
        kept = sorted((trial for trial in trials if trial.scaling is not None), key=lambda trial: trial.gain)
        while kept:
            made = rewritten(self.graph, [trial.scaling for trial in kept if trial.scaling is not None])
            after = improved(self.errors, made.graph, evidence.target, evidence.expected)
            worse = after.worse
            if after.whole is not None:
                left = left_of(self.errors, after.whole)
                worse = self.other_sizes.worse(self.graph, made.graph, left)
                if not worse:
                    return Better(kept, made, after.whole), reason
                reason = LOSES_ELSEWHERE
            elif after.moved < policy().moved.part:
                break
            kept = self.fewer(kept, worse)
        return None, reason

    def fewer(self, trials: Sequence[Trial], worse: frozenset[str]) -> Sequence[Trial]:
        """Return some of the trials that together made outputs worse.

        Those that no other output depends on are left out; if there are none, those that such an output depends on; and
        where that leaves nothing, the half that gains least.
        """
        reached = reached_outputs(self.graph)
        nodes = dict(numbered(self.graph))
        touched = [frozenset[str]().union(*(reached[nodes[one.name]] for one in trial.reports)) for trial in trials]
        with_others = [trial for trial, names in zip(trials, touched, strict=True) if names - worse]
        without_worse = [trial for trial, names in zip(trials, touched, strict=True) if not names & worse]
        for some in (with_others, without_worse):
            if 0 < len(some) < len(trials):
                return some
        return trials[: len(trials) // 2]


@dataclass(frozen=True, slots=True)
class Better:
    """Rescalings that stay."""

    kept: Sequence[Trial]
    made: Rewritten
    errors: Whole


def hindrance(nodes: Sequence[Node], most: Bounds, skipped: frozenset[Node]) -> str:
    """Return why products cannot be judged; empty where they can."""
    if any(node in skipped for node in nodes):
        return READS_STATE
    found = [most.get((value.node, value.index), float("inf")) for node in nodes for value in sized_by(node)]
    if not np.all(np.isfinite(found)):
        return "what it reads is not bounded by finite numbers"
    return "" if all(found) else "what it reads was zero throughout"


def reached_outputs(graph: Graph) -> dict[Node, frozenset[str]]:
    """Return for every node the outputs, and states, that depend on it."""
    found: dict[Node, frozenset[str]] = dict.fromkeys(graph.nodes, frozenset())
    named = {**graph.outputs, **{f"state {name}": value for name, value in graph.states.items()}}
    for name, value in named.items():
        found[value.node] |= {name}
    for node in reversed(graph.nodes):
        for source in node.sources():
            found[source.node] |= found[node]
    return found


def reports_of(trial: Trial, kept: Sequence[Trial], reason: str) -> tuple[ProductRescaling, ...]:
    """Return what is to be said of a trial, now that it is known whether it stays."""
    if trial.scaling is None or any(trial is one for one in kept):
        return trial.reports
    return tuple(as_it_was(one, reason) for one in trial.reports)
