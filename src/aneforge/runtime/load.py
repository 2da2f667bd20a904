"""`load_onnx`: an ONNX model, read and compiled in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aneforge.errors import UnknownNameError
from aneforge.formats.onnx.onnx_model import from_onnx
from aneforge.graph.builder.attention import is_short
from aneforge.graph.node import Output, build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.records import dataclass
from aneforge.runtime.compile import compile as compile_graph
from aneforge.runtime.options import OPTION_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.formats.onnx.reading import ModelSource
    from aneforge.formats.shared.shapes import Shapes
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node, Value
    from aneforge.runtime.model import AnyModel

__all__ = ["load_onnx", "with_attention"]

PRODUCTS = ("bmm", "matmul")


def load_onnx(
    model: ModelSource,
    fuse_attention: bool = False,  # noqa: FBT001, FBT002 - the documented signature
    approx_resize: bool = False,  # noqa: FBT001, FBT002, ARG001 - as above; see below
    *,
    shapes: Shapes | None = None,
    **options: object,
) -> AnyModel:
    """Read an ONNX model and compile it; `shapes` binds dimensions as in `from_onnx`, `options` are those of `compile`.

    With `fuse_attention`, a softmax of a product between two products becomes one attention operation, whose rounding
    is that of the engine's own layer. `approx_resize` is accepted for compatibility: it allowed approximate forms of
    Resize, and has no effect here, because every form is read exactly.

    >>> import numpy as np
    >>> from onnx import TensorProto, helper
    >>> import aneforge as af
    >>> ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [1, 4]) for name in "xy"]
    >>> made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    >>> net = load_onnx(helper.make_model(made), target=af.targets.Family.A15)
    >>> net(np.array([[-1.0, 0, 1, 2]], np.float16)).tolist()
    [[0.0, 0.0, 1.0, 2.0]]

    Raises:
        UnknownNameError: `compile` has no such option.
        AneforgeError: As for `from_onnx` and `compile`.
    """
    for name in options:
        if name not in OPTION_NAMES:
            raise UnknownNameError.of(
                "option of load_onnx", name, ("fuse_attention", "approx_resize", "shapes", *OPTION_NAMES)
            )
    graph = from_onnx(model, shapes=shapes)
    return cast("AnyModel", compile_graph(with_attention(graph) if fuse_attention else graph, **options))  # pyright: ignore[reportCallIssue, reportArgumentType] - the options are those of compile


@dataclass(frozen=True, slots=True)
class Weighting:
    """What a softmax of scaled products is made of."""

    query: Value
    key: Value
    scale: float
    inner: tuple[Node, ...]
    """The nodes that go into it."""


def with_attention(graph: Graph) -> Graph:
    """Return a graph in which softmax(q · kᵀ · scale) · v is one operation, where nothing else reads the parts.

    >>> import aneforge as af
    >>> from aneforge.graph.node import build
    >>> q, k, v = (af.input((1, 2, 4, 8), name=name) for name in "qkv")
    >>> products = Tensor(build("matmul", {"x": q, "y": k}, {"transpose_y": True}))
    >>> y = Tensor(build("matmul", {"x": (products * 0.5).softmax(), "y": v}, {}))
    >>> [node.op.name for node in with_attention(af.Graph({"y": y})).nodes]
    ['input', 'input', 'input', 'sdpa']
    """
    readers = graph.consumers
    returned = {output.node for output in (*graph.outputs.values(), *graph.states.values())}

    def replace(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
        if node.op.name not in PRODUCTS or node.is_set("transpose_x") or node.is_set("transpose_y"):
            return None
        before, now = weighting(node.operands["x"]), weighting(operands["x"])
        if before is None or now is None or any(one in returned or len(readers[one]) > 1 for one in before.inner):
            return None
        value = cast("Value", operands["y"])
        if not is_short(now.query.type.shape[-2], now.key.type.shape[-2]):
            return None
        if value.type.rank < 3 or now.query.type.shape[:-2] != value.type.shape[:-2]:
            return None
        given: dict[str, Argument | None] = {"query": now.query, "key": now.key, "value": value}
        return [Tensor(build("sdpa", given, {"scale": now.scale, "native": True}, node.location))]

    return rewrite(graph, replace)


def weighting(argument: Argument) -> Weighting | None:
    """Return the parts of a softmax along the last axis of products, scaled or not; None for anything else."""
    softmax = made_by(argument, ("softmax",))
    if softmax is None or softmax.integer("axis") not in (-1, softmax.types[0].rank - 1):
        return None
    scaling = made_by(softmax.operands["x"], ("muls",))
    product = made_by(scaling.operands["x"] if scaling is not None else softmax.operands["x"], PRODUCTS)
    if product is None or product.is_set("transpose_x"):
        return None
    scale = 1.0 if scaling is None else scaling.number("k")
    inner = tuple(node for node in (softmax, scaling, product) if node is not None)
    query, key = cast("Value", product.operands["x"]), cast("Value", product.operands["y"])
    if product.is_set("transpose_y"):
        return Weighting(query, key, scale, inner) if same_batch(query, key) else None
    turned = made_by(key, ("transpose",))
    rank = key.type.rank
    if turned is None or turned.integers("perm") != (*range(rank - 2), rank - 1, rank - 2):
        return None
    source = cast("Value", turned.operands["x"])
    return Weighting(query, source, scale, inner) if same_batch(query, source) else None


def same_batch(query: Value, key: Value) -> bool:
    """Return whether queries and keys have the same axes before the last two, of which there is one at least."""
    return query.type.rank >= 3 and query.type.shape[:-2] == key.type.shape[:-2]


def made_by(argument: Argument, operations: tuple[str, ...]) -> Node | None:
    """Return the node that makes a value, if it is one of some operations."""
    return argument.node if isinstance(argument, Output) and argument.node.op.name in operations else None
