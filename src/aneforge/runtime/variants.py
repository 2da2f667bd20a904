"""Other forms of a graph that mean the same, and the choice among them.

What stands to choice is attention: the engine's own layer needs a program of its own, products and a softmax do not.
The documented cost model tells the two apart. What is exact to the last bit in neither is compared by its error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.errors import AneforgeError
from aneforge.graph.builder.attention import tiled_attention, tiles
from aneforge.graph.reference import reference
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.types import is_float, numpy_dtype
from aneforge.runtime.dispatch_cost import dispatch_cost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node
    from aneforge.ops.types import Array, TensorType
    from aneforge.targets import Target

    Outputs = Callable[[Graph, Mapping[str, Array]], Mapping[str, Array]]

__all__ = ["Variant", "cheapest", "variants", "within_tolerance"]

HIDDEN = -1e4
"""What hides a key in an added mask: as good as −∞ in fp16, and finite (aneforge docs, language models)."""
TOLERANCE = 5e-3
"""The error up to which a variant is accepted (aneforge docs, tune)."""
SEED = 0


@dataclass(frozen=True, slots=True)
class Variant:
    """A form of a graph."""

    name: str
    graph: Graph


def variants(graph: Graph) -> tuple[Variant, ...]:
    """Return a graph as it is, and with attention built of products where it has attention of its own."""
    built = without_attention_layers(graph)
    as_it_is = Variant("as built", graph)
    return (as_it_is,) if built is None else (as_it_is, Variant("attention of products and softmax", built))


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


def cheapest(found: Sequence[Variant], target: Target) -> tuple[Variant, str]:
    """Return the variant that the documented model predicts to be the fastest, and why; the first if none is known."""
    costs = [dispatch_cost(variant.graph, target) for variant in found]
    known = [(cost.microseconds, place) for place, cost in enumerate(costs) if cost is not None]
    if not known:
        return found[0], f"{found[0].name}: no anchor of the cost model is known for {target.name}"
    least, place = min(known)
    listed = ", ".join(f"{found[other].name} {time:.0f} µs" for time, other in known)
    return found[
        place
    ], f"{found[place].name}: predicted {least:.0f} µs by the cost model, nothing was measured ({listed})"


def within_tolerance(found: Sequence[Variant], outputs: Outputs) -> tuple[list[Variant], tuple[str, ...]]:
    """Return the variants whose error on drawn inputs is within the tolerance, and what was seen of each.

    The first variant is what the user wrote, and is never left out.
    """
    inputs = drawn_inputs(found[0].graph)
    wanted = reference(found[0].graph, inputs)
    kept, remarks = [found[0]], [f"{found[0].name}: error {error_of(wanted, outputs(found[0].graph, inputs)):.2g}"]
    for variant in found[1:]:
        try:
            error = error_of(wanted, outputs(variant.graph, inputs))
        except AneforgeError as stopped:
            remarks.append(f"{variant.name}: left out, {stopped.message}")
            continue
        remarks.append(f"{variant.name}: error {error:.2g}{'' if error <= TOLERANCE else f', above {TOLERANCE:g}'}")
        kept += [variant] if error <= TOLERANCE else []
    return kept, tuple(remarks)


def drawn_inputs(graph: Graph) -> dict[str, Array]:
    """Return inputs of moderate size, the same on every machine."""
    random = np.random.default_rng(SEED)

    def drawn(kind: TensorType) -> Array:
        if is_float(kind.dtype):
            return random.standard_normal(kind.shape).astype(np.float16).astype(np.float64)
        return random.integers(0, 2, kind.shape).astype(numpy_dtype(kind.dtype))

    return {name: drawn(node.types[0]) for name, node in graph.inputs.items()}


def error_of(wanted: Mapping[str, Array], given: Mapping[str, Array]) -> float:
    """Return the largest relative error of any output, in the norm of its elements."""
    errors = [0.0]
    for name, exact in wanted.items():
        apart = np.linalg.norm((given[name].astype(np.float64) - exact).reshape(-1))
        errors.append(float(apart / max(float(np.linalg.norm(exact.astype(np.float64).reshape(-1))), 1e-12)))
    return float("inf") if not np.isfinite(errors).all() else max(errors)
