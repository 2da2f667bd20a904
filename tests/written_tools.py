"""What is simulated is what is emitted: programs of a graph and of what was read back after it was written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

import aneforge as af
from aneforge.commands.compiling import EMITTERS, compile_form
from aneforge.compiler.pipeline import PIPELINE
from aneforge.compiler.retarget import retarget
from aneforge.errors import AneforgeError
from aneforge.formats.mil.program import load_mil
from aneforge.graph.graph import INPUT, Graph
from aneforge.graph.node import Argument, Value, build
from aneforge.graph.precision import to_fp16
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Dense
from aneforge.ops.sampling import RandomChooser
from aneforge.ops.signature import OperandKind
from aneforge.ops.types import numpy_dtype
from aneforge.targets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from aneforge.commands.compiling import Emitter
    from aneforge.compiler.ir.program import Program
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
    """The writer refuses the operation, or the target what would be written, with an error of ours."""
    NOT_COMPILED = "not compiled"
    """The target refuses the graph, as it is written."""
    NOT_AGAIN = "not compiled again"
    """The target refuses what was read back, and had taken the graph."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A format: the graph that `compile --emit` reports on, and what a file of it reads as."""

    emitter: Emitter
    again: Callable[[Path], Graph]


WRITERS: Mapping[str, Writer] = {
    "MIL text": Writer(EMITTERS["mil"], lambda path: load_mil(path).graph()),
    "ML package": Writer(EMITTERS["mlpackage"], af.load_model),
    "network description": Writer(EMITTERS["netplist"], af.load_netplist),
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


def bits_of(program: Program, inputs: Mapping[str, Array]) -> dict[str, bytes]:
    """Return the bytes of the outputs of a program; random masks are ones."""
    values = {
        port.name: np.asarray(inputs.get(port.name, np.ones(port.value.type.shape)))
        .astype(numpy_dtype(port.value.type.dtype))
        .reshape(port.value.type.shape)
        for port in program.inputs
    }
    return {name: np.ascontiguousarray(value).tobytes() for name, value in af.run(program, values).outputs.items()}


def outcome_of(drawn: Drawn, writer: Writer, target: str, folder: Path) -> Outcome:
    """Compile and write as `compile --emit` does, compile what is read back, run both, and compare their bits."""
    resolved = resolve(target)
    try:
        retarget(drawn.graph, resolved)
    except AneforgeError:
        return Outcome.NOT_COMPILED
    try:
        made = compile_form(drawn.graph, resolved, writer.emitter.form, PIPELINE, PIPELINE.run)
        written = writer.emitter.write(made.retargeted, made.program, folder / "model.mlpackage").path
        assert written is not None
        again = writer.again(written)
    except AneforgeError:
        return Outcome.NOT_WRITTEN
    if made.notes or not again.inputs:  # a state that a constant overwrites: nothing that goes in comes out
        return Outcome.NOT_COMPILED
    try:
        expected = bits_of(made.program, drawn.inputs)
    except AneforgeError:  # no source gives its mathematics
        return Outcome.NOT_COMPILED
    try:
        program = af.build_program(again, target)
    except AneforgeError:
        return Outcome.NOT_AGAIN
    found = bits_of(program, drawn.inputs)
    return Outcome.SAME if list(found.values()) == list(expected.values()) else Outcome.DIFFERENT
