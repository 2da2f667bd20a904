"""Operations that MIL does not have as the graph has them, rebuilt from operations that it has.

Composite builder operations become the statements that ANEForge 0.4.0 emits for them, with two differences that keep
numbers exact: a bound is a `threshold`, whose number stands in the text, where a `maximum` would have rounded it to
half precision; and gamma is multiplied by itself, not rounded once more as gamma · √D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from aneforge.codegen.mil.resizing import resized
from aneforge.errors import NotSupportedError
from aneforge.graph.node import build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant, Dense
from aneforge.ops.types import bits, numpy_dtype

if TYPE_CHECKING:
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node, Value

__all__ = ["FORMS", "Operands", "in_mil_form", "made", "one"]

Operands = Mapping[str, "Argument"]
Form = Callable[["Node", Operands], Sequence[Tensor] | None]
"""A function of a node and its operands as they are now; None keeps the node."""


def in_mil_form(graph: Graph) -> Graph:
    """Return a graph that means the same and whose every node is one operation of MIL.

    >>> import aneforge as af
    >>> graph = af.Graph({"y": af.input((1, 4)).l2_norm()})
    >>> [node.op.name for node in in_mil_form(graph).nodes]
    ['input', 'reduce_l2_norm', 'threshold', 'real_div']

    Raises:
        NotSupportedError: An operation has no form in MIL.
    """

    def replace(node: Node, operands: Operands) -> Sequence[Tensor] | None:
        if node.op.name in FORMS:
            return FORMS[node.op.name](node, operands)
        if node.op.mil_name is None and node.op.name != "input":
            raise no_form(node)
        return None

    if all(node.op.name not in FORMS and (node.op.in_mil or node.op.name == "input") for node in graph.nodes):
        return graph
    return rewrite(graph, replace)


def no_form(node: Node) -> NotSupportedError:
    """Return the error for an operation that has no form in MIL."""
    return NotSupportedError(
        "it has no form in MIL text",
        operation=node.op.name,
        location=node.location,
        remedy=f"it runs as {node.op.surface}: write a network description, or build it from other operations",
    )


def made(node: Node, op: str, operands: Mapping[str, Value], **attributes: object) -> Tensor:
    """Return the result of a new node in the place of another."""
    return Tensor(build(op, dict(operands), attributes, node.location))


def one(operands: Operands, name: str) -> Value:
    """Return an operand that is one value."""
    return cast("Value", operands[name])


def in_type(node: Node, constant: Value, dtype: str, shape: tuple[int, ...]) -> Value:
    """Return a parameter in another shape, and in another element type by a cast, which rounds nothing."""
    dense = cast("Constant", constant).dense()
    shaped = Dense(dense.reshape(shape)) if dense.shape != shape else cast("Constant", constant)
    return shaped if shaped.type.dtype == dtype else made(node, "cast", {"x": shaped}, dtype=dtype)


def divided_by_length(node: Node, x: Value, axes: Sequence[int], least: float) -> Tensor:
    """Return x over its Euclidean length, which is at least a number."""
    length = made(node, "reduce_l2_norm", {"x": x}, axes=tuple(axes), keep_dims=True)
    return made(node, "real_div", {"x": x, "y": made(node, "threshold", {"x": length}, alpha=least)})


def l2_norm(node: Node, operands: Operands) -> Sequence[Tensor]:
    """Rebuild the builder's l2_norm; MIL's own has no axes and adds epsilon."""
    axes, epsilon = cast("tuple[int, ...]", node.attributes["axes"]), cast("float", node.attributes["epsilon"])
    return [divided_by_length(node, one(operands, "x"), axes, math.sqrt(epsilon))]


def rms_norm(node: Node, operands: Operands) -> Sequence[Tensor]:
    """Rebuild rms_norm: over the length, times gamma, times √D."""
    x = one(operands, "x")
    extent, epsilon = x.type.shape[-1], cast("float", node.attributes["epsilon"])
    unit = divided_by_length(node, x, (-1,), math.sqrt(extent * epsilon))
    gamma = in_type(node, one(operands, "gamma"), x.type.dtype, (extent,))
    scaled = made(node, "mul", {"x": unit, "y": gamma})
    return [made(node, "muls", {"x": scaled}, k=math.sqrt(extent))]


def scaled_and_shifted(node: Node, operands: Operands, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return x times gamma plus beta, both laid along the channels."""
    gamma, beta = (in_type(node, one(operands, name), x.dtype, shape) for name in ("gamma", "beta"))
    return made(node, "add", {"x": made(node, "mul", {"x": x, "y": gamma}), "y": beta})


