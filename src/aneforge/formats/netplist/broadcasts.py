"""Broadcasts of constants that were read, left to the operations that read them.

Elementwise units take tensors of one shape, so a description spells every broadcast out. Operations of a graph
broadcast by themselves, and the compiler knows a gain or an offset by a constant that differs along the channels alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aneforge.graph.node import Output, build
from aneforge.graph.rewrite import rewrite
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant
from aneforge.ops.op import Trait

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Node

__all__ = ["with_implicit_broadcasts"]


def with_implicit_broadcasts(graph: Graph) -> Graph:
    """Return a graph in which elementwise operations read a constant itself, not a broadcast of it."""
    return rewrite(graph, implicit) if any(node.op.name == "broadcast" for node in graph.nodes) else graph


def implicit(node: Node, operands: Mapping[str, Argument]) -> Sequence[Tensor] | None:
    """Rebuild an elementwise operation with the constants that were broadcast to it, where its result stays."""
    if Trait.ELEMENTWISE not in node.op.traits:
        return None
    direct = {name: constant_before(argument) for name, argument in operands.items()}
    if all(direct[name] is argument for name, argument in operands.items()):
        return None
    rebuilt = build(node.op, direct, node.attributes, node.location)
    return [Tensor(rebuilt)] if rebuilt.types == node.types else None


def constant_before(argument: Argument) -> Argument:
    """Return the constant that a value is a broadcast of, and any other value as it is."""
    if isinstance(argument, Output) and argument.node.op.name == "broadcast":
        source = argument.node.operands["x"]
        return source if isinstance(source, Constant) else argument
    return argument
