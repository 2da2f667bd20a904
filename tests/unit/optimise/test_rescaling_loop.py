"""Rescaling: what the loop of trials does with what strategies propose, and what edits of a graph make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

import aneforge as af
from aneforge.optimise.rescaling.engine_errors import GraphErrors, evaluate_exactly
from aneforge.optimise.rescaling.error_changes import Expected
from aneforge.optimise.rescaling.graph_edits import Edit, edit_graph
from aneforge.optimise.rescaling.proposals import Proposal
from aneforge.optimise.rescaling.scale_weights import WeightedProduct, find_weighted_products
from aneforge.optimise.rescaling.trial_loop import NOT_BETTER, TrialBasis, TrialLoop
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aneforge.graph.node import Node
    from aneforge.optimise.rescaling.proposals import Situation

Array = npt.NDArray[Any]


def drawn(*shape: int, seed: int = 7, scale: float = 1.0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


def small_linear() -> tuple[af.Graph, dict[str, Array]]:
    graph = af.Graph({"y": af.input((8, 512), name="x").linear(drawn(16, 512, scale=0.04))})
    return graph, {"x": drawn(8, 512, seed=8, scale=0.04)}


def loop_of(graph: af.Graph, inputs: dict[str, Array]) -> TrialLoop:
    sets, exact, target = [inputs], [evaluate_exactly(graph, inputs)], resolve("h13")
    errors = GraphErrors.measure(graph, target, sets, exact)
    return TrialLoop(graph, errors, TrialBasis(target, Expected(sets, exact), sets, None, 3))


@dataclass(frozen=True)
class Hesitant:
    """Proposes nothing, then what weights ask for, and counts how often it was asked."""

    product: WeightedProduct
    asked: list[int]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The product."""
        return self.product.nodes

    def propose(self, situation: Situation) -> Iterator[Proposal]:
        """Propose three times, of which the first is nothing."""
        proposals = [*self.product.propose(situation), *self.product.propose(situation)]
        for number, proposal in enumerate([Proposal.refuse(self.nodes, "not yet"), *proposals]):
            self.asked.append(number)
            yield proposal


def test_the_first_proposal_that_is_worth_it_is_taken_and_no_later_one_is_tried() -> None:
    graph, inputs = small_linear()
    loop = loop_of(graph, inputs)
    strategy = Hesitant(find_weighted_products(graph)[0], [])
    (trial,) = loop.try_strategies([strategy], loop.observe_operands())
    assert (trial.change is not None, strategy.asked) == (True, [0, 1])
    assert trial.reports[0].applied
    assert loop.keep([trial])
    assert not list(loop.try_strategies(find_weighted_products(loop.graph), loop.observe_operands()))  # it is done


def test_a_strategy_that_proposes_nothing_is_reported_with_its_first_reason() -> None:
    graph, inputs = small_linear()
    loop = loop_of(graph, inputs)
    node = graph.nodes[1]

    class Refusing:
        nodes = (node,)

        def propose(self, situation: Situation) -> Iterator[Proposal]:
            del situation
            return (Proposal.refuse(self.nodes, reason) for reason in ("first", "second"))

    trials = list(loop.try_strategies([Refusing()], loop.observe_operands()))
    assert not loop.keep(trials)
    (report,) = loop.reports.values()
    assert (report.name, report.applied, report.reason, report.exponents) == ("t1", False, "first", (0,))
    assert np.isnan(report.error_before)
    assert loop.graph == graph


def test_a_change_that_gains_nothing_on_the_whole_graph_is_refused_and_leaves_it() -> None:
    product = af.input((8, 512), name="x").linear(drawn(16, 512, scale=0.04))
    graph = af.Graph({"y": product * 0.0})  # nothing that is done to the product can show
    loop = loop_of(graph, small_linear()[1])
    loop.run()
    (report,) = loop.reports.values()
    assert (report.applied, report.reason, report.exponents, report.operand) == (False, NOT_BETTER, (0,), "")
    assert report.error_after == report.error_before > 0.001
    assert loop.graph == graph


def test_edits_of_one_node_by_several_changes_add_up() -> None:
    graph, inputs = small_linear()
    node = graph.nodes[1]
    by_channel = tuple(range(-8, 8))
    edited = edit_graph(graph, [{node: Edit(after=(2,))}, {node: Edit(after=by_channel, axis=1)}])
    (made,) = (one for one, origin in edited.origins.items() if origin is node)
    assert (made.op.name, edited.graph.outputs["y"].node.op.name) == ("linear", "mul")
    factors = 2.0 ** (2 + np.array(by_channel, np.float64))
    before, after = evaluate_exactly(graph, inputs)["y"], evaluate_exactly(edited.graph, inputs)["y"]
    assert np.array_equal(after, before * factors)


def test_a_tensor_that_two_edits_multiply_by_the_same_power_is_multiplied_once() -> None:
    x = af.input((2, 4), name="x")
    graph = af.Graph({"y": x.linear(np.eye(4)), "z": x.linear(np.ones((4, 4)))})
    products = [node for node in graph.nodes if node.op.name == "linear"]
    edit = Edit(multiplied=("x", 3), after=(-3,))
    edited = edit_graph(graph, [{node: edit} for node in products]).graph
    factors = [cast("float", node.attributes["k"]) for node in edited.nodes if node.op.name == "muls"]
    assert sorted(factors) == [2.0**-3, 2.0**-3, 2.0**3]
    given = {"x": np.arange(8.0).reshape(2, 4)}
    before, after = evaluate_exactly(graph, given), evaluate_exactly(edited, given)
    assert all(np.array_equal(after[name], before[name]) for name in before)
