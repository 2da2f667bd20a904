"""A graph as text, for people; `parsing` reads it back exactly.

One line per node: result, operation, operands by name, attributes that differ from their defaults, types, place.
Constants are outside the text, by symbol; a line at the end gives each one's type, encoding and hash. A weight without
values is all there in its line: `constant @c1 : fp16[4, 4] int8 without values "q_proj"`.

    graph {
      %0 = input() {shape = [1, 4], dtype = "fp16"} : fp16[1, 4]
      %1 = add(x = %0, y = @c0) : fp16[1, 4] at "model.py" line 3
      %2 = split(x = %1) {num_splits = 2, axis = 1} : fp16[1, 2], fp16[1, 2]
      return y = %2#1
      constant @c0 : fp16[1, 4] dense sha256:…
    }

The body of a loop is a block of its own, whose numbers begin again; its inputs are called after the operands that feed
them, and constants are those of the whole graph.

      %2 = scan(states = [%0], rows = [%1], fixed = []) : fp16[4] {
        %0 = input() {shape = [4], dtype = "fp16", name = "state0"} : fp16[4]
        %1 = input() {shape = [4], dtype = "fp16", name = "row0"} : fp16[4]
        %2 = add(x = %0, y = %1) : fp16[4]
        return y0 = %2
      }
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING

from aneforge.graph.node import Output
from aneforge.ops.body import Body
from aneforge.ops.declared import Declared
from aneforge.ops.signature import AttributeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.errors import Location
    from aneforge.graph.graph import Graph
    from aneforge.graph.node import Argument, Value
    from aneforge.ops.constant import Constant
    from aneforge.ops.definition import Definition
    from aneforge.ops.signature import AttributeValue

__all__ = ["attribute_text", "attributes_text", "constant_text", "graph_text", "place_text"]

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
KEYWORDS = {"at", "constant", "false", "graph", "line", "node", "none", "return", "true", "write"}


def graph_text(graph: Graph) -> str:
    """Return a graph as text."""
    symbols = {constant: symbol for symbol, constant in graph.constants.items()}
    lines = ["graph {", *block_lines(graph, symbols)]
    for symbol, constant in graph.constants.items():
        lines.append(f"  constant @{symbol} : {constant_text(constant)}")
    return "\n".join([*lines, "}"]) + "\n"


def block_lines(graph: Graph, symbols: Mapping[Constant, str]) -> list[str]:
    """Return the lines of nodes and results; numbers are the block's own, symbols those of the whole graph."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}

    def value_text(value: Value) -> str:
        return output_text(value) if isinstance(value, Output) else f"@{symbols[value]}"

    def output_text(output: Output) -> str:
        several = len(output.node.types) > 1
        return f"%{numbers[output.node]}" + (f"#{output.index}" if several else "")

    def argument_text(argument: Argument) -> str:
        if isinstance(argument, tuple):
            return f"[{', '.join(map(value_text, argument))}]"
        return value_text(argument)

    lines: list[str] = []
    for node, number in numbers.items():
        operands = ", ".join(f"{name} = {argument_text(argument)}" for name, argument in node.operands.items())
        types = ", ".join(map(str, node.types))
        attributes, place = attributes_text(node.op, node.attributes), place_text(node.location)
        line = f"  %{number} = {node.op.name}({operands}){attributes} : {types}{place}"
        if node.body is None:
            lines.append(line)
            continue
        from aneforge.graph.bodies import graph_of  # noqa: PLC0415 - it makes graphs, whose module imports this one

        lines += [f"{line} {{", *(f"  {inner}" for inner in block_lines(graph_of(node.body), symbols)), "  }"]
    returned = ", ".join(f"{name_text(name)} = {output_text(output)}" for name, output in graph.outputs.items())
    lines.append(f"  return {returned}".rstrip())
    lines.extend(f"  write {name_text(name)} = {output_text(output)}" for name, output in graph.states.items())
    return lines


def constant_text(constant: Constant) -> str:
    """Return which constant a symbol stands for: by its hash, or a weight without values by its name."""
    if not isinstance(constant, Declared):
        return f"{constant.type} {constant.encoding} sha256:{constant.digest}"
    name = f" {json.dumps(constant.name)}" if constant.name else ""
    return f"{constant.type} {constant.encoding} without values{name}"


def attributes_text(definition: Definition, values: Mapping[str, AttributeValue]) -> str:
    """Return the attributes that differ from their defaults; a body has lines of its own."""
    own = [
        f"{attribute.name} = {attribute_text(values[attribute.name])}"
        for attribute in definition.attributes
        if attribute.kind is not AttributeKind.BODY and repr(values[attribute.name]) != repr(attribute.default)
    ]
    return f" {{{', '.join(own)}}}" if own else ""


def attribute_text(value: AttributeValue) -> str:
    """Return an attribute's value; numbers keep every bit."""
    match value:
        case None | Body():
            return "none" if value is None else repr(value)
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value)
        case float():
            return number_text(value)
        case int():
            return str(value)
        case _:
            return f"[{', '.join(attribute_text(item) for item in value)}]"


def number_text(value: float) -> str:
    """Return a number with a point, which distinguishes it from an integer."""
    if math.isnan(value):
        return "nan.0"
    if math.isinf(value):
        return "inf.0" if value > 0 else "-inf.0"
    return repr(value)


def place_text(place: Location | None) -> str:
    """Return where the user made a node."""
    if place is None:
        return ""
    file = f" {json.dumps(place.file)}" if place.file is not None else ""
    line = f" line {place.line}" if place.line is not None else ""
    name = f" node {json.dumps(place.node)}" if place.node is not None else ""
    return f" at{file}{line}{name}" if file or line or name else ""


def name_text(name: str) -> str:
    """Return the name of an output or state; a word of the grammar, or what is not a plain word, is quoted."""
    return name if PLAIN_NAME.fullmatch(name) and name not in KEYWORDS else json.dumps(name)
