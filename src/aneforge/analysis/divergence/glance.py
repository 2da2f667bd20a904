"""Where programs that were compiled already can differ, at a glance: by their layers, without bounds of how far.

Constants count as equal where their types and encodings are, for passes fold the same numbers for every target. How
large values get is asked only where they are cut. So what is found here may turn out equal in `divergence`, which
follows ranges through the program; a program of which nothing is found here has no layer that two targets compute in
different ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from aneforge.analysis.divergence.graphs import Side, between
from aneforge.analysis.divergence.numbering import Numbering
from aneforge.analysis.ranges.interval import ANYTHING, Range
from aneforge.analysis.ranges.situation import Flow, Found
from aneforge.compiler.ir.calls import call_of_layer
from aneforge.engine.crop import FOR_TARGET as CROPS
from aneforge.engine.execution.run_products import PRODUCT_KINDS, encodes_activations
from aneforge.ops.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.analysis.divergence.graphs import Divergence
    from aneforge.compiler.ir.layer import Layer, Value
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.convert import Change
    from aneforge.graph.graph import Graph
    from aneforge.ops.constant import Constant, Dense
    from aneforge.targets import Target

__all__ = ["Glance"]


class ByType(Numbering):
    """Numbers values without reading the constants that make them."""

    reads_weights: ClassVar[bool] = False

    def name_constant(self, constant: Constant) -> str:
        """Return the type and the encoding of a constant."""
        return describe(constant.type, constant.encoding)

    def name_joined(self, weights: Sequence[Dense], axis: int) -> str:
        """Return the type and the encoding of weights that are joined along an axis."""
        shape = list(weights[0].type.shape)
        shape[axis] = sum(weight.type.shape[axis] for weight in weights)
        return describe(TensorType(tuple(shape), weights[0].type.dtype), weights[0].encoding)


def describe(kind: TensorType, encoding: str) -> str:
    """Return what stands for a constant that is not read."""
    return f"{kind} {encoding}"


class Glance:
    """Compares programs of one graph; `promises` are magnitudes that inputs do not pass."""

    def __init__(self, promises: Mapping[str, float]) -> None:
        self.promises = promises
        self.numbering = ByType()

    def side(self, graph: Graph, changes: tuple[Change, ...], program: Program) -> Side:
        """Return a program as one side of a comparison, given the graph it was lowered from and its changes."""
        cut = [value for layer in program.layers if is_cropped(layer, program.target) for value in layer.bottoms]
        known: Mapping[str, float] = self.bound(program, cut) if cut else {}
        values = [*(port.value for port in program.inputs), *(state.read for state in program.states)]
        values += [result for layer in program.layers for result in layer.results]
        ranges = {
            value.name: Range(-known[value.name], known[value.name]) if value.name in known else ANYTHING
            for value in values
        }
        layers = {layer.name: Found((), ANYTHING) for layer in program.layers}
        return Side(graph, changes, self.numbering.program(program, ranges), Flow(ranges, layers))

    def bound(self, program: Program, cut: Sequence[Value]) -> Mapping[str, float]:
        """Return the magnitudes that values which are cut do not pass, by name."""
        from aneforge.analysis.ranges.program_ranges import bound_magnitudes  # noqa: PLC0415 - few programs cut values

        return bound_magnitudes(program, self.promises, cut)

    def between(self, first: Side, second: Side) -> Divergence:
        """Return where two sides can differ; no difference has a bound."""
        return between(first, second, self.numbering)


def is_cropped(layer: Layer, target: Target) -> bool:
    """Return whether a layer is an operation whose crop, or whose int8 encoding, matters only for large values."""
    call = call_of_layer(layer)
    if call is None:
        return False
    return call.op in CROPS or (layer.kind.name in PRODUCT_KINDS and encodes_activations(layer, target))
