"""The one policy for attention, whatever its origin: products and softmax, unless the engine's own layer is faster.

That layer is a program of its own, so the model is cut before and after it. It is taken where the target's rules allow
it and the cost model predicts it to be faster with its cut counted. By the latencies that were published it never is
(the nearest is a factor of 1.7 away), so this asks rather than assumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.errors import NoDataError
from aneforge.graph.graph import INPUT, PLACEHOLDERS, Graph
from aneforge.graph.node import build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from aneforge.graph.node import Argument, Node
    from aneforge.targets import Place

__all__ = ["with_native_attention", "without_native_attention"]


def with_native_attention(graph: Graph, place: Place) -> tuple[Graph, tuple[str, ...]]:
    """Return a graph whose attention is the engine's own layer where that is legal and faster, and what was changed."""
    asked = [node for node in graph.nodes if node.op.name == "sdpa" and not node.flag("native")]
    if not asked:
        return graph, ()
    alone = sum(node.op.name not in PLACEHOLDERS for node in graph.nodes) == 1
    pays: dict[str, str | None] = {}
    for node in asked:
        key = signature(node)
        if key not in pays:
            pays[key] = why_native(node, place, alone=alone)
    taken = {node for node in asked if pays[signature(node)] is not None}
    if not taken:
        return graph, ()

    return restate(graph, taken, native=True), tuple(dict.fromkeys(why for why in pays.values() if why is not None))


def without_native_attention(graph: Graph) -> Graph | None:
    """Return a graph in which no attention asks for the engine's own layer; None where none does."""
    taken = {node for node in graph.nodes if node.op.name == "sdpa" and node.flag("native")}
    return restate(graph, taken, native=False) if taken else None


def restate(graph: Graph, taken: AbstractSet[Node], *, native: bool) -> Graph:
    """Return a graph in which some attention asks for the engine's own layer, or does not."""

    def replaced(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        if node not in taken:
            return None
        return [Tensor(build("sdpa", operands, {**node.attributes, "native": native}, node.location))]

    return rewrite(graph, replaced)


def signature(node: Node) -> str:
    """Return what the price of attention depends on."""
    given = [(name, str(value.type)) for name, value in node.values()]
    return repr((given, sorted(node.attributes.items(), key=lambda item: item[0])))


def why_native(node: Node, place: Place, *, alone: bool) -> str | None:
    """Return why the engine's own layer is taken for an attention; None where it is not.

    `alone` says that the graph has no other operation, which a program is needed for in any case.
    """
    from aneforge.analysis.cost import cost  # noqa: PLC0415 - few graphs have attention
    from aneforge.rules.preflight import preflight  # noqa: PLC0415 - as above

    own, built = (with_ports(node, native=native) for native in (True, False))
    if not preflight(own, place.target).ok:
        return None
    try:
        native, products = (cost(one, place) for one in (own, built))
    except NoDataError:
        return None
    saved = products.microseconds - (0.0 if alone else products.machine.dispatch)
    if native.microseconds >= saved:
        return None
    return (
        f"attention of {list(node.types[0].shape)} runs as the engine's own layer: "
        f"predicted {native.microseconds:.0f} µs, {saved:.0f} µs for products and softmax"
    )


def with_ports(node: Node, *, native: bool) -> Graph:
    """Return an attention by itself, each of its operands an input."""
    operands: dict[str, Argument] = {
        name: Tensor(build(INPUT, {}, {"shape": value.type.shape, "dtype": value.type.dtype, "name": name}))
        for name, value in node.values()
    }
    return Graph({"y": Tensor(build("sdpa", operands, {**node.attributes, "native": native}))})
