"""`compare`: one model on two targets, or on a target and in mathematics, value by value.

A value that both programs hold under the same node is compared. Fusion hides some; `mark` makes every operation an
output, so that all are seen, and says that the programs are not those that would run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from aneforge.commands.feeding import feed_inputs
from aneforge.commands.model_and_targets import chosen_targets, subject_of
from aneforge.commands.report_nodes import NUMBER, origins, report_nodes
from aneforge.compiler.compile import compile_graph
from aneforge.engine.execution.run import run
from aneforge.errors import GraphError
from aneforge.graph.graph import PLACEHOLDERS, Graph
from aneforge.graph.reference import evaluate
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from aneforge.commands.model_and_targets import Subject
    from aneforge.compiler.ir.program import Program
    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.graph import GraphLike
    from aneforge.ops.types import Array
    from aneforge.targets import TargetLike

__all__ = ["REFERENCE", "ComparedNode", "Comparison", "compare", "same_bits"]

REFERENCE = "reference"
"""The name of the mathematics in float64, where a target is asked for."""
WIDE = "float64, with the weights and inputs as their files have them, not rounded to fp16"
"""What the reference is."""


@dataclass(frozen=True, slots=True)
class ComparedNode:
    """One operation as both sides give it."""

    node: int
    result: int
    """Which of its results, from 0."""
    name: str
    op: str
    elements: int
    differing: int
    """Elements whose bits differ; against the reference, elements that are not its value rounded to fp16."""
    largest: float | None
    """The largest difference; None where one side is not finite and the other is."""
    relative: float | None
    """That of the largest magnitude of the second side."""
    not_finite: tuple[int, int]
    """Elements that are infinite or no number, on either side."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A model on two sides."""

    model: str
    first: str
    second: str
    nodes: tuple[ComparedNode, ...]
    """In the order of the graph."""
    outputs: tuple[int, ...]
    """The nodes among them that are outputs of the model."""
    marked: bool
    exactness: tuple[str, str]
    hidden: int
    """Operations that fusion hides on one of the sides."""
    hazards: tuple[str, ...] = ()
    """The operations that made finite values infinite on a side, with the edge that they passed."""
    reference: str = ""
    """What the mathematics was given, where that is a side: the weights of the file, and the inputs."""

    @property
    def first_difference(self) -> ComparedNode | None:
        """The first operation whose results differ."""
        return next((one for one in self.nodes if one.differing), None)

    @property
    def equal(self) -> bool:
        """Every value that was compared has the same bits."""
        return self.first_difference is None


def compare(
    model: GraphLike | str | os.PathLike[str],
    first: TargetLike,
    second: TargetLike = REFERENCE,
    inputs: Mapping[str, Array] | None = None,
    *,
    seed: int | None = None,
    mark: bool = False,
    shapes: Shapes | None = None,
) -> Comparison:
    """Run a model on two targets, or on one and in float64, and compare what they hold.

    >>> import numpy as np
    >>> import aneforge as af
    >>> family = af.targets.Family
    >>> right = af.split(af.input((1, 1, 1, 8), name="x"), 2, axis=3)[1]
    >>> found = compare(right, family.A13, family.A16, {"x": np.full((1, 1, 1, 8), 5000.0)})
    >>> found.first_difference.op, found.first_difference.differing
    ('split', 4)

    Raises:
        GraphError: The model cannot be read, or an input has no value.
        IllegalGraphError: It cannot run on one of the targets.
    """
    subject = subject_of(model, shapes=shapes)
    graph = marked(subject.graph) if mark else subject.graph
    values, states = feed_inputs(subject.graph, inputs, seed)
    sides = [side(subject, graph, one, values, states) for one in (first, second)]
    if sides[0].name == REFERENCE:
        raise GraphError("the reference is the second of a comparison", remedy="name a target first")
    names = report_nodes(subject.graph)
    common = sorted(sides[0].values.keys() & sides[1].values.keys())
    numbers = {node: number for number, node in enumerate(subject.graph.nodes)}
    operations = sum(node.op.name not in PLACEHOLDERS for node in subject.graph.nodes)
    nodes = tuple(
        compared_node(key, names[key[0]].name, names[key[0]].op, sides[0].values[key], sides[1].values[key])
        for key in common
    )
    return Comparison(
        model=subject.name,
        first=sides[0].name,
        second=sides[1].name,
        nodes=nodes,
        outputs=tuple(dict.fromkeys(numbers[output.node] for output in subject.graph.outputs.values())),
        marked=mark,
        exactness=(sides[0].exactness, sides[1].exactness),
        hidden=operations - len({number for number, _ in common}),
        hazards=(*sides[0].hazards, *sides[1].hazards),
        reference=WIDE if sides[1].name == REFERENCE else "",
    )


def marked(graph: Graph) -> Graph:
    """Return a graph in which every result of every operation is an output."""
    outputs = dict(graph.outputs)
    for number, node in enumerate(graph.nodes):
        if node.op.name not in PLACEHOLDERS:
            outputs |= {f"aneforge_{number}_{index}": Tensor(node, index) for index in range(len(node.types))}
    return Graph(outputs, graph.states)


@dataclass(frozen=True, slots=True)
class Side:
    """The values of one side, by the number of the operation and of its result."""

    name: str
    values: Mapping[tuple[int, int], Array]
    exactness: str
    hazards: tuple[str, ...] = ()


