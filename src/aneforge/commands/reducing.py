"""`reduce`: the smallest part of a model that still shows something.

First the output is moved as far forward as it goes: the first operation after which the thing is still seen. Then
operations before it are cut off, the far ones first, and become inputs with the values that they had. What is left is a
model of its own, and the values of its inputs where they decide: rules look at none, so none are computed for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from aneforge.commands.feeding import feed_inputs
from aneforge.commands.model_and_targets import chosen_targets, subject_of
from aneforge.commands.output_errors import same_bits
from aneforge.compiler.compile import compile_graph
from aneforge.engine.execution.run import run
from aneforge.errors import AneforgeError, GraphError
from aneforge.graph.graph import PLACEHOLDERS, Graph
from aneforge.graph.node import Node, Output, new_node
from aneforge.graph.reference import evaluate
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.table import find_op
from aneforge.ops.types import is_float
from aneforge.records import dataclass
from aneforge.rules.catalogue import explain
from aneforge.rules.preflight import preflight

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping

    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Argument, Value
    from aneforge.ops.types import Array
    from aneforge.targets import Target

    Shows = Callable[["Graph", Mapping[str, Array]], bool]

__all__ = ["KEEPABLE", "Reduced", "reduce_model"]

KEEPABLE = "'rule ANE-… [TARGET]', 'diverges TARGET TARGET' or 'nan [TARGET]'"
OUTPUT = "y"
WRITTEN = "_written"
"""What is added to the name of a state for the output that stands for its new value."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is left of a model."""

    model: str
    keep: str
    graph: Graph
    inputs: Mapping[str, Array]
    """Values of its inputs with which it shows what was to be kept; none where values do not decide."""
    before: int
    after: int
    """Operations, placeholders not counted."""
    tried: int
    """How many parts were tried."""


def reduce_model(
    model: GraphLike | str | os.PathLike[str],
    keep: str,
    inputs: Mapping[str, Array] | None = None,
    *,
    seed: int = 0,
    shapes: Shapes | None = None,
) -> Reduced:
    """Return the smallest part of a model that still shows something: a rule's finding, different bits, or a NaN.

    `nan` stands for results that are infinite or NaN while all inputs are finite.

    >>> import aneforge as af
    >>> x = af.input((1, 8, 1, 64), name="x")
    >>> net = (x.relu() * 2.0).sin().tanh().abs()
    >>> found = reduce_model(net, f"rule ANE-FLOOR-003 {af.targets.resolve(af.targets.Family.A13).name}")
    >>> found.before, found.after, [node.op.name for node in found.graph.nodes]
    (5, 1, ['input', 'sin'])

    Raises:
        GraphError: The text says nothing that can be kept, or the model does not show it.
    """
    subject = subject_of(model, shapes=shapes)
    question = predicate(keep)
    whole = without_states(subject.graph)
    started = get_start_values(subject.graph, inputs, seed) if question.of_values else None
    reducing = Reducing(whole, started, question.shows)
    if not reducing.shows_whole():
        had_states = bool(subject.graph.state_placeholders)
        states_note = (
            " Its states were treated as inputs, so problems that depend on states do not appear." if had_states else ""
        )
        raise GraphError(
            "the model does not have the property that is to be kept",
            seen=keep,
            remedy=f"aneforge check lists the rules that find something, aneforge compare what differs.{states_note}",
        )
    graph, given = reducing.smallest()
    return Reduced(subject.name, keep, graph, given, operations(whole), operations(graph), reducing.tried)


def get_start_values(graph: Graph, inputs: Mapping[str, Array] | None, seed: int) -> dict[str, Array]:
    """Return the values of inputs and states; a state that is not given starts at zero."""
    values, states = feed_inputs(graph, inputs, seed)
    placeholders = graph.state_placeholders.items()
    return {**values, **{name: states.get(name, np.zeros(node.types[0].shape)) for name, node in placeholders}}


