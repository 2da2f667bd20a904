"""What the compiler made of operations that are oversize: parts, moves, or one error in the words of the graph."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from aneforge.compiler.passes.epilogues import UNDONE
from aneforge.compiler.validators.data import Stage
from aneforge.errors import IllegalGraphError, NotSupportedError
from aneforge.graph.convert import Change
from aneforge.ops.op import Trait
from aneforge.rules.rule import Severity

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.validators.network import NetworkValidation
    from aneforge.errors import Location
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.rules.preflight import Preflight

    Written = tuple[str, Location | None, tuple[int, ...]]
    """An operation as a verdict knows it: its name, its place and the shape of its result."""

__all__ = ["OVERSIZE", "refusal_of", "split_texts", "splits_of"]

SPLITTING = frozenset({"split-extents", "split-matmul", "split-windows", "split-kernel-memory"})
"""Passes whose notes say what became of a layer that was too large."""
OVERSIZE = "it is oversize"
"""Why such a change was made."""
JOINED = "part of other layers, all within the limit"
MOVED = "moves of the whole tensor, which are assumed to work (inferred)"


def find_node(layer: str, graph: Graph) -> Node | None:
    """Return the node of a graph that a layer was made of: lowering numbers both alike."""
    found = re.match(r"t(\d+)(\.|$)", layer)
    return graph.nodes[int(found[1])] if found else None


def splits_of(program: Program, graph: Graph, validation: NetworkValidation, verdict: Preflight) -> tuple[Change, ...]:
    """Return the operations of a graph that were split, and those that are only moved or are gone, each change once."""
    texts: dict[Node, dict[str, None]] = {}
    oversize = {(report.op, report.location, report.shape) for report in verdict.oversize}
    for layer, text in (*split_texts(program), *moved_texts(validation)):
        node = find_node(layer, graph)
        if node is not None:
            texts.setdefault(fused_with(node, oversize), {})[text] = None
    if not texts:
        moved = {port.name for port in validation.ports if any(one.stage is Stage.MOVED for one in port.findings)}
        texts = {node: {MOVED: None} for name, node in graph.inputs.items() if name in moved}
    if not texts:
        return tuple(Change(report.op, report.location, JOINED, OVERSIZE) for report in verdict.oversize)
    return tuple(Change(node.op.name, node.location, "; ".join(found), OVERSIZE) for node, found in texts.items())


def fused_with(node: Node, oversize: Container[Written]) -> Node:
    """Return the operation that was too large: a layer has the name of the last operation that is fused into it."""
    found = node
    while (found.op.name, found.location, found.types[0].shape) not in oversize:
        if found.op.macs is not None or Trait.AVERAGING in found.op.traits:
            return found
        sources = found.sources()
        if not sources or not (Trait.ELEMENTWISE in found.op.traits or found.op.name == "batch_norm"):
            return node
        found = sources[0].node
    return found if found.sources() else node


def split_texts(program: Program) -> Iterator[tuple[str, str]]:
    """Yield the layers that were split, with what they became."""
    for note in program.notes:
        if note.stage in SPLITTING and note.layer and note.text != UNDONE:
            yield note.layer, note.text.removeprefix("became ")


def moved_texts(validation: NetworkValidation) -> Iterator[tuple[str, str]]:
    """Yield the layers that move more than the engine computes on."""
    for layer in validation.layers:
        if any(found.stage is Stage.MOVED for found in layer.findings):
            yield layer.name, MOVED


def refusal_of(refusal: NotSupportedError, verdict: Preflight, graph: Graph) -> NotSupportedError:
    """Return the error for a graph that is oversize and cannot be split: what preflight finds, and why not.

    A refusal of a graph in which nothing is oversize stays what it is.
    """
    oversize = [found for found in verdict.findings if found.severity is Severity.OVERSIZE]
    if not oversize:
        return refusal
    made_of = find_node(refusal.layer or "", graph)
    names = {(one.op, one.location, one.shape) for one in verdict.oversize}
    node = None if made_of is None else fused_with(made_of, names)
    where = f" at {node.location}" if node is not None and node.location else ""
    reason = f"{node.op.name}{where}: {refusal.obstacle}" if node is not None else refusal.obstacle or refusal.message
    own = [one for one in oversize if node is not None and (one.op, one.location) == (node.op.name, node.location)]
    error = IllegalGraphError.of(verdict.target, [f"{found} No split exists: {reason}." for found in own or oversize])
    error.layer, error.obstacle = refusal.layer, reason
    return error
