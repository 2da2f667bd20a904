"""A node of a graph as rules see it, with what only a graph knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.ops.declared import Declared
from aneforge.ops.op import Category, Trait
from aneforge.ops.types import is_float
from aneforge.rules.checks.dtype_rules import is_index
from aneforge.rules.subject import Operation, arguments_of, constants_of, tensors_read

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from aneforge.graph.node import Argument, Node, Value
    from aneforge.ops.signature import AttributeValue
    from aneforge.rules.subject import Held

__all__ = ["find_known_nodes", "operation_of"]

ENCODED_WEIGHT = "constexpr_"
"""How the names of operations begin that stand for a weight in its encoding."""
STORED_WEIGHT, STORED_DTYPE = "dequantize", "int8"
"""The operation that is taken into the weights of whatever reads it, and the element type for which that is so."""

RING_BUFFER_WRITE = "tensor_to_circular_buffer"

SOFTPLUS = frozenset({"softplus", "softplus_parametric"})
SOFTMAX, ATTENTION = "softmax", "sdpa"


def find_known_nodes(nodes: Iterable[Node]) -> frozenset[Node]:
    """Return the nodes, given in their order, whose results are constants of the compiled program.

    They are encoded weights, and whatever moves constants about. What computes with floating-point numbers is none of
    them: its rounding may be the engine's.
    """
    found: set[Node] = set()
    for node in nodes:
        moves = node.op.category is Category.STRUCTURAL or node.op.name.startswith(ENCODED_WEIGHT)
        if moves and node.operands and all(is_constant(value, found) for _, value in node.values()):
            found.add(node)
    return frozenset(found)


def is_constant(value: Value, known: Container[Node]) -> bool:
    """Return whether a value is a constant of the compiled program."""
    return isinstance(value, Constant) or value.node in known


def is_weight(value: Value, known: Container[Node]) -> bool:
    """Return whether a value is a constant for whatever reads it, an int8 weight that is dequantised among them."""
    if is_constant(value, known):
        return True
    if not isinstance(value, Output) or value.node.op.name != STORED_WEIGHT:
        return False
    values = dict(value.node.values())
    return values["input"].type.dtype == STORED_DTYPE and all(is_constant(one, known) for one in values.values())


def operation_of(node: Node, consumers: Sequence[Node], known: Container[Node] = frozenset()) -> Operation:
    """Return a node as rules see it; `known` are the nodes of its graph whose results are constants.

    The extents of a kernel become the attribute `kernel_sizes`; whether a ring buffer is a state becomes `live_state`;
    how far the input of a softplus may reach `reach`; the largest magnitude of a mask `largest_mask`; the extent of the
    longest axis that a gather indexes by rounded numbers `rounded_extent`; the reduction that a product with 0 scales
    `scaled_reduction`; whether a floor is the last step of a division `quotient`.
    """
    held: Held = {
        name: tuple(
            value if isinstance(value, Constant) else value.type
            for value in (argument if isinstance(argument, tuple) else (argument,))
        )
        for name, argument in node.operands.items()
    }
    indices = frozenset(
        name
        for name, value in node.values()
        if isinstance(value, Output) and is_index(value.node.op.name, value.type.dtype)
    )
    weights = frozenset(
        name for name, argument in node.operands.items() if isinstance(argument, Output) and is_weight(argument, known)
    )
    readers = frozenset(reader.op.name for reader in consumers)
    return Operation(
        node.op.name,
        operands=tensors_read(held, indices, weights),
        results=node.types,
        attributes=attributes_of(node, readers),
        consumers=readers,
        location=node.location,
        arguments=arguments_of(held),
        constants=constants_of(held),
        known=weights,
    )


def attributes_of(node: Node, readers: frozenset[str]) -> Mapping[str, AttributeValue]:
    """Return the attributes of a node, and what else rules look at."""
    kernel = node.operands.get("weight")
    if isinstance(kernel, Output | Constant) and kernel.type.rank > 2 and "kernel_sizes" not in node.attributes:
        return {**node.attributes, "kernel_sizes": kernel.type.shape[2:]}
    if node.op.name == RING_BUFFER_WRITE:
        return {**node.attributes, "live_state": is_live_state(node.operands.get("buffer"))}
    if node.op.name in SOFTPLUS:
        return {**node.attributes, "reach": reach_of(node.operands.get("x"))}
    if Trait.GATHERING in node.op.traits and is_rounded(node.operands.get("indices")):
        return {**node.attributes, "rounded_extent": indexed_extent(node)}
    if Trait.MASKING in node.op.traits and (SOFTMAX in readers or node.op.name == ATTENTION):
        masks = {"attn_mask"} if node.op.name == ATTENTION else set(node.operands)
        return {**node.attributes, "largest_mask": largest_magnitude(node, masks)}
    if is_quotient(node):
        added: dict[str, AttributeValue] = {"quotient": True}
    else:
        reduction = reduction_times_zero(node)
        added = {} if reduction is None else {"scaled_reduction": reduction}
    return {**node.attributes, **added} if added else node.attributes


def reduction_times_zero(node: Node) -> str | None:
    """Return the name of the reduction that a node multiplies by 0, if it does so: a constant of one number is one."""
    if node.op.name == "muls":
        reduced = node.operands.get("x") if node.attributes.get("k") == 0 else None
    elif node.op.name == "mul":
        reduced = next((one for _, one in node.values() if isinstance(one, Output)), None)
        zeros = (has_values(one) and one.type.size == 1 and not one.dense().any() for _, one in node.values())
        reduced = reduced if any(zeros) else None
    else:
        return None
    if not isinstance(reduced, Output) or reduced.node.op.category is not Category.REDUCTION:
        return None
    return reduced.node.op.name


def is_quotient(node: Node) -> bool:
    """Return whether a node is the floor of a division by constants, or of the product that such a division becomes."""
    value = node.operands.get("x") if node.op.name == "floor" else None
    if not isinstance(value, Output):
        return False
    factors = {"mul": ("x", "y"), "real_div": ("y",)}.get(value.node.op.name, ())
    return any(isinstance(value.node.operands.get(name), Constant) for name in factors)


def reach_of(value: Argument | None) -> float:
    """Return the largest number that a value is promised or bound to have, one operation back; infinity if none is."""
    if not isinstance(value, Output):
        return float("inf")
    attributes, op = value.node.attributes, value.node.op
    if op.name == "minimum":
        return min(
            (float(np.max(one.dense())) for _, one in value.node.values() if has_values(one)),
            default=float("inf"),
        )
    promised = attributes.get("max_abs") if op.name == "input" else None
    return float(promised) if isinstance(promised, int | float) else op.codomain_for(attributes).high


def largest_magnitude(node: Node, names: Container[str]) -> float:
    """Return the largest magnitude among the constants and numbers that a mask is made of."""
    added = node.attributes.get("k")
    found = [abs(float(added))] if isinstance(added, int | float) else []
    for name, value in node.values():
        if name in names and has_values(value) and is_float(value.type.dtype) and value.type.size:
            found.append(float(np.max(np.abs(value.dense().astype(np.float64)))))
    return max(found, default=0.0)


def has_values(value: Value) -> TypeGuard[Constant]:
    """Return whether a value is a constant whose numbers are known."""
    return isinstance(value, Constant) and not isinstance(value, Declared)


def is_rounded(value: Argument | None) -> bool:
    """Return whether indices are floating-point numbers, or were before a cast and whatever moved them about."""
    while isinstance(value, Output) and not is_float(value.type.dtype):
        if value.node.op.name != "cast" and value.node.op.category is not Category.STRUCTURAL:
            return False
        value = value.node.operands.get("x")
    return isinstance(value, Output)


def indexed_extent(node: Node) -> int:
    """Return the extent of the longest axis that a gather indexes."""
    shapes = {name: value.type.shape for name, value in node.values()}
    shape, attributes = shapes["x"], node.attributes
    axis = attributes.get("axis")
    if isinstance(axis, int):
        return shape[axis]
    first = attributes.get("batch_dims")
    first = first if isinstance(first, int) else 0
    return max(shape[first : first + shapes["indices"][-1]], default=0)


def is_live_state(value: Argument | None) -> bool:
    """Return whether a value of a graph is a state, as it was or after a ring buffer was written."""
    while isinstance(value, Output) and Trait.PASSING_A_STATE in value.node.op.traits:
        movement = value.node.op.movement
        value = None if movement is None else value.node.operands.get(movement.operands[0])
    return isinstance(value, Output) and value.node.op.name == "state"