def side(
    subject: Subject, graph: Graph, which: TargetLike, inputs: Mapping[str, Array], states: Mapping[str, Array]
) -> Side:
    """Run one side and return the values that it holds."""
    if isinstance(which, str) and which == REFERENCE:
        return reference_side(subject, inputs, states)
    original = subject.graph
    target = chosen_targets([which])[0].target
    made = compile_graph(graph, target)
    given = made.feed(inputs)
    ran = run(made.program, given, states, keep=True)
    origin = origins(graph, made.graph)
    renumbered = numbers_of(original, graph)
    found: dict[tuple[int, int], Array] = {}
    for name, array in ran.values.items():
        match = NUMBER.fullmatch(name)
        if match is None:
            continue
        node = made.graph.nodes[int(match[1])]
        for number in origin[int(match[1])]:
            before = graph.nodes[number]
            # A node that became several is known by the one that has its type.
            same = before.op is node.op or before.types[0] == node.types[0]
            if same and number in renumbered and before.op.name not in PLACEHOLDERS:
                found[renumbered[number], 0] = array
    places = {node: place for place, node in enumerate(graph.nodes)}
    for name, output in graph.outputs.items():
        if output.node.op.name not in PLACEHOLDERS:
            found[renumbered[places[output.node]], output.index] = ran.outputs[name]
    hazards = () if all_finite(ran.values) else tuple(hazards_seen(graph, made.program, {**given, **states}))
    return Side(target.name, found, str(ran.label.exactness), hazards)


def all_finite(values: Mapping[str, Array]) -> bool:
    """Return whether every value of a run is finite."""
    return all(bool(np.isfinite(array).all()) for array in values.values() if array.dtype.kind == "f")


def hazards_seen(graph: Graph, program: Program, sample: Mapping[str, Array]) -> Iterator[str]:
    """Yield the operations that make finite values of a sample infinite, each once."""
    from aneforge.analysis.ranges.analysis import Edge, observe_ranges  # noqa: PLC0415 - few comparisons have such values
    from aneforge.analysis.user_operations import name_at, operations_by_place  # noqa: PLC0415 - as above

    places, found = operations_by_place(graph), list[str]()
    for layer in observe_ranges(program, [sample]).layers:
        own = [one for one in layer.passed if one.edge is not Edge.GRID and not one.inherited]
        if own:
            place = f" at {layer.location}" if layer.location else ""
            found.append(f"{program.target.name}: {name_at(layer.op, layer.location, places)}{place}: {own[-1]}")
    yield from dict.fromkeys(found)


def numbers_of(original: Graph, graph: Graph) -> Mapping[int, int]:
    """Return the numbers in the original graph of the nodes that a graph shares with it."""
    numbers = {node: number for number, node in enumerate(original.nodes)}
    return {place: numbers[node] for place, node in enumerate(graph.nodes) if node in numbers}


def reference_side(subject: Subject, inputs: Mapping[str, Array], states: Mapping[str, Array]) -> Side:
    """Return every value as the mathematics gives it, of the model as its file has it and not of its form in fp16."""
    values = {name: np.asarray(array) for name, array in inputs.items()}
    every = marked(subject.original)
    results, _ = evaluate(every, values, states)
    by_node = {(output.node, output.index): results[name] for name, output in every.outputs.items()}
    before = subject.half.before
    found = {
        (number, index): by_node[before.get(node, node), index]
        for number, node in enumerate(subject.graph.nodes)
        if node.op.name not in PLACEHOLDERS
        for index in range(len(node.types))
        if (before.get(node, node), index) in by_node
    }
    return Side(REFERENCE, found, "mathematics")


def compared_node(key: tuple[int, int], name: str, op: str, left: Array, right: Array) -> ComparedNode:
    """Return two values compared."""
    number, result = key
    if right.dtype != left.dtype and left.dtype == np.float16:
        with np.errstate(over="ignore"):
            rounded = right.astype(np.float16)
    else:
        rounded = right
    differing = int(np.count_nonzero(~same_bits(left, rounded)))
    wide = left.astype(np.float64), right.astype(np.float64)
    finite = np.isfinite(wide[0]) & np.isfinite(wide[1])
    unlike = np.isfinite(wide[0]) != np.isfinite(wide[1])
    largest = None
    if not unlike.any():
        largest = float(np.max(np.abs(wide[0][finite] - wide[1][finite]), initial=0.0))
    scale = float(np.max(np.abs(wide[1][finite]), initial=0.0))
    return ComparedNode(
        node=number,
        result=result,
        name=name,
        op=op,
        elements=left.size,
        differing=differing,
        largest=largest,
        relative=None if largest is None or scale == 0 else largest / scale,
        not_finite=(int(np.count_nonzero(~np.isfinite(wide[0]))), int(np.count_nonzero(~np.isfinite(wide[1])))),
    )


def same_bits(left: Array, right: Array) -> Array:
    """Return for each element whether two arrays hold the same bits; two that are no number count as the same."""
    if left.dtype == np.float16 and right.dtype == np.float16:
        left_bits, right_bits = (np.ascontiguousarray(one).view(np.uint16) for one in (left, right))
        return (left_bits == right_bits) | (np.isnan(left) & np.isnan(right))
    return left == right
