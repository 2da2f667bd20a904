"""Which products of a graph can be rescaled, by which operand, and where the factor can go without a layer of its own.

With constant weights it is the weights that are multiplied, each output channel by a factor of its own where the gain
slot allows that. Of two tensors that are computed at run time one is multiplied: best where it is made, by an operation
with a gain slot, from which only movements lead to the product. Attention that is one operation is linear in its
values, so of its tensors these are multiplied; the sums of its scores lie ahead of a softmax, which takes no factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from aneforge.compress.products import CONVOLUTIONS, MATRIX_PRODUCTS, axes_of
from aneforge.graph.graph import STATE
from aneforge.graph.node import Output
from aneforge.ops.constant import Constant
from aneforge.ops.types import is_float
from aneforge.runtime.rescaling.encoded import can_scale, has_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node, Value

__all__ = [
    "ATTENTION",
    "LiveGroup",
    "WeightedProduct",
    "bias_of",
    "contracted",
    "depends_on_state",
    "depth_of",
    "host_of",
    "left_alone",
    "live_groups",
    "numbered",
    "readers_of",
    "second_of",
    "sized_by",
    "tensors_of",
    "weighted_products",
]

MOVEMENTS = frozenset({"reshape", "transpose", "expand_dims", "squeeze", "slice_by_index", "slice_by_size"})
"""Operations that leave every element as it is, and have one tensor to read."""
PRODUCTS = CONVOLUTIONS | MATRIX_PRODUCTS | {"linear", "conv_transpose"}
"""Operations whose sums are of products of two operands, and nothing else."""
ATTENTION = frozenset({"sdpa"})
"""Operations that weigh the rows of their values by softmax rows: linear in the values, and in nothing else."""
HOSTS = PRODUCTS | {"add", "sub", "mul"}
"""Operations with a gain slot behind them, into which a factor goes without a layer more."""


@dataclass(frozen=True, slots=True)
class WeightedProduct:
    """A product of a tensor with constant weights."""

    node: Node
    name: str
    operand: str
    """The weights."""
    other: str
    weights: Constant
    rows: int | None
    """The axis of the weights that is the output channels; None where one factor serves for all."""
    axis: int
    """The axis of the result along which those lie."""
    depth: int
    """Terms of one sum."""


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """Products of two tensors, or attention, that share a tensor, which is multiplied for all of them."""

    shared: Output
    members: tuple[tuple[Node, str, str], ...]
    """Product, its name, and the operand that is the shared tensor."""
    host: Node | None
    """The operation behind which the factor goes; None where it becomes a layer."""


def numbered(graph: Graph) -> Iterator[tuple[str, Node]]:
    """Return every node with the name that programs have for its result."""
    return ((f"t{number}", node) for number, node in enumerate(graph.nodes))


def weighted_products(graph: Graph) -> tuple[WeightedProduct, ...]:
    """Return the products with constant weights, in an encoding that can be multiplied, of real numbers.

    >>> import numpy as np, aneforge as af
    >>> graph = af.Graph({"y": af.input((1, 4)).linear(np.ones((8, 4)))})
    >>> [(product.name, product.operand, product.depth) for product in weighted_products(graph)]
    [('t1', 'weight', 4)]
    """
    return tuple(found for name, node in numbered(graph) if (found := weighted(node, name)) is not None)


def weighted(node: Node, name: str) -> WeightedProduct | None:
    """Return a node as a product with weights, if it is one."""
    operand = next((one for one in ("weight", "y", "x") if isinstance(node.operands.get(one), Constant)), None)
    if operand is None or not is_float(node.types[0].dtype):
        return None
    weights, axes = cast("Constant", node.operands[operand]), axes_of(node, operand)
    other = "y" if operand == "x" else "x"
    if axes is None or not weights.type.size or not is_float(weights.type.dtype) or not can_scale(weights):
        return None
    if not isinstance(node.operands.get(other), Output) or not (bias_of(node) is None or constant_bias(node)):
        return None
    shape, rank = weights.type.shape, node.types[0].rank
    groups = int(cast("int", node.attributes.get("groups", 1)))
    if node.op.name in CONVOLUTIONS or node.op.name == "conv_transpose":
        rows = axes.rows if (axes.rows == 0 or groups == 1) and has_rows(weights, axes.rows) else None
        return WeightedProduct(node, name, operand, other, weights, rows, 1, weights.type.size // shape[axes.rows])
    by_channel = operand != "x" and weights.type.rank == 2 and rank > 1 and has_rows(weights, axes.rows)
    rows = axes.rows if by_channel else None
    return WeightedProduct(node, name, operand, other, weights, rows, rank - 1, shape[axes.columns])


def bias_of(node: Node) -> Value | None:
    """Return the operand at which sums start."""
    return cast("Value | None", node.operands.get("bias"))


def constant_bias(node: Node) -> bool:
    """Tell whether sums start at constants that can be multiplied."""
    bias = bias_of(node)
    return isinstance(bias, Constant) and is_float(bias.type.dtype) and can_scale(bias)


def live_groups(graph: Graph) -> tuple[LiveGroup, ...]:
    """Return the products of two tensors, and attention, by the tensor that is to be multiplied.

    The one whose factor costs no layer is taken; where both do, the second operand, which is that of the values and the
    keys in attention. Attention that is one operation has its values multiplied and nothing else: where queries, keys
    or anyone else read the same tensor, only a layer of its own can do that.

    >>> import numpy as np, aneforge as af
    >>> x = af.input((1, 2, 8, 4))
    >>> query, key, value = (x.linear(np.eye(4)) for _ in range(3))
    >>> apart, together = af.sdpa(query, key, value), af.sdpa(query, key, key)
    >>> groups = [group for y in (apart, together) for group in live_groups(af.Graph({"y": y}))]
    >>> [(group.members[0][2], group.host is None) for group in groups]
    [('value', False), ('value', True)]
    """
    names = {node: name for name, node in numbered(graph) if is_live(node)}
    leaving = {(output.node, output.index) for output in (*graph.outputs.values(), *graph.states.values())}
    readers = readers_of(graph)
    groups: list[LiveGroup] = []
    taken: set[Node] = set()
    for node in names:
        for operand in factors_of(node):
            shared = cast("Output", node.operands[operand])
            key = (shared.node, shared.index)
            host = None if key in leaving else host_of(shared, graph, leaving)
            together = readers[key]
            free = all(one in names and one not in taken and place in factors_of(one) for one, place in together)
            if node in taken or host is None or not free:
                continue
            groups.append(LiveGroup(shared, tuple((one, names[one], place) for one, place in together), host))
            taken.update(one for one, _ in together)
    alone: dict[tuple[Node, int], list[tuple[Node, str, str]]] = {}
    for node, name in names.items():
        if node not in taken:
            second = second_of(node)
            shared = cast("Output", node.operands[second])
            alone.setdefault((shared.node, shared.index), []).append((node, name, second))
    groups += [LiveGroup(Output(*key), tuple(members), None) for key, members in alone.items()]
    return tuple(groups)


def second_of(node: Node) -> str:
    """Return the name of the operand with which a product multiplies x, and attention its weights."""
    if node.op.name in ATTENTION:
        return "value"
    return "y" if node.op.name in MATRIX_PRODUCTS else "weight"


def factors_of(node: Node) -> tuple[str, ...]:
    """Return the operands in which a product is linear, of which one can be multiplied; the best to take first."""
    return (second_of(node),) if node.op.name in ATTENTION else (second_of(node), "x")


def tensors_of(node: Node) -> tuple[str, ...]:
    """Return the names of the operands that are tensors.

    >>> import numpy as np, aneforge as af
    >>> x = af.input((1, 1, 2, 4))
    >>> tensors_of(af.sdpa(x, x, x, attn_mask=np.zeros((1, 1, 2, 2))).node)
    ('query', 'key', 'value')
    """
    return tuple(name for name, value in node.values() if isinstance(value, Output))


def sized_by(node: Node) -> tuple[Output, ...]:
    """Return the tensors whose sizes bound the sums that are rescaled: of attention its values alone.

    Its weights add up to one, whatever queries, keys and mask are.

    >>> import aneforge as af
    >>> x, y = af.input((1, 1, 2, 4)), af.input((1, 1, 2, 4))
    >>> [value.node is y.node for value in sized_by(af.sdpa(x, x, y).node)]
    [True]
    """
    return (cast("Output", node.operands["value"]),) if node.op.name in ATTENTION else node.sources()


def is_live(node: Node) -> bool:
    """Tell whether a node multiplies two different tensors of real numbers, from nothing on, or weighs values."""
    if node.op.name in ATTENTION:
        return isinstance(node.operands["value"], Output)
    if node.op.name not in PRODUCTS or not is_float(node.types[0].dtype) or bias_of(node) is not None:
        return False
    x, y = node.operands.get("x"), node.operands.get(second_of(node))
    if not isinstance(x, Output) or not isinstance(y, Output):
        return False
    return min(x.type.rank, y.type.rank) > 1 and (x.node, x.index) != (y.node, y.index)


def depth_of(node: Node) -> int:
    """Return the terms of one sum of a product of two tensors; of a convolution, those of a place within its image.

    Of attention they are those of the sum of values.
    """
    if node.op.name in ATTENTION:
        return cast("Output", node.operands["value"]).shape[-2]
    if node.op.name in MATRIX_PRODUCTS:
        return cast("Output", node.operands["x"]).shape[contracted(node, "x")]
    axes, weight = axes_of(node, "weight"), cast("Output", node.operands["weight"])
    return weight.type.size // weight.shape[0 if axes is None else axes.rows]


def contracted(node: Node, operand: str) -> int:
    """Return the axis of an operand along which a matrix product adds."""
    transposed = bool(node.attributes.get(f"transpose_{operand}", False))
    return -1 if (operand == "x") != transposed else -2


def left_alone(graph: Graph) -> tuple[tuple[Node, str, str], ...]:
    """Return the products that nothing can be multiplied of, each with its name and the reason.

    >>> import aneforge as af
    >>> x = af.input((4, 4))
    >>> [(name, reason) for _, name, reason in left_alone(af.Graph({"y": x @ x}))]
    [('t1', 'both operands are the same tensor')]
    """
    taken = {product.node for product in weighted_products(graph)}
    taken.update(node for group in live_groups(graph) for node, _, _ in group.members)
    return tuple(
        (node, name, why_alone(node))
        for name, node in numbered(graph)
        if node.op.macs is not None and node not in taken and node.sources() and is_float(node.types[0].dtype)
    )


def why_alone(node: Node) -> str:
    """Return why nothing of a product can be multiplied."""
    if node.op.name in ATTENTION:
        return "its values are constants, and the sums of its scores lie within the operation, where no factor can go"
    if node.op.name not in PRODUCTS:
        return "its sums lie within the operation, where no factor can go"
    x, y = node.operands.get("x"), node.operands.get(second_of(node))
    constant = next((one for one in (x, y) if isinstance(one, Constant)), None)
    if constant is not None and not can_scale(constant):
        return f"its weights are encoded as {constant.encoding}, which is not multiplied"
    if isinstance(x, Output) and isinstance(y, Output) and (x.node, x.index) == (y.node, y.index):
        return "both operands are the same tensor"
    if bias_of(node) is not None:
        return "its sums start at a bias that a factor does not reach"
    return "an operand is a vector or empty, which is not multiplied"


def readers_of(graph: Graph) -> Mapping[tuple[Node, int], list[tuple[Node, str]]]:
    """Return who reads each value, and as which operand."""
    found: dict[tuple[Node, int], list[tuple[Node, str]]] = {}
    for node in graph.nodes:
        for name, value in node.values():
            if isinstance(value, Output):
                found.setdefault((value.node, value.index), []).append((node, name))
    return found


def host_of(value: Output, graph: Graph, leaving: set[tuple[Node, int]]) -> Node | None:
    """Return the operation with a gain slot that makes a value, alone or with movements that nothing else reads."""
    node = value.node
    while node.op.name in MOVEMENTS and len(node.sources()) == 1:
        node = node.sources()[0].node
        if len(graph.consumers[node]) != 1 or (node, 0) in leaving:
            return None
    return node if node.op.name in HOSTS and is_float(node.types[0].dtype) else None


def depends_on_state(graph: Graph) -> frozenset[Node]:
    """Return the nodes whose values depend on what a state holds."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op.name == STATE or any(value.node in found for value in node.sources()):
            found.add(node)
    return frozenset(found)
