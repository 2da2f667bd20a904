"""What is simulated is what is emitted: programs of a graph and of what was read back after it was written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.errors import AneforgeError
from aneforge.formats.mil.program import load_mil
from aneforge.formats.mlpackage.element_types import in_package_types
from aneforge.formats.mlpackage.package import in_package_form
from aneforge.formats.netplist.reading import parse_netplist
from aneforge.formats.netplist.writing import netplist
from aneforge.graph.graph import INPUT, Graph
from aneforge.graph.node import Argument, Value, build
from aneforge.graph.precision import to_fp16
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.sampling import RandomChooser
from aneforge.ops.signature import OperandKind
from aneforge.ops.types import numpy_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from aneforge.ops.op import Op
    from aneforge.ops.sampling import Fill
    from aneforge.ops.types import Array

FAMILIES = ("h13", "h14", "h15", "h16g", "h17", "h18g")
"""A target of every family that runs MIL programs."""


class Outcome(StrEnum):
    """What came of one graph."""

    SAME = "same"
    DIFFERENT = "different"
    NOT_WRITTEN = "not written"
    """The writer refuses the operation, with an error of ours."""
    NOT_COMPILED = "not compiled"
    """The target refuses the graph, as it is written."""
    NOT_AGAIN = "not compiled again"
    """The target refuses what was read back, and had taken what was written."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A format: the graph that a model on its way is compiled from, and what a file of it reads as."""

    form: Callable[[Graph], Graph]
    again: Callable[[Graph, Path], Graph]


def mil_again(graph: Graph, folder: Path) -> Graph:
    """Write MIL text and read it."""
    af.save_mil(graph, folder)
    return load_mil(folder).graph()


def package_again(graph: Graph, folder: Path) -> Graph:
    """Write an ML package and read it."""
    return af.load_model(af.save_mlpackage(graph, folder / "model.mlpackage"))


def netplist_again(graph: Graph, folder: Path) -> Graph:
    """Write a network description and read it."""
    return af.load_netplist(af.save_netplist(graph, folder))


def described(graph: Graph) -> Graph:
    """Return the graph that a network description says: four axes, broadcasts and views spelled out."""
    written = netplist(graph)
    return parse_netplist(written.data(), written.weights)


WRITERS: Mapping[str, Writer] = {
    "MIL text": Writer(lambda graph: graph, mil_again),
    "ML package": Writer(lambda graph: in_package_form(in_package_types(graph).graph), package_again),
    "network description": Writer(described, netplist_again),
}


@dataclass(frozen=True, slots=True)
class Drawn:
    """A graph in fp16 and values for its inputs."""

    graph: Graph
    inputs: Mapping[str, Array]


def draw_call(op: Op, seed: int) -> Drawn:
    """Draw a graph of one operation, in the element types of the engine."""
    generator = np.random.default_rng([seed, *op.name.encode()])
    chooser = RandomChooser(generator)
    sample = op.sample(chooser)
    inputs: dict[str, Array] = {}

    def value(fill: Fill, kind: OperandKind) -> Value:
        if kind is OperandKind.CONSTANT or (kind is OperandKind.EITHER and inputs and chooser.choose([True, False])):
            return Dense(fill.values(generator).astype(numpy_dtype(fill.type.dtype)))
        name = f"x{len(inputs)}"
        inputs[name] = fill.values(generator)
        return Tensor(build(INPUT, {}, {"shape": fill.type.shape, "dtype": fill.type.dtype, "name": name}))

    operands: dict[str, Argument | None] = {}
    for operand in op.operands:
        fill = sample.operands.get(operand.name)
        if isinstance(fill, tuple):
            operands[operand.name] = tuple(value(one, operand.kind) for one in fill)
        elif fill is not None:
            operands[operand.name] = value(fill, operand.kind)
    node = build(op, operands, sample.attributes)
    graph = to_fp16(Graph({f"y{index}": Tensor(node, index) for index in range(len(node.types))})).graph
    return Drawn(graph, {name: inputs[name] for name in graph.inputs})


def bits_of(graph: Graph, inputs: Mapping[str, Array], target: str) -> dict[str, bytes]:
    """Return the bytes of the outputs of a graph that is compiled for a target; random masks are ones."""
    program = af.build_program(graph, target)
    values = {
        port.name: np.asarray(inputs.get(port.name, np.ones(port.value.type.shape)))
        .astype(numpy_dtype(port.value.type.dtype))
        .reshape(port.value.type.shape)
        for port in program.inputs
    }
    return {name: np.ascontiguousarray(value).tobytes() for name, value in af.run(program, values).outputs.items()}


def outcome_of(drawn: Drawn, writer: Writer, target: str, folder: Path) -> Outcome:
    """Compile what is written and what is read back, run both, and compare their bits."""
    try:
        written = writer.form(drawn.graph)
        again = writer.again(written, folder)
    except AneforgeError:
        return Outcome.NOT_WRITTEN
    try:
        expected = bits_of(written, drawn.inputs, target)
    except AneforgeError:
        return Outcome.NOT_COMPILED
    try:
        found = bits_of(again, drawn.inputs, target)
    except AneforgeError:
        return Outcome.NOT_AGAIN
    return Outcome.SAME if list(found.values()) == list(expected.values()) else Outcome.DIFFERENT
