"""Finds which layers of two programs of one graph are the same, and groups those that are not.

Values are named by the numbers of the nodes of the retargeted graphs. Where a target rebuilt an operation the numbers
after it shift, so the nodes are aligned first. The alignment explains a difference and decides nothing: whether two
programs can differ follows from the numbers of their values.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from aneforge.analysis.divergence.keys import attributes_key
from aneforge.compiler.ir.layer import Value
from aneforge.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from aneforge.analysis.divergence.numbering import Numbering
    from aneforge.compiler.ir.layer import Argument, Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Node

__all__ = ["Alignment", "Apart", "align_programs", "canonical"]


@dataclass(frozen=True, slots=True)
class Apart:
    """Layers of the one and of the other program that stand for the same part of the graph and differ."""

    first: tuple[Layer, ...]
    second: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which layers are the same but for their arithmetic, and which are not."""

    pairs: tuple[tuple[Layer, Layer], ...]
    apart: tuple[Apart, ...]
    same_graph: bool
    """Both targets were given the same operations."""
    renamed: Mapping[int, int]
    """The number in the first graph of nodes of the second."""


def align_programs(first: Program, second: Program, graphs: tuple[Graph, Graph], numbering: Numbering) -> Alignment:
    """Return the layers of two programs side by side; `graphs` are what they were lowered from."""
    renamed = node_numbers(*graphs)
    names: Mapping[int, int] = {} if is_identity(renamed) else renamed
    there = {own_key(layer, numbering): layer for layer in first.layers}
    pairs: list[tuple[Layer, Layer]] = []
    left: list[Layer] = []
    for layer in second.layers:
        key = local_key(layer, numbering, names) if names else own_key(layer, numbering)
        partner = there.pop(key, None)
        if partner is None:
            left.append(layer)
        else:
            pairs.append((partner, layer))
    same = not names and len(graphs[0].nodes) == len(graphs[1].nodes)
    return Alignment(tuple(pairs), tuple(group(list(there.values()), left, renamed)), same, renamed)


def is_identity(renamed: Mapping[int, int]) -> bool:
    """Return whether no node has another number in the first graph."""
    return all(old == new for old, new in renamed.items())


def node_numbers(first: Graph, second: Graph) -> dict[int, int]:
    """Return the number in the first graph of every node of the second that has one there.

    A run of nodes in place of another is the same operation rebuilt: its last node is the result.
    """
    texts = [
        [f"{node.op.name} {sorted(node.attributes.items())!r} {node.types}" for node in graph.nodes]
        for graph in (first, second)
    ]
    if texts[0] == texts[1]:
        return {number: number for number in range(len(texts[0]))}
    found: dict[int, int] = {}
    for tag, begin, end, other_begin, other_end in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if tag == "equal":
            found.update(zip(range(other_begin, other_end), range(begin, end), strict=True))
        elif tag == "replace":
            found[other_end - 1] = end - 1
    return found


def text_of(node: Node) -> str:
    """Return a node as the alignment sees it."""
    return f"{node.op.name} {sorted(node.attributes.items())!r} {node.types}"


def base_of(name: str, renamed: Mapping[int, int]) -> str:
    """Return the node that a value belongs to, by its number in the first graph; a new one keeps its own, marked.

    >>> base_of("t12.tile0", {12: 7}), base_of("t12.tile0", {}), base_of("t3", {12: 7})
    ('t7', 't12', 't3+')
    """
    stem = name.split(".", maxsplit=1)[0]
    if not renamed or not stem[1:].isdigit():
        return stem
    number = renamed.get(int(stem[1:]))
    return f"{stem}+" if number is None else f"t{number}"


def canonical(name: str, renamed: Mapping[int, int]) -> str:
    """Return the name of a value as the first program would have it."""
    stem, dot, rest = name.partition(".")
    return f"{base_of(stem, renamed)}{dot}{rest}"


def own_key(layer: Layer, numbering: Numbering) -> tuple[object, ...]:
    """Return the key of a layer under its own names, made once for all comparisons of one numbering."""
    if id(layer) not in numbering.keys:
        numbering.keys[id(layer)] = layer, local_key(layer, numbering, {})
    return numbering.keys[id(layer)][1]


def local_key(layer: Layer, numbering: Numbering, renamed: Mapping[int, int]) -> tuple[object, ...]:
    """Return what a layer does, to which values, under which name."""

    def ref_key(ref: Ref) -> str:
        return canonical(ref.name, renamed) if isinstance(ref, Value) else numbering.name_constant(ref)

    def argument_key(argument: Argument) -> object:
        return tuple(map(ref_key, argument)) if isinstance(argument, tuple) else ref_key(argument)

    operands = tuple((name, argument_key(argument)) for name, argument in sorted(layer.operands.items()))
    return (does(layer, numbering), operands, tuple(canonical(one.name, renamed) for one in layer.results))


def does(layer: Layer, numbering: Numbering) -> tuple[object, ...]:
    """Return what a layer and its slots do."""
    slots = tuple(
        (
            stage.kind.name,
            attributes_key(stage.attributes),
            tuple(numbering.name_constant(one) for one in stage.operands.values()),
        )
        for _, stage in layer.epilogue
    )
    return (layer.kind.name, attributes_key(layer.attributes), slots)


def group(first: Sequence[Layer], second: Sequence[Layer], renamed: Mapping[int, int]) -> Iterable[Apart]:
    """Yield the layers that have no partner, those that one another reads together."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents.setdefault(name, name) != name:
            name = parents[name]
        return name

    unchanged: Mapping[int, int] = {}
    sides = ((first, unchanged), (second, renamed))
    for layers, names in sides:
        made = {result.name for layer in layers for result in layer.results}
        for layer in layers:
            own = root(base_of(layer.name, names))
            for value in layer.bottoms:
                if value.name in made:
                    parents[root(base_of(value.name, names))] = own
    groups: dict[str, tuple[list[Layer], list[Layer]]] = {}
    for place, (layers, names) in enumerate(sides):
        for layer in layers:
            groups.setdefault(root(base_of(layer.name, names)), ([], []))[place].append(layer)
    for one, other in groups.values():
        yield Apart(tuple(one), tuple(other))