def standardised(node: Node, x: Value, mean: Callable[[Value], Tensor]) -> Tensor:
    """Return x less its mean, over its standard deviation."""
    centred = made(node, "sub", {"x": x, "y": mean(x)})
    variance = mean(made(node, "mul", {"x": centred, "y": centred}))
    shifted = made(node, "adds", {"x": variance}, k=node.attributes["epsilon"])
    return made(node, "mul", {"x": centred, "y": made(node, "rsqrt", {"x": shifted}, epsilon=0.0)})


def channel_layer_norm(node: Node, operands: Operands) -> Sequence[Tensor]:
    """Rebuild the normalisation over the channels of [N, C, 1, S]."""
    x = one(operands, "x")

    def mean(value: Value) -> Tensor:
        return made(node, "reduce_mean", {"x": value}, axes=(1,), keep_dims=True)

    return [scaled_and_shifted(node, operands, standardised(node, x, mean), (1, x.type.shape[1], 1, 1))]


def group_norm(node: Node, operands: Operands) -> Sequence[Tensor]:
    """Rebuild the normalisation of groups of channels: sums along one axis, then the other, over the count."""
    x = one(operands, "x")
    batch, channels, height, width = x.type.shape
    groups = cast("int", node.attributes["num_groups"])
    depth, places = channels // groups, height * width
    grouped = made(node, "reshape", {"x": x}, shape=(batch, groups, depth, places))

    def mean(value: Value) -> Tensor:
        rows = made(node, "reduce_sum", {"x": value}, axes=(3,), keep_dims=True)
        total = made(node, "reduce_sum", {"x": rows}, axes=(2,), keep_dims=True)
        return made(node, "muls", {"x": total}, k=1 / (depth * places))

    standard = made(node, "reshape", {"x": standardised(node, grouped, mean)}, shape=x.type.shape)
    return [scaled_and_shifted(node, operands, standard, (1, channels, 1, 1))]


