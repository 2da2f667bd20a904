"""A form of a graph with eight-bit weights, where it is proven that no activation passes what they let pass.

Activations of a layer whose int8 weights stream pass the engine times 16, and a magnitude above 4094 becomes infinite.
So the form is there only if the range analysis bounds every such activation, from promises of inputs (`max_abs`) and
from bounded functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.compiler.compile import build_program
from aneforge.errors import AneforgeError

if TYPE_CHECKING:
    from aneforge.graph.graph import Graph
    from aneforge.targets import Target

__all__ = ["with_int8_weights"]


def with_int8_weights(graph: Graph, target: Target) -> tuple[Graph | None, str]:
    """Return a graph with int8 weights; or None, and why it cannot be had, where there are weights at all.

    >>> import numpy as np, aneforge as af
    >>> target, weight = af.targets.resolve(af.targets.Family.A16), np.ones((64, 64)) / 64
    >>> with_int8_weights(af.Graph({"y": af.input((1, 64), max_abs=8).linear(weight)}), target)[1]
    ''
    >>> why = with_int8_weights(af.Graph({"y": af.input((1, 64)).linear(weight)}), target)[1]
    >>> "activations of a magnitude above 4094 become infinite (nothing bounds them)" in why
    True
    """
    from aneforge.analysis.hazards import int8_hazards  # noqa: PLC0415 - few programs are compressed
    from aneforge.optimise.compress.choice import TOLERANCE  # noqa: PLC0415 - as above
    from aneforge.optimise.compress.fates import Fate  # noqa: PLC0415 - few programs are compressed
    from aneforge.optimise.compress.graphs import compressed  # noqa: PLC0415 - as above

    try:
        made = compressed(graph, "int8", target=target)
    except AneforgeError as error:
        return None, error.message
    encoded = [weight for weight in made.weights if weight.fate is not Fate.DENSE]
    if not encoded:
        return None, ""
    folding = next((weight for weight in encoded if weight.fate is not Fate.STREAMS), None)
    if folding is not None:
        return None, f"{folding.label} would not stream: {folding.why}"
    rough = max(encoded, key=lambda weight: weight.error)
    if rough.error > TOLERANCE:
        return None, f"the relative error of {rough.label} would be {rough.error:.3g}, over {TOLERANCE:g}"
    hazards = int8_hazards(made.graph, build_program(made.graph, target))
    return (None, str(hazards[0])) if hazards else (made.graph, "")
