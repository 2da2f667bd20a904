"""Reads the text form of a graph back, exactly; `printing` says what it looks like."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast

import lark

from aneforge.errors import GraphError, Location
from aneforge.graph.graph import Graph
from aneforge.graph.node import build
from aneforge.graph.tensor import Tensor
from aneforge.ops.types import TensorType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aneforge.graph.node import Argument, Node, Output, Value
    from aneforge.ops.constant import Constant
    from aneforge.ops.signature import AttributeValue

__all__ = ["parse_graph"]

GRAMMAR = r"""
    start: "graph" "{" node* returned write* constant* "}"
    node: "%" WHOLE "=" NAME "(" operands ")" attributes ":" types place
    operands: [operand ("," operand)*]
    operand: NAME "=" (output | symbol | list)
    list: "[" [(output | symbol) ("," (output | symbol))*] "]"
    output: "%" WHOLE ["#" WHOLE]
    symbol: "@" NAME
    attributes: ["{" attribute ("," attribute)* "}"]
    attribute: NAME "=" literal
    ?literal: NAME -> word | STRING -> text | FLOAT -> number | WHOLE -> whole | literals
    literals: "[" [literal ("," literal)*] "]"
    types: type ("," type)*
    type: NAME "[" [WHOLE ("," WHOLE)*] "]"
    place: ["at" [STRING] ["line" WHOLE] ["node" STRING]]
    returned: "return" [named ("," named)*]
    write: "write" named
    named: (NAME | STRING) "=" output
    constant: "constant" "@" NAME ":" type NAME "sha256" ":" HASH

    NAME: /[A-Za-z_][A-Za-z0-9_]*/
    HASH.3: /[0-9a-f]{64}/
    FLOAT.2: /-?(inf|nan)\.0|-?\d+(\.\d+([eE][+-]?\d+)?|[eE][+-]?\d+)/
    WHOLE.1: /-?\d+/
    STRING: /"([^"\\\n]|\\.)*"/
    %import common.WS
    %ignore WS
"""

Tree = lark.Tree[lark.Token]
WORDS: dict[str, AttributeValue] = {"none": None, "true": True, "false": False}


class TextParser(Protocol):
    """What is needed of lark here, typed."""

    def parse(self, text: str) -> Tree:
        """Return the tree of a text."""
        ...


@cache
def parser() -> TextParser:
    """Return the parser of the text form."""
    return cast("TextParser", lark.Lark(GRAMMAR, parser="lalr", maybe_placeholders=True))


def parse_graph(text: str, constants: Mapping[str, Constant]) -> Graph:
    """Read a graph back from its text.

    Raises:
        GraphError: The text is not a graph, or a constant is missing or not the one that was meant.
    """
    try:
        tree = parser().parse(text)
    except lark.exceptions.UnexpectedInput as error:
        place = Location("graph text", getattr(error, "line", None))
        raise GraphError(f"this is not a graph:\n{error.get_context(text)}", location=place) from None
    return Reader(constants).graph(tree)


class Reader:
    """Turns a parsed text into a graph."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        self.constants = constants
        self.nodes: dict[int, Node] = {}

    def graph(self, tree: Tree) -> Graph:
        """Return the whole graph."""
        outputs: dict[str, Output] = {}
        states: dict[str, Output] = {}
        for line in subtrees(tree):
            match line.data:
                case "node":
                    self.node(line)
                case "returned":
                    outputs.update(self.named(one) for one in subtrees(line))
                case "write":
                    states.update(self.named(one) for one in subtrees(line))
                case _:
                    self.check_constant(line)
        return Graph(outputs, states)

    def node(self, line: Tree) -> None:
        """Read one node and check that its types are those that its operation gives."""
        number, name = tokens(line)
        operands, attributes, types, place = subtrees(line)
        location = place_of(place)
        made = build(
            name,
            {tokens(one)[0]: self.argument(subtrees(one)[0]) for one in subtrees(operands)},
            {tokens(one)[0]: literal(subtrees(one)[0]) for one in subtrees(attributes)},
            location or Location(),
        )
        made = dataclasses.replace(made, location=location)
        written = tuple(map(type_of, subtrees(types)))
        if made.types != written:
            seen, given = (", ".join(map(str, one)) for one in (written, made.types))
            raise GraphError("the types are not those that the operation gives", operation=name, seen=seen, limit=given)
        if int(number) in self.nodes:
            raise GraphError(f"%{number} is defined twice", operation=name)
        self.nodes[int(number)] = made

    def argument(self, tree: Tree) -> Argument:
        """Read one operand."""
        if tree.data == "list":
            return tuple(self.value(one) for one in subtrees(tree))
        return self.value(tree)

    def value(self, tree: Tree) -> Value:
        """Read one value: a node's, or a constant."""
        return self.constant(tokens(tree)[0]) if tree.data == "symbol" else self.output(tree)

    def output(self, tree: Tree) -> Tensor:
        """Read one value of a node that stands before."""
        number, *index = (int(token) for token in tokens(tree))
        if number not in self.nodes:
            raise GraphError(f"%{number} is used before it is defined")
        result = index[0] if index else 0
        if result >= len(self.nodes[number].types):
            raise GraphError(f"%{number} has no result {result}", limit=len(self.nodes[number].types) - 1)
        return Tensor(self.nodes[number], result)

    def constant(self, symbol: str) -> Constant:
        """Return the constant that a symbol stands for."""
        if symbol not in self.constants:
            raise GraphError(f"constant @{symbol} is not given", limit=", ".join(self.constants) or "no constants")
        return self.constants[symbol]

    def check_constant(self, line: Tree) -> None:
        """Check that the constant given for a symbol is the one that was meant."""
        symbol, _, digest = tokens(line)
        if self.constant(symbol).digest != digest:
            raise GraphError(f"constant @{symbol} is not the one of the text", seen=self.constant(symbol).digest)

    def named(self, tree: Tree) -> tuple[str, Tensor]:
        """Read a named output or state."""
        name = tokens(tree)[0]
        return (json.loads(name) if name.startswith('"') else name), self.output(subtrees(tree)[0])


def subtrees(tree: Tree) -> list[Tree]:
    """Return the parts of a tree that are trees themselves."""
    return [child for child in tree.children if isinstance(child, lark.Tree)]


def tokens(tree: Tree) -> list[str]:
    """Return the words of a tree, those that are absent left out."""
    return [str(child) for child in tree.children if isinstance(child, lark.Token)]


def type_of(tree: Tree) -> TensorType:
    """Read a tensor type."""
    dtype, *shape = tokens(tree)
    return TensorType(tuple(map(int, shape)), dtype)


def literal(tree: Tree) -> object:
    """Read an attribute's value."""
    words = tokens(tree)
    match tree.data:
        case "literals":
            return [literal(one) for one in subtrees(tree)]
        case "text":
            return cast("str", json.loads(words[0]))
        case "number":
            return float(words[0].removesuffix(".0") if words[0].lstrip("-")[0] in "in" else words[0])
        case "whole":
            return int(words[0])
        case _ if words[0] in WORDS:
            return WORDS[words[0]]
        case _:
            raise GraphError("this is no value of an attribute", seen=words[0], limit="none, true, false")


def place_of(tree: Tree) -> Location | None:
    """Read where the user made a node."""
    file, line, node = tree.children or (None, None, None)
    if file is line is node is None:
        return None
    return Location(
        None if file is None else cast("str", json.loads(str(file))),
        None if line is None else int(str(line)),
        None if node is None else cast("str", json.loads(str(node))),
    )
