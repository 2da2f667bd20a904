"""`compare`: one model on several targets, or with the mathematics, onnxruntime or the user's own outputs.

A value that both programs hold under the same node is compared. Fusion hides some; `mark` makes every operation an
output, so that all are seen, and says that the programs are not those that would run.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.commands.compared_sides import (
    ONNXRUNTIME,
    REFERENCE,
    Side,
    build_expected_side,
    marked,
    onnxruntime_side,
    output_keys,
    reference_side,
    target_side,
)
from aneforge.commands.feeding import feed_inputs
from aneforge.commands.model_and_targets import subject_of
from aneforge.commands.output_errors import OutputError, Tolerance, output_error
from aneforge.commands.report_nodes import report_nodes
from aneforge.errors import GraphError
from aneforge.graph.graph import PLACEHOLDERS
from aneforge.records import dataclass

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from aneforge.commands.model_and_targets import Subject
    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.ops.types import Array
    from aneforge.targets import TargetLike

__all__ = ["ONNXRUNTIME", "REFERENCE", "ComparedNode", "Comparison", "Tolerance", "compare", "compare_targets"]


@dataclass(frozen=True, slots=True)
class ComparedNode:
    """One operation as both sides give it; the numbers are those of an `OutputError`."""

    node: int
    result: int
    """Which of its results, from 0."""
    name: str
    op: str
    elements: int
    differing: int
    """Elements whose bits differ; against wider numbers, elements that are not those rounded to fp16."""
    outside: int
    """Elements outside the tolerance; without a tolerance, those whose bits differ."""
    largest: float | None
    """The largest difference; None where one side is not finite and the other is."""
    relative: float | None
    """That of the largest magnitude of the second side."""
    not_finite: tuple[int, int]
    """Elements that are infinite or NaN, on either side."""

    @property
    def badness(self) -> tuple[float, float, int]:
        """What sorts operations from the best to the worst: relative error, error, elements that differ."""
        largest = math.inf if self.largest is None else self.largest
        relative = self.relative if self.relative is not None else (math.inf if largest > 0 else 0.0)
        return relative, largest, self.differing


@dataclass(frozen=True, slots=True)
class Comparison:
    """A model on two sides."""

    model: str
    first: str
    second: str
    labels: tuple[str, str]
    """Both as users call them, with the chip where one was named."""
    errors: tuple[OutputError, ...]
    """The outputs of the model, the worst first."""
    nodes: tuple[ComparedNode, ...]
    """In the order of the graph."""
    outputs: tuple[int, ...]
    """The nodes among them that are outputs of the model."""
    marked: bool
    exactness: tuple[str, str]
    hidden: int
    """Operations that fusion hides on one of the sides; none are looked for where a side has only outputs."""
    hazards: tuple[str, ...] = ()
    """The operations that made finite values infinite on a side, with the edge that they passed."""
    reference: str = ""
    """What the second side was given, where that is not a target: the weights of the file, and the inputs."""
    tolerance: Tolerance | None = None
    targets: bool = True
    """Both sides are targets."""

    @property
    def first_difference(self) -> ComparedNode | None:
        """The first operation whose results differ."""
        return next((one for one in self.nodes if one.differing), None)

    @property
    def worst(self) -> tuple[ComparedNode, ...]:
        """The operations whose results differ, the worst first."""
        return tuple(sorted((one for one in self.nodes if one.differing), key=lambda one: one.badness, reverse=True))

    @property
    def equal(self) -> bool:
        """Every value that was compared has the same bits."""
        return self.first_difference is None

    @property
    def passes(self) -> bool:
        """The outputs are within the tolerance; without one, two targets have the same bits, and the rest passes."""
        if self.tolerance is None:
            return self.equal or not self.targets
        return not any(one.outside for one in self.errors)


def compare(  # noqa: PLR0913 - what a comparison is of, and how
    model: GraphLike | str | os.PathLike[str],
    first: TargetLike,
    second: TargetLike = REFERENCE,
    inputs: Mapping[str, Array] | None = None,
    *,
    seed: int | None = None,
    mark: bool = False,
    shapes: Shapes | None = None,
    tolerance: Tolerance | None = None,
) -> Comparison:
    """Run a model on two targets, or on one and in float64, and compare what they hold.

    The second can be "onnxruntime" too, where the model is an ONNX file.

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
    return compare_targets(model, [first], second, inputs, seed=seed, mark=mark, shapes=shapes, tolerance=tolerance)[0]


