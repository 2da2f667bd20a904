"""Other forms of a graph that mean the same: attention as products, scalars joined, sums as products, int8 weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.rewrite import rewrite
from aneforge.optimise.forms.native_attention import without_native_attention
from aneforge.optimise.forms.numeric import simplify_scalars
from aneforge.optimise.forms.quantised import with_int8_weights
from aneforge.optimise.forms.sums import product_of_sum
from aneforge.optimise.forms.tables import product_of_sigmoid
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.graph.graph import Graph
    from aneforge.targets import Target

__all__ = ["Variant", "more_exact_forms", "variants"]

FINER_SILU = "silu as a product with a sigmoid"


@dataclass(frozen=True, slots=True)
class Variant:
    """A form of a graph."""

    name: str
    graph: Graph
    lossy: bool = False
    """Its weights are others."""


def variants(graph: Graph, target: Target) -> tuple[tuple[Variant, ...], tuple[str, ...]]:
    """Return the forms of a graph that may be faster, the graph itself first, and why another is not there."""
    found = [Variant("as built", graph)]
    built = without_native_attention(graph)
    if built is not None:
        found.append(Variant("attention of products and softmax", built))
    last = found[-1]
    joined = simplify_scalars(last.graph)
    if len(joined.nodes) < len(last.graph.nodes):
        found.append(Variant("scalars joined" if built is None else f"{last.name}, scalars joined", joined))
    finer = rewrite(graph, product_of_sigmoid)
    if finer is not graph:
        found.append(Variant(FINER_SILU, finer))
    eight, why = with_int8_weights(graph, target)
    if eight is not None:
        found.append(Variant("int8 weights", eight, lossy=True))
    return tuple(found), (f"int8 weights: not tried, {why}",) if why else ()


def more_exact_forms(graph: Graph) -> tuple[Variant, ...]:
    """Return the forms of a graph that may be more exact, the graph itself first."""
    found = [Variant("as built", graph)]
    products = rewrite(graph, product_of_sum)
    if products is not graph:
        found.append(Variant("sums as products with ones", products))
    finer = rewrite(graph, product_of_sigmoid)
    if finer is not graph:
        found.append(Variant(FINER_SILU, finer))
    built = without_native_attention(graph)
    if built is not None:
        found.append(Variant("attention of products and softmax", built))
    return tuple(found)
