"""The graph with its products rescaled: multiplied operands, and the inverse behind the product, for its gain slot."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.graph.node import Output, build
from aneforge.graph.rewrite import rewrite, unchanged
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.types import numpy_dtype
from aneforge.runtime.rescaling.norms import rescaled_norm

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from aneforge.errors import Location
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node
    from aneforge.ops.constant import Constant
    from aneforge.runtime.rescaling.norms import NormGroup
    from aneforge.runtime.rescaling.products import LiveGroup, WeightedProduct

    Array = npt.NDArray[Any]

__all__ = ["LiveScaling", "NormScaling", "Rewritten", "Scaling", "WeightScaling", "rewritten", "times"]


@dataclass(frozen=True, slots=True)
class WeightScaling:
    """Weights and bias of a product, multiplied."""

    product: WeightedProduct
    exponents: tuple[int, ...]
    operands: Mapping[str, Constant]
    """The new ones."""


@dataclass(frozen=True, slots=True)
class LiveScaling:
    """A tensor that several products read, multiplied."""

    group: LiveGroup
    exponent: int
    operands: Mapping[Node, Mapping[str, Constant]] = field(default_factory=dict["Node", "Mapping[str, Constant]"])
    """Constants that are multiplied with it: the bias of a product, which is added ahead of the inverse."""


@dataclass(frozen=True, slots=True)
class NormScaling:
    """A tensor that several norms read, multiplied."""

    group: NormGroup
    exponent: int


Scaling = WeightScaling | LiveScaling | NormScaling


def times(x: Tensor, exponents: Sequence[int], axis: int, location: Location | None) -> Tensor:
    """Return a tensor times powers of two: one, or one for every place of an axis.

    >>> import aneforge as af
    >>> times(af.input((2, 3)), (-8,), 1, None).node.attributes["k"]
    0.00390625
    """
    if len(set(exponents)) == 1:
        return x if not exponents[0] else Tensor(build("muls", {"x": x}, {"k": 2.0 ** exponents[0]}, location))
    shape = tuple(extent if place == axis else 1 for place, extent in enumerate(x.shape))
    gain = (2.0 ** np.array(exponents, np.float64)).astype(numpy_dtype(x.dtype)).reshape(shape)
    return Tensor(build("mul", {"x": x, "y": Dense(gain)}, {}, location))


class Behind:
    """The powers of two behind each node; those of several scalings add up."""

    def __init__(self) -> None:
        self.exponents: dict[Node, tuple[int, ...]] = {}
        self.axes: dict[Node, int] = {}

    def add(self, node: Node, exponents: tuple[int, ...], axis: int = 0) -> None:
        """Add exponents behind a node."""
        held = self.exponents.get(node, (0,))
        count = max(len(held), len(exponents))
        pairs = zip(*(one * (count // len(one)) for one in (held, exponents)), strict=True)
        self.exponents[node] = tuple(first + second for first, second in pairs)
        if len(exponents) > 1:
            self.axes[node] = axis

    def inverse_of(self, scaling: Scaling) -> None:
        """Add what undoes a scaling behind its products; and the scaling itself behind what hosts it."""
        if isinstance(scaling, WeightScaling):
            self.add(scaling.product.node, tuple(-one for one in scaling.exponents), scaling.product.axis)
            return
        if isinstance(scaling, LiveScaling):
            for node, _, _ in scaling.group.members:
                self.add(node, (-scaling.exponent,))
        if scaling.group.host is not None:
            self.add(scaling.group.host, (scaling.exponent,))

    def of(self, node: Node, result: Tensor) -> Tensor:
        """Return what leaves a node."""
        return times(result, self.exponents.get(node, (0,)), self.axes.get(node, 0), node.location)


def multiplied_before(scaling: Scaling) -> dict[Node, tuple[str, int]]:
    """Return the nodes that read what a layer more multiplies: by which operand, and the exponent."""
    if isinstance(scaling, WeightScaling) or scaling.group.host is not None:
        return {}
    if isinstance(scaling, NormScaling):
        return {node: ("x", scaling.exponent) for node, _ in scaling.group.members}
    return {node: (operand, scaling.exponent) for node, _, operand in scaling.group.members}


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A graph with products and norms rescaled, and for its nodes those that they were; factors were nothing."""

    graph: Graph
    origins: Mapping[Node, Node]


def rewritten(graph: Graph, scalings: Iterable[Scaling]) -> Rewritten:
    """Return a graph with products and norms rescaled; it means the same.

    Raises:
        GraphError: It would not mean the same: a node was made of another type.
    """
    behind = Behind()
    constants: dict[Node, Mapping[str, Constant]] = {}
    norms: dict[Node, int] = {}
    before: dict[Node, tuple[str, int]] = {}
    for scaling in scalings:
        behind.inverse_of(scaling)
        before.update(multiplied_before(scaling))
        if isinstance(scaling, WeightScaling):
            constants[scaling.product.node] = scaling.operands
        elif isinstance(scaling, LiveScaling):
            constants.update(scaling.operands)
        else:
            norms.update({node: scaling.exponent for node, _ in scaling.group.members})
    shared: dict[tuple[Node, int, int], Tensor] = {}

    def multiplied(value: Argument, exponent: int) -> Tensor:
        assert isinstance(value, Output)  # noqa: S101 - groups are of tensors
        key = (value.node, value.index, exponent)
        if key not in shared:
            shared[key] = times(Tensor(value.node, value.index), (exponent,), 0, value.node.location)
        return shared[key]

    origins: dict[Node, Node] = {}

    def replaced(node: Node, operands: Mapping[str, Argument]) -> list[Tensor]:
        if node not in behind.exponents and node not in norms:
            kept = node if unchanged(node, operands) else dataclasses.replace(node, operands=operands)
            origins[kept] = node
            return [Tensor(kept, index) for index in range(len(node.types))]
        changed = dict(operands) | dict(constants.get(node, {}))
        if node in before:
            operand, exponent = before[node]
            changed[operand] = multiplied(changed[operand], exponent)
        now = rescaled_norm(node, norms[node]) if node in norms else node
        made = dataclasses.replace(now, operands=changed)
        origins[made] = node
        return [behind.of(node, Tensor(made))]

    return Rewritten(rewrite(graph, replaced), origins)
