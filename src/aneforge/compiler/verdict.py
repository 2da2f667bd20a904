"""One verdict: what rules, compiler and validators say of a graph on a target, in one answer that every door repeats.

Rules judge the operations of a graph. Whether something that is oversize can be split, and into how many programs a
graph is cut, only the compiler knows; it is asked where one of the two is in question.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from aneforge.compiler.compile import compile_graph
from aneforge.compiler.ir.catalogue import is_bridge
from aneforge.compiler.splits import OVERSIZE, with_refusal
from aneforge.errors import NotSupportedError
from aneforge.graph.precision import to_fp16
from aneforge.rules.preflight import preflight as judge
from aneforge.rules.preflight import preflight_all as judge_all
from aneforge.targets import family_of, resolve

if TYPE_CHECKING:
    from aneforge.compiler.compile import Compiled
    from aneforge.errors import Location
    from aneforge.graph.graph import Graph, GraphLike
    from aneforge.rules.preflight import Preflight
    from aneforge.targets import TargetLike

__all__ = ["answer", "is_cut", "preflight", "preflight_all", "with_compiled"]


def preflight(out: GraphLike, family: TargetLike = None) -> Preflight:
    """Return the verdict on a graph for one target.

    An oversize operation is listed with the split that `compile` would make, or the reason why there is none; a graph
    with operations that need a program of their own is listed with the number of programs. Wider floating-point
    tensors count as fp16, as in `compile`.

    >>> import aneforge as af
    >>> report = preflight(af.input((1, 8, 1, 17_000)).relu(), af.targets.Family.A15)
    >>> report.ok, [found.op for found in report.oversize]
    (False, ['input', 'relu'])
    >>> report.splits  # doctest: +ELLIPSIS
    ('compile splits it: relu becomes 2 parts, with 3 layers that cut and join (544000 bytes); ...',)

    Raises:
        UnknownTargetError: The target name is unknown.
        NoDataError: The target is a name without data, or belongs to no family, so nothing can be compiled for it.
    """
    graph, target = to_fp16(out).graph, resolve(family)
    verdict = judge(graph, target)
    family_of(target)
    return answer(verdict, graph)


def preflight_all(out: GraphLike) -> dict[str, Preflight]:
    """Return the verdict on a graph for every silicon target; checks that do not depend on it run only once.

    >>> import aneforge as af
    >>> verdicts = preflight_all(af.input((1, 16, 8, 8)).relu())
    >>> oldest, newest = (af.targets.resolve(family).name for family in (af.targets.Family.A13, af.targets.Family.A16))
    >>> verdicts[oldest].ok, verdicts[newest].ok
    (True, True)
    """
    graph = to_fp16(out).graph
    return {name: answer(verdict, graph) for name, verdict in judge_all(graph).items()}


def answer(verdict: Preflight, graph: Graph) -> Preflight:
    """Return the verdict of the rules with what the compiler adds, where it has something to add."""
    if verdict.reject or not (verdict.oversize or any(is_bridge(node) for node in graph.nodes)):
        return verdict
    try:
        return with_compiled(verdict, compile_graph(graph, verdict.target))
    except NotSupportedError as refusal:
        return with_compiled(verdict, refusal)


def with_compiled(verdict: Preflight, made: Compiled | NotSupportedError) -> Preflight:
    """Return a verdict with what became of the graph in the compiler: splits, or why there is none; segments."""
    if isinstance(made, NotSupportedError):
        why = f"no split exists: {made.obstacle or made.message}"
        return replace(with_refusal(verdict, made), splits=(why,)) if verdict.oversize else verdict
    return replace(verdict, splits=split_lines(verdict, made), segments=len(made.program.segments))


def split_lines(verdict: Preflight, made: Compiled) -> tuple[str, ...]:
    """Return what operations that are oversize become, in the words of the graph; those that become the same once."""
    if not verdict.oversize:
        return ()
    written: dict[Location | None, set[str]] = {}
    for report in verdict.reports:
        written.setdefault(report.location, set()).add(report.op)
    ops: dict[str, dict[str, None]] = {}
    for change in made.changes:
        if change.why == OVERSIZE:
            there = written.get(change.location, set())
            ops.setdefault(change.detail, {})[next(iter(there)) if len(there) == 1 else change.op] = None
    return tuple(f"compile splits it: {', '.join(named)} becomes {detail}" for detail, named in ops.items())


def is_cut(compiled: Compiled) -> bool:
    """Return whether a graph is not one program of its own layers: it is cut, or all of it is such a program."""
    segments = compiled.program.segments
    return len(segments) > 1 or any(segment.bridge for segment in segments)
