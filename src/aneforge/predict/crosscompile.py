"""Whether a graph compiles for another target, and what its numbers may do there: the keystone of cross-chip checks.

The system's own compiler takes an unknown name for the host's and says nothing, so names are checked first. What is
checked is compilation; numbers are compared by `divergence`, or on silicon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.callsite import warn
from aneforge.compiler.compiled import compile_graph
from aneforge.errors import CrossChipFP16Warning, GraphError, NoDataError, NotSupportedError
from aneforge.graph.graph import PLACEHOLDERS
from aneforge.graph.node import Output
from aneforge.graph.precision import to_fp16
from aneforge.predict.divergence.graphs import Strength
from aneforge.predict.divergence.kinds import predict_fp16_divergence
from aneforge.runtime.dispatch_cost import is_bridge
from aneforge.targets import TargetLike, resolve

if TYPE_CHECKING:
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node
    from aneforge.targets import Target

__all__ = ["bridges_of", "cross_compile_check", "verdicts_on"]


def cross_compile_check(out: GraphLike, target: TargetLike, *, host: TargetLike = None) -> bool:
    """Tell whether a graph compiles for a target; first warn where its numbers may differ from the host's.

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
    graph, resolved = to_fp16(out).graph, resolve(target)
    if not resolved.has_data:
        raise NoDataError("the compiler knows this name, and no source describes the target", target=resolved.name)
    bridges = bridges_of(graph)
    if bridges:
        node = bridges[0]
        raise NotSupportedError(
            "a graph that is cut into several programs is out of scope here",
            operation=node.op.name,
            location=node.location,
            target=resolved.name,
            remedy="check the parts before and behind it, or compile the whole with af.compile",
        )
    warn_of_differences(graph, resolve(host), resolved)
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
    found = [(node, verdict_on(node, graph, host, target)) for node in graph.nodes if node.op.name not in PLACEHOLDERS]
    differing = [pair for pair in found if pair[1] is not Strength.NONE]
    return sorted(differing, key=lambda pair: -pair[1].rank)


def verdict_on(node: Node, graph: Graph, host: Target, target: Target) -> Strength:
    """Return the documented verdict on one node; a sum that nothing but a square or product reads counts as squared."""
    begin = node.attributes.get("begin")
    begins = cast("tuple[int, ...]", begin) if isinstance(begin, tuple) else None
    source = next((value for value in node.sources()), None)
    shape = source.type.shape if source is not None else node.types[0].shape
    if begins is not None and len(begins) != len(shape):
        begins = None
    kind = node.op.name
    if kind == "crop":
        height, width = (cast("tuple[int, ...]", node.attributes[name])[0] for name in ("crop_height", "crop_width"))
        begins = (*(0,) * (len(shape) - 2), height, width)
    readers = graph.consumers[node]
    if kind.startswith("reduce") and readers and all(squares(reader) for reader in readers):
        kind = f"{kind}_square"
    return predict_fp16_divergence(kind, shape, host, target, begin=begins, max_abs=promise(source))


def squares(node: Node) -> bool:
    """Tell whether a node is a square, or a product."""
    return node.op.name in ("square", "mul")


def promise(source: object) -> float | None:
    """Return what an input promises of its magnitude, where the operation reads an input itself."""
    if not isinstance(source, Output):
        return None
    most = source.node.attributes.get("max_abs")
    return float(most) if isinstance(most, int | float) else None