def attention(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Rebuild attention with a scale or a causal mask of its own: MIL has 1/√D alone, and masks as tensors."""
    scale, causal = cast("float | None", node.attributes["scale"]), node.attributes["is_causal"]
    query, others = one(operands, "query"), {name: value for name, value in operands.items() if name != "query"}
    if scale is None and not causal:
        return None
    if causal:
        rows = query.type.shape[-2]
        mask = np.where(np.tri(rows, dtype=np.bool_), 0.0, -np.inf).astype(numpy_dtype(query.type.dtype))
        others["attn_mask"] = Dense.owning(mask)
    if scale is not None:
        query = made(node, "muls", {"x": query}, k=scale * math.sqrt(query.type.shape[-1]))
    return [Tensor(build("sdpa", {"query": query, **others}, {}, node.location))]


def branches(node: Node, operands: Operands) -> Sequence[Tensor]:
    """Rebuild a condition: both branches are there already, and each value is chosen."""
    pairs = zip(
        cast("tuple[Value, ...]", operands["true_values"]),
        cast("tuple[Value, ...]", operands["false_values"]),
        strict=True,
    )
    return [made(node, "select", {"cond": one(operands, "pred"), "a": yes, "b": no}) for yes, no in pairs]


def alike_parameters(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Bring the parameters of a normalisation to one element type, the widest, which holds all of them exactly."""
    parameters = {name: cast("Constant", value) for name, value in operands.items() if name != "x"}
    dtypes = {constant.type.dtype for constant in parameters.values()}
    if len(dtypes) < 2:
        return None
    widest = max(dtypes, key=bits)
    dtype = widest if sum(bits(dtype) == bits(widest) for dtype in dtypes) == 1 else "fp32"
    widened = {name: Dense.owning(constant.dense().astype(numpy_dtype(dtype))) for name, constant in parameters.items()}
    return [Tensor(build(node.op, {"x": operands["x"], **widened}, node.attributes, node.location))]


def recurrent(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Rebuild a recurrent layer in reverse: MIL gives outputs in the order of steps, a graph at their places."""
    if node.attributes["direction"] != "reverse" or not node.attributes["output_sequence"]:
        return None
    x = made(node, "reverse", {"x": one(operands, "x")}, axes=(0,))
    forward = build(node.op, {**operands, "x": x}, {**node.attributes, "direction": "forward"}, node.location)
    outputs, *states = (Tensor(forward, index) for index in range(len(forward.types)))
    return [made(node, "reverse", {"x": outputs}, axes=(0,)), *states]


def batch_to_space(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Rebuild the joining of several images, which MIL counts otherwise: columns first, then rows, then the borders."""
    x = one(operands, "x")
    high, wide = cast("tuple[int, int]", node.attributes["block_shape"])
    count, channels, height, width = x.type.shape
    images = count // (high * wide)
    if images == 1:
        return None
    parted = made(node, "reshape", {"x": x}, shape=(images * high, wide, channels * height, width))
    columns = made(node, "transpose", {"x": parted}, perm=(0, 2, 3, 1))
    rows = made(node, "reshape", {"x": columns}, shape=(images, high, channels, height, width * wide))
    whole = made(node, "transpose", {"x": rows}, perm=(0, 2, 3, 1, 4))
    joined = made(node, "reshape", {"x": whole}, shape=(images, channels, height * high, width * wide))
    top, bottom, left, right = cast("tuple[int, ...]", node.attributes["crops"])
    end = (images, channels, height * high - bottom, width * wide - right)
    return [made(node, "slice_by_index", {"x": joined}, begin=(0, 0, top, left), end=end)]


def space_to_batch(node: Node, operands: Operands) -> Sequence[Tensor] | None:
    """Rebuild the parting of several images, which MIL counts otherwise: the borders, then rows, then columns."""
    x = one(operands, "x")
    high, wide = cast("tuple[int, int]", node.attributes["block_shape"])
    images, channels = x.type.shape[:2]
    if images == 1:
        return None
    sides = (0, 0, 0, 0, *cast("tuple[int, ...]", node.attributes["paddings"]))
    padded = made(node, "pad", {"x": x}, pad=sides, mode="constant", constant_val=0.0)
    height, width = padded.shape[2] // high, padded.shape[3] // wide
    rows = made(node, "reshape", {"x": padded}, shape=(images, channels, height, high, width * wide))
    parted = made(node, "transpose", {"x": rows}, perm=(0, 3, 1, 2, 4))
    columns = made(node, "reshape", {"x": parted}, shape=(images * high, channels * height, width, wide))
    moved = made(node, "transpose", {"x": columns}, perm=(0, 3, 1, 2))
    return [made(node, "reshape", {"x": moved}, shape=(images * high * wide, channels, height, width))]


def refused(node: Node, _: Operands) -> Sequence[Tensor]:
    """Refuse an operation of which the graph holds no more than its name.

    Raises:
        NotSupportedError: Always.
    """
    raise NotSupportedError(
        f"a graph cannot write it: {node.op.no_meaning}", operation=node.op.name, location=node.location
    )


FORMS: dict[str, Form] = {
    "batch_norm": alike_parameters,
    "batch_to_space": batch_to_space,
    "call": refused,
    "channel_layer_norm": channel_layer_norm,
    "cond": branches,
    "const": refused,
    "group_norm": group_norm,
    "gru": recurrent,
    "instance_norm": alike_parameters,
    "l2_norm": l2_norm,
    "layer_norm": alike_parameters,
    "lstm": recurrent,
    "resize": resized,
    "rms_norm": rms_norm,
    "rnn": recurrent,
    "sdpa": attention,
    "space_to_batch": space_to_batch,
    "while_loop": refused,
}
"""Operations that are rebuilt, or refused, before a graph is written."""
