"""A program as text, for people; `parsing` reads it back exactly.

A layer is a line: result, unit, kind, operands by name, attributes that differ from their defaults, types, place. The
slots of its epilogue that are filled follow, one line each in the order of application, and then what legalisation
chose. Constants are outside the text, by symbol; a line at the end gives each one's type, encoding and hash.

    program for … {
      input "x" = %x : fp16[1, 3, 8, 8]
      segment 0:
      %t1 = NE anec.convolution(input = %x, weights = @t1.weights) {strides = [1, 1], …} : fp16[1, 4, 8, 8]
        gain_offset: anec.gain_offset_control(offset = @t1.gain_offset.offset)
        post_activation: anec.relu()
        chosen: {lanes = 1}
      output "y" = %t1
      note "fuse-gain-offset" %t1 "what a reader should know"
      constant @t1.weights : fp16[4, 3, 3, 3] dense sha256:…
    }
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from aneforge.compiler.ir.kind import DIALECT
from aneforge.compiler.ir.layer import Value
from aneforge.graph.printing import attribute_text, attributes_text, constant_text, place_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from aneforge.compiler.ir.layer import Argument, Layer, Ref
    from aneforge.compiler.ir.program import Program
    from aneforge.ops.signature import AttributeValue

__all__ = ["program_outline", "program_text"]


def program_text(program: Program) -> str:
    """Return a program as text."""
    return "\n".join(lines(program)) + "\n"


def lines(program: Program) -> Iterator[str]:
    """Return the lines of a program."""
    symbols = {constant: symbol for symbol, constant in program.constants.items()}

    def ref_text(ref: Ref) -> str:
        return f"%{ref.name}" if isinstance(ref, Value) else f"@{symbols[ref]}"

    yield f"program for {program.target.name} {{"
    for port in program.inputs:
        yield f"  input {json.dumps(port.name)} = %{port.value.name} : {port.value.type}"
    for state in program.states:
        yield f"  state {json.dumps(state.name)} = %{state.read.name} : {state.read.type}"
    for segment in program.segments:
        yield f"  segment {segment.number}:"
        for layer in segment.layers:
            yield from layer_lines(layer, ref_text)
    yield from closing_lines(program)


def closing_lines(program: Program) -> Iterator[str]:
    """Return the lines after the layers: what leaves the program, what should be known, the constants."""
    for port in program.outputs:
        yield f"  output {json.dumps(port.name)} = %{port.value.name}"
    for state in program.states:
        if state.written is not None:
            yield f"  write {json.dumps(state.name)} = %{state.written.name}"
    for note in program.notes:
        layer = f" %{note.layer}" if note.layer else ""
        yield f"  note {json.dumps(note.stage)}{layer} {json.dumps(note.text)}"
    for symbol, constant in program.constants.items():
        yield f"  constant @{symbol} : {constant_text(constant)}"
    yield "}"


def layer_lines(layer: Layer, ref_text: Callable[[Ref], str]) -> Iterator[str]:
    """Return the lines of a layer."""
    results = ", ".join(f"%{result.name}" for result in layer.results)
    operands = operands_text(layer.operands, ref_text)
    attributes = attributes_text(layer.kind, layer.attributes)
    types = ", ".join(str(result.type) for result in layer.results)
    place = place_text(layer.location)
    yield f"  {results} = {layer.engine} {DIALECT}.{layer.kind.name}({operands}){attributes} : {types}{place}"
    for slot, stage in layer.epilogue:
        held = operands_text(stage.operands, ref_text)
        yield f"    {slot}: {DIALECT}.{stage.kind.name}({held}){attributes_text(stage.kind, stage.attributes)}"
    if layer.choices:
        yield f"    chosen: {{{choices_text(layer.choices)}}}"


def operands_text(operands: Mapping[str, Argument], ref_text: Callable[[Ref], str]) -> str:
    """Return operands by name."""

    def argument_text(argument: Argument) -> str:
        return f"[{', '.join(map(ref_text, argument))}]" if isinstance(argument, tuple) else ref_text(argument)

    return ", ".join(f"{name} = {argument_text(argument)}" for name, argument in operands.items())


def choices_text(choices: Mapping[str, AttributeValue]) -> str:
    """Return what was chosen."""
    return ", ".join(f"{name} = {attribute_text(value)}" for name, value in choices.items())


def program_outline(program: Program) -> str:
    """Return a program in short: a line for every layer, without constants, attributes and places.

    After the kind come what fills its slots and what was chosen for it.
    """
    found = [f"{program!r}"]
    for segment in program.segments:
        found.append(f"segment {segment.number}{' (bridge)' if segment.bridge else ''}")
        found += [f"  {outline_line(layer)}" for layer in segment.layers]
    found += [f"note {note.stage} {note.layer}: {note.text}" for note in program.notes]
    return "\n".join(found) + "\n"


def outline_line(layer: Layer) -> str:
    """Return a layer in short."""
    sources = ", ".join(value.name for value in layer.bottoms)
    slots = "".join(f" + {stage.kind.name}" for _, stage in layer.epilogue)
    chosen = f" {{{choices_text(layer.choices)}}}" if layer.choices else ""
    types = ", ".join(str(result.type) for result in layer.results)
    return f"{layer.name} = {layer.engine} {layer.kind.name}({sources}){slots}{chosen} : {types}"
