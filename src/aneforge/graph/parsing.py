"""Reads the text form of a graph back, exactly; `printing` says what it looks like.

The text is read line by line, each line with a rule of the grammar for its kind, so that memory follows the longest
line and every error names its line; a line that opens the body of a loop ends with a brace. The end of a node's line
(attributes, types, place) is alike for many nodes and is looked at once for those.
"""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import lark

from aneforge.errors import AneforgeError, GraphError, GraphTypeError, Location
from aneforge.graph.graph import Graph
from aneforge.graph.node import new_node
from aneforge.graph.printing import constant_text
from aneforge.graph.tensor import Tensor
from aneforge.ops.constant import Constant
from aneforge.ops.declared import Declared, declare
from aneforge.ops.signature import AttributeKind
from aneforge.ops.table import find_op
from aneforge.ops.types import TensorType
from aneforge.records import dataclass

if TYPE_CHECKING:
    from aneforge.graph.node import Argument, Node, Output, Value
    from aneforge.ops.body import Body
    from aneforge.ops.signature import AttributeValue

__all__ = ["parse_graph"]

GRAMMAR = r"""
    opening: "graph" "{"
    call: VALUE "=" NAME "(" [operand ("," operand)*] ")"
    operand: NAME "=" (VALUE | SYMBOL | list)
    list: "[" [(VALUE | SYMBOL) ("," (VALUE | SYMBOL))*] "]"
    description: attributes ":" types place
    attributes: ["{" attribute ("," attribute)* "}"]
    attribute: NAME "=" (literal | literals)
    literal: NAME | STRING | FLOAT | WHOLE
    literals: "[" [literal ("," literal)*] "]"
    types: TYPE ("," TYPE)*
    place: ["at" [STRING] ["line" WHOLE] ["node" STRING]]
    returned: "return" [named ("," named)*]
    written: "write" named
    named: (NAME | STRING) "=" VALUE
    constant: "constant" SYMBOL ":" TYPE NAME (DIGEST | ABSENT [STRING])
    closing: "}"

    NAME: /[A-Za-z_][A-Za-z0-9_]*/
    VALUE: /%[0-9]+(#[0-9]+)?/
    SYMBOL: /@[A-Za-z_][A-Za-z0-9_]*/
    TYPE: /[a-z][a-z0-9]*\[([0-9]+([ \t]*,[ \t]*[0-9]+)*)?\]/
    DIGEST: /sha256:[0-9a-f]{64}/
    ABSENT.3: /without[ \t]+values/
    FLOAT.2: /-?(inf|nan)\.0|-?[0-9]+(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)/
    WHOLE.1: /-?[0-9]+/
    STRING: /"([^"\\\n]|\\.)*"/
    %ignore /[ \t\r]+/
"""

Tree = lark.Tree[lark.Token]
T = TypeVar("T")
WORDS: dict[str, AttributeValue] = {"none": None, "true": True, "false": False}
BEGINNING = re.compile(r"graph\b|%|return\b|write\b|constant\b|}", re.ASCII)
RULES = {
    "graph": "opening",
    "%": "call",
    "return": "returned",
    "write": "written",
    "constant": "constant",
    "}": "closing",
}
"""The rule for a line, by how it begins."""
FOLLOWS = {
    "opening": {""},
    "call": {"opening", "call"},
    "returned": {"opening", "call"},
    "written": {"returned", "written"},
    "constant": {"returned", "written", "constant"},
    "closing": {"returned", "written", "constant"},
}
"""The kinds of lines after which a line of each kind may be."""
BLANKS = " \t\r\n"
WITHOUT_VALUES = re.compile(r"\s*constant\s+@(?P<symbol>\w+)\s*:[^\"]*\bwithout[ \t]+values\b", re.ASCII)
SHOWN = 40
"""Characters of a line that a syntax error shows on each side."""
DESCRIPTIONS_KEPT = 1024


class TextParser(Protocol):
    """What is needed of lark here, typed."""

    def parse(self, text: str, start: str) -> Tree:
        """Return the tree of a text."""
        ...


@dataclass(frozen=True, slots=True)
class Description:
    """What a node's line says after the operands."""

    attributes: Mapping[str, object]
    types: tuple[TensorType, ...]
    place: Location | None


