"""Whether a graph compiles for another target, and what its numbers may do there: the keystone of cross-chip checks.

The system's own compiler takes an unknown name for the host's and says nothing, so names are checked first. What is
checked is compilation; where both targets have a program, `divergence` says how their numbers may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.analysis.divergence.graphs import divergence_of_programs
from aneforge.analysis.matrix import NO_DATA
from aneforge.analysis.user_operations import name_at, operations_by_place
from aneforge.callsite import warn
from aneforge.compiler.compile import compile_graph
from aneforge.compiler.ir.catalogue import is_bridge
from aneforge.compiler.verdict import is_cut, with_compiled
from aneforge.errors import CrossChipFP16Warning, GraphError, NoDataError, NotSupportedError, OversizeWarning
from aneforge.graph.precision import to_fp16
from aneforge.targets import TargetLike, resolve

if TYPE_CHECKING:
    from aneforge.compiler.compile import Compiled
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.graph.node import Node
    from aneforge.targets import Target

__all__ = ["bridges_of", "cross_compile_check"]


def cross_compile_check(out: GraphLike, target: TargetLike, *, host: TargetLike = None) -> bool:
    """Return whether a graph compiles for a target, and warn where its numbers may differ from the host's.

    The warnings are the findings of `divergence`, one for operations alike: an operation that none of them names gives
    the same bits on both, as far as it is known. Names are checked before the graph is.

    An operation that is built from others there, such as dropout of a mask that the host draws, needs no program of its
    own. What is oversize must be split, which the system's compiler does not do: the answer is False, with a warning
    that `af.compile` would split it. Wider floating-point tensors count as fp16, as in `compile`; `compile_matrix` says
    why one does not compile.

    >>> import aneforge as af
    >>> family = af.targets.Family
    >>> cross_compile_check(af.input((1, 8)).relu(), family.A16, host=family.A13)
    True
    >>> cross_compile_check(af.input((1, 1, 17_000)).relu().reshape(1, 17_000), family.A16, host=family.A16)
    True

    Raises:
        UnknownTargetError: The target name is unknown.
        NoDataError: A compiler knows the name, and no source describes the target.
        NotSupportedError: The graph has an operation that needs a program of its own; it is cut there.
    """
    resolved, here = resolve(target), resolve(host)
    if not resolved.has_data:
        raise NoDataError(NO_DATA, target=resolved.name)
    graph = to_fp16(out).graph
    made = program_for(graph, resolved)
    if made is None:
        return False
    if made.verdict.ok and is_cut(made):
        refuse_cut(graph, resolved)
    other = program_for(graph, here) if here is not resolved else None
    if other is not None:
        warn_of_differences(graph, other, made)
    verdict = with_compiled(made.verdict, made)
    if verdict.splits:
        warn(f"on {resolved.name} a tensor is oversize. {'; '.join(verdict.splits)}", OversizeWarning)
    return verdict.ok


def refuse_cut(graph: Graph, target: Target) -> None:
    """Refuse a graph that becomes several programs, by the first operation that needs one of its own.

    Raises:
        NotSupportedError: Always.
    """
    node = next(iter(bridges_of(graph)), None)
    raise NotSupportedError(
        "a graph that is cut into several programs is out of scope here",
        operation=node.op.name if node is not None else None,
        location=node.location if node is not None else None,
        target=target.name,
        remedy="check the parts before and after it, or compile the whole with af.compile",
    )


def program_for(graph: Graph, target: Target) -> Compiled | None:
    """Return a graph compiled for a target; None where it does not compile."""
    try:
        return compile_graph(graph, target)
    except GraphError:
        return None


def bridges_of(graph: Graph) -> list[Node]:
    """Return the operations that need a program of their own."""
    return [node for node in graph.nodes if is_bridge(node)]


def warn_of_differences(graph: Graph, host: Compiled, target: Compiled) -> None:
    """Warn of every operation that the two targets may compute differently, once for operations alike."""
    found, places = divergence_of_programs(graph, host, target), operations_by_place(graph)
    pair = f"{found.first} and {found.second}"
    messages = [
        f"{name_at(one.op, one.location, places)}{f' at {one.location}' if one.location else ''} "
        f"may differ between {pair}: "
        f"{one.strength}, {one.cause} ({one.detail}{'' if one.on_engine else '; the engine models both alike'})"
        for one in found.findings
    ]
    for message in dict.fromkeys(messages):
        warn(message, CrossChipFP16Warning)
