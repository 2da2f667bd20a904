"""What the compiler made of operations that are oversize: parts, moves, or one error in the words of the graph."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from aneforge.compiler.moving import CHANNELS, SPATIAL
from aneforge.compiler.passes.epilogues import UNDONE
from aneforge.compiler.validators.data import Stage
from aneforge.errors import IllegalGraphError, NotSupportedError
from aneforge.graph.convert import Change
from aneforge.ops.op import Trait
from aneforge.rules.catalogue import explain
from aneforge.rules.rule import Severity
from aneforge.targets import resolve
from aneforge.targets.queries import was_measured_on

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from aneforge.compiler.ir.program import Program
    from aneforge.compiler.validators.network import NetworkValidation
    from aneforge.errors import Location
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node
    from aneforge.rules.preflight import OpReport, Preflight
    from aneforge.rules.rule import Finding
    from aneforge.targets import Target

    Written = tuple[str, Location | None, tuple[int, ...]]
    """An operation as a verdict knows it: its name, its place and the shape of its result."""

__all__ = ["OVERSIZE", "refusal_of", "split_texts", "splits_of", "with_refusal"]

SPLITTING = frozenset({"split-extents", "split-matmul", "split-windows", "split-kernel-memory"})
"""Passes whose notes say what became of a layer that was too large."""
OVERSIZE = "it is oversize"
"""Why such a change was made."""
TO_CHANNELS = "move the long axis to the channels (axis 1 of a rank-4 tensor)"
SHORTER = "make that axis shorter, or keep the operation on the host"
SHORTER_INPUT = "make that axis shorter, or keep what reads it on the host"
JOINED = "part of other layers, all within the limit"
MOVED = "moves of the whole tensor, which are assumed to work (inferred)"
IN_PARTS = "one layer does not hold all of it"
"""Why something that is not oversize is in parts: its kernel is larger than kernel memory."""
TRANSPOSED = "a transpose may be longer than what is computed on"
"""Why a graph in which nothing is oversize moves more than the engine computes on."""


def find_node(layer: str, graph: Graph) -> Node | None:
    """Return the node of a graph that a layer was made of: lowering numbers both alike."""
    found = re.match(r"t(\d+)(\.|$)", layer)
    return graph.nodes[int(found[1])] if found else None


def splits_of(program: Program, graph: Graph, validation: NetworkValidation, verdict: Preflight) -> tuple[Change, ...]:
    """Return the operations of a graph that were split, and those that are only moved or are gone, each change once."""
    texts: dict[Node, dict[str, str]] = {}
    oversize = {(report.op, report.location, report.shape) for report in verdict.oversize}
    moved = MOVED if oversize else transposed_text(program.target)
    for (layer, text), why in (
        *((one, IN_PARTS) for one in split_texts(program)),
        *(((layer, moved), TRANSPOSED) for layer in moved_layers(validation)),
    ):
        node = find_node(layer, graph)
        if node is not None:
            texts.setdefault(fused_with(node, oversize), {})[text] = OVERSIZE if oversize else why
    if not texts:
        ports = {port.name for port in validation.ports if any(one.stage is Stage.MOVED for one in port.findings)}
        why = OVERSIZE if oversize else TRANSPOSED
        texts = {node: {moved: why} for name, node in graph.inputs.items() if name in ports}
    if not texts:
        return tuple(Change(report.op, report.location, JOINED, OVERSIZE) for report in verdict.oversize)
    return tuple(
        Change(node.op.name, node.location, "; ".join(found), next(iter(found.values())))
        for node, found in texts.items()
    )


def transposed_text(target: Target) -> str:
    """Return what is said of a transpose within its own limit, and of what it reads."""
    limit = target.limits.known_integer("transpose_extent")
    if limit is None:
        return MOVED
    known = "measured" if was_measured_on(target, target.evidence("transpose_extent")) else "inferred"
    return f"moved as a whole, up to {limit} ({known})"


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


def moved_layers(validation: NetworkValidation) -> Iterator[str]:
    """Yield the layers that move more than the engine computes on."""
    for layer in validation.layers:
        if any(found.stage is Stage.MOVED for found in layer.findings):
            yield layer.name


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
    if node is not None:
        length = uncut_length(node, refusal.length)
        refusal.length, refusal.uncut = length, frozenset(map(describe_operation, along_the_axis(node, length, graph)))
    stopped = [one for one in with_refusal(verdict, refusal).findings if one.severity is Severity.OVERSIZE]
    own = [one for one in stopped if node is not None and (one.op, one.location) == (node.op.name, node.location)]
    stopping = stopped_by(refusal, own) or stopped
    error = IllegalGraphError.of(verdict.target, [f"{found} No split exists: {reason}." for found in stopping])
    error.layer, error.obstacle, error.length, error.uncut = refusal.layer, reason, refusal.length, refusal.uncut
    return error


def uncut_length(node: Node, length: int | None) -> int:
    """Return the length of the axis that stops a split; where that is of a part, the longest of the operation."""
    extents = {extent for value in (*node.types, *(one.type for one in node.sources())) for extent in value.shape}
    return length if length is not None and length in extents else max(extents, default=0)


def describe_operation(node: Node) -> Written:
    """Return an operation as a verdict knows it."""
    return node.op.name, node.location, node.types[0].shape


def along_the_axis(node: Node, length: int, graph: Graph) -> Iterator[Node]:
    """Yield an operation that cannot be cut, and what it is connected with by tensors that have its long axis."""
    found, waiting = {node}, [node]
    while waiting:
        here = waiting.pop()
        yield here
        around = (*(source.node for source in here.sources()), *graph.consumers[here])
        related = [one for one in around if one not in found and length in one.types[0].shape]
        found.update(related)
        waiting += related


def without_split(finding: Finding, target: Target) -> Finding:
    """Return a finding that something is too long with what helps where it cannot be split."""
    if finding.rule not in (SPATIAL, CHANNELS):
        return finding
    seen, channels = finding.seen, target.fact(explain(CHANNELS).bound).value
    fits = finding.rule == SPATIAL and isinstance(seen, int) and isinstance(channels, int) and seen <= channels
    shorter = SHORTER_INPUT if finding.op == "input" else SHORTER
    return msgspec.structs.replace(finding, remedy=f"{TO_CHANNELS}, or {shorter}." if fits else f"{shorter}.")


def stopped_by(refusal: NotSupportedError, findings: Sequence[Finding]) -> Sequence[Finding]:
    """Return the findings about the axis that cannot be cut; all of them where none is only about it."""
    return [one for one in findings if one.seen == refusal.length] or findings


def with_refusal(verdict: Preflight, refusal: NotSupportedError) -> Preflight:
    """Return a verdict whose operations that cannot be split are not advised to be split."""
    target = resolve(verdict.target)
    reports: list[OpReport] = []
    for one in verdict.reports:
        if (one.op, one.location, one.shape) in refusal.uncut:
            stopped = stopped_by(refusal, one.findings)
            findings = tuple(without_split(found, target) if found in stopped else found for found in one.findings)
            reports.append(replace(one, findings=findings))
        else:
            reports.append(one)
    return replace(verdict, reports=tuple(reports))