def without_states(graph: Graph) -> Graph:
    """Return a graph whose states are inputs, and what is written to them outputs: one call of it shows the same."""
    if not graph.state_placeholders:
        return graph

    def replaced(node: Node, operands: Mapping[str, Argument]) -> list[Tensor] | None:
        del operands  # a state reads nothing
        if node not in names:
            return None
        attributes = {"shape": node.types[0].shape, "dtype": node.types[0].dtype, "name": names[node]}
        return [Tensor(new_node(find_op("input"), {}, attributes, node.location))]

    names = {node: name for name, node in graph.state_placeholders.items()}
    written = {f"{name}{WRITTEN}": value for name, value in graph.states.items()}
    return rewrite(Graph({**graph.outputs, **written}), replaced)


def operations(graph: Graph) -> int:
    """Return how many operations a graph has."""
    return sum(node.op.name not in PLACEHOLDERS for node in graph.nodes)


class Reducing:
    """The search for a smaller part."""

    def __init__(self, graph: Graph, inputs: Mapping[str, Array] | None, shows: Shows) -> None:
        self.graph, self.inputs, self.asks = graph, inputs or {}, shows
        self.tried = 0
        self.values = None if inputs is None else values_of(graph, inputs)
        self.numbers = {node: number for number, node in enumerate(graph.nodes)}
        self.placeholders: dict[str, Node] = {}

    def shows_whole(self) -> bool:
        """Return whether the whole model shows it."""
        return self.holds(self.graph, self.inputs)

    def holds(self, graph: Graph, inputs: Mapping[str, Array]) -> bool:
        """Return whether a part shows it; one that cannot be built or run does not."""
        self.tried += 1
        try:
            return self.asks(graph, inputs)
        except AneforgeError:
            return False

    def smallest(self) -> tuple[Graph, Mapping[str, Array]]:
        """Return the smallest part that was found."""
        candidates = [node for node in self.graph.nodes if node.op.name not in PLACEHOLDERS]
        for node in candidates:
            # The last operation by itself, then with more and more of what it reads.
            whole = nodes_up_to(node)
            for kept in nearest_first(node, whole):
                part = self.part(node, kept)
                if self.holds(*part):
                    return self.without_single_nodes(node, kept, part)
        return self.graph, self.inputs

    def without_single_nodes(
        self, output: Node, kept: frozenset[Node], part: tuple[Graph, Mapping[str, Array]]
    ) -> tuple[Graph, Mapping[str, Array]]:
        """Return a part with every operation cut off that can be, one at a time."""
        for node in [one for one in self.graph.nodes if one in kept and one is not output]:
            fewer = kept - {node}
            smaller = self.part(output, fewer)
            if self.holds(*smaller):
                kept, part = fewer, smaller
        return part

    def part(self, output: Node, kept: Collection[Node]) -> tuple[Graph, Mapping[str, Array]]:
        """Return the graph of some operations; what they read from others becomes inputs."""
        now: dict[Node, Node] = {}
        given: dict[str, Array] = {}
        for node in (one for one in self.graph.nodes if one in kept):
            operands = {name: self.moved(argument, now, given) for name, argument in node.operands.items()}
            now[node] = new_node(node.op, operands, node.attributes, node.location)
        return Graph({OUTPUT: Tensor(now[output], 0)}), given

    def moved(self, argument: Argument, now: dict[Node, Node], given: dict[str, Array]) -> Argument:
        """Return an operand in the part."""
        if isinstance(argument, tuple):
            return tuple(self.value(one, now, given) for one in argument)
        return self.value(argument, now, given)

    def value(self, value: Value, now: dict[Node, Node], given: dict[str, Array]) -> Value:
        """Return a value in the part: of an operation that is kept, or a new input."""
        if not isinstance(value, Output):
            return value
        if value.node in now:
            return Tensor(now[value.node], value.index)
        number = self.numbers[value.node]
        name = f"value_{number}" + (f"_{value.index}" if value.index else "")
        if name not in self.placeholders:
            attributes = {"shape": value.type.shape, "dtype": value.type.dtype, "name": name}
            self.placeholders[name] = new_node(find_op("input"), {}, attributes, value.node.location)
        if self.values is not None:
            given[name] = self.values[value.node, value.index]
        return Tensor(self.placeholders[name], 0)


