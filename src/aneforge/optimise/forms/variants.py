"""Other forms of a graph that mean the same: attention as products, scalars joined, sums as products, int8 weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.graph.builder.attention import tiled_attention, tiles
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.types import is_float
from aneforge.optimise.forms.numeric import simplified
from aneforge.optimise.forms.quantised import with_int8_weights
from aneforge.optimise.forms.sums import product_of_sum

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node
    from aneforge.targets import Target

__all__ = ["Variant", "more_exact_forms", "variants"]

HIDDEN = -1e4
"""What hides a key in an added mask: as good as −∞ in fp16, and finite (aneforge docs, language models)."""


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
    built = without_attention_layers(graph)
    if built is not None:
        found.append(Variant("attention of products and softmax", built))
    last = found[-1]
    joined = simplified(last.graph)
    if len(joined.nodes) < len(last.graph.nodes):
        found.append(Variant("scalars joined" if built is None else f"{last.name}, scalars joined", joined))
    eight, why = with_int8_weights(graph, target)
    if eight is not None:
        found.append(Variant("int8 weights", eight, lossy=True))
    return tuple(found), (f"int8 weights: not tried, {why}",) if why else ()


def more_exact_forms(graph: Graph) -> tuple[Variant, ...]:
    """Return the forms of a graph that may be more exact, the graph itself first."""
    found = [Variant("as built", graph)]
    products = rewrite(graph, product_of_sum)
    if products.text != graph.text:
        found.append(Variant("sums as products with ones", products))
    built = without_attention_layers(graph)
    if built is not None:
        found.append(Variant("attention of products and softmax", built))
    return tuple(found)


def without_attention_layers(graph: Graph) -> Graph | None:
    """Return a graph whose attention is built of products and softmax; None where there is none to build."""
    changed = False

    def replaced(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        nonlocal changed
        if node.op.name != "sdpa" or not fits(operands):
            return None
        changed = True
        query, key, value = (cast("Tensor", operands[name]) for name in ("query", "key", "value"))
        mask = operands.get("attn_mask")
        if node.attributes["is_causal"]:
            hidden = np.triu(np.full((query.shape[2], key.shape[2]), HIDDEN, np.float16), 1)
            mask = Dense.owning(hidden[None, None].copy())
        scale = cast("float | None", node.attributes["scale"])
        return [tiled_attention(query, key, value, scale, cast("Tensor | Dense | None", mask), tiles(query.shape[2]))]

    made = rewrite(graph, replaced)
    return made if changed else None


def fits(operands: Mapping[str, Argument]) -> bool:
    """Tell whether attention has the four axes of heads, all its operands live, and a mask that is added."""
    tensors = [operands.get(name) for name in ("query", "key", "value")]
    mask = operands.get("attn_mask")
    masked = mask is None or (not isinstance(mask, tuple) and is_float(mask.type.dtype) and mask.type.rank == 4)
    return masked and all(isinstance(tensor, Tensor) and tensor.type.rank == 4 for tensor in tensors)
