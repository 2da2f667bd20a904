"""What becomes of an encoded weight on a target: it streams in its encoding, folds to dense fp16, or that is not known.

The compiler decides it, layer by layer: an encoding that streams on a target still folds in a layer that streams no
weights, such as a convolution with a stride. So the one node is compiled by itself and its layers are asked.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING

from aneforge.compiler.compile import build_program
from aneforge.compiler.passes.choose_weight_stream import ChooseWeightStream
from aneforge.errors import AneforgeError
from aneforge.graph.graph import Graph
from aneforge.graph.node import Output, build
from aneforge.graph.tensor import Tensor
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.compiler.ir.program import Program
    from aneforge.graph.node import Argument, Node
    from aneforge.ops.constant import Constant
    from aneforge.targets import Target

__all__ = ["Fate", "Fates", "Verdict"]

STAGE, CHOICE = ChooseWeightStream.name, "weights"


class Fate(StrEnum):
    """What becomes of the weights of a layer."""

    STREAMS = "streams"
    FOLDS = "folds"
    UNKNOWN = "unknown"
    DENSE = "dense"
    """They are not encoded."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A fate, and why; where weights stream there is nothing to explain."""

    fate: Fate
    why: str = ""


class Fates:
    """Looks fates up, each sort of layer once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.known: dict[object, Verdict] = {}

    def of(self, node: Node, operand: str, constant: Constant) -> Verdict:
        """Return what becomes of a node's operand once it is that constant."""
        types = tuple((name, str(value.type)) for name, value in node.values())
        key = node.op.name, tuple(node.attributes.items()), types, operand, constant.encoding
        if key not in self.known:
            self.known[key] = self._compiled(node, operand, constant)
        return self.known[key]

    def _compiled(self, node: Node, operand: str, constant: Constant) -> Verdict:
        try:
            program = build_program(alone(node, operand, constant), self.target.name)
        except AneforgeError as error:  # compiling the whole graph raises it again, with what to do about it
            return Verdict(Fate.UNKNOWN, f"the layer does not compile: {error}")
        return verdict_of(program)


def alone(node: Node, operand: str, constant: Constant) -> Graph:
    """Return the graph of one node, whose tensors come from outside."""
    operands: dict[str, Argument] = {}
    for name, argument in node.operands.items():
        if name == operand:
            operands[name] = constant
        elif isinstance(argument, Output):
            shape, dtype = argument.type.shape, argument.type.dtype
            operands[name] = Tensor(build("input", {}, {"shape": shape, "dtype": dtype}, node.location))
        else:
            operands[name] = argument
    return Graph({"y": Tensor(replace(node, operands=operands), 0)})


def verdict_of(program: Program) -> Verdict:
    """Return what a program does with the weights of its products; streaming in part is folding."""
    words = {str(layer.choices[CHOICE]) for layer in program.layers if CHOICE in layer.choices}
    whys = dict.fromkeys(note.text for note in program.notes if note.stage == STAGE)
    for fate in (Fate.FOLDS, Fate.UNKNOWN, Fate.STREAMS):
        if fate in words:
            return Verdict(fate, "; ".join(whys))
    return Verdict(Fate.FOLDS, "the compiler decodes these weights before any layer reads them")
