"""A form of a graph with eight-bit weights, where it is proven that no activation passes what they let pass.

Activations of a layer whose int8 weights stream pass the engine times 16, and a magnitude above 4094 becomes infinite.
So the form is there only if the range analysis bounds every such activation, from promises of inputs (`max_abs`) and
from bounded functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.compile import build_program
from aneforge.errors import AneforgeError
from aneforge.graph.graph import read_promises
from aneforge.ops.constant import Int8Affine
from aneforge.targets import FP16_SLICE_SAT

if TYPE_CHECKING:
    from aneforge.compiler.ir.layer import Layer
    from aneforge.graph.graph import Graph
    from aneforge.targets import Target

__all__ = ["with_int8_weights"]


def with_int8_weights(graph: Graph, target: Target) -> tuple[Graph | None, str]:
    """Return a graph with int8 weights; or None, and why it cannot be had, where there are weights at all.

    >>> import numpy as np, aneforge as af
    >>> target, weight = af.targets.resolve(af.targets.Family.A16), np.ones((64, 64)) / 64
    >>> with_int8_weights(af.Graph({"y": af.input((1, 64), max_abs=8).linear(weight)}), target)[1]
    ''
    >>> print(with_int8_weights(af.Graph({"y": af.input((1, 64), name="x").linear(weight)}), target)[1])
    nothing bounds what goes into t1.conv: promise it with max_abs of the input, or put a bounded function before it
    """
    from aneforge.analysis.ranges.program import bound_magnitudes  # noqa: PLC0415 - as above
    from aneforge.optimise.compress.fates import Fate  # noqa: PLC0415 - few programs are compressed
    from aneforge.optimise.compress.graphs import compressed  # noqa: PLC0415 - as above

    try:
        made = compressed(graph, "int8", target=target)
    except AneforgeError as error:
        return None, error.message
    encoded = [weight for weight in made.weights if weight.fate is not Fate.DENSE]
    if not encoded:
        return None, ""
    folding = [weight for weight in encoded if weight.fate is not Fate.STREAMS]
    if folding:
        return None, f"{folding[0].name} would not stream: {folding[0].why}"
    program = build_program(made.graph, target)
    streaming = [layer for layer in program.layers if streams_int8(layer)]
    read = [value for layer in streaming for value in layer.bottoms]
    known = bound_magnitudes(program, read_promises(graph), read)
    for layer in streaming:
        most = [known.get(value.name) for value in layer.bottoms]
        if None in most:
            remedy = "promise it with max_abs of the input, or put a bounded function before it"
            return None, f"nothing bounds what goes into {layer.name}: {remedy}"
        worst = max((bound for bound in most if bound is not None), default=0.0)
        if worst > FP16_SLICE_SAT:
            return None, f"what goes into {layer.name} is bounded by {worst:.4g} alone, above {FP16_SLICE_SAT:g}"
    return made.graph, ""


def streams_int8(layer: Layer) -> bool:
    """Tell whether a layer has int8 weights."""
    return any(isinstance(ref, Int8Affine) for _, ref in layer.refs())