class Block:
    """What the lines of one block defined so far: the whole graph, or the body of a loop in it."""

    def __init__(self, begins: str = "", opens: Callable[[Body], None] | None = None) -> None:
        self.before = begins
        """The kind of the line before."""
        self.opens = opens
        """Makes the node whose body it is; None for the whole graph."""
        self.nodes: dict[int, Node] = {}
        self.outputs: dict[str, Output] = {}
        self.states: dict[str, Output] = {}


@cache
def parser() -> TextParser:
    """Return the parser of the text form."""
    rules = ["description", *RULES.values()]
    return cast("TextParser", lark.Lark(GRAMMAR, parser="lalr", start=rules, maybe_placeholders=True))


def parse_graph(text: str, constants: Mapping[str, Constant]) -> Graph:
    """Read a graph back from its text.

    Raises:
        GraphError: The text is not a graph, or a constant is missing or not the one that was meant.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError("a graph is read from text", seen=type(text).__name__)
    if not isinstance(constants, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        raise GraphTypeError("constants are given by their symbols", seen=type(constants).__name__)
    return Reader(constants).graph(text)


class Reader:
    """Reads the lines of a text and holds what they defined so far."""

    def __init__(self, constants: Mapping[str, Constant]) -> None:
        self.given = constants
        self.known = dict(constants)
        """The constants that were given, and the weights without values that the text itself declares."""
        self.description = lru_cache(DESCRIPTIONS_KEPT)(description_of)
        self.number = 1
        """The line that is read, for errors."""
        self.blocks = [Block()]
        """The graph, and the bodies within which the line is, the innermost last."""
        self.used: dict[str, int] = {}
        """The symbols of constants, each with the line of its first use."""
        self.declared: set[str] = set()

    @property
    def block(self) -> Block:
        """The block within which the line is."""
        return self.blocks[-1]

    def graph(self, text: str) -> Graph:
        """Return the whole graph."""
        try:
            self.declare_weights(text)
            for number, line in enumerate(io.StringIO(text), 1):
                if stripped := line.strip(BLANKS):
                    self.number = number
                    self.line(stripped)
            if self.block.before != "closing":
                raise GraphError("this is not a graph: the text ends before its closing brace")
            return Graph(self.block.outputs, self.block.states)
        except AneforgeError as error:
            error.location = Location("graph text", self.number)
            raise

    def declare_weights(self, text: str) -> None:
        """Make the weights without values, which the lines at the end declare, unless they are given."""
        for number, line in enumerate(io.StringIO(text), 1):
            if (found := WITHOUT_VALUES.match(line)) and found["symbol"] not in self.known:
                self.number = number
                _, kind, encoding, _, *name = tokens(parsed(line.strip(BLANKS), "constant"))
                called = text_of(name[0]) if name else ""
                declared = type_of(kind)
                self.known[found["symbol"]] = declare(declared.shape, declared.dtype, encoding, name=called)

    def line(self, line: str) -> None:
        """Read one line."""
        beginning = BEGINNING.match(line)
        if beginning is None:
            raise not_a_graph(line, 0)
        rule = RULES[beginning[0]]
        block = self.block
        if block.before not in FOLLOWS[rule] or (rule == "constant" and block.opens is not None):
            raise GraphError(f"this is not a graph, the line does not belong here:\n{excerpt(line, 0)}")
        block.before = rule
        if rule == "call":
            self.node(line)
            return
        tree = parsed(line, rule)
        match rule:
            case "returned":
                for named in subtrees(tree):
                    self.add_port("output", block.outputs, named)
            case "written":
                self.add_port("state", block.states, subtrees(tree)[0])
            case "constant":
                self.check_constant(tree)
            case "closing" if block.opens is not None:
                from aneforge.graph.bodies import body_of  # noqa: PLC0415 - few graphs have loops

                self.blocks.pop()
                block.opens(body_of(Graph(block.outputs, block.states)))
            case "closing":
                self.check_declared()
            case _:
                pass

    def node(self, line: str) -> None:
        """Read one node and check that its types are those that its operation gives."""
        end = line.find(")") + 1 or len(line)
        call = parsed(line[:end], "call")
        opens = line.endswith("{")
        described = self.description(line[end:].removesuffix("{"))
        value, name = tokens(call)
        number, index = numbers(value)
        if index is not None:
            raise GraphError("a node is defined by its number only", operation=name, seen=value, limit=f"%{number}")
        if number in self.block.nodes:
            raise GraphError(f"%{number} is defined twice", operation=name)
        operands = unique("operand", [(tokens(one)[0], self.argument(one)) for one in subtrees(call)])
        if not opens:
            self.block.nodes[number] = node_of(name, operands, described)
            return
        around, at = self.block, self.number

        def close(body: Body) -> None:
            self.number = at
            around.nodes[number] = node_of(name, operands, described, body)

        self.blocks.append(Block("opening", close))

    def argument(self, operand: Tree) -> Argument:
        """Read one operand."""
        listed = subtrees(operand)
        return tuple(map(self.value, tokens(listed[0]))) if listed else self.value(tokens(operand)[1])

    def value(self, word: str) -> Value:
        """Read one value: a node's, or a constant."""
        return self.output(word) if word.startswith("%") else self.constant(word[1:])

    def output(self, word: str) -> Tensor:
        """Read one value of an earlier node."""
        number, index = numbers(word)
        nodes = self.block.nodes
        if number not in nodes:
            raise GraphError(f"%{number} is used before it is defined")
        results = len(nodes[number].types)
        if (index or 0) >= results:
            raise GraphError(f"%{number} has no result {index}", limit=results - 1)
        return Tensor(nodes[number], index or 0)

    def constant(self, symbol: str) -> Constant:
        """Return the constant that a symbol stands for."""
        if symbol not in self.known:
            raise GraphError(f"constant @{symbol} is not given", limit=", ".join(self.given) or "no constants")
        constant = self.known[symbol]
        if not isinstance(constant, Constant):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise GraphTypeError(f"@{symbol} is given something that is not a constant", seen=type(constant).__name__)
        self.used.setdefault(symbol, self.number)
        return constant

    def check_constant(self, tree: Tree) -> None:
        """Check that a constant is used, and that what is given for its symbol is the one that was meant."""
        word, kind, encoding, digest, *name = tokens(tree)
        symbol = word[1:]
        if symbol not in self.used:
            raise GraphError(f"constant {word} is never used")
        if symbol in self.declared:
            raise GraphError(f"constant {word} is declared twice")
        self.declared.add(symbol)
        expect_meant(word, self.known[symbol], (kind, encoding, digest, *name))

    def check_declared(self) -> None:
        """Check that every constant that is used has its line."""
        for symbol, number in self.used.items():
            if symbol not in self.declared:
                self.number = number
                raise GraphError(f"constant @{symbol} has no line at the end that says which it is")

    def add_port(self, what: str, ports: dict[str, Output], named: Tree) -> None:
        """Read a named output or state."""
        word, value = tokens(named)
        name = text_of(word) if word.startswith('"') else word
        if name in ports:
            raise GraphError(f"two {what}s are called {name!r}")
        ports[name] = self.output(value)


