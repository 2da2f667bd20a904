"""`af.rescale`: products rescaled by powers of two, bounded by declared ranges or by what sample inputs show.

The rescaling itself is the runtime's (`aneforge.runtime.rescaling`), for `compile` does it too. Here is what needs the
range analysis: bounds that are proven, and the proof that the rescaled program passes no edge that it did not pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from aneforge.compiler.pipeline import build_program
from aneforge.errors import GraphError
from aneforge.graph.graph import as_graph
from aneforge.ops.types import is_float
from aneforge.predict.ranges_interval import FINITE
from aneforge.predict.ranges_program import declared_ranges, flow
from aneforge.runtime.rescaling.observing import probes_of
from aneforge.runtime.rescaling.scaling import SEED, operands_of, rescaled
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node
    from aneforge.predict.ranges_interval import Range
    from aneforge.runtime.rescaling.report import Rescaled
    from aneforge.targets import Target, TargetLike

    Array = npt.NDArray[Any]

__all__ = ["rescale"]

SETS = 2
"""Sets of inputs that are drawn from declared ranges, to measure errors by."""


def rescale(
    graph: GraphLike,
    *,
    inputs: Mapping[str, Array] | Sequence[Mapping[str, Array]] | None = None,
    ranges: Mapping[str, tuple[float, float] | float] | None = None,
    target: TargetLike = None,
    safety_bits: int | None = None,
) -> Rescaled:
    """Return a graph that means the same and whose products stand clear of the accumulator's grid, with a report.

    Weights are multiplied by powers of two, one for a product or for each of its output channels, and the inverse goes
    into the gain behind the sum. With `inputs`, sample values, factors are chosen by the sizes that are seen, less three
    bits of safety. With `ranges`, magnitudes or ends of inputs, they are chosen by what is proven of all inputs within
    them, and errors are measured on inputs that are drawn there. With neither, inputs are drawn.

    What makes an output worse on those inputs, or on fresh ones of the same distribution, is not done.

    >>> import numpy as np, aneforge as af
    >>> weight = np.random.default_rng(0).standard_normal((16, 1024)) / 32
    >>> graph = af.Graph({"y": af.input((4, 1024), name="x").linear(weight)})
    >>> found = af.rescale(graph, ranges={"x": 0.05}, target=af.targets.Family.A15)
    >>> found.applied[0].exponents, found.outputs[0].before > 0.004, found.outputs[0].after < 0.0005
    ((12,), True, True)

    Raises:
        GraphError: Both inputs and ranges are given, a sample or range does not fit, or the bits of safety are none.
        UnknownNameError: There is no input of that name.
        IllegalGraphError: An operation cannot run on the target.
    """
    if inputs is not None and ranges is not None:
        raise GraphError("sizes are either declared or observed", remedy="give ranges= or inputs=, not both")
    if safety_bits is not None and not 0 <= safety_bits <= math.log2(FINITE.high):
        raise GraphError("safety_bits is no number of bits to leave free", seen=safety_bits, limit="0 to 15")
    whole, resolved = as_graph(graph), resolve(target)
    if ranges is None:
        return rescaled(whole, resolved, samples_of(inputs), safety_bits=safety_bits)
    declared = declared_ranges(whole, ranges, otherwise=FINITE)
    samples = drawn_from(whole, declared)
    return rescaled(whole, resolved, samples, proven(whole, resolved, declared), safety_bits)


def samples_of(
    inputs: Mapping[str, Array] | Sequence[Mapping[str, Array]] | None,
) -> Sequence[Mapping[str, Array]] | None:
    """Return sets of sample inputs.

    Raises:
        GraphError: There is none.
    """
    if inputs is None:
        return None
    samples = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    if not samples:
        raise GraphError("there is no sample to choose factors by", remedy="leave inputs out, and some are drawn")
    return samples


def proven(graph: Graph, target: Target, declared: Mapping[str, Range]) -> Mapping[tuple[Node, int], float]:
    """Return how large the tensors that products read can get for any inputs within ranges."""
    values = operands_of(graph)
    names = {node: name for name, node in graph.inputs.items()}
    found = {
        (value.node, value.index): declared[names[value.node]].magnitude
        for value in values
        if value.node in names and names[value.node] in declared
    }
    probes = probes_of(values)
    if probes is None:
        return found
    program = build_program(probes, target)
    ranges = flow(program, declared).ranges
    by_name = {port.name: ranges[port.value.name] for port in program.outputs}
    for name, output in probes.outputs.items():
        one = by_name[name]
        found[output.node, output.index] = one.magnitude if one.finite else math.inf
    return found


def drawn_from(graph: Graph, declared: Mapping[str, Range]) -> list[dict[str, Array]]:
    """Return inputs that are drawn evenly from ranges; whole numbers from 0 and 1, which any index allows."""
    random = np.random.default_rng(SEED)

    def drawn(name: str, node: Node) -> Array:
        kind = node.types[0]
        if not is_float(kind.dtype):
            return random.integers(0, 2, kind.shape)
        one = declared[name]
        return random.uniform(one.low, one.high, kind.shape)

    return [{name: drawn(name, node) for name, node in graph.inputs.items()} for _ in range(SETS)]
