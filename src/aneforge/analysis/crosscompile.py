"""Whether a graph compiles for another target, and what its numbers may do there: the keystone of cross-chip checks.

The system's own compiler takes an unknown name for the host's and says nothing, so names are checked first. What is
checked is compilation; numbers are compared by `divergence`, or on silicon. The warning looks at operations one by one:
it is the documented verdict on each, and of slices it also asks how large the values are that they cut.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aneforge.analysis.divergence.arithmetic import begins_of, family_text
from aneforge.analysis.divergence.graphs import Strength
from aneforge.analysis.divergence.kinds import differ, predict_fp16_divergence
from aneforge.analysis.matrix import NO_DATA
from aneforge.analysis.ranges.probes import bound_values
from aneforge.callsite import warn
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.ir.catalogue import is_bridge
from aneforge.engine.crop import FOR_TARGET as CROPS
from aneforge.errors import AneforgeError, CrossChipFP16Warning, GraphError, NoDataError, NotSupportedError
from aneforge.graph.graph import PLACEHOLDERS
from aneforge.graph.precision import to_fp16
from aneforge.ops.types import is_float
from aneforge.targets import TargetLike, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node, Output
    from aneforge.targets import Target

    Key = tuple[Node, int]
    Cuts = Mapping[Node, Mapping[int, Sequence[int]]]
    """Where parts of slices begin that begin inside the width, by the node and the number of its result."""

__all__ = ["bridges_of", "cross_compile_check", "verdicts_on"]

CROP = "width_slice_crop_x16"
"""The field that sends slices which begin inside the width through the fixed-point crop."""
BY_CONSTANTS = ("batch_norm",)
"""Norms whose means and deviations are constants: they add nothing up, so no order of sums is theirs."""


def cross_compile_check(out: GraphLike, target: TargetLike, *, host: TargetLike = None) -> bool:
    """Tell whether a graph compiles for a target; first warn where its numbers may differ from the host's.

    The warning names slices that one of the two makes infinite, joins of such slices, and sums and squares that are
    computed in different ways; `divergence` tells of everything else, such as Winograd and rebuilt operations. Names
    are checked before the graph is.

    Wider floating-point tensors count as fp16, as in `compile`; `compile_matrix` says why a graph does not compile.

    >>> import aneforge as af
    >>> family = af.targets.Family
    >>> cross_compile_check(af.input((1, 8)).relu(), family.A16, host=family.A13)
    True
    >>> cross_compile_check(af.input((1, 1, 17_000)).relu().reshape(1, 17_000), family.A16, host=family.A16)
    True

    Raises:
        UnknownTargetError: Nothing has that name.
        NoDataError: A compiler knows the name, and no source describes the target.
        NotSupportedError: The graph has an operation that needs a program of its own; it is cut there.
    """
    resolved, here = resolve(target), resolve(host)
    if not resolved.has_data:
        raise NoDataError(NO_DATA, target=resolved.name)
    graph = to_fp16(out).graph
    bridges = bridges_of(graph)
    if bridges:
        node = bridges[0]
        raise NotSupportedError(
            "a graph that is cut into several programs is out of scope here",
            operation=node.op.name,
            location=node.location,
            target=resolved.name,
            remedy="check the parts before and after it, or compile the whole with af.compile",
        )
    warn_of_differences(graph, here, resolved)
    try:
        compile_graph(graph, resolved)
    except GraphError:
        return False
    return True


def bridges_of(graph: Graph) -> list[Node]:
    """Return the operations that need a program of their own."""
    return [node for node in graph.nodes if is_bridge(node)]


def warn_of_differences(graph: Graph, host: Target, target: Target) -> None:
    """Warn of every operation that the two targets may compute differently, once for operations alike."""
    messages = [
        f"{node.op.name} of {list(node.types[0].shape)}{f' at {node.location}' if node.location else ''} "
        f"may differ between {host.name} and {target.name}: {verdict}"
        for node, verdict in verdicts_on(graph, host, target)
    ]
    for message in dict.fromkeys(messages):
        warn(message, CrossChipFP16Warning)


def verdicts_on(graph: Graph, host: Target, target: Target) -> list[tuple[Node, Strength]]:
    """Return the operations with a verdict other than none, the strongest first."""
    nodes = [node for node in graph.nodes if node.op.name not in PLACEHOLDERS]
    cuts = cuts_inside(graph)
    bounds = bounds_of([sliced(node) for node in cuts], (host, target))
    found = [(node, verdict_on(node, graph, (host, target), cuts, bounds)) for node in nodes]
    differing = [pair for pair in found if pair[1] is not Strength.NONE]
    return sorted(differing, key=lambda pair: -pair[1].rank)


def verdict_on(
    node: Node,
    graph: Graph,
    targets: tuple[Target, Target],
    cuts: Cuts,
    bounds: Mapping[Key, float],
) -> Strength:
    """Return the verdict on one node, told the slices that begin inside the width and how large what they cut gets.

    It is the documented one, but for joins of slices, which that does not know. A sum that nothing but a square or
    product reads counts as squared. A square far from any sum is none, nor is a norm by constants.
    """
    kind = node.op.name
    if kind in CROPS:
        return slice_verdict(node, targets, cuts, bounds)
    if kind == "concat":
        return join_verdict(node, targets, cuts)
    if kind in BY_CONSTANTS or (kind == "square" and not beside_a_sum(node, graph)):
        return Strength.NONE
    source = next((value for value in node.sources()), None)
    shape = source.type.shape if source is not None else node.types[0].shape
    readers = graph.consumers[node]
    if kind.startswith("reduce") and readers and all(squares(reader) for reader in readers):
        kind = f"{kind}_square"
    return predict_fp16_divergence(kind, shape, *targets)


def squares(node: Node) -> bool:
    """Tell whether a node is a square, or a product."""
    return node.op.name in ("square", "mul")


def beside_a_sum(node: Node, graph: Graph) -> bool:
    """Tell whether a node reads a reduction, or one reads it."""
    neighbours = [value.node for value in node.sources()] + list(graph.consumers[node])
    return any(one.op.name.startswith("reduce") for one in neighbours)


# Slices, and what joins them.


def cuts_inside(graph: Graph) -> Cuts:
    """Return where slices begin that begin inside the width; parts of a split that nothing reads do not count.

    Integers and booleans are copied: the crop was seen for fp16 alone.
    """
    leaving = [*graph.outputs.values(), *graph.states.values()]
    read = {(value.node, value.index) for node in graph.nodes for value in node.sources()}
    read |= {(value.node, value.index) for value in leaving}
    slices = [node for node in graph.nodes if node.op.name in CROPS and node.sources()]
    found = {
        node: {
            part: begin
            for part, begin in enumerate(begins_of(node.op.name, node.attributes, sliced(node).type))
            if (node, part) in read and any(begin[-1:])
        }
        for node in slices
        if is_float(sliced(node).type.dtype)
    }
    return {node: parts for node, parts in found.items() if parts}


def sliced(node: Node) -> Output:
    """Return what a slice cuts."""
    return node.sources()[0]


def slice_verdict(node: Node, targets: tuple[Target, Target], cuts: Cuts, bounds: Mapping[Key, float]) -> Strength:
    """Return the documented verdict on a slice, or on the part of a split that has the strongest."""
    if node not in cuts:
        return Strength.NONE
    x = sliced(node)
    most = bounds.get((x.node, x.index))
    found = [
        # a crop tells where it begins along the last two axes alone
        predict_fp16_divergence("slice", x.type.shape[-len(begin) :], *targets, begin=begin, max_abs=most)
        for begin in cuts[node].values()
    ]
    return max(found, key=lambda one: one.rank)


def join_verdict(node: Node, targets: tuple[Target, Target], cuts: Cuts) -> Strength:
    """Return the verdict on a concat: wrong elements come out of several slices that begin inside the width.

    Which ones no source says, so targets agree in them only if nothing tells the two apart.
    """
    joined = sum(value.index in cuts.get(value.node, {}) for value in node.sources())
    wrong = any(target.datapath.get("concat_of_width_slices_wrong") is not False for target in targets)
    alike = family_text(targets[0]) == family_text(targets[1])
    return Strength.ELEMENTS if joined > 1 and wrong and not alike else Strength.NONE


def bounds_of(values: Sequence[Output], targets: tuple[Target, Target]) -> dict[Key, float]:
    """Return how large values that are cut get where one target sends them through the crop and the other does not.

    A value of which nothing is known is left out.
    """
    if not differ(CROP, *targets):
        return {}
    croppers = [target for target in targets if target.datapath.get(CROP) is not False]
    bounds = [{**promised(values), **proven(values, target)} for target in croppers]
    keys = [(value.node, value.index) for value in values]
    found = {key: max(one.get(key, math.inf) for one in bounds) for key in keys}
    return {key: most for key, most in found.items() if math.isfinite(most)}


def promised(values: Iterable[Output]) -> dict[Key, float]:
    """Return what inputs promise of their magnitudes."""
    found = {(value.node, value.index): value.node.attributes.get("max_abs") for value in values}
    return {key: float(most) for key, most in found.items() if isinstance(most, int | float)}


def proven(values: Sequence[Output], target: Target) -> dict[Key, float]:
    """Return how large values can get on a target for any inputs within their promises, inputs themselves left out."""
    try:
        return bound_values(values, target)
    except AneforgeError:
        return {}  # it does not compile there, or a value is of a rank or type that no output has
