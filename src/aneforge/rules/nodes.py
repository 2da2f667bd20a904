"""A node of a graph as rules see it, with what only a graph knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.ops.op import Category
from aneforge.rules.checks.dtypes import is_index
from aneforge.rules.subject import Operation, arguments_of, constants_of, tensors_read

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from aneforge.graph.node import Argument, Node, Value
    from aneforge.ops.signature import AttributeValue
    from aneforge.rules.subject import Held

__all__ = ["known_nodes", "operation_of"]

ENCODED_WEIGHT = "constexpr_"
"""How the names of operations begin that stand for a weight in its encoding."""
STORED_WEIGHT, STORED_DTYPE = "dequantize", "int8"
"""The operation that is taken into the weights of whatever reads it, and the element type for which that is so."""

RING_BUFFER_WRITE = "tensor_to_circular_buffer"
PASSING_A_STATE = {
    "read_state": "input",
    "tensor_buffer_to_tensor": "buffer",
    "tensor_to_tensor_buffer": "x",
    RING_BUFFER_WRITE: "buffer",
}
"""Operations whose result is the state that the operand of this name is."""


def known_nodes(nodes: Iterable[Node]) -> frozenset[Node]:
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
    """Tell whether a value is a constant of the compiled program."""
    return isinstance(value, Constant) or value.node in known


def is_weight(value: Value, known: Container[Node]) -> bool:
    """Tell whether a value is a constant for whatever reads it, an int8 weight that is dequantised among them."""
    if is_constant(value, known):
        return True
    if not isinstance(value, Output) or value.node.op.name != STORED_WEIGHT:
        return False
    values = dict(value.node.values())
    return values["input"].type.dtype == STORED_DTYPE and all(is_constant(one, known) for one in values.values())


def operation_of(node: Node, consumers: Sequence[Node], known: Container[Node] = frozenset()) -> Operation:
    """Return a node as rules see it; `known` are the nodes of its graph whose results are constants.

    The extents of a kernel become the attribute `kernel_sizes`; whether a ring buffer is a state becomes `live_state`.
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
    return Operation(
        node.op.name,
        operands=tensors_read(held, indices, weights),
        results=node.types,
        attributes=attributes_of(node),
        consumers=frozenset(reader.op.name for reader in consumers),
        location=node.location,
        arguments=arguments_of(held),
        constants=constants_of(held),
        known=weights,
    )


def attributes_of(node: Node) -> Mapping[str, AttributeValue]:
    """Return the attributes of a node, and what rules look at besides."""
    kernel = node.operands.get("weight")
    if isinstance(kernel, Output | Constant) and kernel.type.rank > 2 and "kernel_sizes" not in node.attributes:
        return {**node.attributes, "kernel_sizes": kernel.type.shape[2:]}
    if node.op.name == RING_BUFFER_WRITE:
        return {**node.attributes, "live_state": is_live_state(node.operands.get("buffer"))}
    return node.attributes


def is_live_state(value: Argument | None) -> bool:
    """Tell whether a value of a graph is a state, as it was or after a ring buffer was written."""
    while isinstance(value, Output) and value.node.op.name in PASSING_A_STATE:
        value = value.node.operands.get(PASSING_A_STATE[value.node.op.name])
    return isinstance(value, Output) and value.node.op.name == "state"
