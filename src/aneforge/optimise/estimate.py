"""One number for a graph: how long a call takes, as it is or with its weights encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.analysis.cost import cost
from aneforge.analysis.heuristic import heuristic
from aneforge.analysis.work import Planned
from aneforge.errors import GraphTypeError
from aneforge.optimise.compress.graphs import compressed

if TYPE_CHECKING:
    from aneforge.graph.graph import GraphLike
    from aneforge.targets import TargetLike

__all__ = ["estimate"]


def estimate(out: GraphLike | Planned, target: TargetLike = None, *, int8: bool = False) -> float:
    """Return the predicted latency of one call in microseconds.

    Without a target it is the documented heuristic for the host, which compiles nothing; `int8` halves the bytes of the
    weights of products there. With one it is `cost(out, target).microseconds`, and `int8` encodes the weights first, as
    `compile` does, which makes a program faster only if they stream. The time of a compiled model is that of the chip
    for which it was compiled.

    >>> import aneforge as af
    >>> x = af.input((64, 256))
    >>> af.estimate(x.relu())
    63.3
    >>> af.estimate(x.relu(), target=af.targets.Family.A13) > 150
    True

    Raises:
        IllegalGraphError: An operation cannot run on the target.
        NotSupportedError: An operation has no form there.
        GraphTypeError: A compiled model cannot be encoded again, or was compiled for another target.
        UnknownTargetError: The target name is unknown; also a `KeyError`.
    """
    if isinstance(out, Planned):
        if int8:
            raise GraphTypeError(
                "a compiled model keeps its weights",
                operation="estimate",
                seen="int8=True",
                remedy="compile the graph with int8=True, or give the graph",
            )
        return cost(out, target).microseconds
    if target is None:
        return heuristic(out, int8=int8)
    return cost(compressed(out, "int8", target=target).graph if int8 else out, target).microseconds
