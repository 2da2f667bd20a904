"""The documented estimate without a target: a roofline for every operation over one host's constants, nothing compiled.

It is kept as documented, so that code that decides by it decides as before; `cost.py` is the model to believe. It walks
the graph once.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from aneforge.analysis.files import DATA
from aneforge.evidence import Evidence  # noqa: TC001 - msgspec reads it
from aneforge.graph.convert import unroll
from aneforge.graph.graph import INPUT, STATE, as_graph, work_of
from aneforge.ops.constant import Constant
from aneforge.ops.op import Surface
from aneforge.targets.schema import Entry, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from aneforge.graph.graph import GraphLike
    from aneforge.graph.node import Node
    from aneforge.ops.types import TensorType

__all__ = ["PointEntry", "heuristic", "host", "layer_microseconds", "layer_size"]

PRODUCTS = frozenset({"matmul", "linear", "bmm", "bmm_w", "conv", "conv_transpose"})
"""The operations whose multiplies the documented heuristic counts."""
WEIGHT_PRODUCTS = frozenset({"matmul", "linear"})
"""Those whose weights `int8` halves."""
BYTES = 2
"""Every element is counted as fp16."""


class PointEntry(Entry, frozen=True):
    """One measured layer."""

    work: int
    microseconds: float


class HostFile(Entry, frozen=True):
    """`host_model.toml`."""

    dispatch: float
    flops_per_microsecond: float
    bytes_per_microsecond: float
    cut: float
    int8_most: float
    int8_share: float
    evidence: Evidence
    layers: dict[str, tuple[PointEntry, ...]]


@cache
def host() -> HostFile:
    """Return the constants of the heuristic."""
    return read(DATA / "host_model.toml", HostFile)


def heuristic(out: GraphLike, *, int8: bool = False) -> float:
    """Return the documented estimate for the host in microseconds.

    >>> import numpy as np
    >>> import aneforge as af
    >>> round(heuristic(af.input((1, 4096)) @ np.ones((4096, 4096), np.float16)), 1)
    305.2
    """
    constants = host()
    nodes = [node for node in unroll(as_graph(out)).graph.nodes if node.op.name not in (INPUT, STATE)]
    layers = [node for node in nodes if node.op.surface is Surface.NATIVE_LAYER]
    fused = [node for node in nodes if node.op.surface is not Surface.NATIVE_LAYER]
    saved = sum(map(weight_elements, fused)) if int8 else 0
    discount = min(
        constants.int8_most * constants.dispatch, constants.int8_share * saved / constants.bytes_per_microsecond
    )
    work = sum(node_time(node, int8=int8) - constants.dispatch for node in fused)
    if not layers:
        return constants.dispatch + work - discount
    regions = (len(layers) + 1) * constants.dispatch if fused else 0.0
    alone = sum(map(layer_time, layers))
    return regions + work + alone + len(layers) * constants.cut - discount


def node_time(node: Node, *, int8: bool = False) -> float:
    """Return the documented time of one operation: the longest of dispatch, bytes and multiplies."""
    constants = host()
    elements = sum(kind.size for kind in (*operand_types(node), *node.types))
    moved = BYTES * elements - (weight_elements(node) if int8 else 0)
    flops = 2 * work_of(node).macs if node.op.name in PRODUCTS else 0
    return max(constants.dispatch, moved / constants.bytes_per_microsecond, flops / constants.flops_per_microsecond)


def layer_time(node: Node) -> float:
    """Return the documented time of an operation that is a program of its own."""
    found = layer_microseconds(node.op.name, layer_size(node.op.name, list(operand_types(node)), node.types[0]))
    return node_time(node) if found is None else found


def operand_types(node: Node) -> Iterator[TensorType]:
    """Iterate over the types of all operands, constants and lists included."""
    for argument in node.operands.values():
        for value in argument if isinstance(argument, tuple) else (argument,):
            yield value.type


def weight_elements(node: Node) -> int:
    """Return the elements of a product's weights, each of which `int8` makes one byte smaller."""
    if node.op.name not in WEIGHT_PRODUCTS:
        return 0
    return sum(value.type.size for value in node.operands.values() if isinstance(value, Constant))


def layer_microseconds(op: str, size: int) -> float | None:
    """Return the documented time of a layer: the point nearest in the logarithm of its size, scaled; None for others.

    >>> layer_microseconds("argmax", 512)
    90.6
    """
    constants = host()
    points = constants.layers.get(op)
    if points is None:
        return None
    distance = [abs(math.log(max(size, 1) / point.work)) for point in points]
    nearest = points[distance.index(min(distance))]
    return max(constants.dispatch, nearest.microseconds * size / nearest.work)


def layer_size(op: str, operands: Sequence[TensorType], result: TensorType) -> int:
    """Return the number that the time of a layer is scaled with, as documented for its operation."""
    rule = SIZES.get(op)
    return (operands[0].size if operands else 1) if rule is None else rule(operands, result)


def attention_size(operands: Sequence[TensorType], _result: TensorType) -> int:
    """Return heads × queries × keys × depth."""
    return operands[0].size * operands[1].shape[-2]


def correlation_size(operands: Sequence[TensorType], _result: TensorType) -> int:
    """Return the pixels of the image times those of the template."""
    return operands[0].size * operands[1].size


def sampling_size(operands: Sequence[TensorType], result: TensorType) -> int:
    """Return points times chosen points."""
    return operands[0].shape[0] * result.shape[0]


def result_size(_operands: Sequence[TensorType], result: TensorType) -> int:
    """Return the elements of the result."""
    return result.size


def one(_operands: Sequence[TensorType], _result: TensorType) -> int:
    """Return one: the time does not depend on the size."""
    return 1


SIZES: Mapping[str, Callable[[Sequence[TensorType], TensorType], int]] = {
    "sdpa": attention_size,
    "cross_correlation": correlation_size,
    "fps": sampling_size,
    "cost_volume": result_size,
    "radius_search": result_size,
    "input_view": result_size,
    "cross_product": one,
    "dynamic_slice": one,
}
"""Operations whose measure is another than the elements of their first operand."""