def compare_targets(  # noqa: PLR0913 - as above
    model: GraphLike | str | os.PathLike[str],
    targets: Sequence[TargetLike],
    against: TargetLike = None,
    inputs: Mapping[str, Array] | None = None,
    *,
    expected: Mapping[str, Array] | None = None,
    seed: int | None = None,
    mark: bool = False,
    shapes: Shapes | None = None,
    tolerance: Tolerance | None = None,
) -> tuple[Comparison, ...]:
    """Compare a model on every target with one other side.

    That side is `expected` where outputs are given, else `against`: a target, "reference" or "onnxruntime". Without
    both it is the first target where there are several, else the mathematics.

    >>> import aneforge as af
    >>> family = af.targets.Family
    >>> found = compare_targets(af.input((1, 4), name="x").relu(), [family.A13, family.A15, family.A16], seed=0)
    >>> [one.equal for one in found]
    [True, True]

    Raises:
        GraphError: The model cannot be read, an input has no value, or an expected output has another shape.
        IllegalGraphError: It cannot run on one of the targets.
    """
    if any(one in (REFERENCE, ONNXRUNTIME) for one in targets if isinstance(one, str)):
        raise GraphError("the reference is the second of a comparison", remedy="name a target first")
    subject = subject_of(model, shapes=shapes)
    graph = marked(subject.graph) if mark else subject.graph
    values, states = feed_inputs(subject.graph, inputs, seed)
    sides = [target_side(subject, graph, one, values, states) for one in targets]
    if expected is not None:
        other = build_expected_side(subject, expected)
    elif against is None and len(sides) > 1:
        return tuple(comparison(subject, sides[0], one, tolerance, mark=mark) for one in sides[1:])
    elif against is None or against == REFERENCE:
        other = reference_side(subject, values, states)
    elif against == ONNXRUNTIME:
        other = onnxruntime_side(subject, model, values)
    else:
        other = target_side(subject, graph, against, values, states)
    return tuple(comparison(subject, one, other, tolerance, mark=mark) for one in sides)


def comparison(subject: Subject, first: Side, second: Side, tolerance: Tolerance | None, *, mark: bool) -> Comparison:
    """Return two sides compared."""
    graph = subject.graph
    common = sorted(first.values.keys() & second.values.keys())
    keys = {name: key for name, key in output_keys(graph).items() if key in common}
    errors = [output_error(name, first.values[key], second.values[key], tolerance) for name, key in keys.items()]
    operations = sum(node.op.name not in PLACEHOLDERS for node in graph.nodes)
    return Comparison(
        model=subject.name,
        first=first.name,
        second=second.name,
        labels=(first.label, second.label),
        errors=tuple(sorted(errors, key=output_badness, reverse=True)),
        nodes=compare_nodes(graph, common, first, second, tolerance),
        outputs=tuple(dict.fromkeys(number for number, _ in output_keys(graph).values())),
        marked=mark,
        exactness=(first.exactness, second.exactness),
        hidden=operations - len({number for number, _ in common}) if second.every_operation else 0,
        hazards=(*first.hazards, *second.hazards),
        reference=second.detail,
        tolerance=tolerance,
        targets=second.is_target,
    )


def output_badness(error: OutputError) -> tuple[int, float, float]:
    """Return what sorts outputs from the best to the worst."""
    largest = math.inf if error.largest is None else error.largest
    return error.outside, largest if error.relative is None else error.relative, largest


def compare_nodes(
    graph: Graph, common: Sequence[tuple[int, int]], first: Side, second: Side, tolerance: Tolerance | None
) -> tuple[ComparedNode, ...]:
    """Return the values that both sides hold, compared."""
    names, found = report_nodes(graph), list[ComparedNode]()
    for number, result in common:
        node = names[number]
        error = output_error(node.name, first.values[number, result], second.values[number, result], tolerance)
        found.append(
            ComparedNode(
                node=number,
                result=result,
                name=node.name,
                op=node.op,
                elements=error.elements,
                differing=error.differing,
                outside=error.outside,
                largest=error.largest,
                relative=error.relative,
                not_finite=error.not_finite,
            )
        )
    return tuple(found)