def node_of(name: str, operands: Mapping[str, Argument], described: Description, body: Body | None = None) -> Node:
    """Return a node as its line describes it, with the body that follows the line of a loop.

    Raises:
        GraphError: The operation is not called so, gives other types, or repeats no body.
    """
    entry = find_op(name)
    bodies = {one.name: body for one in entry.attributes if one.kind is AttributeKind.BODY and body is not None}
    if body is not None and not bodies:
        raise GraphError("the operation repeats no body, and one follows", operation=name)
    attributes = {**described.attributes, **bodies}
    made = new_node(entry, operands, entry.attributes_by_name(name, attributes), described.place)
    if made.types != described.types:
        seen, given = (", ".join(map(str, types)) for types in (described.types, made.types))
        raise GraphError("the types are not those that the operation gives", operation=name, seen=seen, limit=given)
    return made


def expect_meant(symbol: str, constant: Constant, words: Sequence[str]) -> None:
    """Check that a constant is the one that a line declares: type, encoding, then hash or name.

    Raises:
        GraphError: It is another one.
    """
    kind, encoding, digest, *name = words
    if isinstance(constant, Declared):
        absent = not digest.startswith("sha256:")
        same = absent and (text_of(name[0]) if name else "") == constant.name
    else:
        same = digest == f"sha256:{constant.digest}"
    if not same or (type_of(kind), encoding) != (constant.type, constant.encoding):
        limit = " ".join(words)
        raise GraphError(f"constant {symbol} is not the one of the text", seen=constant_text(constant), limit=limit)