def nodes_up_to(node: Node) -> set[Node]:
    """Return a node and all operations that it depends on."""
    found: set[Node] = set()
    stack = [node]
    while stack:
        one = stack.pop()
        if one not in found and one.op.name not in PLACEHOLDERS:
            found.add(one)
            stack += [source.node for source in one.sources()]
    return found


def nearest_first(node: Node, whole: set[Node]) -> list[frozenset[Node]]:
    """Return growing neighbourhoods of a node: itself, what it reads, and so on in doubling steps, and all at last."""
    found: list[frozenset[Node]] = []
    kept, frontier, depth, wanted = {node}, [node], 0, 0
    while True:
        if depth == wanted:
            found.append(frozenset(kept))
            wanted = max(1, 2 * wanted)
        frontier = [source.node for one in frontier for source in one.sources() if source.node in whole - kept]
        if not frontier:
            break
        kept.update(frontier)
        depth += 1
    if len(found[-1]) != len(kept):
        found.append(frozenset(kept))
    return found


def values_of(graph: Graph, inputs: Mapping[str, Array]) -> Mapping[tuple[Node, int], Array]:
    """Return every value of a graph as the mathematics gives it, real numbers rounded to fp16."""
    every = {
        f"value_{number}_{index}": Tensor(node, index)
        for number, node in enumerate(graph.nodes)
        for index in range(len(node.types))
    }
    results, _ = evaluate(Graph(every), dict(inputs))
    found: dict[tuple[Node, int], Array] = {}
    with np.errstate(over="ignore"):
        for name, tensor in every.items():
            array = results[name]
            found[tensor.node, tensor.index] = array.astype(np.float16) if is_float(tensor.dtype) else array
    return found


@dataclass(frozen=True, slots=True)
class Question:
    """What every part is asked."""

    shows: Shows
    of_values: bool
    """The answer depends on the values of inputs."""


def predicate(keep: str) -> Question:
    """Return the question that every part is asked.

    Raises:
        GraphError: The text says nothing that can be kept.
        UnknownNameError: It names no rule.
        UnknownTargetError: It names no target.
    """
    match keep.split():
        case ["rule", rule]:
            return Question(shows_rule(rule, None), of_values=False)
        case ["rule", rule, target]:
            return Question(shows_rule(rule, chosen_targets([target])[0].target), of_values=False)
        case ["diverges", first, second]:
            targets = [chosen_targets([one])[0].target for one in (first, second)]
            return Question(lambda graph, inputs: diverges(graph, inputs, targets[0], targets[1]), of_values=True)
        case ["nan"]:
            return Question(lambda graph, inputs: not_finite(graph, inputs, None), of_values=True)
        case ["nan", target]:
            chosen = chosen_targets([target])[0].target
            return Question(lambda graph, inputs: not_finite(graph, inputs, chosen), of_values=True)
        case _:
            raise GraphError("this is not a property that can be kept", seen=keep, limit=KEEPABLE)


def shows_rule(rule: str, target: Target | None) -> Shows:
    """Return the question whether a rule finds something, on one target or on any."""
    name = explain(rule).id
    targets = [one.target for one in chosen_targets()] if target is None else [target]

    def shows(graph: Graph, inputs: Mapping[str, Array]) -> bool:
        del inputs  # rules look at no values
        return any(finding.rule == name for one in targets for finding in preflight(graph, one).findings)

    return shows


def diverges(graph: Graph, inputs: Mapping[str, Array], first: Target, second: Target) -> bool:
    """Return whether two targets give different bits."""
    left, right = (outputs_on(graph, target, inputs) for target in (first, second))
    return not all(bool(np.all(same_bits(left[name], right[name]))) for name in left)


def outputs_on(graph: Graph, target: Target | None, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return the outputs of a graph on a target."""
    made = compile_graph(graph, target)
    return run(made.program, made.feed(inputs)).outputs


def not_finite(graph: Graph, inputs: Mapping[str, Array], target: Target | None) -> bool:
    """Return whether a target gives something infinite or NaN for inputs that are all finite."""
    if not all(bool(np.isfinite(array).all()) for array in inputs.values()):
        return False
    outputs = outputs_on(graph, target, inputs).values()
    return not all(bool(np.isfinite(array).all()) for array in outputs)