def parsed(text: str, rule: str) -> Tree:
    """Return the tree of a line, or of a part of one.

    Raises:
        GraphError: It is not what the rule says.
    """
    try:
        return parser().parse(text, rule)
    except lark.exceptions.UnexpectedInput as error:
        raise not_a_graph(text, error.pos_in_stream or 0) from None


def not_a_graph(line: str, column: int) -> GraphError:
    """Return the error for a line that breaks the grammar at a column."""
    return GraphError(f"this is not a graph:\n{excerpt(line, column)}")


def excerpt(line: str, column: int) -> str:
    """Return the surroundings of a column, and a mark below it."""
    first = max(column - SHOWN, 0)
    return f"{line[first : column + SHOWN]}\n{' ' * (column - first)}^"


def description_of(text: str) -> Description:
    """Read what a node's line says after the operands."""
    attributes, types, place = subtrees(parsed(text, "description"))
    return Description(
        unique("attribute", [(tokens(one)[0], attribute_of(one)) for one in subtrees(attributes)]),
        tuple(map(type_of, tokens(types))),
        place_of(place),
    )


def unique(what: str, pairs: list[tuple[str, T]]) -> dict[str, T]:
    """Return names and values, no name twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise GraphError(f"{what} {twice!r} is given twice")
    return found


def subtrees(tree: Tree) -> list[Tree]:
    """Return the parts of a tree that are trees themselves."""
    return [child for child in tree.children if isinstance(child, lark.Tree)]


def tokens(tree: Tree) -> list[str]:
    """Return the words of a tree, those that are absent left out."""
    return [str(child) for child in tree.children if isinstance(child, lark.Token)]


def numbers(value: str) -> tuple[int, int | None]:
    """Read the number of a node, and which of its results is meant if that is said."""
    number, _, index = value[1:].partition("#")
    return whole(number), whole(index) if index else None


def whole(word: str) -> int:
    """Read an integer.

    Raises:
        GraphError: Python does not read that many digits.
    """
    try:
        return int(word)
    except ValueError:
        limit = f"{sys.get_int_max_str_digits()} digits"
        raise GraphError("the number is too long", seen=f"{len(word)} digits", limit=limit) from None


def real(word: str) -> float:
    """Read a number.

    Raises:
        GraphError: It is written as a finite one and is none.
    """
    if word.lstrip("-")[0] in "in":
        return float(word.removesuffix(".0"))
    number = float(word)
    if math.isinf(number):
        remedy = "infinity is written inf.0"
        raise GraphError("the number is too large", seen=word[:SHOWN], limit=sys.float_info.max, remedy=remedy)
    return number


def text_of(word: str) -> str:
    """Read a quoted text.

    Raises:
        GraphError: It has an escape that JSON does not know, or a control character.
    """
    try:
        return cast("str", json.loads(word))
    except ValueError as error:
        limit = "the escapes of JSON, and no control characters"
        raise GraphError(f"this text cannot be read: {error}", seen=repr(word[:SHOWN]), limit=limit) from None


def type_of(word: str) -> TensorType:
    """Read a tensor type."""
    dtype, _, extents = word.removesuffix("]").partition("[")
    return TensorType(tuple(whole(extent.strip()) for extent in extents.split(",") if extent), dtype)


def attribute_of(attribute: Tree) -> object:
    """Read an attribute's value."""
    (value,) = subtrees(attribute)
    return [literal(one) for one in subtrees(value)] if value.data == "literals" else literal(value)


def literal(tree: Tree) -> AttributeValue:
    """Read one value."""
    (token,) = tree.children
    word = str(token)
    match token:
        case lark.Token(type="STRING"):
            return text_of(word)
        case lark.Token(type="FLOAT"):
            return real(word)
        case lark.Token(type="WHOLE"):
            return whole(word)
        case _ if word in WORDS:
            return WORDS[word]
        case _:
            raise GraphError("this is not the value of an attribute", seen=word, limit="none, true, false")


def place_of(tree: Tree) -> Location | None:
    """Read where the user made a node."""
    file, line, node = tree.children or (None, None, None)
    if file is line is node is None:
        return None
    return Location(
        None if file is None else text_of(str(file)),
        None if line is None else whole(str(line)),
        None if node is None else text_of(str(node)),
    )
